"""Runs a job on Spark: work in pieces, each a task of its own, with progress in the meantime.

What a piece is, and what is done with it, is decided by the caller. A piece returns a small struct;
all else is in files. A job has a tag of its own, so that stopping it stops no other, and runs under
the caller's job group, pool and tags.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

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
    done = _collected(spark, tasks, poll)
    if poll is not None:
        poll()
    results = {row["number"]: row["result"] for row in done}
    return [msgspec.json.decode(results[number], type=result) for number in range(len(pieces))]


def _collected(spark: SparkSession, tasks: DataFrame, poll: Poll | None) -> list[Row]:
    """The rows of `tasks`. If the wait ends by Ctrl-C or by an error of `poll`, the job is stopped,
    and nothing else in the session."""
    from pyspark import inheritable_thread_target

    tag = f"byway-{uuid4().hex}"
    # a tag of a session is known only to the thread that added it, except over Connect
    context = getattr(spark, "sparkContext", None)  # Connect has none
    add, remove, interrupt = (
        (spark.addTag, spark.removeTag, spark.interruptTag)
        if context is None
        else (context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)
    )

    def collect() -> list[Row]:
        add(tag)
        try:
            return tasks.collect()
        finally:
            remove(tag)

    target: Callable[[], list[Row]] = inheritable_thread_target(spark)(collect)
    with ThreadPoolExecutor(1, "byway-job") as thread, _interrupts_only_python():
        job = thread.submit(target)
        try:
            while not wait_for([job], POLL_S).done:
                if poll is not None:
                    poll()
        except BaseException:
            while not wait_for([job], POLL_S).done:  # again: it may not have begun
                interrupt(tag)
            raise
        return job.result()


@contextmanager
def _interrupts_only_python() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt` and do no more: the handler that Spark installs cancels
    all jobs of the session first. A handler of somebody else is kept."""
    handler = signal.getsignal(signal.SIGINT)
    is_of_spark = str(getattr(handler, "__module__", "")).startswith("pyspark.")
    if not is_of_spark or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


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
