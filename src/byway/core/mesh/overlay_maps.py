"""Overlay maps: where one broker sends copies of a publication, by name.

The working map has the primary and soft links that are up; nothing is sent over another one.
Candidates are brokers that a soft link could be opened to. A second working map, with them, says
which links *would* carry a copy, for counting alone: sending by that map, with the candidates'
copies put on real links, would send some publications twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byway.core.mesh.master_map import MasterMap
from byway.core.mesh.working_map import Strategy, WorkingMap


class OverlayMaps:
    """The master map of one broker and the working maps made from it. Links that open or close make
    other maps (`with_links`); these stay as they are.

    Anchors are those of the master subscription table: brokers at most Δ primary hops away, as on
    the master map. The maps replace them by links themselves. Between, Beyond and Behind are read
    from the contracted tree, so they contain links only.

    Attributes:
        master: The primary tree within Δ hops.
        working: The map that copies are sent by. Its masks are for those who keep plans.
        unplaced: Soft links and candidates to brokers that are not on the master map, by name.
            They are ignored: nobody knows which brokers they skip.
    """

    __slots__ = ("_candidates", "_profiled", "_usable", "master", "unplaced", "working")

    def __init__(
        self,
        master: MasterMap,
        soft: Iterable[str] = (),
        candidates: Iterable[str] = (),
        down: Iterable[str] = (),
    ) -> None:
        beside, candidates, down = map(_several, (soft, candidates, down))
        self.master = master
        self._usable = beside.union(master.neighbours).difference(down)
        self._candidates = candidates - beside.union(master.neighbours)
        self.unplaced = tuple(sorted(beside.union(self._candidates).difference(master.brokers)))
        self.working = WorkingMap(master, self._usable)
        self._profiled: WorkingMap | None = None

    @classmethod
    def build(
        cls,
        at: str,
        primary_edges: Iterable[Sequence[str]],
        delta: int,
        soft: Iterable[str] = (),
        candidates: Iterable[str] = (),
        down: Iterable[str] = (),
    ) -> OverlayMaps:
        """The maps of the broker `at`. `down` are neighbours, primary or soft, whose link is down:
        they stay on the master map and get no copy. Raises ValueError for an edge that is no pair,
        for a Δ that is no whole number of at least 1, and for a name in the place of several."""
        return cls(MasterMap(at, primary_edges, delta), soft, candidates, down)

    def with_links(
        self,
        soft: Iterable[str] = (),
        candidates: Iterable[str] = (),
        down: Iterable[str] = (),
    ) -> OverlayMaps:
        """The maps with these links instead. The tree is the same, so the master map is kept."""
        return OverlayMaps(self.master, soft, candidates, down)

    def __repr__(self) -> str:
        return (
            f"OverlayMaps(at={self.master.at!r}, delta={self.master.delta}, "
            f"brokers={len(self.master)}, order={self.order}, "
            f"candidates={sorted(self._candidates)}, unplaced={self.unplaced})"
        )

    @property
    def candidates(self) -> frozenset[str]:
        """The candidates that are no links."""
        return self._candidates

    @property
    def order(self) -> tuple[str, ...]:
        """The links that can carry a copy: those on the path to another one come before it."""
        return self.working.order

    def substitute(self, broker: str) -> str | None:
        """The link that stands for a broker: the last one on the primary path to it. The broker
        `at` stands for itself; None if no link leads to the broker, or it is not on the map."""
        if broker == self.master.at:
            return broker
        target = self.working.target_of.get(broker, 0)
        return self.order[target.bit_length() - 1] if target else None

    def between(self, n: str) -> frozenset[str]:
        """The links on the path to `n`, itself included. Raises ValueError if `n` is no link that
        can carry a copy; so do `beyond` and `behind`."""
        return self._set(self.working.between, n)

    def beyond(self, n: str) -> frozenset[str]:
        """The links that are reached through `n`, itself included."""
        return self._set(self.working.beyond, n)

    def behind(self, n: str) -> frozenset[str]:
        """The links that `n` reaches through `at`."""
        return self._set(self.working.behind, n)

    def _set(self, masks: Sequence[int], n: str) -> frozenset[str]:
        if n not in self._usable or n not in self.master:
            raise ValueError(f"{self.master.at!r} has no link to {n!r} that can carry a copy")
        place = self.working.target_of[n].bit_length() - 1
        return frozenset(self.working.names(masks[place]))

    def unreachable(self, anchors: Iterable[str]) -> list[str]:
        """The anchors that no link leads to, sorted: those behind a primary link that is down and
        not behind a soft link that is up, and those that are not on the map."""
        target_of, at, anchors = self.working.target_of, self.master.at, _several(anchors)
        return sorted({each for each in anchors if each != at and not target_of.get(each, 0)})

    def forward(
        self, anchors: Iterable[str], strategy: Strategy, came_from: str | None = None
    ) -> list[str]:
        """The neighbours that get a copy, sorted. Every anchor is reached through exactly one of
        them, but for `at`, those that `unreachable` names, and those in the branch that the copy
        came from. `came_from` is a broker in that branch: the neighbour that sent it or, for
        a soft link, any broker on the primary path that the link replaces. Raises ValueError if
        that is not on the map."""
        working = self.working
        targets = working.targets(_several(anchors), came_from)
        return working.names(working.forward(targets, strategy))

    def profile(
        self, anchors: Iterable[str], strategy: Strategy, came_from: str | None = None
    ) -> list[str]:
        """What `forward` would return if all candidates were soft links. For counters alone."""
        if self._profiled is None:
            self._profiled = (
                WorkingMap(self.master, self._usable | self._candidates)
                if self._candidates
                else self.working
            )
        profiled = self._profiled
        targets = profiled.targets(_several(anchors), came_from)
        return profiled.names(profiled.forward(targets, strategy))


def _several(brokers: Iterable[str]) -> frozenset[str]:
    """These brokers. A string would be taken for the brokers that its letters name."""
    if isinstance(brokers, str):
        raise ValueError(f"expected a collection of brokers, not the string {brokers!r}")
    return frozenset(brokers)
