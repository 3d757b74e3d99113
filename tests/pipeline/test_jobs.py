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
from pyspark.sql import functions as F

from byway.pipeline.jobs import _pieces_over, _Stage, part_of, run_action, run_job


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

    def stop_when_both_run(*_: object) -> None:
        if Path(theirs.started).exists() and Path(ours.started).exists():
            if not by_signal:
                raise LookupError("of progress")
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


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_stages_that_are_skipped_are_not_waited_for(spark: SparkSession, adaptive: str) -> None:
    """A bar ends where it is full, though a plan has stages whose output is there already."""
    told: list[tuple[int, int, str]] = []
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", adaptive)
    counts = session.range(0, 6, 1, 3).groupBy((F.col("id") % 2).alias("odd")).count()
    twice = counts.persist()
    try:
        assert twice.count() == 2
        ordered = twice.join(counts, "odd").orderBy("odd")
        run_action(session, ordered.collect, lambda *facts: told.append(facts), "odd")
    finally:
        twice.unpersist()
    done, total, _ = told[-1]
    assert done == total > 2


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_pieces_of_a_job_are_told(
    spark: SparkSession, tmp_path: Path, count: int, adaptive: str
) -> None:
    """Not the stages before theirs, which may have as many tasks: none is over while all wait."""
    told: list[tuple[int, int, str]] = []
    waiting: list[int] = []
    end = tmp_path / "end"
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", adaptive)

    def look(*facts: Any) -> None:
        told.append(facts)
        if (tmp_path / "0").exists():
            if not end.exists():
                waiting.append(facts[0])
            if len(waiting) == 3:
                end.touch()

    waits = [Wait(str(tmp_path / str(number)), str(end)) for number in range(count)]
    run_job(session, wait, waits, Waited, look, "waits")
    assert waiting == [0, 0, 0]
    assert told == sorted(told)
    assert told[-1] == (count, count, "waits")
    assert set(told) <= {(done, count, "waits") for done in range(count + 1)}


def test_only_the_last_stage_is_of_pieces() -> None:
    """As Spark tells the stages of a job of two pieces on two cores, one after another."""
    look, shuffle, again = (_Stage(0, 2, 2, True), _Stage(1, 2, 2, True), _Stage(2, 2, 0, False))
    for told, over in (
        ([], 0),
        ([look], 0),
        ([look, shuffle], 0),
        ([look, shuffle, again, _Stage(3, 2, 0, True)], 0),
        ([_Stage(3, 2, 1, True), look, shuffle, again], 1),
        ([look, shuffle, _Stage(2, 2, 2, True)], 2),
    ):
        assert _pieces_over(told, 2) == over


def test_a_part_is_told_as_part_of_the_whole() -> None:
    told: list[tuple[int, int, str]] = []
    progress = part_of(lambda *facts: told.append(facts), 20, 50)
    assert progress is not None
    progress(5, 10, "runs")
    assert told == [(25, 50, "runs")]
    assert part_of(None, 20, 50) is None
