"""The tree of the moment: the links that brokers hold for primary ones, which may have changed.

Checkers go by it, so a broker that moved is judged by where it is. It must be a tree, and both ends
of a link must agree that it is one; what is expected of tables is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping

from byway.model.errors import TopologyError
from byway.sim.engine.nodes import Node
from byway.sim.topology.tree import LinkSpec, Topology


def tree_of(began: Topology, nodes: Mapping[str, Node]) -> tuple[Topology | None, list[str]]:
    """The tree of brokers that are all up, and what is wrong with it, in sentences; None if it is
    no tree. Where nothing has changed it is the topology that the world began with."""
    faults: list[str] = []
    found: list[tuple[str, str]] = []
    places = {name: place for place, name in enumerate(began.brokers)}
    for name, node in nodes.items():
        assert node.broker is not None
        for other in node.broker.neighbours:
            peer = nodes[other].broker
            assert peer is not None
            if not peer.is_neighbour(name):
                faults.append(f"{other} is a neighbour of {name}, but not the other way round")
            elif places[other] > places[name]:
                found.append((name, other))
    if set(found) == {(link.a, link.b) for link in began.links}:
        return began, faults
    links = tuple(LinkSpec(a, b, began.latency_us(a, b)) for a, b in found)
    try:
        return Topology(began.brokers, links, began.roles), faults
    except TopologyError as error:
        return None, [*faults, str(error)]
