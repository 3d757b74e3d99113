"""Detects duplicates of publications by the last sequence of each publisher.

Publications of one publisher arrive in order, so one number per publisher distinguishes a duplicate
from a new publication. It cannot detect gaps: filtered streams skip numbers.
Where they may arrive out of order, it takes a window of sequences.
"""

from __future__ import annotations

from byway.model.bounds import PUBLISHER_WINDOW
from byway.model.generations import Generations
from byway.model.seen_sequences import SeenSequences

Publisher = tuple[str, int]
"""A publisher and its incarnation."""


class SeenPublications(Generations[Publisher, int]):
    """Last sequences of at least half and at most all of `publishers_max` publishers.

    A publisher that has not been heard of for a whole generation is forgotten.
    """

    __slots__ = ()

    def __init__(self, publishers_max: int) -> None:
        super().__init__(publishers_max)

    def is_new(self, publisher: str, incarnation: int, sequence: int) -> bool:
        """Whether this is later than every publication seen of the publisher; it counts as seen
        afterwards."""
        key = (publisher, incarnation)
        last = self.young.get(key)
        if last is None:
            last = self.old.get(key, 0)
            if len(self.young) >= self.half:
                self.age()
            self.young[key] = last
        if sequence <= last:
            return False
        self.young[key] = sequence
        return True


class SeenOutOfOrder(Generations[Publisher, SeenSequences]):
    """The same, where publications of one publisher may arrive out of order."""

    __slots__ = ("_last", "window")

    def __init__(self, publishers_max: int, before: SeenPublications) -> None:
        """`before`: what arrived in order until now."""
        super().__init__(publishers_max)
        self.window = PUBLISHER_WINDOW
        """How many sequences of a publisher that is new are told apart."""
        self._last = {**before.old, **before.young}

    def is_new(self, publisher: str, incarnation: int, sequence: int) -> bool:
        """Whether this publication was not seen; it counts as seen afterwards."""
        key = (publisher, incarnation)
        seen = self.young.get(key)
        if seen is None:
            seen = self.old.get(key) or self._new(key)
            if len(self.young) >= self.half:
                self.age()
            self.young[key] = seen
        return seen.add(sequence)

    def _new(self, key: Publisher) -> SeenSequences:
        last = self._last.pop(key, 0)
        return SeenSequences(self.window, last, (1 << min(self.window, last)) - 1)
