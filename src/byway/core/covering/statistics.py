"""What local subscriptions received lately, and how far away others were that wanted it too.

A row for each publication and each local subscription it matched: its publisher, and the `distance`
and `count` of its header (003 §IV-A, 004 §IV-A). Bodies are not kept. At least half and at most all
of `rows_max` rows are there; those of a subscription go with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from sys import intern

Row = tuple[str, int, int, int]
"""Publisher, distance, count, and when it was."""
Rows = dict[int, list[Row]]
"""By the key of a subscription."""


class Statistics:
    """A sliding window, bounded by rows and by age."""

    def __init__(self, rows_max: int, window_us: int) -> None:
        self._half = max(rows_max // 2, 1)
        self._window_us = window_us
        self.young: Rows = {}
        self.old: Rows = {}
        self._count = 0

    def __len__(self) -> int:
        return sum(map(len, chain(self.young.values(), self.old.values())))

    def record(self, key: int, publisher: str, distance: int, count: int, now_us: int) -> None:
        """A subscription received something."""
        if self._count >= self._half:
            self.old, self.young, self._count = self.young, {}, 0
        self._count += 1
        row = intern(publisher), distance, count, now_us
        rows = self.young.get(key)
        if rows is None:
            self.young[key] = [row]
        else:
            rows.append(row)

    def take(self, key: int, now_us: int) -> list[Row]:
        """The rows of a subscription that ends; they are forgotten."""
        old, young = self.old.pop(key, []), self.young.pop(key, [])
        self._count -= len(young)
        since_us = now_us - self._window_us
        return [row for row in chain(old, young) if row[3] >= since_us]

    def restore(self, young: Rows, old: Rows) -> None:
        """What was kept."""
        self.young, self.old = young, old
        self._count = sum(map(len, young.values()))


def critical_distance(distances: Sequence[int], similarity: float) -> int:
    """How many hops on the similarity is reached, for a list that is not empty."""
    needed = similarity * len(distances) - 1e-9
    for rank, distance in enumerate(sorted(distances), 1):
        if rank >= needed:
            return distance
    raise AssertionError(f"a similarity of {similarity}")
