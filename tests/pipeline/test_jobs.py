"""A job of the pipeline in a session that does other work, too."""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from byway.pipeline.jobs import run_action, run_job


class Wait(msgspec.Struct, frozen=True):
    """Wait until a file is there, and say so by another."""

    started: str
    until: str


class Waited(msgspec.Struct, frozen=True):
    """The properties of the task."""

    group: str | None
    pool: str | None
    tags: str | None


def wait(piece: Wait) -> Waited:
    from pyspark import TaskContext

    Path(piece.started).touch()
    while not Path(piece.until).exists():
        time.sleep(0.02)
    context = TaskContext.get()
    assert context is not None
    names = ("spark.jobGroup.id", "spark.scheduler.pool", "spark.job.tags")
    return Waited(*map(context.getLocalProperty, names))


def test_the_group_and_pool_of_the_caller_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()

    def in_a_thread() -> Waited:
        spark.sparkContext.setJobGroup("theirs", "a group")
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", "slow")
        spark.addTag("own")
        try:
            found = run_job(spark, wait, [Wait(str(tmp_path / "a"), str(there))], Waited)[0]
            assert spark.getTags() == {"own"}
            return found
        finally:
            spark.removeTag("own")

    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(inheritable_thread_target(spark)(in_a_thread)).result()
    assert (found.group, found.pool) == ("theirs", "slow")
    assert found.tags is not None
    assert "own" in found.tags
    assert "byway-" in found.tags


@pytest.mark.parametrize("by_signal", [True, False], ids=["ctrl-c", "error"])
def test_stopping_a_job_stops_no_other(
    spark: SparkSession, tmp_path: Path, by_signal: bool
) -> None:
    """Of two jobs the first is somebody else's; the second is stopped while both run."""
    end, never = tmp_path / "end", tmp_path / "never"
    theirs, ours = Wait(str(tmp_path / "a"), str(end)), Wait(str(tmp_path / "b"), str(never))
    handler = signal.getsignal(signal.SIGINT)

    def stop_when_both_run() -> None:
        if Path(theirs.started).exists() and Path(ours.started).exists():
            if not by_signal:
                raise LookupError("of poll")
            signal.raise_signal(signal.SIGINT)

    with ThreadPoolExecutor(1) as thread:
        target = inheritable_thread_target(spark)(run_job)
        other = thread.submit(target, spark, wait, [theirs], Waited)
        try:
            with pytest.raises(KeyboardInterrupt if by_signal else LookupError):
                run_job(spark, wait, [ours], Waited, stop_when_both_run)
        finally:
            end.touch()
        assert len(other.result()) == 1
    assert signal.getsignal(signal.SIGINT) is handler
    assert threading.current_thread() is threading.main_thread()


def slowly(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        time.sleep(0.5)
        yield batch


def test_the_tasks_of_an_action_are_told(spark: SparkSession) -> None:
    """Those of its jobs alone, though others run in the session."""
    told: list[tuple[int, int, str]] = []
    frame = spark.range(0, 5, 1, 5).mapInArrow(slowly, "id bigint")
    spark.range(0, 70, 1, 7).count()
    rows = run_action(spark, frame.collect, lambda *facts: told.append(facts), "numbers")
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 3, 4]
    assert max(total for _, total, _ in told) == 5
    assert all(0 <= done <= total and what == "numbers" for done, total, what in told)
