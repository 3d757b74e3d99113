"""Runs a sweep: starts the runs that are missing, each as a task of its own.

A run is done when its files are there, so a sweep that was stopped in any way resumes where it was.
A run that fails is tried once more when the others are done.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from byway.pipeline.jobs import Progress, part_of, run_job
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import FAILURES, METRICS, REQUESTS, TRACE, TableSchema
from byway.pipeline.sweeps.plan import Run, Sweep
from byway.pipeline.sweeps.run_task import Done, RunPlaces, Task, chunks
from byway.pipeline.table_files import (
    PARTIAL,
    StrPath,
    check_file,
    on_this_machine,
    read_file,
    read_pieces,
    read_table,
    run_of,
    shared_directory,
    write_table,
)
from byway.trace.trace_directories import listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS: Final = 2
CHECKED_AT_ONCE: Final = 1_000
"""Runs of an earlier start that one task looks at."""
RUNS_A_ROUND: Final = 20_000
"""Runs whose scenarios the driver hands to Spark at once: some 100 MB."""
RUNS_A_FILE: Final = 100_000


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
    spark: SparkSession, sweep: Sweep, place: StrPath, progress: Progress | None = None
) -> SweepOutcome:
    """Run what is missing in a directory, then write the table of metrics of the whole sweep. All
    workers must mount the directory, for a run leaves its files there by itself. `progress` is
    called with the number of runs that are done or have failed, and of all."""
    directory = sweep_directory(place)
    places = RunPlaces(str(directory.absolute()))
    _prepare(directory)
    done = done_runs(spark, sweep, places, progress)
    missing = [run for run in sweep.runs if run.id not in done]
    found = len(sweep.runs) - len(missing)
    failed = missing
    for attempt in range(1, ATTEMPTS + 1):
        if failed:
            _forget(places, failed)
            task = Task(places, sweep.name, sweep.traces, attempt, sweep.trace_rows_max)
            before = len(sweep.runs) - len(failed)
            _start(spark, task, failed, part_of(progress, before, len(sweep.runs)))
            made = places.listed("runs")  # a run that is over has left its metrics, last of all
            failed = [run for run in failed if run.id not in made]
    metrics = directory / METRICS.name
    violated = _write_metrics(spark, sweep, places, metrics, progress)
    failures = tuple(Failure(run, _error(places, run)) for run in failed)
    return SweepOutcome(found, len(missing) - len(failed), failures, violated, metrics)


def sweep_directory(place: StrPath) -> Path:
    """The directory at a place. Raises `TableError` if runs cannot be kept there."""
    return shared_directory(place, "the runs of a sweep are kept")


# --- what is there ----------------------------------------------------------------------------


def done_runs(
    spark: SparkSession, sweep: Sweep, places: RunPlaces, progress: Progress | None = None
) -> set[str]:
    """The ids of the runs that need not be made, by one listing of each directory; tasks look into
    the files that are there."""
    there = places.listed("runs")
    if sweep.traces and sweep.trace_rows_max is None:
        there &= places.listed("requests") & places.listed_traces()
    ids = [run.id for run in sweep.runs if run.id in there]
    checks = [
        Check(places.directory, sweep.traces, sweep.trace_rows_max, tuple(chunk))
        for chunk in chunks(ids, CHECKED_AT_ONCE)
    ]
    if len(checks) <= 1:
        answers = [check.usable() for check in checks]
    else:
        answers = run_job(spark, Check.usable, checks, Usable, progress, "looking at earlier runs")
    return {id for answer in answers for id in answer.ids}


class Usable(msgspec.Struct, frozen=True):
    """Runs whose files are complete."""

    ids: tuple[str, ...]


class Check(msgspec.Struct, frozen=True):
    """Runs whose files are to be looked at."""

    directory: str
    traces: bool
    trace_rows_max: int | None
    ids: tuple[str, ...]

    def usable(self) -> Usable:
        """Those that have metrics that can be read, and if traces are wanted, a trace under their
        id, or more rows than a trace may have."""
        return Usable(tuple(filter(self._is_done, self.ids)))

    def _is_done(self, run: str) -> bool:
        places = RunPlaces(self.directory)
        if not _is_readable(METRICS, places.metrics(run)):
            return False
        if not self.traces or is_traced(places, run):
            return True
        if self.trace_rows_max is None:
            return False
        rows = read_file(METRICS, places.metrics(run))[0]["trace_rows"]
        return rows is not None and rows > self.trace_rows_max


def is_traced(places: RunPlaces, run: str) -> bool:
    """Whether a run has a trace under its id, and the times at which clients were to publish."""
    return _is_traced(places.trace(run), run) and _is_readable(REQUESTS, places.requests(run))


def _is_traced(directory: Path, run: str) -> bool:
    files = listed(directory)
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
    ids = {run.id for run in runs}
    for run in ids & places.listed("runs"):
        places.metrics(run).unlink(missing_ok=True)
    for run in ids & places.listed("failures"):
        places.failure(run).unlink(missing_ok=True)


# --- making -----------------------------------------------------------------------------------


def _start(spark: SparkSession, task: Task, runs: list[Run], progress: Progress | None) -> None:
    """Do the runs, in rounds that the driver can hold, and report progress."""
    over = 0
    for chosen in chunks(runs, RUNS_A_ROUND):
        run_job(spark, task.do, chosen, Done, part_of(progress, over, len(runs)), task.sweep)
        over += len(chosen)


def _error(places: RunPlaces, run: Run) -> str:
    path = places.failure(run.id)
    return str(read_file(FAILURES, path)[0]["error"]) if path.exists() else "it left no trace"


def _write_metrics(
    spark: SparkSession,
    sweep: Sweep,
    places: RunPlaces,
    target: Path,
    progress: Progress | None,
) -> int:
    """Write one table of the files of all runs, and return in how many a check did not hold. Tasks
    read the files and write the table; the driver has the ids."""
    if not places.listed("runs"):
        shutil.rmtree(target, ignore_errors=True)
        return 0
    ids = spark.createDataFrame([(run.id,) for run in sweep.runs], "id string")
    runs = read_pieces(spark, METRICS, on_this_machine(Path(places.directory, "runs")))
    rows = runs.join(ids, "id", "leftsemi")
    files = 1 + len(sweep.runs) // RUNS_A_FILE
    table = on_this_machine(target)
    write_table(rows.coalesce(files), METRICS, table, progress)
    return read_table(spark, METRICS, table).where("NOT ok").count()
