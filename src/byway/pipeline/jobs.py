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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import StageInfo

POLL_S: Final = 0.25
"""Seconds between two calls of `progress`."""

_PIECE_SCHEMA: Final = "number bigint, piece string"
_DONE_SCHEMA: Final = "number bigint, result string"
_STAGES_OF_PIECES: Final = 3
"""The look at the numbers, the shuffle and the pieces themselves."""

Piece = TypeVar("Piece", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)
Answer = TypeVar("Answer")
Progress = Callable[[int, int, str], None]
"""Called now and then with the number of tasks or pieces done, the number known of, and what they
are about."""


def run_action(
    spark: SparkSession,
    action: Callable[[], Answer],
    progress: Progress | None = None,
    what: str = "",
) -> Answer:
    """The answer of `action`, which may start Spark jobs. `progress` is called here with the tasks
    of these jobs. If the wait ends by Ctrl-C, these jobs are stopped, and nothing else in the
    session."""
    return _followed(spark, action, _tasks_of, progress, what)


def run_job(
    spark: SparkSession,
    do: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    result: type[Result],
    progress: Progress | None = None,
    what: str = "",
) -> list[Result]:
    """The results of `do` for all pieces, in their order. `do` is called in a worker, which must be
    able to import it; `progress` is called here with the pieces done, and all of them."""
    if not pieces:
        return []
    rows = [(number, msgspec.json.encode(piece).decode()) for number, piece in enumerate(pieces)]
    frame = spark.createDataFrame(rows, _PIECE_SCHEMA)
    # by range: hashes would put several into one task
    tasks = frame.repartitionByRange(len(pieces), "number").mapInArrow(
        partial(_do_pieces, do, type(pieces[0])), _DONE_SCHEMA
    )
    reached = 0

    def over(stages: Sequence[_Stage]) -> tuple[int, int]:
        nonlocal reached
        reached = max(reached, _pieces_over(stages, len(pieces)))
        return reached, len(pieces)

    done = _followed(spark, tasks.collect, over, progress, what)
    if progress is not None:
        progress(len(pieces), len(pieces), what)
    results = {row["number"]: row["result"] for row in done}
    return [msgspec.json.decode(results[number], type=result) for number in range(len(pieces))]


def part_of(progress: Progress | None, before: int, total: int) -> Progress | None:
    """The progress of a part of some work: `before` it is as much done, of `total`."""
    if progress is None:
        return None
    return lambda done, _, what: progress(before + done, total, what)


def _followed(
    spark: SparkSession,
    action: Callable[[], Answer],
    count: Callable[[Sequence[_Stage]], tuple[int, int]],
    progress: Progress | None,
    what: str,
) -> Answer:
    """The answer of `action`; `progress` is called with what is counted of the stages of its
    jobs."""
    tag = f"byway-{uuid4().hex}"
    if progress is None:
        return _tagged(spark, action, tag, None)
    with _stages(spark, tag) as stages:

        def poll() -> None:
            progress(*count(stages()), what)

        answer = _tagged(spark, action, tag, poll)
        poll()
    return answer


def _tagged(
    spark: SparkSession, action: Callable[[], Answer], tag: str, poll: Callable[[], None] | None
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


class _Stage(NamedTuple):
    """What Spark tells of a stage."""

    id: int
    tasks: int
    done: int
    has_begun: bool


def _tasks_of(stages: Sequence[_Stage]) -> tuple[int, int]:
    """The tasks done and known of. Spark skips a stage whose output it has already, and tells it
    all the same: it has not begun though a later one has."""
    last = max((stage.id for stage in stages if stage.has_begun), default=-1)
    counted = [stage for stage in stages if stage.has_begun or stage.id > last]
    return sum(stage.done for stage in counted), sum(stage.tasks for stage in counted)


def _pieces_over(stages: Sequence[_Stage], pieces: int) -> int:
    """The tasks done of the stage that has one for each piece. It is the last one; a look at the
    numbers and a shuffle come before it, in stages that may have as many tasks."""
    if len(stages) < _STAGES_OF_PIECES:
        return 0
    last = max((stage for stage in stages if stage.tasks == pieces), default=None)
    return 0 if last is None else last.done


@contextmanager
def _stages(spark: SparkSession, tag: str) -> Iterator[Callable[[], list[_Stage]]]:
    """A function that returns the stages of the jobs with the tag. Over Connect, which tells those
    of operations without their tags, it returns those of the session."""
    context = _context(spark)
    if context is not None:
        yield partial(_of_tracker, context, tag)
        return
    found: dict[str | None, list[_Stage]] = {}

    def handler(
        stages: Iterable[StageInfo] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        del inflight_tasks, done
        told = [
            _Stage(s.stage_id, s.num_tasks, s.num_completed_tasks, s.num_completed_tasks > 0)
            for s in stages or ()
        ]
        if told:
            found[operation_id] = told

    spark.registerProgressHandler(handler)  # type: ignore[arg-type]
    try:
        yield lambda: [stage for told in list(found.values()) for stage in told]
    finally:
        spark.removeProgressHandler(handler)  # type: ignore[arg-type]


def _of_tracker(context: SparkContext, tag: str) -> list[_Stage]:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    ids = {stage for job in jobs if job is not None for stage in job.stageIds}
    infos = [info for id in ids if (info := tracker.getStageInfo(id)) is not None]
    return [
        _Stage(
            i.stageId, i.numTasks, i.numCompletedTasks, i.numActiveTasks + i.numCompletedTasks > 0
        )
        for i in infos
    ]


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
