"""What a worker does: match a piece of publications with one part, and add up the results.

The results of a task go to files of their own, counts to plain arrays and pairs to a table; nothing
is shuffled. An index is mapped once in each worker and stays there for the tasks that follow.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from byway.pipeline.bulk_matching.parts import IndexPart
from byway.pipeline.bulk_matching.rows import RowGroups, batches_of, encoded
from byway.pipeline.table_files import SUFFIX, ParquetFile, write_file
from byway.pipeline.workload_schemas import PAIRS, PUBLICATION_MATCHES, SUBSCRIPTION_MATCHES

if TYPE_CHECKING:
    from byway.matching.stored import StoredIndex

_BATCH_ROWS: Final = 8_192
_PAIR_ROWS: Final = 1_048_576
_COLUMNS: Final = ["id", "integers", "numbers", "strings", "booleans"]


class MatchPlaces(msgspec.Struct, frozen=True):
    """The files that tasks write their results to."""

    work: str
    pairs: str | None
    """Directory of the table of pairs; None: pairs are not wanted."""

    def by_publication(self, part: int, piece: int) -> Path:
        """File with the number of matches of each publication of a piece, in one part."""
        return Path(self.work, f"publications-{part:05}-{piece:05}.npy")

    def by_subscription(self, part: int, piece: int) -> Path:
        """File with the number of matches of each subscription of a part, in one piece."""
        return Path(self.work, f"subscriptions-{part:05}-{piece:05}.npy")


class MatchPiece(msgspec.Struct, frozen=True):
    """A task: the publications of some row groups, and one part."""

    part_number: int
    part: IndexPart
    number: int
    groups: RowGroups


class MatchResult(msgspec.Struct, frozen=True):
    """The number of pairs that a task found."""

    pairs: int


class SumPiece(msgspec.Struct, frozen=True):
    """A task: a file of totals, of a piece over all parts or of a part over all pieces."""

    path: str
    number: int
    count: int
    """Number of files to add up."""
    groups: RowGroups | None = None
    part: IndexPart | None = None


class SumResult(msgspec.Struct, frozen=True):
    """Number of rows of a file of totals, and of those that match nothing."""

    rows: int
    without: int


@lru_cache(maxsize=1)
def mapped(path: str) -> StoredIndex:
    """The index in a file, mapped once in this process. No two indexes have the same path."""
    from byway.matching.stored import StoredIndex

    return StoredIndex(Path(path))


def match_piece(places: MatchPlaces, piece: MatchPiece) -> MatchResult:
    """Run in a worker: match a piece of publications with one part."""
    index = mapped(str(piece.part.index))
    by_key = np.zeros(piece.part.rows, np.int64)
    batches = batches_of(piece.groups, _COLUMNS, _BATCH_ROWS)
    if places.pairs is None:
        counts = [index.count(encoded(batch, index.vocabulary), by_key) for batch in batches]
    else:
        path = Path(places.pairs, f"part-{piece.part_number:05}-{piece.number:05}{SUFFIX}")
        with _Pairs(path, np.load(piece.part.ids, mmap_mode="r")) as pairs:
            counts = [_match_batch(index, batch, by_key, pairs) for batch in batches]
    of_publications = np.concatenate(counts)
    np.save(places.by_subscription(piece.part_number, piece.number), by_key)
    np.save(places.by_publication(piece.part_number, piece.number), of_publications)
    return MatchResult(int(of_publications.sum()))


def _match_batch(index: StoredIndex, batch: Any, by_key: Any, pairs: _Pairs) -> Any:
    rows = encoded(batch, index.vocabulary)
    ids = batch.column("id").to_numpy()
    counts = np.zeros(len(rows), np.int64)
    for first, keys, found in index.match(rows):
        after = first + len(found)
        counts[first:after] = found
        by_key += np.bincount(keys, minlength=len(by_key))
        pairs.add(np.repeat(ids[first:after], found), keys)
    return counts


class _Pairs:
    """A file of pairs, written in large row groups."""

    def __init__(self, path: Path, subscriptions: Any) -> None:
        self._file = ParquetFile(path, PAIRS.arrow_schema())
        self._subscriptions = subscriptions
        self._waiting: list[tuple[Any, Any]] = []
        self._rows = 0

    def __enter__(self) -> _Pairs:
        self._file.__enter__()
        return self

    def add(self, publications: Any, keys: Any) -> None:
        """Add pairs of publication ids and subscription keys."""
        self._waiting.append((publications, self._subscriptions[keys]))
        self._rows += len(keys)
        if self._rows >= _PAIR_ROWS:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa

        columns = [np.concatenate(column) for column in zip(*self._waiting, strict=True)]
        self._file.write(pa.Table.from_arrays(columns, schema=PAIRS.arrow_schema()))
        self._waiting, self._rows = [], 0

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None and self._rows:
            self._write()
        self._file.__exit__(kind, *rest)


def sum_up(places: MatchPlaces, piece: SumPiece) -> SumResult:
    """Run in a worker: write one file of totals."""
    import pyarrow as pa

    others = range(piece.count)
    if piece.part is not None:
        schema = SUBSCRIPTION_MATCHES.arrow_schema()
        ids = np.load(piece.part.ids)
        files = [places.by_subscription(piece.number, other) for other in others]
    else:
        assert piece.groups is not None
        schema = PUBLICATION_MATCHES.arrow_schema()
        batches = batches_of(piece.groups, ["id"], _PAIR_ROWS)
        ids = np.concatenate([batch.column("id").to_numpy() for batch in batches])
        files = [places.by_publication(other, piece.number) for other in others]
    total = np.zeros(len(ids), np.int64)
    for file in files:
        total += np.load(file)
    columns = [pa.array(ids), pa.array(total)]
    write_file(pa.Table.from_arrays(columns, schema=schema), Path(piece.path))
    return SumResult(len(ids), int((total == 0).sum()))
