"""`byway pipeline`, in this process and with the Spark of these tests."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.cli.pipeline import FAILURES_SHOWN, _show_outcome
from byway.cli.spark import spark_session
from byway.pipeline.sweeps import SweepOutcome, read_sweep
from byway.pipeline.sweeps.run_sweep import Failure
from byway.trace import TraceBuffer, TraceWriter

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("spark")


def pipeline(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], catch_exceptions=False)


def test_lost_rows_are_told(tmp_path: Path) -> None:
    buffer = TraceBuffer(broker="A", capacity_rows=1)
    for _ in range(3):
        buffer.published(1_000, "ticker", 1, 1, 1_000, matches=0, copies=0, size_bytes=64)
    with TraceWriter(tmp_path, run="r1") as writer:
        writer.write(buffer.drain())
    done = pipeline("analyse", tmp_path, "--json")
    assert done.exit_code == 0
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["run"], run["publications"], run["rows_lost"]) == ("r1", 1, 2)
    assert "2 rows were lost: the traces are not complete." in done.stderr


def test_a_time_without_rows_is_told(tmp_path: Path) -> None:
    buffer = TraceBuffer(broker="A")
    buffer.published(1_000, "ticker", 1, 1, 1_000, matches=0, copies=0, size_bytes=64)
    with TraceWriter(tmp_path, run="r1") as writer:
        writer.write(buffer.drain())
    done = pipeline("analyse", tmp_path, "--since", "2030-01-01")
    assert (done.exit_code, done.stdout) == (0, "the trace has no rows in this time\n")
    done = pipeline("analyse", tmp_path, "--since", "2030-01-01", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"runs": []})
    done = pipeline("analyse", tmp_path, "--since", "2030-01-01", "--until", "2030-01-01")
    assert done.exit_code == 2
    assert "--until 2030-01-01T00:00:00: expected a time after --since" in done.stderr


def test_runs_that_do_not_fit_beside_one_another_are_lines(tmp_path: Path) -> None:
    names = ["live active", "simulated selective, seed 1", "simulated selective, seed 2", "x" * 90]
    for number, name in enumerate(names):
        buffer = TraceBuffer(broker="A")
        for sequence in range(number):
            buffer.published(1_000, "p", 1, sequence, 1_000, matches=0, copies=0, size_bytes=64)
        with TraceWriter(tmp_path / name, run=name) as writer:
            writer.write(buffer.drain())
    done = pipeline("analyse", tmp_path)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "3 runs"  # the first one has no row
    heads = [re.split("  +", line)[0] for line in lines]
    assert [head for head in heads if head in names] == names[1:]


def test_an_analysis_leaves_nothing_of_another_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        buffer = TraceBuffer(broker="A")
        buffer.published(1_000, "ticker", 1, 1, 1_000, matches=0, copies=0, size_bytes=64)
        with TraceWriter(tmp_path / name, run=name) as writer:
            writer.write(buffer.drain())
    out = tmp_path / "out"
    assert pipeline("analyse", tmp_path / "one", "--out", out, "--edges").exit_code == 0
    assert (out / "edges").is_dir()
    (out / "notes").mkdir()
    assert pipeline("analyse", tmp_path / "two", "--out", out).exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "brokers", "control", "delays", "edges", "hops", "links", "notes", "sizes", "summary",
        "trees",
    ]  # fmt: skip
    assert pq.read_table(out / "edges").num_rows == 0
    (row,) = pq.read_table(out / "summary").to_pylist()
    assert row["run"] == "two"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "trace-00000.parquet"
    file.write_text("PAR1")
    done = pipeline("analyse", tmp_path)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"{file}: Spark cannot read the file (")
    assert "is not a Parquet file (length is too low: 4)" in done.stderr


def test_a_file_whose_rows_are_damaged_is_told(tmp_path: Path) -> None:
    """Its ends and its footer are well, so that only Spark can find out."""
    buffer = TraceBuffer(broker="A")
    for number in range(1_000):
        buffer.published(number**2, "ticker", 1, number, 0, matches=0, copies=0, size_bytes=64)
    with TraceWriter(tmp_path / "r[1] x", run="r1") as writer:
        writer.write(buffer.drain())
    (file,) = (tmp_path / "r[1] x").rglob("*.parquet")
    content = bytearray(file.read_bytes())
    content[4:3_000] = b"\xff" * 2_996
    file.write_bytes(content)
    done = pipeline("analyse", tmp_path)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"{file}: Spark cannot read the file (")
    assert "Traceback" not in done.stderr


def fails(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        assert batch.num_rows < 0, "too many rows\nas far as I can see"
        yield batch


def exits(batches: Iterator[Any]) -> Iterator[Any]:
    os._exit(3)
    yield from batches


@pytest.mark.parametrize(
    ("do", "told"),
    [
        (fails, "Spark failed: AssertionError: too many rows"),
        (exits, "Spark failed: Python worker exited unexpectedly (crashed)."),
    ],
)
def test_what_went_wrong_in_a_worker_is_told(
    do: Callable[[Iterator[Any]], Iterator[Any]], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as caught, spark_session(None, None) as spark:
        spark.range(3).mapInArrow(do, "id long").collect()
    assert caught.value.exit_code == 1
    assert capfd.readouterr().err.splitlines()[-1].startswith(told)


def test_what_is_no_failure_of_spark_goes_on() -> None:
    with pytest.raises(ZeroDivisionError), spark_session(None, None):
        raise ZeroDivisionError


@pytest.mark.parametrize("every", ["inf", "nan", "0", "-1", "1e300", "9999999h"])
def test_an_interval_that_cannot_be_is_refused(tmp_path: Path, every: str) -> None:
    done = pipeline("analyse", tmp_path, "--every", every)
    assert done.exit_code == 2
    expected = "such as 10s, 250ms, 2m or 1h, or a number of seconds"
    if every in ("0", "9999999h"):
        expected = "from 0.001ms to 1000000000s"
    assert f"--every: expected a time {expected}, found {every!r}\n" in done.stderr


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sweep = ROOT / "examples/sweeps/covering.toml"
    done = pipeline("sweep", sweep, "--out", tmp_path / "file")
    assert done.exit_code == 2
    assert done.stderr == f"{tmp_path}/file/runs: cannot be made (Not a directory)\n"


def test_a_sweep_with_a_failure_exits_with_1(tmp_path: Path) -> None:
    file = tmp_path / "try.toml"
    scenario = ROOT / "examples/scenarios/small-chain.toml"
    file.write_text(f'scenario = "{scenario}"\nset.client.0.broker = "B9"')
    done = pipeline("sweep", file, "--out", tmp_path / "out")
    assert done.exit_code == 1
    told = done.stdout.splitlines()
    assert told[:2] == ["try: 1 runs", "0 made, 0 found, 1 failed"]
    assert told[2].startswith('  client.0.broker="B9" seed 1: ScenarioError: client.0.broker: ')
    again = json.loads(pipeline("sweep", file, "--out", tmp_path / "out", "--json").stdout)
    assert (again["ok"], again["failed"][0]["seed"]) == (False, 1)


def test_of_many_failures_the_first_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "try.toml"
    file.write_text(f'scenario = "{ROOT}/examples/scenarios/small-chain.toml"\nseeds = 1_030')
    plan = read_sweep(file)
    failed = tuple(Failure(run, "no") for run in plan.runs)
    _show_outcome(plan, SweepOutcome(0, 0, failed, 0, tmp_path / "metrics"))
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "0 made, 0 found, 1,030 failed"
    assert told[-3:-1] == ["   seed 20: no", "  and 1,010 more: see `failures`"]
    assert len(told) == 2 + FAILURES_SHOWN + 2


def test_a_master_and_a_remote_are_refused_together(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, run="r1"):
        pass
    done = pipeline("analyse", tmp_path, "--master", "local", "--remote", "sc://localhost")
    assert (done.exit_code, done.stderr) == (
        1,
        "either a master or a remote can be given, not both\n",
    )
