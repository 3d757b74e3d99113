"""Detects duplicates of publications by the last sequence of each publisher.

Publications of one publisher arrive in order, so one number per publisher distinguishes a duplicate
from a new publication. It cannot detect gaps: filtered streams skip numbers.
"""

from __future__ import annotations

Publisher = tuple[str, int]
"""A publisher and its incarnation."""


class SeenPublications:
    """The last sequences of at least half and at most all of `publishers_max` publishers.

    There are two generations: a publisher without a publication for a whole generation is dropped.
    """

    __slots__ = ("_half", "old", "young")

    def __init__(self, publishers_max: int) -> None:
        self._half = max(publishers_max // 2, 1)
        self.young: dict[Publisher, int] = {}
        self.old: dict[Publisher, int] = {}

    def is_new(self, publisher: str, incarnation: int, sequence: int) -> bool:
        """Whether this is later than every publication seen of the publisher; it counts as seen
        afterwards."""
        key = (publisher, incarnation)
        last = self.young.get(key)
        if last is None:
            last = self.old.get(key, 0)
            if len(self.young) >= self._half:
                self.old, self.young = self.young, {}
            self.young[key] = last
        if sequence <= last:
            return False
        self.young[key] = sequence
        return True
