"""Transit-stub underlays: a physical network of routers, and brokers placed on it.

Transit domains form the backbone; stub domains hang from transit routers. Brokers stand on random
routers; the latency between two of them is that of the shortest path through the underlay, and an
overlay is a tree chosen over those, as in "Self-organizing topologies", here called the paper.
Everything is drawn in integers. This file does not decide when costs change in a run, nor what a
broker's processing costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from byway.model.errors import TopologyError
from byway.model.option_reading import OptionsError, Problem, check
from byway.model.options import in_order, option, within
from byway.sim.topology.shapes import broker_names, random_parents
from byway.sim.topology.tree import LatencyUs, LinkSpec, Role, Topology

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NODES_MAX: Final = 200_000

Range = tuple[int, int]
NodeCount = Annotated[int, within(1, NODES_MAX)]
OptionalCount = Annotated[int, within(0, NODES_MAX)]
LatencyRange = Annotated[tuple[LatencyUs, LatencyUs], in_order("rising")]
"""Latencies are drawn uniformly from it, both ends included."""


class UnderlayOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of an underlay, as users give them: nothing is checked.

    The default is as large as the paper's: 100 domains, 10,112 nodes.
    """

    transit_domains: Annotated[NodeCount, option("Domains of the backbone.")] = 4
    transit_nodes: Annotated[NodeCount, option("Nodes in each domain of the backbone.")] = 8
    stubs_per_transit_node: Annotated[
        OptionalCount, option("Stub domains at each transit node.")
    ] = 3
    stub_nodes: Annotated[NodeCount, option("Nodes in each stub domain.")] = 105
    domain_extra_percent: Annotated[
        int,
        within(0, 1_000),
        option(
            "Further random links per 100 nodes of a domain, and per 100 domains of the backbone; "
            "repeated ones are dropped."
        ),
    ] = 20
    extra_stub_links: Annotated[
        OptionalCount, option("Links between random nodes of different stub domains.")
    ] = 0
    backbone_latency_us: Annotated[
        LatencyRange, option("The latencies of links between transit domains.")
    ] = (20_000, 60_000)
    transit_latency_us: Annotated[
        LatencyRange, option("The latencies of links within a transit domain.")
    ] = (5_000, 20_000)
    access_latency_us: Annotated[
        LatencyRange,
        option(
            "The latencies of links from a stub domain to its transit node, and of "
            "`extra_stub_links`."
        ),
    ] = (2_000, 10_000)
    stub_latency_us: Annotated[
        LatencyRange, option("The latencies of links within a stub domain.")
    ] = (200, 2_000)

    def problems(self) -> Iterator[Problem]:
        """What parameters that are well-formed cannot be together."""
        if self.nodes > NODES_MAX:
            reason = f"these domains have {self.nodes} nodes; expected at most {NODES_MAX}"
            yield Problem("stub_nodes", reason)
        if self.extra_stub_links and self.stub_domains < 2:
            yield Problem("extra_stub_links", "expected 0 with fewer than two stub domains")

    @property
    def transit_total(self) -> int:
        """The number of transit nodes in all domains."""
        return self.transit_domains * self.transit_nodes

    @property
    def stub_domains(self) -> int:
        """The number of stub domains."""
        return self.transit_total * self.stubs_per_transit_node

    @property
    def nodes(self) -> int:
        """The number of nodes of the underlay."""
        return self.transit_total + self.stub_domains * self.stub_nodes

    def ranges(self) -> tuple[Range, Range, Range, Range]:
        """The latency range of each kind of link, by `Underlay.kinds`."""
        return (
            self.backbone_latency_us,
            self.transit_latency_us,
            self.access_latency_us,
            self.stub_latency_us,
        )


class TransitStub(UnderlayOptions, frozen=True, kw_only=True):
    """Parameters from which an underlay can be drawn. Others raise `TopologyError`.

    Each domain is a random tree with `domain_extra_percent` further links per 100 nodes, and so is
    the backbone of transit domains. `extra_stub_links` join random nodes of different stub domains.
    """

    def __post_init__(self) -> None:
        try:
            check(UnderlayOptions, msgspec.structs.asdict(self))
        except OptionsError as error:
            raise error_of(error.problems) from None
        if problems := list(self.problems()):
            raise error_of(problems)


def error_of(problems: list[Problem]) -> TopologyError:
    """One error with all that is wrong, a line each; its subject is the first key."""
    first, *others = problems
    return TopologyError(first.key, "\n".join([first.reason, *map(str, others)]))


_BACKBONE, _TRANSIT, _ACCESS, _STUB = range(4)


class Underlay(msgspec.Struct, frozen=True, eq=False):
    """Nodes 0 … nodes - 1, transit nodes first, domain by domain; links as equally long arrays.

    `kinds`: 0 between transit domains, 1 within one, 2 from a stub domain to its transit node (or
    to another stub domain), 3 within a stub domain.
    """

    parameters: TransitStub
    ends_a: Integers
    ends_b: Integers
    kinds: Integers
    latencies_us: Integers

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.parameters.nodes

    def is_transit(self, node: int) -> bool:
        """Whether a node is in a transit domain."""
        return node < self.parameters.transit_total

    def domain(self, node: int) -> int:
        """The number of a node's domain: transit domains come first, then stub domains."""
        p = self.parameters
        if self.is_transit(node):
            return node // p.transit_nodes
        return p.transit_domains + (node - p.transit_total) // p.stub_nodes

    def redrawn(self, rng: np.random.Generator) -> Underlay:
        """The same links with all latencies drawn anew (the paper's change of link costs)."""
        fresh = _draw_latencies(self.parameters, self.kinds, rng)
        return msgspec.structs.replace(self, latencies_us=fresh)

    def shortest_us(self, nodes: Iterable[int]) -> Integers:
        """The latency of the shortest path between each two of these nodes: a symmetric matrix."""
        return _shortest_between(self, list(nodes))

    def __repr__(self) -> str:
        p = self.parameters
        domains = f"{p.transit_domains} transit and {p.stub_domains} stub domains"
        return f"<Underlay of {self.nodes} nodes in {domains}, {len(self.ends_a)} links>"


class Placement(msgspec.Struct, frozen=True, eq=False):
    """Brokers on an underlay: broker number i stands on `nodes[i]`."""

    underlay: Underlay
    brokers: tuple[str, ...]
    nodes: Integers
    latencies_us: Integers

    def on(self, underlay: Underlay) -> Placement:
        """The same brokers on the same nodes of another underlay of the same size."""
        if underlay.nodes != self.underlay.nodes:
            expected = f"expected {self.underlay.nodes}, as many as before"
            raise TopologyError(f"{underlay.nodes} underlay nodes", expected)
        fresh = underlay.shortest_us(self.nodes.tolist())
        return Placement(underlay, self.brokers, self.nodes, fresh)

    def costs(self, cost_min: float = 0.0, cost_max: float = 10.0) -> Floats:
        """The matrix of link costs: latencies mapped linearly to `cost_min` … `cost_max`.

        The paper says that costs were normalised to that range by the physical topology; that the
        map is linear and that the nearest pair gets `cost_min` is inferred. The diagonal is 0.
        """
        if not 0 <= cost_min <= cost_max < float("inf"):
            expected = "expected 0 <= cost_min <= cost_max"
            raise TopologyError(f"cost_min = {cost_min}, cost_max = {cost_max}", expected)
        apart = ~np.eye(len(self.brokers), dtype=bool)
        costs = np.zeros(self.latencies_us.shape)
        if not apart.any():
            return costs
        low, high = int(self.latencies_us[apart].min()), int(self.latencies_us[apart].max())
        scaled = (self.latencies_us - low) / max(1, high - low)
        costs[apart] = (cost_min + scaled * (cost_max - cost_min))[apart]
        return costs

    def overlay(
        self, edges: Iterable[tuple[int, int]], cost_min: float = 0.0, cost_max: float = 10.0
    ) -> Topology:
        """The tree of these pairs of broker numbers, with the latencies and costs of the ground."""
        costs = self.costs(cost_min, cost_max)
        names = self.brokers
        links = [
            LinkSpec(names[a], names[b], int(self.latencies_us[a, b]), float(costs[a, b]))
            for a, b in edges
        ]
        transit = tuple(
            name
            for name, node in zip(names, self.nodes.tolist(), strict=True)
            if self.underlay.is_transit(node)
        )
        return Topology(names, tuple(links), (Role("transit", transit),) if transit else ())

    def random_overlay(
        self,
        rng: np.random.Generator,
        degree_max: int | None = None,
        cost_min: float = 0.0,
        cost_max: float = 10.0,
    ) -> Topology:
        """A random tree that ignores latencies: the paper's static network."""
        parents = random_parents(len(self.brokers), degree_max, rng)
        return self.overlay(enumerate(parents, start=1), cost_min, cost_max)

    def minimum_overlay(self, cost_min: float = 0.0, cost_max: float = 10.0) -> Topology:
        """The minimum spanning tree by latency (and so by cost); ties go to the smaller number."""
        return self.overlay(minimum_spanning_edges(self.latencies_us), cost_min, cost_max)

    def __repr__(self) -> str:
        return f"<Placement of {len(self.brokers)} brokers on {self.underlay!r}>"


def transit_stub(parameters: TransitStub | None = None, *, rng: np.random.Generator) -> Underlay:
    """Draw an underlay, which is connected."""
    p = TransitStub() if parameters is None else parameters
    links = _Links([], [], [])
    _join_backbone(p, links, rng)
    for domain in range(p.transit_domains):
        links.add_domain(domain * p.transit_nodes, p.transit_nodes, _TRANSIT, p, rng)
    for stub in range(p.stub_domains):
        first = p.transit_total + stub * p.stub_nodes
        links.add_domain(first, p.stub_nodes, _STUB, p, rng)
        gate = first + int(rng.integers(p.stub_nodes))
        links.add([stub // p.stubs_per_transit_node], [gate], _ACCESS)
    for _ in range(p.extra_stub_links):
        one, other = rng.choice(p.stub_domains, 2, replace=False).tolist()
        at, to = rng.integers(p.stub_nodes, size=2).tolist()
        start = p.transit_total
        links.add([start + one * p.stub_nodes + at], [start + other * p.stub_nodes + to], _ACCESS)
    kinds = np.array(links.kinds, np.int64)
    return Underlay(
        p,
        np.array(links.a, np.int64),
        np.array(links.b, np.int64),
        kinds,
        _draw_latencies(p, kinds, rng),
    )


def place(underlay: Underlay, brokers: int, *, rng: np.random.Generator) -> Placement:
    """Place brokers on random distinct nodes, transit nodes among them."""
    if not 1 <= brokers <= underlay.nodes:
        expected = f"expected 1 to the {underlay.nodes} nodes of the underlay"
        raise TopologyError(f"brokers = {brokers}", expected)
    names = broker_names(brokers)
    nodes = rng.permutation(underlay.nodes)[:brokers]
    return Placement(underlay, names, nodes, underlay.shortest_us(nodes.tolist()))


def minimum_spanning_edges(weights: Integers) -> list[tuple[int, int]]:
    """Prim's algorithm over a complete matrix, from number 0; ties go to the smaller number."""
    count = len(weights)
    near = weights[0].copy()
    via = np.zeros(count, np.int64)
    outside = np.ones(count, bool)
    outside[0] = False
    edges = []
    for _ in range(count - 1):
        candidates = np.flatnonzero(outside)
        best = int(candidates[np.argmin(near[candidates])])
        edges.append((int(via[best]), best))
        outside[best] = False
        closer = outside & (weights[best] < near)
        near[closer] = weights[best][closer]
        via[closer] = best
    return edges


# --- drawing --------------------------------------------------------------------------------------


class _Links(NamedTuple):
    """The links of an underlay while it is drawn."""

    a: list[int]
    b: list[int]
    kinds: list[int]

    def add(self, a: list[int], b: list[int], kind: int) -> None:
        """Add links of a kind between these pairs of nodes."""
        self.a.extend(a)
        self.b.extend(b)
        self.kinds.extend([kind] * len(a))

    def add_domain(
        self, first: int, count: int, kind: int, p: TransitStub, rng: np.random.Generator
    ) -> None:
        """Draw the links of a domain of `count` nodes from `first` on."""
        pairs = _connected(count, p.domain_extra_percent, rng)
        self.add([first + a for a, _ in pairs], [first + b for _, b in pairs], kind)


def _join_backbone(p: TransitStub, links: _Links, rng: np.random.Generator) -> None:
    """Transit domains joined as the nodes of a domain are, at random nodes of each."""
    for a, b in _connected(p.transit_domains, p.domain_extra_percent, rng):
        at, to = rng.integers(p.transit_nodes, size=2).tolist()
        links.add([a * p.transit_nodes + at], [b * p.transit_nodes + to], _BACKBONE)


def _connected(count: int, extra_percent: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """A random tree over 0 … count - 1 and further random pairs; what repeats is dropped."""
    if count < 2:
        return []
    pairs = {(a, b): None for b, a in enumerate(rng.integers(np.arange(1, count)).tolist(), 1)}
    extra = rng.integers(count, size=(count * extra_percent // 100, 2))
    extra.sort(axis=1)
    pairs.update(((a, b), None) for a, b in extra.tolist() if a < b)
    return list(pairs)


def _draw_latencies(p: TransitStub, kinds: Integers, rng: np.random.Generator) -> Integers:
    ranges = np.array(p.ranges(), np.int64)[kinds]
    return rng.integers(ranges[:, 0], ranges[:, 1], endpoint=True)


# --- shortest paths -------------------------------------------------------------------------------

_Arcs = list[list[tuple[int, int]]]


def _shortest_between(underlay: Underlay, nodes: list[int]) -> Integers:
    """Dijkstra from each node but the last, over what is left when dead ends are cut off."""
    arcs = _without_dead_ends(underlay, set(nodes))
    matrix = np.zeros((len(nodes), len(nodes)), np.int64)
    for row, source in enumerate(nodes[:-1]):
        targets = nodes[row + 1 :]
        found = _dijkstra(arcs, source, set(targets) - {source})
        matrix[row, row + 1 :] = [found[target] for target in targets]
    return matrix + matrix.T


def _without_dead_ends(underlay: Underlay, keep: set[int]) -> _Arcs:
    """The arcs (node, latency) of each node, without nodes that lie between no two kept ones."""
    near: list[dict[int, int]] = [{} for _ in range(underlay.nodes)]
    columns = (underlay.ends_a.tolist(), underlay.ends_b.tolist(), underlay.latencies_us.tolist())
    for a, b, latency in zip(*columns, strict=True):
        shorter = min(latency, near[a].get(b, latency))  # links may lie side by side
        near[a][b] = near[b][a] = shorter
    ends = [node for node in range(len(near)) if len(near[node]) == 1 and node not in keep]
    for node in ends:
        if not near[node]:
            continue
        (other,) = near[node]
        near[node].clear()
        del near[other][node]
        if len(near[other]) == 1 and other not in keep:
            ends.append(other)
    return [list(arcs.items()) for arcs in near]


def _dijkstra(arcs: _Arcs, source: int, targets: set[int]) -> dict[int, int]:
    """The latencies from `source` to the targets, and to the nodes that were passed before them."""
    best = {source: 0}
    done: dict[int, int] = {}
    heap = [(0, source)]
    left = len(targets)
    while heap and left:
        latency, node = heappop(heap)
        if node in done:
            continue
        done[node] = latency
        left -= node in targets
        for other, step in arcs[node]:
            reached = latency + step
            if reached < best.get(other, reached + 1):
                best[other] = reached
                heappush(heap, (reached, other))
    done[source] = 0
    return done
