"""Overlay maps and path computation from the paper's definitions, with sets and graph searches.

Written from the text of the paper, word by word; it shares nothing with `byway.core.mesh`. Also:
trees to try things on, and publications that walk through a network of brokers, each with the
anchors that it would have and the links that it has.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from random import Random

Edges = Sequence[tuple[str, str]]
Send = Callable[[str, set[str], str | None], list[str]]
"""At a broker, for anchors and the upstream neighbour: who gets a copy."""


class Graph:
    """An undirected graph; searched anew for every answer."""

    def __init__(self, edges: Iterable[tuple[str, str]]) -> None:
        self.edges = {frozenset(edge) for edge in edges}

    def around(self, broker: str) -> set[str]:
        return {other for edge in self.edges if broker in edge for other in edge - {broker}}

    def path(self, start: str, end: str) -> list[str]:
        """The only path of a tree, both ends included; [] if there is none."""
        paths = [[start]]
        while paths:
            path = paths.pop()
            if path[-1] == end:
                return path
            paths += [[*path, other] for other in self.around(path[-1]) - set(path)]
        return []

    def distance(self, start: str, end: str) -> int:
        return len(self.path(start, end)) - 1

    def merge(self, removed: str, into: str) -> None:
        """Remove a broker, and attach its edges to another one."""
        edges = {frozenset(into if b == removed else b for b in edge) for edge in self.edges}
        self.edges = {edge for edge in edges if len(edge) == 2}


def hears(tree: Graph, deltas: dict[str, int], at: str, of: str) -> bool:
    """Whether the record of a broker comes so far: everybody who passes it on has the next one
    within its Δ, and the receiver has it within its own."""
    path = tree.path(of, at)
    relays = all(deltas[b] >= hops for hops, b in enumerate(path[:-1], 1))
    return relays and deltas[of] > 1 and deltas[at] >= len(path) - 1


class NaiveMaps:
    """§3, steps 1 to 3, and figures 5 and 6."""

    def __init__(self, at: str, edges: Edges, delta: int, links: set[str]) -> None:
        tree = Graph(edges)
        brokers = {b for edge in edges for b in edge}
        self.at = at
        self.tree = tree
        self.near = {b for b in brokers if 0 < tree.distance(at, b) <= delta}
        self.wom = Graph(e for e in edges if {*e} <= self.near | {at})
        self.links = links & self.near
        merged: dict[str, str] = {}
        for v in sorted(self.near, key=lambda b: (-tree.distance(at, b), b)):
            if v not in self.links:
                w = self.wom.path(v, at)[1]
                self.wom.merge(v, w)
                merged[v] = w
        self.substitutes = {}
        for broker in self.near:
            last = broker
            while last in merged:
                last = merged[last]
            self.substitutes[broker] = None if last == at else last

    def between(self, n: str) -> set[str]:
        return set(self.wom.path(self.at, n)) - {self.at}

    def beyond(self, n: str) -> set[str]:
        return {m for m in self.links if n in self.wom.path(self.at, m)}

    def behind(self, n: str) -> set[str]:
        return {m for m in self.links if self.at in self.wom.path(n, m)}

    def downstream(self, anchors: set[str], came_from: str | None) -> set[str]:
        """Line 2 of both figures, and the anchors of the working table in place of the master's."""
        kept = set()
        for anchor in anchors & self.near:
            first = self.tree.path(self.at, anchor)[1]
            if came_from is None or first != self.tree.path(self.at, came_from)[1]:
                kept.add(self.substitutes[anchor])
        return kept - {None}

    def broker_array(self) -> list[str]:
        return sorted(self.links, key=lambda n: (self.wom.distance(self.at, n), n))

    def s0(self, anchors: set[str]) -> set[str]:
        return {self.wom.path(self.at, anchor)[1] for anchor in anchors}

    def s1(self, anchors: set[str]) -> set[str]:
        """Figure 5, line by line."""
        intersection: set[str] = set()
        forward = set()
        for n in sorted(anchors):
            if not intersection & self.between(n):
                intersection |= self.between(n)
            else:
                intersection &= self.between(n) | self.behind(n)
        array = self.broker_array()
        j = len(array)
        while j > 0 and anchors:
            n = array[j - 1]
            if anchors & self.beyond(n) and n in intersection:
                forward.add(n)
                anchors = anchors - self.beyond(n)
            j -= 1
        assert not anchors
        return forward

    def s2(self, anchors: set[str]) -> set[str]:
        """Figure 6, line by line."""
        forward = set()
        array = self.broker_array()
        j = 1
        while j <= len(array) and anchors:
            n = array[j - 1]
            if n in anchors:
                forward.add(n)
                anchors = anchors - self.beyond(n)
            j += 1
        assert not anchors
        return forward

    def forward(self, anchors: set[str], strategy: str, came_from: str | None) -> list[str]:
        choose = {"S0": self.s0, "S1": self.s1, "S2": self.s2}[strategy]
        return sorted(choose(self.downstream(anchors, came_from)))


def subsets(items: Iterable[str]) -> Iterator[set[str]]:
    listed = sorted(items)
    for size in range(len(listed) + 1):
        yield from map(set, combinations(listed, size))


def rooted_trees(size: int) -> list[Edges]:
    """One of each shape, with the root A; brokers are named against their order of distance."""
    parents: list[tuple[int, ...]] = [()]
    for number in range(1, size):
        parents = [(*found, parent) for found in parents for parent in range(number)]

    def shape(found: tuple[int, ...], top: int) -> str:
        below = (n for n, parent in enumerate(found, 1) if parent == top)
        return f"({''.join(sorted(shape(found, n) for n in below))})"

    names = ["A", *(f"b{size - number}" for number in range(1, size))]
    one_of_each = {shape(found, 0): found for found in parents}
    return [
        [(names[parent], names[number]) for number, parent in enumerate(found, 1)]
        for found in one_of_each.values()
    ]


def random_edges(rng: Random, size: int) -> Edges:
    """A random tree, deep or flat, its names in no order."""
    names = [f"b{number}" for number in rng.sample(range(100), size)]
    reach = rng.choice([1, 2, 3, size])
    return [(names[rng.randrange(max(0, n - reach), n)], names[n]) for n in range(1, size)]


class Walk:
    """The copies of one publication through a network."""

    def __init__(self, edges: Edges, deltas: dict[str, int], matching: set[str]) -> None:
        self.tree = Graph(edges)
        self.deltas = deltas
        self.matching = matching
        self.sends: list[tuple[str, str]] = []
        self.delivered: Counter[str] = Counter()
        self.unserved: Counter[str] = Counter()

    def entry_path(self, at: str, home: str) -> list[str]:
        """The path that an entry of `home` carries at a broker: each sender prepends itself and
        cuts to its own Δ."""
        path: list[str] = []
        for sender in self.tree.path(home, at)[:-1]:
            path = [sender, *path][: self.deltas[sender]]
        return path

    def anchor(self, at: str, home: str) -> str:
        path = self.entry_path(at, home)
        return path[min(self.deltas[at], len(path)) - 1]

    def publish(self, publisher: str, send: Send) -> None:
        """Every broker that gets a copy sends others, to downstream anchors. What `send` answers
        is whom it sends to; a matching broker behind none of them is unserved."""
        waiting: list[tuple[str, str | None]] = [(publisher, None)]
        while waiting:
            at, came_from = waiting.pop()
            if at in self.matching:
                self.delivered[at] += 1
            homes = {
                home: self.anchor(at, home)
                for home in self.matching - {at}
                if came_from is None or self.tree.path(at, home)[1] != came_from
            }
            receivers = send(at, {self.anchor(at, h) for h in self.matching - {at}}, came_from)
            for receiver in receivers:
                self.sends.append((at, receiver))
                waiting.append((receiver, self.tree.path(at, receiver)[-2]))
            for home, anchor in homes.items():
                if not any(receiver in self.tree.path(at, anchor) for receiver in receivers):
                    self.unserved[home] += 1

    @property
    def pure_forwarders(self) -> int:
        return sum(receiver not in self.matching for _, receiver in self.sends)
