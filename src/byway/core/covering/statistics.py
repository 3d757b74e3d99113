"""What local subscriptions received lately, and how far away others were that wanted it too.

There is a row for each publication and each local subscription it matched: its publisher, and the
`distance` and `count` of its header (section IV-A of "Incremental filter aggregation" and of
"Selective filter aggregation"). Bodies are not kept. With more than `statistics_max` rows, the
older half is forgotten; the rows of a subscription are removed with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from sys import intern

from byway.model.generations import Generations

Row = tuple[str, int, int, int]
"""Publisher, distance, count, and when it was."""


class Statistics(Generations[int, list[Row]]):
    """A sliding window of rows by the key of a subscription, bounded by their number and age."""

    def __init__(self, rows_max: int, window_us: int) -> None:
        super().__init__(rows_max)
        self._window_us = window_us
        self._count = 0
        """Number of young rows."""

    def __len__(self) -> int:
        """Number of rows."""
        return sum(map(len, chain(self.young.values(), self.old.values())))

    def record(self, key: int, publisher: str, distance: int, count: int, now_us: int) -> None:
        """Note that a subscription received a publication."""
        if self._count >= self.half:
            self.age()
            self._count = 0
        self._count += 1
        row = intern(publisher), distance, count, now_us
        rows = self.young.get(key)
        if rows is None:
            self.young[key] = [row]
        else:
            rows.append(row)

    def take(self, key: int, now_us: int) -> list[Row]:
        """The rows of a subscription that ends, without those too old; all are forgotten."""
        old, young = self.old.pop(key, []), self.young.pop(key, [])
        self._count -= len(young)
        since_us = now_us - self._window_us
        return [row for row in chain(old, young) if row[3] >= since_us]

    def restore(self, young: dict[int, list[Row]], old: dict[int, list[Row]]) -> None:
        """Go on with the rows of before a restart."""
        self.young, self.old = young, old
        self._count = sum(map(len, young.values()))


def critical_distance(distances: Sequence[int], similarity: float) -> int:
    """The smallest number of hops within which the share `similarity` of what was received was
    wanted by others too; `distances` is not empty."""
    needed = similarity * len(distances) - 1e-9
    for rank, distance in enumerate(sorted(distances), 1):
        if rank >= needed:
            return distance
    raise AssertionError(f"a similarity of {similarity}")
