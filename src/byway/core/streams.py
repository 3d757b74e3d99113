"""Streams: what a broker knows of each publisher whose publications it has seen.

Publications of one publisher arrive in order, so its last sequence distinguishes a duplicate from a
new publication. It cannot detect gaps: filtered streams skip numbers. Where order is not kept
(`order = "none"`), a window of sequences does. A stream also knows on which links publications of
its publisher are unconfirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from byway.model.generations import Generations
from byway.model.seen_sequences import SeenSequences

Publisher = tuple[str, int]
"""A publisher and its incarnation."""
ALL_CONFIRMED: Final[Mapping[str, int]] = MappingProxyType({})
"""Stands for the links of a stream that has nothing unconfirmed, as most have: each would have an
empty dict of its own otherwise, at a place in memory of its own."""


class Stream(msgspec.Struct, eq=False, gc=False):
    """The publications of one publisher, as one broker sees them."""

    last: int = 0
    """The highest sequence of one that was seen."""
    open: Mapping[str, int] = ALL_CONFIRMED
    """By link, how many of them it has not confirmed; links with none are left out."""
    waiting: int = 0
    """How many messages of its are held or parked, see `branch_queues`."""
    parked: int = 0
    """How many of these are parked."""
    ended: int = 0
    """The sequence before the last end of an advertisement: up to it, subscriptions that wanted
    publications may have been withdrawn because of the end."""
    owed: dict[str, int] | None = None
    """By neighbour, the sequence up to which publications go there whatever it wants now: earlier
    copies of them were unconfirmed there when tables were compared."""
    seen: SeenSequences | None = None
    """Which ones were seen, where they may arrive out of order; None: all up to `last`."""

    def see(self, sequence: int) -> None:
        """Take a publication as seen."""
        if self.seen is not None:
            self.seen.add(sequence)
        self.last = max(self.last, sequence)

    def owe(self, link: str, sequence: int) -> None:
        """Note that publications up to a sequence go to a neighbour whatever it wants."""
        self.owed = {**(self.owed or {}), link: sequence}

    def is_owed(self, link: str, sequence: int) -> bool:
        """Whether a publication goes to a neighbour whatever it wants."""
        return self.owed is not None and sequence <= self.owed.get(link, 0)

    def count(self, link: str) -> None:
        """Count one more publication that a link has not confirmed."""
        unconfirmed = self.unconfirmed()
        unconfirmed[link] = unconfirmed.get(link, 0) + 1

    def unconfirmed(self) -> dict[str, int]:
        """What `open` is, to be changed; not to be left empty."""
        if self.open is ALL_CONFIRMED:
            self.open = {}
        return self.open  # type: ignore[return-value]


class Streams(Generations[Publisher, Stream]):
    """The streams of at least half and at most all of `publishers_max` publishers, and of those
    besides that have publications which are unconfirmed or held.

    A publisher that has not been heard of for a whole generation is forgotten: also where order is
    not kept, since what of it was not seen yet is later than all that may count as seen.
    """

    __slots__ = ("window",)

    def __init__(self, publishers_max: int, window: int = 0) -> None:
        """`window`: how many sequences of each publisher are told apart; 0: they come in order."""
        super().__init__(publishers_max)
        self.window = window

    def new(self, last: int = 0, mask: int | None = None) -> Stream:
        """A stream of which this was seen last; of what is within the window, what `mask` says, or
        all."""
        if not self.window:
            return Stream(last)
        every = (1 << min(self.window, last)) - 1
        known = every if mask is None else mask & every
        return Stream(last, seen=SeenSequences(self.window, last, known))

    def of(self, publisher: str, incarnation: int) -> Stream:
        """The stream of a publisher; a new one, if nothing is known of it."""
        key = (publisher, incarnation)
        stream = self.young.get(key)
        if stream is None:
            stream = self.old.get(key) or self.new()
            if len(self.young) >= self.half:
                self.age()
            self.young[key] = stream
        return stream

    def known(self, publisher: str, incarnation: int) -> Stream:
        """The stream of a publisher of which copies are restored, without hearing of it."""
        key = (publisher, incarnation)
        stream = self.young.get(key) or self.old.get(key)
        if stream is None:
            stream = self.old[key] = self.new()
        return stream

    def replace_link(self, old: str, new: str) -> None:
        """A link has another name."""
        for stream in (*self.young.values(), *self.old.values()):
            if old in stream.open:
                unconfirmed = stream.unconfirmed()
                unconfirmed[new] = unconfirmed.pop(old)
            if stream.owed is not None and old in stream.owed:
                stream.owe(new, stream.owed.pop(old))

    def age(self) -> None:
        """Forget the old generation, but for streams with publications that are unconfirmed or
        held."""
        carried = {key: s for key, s in self.old.items() if s.open or s.waiting}
        super().age()
        if carried:
            self.old = carried | self.old
