"""The simulator's trace tells how many subscriptions are preserved, when, and on which links."""

from pathlib import Path
from typing import Any

import pytest

from byway.sim.run import run_scenario
from byway.sim.scenario import scenario_of
from byway.trace import read_trace

pytestmark = pytest.mark.sim


def step(at_s: float, client: str, **what: Any) -> dict[str, Any]:
    return {"at_s": at_s, "client": client, **what}


def kinds_sampled(directory: Path, **brokers: Any) -> dict[str, list[tuple[int, str | None, int]]]:
    """By kind of table, what B3 told after each second: when, of which link, how many.

    At 2.5 s a subscription ends there that covers another, and five publications matched both.
    """
    publications = [step(1 + n / 10, "pub", publish={"p": 7}) for n in range(5)]
    scenario = {
        "name": "preserved",
        "duration_s": 20,
        "topology": {"kind": "chain", "brokers": 3},
        "brokers": {"incremental_bursts": [1, 9], **brokers},
        "client": [{"name": c, "broker": b} for c, b in (("pub", "B1"), ("a", "B3"), ("b", "B3"))],
        "step": [
            step(0.1, "pub", advertise="p > 0"),
            step(0.3, "a", subscribe="p > 1"),
            step(0.5, "b", subscribe="p > 5"),
            *publications,
            step(2.5, "a", unsubscribe="s"),
        ],
    }
    result = run_scenario(scenario_of(scenario), seed=1, trace_dir=str(directory))
    assert result.ok, result.violations
    rows = read_trace(directory).select(["event", "broker", "kind", "t_us", "link", "count"])
    found: dict[str, list[tuple[int, str | None, int]]] = {}
    for row in rows.to_pylist():
        if row["event"] == 7 and row["broker"] == "B3":
            sample = (row["t_us"] // 1_000_000, row["link"], row["count"])
            found.setdefault(row["kind"], []).append(sample)
    return found


def test_what_is_preserved_is_sampled_until_it_is_retired(tmp_path: Path) -> None:
    preserved = kinds_sampled(tmp_path, covering="incremental")["preserved"]
    there = [second for second, link, _ in preserved if link == "B2"]
    assert there[0] == 3  # it ended at 2.5 s
    assert there[-1] < 12  # five quiet seconds later it was retired
    assert {(link, count) for second, link, count in preserved if second in there} == {
        (None, 1), ("B2", 1),
    }  # fmt: skip
    assert preserved[-1][1:] == (None, 0)


@pytest.mark.parametrize("policy", ["none", "active"])
def test_where_nothing_is_ever_preserved_nothing_is_sampled(policy: str, tmp_path: Path) -> None:
    assert sorted(kinds_sampled(tmp_path, covering=policy)) == ["advertisements", "subscriptions"]


def test_merged_filters_are_sampled_where_there_may_be_any(tmp_path: Path) -> None:
    kinds = kinds_sampled(tmp_path, covering="active", merging=True)
    assert sorted(kinds) == ["advertisements", "merged", "subscriptions"]
