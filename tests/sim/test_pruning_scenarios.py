"""The setups of documents 003 and 004 in a small size: exact, and in the documents' order."""

from functools import cache
from pathlib import Path

import pytest

from byway.sim.run import Result, run_scenario
from byway.sim.scenario import read_scenario

pytestmark = pytest.mark.sim

FILES = Path(__file__).parents[2] / "examples/scenarios/pruning"
SMALL = {
    "003-controlled": (
        "duration_s=130", "brokers.instant_until_s=20", "warmup_s=20", "unsubscribe.0.at_s=60",
        "measure.from_s=60", "measure.tables_from_s=66", "measure.to_s=120",
        "unsubscribe.0.count=12", "unsubscribe.0.gap_s=0.1",
        "workload.subscriptions=3_600", "workload.scattered_groups=12",
        "workload.parameters.degree=150", "workload.parameters.width=0.7",
        "workload.publishers=3", "workload.rate_per_s=40", "workload.publish_for_s=100",
        "brokers.incremental_bursts=[20, 1_000]",
    ),
}  # fmt: skip


@cache
def run(name: str, policy: str, *settings: str) -> Result:
    given = [*SMALL[name], f"brokers.covering={policy}", *settings]
    result = run_scenario(read_scenario(FILES / f"{name}.toml", given))
    assert result.ok, result.violations
    return result


def arrived(result: Result, broker: str = "E") -> int:
    assert result.measures is not None
    return result.measures.groups[broker].subscriptions_arrived


def mean_delay_ms(result: Result) -> float:
    assert result.measures is not None
    assert result.measures.delays.mean_ms is not None
    return result.measures.delays.mean_ms


def test_x():
    for p in ("active", "lazy", "packing", "incremental"):
        r = run("003-controlled", p)
        m = r.measures
        print(p, r.wall_s, m.delays)
        for g, v in m.groups.items():
            print(g, v)
