"""Index parts: builds indexes of subscriptions, each within a bound of memory, and moves them.

It decides how many subscriptions are in an index. An index may exceed the bound by its last
filters, of a thousand characters together; one filter alone is smaller than the least bound,
because its text is limited. How an index is stored and mapped is decided in
`byway.matching.stored`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from byway.model import BywayError
from byway.pipeline.bulk_matching.blocks import publications, unpacked
from byway.pipeline.bulk_matching.filter_texts import FilterTexts
from byway.pipeline.pipeline_errors import RowError

if TYPE_CHECKING:
    from byway.matching.stored import StoredIndex

MEMORY_MIN: Final = 2**20
SAMPLE_ROWS: Final = 2_048
"""Publications that an index adapts to before it is stored."""
PIECE_BYTES: Final = 8 * 2**20
"""Bytes of an index that travel together, at most."""
BUILT: Final = "part int, number int, piece int, block binary"

_CHECK_EVERY: Final = 1_024
"""Characters times alternatives that are added between two checks of the size of an index."""
_FULL: Final = 0.8
"""An index is closed at this share of the bound, because arrays grow by an eighth."""
_INDEX: Final = "index"


def build(memory_bytes: int, batches: Iterator[Any]) -> Iterator[Any]:
    """Run in a worker: build the indexes of a part, and yield them in pieces. The blocks of a part
    are those with a sample of publications, then those with subscriptions."""
    import pyarrow as pa

    sample: list[Any] = []
    builder: _Builder | None = None
    part, number = 0, 0
    full_bytes = int(_FULL * memory_bytes)

    def pieces(built: _Builder) -> Iterator[Any]:
        for piece, data in enumerate(built.pieces()):
            numbers = [pa.array([n], pa.int32()) for n in (part, number, piece)]
            names = ["part", "number", "piece", "block"]
            yield pa.record_batch([*numbers, pa.array([data], pa.binary())], names)

    for batch in batches:
        for row in range(batch.num_rows):
            rows = unpacked(batch.column("block")[row])
            part = batch.column("part")[row].as_py()
            if not batch.column("step")[row].as_py():
                sample += publications(rows)
                continue
            taken = 0
            while taken < rows.num_rows:
                if builder is None:
                    builder = _Builder(sample, full_bytes)
                taken += builder.add(rows.slice(taken))
                if builder.is_full:
                    yield from pieces(builder)
                    builder, number = None, number + 1
    if builder is not None:
        yield from pieces(builder)


class _Builder:
    """Builds one index."""

    def __init__(self, sample: list[Any], full_bytes: int) -> None:
        from byway.matching.stored import IndexBuilder

        self.is_full = False
        self._full_bytes = full_bytes
        self._index = IndexBuilder()
        self._sample = sample
        self._ids: list[Any] = []
        self._unchecked = 0

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"<_Builder {self._index!r}>"

    def add(self, rows: Any) -> int:
        """Add subscriptions until the index is full, and return how many. After the first ones the
        index adapts to the sample of publications."""
        ids, filters = (rows.column(name) for name in ("id", "filter"))
        texts = filter_texts()
        taken = 0
        for text in filters.to_pylist():
            if text is None:
                raise RowError(f"subscription {ids[taken]}: it has no filter")
            try:
                filter = texts.read(text)
                self._index.add(filter)
            except BywayError as error:
                reason = str(error).partition("\n")[0]
                raise RowError(f"subscription {ids[taken]}: {reason}") from None
            taken += 1
            self._check_full(len(filter.conjunctions) * len(text))
            if self.is_full:
                break
        if not self._ids:
            self._index.learn(self._sample)
        self._ids.append(ids.slice(0, taken).to_numpy())
        return taken

    def _check_full(self, size: int) -> None:
        """Check now and then whether the index is full; the check is not free."""
        self._unchecked += size
        if self._unchecked >= _CHECK_EVERY:
            self._unchecked = 0
            self.is_full = self._index.memory_bytes > self._full_bytes

    def pieces(self) -> Iterator[bytes]:
        """Let the index adapt to the sample; its ids by key, then the pieces of its file."""
        self._index.learn(self._sample)
        yield np.concatenate(self._ids).tobytes()
        with scratch() as directory:
            path = directory / _INDEX
            self._index.store(path)
            with path.open("rb") as file:
                while data := file.read(PIECE_BYTES):
                    yield data


class ArrivedIndex:
    """An index that arrives in pieces, and the ids of its subscriptions by key."""

    def __init__(self, directory: Path, number: int) -> None:
        self.ids: Any = None
        self.counts: Any = None
        """By key, how many publications match it."""
        self._path = directory / f"{number}"

    def __repr__(self) -> str:
        return f"ArrivedIndex({str(self._path)!r})"

    def take(self, block: Any) -> None:
        """Take over the next piece."""
        data = block.as_buffer()
        if self.ids is None:
            self.ids = np.frombuffer(data.to_pybytes(), np.int64)
            self.counts = np.zeros(len(self.ids), np.int64)
            return
        with self._path.open("ab") as file:
            file.write(data)

    def mapped(self) -> StoredIndex:
        """The index, mapped from its file, which goes when nobody uses it any more."""
        from byway.matching.stored import StoredIndex

        index = StoredIndex(self._path)
        self._path.unlink()
        return index


@cache
def filter_texts() -> FilterTexts:
    """The parser of this worker, which remembers what it has seen in other tasks."""
    return FilterTexts()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for the time of a block, where Spark keeps its own files in this worker."""
    place: str | None = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    place = place if place and Path(place).is_dir() else None
    with TemporaryDirectory(prefix="byway-", dir=place) as directory:
        yield Path(directory)
