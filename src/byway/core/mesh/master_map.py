"""The master overlay map: the primary tree within Δ hops of one broker.

It changes only when the tree does. Links that open, close or go down change the working map, which
is made from this one. (Opportunistic multipath forwarding, §3; see docs/reference/papers.md.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class MasterMap:
    """The brokers within Δ primary hops of `at`, numbered by distance, then by name.

    Attributes:
        at: The broker whose map this is. It has no number.
        delta: Δ, the largest distance.
        brokers: The other brokers, in the order of their numbers.
        numbers: The number of each of them.
        distances: By number, the primary hops from `at`.
        parents: By number, the number of the broker one hop nearer; -1 for `at`.
        branches: By number, the number of the primary neighbour on the path.
    """

    __slots__ = ("at", "branches", "brokers", "delta", "distances", "numbers", "parents")

    def __init__(self, at: str, primary_edges: Iterable[Sequence[str]], delta: int) -> None:
        """Edges may come in any order and either way round; those beyond Δ hops are left out. If
        they form a cycle, as they may while a change of the tree spreads, the map is a tree of
        shortest paths, and equal sets of edges give equal maps. Raises ValueError for an edge that
        is none, and for a Δ that is no whole number of at least 1."""
        if type(delta) is not int or delta < 1:
            raise ValueError(f"Δ is a whole number of at least 1, not {delta!r}")
        adjacent: dict[str, set[str]] = {}
        for edge in primary_edges:
            if isinstance(edge, str) or len(edge) != 2:
                raise ValueError(f"an edge is a pair of brokers, not {edge!r}")
            one, other = edge
            adjacent.setdefault(one, set()).add(other)
            adjacent.setdefault(other, set()).add(one)
        self.at = at
        self.delta = delta
        self.numbers: dict[str, int] = {}
        distances: list[int] = []
        parents: list[int] = []
        branches: list[int] = []
        nearer = {at: -1}
        for distance in range(1, delta + 1):
            if not nearer:
                break
            parent_of: dict[str, int] = {}
            for broker, number in nearer.items():
                for other in adjacent.get(broker, ()):
                    if other != at and other not in self.numbers:
                        parent_of.setdefault(other, number)
            nearer = {}
            for broker in sorted(parent_of):
                number, parent = len(distances), parent_of[broker]
                self.numbers[broker] = nearer[broker] = number
                distances.append(distance)
                parents.append(parent)
                branches.append(number if parent < 0 else branches[parent])
        self.brokers = tuple(self.numbers)
        self.distances = tuple(distances)
        self.parents = tuple(parents)
        self.branches = tuple(branches)

    def __contains__(self, broker: str) -> bool:
        return broker in self.numbers

    def __len__(self) -> int:
        return len(self.brokers)

    def __repr__(self) -> str:
        return f"MasterMap(at={self.at!r}, delta={self.delta}, brokers={len(self)})"

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The primary neighbours of `at`, by name."""
        return self.brokers[: self.distances.count(1)]

    def number(self, broker: str) -> int:
        """The number of a broker. Raises ValueError if the map does not have it."""
        try:
            return self.numbers[broker]
        except KeyError:
            raise ValueError(f"{broker!r} is not on the map of {self.at!r}") from None

    def distance(self, broker: str) -> int:
        """The primary hops to a broker."""
        return 0 if broker == self.at else self.distances[self.number(broker)]

    def path(self, broker: str) -> tuple[str, ...]:
        """The brokers from the primary neighbour to `broker`, both included; () for `at`."""
        found: list[str] = []
        number = -1 if broker == self.at else self.number(broker)
        while number >= 0:
            found.append(self.brokers[number])
            number = self.parents[number]
        return tuple(reversed(found))

    def branch(self, broker: str) -> str:
        """The primary neighbour on the path to a broker."""
        return self.brokers[self.branches[self.number(broker)]]

    def anchor(self, path: Iterable[str]) -> str | None:
        """The farthest broker of a subscription's path, nearest first, as far as the map has the
        same path; None if it has not even its first broker. Entries and maps travel in different
        messages, so a path may run ahead of the map, or behind it."""
        last = -1
        for broker in path:
            number = self.numbers.get(broker)
            if number is None or self.parents[number] != last:
                break
            last = number
        return None if last < 0 else self.brokers[last]
