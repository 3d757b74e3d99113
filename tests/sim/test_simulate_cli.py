"""`byway simulate`: what it prints, its exit codes, the examples, and one run for one seed."""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.cli.simulate import show
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario
from byway.trace import read_trace

pytestmark = pytest.mark.sim

EXAMPLES = Path(__file__).parents[2] / "examples/scenarios"
SMALL = EXAMPLES / "small-chain.toml"
SHRUNK = {
    "stock-quotes": [
        "topology.brokers=20", "workload.subscriptions=400", "workload.subscribers=100",
        "workload.rate_per_s=100", "duration_s=14",
    ],
    "unsubscribe-storm": [
        "workload.subscriptions=310", "workload.subscribers=50", "unsubscribe.0.count=5",
        "duration_s=30",
    ],
    "transit-stub": ["topology.brokers=20", "workload.subscriptions=200"],
}  # fmt: skip


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def write(directory: Path, text: str) -> Path:
    path = directory / "file.toml"
    path.write_text('name = "x"\ntopology = {kind = "chain", brokers = 3}\n' + text)
    return path


# --- the summary ------------------------------------------------------------------------------


def test_the_summary_is_lined_up() -> None:
    result = run(SMALL)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "small-chain, seed 1"
    assert lines[-1] == "All checks held."
    table = [line for line in lines[2:-1] if line]
    assert len({len(line) for line in table}) == 1
    words = dict(line.rsplit(maxsplit=1) for line in table if line[-1].isdecimal())
    assert words["publications"] == "6"
    assert words["deliveries"] == "7"
    assert words["missing"] == words["duplicates"] == words["out of order"] == "0"
    assert words["matched brokers"] == "5"
    assert words["pure forwarders"] == "4"
    assert "yield                   55.56 %" in table
    assert "mean delay              1.86 ms" in table


def test_json_is_one_object() -> None:
    result = run(SMALL, "--json", "--seed", "5")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert (facts["scenario"], facts["seed"], facts["ok"]) == ("small-chain", 5, True)
    assert facts["publications"] == 6
    assert facts["deliveries"] == 7
    assert facts["missing"] == facts["duplicates"] == facts["out_of_order"] == 0
    assert facts["spurious"] == 0
    assert facts["matched_brokers"] == 5
    assert facts["pure_forwarders"] == 4
    assert facts["yield"] == pytest.approx(5 / 9)
    assert facts["mean_hops"] == pytest.approx(13 / 7)
    assert facts["mean_delay_ms"] == pytest.approx(13 / 7)
    assert 0 <= facts["peak_queue"] <= 5
    assert facts["table_entries"] == 7
    assert facts["messages_by_kind"]["pub"] == 9
    assert facts["messages"] == sum(facts["messages_by_kind"].values())
    assert facts["violations"] == []
    assert set(facts["violations_by_kind"].values()) == {0}


def test_what_there_is_none_of_is_null(tmp_path: Path) -> None:
    facts = json.loads(run(write(tmp_path, ""), "--json").stdout)
    assert facts["publications"] == facts["deliveries"] == 0
    assert facts["yield"] is facts["mean_hops"] is facts["mean_delay_ms"] is None
    assert re.search("^yield +- *$", run(write(tmp_path, "")).stdout, re.M)


def test_settings_change_the_run() -> None:
    facts = json.loads(run(SMALL, "--json", "--set", "network.latency_ms=0.5").stdout)
    assert facts["mean_delay_ms"] == pytest.approx(13 / 14)
    assert facts["ok"] is False  # the file expects 1 to 2 ms


# --- exit codes -------------------------------------------------------------------------------


def test_an_expectation_that_fails_is_told(tmp_path: Path) -> None:
    text = """
duration_s = 1
[expect]
deliveries = 3
yield = 0.5
messages_by_kind = { pub = [1, 2] }
[expect.received]
ann = [1, 2]
[[client]]
name = "ann"
broker = "B1"
"""
    result = run(write(tmp_path, text))
    assert result.exit_code == 1
    assert [line.rstrip() for line in result.stdout.splitlines()[-5:]] == [
        "expectations: 4:",
        "  expect.deliveries: expected 3, found 0",
        "  expect.yield: expected 0.5, found nothing to measure",
        "  expect.messages_by_kind.pub: expected 1 to 2, found 0",
        "  expect.received.ann: expected 1 to 2, found 0",
    ]


def test_what_the_checkers_found_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    held = run_scenario(read_scenario(SMALL))
    found = msgspec.structs.replace(held.report, missing=2, leaks=1, violations=("one", "two"))
    result = msgspec.structs.replace(held, report=found, unmet_expectations=("three",))
    assert not result.ok
    show(result, "")
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "missing: 2, leaks: 1, expectations: 1:", "  one", "  two", "  three",
    ]  # fmt: skip


def test_a_result_can_be_shipped() -> None:
    result = run_scenario(read_scenario(SMALL))
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_network_that_does_not_come_to_rest_fails(tmp_path: Path) -> None:
    text = """
duration_s = 1
quiet_s = 0.5
[[client]]
name = "ann"
broker = "B1"
[[step]]
at_s = 0.9
client = "ann"
advertise = "ANY"
[network]
latency_ms = 400
"""
    result = run(write(tmp_path, text), "--json")
    assert result.exit_code == 1
    violations = json.loads(result.stdout)["violations"]
    assert violations == ["something is still under way 0.5 s after the end"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.toml"], "none.toml: cannot be read: No such file or directory\n"),
        (
            [str(SMALL), "--set", "network.latncy_ms=5"],
            "--set network.latncy_ms=5: network.latncy_ms: unknown key; "
            "did you mean 'network.latency_ms'?\n",
        ),
        (
            [str(SMALL), "--set", "duration_s"],
            "--set duration_s: expected key=value, such as network.latency_ms=5\n",
        ),
        (
            [str(SMALL), "--set", "topology.brokers=0"],
            "--set topology.brokers=0: topology.brokers: expected an integer from 1 to 10000, "
            "found 0\n",
        ),
        (
            [str(SMALL), "--set", "topology.brokers=2"],
            f"{SMALL}: client.1.broker: there is no broker 'B3'; there are 2, from B1 to B2\n",
        ),
    ],
)
def test_input_that_cannot_be_understood(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    result = run(*arguments, "--trace", tmp_path / "trace")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("arguments", [[], ["a", "b"], [str(SMALL), "--seed", "-1"]])
def test_arguments_that_make_no_sense(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run(SMALL, "--trace", tmp_path / "file")
    assert result.exit_code == 2
    assert "Not a directory" in result.stderr


def test_help_names_every_option() -> None:
    shown = run("--help").stdout
    assert all(word in shown for word in ("FILE.toml", "--seed", "--trace", "--set", "--json"))


# --- the real command -------------------------------------------------------------------------


def command(*arguments: str | Path, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "byway", "simulate", *map(str, arguments)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_seed_is_one_run_byte_for_byte(tmp_path: Path) -> None:
    scenario = EXAMPLES / "mixed-policies.toml"
    shown = []
    for hash_seed in ("1", "2"):
        directory = tmp_path / hash_seed
        done = command(
            scenario, "--json", "--trace", directory, "--set", "duration_s=12",
            "--set", "faults_random.for_s_max=1", hash_seed=hash_seed,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        facts = json.loads(done.stdout)
        del facts["wall_s"]
        traces = sorted(directory.rglob("*.parquet"))
        files = [(str(path.relative_to(directory)), path.read_bytes()) for path in traces]
        shown.append((facts, files))
    assert shown[0] == shown[1]
    table = read_trace(tmp_path / "1")
    assert table.num_rows > 1_000
    assert set(table["run"].to_pylist()) == {"mixed-policies-1"}


def test_another_seed_is_another_run() -> None:
    first, second = (
        json.loads(run(EXAMPLES / "mixed-policies.toml", "--json", "--seed", seed).stdout)
        for seed in ("11", "12")
    )
    assert (first["ok"], second["ok"]) == (True, True)
    assert first["messages_by_kind"] != second["messages_by_kind"]


def test_the_command_ends_as_it_should(tmp_path: Path) -> None:
    path = write(tmp_path, "duration_s = 1\n[expect]\npublications = 1\n")
    done = command(path)
    assert done.returncode == 1
    assert done.stdout.endswith("  expect.publications: expected 1, found 0\n")


# --- the examples -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_an_example_holds(path: Path) -> None:
    result = run_scenario(read_scenario(path, SHRUNK.get(path.stem, ())))
    assert result.ok, result.violations
    assert result.scenario == path.stem
    assert result.metrics.deliveries > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHRUNK)
def test_a_large_example_holds(name: str) -> None:
    result = run_scenario(read_scenario(EXAMPLES / f"{name}.toml"))
    assert result.ok, result.violations
