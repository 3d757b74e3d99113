"""What a sweep file asks for, and what is said of one that cannot be understood."""

import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from byway.pipeline.pipeline_errors import SweepError
from byway.pipeline.sweeps import Run, Sweep, read_sweep
from byway.pipeline.sweeps.plan import FAILED_POINTS_MAX, toml_text
from byway.sim.scenario import read_scenario
from byway.sim.topology.topology_spec import ChainSpec

ROOT = Path(__file__).parents[2]
CHAIN = ROOT / "examples/scenarios/small-chain.toml"
HEAD = f'scenario = "{CHAIN}"\n'


def sweep_of(tmp_path: Path, text: str) -> Sweep:
    file = tmp_path / "try.toml"
    file.write_text(text)
    return read_sweep(file)


def test_a_grid_is_every_value_with_every_other_and_every_seed(tmp_path: Path) -> None:
    sweep = sweep_of(
        tmp_path,
        HEAD
        + """
        seeds = [7, 9]
        [set]
        expect = {}
        network.reconnect_ms = 50
        [grid]
        brokers.covering = ["none", "active"]
        "network.latency_ms" = [1, 2.5, 4]
        """,
    )
    assert sweep.name == "try"
    assert len(sweep.runs) == len({run.id for run in sweep.runs}) == 2 * 3 * 2
    assert [(run.seed, run.settings) for run in sweep.runs[2:4]] == [
        (seed, {
            "expect": "{}", "network.reconnect_ms": "50", "brokers.covering": '"none"',
            "network.latency_ms": "2.5",
        })
        for seed in (7, 9)
    ]  # fmt: skip
    run = sweep.runs[2]
    assert (run.scenario.brokers.covering, run.scenario.network.latency_ms) == ("none", 2.5)
    assert run.scenario.expect.deliveries is None


def test_without_a_grid_there_is_one_point(tmp_path: Path) -> None:
    assert [run.seed for run in sweep_of(tmp_path, HEAD + "seeds = 3").runs] == [1, 2, 3]
    assert [run.seed for run in sweep_of(tmp_path, HEAD).runs] == [1]


def test_a_scenario_is_found_beside_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "here.toml").write_bytes(CHAIN.read_bytes())
    assert sweep_of(tmp_path, 'scenario = "here.toml"').runs[0].scenario.name == "small-chain"


def test_values_of_members_of_arrays_and_whole_tables(tmp_path: Path) -> None:
    text = '[grid]\nclient.1.broker = ["B1"]\ntopology = [{kind = "chain", brokers = 4}]'
    (run,) = sweep_of(tmp_path, HEAD + text).runs
    assert run.scenario.client[1].broker == "B1"
    assert run.scenario.topology == ChainSpec(brokers=4)


def test_a_large_grid_is_planned_with_progress(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    file = tmp_path / "try.toml"
    values = list(range(1, 51))
    grid = f"set.expect = {{}}\ngrid.network.latency_ms = {values}\ngrid.quiet_s = {values}"
    file.write_text(HEAD + "seeds = 2\n" + grid)
    assert len(read_sweep(file, lambda *facts: told.append(facts)).runs) == 5_000
    assert told == [(number, 2_500, "planning") for number in (0, 1_000, 2_000)]


def test_ids_follow_content(tmp_path: Path) -> None:
    def ids(text: str) -> set[str]:
        return {run.id for run in sweep_of(tmp_path, text).runs}

    first = ids(HEAD + "seeds = 2")
    assert ids(HEAD + "seeds = 2\nname = 'other'") == first
    assert ids(HEAD + "seeds = 3") > first
    assert not ids(HEAD + "seeds = 2\ntraces = true") & first
    assert not ids(HEAD + "seeds = 2\nset.network.latency_ms = 3") & first
    changed = tmp_path / "changed.toml"
    changed.write_text(CHAIN.read_text().replace("duration_s = 2", "duration_s = 3"))
    assert not ids("scenario = 'changed.toml'\nseeds = 2") & first


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("scenarios/**/*.toml")), ids=str)
def test_a_run_can_be_sent_to_a_worker(path: Path) -> None:
    run = Run(id="x", scenario=read_scenario(path), settings={"a": "1"}, seed=1)
    assert msgspec.json.decode(msgspec.json.encode(run), type=Run) == run


@pytest.mark.parametrize(
    "value",
    [True, 3, -2.5, 1e300, 'a "quoted" \\ word\n', "für", [1, [2]], {"a b": {"c": []}}, {}],
    ids=repr,
)
def test_values_are_written_as_toml(value: Any) -> None:
    assert tomllib.loads(f"value = {toml_text(value)}")["value"] == value


@pytest.mark.parametrize("path", sorted((ROOT / "examples/sweeps").glob("*.toml")), ids=str)
def test_examples_can_be_read(path: Path) -> None:
    assert read_sweep(path).runs


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seeds = 1", "scenario: missing; expected a non-empty string"),
        ("scenario = 3", "scenario: expected a non-empty string, found 3"),
        ("scenario = ", "not TOML: "),
        ('scenario = "nowhere.toml"', "nowhere.toml: cannot be read: No such file"),
        (HEAD + "sedes = 1", "sedes: unknown key; did you mean 'seeds'?"),
        (
            HEAD + "about = 1",
            "about: unknown key; expected one of scenario, name, seeds, grid, set",
        ),
        (HEAD + "seeds = []", "seeds: expected a non-empty array, each an integer from 0 to 42949"),
        (HEAD + "seeds = 0", "seeds: expected an integer from 1 to 1000000, found 0"),
        (
            HEAD + "seeds = true",
            "seeds: expected an integer from 1 to 1000000 or a non-empty array",
        ),
        (HEAD + "seeds = [1, -1]", "seeds.1: expected an integer from 0 to"),
        (HEAD + "seeds = [4, 4]", "seeds.1: 4 is there twice"),
        (HEAD + "traces = 1", "traces: expected true or false, found 1"),
        (HEAD + "name = ''", "name: expected a non-empty string, found ''"),
        (HEAD + "grid = 1", "grid: expected a table, found 1"),
        (
            HEAD + "[grid]\nduration_s = 3",
            "grid.duration_s: expected a non-empty array of values, found 3",
        ),
        (HEAD + "[grid]\nduration_s = []", "grid.duration_s: expected a non-empty array of values"),
        (HEAD + "[grid]\nduration_s = [3, 3]", "grid.duration_s.1: 3 is there twice"),
        (HEAD + "[set]\na.b = 1\n[grid]\na.b = [1]", "grid.a.b: is in set already"),
        (
            HEAD + "[grid]\nnetwork.latncy_ms = [5]",
            "network.latncy_ms=5: network.latncy_ms: unknown key; "
            "did you mean 'network.latency_ms'?",
        ),
        (
            HEAD + "[grid]\nnetwork.latency_ms = [1, -5]",
            "network.latency_ms=-5: network.latency_ms: expected a number from 0",
        ),
        (
            HEAD + "seeds = 10_000\n[grid]\nduration_s = " + str(list(range(1, 103))),
            "grid: 102 points with 10,000 seeds are too many; at most 1,000,000 runs",
        ),
        (  # more than fit into any memory
            HEAD + "[grid]\n" + "\n".join(f"k{n} = {list(range(100))}" for n in range(8)),
            "grid: 10,000,000,000,000,000 points with 1 seeds are too many; at most",
        ),
    ],
)
def test_what_cannot_be_understood_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SweepError) as caught:
        sweep_of(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'try.toml'}: ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "seeds = [-1, true]\ntraces = 1\nset = 2",
            [
                "seeds.0: expected an integer from 0 to 4294967295, found -1",
                "seeds.1: expected an integer from 0 to 4294967295, found true",
                "traces: expected true or false, found 1",
                "set: expected a table, found 2",
                "scenario: missing; expected a non-empty string",
            ],
        ),
        (
            HEAD + "seeds = [4, 4]\n[set]\nname = 'x'\n[grid]\nname = 1\nseed = [1, 1]",
            [
                "seeds.1: 4 is there twice",
                "grid.name: is in set already",
                "grid.name: expected a non-empty array of values, found 1",
                "grid.seed.1: 1 is there twice",
            ],
        ),
        (  # of several points, each problem once
            HEAD + "[set]\nquiet_s = -1\n[grid]\nwarmup_s = [0, -2, 1]\nduration_s = [9, 0]",
            [
                "quiet_s=-1: quiet_s: expected a number from 0 to 10000000, found -1",
                "duration_s=0: duration_s: expected a number above 0 to 10000000, found 0",
                "warmup_s=-2: warmup_s: expected a number from 0 to 10000000, found -2",
            ],
        ),
    ],
)
def test_all_problems_are_reported(tmp_path: Path, text: str, told: list[str]) -> None:
    with pytest.raises(SweepError) as caught:
        sweep_of(tmp_path, text)
    source = tmp_path / "try.toml"
    assert sorted(str(caught.value).splitlines()) == sorted(f"{source}: {line}" for line in told)
    assert [problem.source for problem in caught.value.problems] == [str(source)] * len(told)


def test_problems_of_the_first_points_are_reported(tmp_path: Path) -> None:
    values = [-number for number in range(1, 10 * FAILED_POINTS_MAX)]
    with pytest.raises(SweepError) as caught:
        sweep_of(tmp_path, HEAD + f"grid.quiet_s = {values}")
    assert len(caught.value.problems) == FAILED_POINTS_MAX


def test_a_scenario_is_read_once_for_all_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    read_bytes = Path.read_bytes

    def read(file: Path) -> bytes:
        opened.append(file)
        return read_bytes(file)

    monkeypatch.setattr(Path, "read_bytes", read)
    sweep = sweep_of(
        tmp_path,
        HEAD + f"seeds = 3\n[grid]\nnetwork.latency_ms = {list(range(1, 41))}\n"
        'client.0 = [{ name = "ticker", broker = "B1" }]\n"client.0.broker" = ["B2", "B3"]',
    )
    assert len(opened) == 1
    assert len({run.id for run in sweep.runs}) == len(sweep.runs) == 240
    for run in sweep.runs[::40]:  # a value that later settings change stays as it was
        settings = [f"{key}={value}" for key, value in run.settings.items()]
        assert run.scenario == read_scenario(CHAIN, settings)


def calls_of(action: Callable[[], object]) -> Counter[str]:
    """How often `action` calls each function, by name."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, called: Any) -> None:
        if event in ("call", "c_call"):
            counts[frame.f_code.co_name if event == "call" else called.__name__] += 1

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return counts


def test_a_point_more_looks_at_no_file_and_reads_no_table(tmp_path: Path) -> None:
    """A million of them are planned in less than a minute."""

    def calls(side: int) -> Counter[str]:
        values = list(range(1, side + 1))
        latency, duration = (f"{key} = {values}" for key in ("network.latency_ms", "duration_s"))
        text = f"{HEAD}set.expect = {{}}\nset.step = []\n[grid]\n{latency}\n{duration}"
        return calls_of(lambda: sweep_of(tmp_path, text))

    calls(2)  # what is loaded once
    few, many = calls(10), calls(40)
    for name in ("stat", "open", "open_code", "listdir", "scandir"):
        assert many[name] == few[name], name
    points = 40 * 40 - 10 * 10
    assert many["runs_of"] - few["runs_of"] > points
    more = many["member"] - few["member"]
    assert more <= 2 * 30 * 15, "a new value reads a table, whose keys are few; a point does not"
    assert (many.total() - few.total()) / points < 100


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="cannot be read: No such file"):
        read_sweep(tmp_path / "nowhere.toml")
