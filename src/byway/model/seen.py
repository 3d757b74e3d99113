"""Which publications were seen: the last sequence of each publisher.

Copies of one publisher's publications arrive in order, so one number a publisher tells a copy that
is sent again from a new one. It cannot tell a gap: filtered streams skip numbers.
"""

from __future__ import annotations

Publisher = tuple[str, int]
"""A publisher and its incarnation."""


class SeenPublications:
    """Last sequences of at least half and at most all of `publishers_max` publishers.

    Two generations: one that has not been heard of for a whole generation is forgotten.
    """

    __slots__ = ("_half", "old", "young")

    def __init__(self, publishers_max: int) -> None:
        self._half = max(publishers_max // 2, 1)
        self.young: dict[Publisher, int] = {}
        self.old: dict[Publisher, int] = {}

    def is_new(self, publisher: str, incarnation: int, sequence: int) -> bool:
        """Whether this is a later publication than any seen of the publisher; it is seen now."""
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
