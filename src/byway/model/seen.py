"""Detects duplicates of publications by the last sequence of each publisher.

Publications of one publisher arrive in order, so one number per publisher distinguishes a duplicate
from a new publication. It cannot detect gaps: filtered streams skip numbers.
"""

from __future__ import annotations

from byway.model.generations import Generations

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
