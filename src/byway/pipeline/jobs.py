"""Jobs: work in pieces, each a task of its own, with a look now and then at how far it is.

What a piece is, and what is done with it, is decided by whoever starts the job. What comes back
from a piece is a few facts; all else is in files.
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

LOOK_S: Final = 0.25
"""Between two looks at how far a job is."""

_PIECE_SCHEMA: Final = "number bigint, piece string"
_DONE_SCHEMA: Final = "number bigint, result string"

Piece = TypeVar("Piece", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)
Look = Callable[[], None]
Progress = Callable[[int], None]
"""Called now and then with how many pieces are done."""


def run_job(
    spark: SparkSession,
    do: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    result: type[Result],
    look: Look | None = None,
) -> list[Result]:
    """What `do` says of each piece, in their order. It is called in a worker, which must be able to
    import it; `look` is called here in the meantime."""
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
            while not wait_for([job], LOOK_S).done:
                if look is not None:
                    look()
        except KeyboardInterrupt:
            spark.interruptAll()
            raise
        done = job.result()
    if look is not None:
        look()
    told = {row["number"]: row["result"] for row in done}
    return [msgspec.json.decode(told[number], type=result) for number in range(len(pieces))]


def _do_pieces(
    do: Callable[[Any], msgspec.Struct], kind: type[msgspec.Struct], batches: Iterator[Any]
) -> Iterator[Any]:
    """Runs in a worker: do the pieces of its partition, of which there is one."""
    import pyarrow as pa

    for batch in batches:
        for row in batch.to_pylist():
            told = do(msgspec.json.decode(row["piece"], type=kind))
            encoded = msgspec.json.encode(told).decode()
            yield pa.record_batch(
                [pa.array([row["number"]], pa.int64()), pa.array([encoded])], ["number", "result"]
            )
