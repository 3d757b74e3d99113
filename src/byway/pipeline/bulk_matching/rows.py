"""Rows: row groups of tables, read in a worker without Spark, and publications as codes.

Files are shipped by path: to read them here is three times as fast as to be given their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.parquet as pq

from byway.matching.columns import EncodedRows, Values, encode_rows
from byway.matching.vocabulary import Vocabulary
from byway.model import Value
from byway.model.values import Kind

_MAPS: Final = {
    "integers": Kind.NUMBER,
    "numbers": Kind.NUMBER,
    "strings": Kind.STRING,
    "booleans": Kind.BOOLEAN,
}


class Groups(msgspec.Struct, frozen=True):
    """Some row groups of a file that follow one another."""

    file: str
    first: int
    last: int
    """The one after the last."""
    rows: int


def grouped(files: Iterable[Path], rows_max: int) -> list[Groups]:
    """All row groups of all files, in order, as many together as have so many rows at most."""
    found: list[Groups] = []
    for file in files:
        metadata = pq.read_metadata(file)
        first, rows = 0, 0
        for number in range(metadata.num_row_groups):
            more = metadata.row_group(number).num_rows
            if rows and rows + more > rows_max:
                found.append(Groups(str(file), first, number, rows))
                first, rows = number, 0
            rows += more
        if rows:
            found.append(Groups(str(file), first, metadata.num_row_groups, rows))
    return found


def batches_of(groups: Groups, columns: list[str], rows: int) -> Iterator[Any]:
    """Their rows, so many at a time."""
    with pq.ParquetFile(groups.file, memory_map=True) as file:
        numbers = list(range(groups.first, groups.last))
        yield from file.iter_batches(rows, numbers, columns)


def encoded(batch: Any, vocabulary: Vocabulary) -> EncodedRows:
    """The publications of a batch with their maps, for an index of this vocabulary."""
    return encode_rows([_values(batch, name) for name in _MAPS], vocabulary)


def publications(batch: Any) -> list[dict[str, Value]]:
    """The same as objects."""
    columns = [batch.column(name).to_pylist() for name in _MAPS]
    return [
        {name: value for entries in row for name, value in entries}
        for row in zip(*columns, strict=True)
    ]


def _values(batch: Any, name: str) -> Values:
    """The entries of a map; those without a value are left out, as if they were not there."""
    column = batch.column(name)
    offsets = column.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    offsets = offsets - first
    keys = column.keys.slice(first, last - first)
    items = column.items.slice(first, last - first)
    if items.null_count:
        there = items.is_valid()
        offsets = np.concatenate([[0], np.cumsum(there.to_numpy(zero_copy_only=False))])[offsets]
        keys, items = keys.filter(there), items.filter(there)
    keys = keys.dictionary_encode()
    strings: list[str] = []
    if _MAPS[name] is Kind.STRING:
        items = items.dictionary_encode()
        strings, items = items.dictionary.to_pylist(), items.indices
    values = items.to_numpy(zero_copy_only=False)
    names = keys.dictionary.to_pylist()
    return Values(_MAPS[name], offsets, names, keys.indices.to_numpy(), values, strings)
