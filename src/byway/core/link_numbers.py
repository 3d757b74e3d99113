"""Numbers of neighbours and of anchors, as bit positions of masks.

The *anchor* of a subscription is the last broker of its path within the neighbourhood of a broker:
what matches it has to come there. With a neighbourhood of one hop that is the neighbour that it
came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from byway.core.origin import Origin

ANCHORS_MAX: Final = 3_072
"""Anchors with a number, beside the neighbours; further ones count as the neighbour before them."""


class LinksByMask(dict[int, tuple[str, ...]]):
    """By mask of targets, the neighbours that they lie behind, in the order of their names; each is
    made out when it is first asked for. `links` are the neighbours, by number of the target: when
    one goes, clear this."""

    __slots__ = ("_links",)

    def __init__(self, links: list[str]) -> None:
        super().__init__()
        self._links = links

    def __missing__(self, mask: int) -> tuple[str, ...]:
        if len(self) >= 4_096:  # a bound; masks seen are few
            self.clear()
        found = {link for number, link in enumerate(self._links) if mask >> number & 1}
        self[mask] = links = tuple(sorted(found))
        return links


class LinkNumbers:
    """Small numbers for *targets*, as bit positions of masks: the neighbours, and the anchors of
    subscriptions behind them. The number of one that is forgotten is free again, and the smallest
    free number is given first."""

    def __init__(self, delta: int = 1) -> None:
        """With a neighbourhood of so many hops."""
        self.delta = delta
        self.names: list[str] = []
        """The brokers, by number; a free number has an empty name."""
        self.links_of: list[str] = []
        """By number, the neighbour that the broker is, or lies behind."""
        self._numbers: dict[str, int] = {}
        self._anchors: dict[tuple[str, str], int] = {}
        """Numbers of anchors that are no neighbours, by the neighbour that they lie behind."""
        self._entries: dict[int, int] = {}
        """How many entries have each of them."""
        self._free: list[int] = []  # a heap
        self.dependent: tuple[dict[Any, Any], ...] = ()
        """What others keep by masks: cleared whenever a number is freed."""
        self.on_anchor_freed: Callable[[int, int], None] | None = None
        """Called with the number of an anchor before it is free, and with its neighbour's."""
        self._masks = LinksByMask(self.links_of)
        # looked up for every publication: methods of the dicts themselves cost no further call
        self.known: Callable[[str], int | None] = self._numbers.get
        """The number of a neighbour, if it has one."""
        self.links: Callable[[int], tuple[str, ...]] = self._masks.__getitem__
        """The neighbours that the targets of a mask lie behind, in the order of their names."""

    def restore(self, names: Sequence[str], links_of: Sequence[str]) -> None:
        """Give the numbers that were given before, in the place of those there are; without
        `links_of`, all to neighbours. Whoever has these numbers has the new ones."""
        self.names[:] = names
        self.links_of[:] = links_of or names
        by_name: tuple[dict[Any, Any], ...] = (self._numbers, self._anchors, self._entries)
        for known in (*by_name, self._masks, *self.dependent):
            known.clear()
        self._free[:] = [number for number, name in enumerate(self.names) if not name]
        for number, (name, link) in enumerate(zip(self.names, self.links_of, strict=True)):
            if name and name == link:
                self._numbers[name] = number
            elif name:
                self._anchors[link, name] = number
                self._entries[number] = 0

    def number(self, link: str) -> int:
        """The number of a neighbour, a new one if need be."""
        number = self._numbers.get(link)
        if number is None:
            number = self._numbers[link] = self._give(link, link)
        return number

    def _give(self, name: str, link: str) -> int:
        number = heappop(self._free) if self._free else len(self.names)
        if number == len(self.names):
            self.names.append(name)
            self.links_of.append(link)
        self.names[number], self.links_of[number] = name, link
        return number

    def enter(self, origin: Origin) -> tuple[int, int] | None:
        """The numbers of the neighbour that an entry came from and of its anchor, which has one
        more entry now; None if it came from here."""
        link = origin.link
        if link is None:
            return None
        number = self.number(link)
        reached = origin.behind[: self.delta - 1]
        if not reached or reached[-1] == link:
            return number, number
        anchor = self._anchors.get((link, reached[-1]))
        if anchor is None:
            if len(self._anchors) >= ANCHORS_MAX:  # a nearer one serves as well, by a longer way
                return number, number
            anchor = self._anchors[link, reached[-1]] = self._give(reached[-1], link)
        self._entries[anchor] = self._entries.get(anchor, 0) + 1
        return number, anchor

    def leave(self, number: int) -> None:
        """A target has one entry less. The number of an anchor without any is free."""
        left = self._entries.get(number)
        if left is not None:
            self._entries[number] = left - 1
            if left <= 1:
                link = self.links_of[number]
                del self._anchors[link, self.names[number]]
                if self.on_anchor_freed is not None and link in self._numbers:
                    self.on_anchor_freed(number, self._numbers[link])
                self._release(number)

    def release(self, link: str) -> None:
        """Free the number of a removed neighbour; no entry may be from it any more."""
        number = self._numbers.pop(link, None)
        if number is not None:
            self._release(number)

    def _release(self, number: int) -> None:
        self.names[number] = self.links_of[number] = ""
        self._entries.pop(number, None)
        heappush(self._free, number)
        for known in (self._masks, *self.dependent):  # they name it
            known.clear()

    def replace_link(self, old: str, new: str) -> None:
        """Give a neighbour another name; it keeps its number, and anchors behind it theirs."""
        number = self._numbers.pop(old, None)
        if number is not None:
            self._numbers[new] = number
            self.names[number] = new
        for link, anchor in [at for at in self._anchors if at[0] == old]:
            self._anchors[new, anchor] = self._anchors.pop((link, anchor))
        self.links_of[:] = [new if link == old else link for link in self.links_of]
        for known in (self._masks, *self.dependent):  # they name it
            known.clear()

    def release_unused(self, links: Iterable[str]) -> None:
        """Free numbers, after a restart, of all but these neighbours and of anchors without
        entries."""
        for link in [link for link in self._numbers if link not in links]:
            self.release(link)
        for number in [number for number, entries in self._entries.items() if not entries]:
            self.leave(number)
