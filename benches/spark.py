"""What work in several processes took: by the clock, and of all processors together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import SparkSession

TASKS_MAX = 100_000


@dataclass(frozen=True)
class Spent:
    """Seconds of one call."""

    clock_s: float
    processor_s: float


def of_all_processes(action: Callable[[], object]) -> Spent:
    """What one call takes, here and in all processes below this one that outlive it."""
    start, before = perf_counter(), _processor_s()
    action()
    return Spent(perf_counter() - start, _processor_s() - before)


@dataclass(frozen=True)
class Stages:
    """What Spark counts of stages that are complete."""

    last: int
    stages: int
    tasks: int
    shuffled_records: int
    shuffled_bytes: int
    processor_s: float
    """Of their tasks in the JVM; workers of Python are processes of their own."""
    on_two_s: float
    """Of their tasks, at best on two cores: a stage ends with its longest task."""
    run_s: float
    """By the clock, of all tasks one after another, with the workers of Python."""
    run_on_two_s: float
    """The same at best on two cores."""

    def told(self, rows: int) -> str:
        """A line of a table of growth."""
        return (
            f"{rows:,} rows: {self.stages} stages, {self.tasks} tasks, "
            f"{self.shuffled_records:,} records and {self.shuffled_bytes / 2**20:,.1f} MiB shuffled"
        )


def stages_since(spark: SparkSession, last: int) -> Stages:
    """The stages after the one with this number, from the store that Spark's own pages show."""
    gateway = spark.sparkContext._gateway
    store = spark.sparkContext._jsc.sc().statusStore()
    nothing = gateway.jvm.java.util.ArrayList()
    stages = store.stageList(None, False, False, gateway.new_array(gateway.jvm.double, 0), nothing)
    found = [s for s in _all(stages) if s.stageId() > last and str(s.status()) == "COMPLETE"]
    on_two_s = run_on_two_s = 0.0
    for stage in found:
        tasks = _all(store.taskList(stage.stageId(), stage.attemptId(), TASKS_MAX))
        metrics = [t.taskMetrics().get() for t in tasks if t.taskMetrics().isDefined()]
        longest = max((m.executorCpuTime() for m in metrics), default=0)
        on_two_s += max(longest, stage.executorCpuTime() / 2) / 1e9
        longest = max((m.executorRunTime() for m in metrics), default=0)
        run_on_two_s += max(longest, stage.executorRunTime() / 2) / 1e3
    return Stages(
        last=max((stage.stageId() for stage in found), default=last),
        stages=len(found),
        tasks=sum(stage.numTasks() for stage in found),
        shuffled_records=sum(stage.shuffleWriteRecords() for stage in found),
        shuffled_bytes=sum(stage.shuffleWriteBytes() for stage in found),
        processor_s=sum(stage.executorCpuTime() for stage in found) / 1e9,
        on_two_s=on_two_s,
        run_s=sum(stage.executorRunTime() for stage in found) / 1e3,
        run_on_two_s=run_on_two_s,
    )


def _all(found: Any) -> list[Any]:
    """The members of a collection of the JVM."""
    members, iterator = [], found.iterator()
    while iterator.hasNext():
        members.append(iterator.next())
    return members


def _processor_s() -> float:
    """Of this process and all below it; those that ended count in their parents."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        process = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(process)
        ticks[process] = sum(map(int, fields[11:15]))
    waiting, total = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")
