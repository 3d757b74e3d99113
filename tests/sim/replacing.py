"""A broker of a world does not come back, and another one takes its place, as with `byway topology
replace`: it begins with nothing, and an operator tells the neighbours of the dead one, one by one.
Or the two neighbours of the dead broker take its place, each for the other.
"""

from collections.abc import Collection

from byway.core.broker import Broker
from byway.core.inputs import NeighbourAdded, NeighbourReplaced, NeighboursListed
from byway.model.addresses import Address, Listing, Neighbour
from byway.sim.broker_starts import BrokerStarts
from byway.sim.engine.connections import SimLink
from byway.sim.engine.nodes import Node
from byway.sim.engine.service import INSTANT
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World


def replace(world: World, dead: str, successor: str) -> Collection[str]:
    """Start a successor of a broker that is down; returns the neighbours that are to be told. The
    clients of the dead one are gone with it."""
    old = _bury(world, dead)
    node = world.nodes[successor] = world._node(successor, old.config, INSTANT)
    world._dialling[successor] = []
    names = {name: name for name in world.topology.brokers} | {dead: successor}
    links = (LinkSpec(names[x.a], names[x.b], x.latency_us) for x in world.topology.links)
    _connect_by_order_only(world, old, Topology(tuple(names.values()), tuple(links)))
    world._start(successor, Broker(successor, (), node.config, 1, trace=node.trace))
    node.handle_now(NeighboursListed(Listing()))
    node.answers = True
    return world.topology.neighbours(successor)


def contract(world: World, dead: str) -> Collection[str]:
    """A broker that is down between two others has no successor but these: returns the two, which
    are to be told, each that the other one takes the place."""
    one, other = ends = world.topology.neighbours(dead)
    latency_us = world.topology.latency_us(one, other)
    old, tree = _bury(world, dead), world.topology
    links = [link for link in tree.links if dead not in (link.a, link.b)]
    brokers = tuple(name for name in tree.brokers if name != dead)
    links.append(LinkSpec(one, other, latency_us))
    _connect_by_order_only(world, old, Topology(brokers, tuple(links)))
    return ends


def _bury(world: World, dead: str) -> Node:
    """Take away a broker that is down, and its clients."""
    world._totals.add(world._stopped.pop(dead).counters)
    for other in world.nodes:
        if other != dead:
            world._connections.of(dead, other)  # some may go on dialling it
    for client in world._dialling.pop(dead):
        client.watches[dead].on_restarted(stored=False)
        client.vanish()
    return world.nodes.pop(dead)


def tell(world: World, neighbour: str, dead: str, successor: str) -> None:
    """The command reaches a neighbour, which is up and has not forgotten the dead broker."""
    broker = world.nodes[neighbour].broker
    assert broker is not None
    reason = broker.reason_not_to_replace(dead, successor)
    assert reason == "", reason
    world.nodes[neighbour].handle_now(NeighbourReplaced(dead, successor, f"at {successor}"))


def list_neighbours(world: World, successor: str) -> None:
    """An operator lists the neighbours of the dead broker at its successor."""
    node, neighbours = world.nodes[successor], world.topology.neighbours(successor)
    for name in neighbours:
        node.handle_now(NeighbourAdded(name))
    node.handle_now(
        NeighboursListed(Listing(tuple(Neighbour(Address(n, 1), n) for n in neighbours)))
    )


def _connect_by_order_only(world: World, old: Node, tree: Topology) -> None:
    """The tree is another one; nobody dials a new neighbour before being told to, and nobody the
    dead broker after."""
    connections, before = world._connections, {(link.a, link.b) for link in world.topology.links}
    world.topology = connections._topology = tree
    world._starts = BrokerStarts(tree, (), ())
    connections._nodes = {**connections._nodes, **world.nodes, old.name: old}
    connections._places |= {name: place for place, name in enumerate(tree.brokers)}
    for spec in tree.links:
        pair = spec.a, spec.b
        if pair not in before:
            connections._unlisted |= {pair, pair[::-1]}
            if pair not in connections._links:  # there may have been one past the dead broker
                ends = connections._nodes[spec.a], connections._nodes[spec.b]
                connections._links[pair] = SimLink(*ends, spec.latency_us)
