"""Which publications were seen: the last sequence of each publisher.

Copies of one publisher's publications arrive in order, so one number a publisher tells a copy that
is sent again from a new one. It cannot tell a gap: filtered streams skip numbers.
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
        """Whether this is a later publication than any seen of the publisher; it is seen now."""
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
