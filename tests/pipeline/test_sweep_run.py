"""Sweeps run what is missing, whatever happened before."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from byway.pipeline.jobs import run_job
from byway.pipeline.schemas import FAILURES, METRICS, SUMMARY, TRACE
from byway.pipeline.sweeps import Sweep, read_sweep, run_sweep, sweep
from byway.pipeline.sweeps.run_sweep import CHECKED_AT_ONCE, done_runs
from byway.pipeline.sweeps.run_task import Done, RunPlaces, in_a_process
from byway.pipeline.table_files import check_file, files_of, read_file, read_table, run_of
from byway.pipeline.traces import analyse
from byway.sim.run import run_scenario

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "examples/scenarios"


def sweep_of(tmp_path: Path, text: str, scenario: str = "small-chain") -> Sweep:
    file = tmp_path / "try.toml"
    file.write_text(f'scenario = "{SCENARIOS / scenario}.toml"\n{text}')
    return read_sweep(file)


def files_in(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_every_piece_is_a_task(spark: SparkSession) -> None:
    def do(piece: Done) -> Done:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return Done(f"{piece.id} in {context.partitionId()}")

    looks: list[tuple[int, int, str]] = []
    pieces = [Done(f"piece {number}") for number in range(23)]
    told = run_job(spark, do, pieces, Done, lambda *facts: looks.append(facts))
    assert [one.id for one in told] == [f"piece {number} in {number}" for number in range(23)]
    assert looks[-1] == (23, 23, "")
    assert run_job(spark, do, [], Done) == []


def test_metrics_are_those_of_the_simulator(spark: SparkSession, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, 'grid.brokers.covering = ["none", "active"]\nseeds = [3]')
    seen: list[tuple[int, int, str]] = []
    outcome = run_sweep(spark, sweep, tmp_path / "out", lambda *facts: seen.append(facts))
    assert (outcome.found, outcome.made, outcome.failed, outcome.ok) == (0, 2, (), True)
    runs = [(done, total) for done, total, what in seen if what == sweep.name]
    assert runs[-1] == (2, 2)
    assert runs == sorted(runs)
    assert seen[-1][2] == "metrics"
    rows = {row["id"]: row for row in read_table(spark, METRICS, outcome.metrics).collect()}
    for run in sweep.runs:
        facts = run_scenario(run.scenario, run.seed).facts()
        row = rows[run.id].asDict()
        assert row["settings"] == run.settings
        told = METRICS.names[METRICS.names.index("seed") : -1]
        assert {name: row[name] for name in told if name != "wall_s"} == {
            name: facts[name] for name in told if name != "wall_s"
        }


def test_a_frame_of_a_sweep_has_the_same_metrics(spark: SparkSession, tmp_path: Path) -> None:
    """Lazily, without a file, and with the reasons of runs that fail."""
    plan = sweep_of(
        tmp_path, 'grid.client.0.broker = ["B1", "B9"]\nset.expect = {}\nseeds = [1, 2]'
    )
    frame = sweep(spark, plan)
    assert frame.columns == [*METRICS.names, "error"]
    assert [(f.name, f.dataType) for f in frame.schema][:-1] == [
        (f.name, f.dataType) for f in METRICS.spark_schema()
    ]
    found = {row["id"]: row.asDict() for row in frame.collect()}
    assert set(found) == {run.id for run in plan.runs}
    for run in plan.runs:
        row = found[run.id]
        assert (row["seed"], row["settings"]) == (run.seed, run.settings)
        if run.settings["client.0.broker"] == '"B9"':
            assert row["error"].startswith("ScenarioError: client.0.broker: ")
            assert row["deliveries"] is None
        else:
            facts = run_scenario(run.scenario, run.seed).facts()
            told = METRICS.names[METRICS.names.index("seed") : -1]
            assert row["error"] is None
            assert {n: row[n] for n in told if n != "wall_s"} == {
                n: facts[n] for n in told if n != "wall_s"
            }
    assert files_in(tmp_path) == {"try.toml"}


def test_what_is_there_is_found_by_listings(spark: SparkSession, tmp_path: Path) -> None:
    """A million runs of which none is there cost no look at a file; those that are there are looked
    at by tasks, if they are many."""
    plan, out = sweep_of(tmp_path, "traces = true\nseeds = 2"), tmp_path / "out"
    run_sweep(spark, plan, out)
    places = RunPlaces(str(out))
    ids = [run.id for run in plan.runs]
    assert done_runs(spark, plan, places) == set(ids)
    many = msgspec.structs.replace(plan, runs=tuple(
        msgspec.structs.replace(plan.runs[0], id=f"{number:016x}") for number in range(1_000_000)
    ) + plan.runs)  # fmt: skip
    looked = []
    stat = Path.exists
    try:
        Path.exists = lambda self: looked.append(self) or stat(self)  # type: ignore[method-assign, func-returns-value, assignment]
        assert done_runs(spark, many, places) == set(ids)
    finally:
        Path.exists = stat  # type: ignore[method-assign]
    assert len(looked) <= 4 * len(ids)
    for number in range(CHECKED_AT_ONCE + 1):  # enough for two tasks
        shutil.copy(places.metrics(ids[0]), places.metrics(f"{number:016x}"))
    (out / "runs" / f"{7:016x}.parquet").write_text("PAR1")
    some = msgspec.structs.replace(many, traces=False)
    assert len(done_runs(spark, some, places)) == 2 + CHECKED_AT_ONCE


def test_every_figure_of_the_simulator_is_in_the_metrics() -> None:
    sweep = read_sweep(ROOT / "examples/sweeps/covering.toml")
    facts = run_scenario(sweep.runs[0].scenario, 1).facts()
    figures = {name for name, value in facts.items() if isinstance(value, bool | int | float)}
    assert figures <= set(METRICS.names)


def test_a_second_start_runs_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_sweep(spark, sweep_of(tmp_path, "seeds = [1]"), out)
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    outcome = run_sweep(spark, sweep_of(tmp_path, "seeds = [1, 2]"), out)
    assert (outcome.found, outcome.made) == (1, 1)
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    again = run_sweep(spark, sweep_of(tmp_path, "seeds = [2]"), out)
    assert (again.found, again.made) == (1, 0)
    assert [row["seed"] for row in read_table(spark, METRICS, again.metrics).collect()] == [2]


def test_a_damaged_run_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    sweep, out = sweep_of(tmp_path, ""), tmp_path / "out"
    run_sweep(spark, sweep, out)
    (file,) = (out / "runs").iterdir()
    file.write_bytes(file.read_bytes()[:-50])
    (out / "runs" / ".left.parquet.partial").touch()
    assert run_sweep(spark, sweep, out).made == 1
    check_file(METRICS, file)
    assert files_in(out / "runs") == {file.name}


def test_a_run_that_fails_is_tried_again_and_recorded(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep = sweep_of(tmp_path, 'grid.client.0.broker = ["B1", "B9"]\nset.expect = {}')
    outcome = run_sweep(spark, sweep, out)
    assert (outcome.made, outcome.ok) == (1, False)
    ((run, error),) = outcome.failed
    assert run.settings["client.0.broker"] == '"B9"'
    assert error.startswith("ScenarioError: client.0.broker: ")
    (failure,) = read_file(FAILURES, out / "failures" / f"{run.id}.parquet")
    assert (failure["attempt"], failure["error"], failure["seed"]) == (2, error, 1)
    assert "Traceback" in failure["details"]
    assert read_table(spark, METRICS, outcome.metrics).count() == 1
    assert (run_sweep(spark, sweep, out).found, len(outcome.failed)) == (1, 1)


def test_a_run_whose_checks_do_not_hold_is_a_result(spark: SparkSession, tmp_path: Path) -> None:
    outcome = run_sweep(spark, sweep_of(tmp_path, "set.expect.deliveries = 8"), tmp_path / "out")
    assert (outcome.made, outcome.failed, outcome.violated, outcome.ok) == (1, (), 1, False)
    (row,) = read_table(spark, METRICS, outcome.metrics).collect()
    assert row["violations"] == ["expect.deliveries: expected 8, found 7"]


def test_traces_of_a_sweep_can_be_analysed(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep = sweep_of(tmp_path, "traces = true\nseeds = 2")
    assert run_sweep(spark, sweep, out).ok
    summary = analyse(read_table(spark, TRACE, out / "traces")).summary
    found = {row["run"]: row["deliveries"] for row in summary.collect()}
    assert found == {run.id: 7 for run in sweep.runs}
    assert SUMMARY.names == summary.columns


def test_points_of_a_grid_are_runs_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    grid = "traces = true\ngrid.network.latency_ms = [1, 5]"
    sweep = sweep_of(tmp_path, grid)
    metrics = read_table(spark, METRICS, run_sweep(spark, sweep, out).metrics)
    summary = analyse(read_table(spark, TRACE, out / "traces")).summary
    together = {row["run"]: row for row in summary.collect()}
    assert sorted(together) == sorted(run.id for run in sweep.runs)
    for run in sweep.runs:
        alone = tmp_path / run.id
        run_scenario(run.scenario, run.seed, alone, run=run.id)
        assert analyse(read_table(spark, TRACE, alone)).summary.collect() == [together[run.id]]
    joined = metrics.join(summary, metrics.id == summary.run)
    assert {row["settings"]["network.latency_ms"]: row["delay_ms_max"] for row in joined.select(
        metrics.settings, summary.delay_ms_max
    ).collect()} == {"1": 2.0, "5": 10.0}  # fmt: skip


def test_a_run_with_too_many_rows_keeps_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    """It is done all the same, unless it may have more rows."""
    sweep, out = sweep_of(tmp_path, "traces = true"), tmp_path / "out"
    short = msgspec.structs.replace(sweep, trace_rows_max=50)
    assert run_sweep(spark, short, out).made == 1
    (row,) = read_table(spark, METRICS, out / "metrics").collect()
    assert row["trace_rows"] > 50
    assert files_in(out / "traces") == set()
    assert (run_sweep(spark, short, out).found, run_sweep(spark, short, out).made) == (1, 0)
    long = msgspec.structs.replace(sweep, trace_rows_max=row["trace_rows"])
    assert run_sweep(spark, long, out).made == 1
    assert files_in(out / "traces") == {
        f"run={sweep.runs[0].id}/date=1970-01-01/trace-00000.parquet"
    }
    assert run_sweep(spark, short, out).found == 1


def test_a_trace_under_another_name_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    sweep, out = sweep_of(tmp_path, "traces = true"), tmp_path / "out"
    run_sweep(spark, sweep, out)
    (run,) = sweep.runs
    shutil.rmtree(out / "traces" / f"run={run.id}")
    run_scenario(run.scenario, run.seed, tmp_path / "other")
    (other,) = (tmp_path / "other").iterdir()
    other.rename(out / "traces" / f"run={run.id}")
    assert run_sweep(spark, sweep, out).made == 1
    assert run_of(next((out / "traces" / f"run={run.id}").rglob("*.parquet"))) == run.id
    assert run_sweep(spark, sweep, out).found == 1


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_is_a_failure() -> None:
    told = in_a_process(die)
    assert told == ("the process of the run was killed by signal 9", "")


@pytest.mark.slow  # it starts a Spark of its own
@pytest.mark.timeout(300)
def test_a_sweep_that_is_killed_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """Really killed: the process that drives Spark, in the middle of the runs."""
    out = tmp_path / "out"
    sweep = sweep_of(tmp_path, "seeds = 12\ntraces = true\nset.duration_s = 6", "mixed-policies")
    command = [sys.executable, "-m", "byway", "pipeline", "sweep", sweep.source, "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while len(list(out.glob("runs/*.parquet"))) < 2:
            assert process.poll() is None, "the sweep ended before it could be killed"
            time.sleep(0.02)
        process.kill()
    for file in files_of(METRICS, out / "runs"):
        check_file(METRICS, file)
    for file in files_of(TRACE, out / "traces"):
        check_file(TRACE, file)
    outcome = run_sweep(spark, sweep, out)
    assert outcome.ok
    assert outcome.found >= 2
    assert outcome.made >= 1
    assert outcome.found + outcome.made == 12
    assert read_table(spark, METRICS, outcome.metrics).count() == 12
    assert not [name for name in files_in(out) if ".partial" in name]
