"""Runs a job on Spark: work in pieces, each a task of its own, with progress in the meantime.

What a piece is, and what is done with it, is decided by the caller. A piece returns a small struct;
all else is in files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S: Final = 0.25
"""Seconds between two calls of `poll`."""

_PIECE_SCHEMA: Final = "number bigint, piece string"
_DONE_SCHEMA: Final = "number bigint, result string"

Piece = TypeVar("Piece", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)
Poll = Callable[[], None]
Progress = Callable[[int], None]
"""Called now and then with the number of pieces that are done."""


def run_job(
    spark: SparkSession,
    do: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    result: type[Result],
    poll: Poll | None = None,
) -> list[Result]:
    """The results of `do` for all pieces, in their order. `do` is called in a worker, which must be
    able to import it; `poll` is called here in the meantime."""
    if not pieces:
        return []
    rows = [(number, msgspec.json.encode(piece).decode()) for number, piece in enumerate(pieces)]
    frame = spark.createDataFrame(rows, _PIECE_SCHEMA)
    # by range: hashes would put several into one task
    tasks = frame.repartitionByRange(len(pieces), "number").mapInArrow(
        partial(_do_pieces, do, type(pieces[0])), _DONE_SCHEMA
    )
    with ThreadPoolExecutor(1, "byway-job") as thread:
        job = thread.submit(tasks.collect)
        try:
            while not wait_for([job], POLL_S).done:
                if poll is not None:
                    poll()
        except KeyboardInterrupt:
            spark.interruptAll()
            raise
        done = job.result()
    if poll is not None:
        poll()
    results = {row["number"]: row["result"] for row in done}
    return [msgspec.json.decode(results[number], type=result) for number in range(len(pieces))]


def _do_pieces(
    do: Callable[[Any], msgspec.Struct], kind: type[msgspec.Struct], batches: Iterator[Any]
) -> Iterator[Any]:
    """Run in a worker: do the pieces of its partition, which has one."""
    import pyarrow as pa

    for batch in batches:
        for row in batch.to_pylist():
            result = do(msgspec.json.decode(row["piece"], type=kind))
            encoded = msgspec.json.encode(result).decode()
            yield pa.record_batch(
                [pa.array([row["number"]], pa.int64()), pa.array([encoded])], ["number", "result"]
            )
