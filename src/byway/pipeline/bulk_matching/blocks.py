"""Blocks: rows packed into bytes, which Spark moves as one value; and publications in them encoded.

A row of Spark costs the same whether it has a number or a thousand publications, so publications
and subscriptions travel in blocks of many, as Arrow's streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from byway.matching.columns import EncodedRows, Values, encode_rows
from byway.matching.vocabulary import Vocabulary
from byway.model import Value
from byway.model.values import Kind
from byway.pipeline.pipeline_errors import RowError

PUBLICATION_BLOCK_ROWS: Final = 2_048
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_MAPS: Final = {
    "integers": Kind.NUMBER,
    "numbers": Kind.NUMBER,
    "strings": Kind.STRING,
    "booleans": Kind.BOOLEAN,
}


def publication_blocks(slices: int, batches: Iterator[Any]) -> Iterator[Any]:
    """Run in a worker: pack publications into blocks, and deal these out to slices."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    slice_ = 0 if context is None else context.partitionId()
    for batch in batches:
        _check_ids(batch, "publication")
        for start in range(0, batch.num_rows, PUBLICATION_BLOCK_ROWS):
            block = _packed(batch.slice(start, PUBLICATION_BLOCK_ROWS))
            columns = [pa.array([slice_ % slices], pa.int32()), pa.array([block], pa.binary())]
            yield pa.record_batch(columns, ["slice", "block"])
            slice_ += 1


def subscription_blocks(parts: int, batches: Iterator[Any]) -> Iterator[Any]:
    """Run in a worker: pack subscriptions into blocks, each with those of one part. An id is always
    in the same part."""
    import pyarrow as pa

    for batch in batches:
        _check_ids(batch, "subscription")
        ids = batch.column("id").to_numpy()
        mixed = (ids.astype(np.uint64) * _MIX) >> np.uint64(33)
        part_of = (mixed % np.uint64(parts)).astype(np.int32)
        found = np.unique(part_of)
        blocks = [_packed(batch.filter(pa.array(part_of == part))) for part in found]
        columns = [pa.array(found), pa.array(blocks, pa.binary())]
        yield pa.record_batch(columns, ["part", "block"])


def _check_ids(batch: Any, what: str) -> None:
    if batch.column("id").null_count:
        raise RowError(f"a {what} has no id")


def _packed(batch: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(block: Any) -> Any:
    """The batch in a block, an Arrow scalar; it is valid as long as the scalar's array is."""
    import pyarrow as pa

    with pa.ipc.open_stream(block.as_buffer()) as stream:
        return stream.read_next_batch()


def encoded(batch: Any, vocabulary: Vocabulary) -> EncodedRows:
    """The publications of a batch, encoded for an index with this vocabulary."""
    return encode_rows([_values(batch, name) for name in _MAPS], vocabulary)


def publications(batch: Any) -> list[dict[str, Value]]:
    """The publications of a batch as dicts of attributes."""
    columns = [batch.column(name).to_pylist() for name in _MAPS]
    return [
        {name: value for entries in row for name, value in entries}
        for row in zip(*columns, strict=True)
    ]


def _values(batch: Any, name: str) -> Values:
    """The entries of a map column; those without a value are left out."""
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
