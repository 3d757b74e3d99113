"""`byway pipeline`, in this process and with the Spark of these tests."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from byway.cli.main import app
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


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "trace-00000.parquet"
    file.write_text("PAR1")
    done = pipeline("analyse", tmp_path)
    assert done.exit_code == 2
    assert done.stderr == f"{file}: the file is truncated: it ends after 4 bytes\n"


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


def test_a_master_and_a_remote_are_refused_together(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, run="r1"):
        pass
    done = pipeline("analyse", tmp_path, "--master", "local", "--remote", "sc://localhost")
    assert (done.exit_code, done.stderr) == (
        1,
        "either a master or a remote can be given, not both\n",
    )
