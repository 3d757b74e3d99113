"""Checkers of the mesh of a world at rest: maps, and soft links.

Every broker must have the records that come so far, and a map of the tree as these tell it; both
ends of a soft link must agree on what it passes by, and one that nobody wants must be closed. What
the records should say is found from the tree and each broker's Δ, not from other records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from byway.core.mesh.mesh_behaviour import MeshTables
from byway.model.messages import LinkKind
from byway.sim.engine.nodes import Node
from byway.sim.topology.tree import Topology


def mesh_faults(tree: Topology, nodes: Mapping[str, Node]) -> Iterator[str]:
    """The faults in the meshes of brokers that are all up and connected, in sentences."""
    meshes = _meshes(nodes)
    yield from _map_faults(tree, nodes, meshes)
    for name in nodes:
        yield from _soft_link_faults(tree, name, nodes[name], meshes)


def _map_faults(
    tree: Topology, nodes: Mapping[str, Node], meshes: Mapping[str, MeshTables]
) -> Iterator[str]:
    deltas = {name: node.config.mesh.delta for name, node in nodes.items()}
    heard: dict[str, set[str]] = {name: set() for name in nodes}
    for name in meshes:
        for other in _hearers(tree, deltas, name):
            heard[other].add(name)
    for name, mesh in meshes.items():
        known = heard[name]
        for other in sorted(known.symmetric_difference(mesh.records)):
            verb = "lacks" if other in known else "has"
            yield f"{name} {verb} the record of {other}"
        for other in sorted(known.intersection(mesh.records)):
            if mesh.records[other] != meshes[other].own:
                yield f"{name} has an old record of {other}"
        expected = _parents(tree, known | {name}, name, deltas[name])
        found = mesh.ways_back
        for other in sorted(expected.keys() | found.keys()):
            if found.get(other) != expected.get(other):
                places = (found.get(other), expected.get(other))
                here, there = (f"behind {place}" if place else "nowhere" for place in places)
                yield f"{name} has {other} {here} on its map instead of {there}"


def _meshes(nodes: Mapping[str, Node]) -> dict[str, MeshTables]:
    """By broker, what its mesh goes by, if it has one."""
    found = {}
    for name, node in nodes.items():
        assert node.broker is not None
        tables = node.broker.mesh_tables()
        if tables is not None:
            found[name] = tables
    return found


def _hearers(tree: Topology, deltas: Mapping[str, int], of: str) -> list[str]:
    """The brokers that the record of one comes to: all that pass it on have the next one within
    their Δ, and who is told has it within its own."""
    heard = []
    reached = {of}
    ring = [of]
    hops = 0
    while ring:
        hops += 1
        relays = [broker for broker in ring if deltas[broker] >= hops]
        ring = [b for relay in relays for b in tree.neighbours(relay) if b not in reached]
        reached.update(ring)
        heard += [broker for broker in ring if deltas[broker] >= hops]
    return heard


def _parents(tree: Topology, told_by: set[str], at: str, delta: int) -> dict[str, str]:
    """By broker within Δ hops, the next one on the way back, going by the links of these brokers
    alone."""
    found: dict[str, str] = {}
    ring = [at]
    for _ in range(delta):
        further = []
        for broker in ring:
            for other in tree.neighbours(broker):
                is_told = broker in told_by or other in told_by
                if is_told and other != at and other not in found:
                    found[other] = broker
                    further.append(other)
        ring = further
    return found


def _soft_link_faults(
    tree: Topology, name: str, node: Node, meshes: Mapping[str, MeshTables]
) -> Iterator[str]:
    assert node.broker is not None
    links, mesh = node.broker.links, meshes.get(name)
    soft_links = [link for link, facts in links.items() if facts.kind is LinkKind.SOFT]
    if mesh is None:
        yield from _faults_without_mesh(name, [x for x in soft_links if links[x].up], meshes)
        return
    if sorted(soft_links) != sorted(mesh.soft):
        yield f"{name} has soft links to {sorted(soft_links)}, and its mesh to {[*mesh.soft]}"
    for link, soft in mesh.soft.items():
        where, other = f"the soft link from {name} to {link}", meshes.get(link)
        if link not in links or not links[link].up:
            yield f"{where} is down, and not given up"
        if other is None:
            if soft.taken:
                yield f"{where} is in use, and {link} has no mesh"
            continue
        if not soft.wanted and not soft.came:
            yield f"{where} is open, though nobody wants it"
        if bool(soft.path) != soft.wanted or soft.taken != soft.wanted:
            yield f"{where} is {soft.use}, and nothing goes on"
        if bool(soft.came) != soft.answered:
            yield f"{where} waits for an answer of {name}"
        if name not in other.soft or soft.path != other.soft[name].came:
            yield f"{where} passes by others than {link} was told"
        if soft.path and soft.path != tree.path(name, link)[1:-1]:
            yield f"{where} passes by {', '.join(soft.path)}, as the tree does not"


def _faults_without_mesh(
    name: str, soft_links: Iterable[str], meshes: Mapping[str, MeshTables]
) -> Iterator[str]:
    """A broker that came back without a mesh uses no soft link, and may keep the end of one that is
    down. Other behaviours than a mesh may have soft links, to brokers without one."""
    for link in soft_links:
        if link in meshes:
            end = meshes[link].soft.get(name)
            if end is None or not end.wanted or end.taken:
                yield f"{name}, which has no mesh, has a soft link to {link} that is of no use"
