"""Parts: builds indexes of subscriptions in files, each within a bound of memory.

It decides how many subscriptions are in a part. A part may exceed the bound by its last filters, of
a thousand characters together; one filter alone is smaller than the least bound, because its text
is limited. How an index is stored and mapped is decided in `byway.matching.stored`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from byway.model import BywayError
from byway.pipeline.bulk_matching.filter_texts import FilterTexts
from byway.pipeline.bulk_matching.rows import RowGroups, batches_of, publications
from byway.pipeline.pipeline_errors import TableError

PART_ROWS_MIN: Final = 250_000
PARTS_MIN: Final = 4
"""Parts are built in parallel: at least `PARTS_MIN`, if each gets `PART_ROWS_MIN` rows."""
PART_ROWS_MAX: Final = 1_000_000
MEMORY_MIN: Final = 2**20
SAMPLE_ROWS: Final = 2_048
"""Publications that an index adapts to before it is stored."""
INDEX: Final = ".index"
IDS: Final = ".ids.npy"

_STEP: Final = 1_024
_CHECK_EVERY: Final = 1_024
"""Characters times alternatives that are added between two checks of the size of an index."""
_FULL: Final = 0.8
"""An index is closed at this share of the bound, because arrays grow by an eighth."""


class BuildPiece(msgspec.Struct, frozen=True):
    """A task: subscriptions for one or more parts, publications to adapt to, a path for parts."""

    groups: list[RowGroups]
    sample: RowGroups | None
    path: str
    memory_bytes: int


class IndexPart(msgspec.Struct, frozen=True):
    """The file of an index, and beside it the file of the ids of its subscriptions by key."""

    path: str
    rows: int
    size_bytes: int = 0
    """Size of the index file."""

    @property
    def index(self) -> Path:
        """Path of the index file."""
        return Path(self.path + INDEX)

    @property
    def ids(self) -> Path:
        """Path of the file of ids."""
        return Path(self.path + IDS)


class BuildResult(msgspec.Struct, frozen=True):
    """The parts that a task built, or why it could not."""

    parts: list[IndexPart]
    fault: tuple[str, str] | None = None
    """The file that cannot be used, and the reason."""


def part_rows(subscriptions: int) -> int:
    """Number of subscriptions of a part, if memory allows."""
    even = -(-subscriptions // PARTS_MIN)
    return min(PART_ROWS_MAX, max(PART_ROWS_MIN, even))


def build_parts(piece: BuildPiece) -> BuildResult:
    """Run in a worker: build the indexes of a piece, one after another."""
    try:
        return BuildResult(list(_parts(piece)))
    except TableError as error:
        return BuildResult([], (error.path, error.reason))


def _parts(piece: BuildPiece) -> Iterator[IndexPart]:
    sample = [] if piece.sample is None else _sample(piece.sample)
    texts = FilterTexts()
    full_bytes = int(_FULL * piece.memory_bytes)
    builder = _Builder(sample, full_bytes)
    number = 0
    for groups in piece.groups:
        for batch in batches_of(groups, ["id", "filter"], _STEP):
            taken = builder.add(batch, texts, groups.file)
            while builder.is_full:
                yield builder.store(f"{piece.path}-{number:04}")
                number += 1
                builder = _Builder(sample, full_bytes)
                taken += builder.add(batch.slice(taken), texts, groups.file)
    if len(builder):
        yield builder.store(f"{piece.path}-{number:04}")


def _sample(groups: RowGroups) -> list[Any]:
    columns = ["integers", "numbers", "strings", "booleans"]
    return publications(next(batches_of(groups, columns, SAMPLE_ROWS)))


class _Builder:
    """Builds one part."""

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

    def add(self, batch: Any, texts: FilterTexts, file: str) -> int:
        """Add subscriptions until the part is full, and return how many. After the first batch the
        index adapts to the sample of publications."""
        ids, filters = (batch.column(name) for name in ("id", "filter"))
        taken = 0
        for text in filters.to_pylist():
            try:
                filter = texts.read(text)
                self._index.add(filter)
            except BywayError as error:
                reason = str(error).partition("\n")[0]
                raise TableError(file, f"subscription {ids[taken]}: {reason}") from None
            taken += 1
            self._check_full(len(filter.conjunctions) * len(text))
            if self.is_full:
                break
        if not self._ids:
            self._index.learn(self._sample)
        self._ids.append(ids.slice(0, taken).to_numpy())
        return taken

    def _check_full(self, size: int) -> None:
        """Check now and then whether the part is full; the check is not free."""
        self._unchecked += size
        if self._unchecked >= _CHECK_EVERY:
            self._unchecked = 0
            self.is_full = self._index.memory_bytes > self._full_bytes

    def store(self, path: str) -> IndexPart:
        """Let the index adapt to the sample, and write the part."""
        self._index.learn(self._sample)
        part = IndexPart(path, len(self))
        np.save(part.ids, np.concatenate(self._ids))
        self._index.store(part.index)
        return msgspec.structs.replace(part, size_bytes=part.index.stat().st_size)
