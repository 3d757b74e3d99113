"""The working overlay map: the master map contracted to the brokers that a copy can be sent to.

A broker without a usable link is joined to the next one towards `at`. What remains is a tree (a
forest, without `at`) of links. A set of links is a bit mask over `order`; the sets that path
computation needs, Between, Beyond and Behind, are computed once, when the map is made, in one pass
over the brokers. (Opportunistic multipath forwarding, §3 steps 1–3 and §5.)

Masks are plain integers: with 120 brokers a numpy array a set costs more to make than all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Literal

from byway.core.mesh.master_map import MasterMap

Strategy = Literal["S0", "S1", "S2"]


class WorkingMap:
    """The links of one broker as a contracted tree.

    A target is the link that stands for an anchor, as a bit. `between`, `beyond` and `behind` are
    those of the contracted tree, not of the primary one: beside a dead primary link two brokers of
    one branch hang from `at`, each is behind the other, and each needs a copy.

    Attributes:
        master: The map that was contracted.
        order: The links, by distance in the contracted tree, then in the primary tree, then by
            name. A link's place in it is the number of its bit. Whatever lies on the path to a
            link comes before it.
        between: By link, those on the path to it, itself included.
        beyond: By link, those that are reached through it, itself included.
        behind: By link, those that are reached through `at` from there.
        roots: By link, the first link on the path to it.
        target_of: By broker of the map, the bit of the link that stands for it; 0 if there is none.
        branch_of: By primary neighbour, the links of its branch, whether it has a usable one or
            not.
    """

    __slots__ = (
        "_s0_roots", "behind", "between", "beyond", "branch_of", "master", "order", "roots",
        "target_of",
    )  # fmt: skip

    def __init__(self, master: MasterMap, usable: Collection[str]) -> None:
        """Contract a map to the brokers with a usable link; what is not on the map is ignored."""
        self.master = master
        parents, brokers = master.parents, master.brokers
        usable_numbers = {master.numbers[name] for name in usable if name in master.numbers}
        # By number of a broker, and for `at` at the end (index -1): the link that stands for it,
        # and how many links are on the path to that one.
        nearest = [-1] * (len(brokers) + 1)
        depth = [0] * (len(brokers) + 1)
        for number, parent in enumerate(parents):
            link = nearest[parent]
            if number in usable_numbers:
                depth[number] = depth[link] + 1
                link = number
            nearest[number] = link
        links = sorted(sorted(usable_numbers), key=depth.__getitem__)
        self.order = tuple([brokers[number] for number in links])
        self._compute_sets(links, nearest)
        self._compute_lookups(links, nearest)

    def _compute_sets(self, links: list[int], nearest: list[int]) -> None:
        parents = self.master.parents
        position = {number: place for place, number in enumerate(links)}
        between: list[int] = []
        roots: list[int] = []
        before: list[int] = []
        for place, number in enumerate(links):
            link = nearest[parents[number]]
            if link < 0:
                before.append(-1)
                between.append(1 << place)
                roots.append(place)
            else:
                up = position[link]
                before.append(up)
                between.append(between[up] | 1 << place)
                roots.append(roots[up])
        beyond = [1 << place for place in range(len(links))]
        for place in range(len(links) - 1, -1, -1):
            if before[place] >= 0:
                beyond[before[place]] |= beyond[place]
        everything = (1 << len(links)) - 1
        self.between: tuple[int, ...] = tuple(between)
        self.beyond: tuple[int, ...] = tuple(beyond)
        self.behind: tuple[int, ...] = tuple([everything ^ beyond[root] for root in roots])
        self.roots: tuple[int, ...] = tuple(roots)
        self._s0_roots = tuple([(1 << r, beyond[r]) for r in range(len(links)) if roots[r] == r])

    def _compute_lookups(self, links: list[int], nearest: list[int]) -> None:
        master = self.master
        bits = [0] * (len(master) + 1)
        for place, number in enumerate(links):
            bits[number] = 1 << place
        self.target_of: Mapping[str, int] = {
            broker: bits[link] for broker, link in zip(master.brokers, nearest, strict=False)
        }
        self.branch_of: dict[str, int] = dict.fromkeys(master.neighbours, 0)
        for number in links:
            self.branch_of[master.brokers[master.branches[number]]] |= bits[number]

    def names(self, links: int) -> list[str]:
        """The links of a mask, sorted by name."""
        found = []
        while links:
            last = links & -links
            found.append(self.order[last.bit_length() - 1])
            links ^= last
        found.sort()
        return found

    def targets(self, anchors: Iterable[str], came_from: str | None = None) -> int:
        """The links that stand for anchors. Left out are `at`, anchors that no link leads to, and
        with `came_from` those in the branch of that broker: a publication is not sent back."""
        target_of = self.target_of
        found = 0
        for anchor in anchors:
            found |= target_of.get(anchor, 0)
        if came_from is not None:
            found &= ~self.branch_of[self.master.branch(came_from)]
        return found

    def forward(self, targets: int, strategy: Strategy) -> int:
        """The links that get a copy, so that each target is reached through exactly one of them.
        Raises ValueError for a strategy that is not one of the three."""
        try:
            choose = _CHOICES[strategy]
        except (KeyError, TypeError):
            raise ValueError(f"{strategy!r} is no strategy: expected S0, S1 or S2") from None
        return choose(self, targets)

    def _nearest_links(self, targets: int) -> int:
        """S0: the first link on the path to each target. While its link is up that is the primary
        neighbour; in place of one that is down, the nearest links behind it."""
        chosen = 0
        for root, beyond in self._s0_roots:
            if targets & beyond:
                chosen |= root
        return chosen

    def _last_common_links(self, targets: int) -> int:
        """S1: for the targets behind each first link, the farthest link on the paths to all of
        them.

        Figure 5 of the paper keeps one set for all first links, Intersection, and cuts it by
        Between ∪ Behind so that other first links stay as they are; then it takes the farthest of
        what remains. This does so for one first link after the other. `order` has the links of a
        path in ascending order, so the farthest is the highest bit.
        """
        chosen = 0
        while targets:
            place = (targets & -targets).bit_length() - 1
            of_root = targets & self.beyond[self.roots[place]]
            targets ^= of_root
            common = self.between[place]
            while of_root:
                last = of_root & -of_root
                of_root ^= last
                common &= self.between[last.bit_length() - 1]
            chosen |= 1 << (common.bit_length() - 1)
        return chosen

    def _first_targets(self, targets: int) -> int:
        """S2 (figure 6): each target itself, unless another one is on the path to it."""
        chosen = 0
        while targets:
            nearest = targets & -targets
            chosen |= nearest
            targets &= ~self.beyond[nearest.bit_length() - 1]
        return chosen


_CHOICES: Final[Mapping[str, Callable[[WorkingMap, int], int]]] = {
    "S0": WorkingMap._nearest_links,
    "S1": WorkingMap._last_common_links,
    "S2": WorkingMap._first_targets,
}
