"""Runs jobs on Spark, with progress in the meantime: one action, or work in pieces.

What an action or a piece is, and what is done with it, is decided by the caller. A job has a tag of
its own, so that stopping it stops no other, and runs under the caller's job group, pool and tags.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import msgspec

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import StageInfo

POLL_S: Final = 0.25
"""Seconds between two calls of `poll`."""

_PIECE_SCHEMA: Final = "number bigint, piece string"
_DONE_SCHEMA: Final = "number bigint, result string"

Piece = TypeVar("Piece", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)
Answer = TypeVar("Answer")
Poll = Callable[[], None]
Progress = Callable[[int, int, str], None]
"""Called now and then with the number of tasks done, the number known of, and what they do."""


def run_action(
    spark: SparkSession,
    action: Callable[[], Answer],
    progress: Progress | None = None,
    what: str = "",
) -> Answer:
    """The answer of `action`, which may start Spark jobs. `progress` is called here with the tasks
    of these jobs. If the wait ends by Ctrl-C, these jobs are stopped, and nothing else in the
    session."""
    tag = f"byway-{uuid4().hex}"
    if progress is None:
        return _tagged(spark, action, tag, None)
    with _task_counts(spark, tag) as counts:

        def poll() -> None:
            progress(*counts(), what)

        answer = _tagged(spark, action, tag, poll)
        poll()
    return answer


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
    done = _tagged(spark, tasks.collect, f"byway-{uuid4().hex}", poll)
    if poll is not None:
        poll()
    results = {row["number"]: row["result"] for row in done}
    return [msgspec.json.decode(results[number], type=result) for number in range(len(pieces))]


def _tagged(
    spark: SparkSession, action: Callable[[], Answer], tag: str, poll: Poll | None
) -> Answer:
    """The answer of `action`, whose jobs have the tag. If the wait ends by Ctrl-C or by an error of
    `poll`, the jobs with the tag are stopped."""
    from pyspark import inheritable_thread_target

    # a tag of a session is known only to the thread that added it, except over Connect
    context = _context(spark)
    add, remove, interrupt = (
        (spark.addTag, spark.removeTag, spark.interruptTag)
        if context is None
        else (context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)
    )

    def call() -> Answer:
        add(tag)
        try:
            return action()
        finally:
            remove(tag)

    target: Callable[[], Answer] = inheritable_thread_target(spark)(call)
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


def _context(spark: SparkSession) -> SparkContext | None:
    """The context of a session; Connect has none."""
    return getattr(spark, "sparkContext", None)


# --- progress ---------------------------------------------------------------------------------


@contextmanager
def _task_counts(spark: SparkSession, tag: str) -> Iterator[Callable[[], tuple[int, int]]]:
    """A function that counts the tasks done and known of, of the jobs with the tag. Over Connect,
    which tells the tasks of operations without their tags, it counts those of the session."""
    context = _context(spark)
    if context is not None:
        yield partial(_of_tracker, context, tag)
        return
    counts: dict[str | None, tuple[int, int]] = {}

    def handler(
        stages: Iterable[StageInfo] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        del inflight_tasks, done
        found = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        if found:
            counts[operation_id] = (sum(n for n, _ in found), sum(n for _, n in found))

    spark.registerProgressHandler(handler)  # type: ignore[arg-type]
    try:
        yield lambda: (sum(n for n, _ in counts.values()), sum(n for _, n in counts.values()))
    finally:
        spark.removeProgressHandler(handler)  # type: ignore[arg-type]


def _of_tracker(context: SparkContext, tag: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    found = [info for stage in stages if (info := tracker.getStageInfo(stage)) is not None]
    return sum(info.numCompletedTasks for info in found), sum(info.numTasks for info in found)


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
