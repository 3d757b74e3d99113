"""What a worker does: match a slice of the publications with the indexes of a part.

The pieces of the indexes arrive first, then the publications, as many as there are: no more than
one block of them is in memory. Answers are pairs, or sparse counts that are to be summed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from byway.pipeline.bulk_matching.blocks import encoded, unpacked
from byway.pipeline.bulk_matching.index_parts import ArrivedIndex, scratch

if TYPE_CHECKING:
    from byway.matching.stored import StoredIndex

ARRIVING: Final = "part int, slice int, step int, number int, piece int, block binary"
PAIRED: Final = "publication bigint, subscription bigint"
COUNTED: Final = "side tinyint, id bigint, matches bigint"
PUBLICATION_SIDE: Final = 0
SUBSCRIPTION_SIDE: Final = 1
_PAIR_ROWS: Final = 262_144


class _Task:
    """The indexes and the publications of a task, one block after another."""

    def __init__(self) -> None:
        self.part = self.slice = -1
        self.arrived: list[ArrivedIndex] = []

    def publications(self, batches: Iterator[Any]) -> Iterator[tuple[list[StoredIndex], Any]]:
        """Each block of publications, and the indexes to match it with, which arrive before."""
        indexes: list[StoredIndex] | None = None
        with scratch() as directory:
            for batch in batches:
                numbers = [batch.column(n).to_pylist() for n in ("part", "slice", "step", "number")]
                for row, (part, slice_, step, number) in enumerate(zip(*numbers, strict=True)):
                    self.part, self.slice = part, slice_
                    block = batch.column("block")[row]
                    if step == 0:
                        if number == len(self.arrived):
                            self.arrived.append(ArrivedIndex(directory, number))
                        self.arrived[number].take(block)
                        continue
                    if indexes is None:
                        indexes = [arrived.mapped() for arrived in self.arrived]
                    yield indexes, unpacked(block)


def pairs(batches: Iterator[Any]) -> Iterator[Any]:
    """Run in a worker: the pairs that match, of one part and one slice."""
    task = _Task()
    waiting = _Pairs()
    for indexes, rows in task.publications(batches):
        ids = rows.column("id").to_numpy()
        for index, arrived in zip(indexes, task.arrived, strict=True):
            for first, keys, found in index.match(encoded(rows, index.vocabulary)):
                publications = np.repeat(ids[first : first + len(found)], found)
                yield from waiting.add(publications, arrived.ids[keys])
    yield from waiting.rest()


class _Pairs:
    """Pairs that wait until there are enough for a batch."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Any, Any]] = []
        self._rows = 0

    def __repr__(self) -> str:
        return f"<_Pairs {self._rows} waiting>"

    def add(self, publications: Any, subscriptions: Any) -> Iterator[Any]:
        """Add pairs, and yield a batch if there are enough."""
        self._waiting.append((publications, subscriptions))
        self._rows += len(publications)
        if self._rows >= _PAIR_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[Any]:
        """A batch of those that wait, if any."""
        import pyarrow as pa

        if self._rows:
            columns = [np.concatenate(column) for column in zip(*self._waiting, strict=True)]
            yield pa.record_batch(list(map(pa.array, columns)), ["publication", "subscription"])
        self._waiting, self._rows = [], 0


def counts(batches: Iterator[Any]) -> Iterator[Any]:
    """Run in a worker: how often each publication of a slice, and each subscription of a part, was
    matched. A publication without a match is told by the first part alone, and a subscription by
    the first slice."""
    task = _Task()
    for indexes, rows in task.publications(batches):
        total = np.zeros(rows.num_rows, np.int64)
        for index, arrived in zip(indexes, task.arrived, strict=True):
            total += index.count(encoded(rows, index.vocabulary), arrived.counts)
        ids = rows.column("id").to_numpy()
        yield from _counted(PUBLICATION_SIDE, ids, total, with_zeros=task.part == 0)
    for arrived in task.arrived:
        with_zeros = task.slice == 0
        yield from _counted(SUBSCRIPTION_SIDE, arrived.ids, arrived.counts, with_zeros=with_zeros)


def _counted(side: int, ids: Any, found: Any, *, with_zeros: bool) -> Iterator[Any]:
    import pyarrow as pa

    if not with_zeros:
        there = found > 0
        ids, found = ids[there], found[there]
    for start in range(0, len(ids), _PAIR_ROWS):
        some = slice(start, start + _PAIR_ROWS)
        columns = [np.full(len(ids[some]), side, np.int8), ids[some], found[some]]
        yield pa.record_batch(list(map(pa.array, columns)), ["side", "id", "matches"])
