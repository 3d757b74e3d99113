"""A broker of a world does not come back, and another one takes its place, as with `byway topology
replace`: it begins with nothing, and an operator tells the neighbours of the dead one, one by one.
"""

from collections.abc import Collection

from byway.core.broker import Broker
from byway.core.inputs import NeighbourAdded, NeighbourReplaced, NeighboursListed
from byway.model.addresses import Address, Listing, Neighbour
from byway.sim.broker_starts import BrokerStarts
from byway.sim.engine.connections import SimLink
from byway.sim.engine.service import INSTANT
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World


def replace(world: World, dead: str, successor: str) -> Collection[str]:
    """Start a successor of a broker that is down; returns the neighbours that are to be told. The
    clients of the dead one are gone with it."""
    world._totals.add(world._stopped.pop(dead).counters)
    for other in world.nodes:
        if other != dead:
            world._connections.of(dead, other)  # some may go on dialling it
    old = world.nodes.pop(dead)
    for client in world._dialling.pop(dead):
        client.watches[dead].on_restarted(stored=False)
        client.vanish()
    node = world.nodes[successor] = world._node(successor, old.config, INSTANT)
    world._dialling[successor] = []
    world.topology = _renamed(world.topology, dead, successor)
    world._starts = BrokerStarts(world.topology, (), ())
    _connect_by_order_only(world, old, successor)
    world._start(successor, Broker(successor, (), node.config, 1, trace=node.trace))
    node.handle_now(NeighboursListed(Listing()))
    node.answers = True
    return world.topology.neighbours(successor)


def tell(world: World, neighbour: str, dead: str, successor: str) -> None:
    """The command reaches a neighbour, which is up and has not forgotten the dead broker."""
    broker = world.nodes[neighbour].broker
    assert broker is not None
    assert broker.reason_not_to_replace(dead, successor) == ""
    world.nodes[neighbour].handle_now(NeighbourReplaced(dead, successor, f"at {successor}"))


def list_neighbours(world: World, successor: str) -> None:
    """An operator lists the neighbours of the dead broker at its successor."""
    node, neighbours = world.nodes[successor], world.topology.neighbours(successor)
    for name in neighbours:
        node.handle_now(NeighbourAdded(name))
    node.handle_now(
        NeighboursListed(Listing(tuple(Neighbour(Address(n, 1), n) for n in neighbours)))
    )


def _renamed(tree: Topology, dead: str, successor: str) -> Topology:
    names = {name: name for name in tree.brokers} | {dead: successor}
    links = (LinkSpec(names[link.a], names[link.b], link.latency_us) for link in tree.links)
    return Topology(tuple(names.values()), tuple(links))


def _connect_by_order_only(world: World, old, successor: str) -> None:
    """Nobody dials the successor before it has been told to, and nobody the dead broker after."""
    connections, topology = world._connections, world.topology
    connections._topology = topology
    connections._nodes = {**world.nodes, old.name: old, **connections._nodes}
    connections._nodes[successor] = world.nodes[successor]
    connections._places |= {name: place for place, name in enumerate(topology.brokers)}
    pairs = {(successor, other) for other in topology.neighbours(successor)}
    connections._unlisted |= pairs | {(other, successor) for _, other in pairs}
    for spec in topology.links:
        if successor in (spec.a, spec.b):
            ends = connections._nodes[spec.a], connections._nodes[spec.b]
            connections._links[spec.a, spec.b] = SimLink(*ends, spec.latency_us)
