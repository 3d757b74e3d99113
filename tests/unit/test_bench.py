"""The matching bench runs, checks its own answers and writes what it found. No timing is judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benches.baselines import BoxScan, CountingIndex
from benches.report import Figure, Report, Section, at_least, at_most, below
from byway import parse
from byway.matching import NaiveIndex

ROOT = Path(__file__).parents[2]


def bench(*arguments: str, name: str = "matching") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"benches.{name}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)  # the kernels may have to be compiled
def test_a_quick_run_writes_its_figures(tmp_path: Path) -> None:
    done = bench("--quick", "--only", "stocks", "--only", "drift", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "matching.json").read_text())
    assert set(found) == {"title", "quick", "machine", "sections"}
    assert set(found["machine"]) == {"cpus", "python", "numpy", "numba", "byway"}
    assert found["quick"] is True
    assert list(found["sections"]) == ["stocks", "drift"]
    for section in found["sections"].values():
        assert set(section) == {"title", "sizes", "figures", "notes"}
        for figure in section["figures"].values():
            assert set(figure) == {"value", "unit", "target", "met", "baselines"}
    stocks = found["sections"]["stocks"]
    assert stocks["sizes"]["subscriptions"] == 500
    mean = stocks["figures"]["match, mean"]
    assert mean["target"] == {"relation": "≤", "bound": 10}
    assert set(mean["baselines"]) == {"naive", "counting"}
    assert "stocks: " in done.stdout


@pytest.mark.timeout(300)
def test_a_quick_run_of_the_broker_bench(tmp_path: Path) -> None:
    options = ("--quick", "--only", "handle", "--only", "absorbing", "--out", str(tmp_path))
    done = bench(*options, name="broker")
    assert done.returncode == 0, done.stderr
    sections = json.loads((tmp_path / "broker.json").read_text())["sections"]
    assert sections["handle"]["sizes"]["subscriptions"] == 500
    assert sections["handle"]["figures"]["copies per publication"]["value"] > 1
    forwarded = sections["absorbing"]["figures"]["forwarded, active"]
    assert forwarded["value"] < forwarded["baselines"]["none"]["value"]


def test_a_quick_run_of_the_mesh_bench(tmp_path: Path) -> None:
    done = bench("--quick", "--out", str(tmp_path), name="mesh")
    assert done.returncode == 0, done.stderr
    maps = json.loads((tmp_path / "mesh.json").read_text())["sections"]["maps"]
    assert maps["sizes"]["brokers"] == 120
    assert set(maps["figures"]["32 soft links: working map"]["baselines"]) == {"sets"}


def test_an_unknown_section_is_refused() -> None:
    done = bench("--only", "nonsense")
    assert done.returncode == 2
    assert "no such section: nonsense" in done.stderr


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (at_most(5), 5, True),
        (at_most(5), 5.1, False),
        (below(5), 5, False),
        (at_least(5), 5, True),
        (at_least(5), 4.9, False),
        (None, 1, None),
    ],
)
def test_a_figure_is_judged_by_its_target(target, value, met) -> None:
    assert Figure("f", value, "µs", target).met is met


def test_an_advantage_is_how_many_times_better() -> None:
    assert Figure("time", 2, "µs", baselines={"naive": 10}).advantage("naive") == 5
    rate = Figure("rate", 2, "/s", baselines={"naive": 10}, more_is_better=True)
    assert rate.advantage("naive") == 0.2


def test_a_missed_target_is_named_at_the_end() -> None:
    figures = [Figure("a", 1, "µs", at_most(2)), Figure("b", 3, "µs", at_most(2))]
    text = Report("bench", False, [], [Section("s", "title", {"rows": 7}, figures)]).text()
    assert "1 of 2 targets met\n  ✘ s: b 3 µs, wanted ≤ 2\n" in text
    assert "rows 7" in text


TEXTS = [
    "a = 1",
    "a = 1 AND b > 2",
    "a >= 1 AND a < 5",
    "b BETWEEN 0 AND 9 AND s = 'x'",
    "s = 'y'",
    "a > 0 AND a <= 1",
    "c = 7",
]


@pytest.fixture
def naive() -> NaiveIndex:
    naive = NaiveIndex()
    for key, text in enumerate(TEXTS):
        naive.add(key, parse(text))
    return naive


@pytest.mark.parametrize(
    "publication",
    [{}, {"a": 1}, {"a": 1.0, "b": 3}, {"a": 5}, {"b": 9, "s": "x"}, {"s": "y", "z": 1}, {"a": 0}],
)
def test_counting_equals_naive(naive: NaiveIndex, publication: dict) -> None:
    counting = CountingIndex([parse(text) for text in TEXTS])
    assert counting.match(publication).tolist() == naive.match(publication)


@pytest.mark.parametrize(
    "query", [*TEXTS, "a = 2", "a = 1 AND b = 3 AND c = 7", "z = 1", "s = 'z'"]
)
@pytest.mark.parametrize(
    "relation", ["covering", "covered_by", "intersecting", "intersecting_advertisements"]
)
def test_scanning_equals_naive(naive: NaiveIndex, relation: str, query: str) -> None:
    scan = BoxScan([parse(text) for text in TEXTS])
    asked = parse(query)
    assert getattr(scan, relation)(asked).tolist() == getattr(naive, relation)(asked)
