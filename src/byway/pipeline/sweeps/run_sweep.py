"""Runs a sweep: starts the runs that are missing, each as a task of its own.

A run is done when its files are there, so a sweep that was stopped in any way resumes where it was.
A run that fails is tried once more when the others are done.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from byway.pipeline.jobs import run_job
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import FAILURES, METRICS, REQUESTS, TRACE, TableSchema
from byway.pipeline.sweeps.plan import Run, Sweep
from byway.pipeline.sweeps.run_task import Done, RunPlaces, Task
from byway.pipeline.table_files import (
    PARTIAL,
    SUFFIX,
    check_file,
    read_file,
    read_table,
    run_of,
    write_table,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS: Final = 2

Progress = Callable[[int], None]
"""Called now and then with the number of runs of the sweep that are done or have failed."""


class Failure(NamedTuple):
    """A run that failed, and why."""

    run: Run
    error: str


class SweepOutcome(NamedTuple):
    """How many runs of a sweep were found, made and failed, and where the metrics are."""

    found: int
    """Runs that earlier starts had made."""
    made: int
    """Runs that this start has made."""
    failed: tuple[Failure, ...]
    violated: int
    """Runs, of those found and made, in which a check did not hold."""
    metrics: Path

    @property
    def ok(self) -> bool:
        """Whether all runs are there, and all checks held in them."""
        return not self.failed and not self.violated

    def facts(self) -> dict[str, Any]:
        """The outcome as plain data, as `--json` prints it."""
        return {
            "ok": self.ok,
            "found": self.found,
            "made": self.made,
            "violated": self.violated,
            "failed": [
                {"id": run.id, "settings": run.settings, "seed": run.seed, "error": error}
                for run, error in self.failed
            ],
            "metrics": str(self.metrics),
        }


def run_sweep(
    spark: SparkSession, sweep: Sweep, directory: Path, progress: Progress | None = None
) -> SweepOutcome:
    """Run what is missing in `directory`, then write the table of metrics of the whole sweep."""
    places = RunPlaces(str(directory.absolute()))
    _prepare(directory)
    missing = [run for run in sweep.runs if not is_done(sweep, places, run)]
    found = len(sweep.runs) - len(missing)
    failed = missing
    for attempt in range(1, ATTEMPTS + 1):
        if failed:
            _forget(places, failed)
            task = Task(places, sweep.name, sweep.traces, attempt, sweep.trace_rows_max)
            _start(spark, task, failed, progress, done=len(sweep.runs) - len(failed))
            failed = [run for run in failed if not is_done(sweep, places, run)]
    metrics = directory / METRICS.name
    violated = _write_metrics(spark, sweep, places, metrics)
    failures = tuple(Failure(run, _error(places, run)) for run in failed)
    return SweepOutcome(found, len(missing) - len(failed), failures, violated, metrics)


def is_done(sweep: Sweep, places: RunPlaces, run: Run) -> bool:
    """Whether the run has metrics that can be read, and if traces are wanted, a trace under its id,
    or more rows than a trace may have."""
    if not _is_readable(METRICS, places.metrics(run.id)):
        return False
    if not sweep.traces or is_traced(places, run):
        return True
    if sweep.trace_rows_max is None:
        return False
    rows = read_file(METRICS, places.metrics(run.id))[0]["trace_rows"]
    return rows is not None and rows > sweep.trace_rows_max


def is_traced(places: RunPlaces, run: Run) -> bool:
    """Whether the run has a trace under its id, and the times at which clients were to publish."""
    return _is_traced(places.trace(run.id), run.id) and _is_readable(
        REQUESTS, places.requests(run.id)
    )


def _is_traced(directory: Path, run: str) -> bool:
    files = sorted(directory.glob(f"*{SUFFIX}"))
    if not files or not _is_readable(TRACE, files[0]):
        return False
    return run_of(files[0]) == run


def _is_readable(table: TableSchema, path: Path) -> bool:
    if not path.exists():
        return False
    try:
        check_file(table, path)
    except TableError:
        return False
    return True


def _prepare(directory: Path) -> None:
    """Make the directories, and remove what a killed sweep had begun."""
    for name in ("runs", "failures", "traces", "requests"):
        place = directory / name
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TableError(place, f"cannot be made ({error.strerror})") from error
        for left in place.glob(f".*{PARTIAL}"):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def _forget(places: RunPlaces, runs: list[Run]) -> None:
    """Remove the unusable files of runs, so that those that appear are new."""
    for run in runs:
        places.metrics(run.id).unlink(missing_ok=True)
        places.failure(run.id).unlink(missing_ok=True)


def _start(
    spark: SparkSession, task: Task, runs: list[Run], progress: Progress | None, done: int
) -> None:
    """Do the runs, and report progress by the files that appear."""
    run_job(spark, task.do, runs, Done, partial(_poll, task.places, runs, progress, done))


def _poll(places: RunPlaces, runs: list[Run], progress: Progress | None, done: int) -> None:
    if progress is not None:
        over = (places.metrics(r.id).exists() or places.failure(r.id).exists() for r in runs)
        progress(done + sum(over))


def _error(places: RunPlaces, run: Run) -> str:
    path = places.failure(run.id)
    return str(read_file(FAILURES, path)[0]["error"]) if path.exists() else "it left no trace"


def _write_metrics(spark: SparkSession, sweep: Sweep, places: RunPlaces, target: Path) -> int:
    """Write one table of the files of all runs, and return in how many a check did not hold."""
    files = [places.metrics(run.id) for run in sweep.runs]
    complete = [file for file in files if file.exists()]
    if not complete:
        shutil.rmtree(target, ignore_errors=True)
        return 0
    write_table(read_table(spark, METRICS, *complete).coalesce(1), METRICS, target)
    return read_table(spark, METRICS, target).where("NOT ok").count()
