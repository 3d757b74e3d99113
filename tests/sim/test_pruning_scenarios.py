"""The setups of the two papers on filter aggregation in a small size: exact, and in the papers'
order."""

from functools import cache
from pathlib import Path

import pytest

from byway.pipeline.claims.catalogue._pruning import (
    SMALL_CONTROLLED,
    SMALL_MOBILE,
    SMALL_MOVING,
    SMALL_SELECTIVE,
    SMALL_TABLE_II,
    SMALL_WORKFLOW,
)
from byway.pipeline.claims.claim import Size
from byway.sim.meters import GroupMeasures
from byway.sim.run import RunResult, run_scenario
from byway.sim.scenario import read_scenario

pytestmark = [pytest.mark.sim, pytest.mark.xdist_group("pruning-scenarios")]

FILES = Path(__file__).parents[2] / "examples/scenarios/pruning"


def settings_of(size: Size) -> tuple[str, ...]:
    """As `--set` takes them."""
    return tuple(f"{key}={value}" for key, value in size.settings.items())


SMALL = {
    "003-controlled": settings_of(SMALL_CONTROLLED),
    "003-table-ii": settings_of(SMALL_TABLE_II),
    "003-mobile": settings_of(SMALL_MOBILE),
    "003-workflow": settings_of(SMALL_WORKFLOW),
    "004-default": settings_of(SMALL_SELECTIVE),
    "004-mobile": settings_of(SMALL_MOVING),
}
SMALL["004-clustered"] = SMALL["004-default"]
RETIRING = ("brokers.retire_batch=2", "brokers.retire_interval_s=1", "brokers.retire_after_s=2")


@cache
def run(name: str, policy: str, *settings: str) -> RunResult:
    given = [*SMALL[name], f"brokers.covering={policy}", *settings]
    result = run_scenario(read_scenario(FILES / f"{name}.toml", given))
    assert result.ok, result.violations
    return result


def group(result: RunResult, name: str) -> GroupMeasures:
    assert result.measures is not None
    return result.measures.groups[name]


def mean_delay_ms(result: RunResult) -> float:
    assert result.measures is not None
    delays = result.measures.probes or result.measures.delays
    assert delays.mean_ms is not None
    return delays.mean_ms


def mean_table(result: RunResult, name: str = "core") -> float:
    found = group(result, name).table_entries_mean
    assert found is not None
    return found


LONGEST = {"003-workflow", "004-clustered", "004-mobile"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONGEST)) for n in SMALL]
)
def test_every_policy_delivers_the_same(name: str) -> None:
    """That it delivers what is due is checked in every run."""
    policies = ("active", "selective" if name.startswith("004") else "incremental")
    publications = {run(name, policy).metrics.publications for policy in policies}
    assert len(publications) == 1
    assert publications.pop() > 100


# --- controlled setups: U1, U2, U7, U9 ----------------------------------------------------------

PRUNING = {"003-controlled": "incremental", "004-default": "selective"}


@pytest.mark.parametrize("name", PRUNING)
def test_delays_are_in_the_order_of_the_documents(name: str) -> None:
    active, lazy, packing, pruning = (
        mean_delay_ms(run(name, policy)) for policy in ("active", "lazy", "packing", PRUNING[name])
    )
    assert active > 1.3 * lazy
    assert active > 1.3 * packing
    assert min(lazy, packing) > 3 * pruning


@pytest.mark.parametrize("name", PRUNING)
def test_fewer_subscriptions_arrive_near_the_publishers(name: str) -> None:
    active, lazy, packing, pruning = (
        group(run(name, policy), "E") for policy in ("active", "lazy", "packing", PRUNING[name])
    )
    assert active.subscriptions_arrived == active.subscription_messages > 300
    assert 0.1 < lazy.subscriptions_arrived / active.subscriptions_arrived < 0.8
    assert packing.subscriptions_arrived == active.subscriptions_arrived
    assert packing.subscription_messages < 0.2 * active.subscriptions_arrived
    assert pruning.subscriptions_arrived < 0.3 * active.subscriptions_arrived


@pytest.mark.parametrize("name", PRUNING)
def test_what_is_preserved_keeps_tables_small(name: str) -> None:
    active, pruning = run(name, "active"), run(name, PRUNING[name])
    assert group(active, "all").preserved == group(active, "all").preserved_entries == 0
    assert group(pruning, "all").preserved_entries >= 8
    assert mean_table(pruning) < 0.9 * mean_table(active)
    assert group(pruning, "all").peak_queue < 0.5 * group(active, "all").peak_queue
    share = group(pruning, "core").false_positive_share
    assert share is not None
    assert share < 0.02


def test_clusters_keep_what_is_preserved_out_of_the_core() -> None:
    active, selective = run("004-clustered", "active"), run("004-clustered", "selective")
    assert mean_table(selective) < 0.18 * mean_table(active)
    assert mean_delay_ms(selective) < 0.1 * mean_delay_ms(active)
    assert group(selective, "core").subscriptions_arrived == 0
    assert group(active, "E").subscriptions_arrived == 20 * 30  # each root's thirty


@pytest.mark.parametrize("name", PRUNING)
def test_retiring_makes_no_burst_and_leaves_nothing(name: str) -> None:
    """In the end tables are those of a fresh network, and queues were never long."""
    retiring = run(name, PRUNING[name], *RETIRING)
    assert group(retiring, "all").retired >= group(retiring, "all").preserved > 8
    assert group(retiring, "all").preserved_entries == 0
    assert (
        group(retiring, "all").table_entries_end
        == group(run(name, "active"), "all").table_entries_end
    )
    assert mean_table(retiring, "all") < mean_table(run(name, "active"), "all")
    assert group(retiring, "all").peak_queue <= 200


# --- without unsubscriptions: U4 ----------------------------------------------------------------


def test_what_brokers_are_busy_with() -> None:
    active, lazy, none = (
        group(run("003-table-ii", policy), "core").busy_s for policy in ("active", "lazy", "none")
    )
    assert active["publication"] < lazy["publication"] < none["publication"]
    assert active["covering"] < lazy["covering"]
    assert "covering" not in none
    assert active["unsubscribe"] > 0
    assert "unsubscribe" not in lazy


# --- those who move, and those who watch: U5, U6, U10 -------------------------------------------


def test_subscribers_who_move_release_less() -> None:
    active, incremental = (run("003-mobile", p) for p in ("active", "incremental"))
    assert group(incremental, "all").preserved > 5
    assert group(incremental, "all").triggered < 0.5 * group(active, "all").triggered


def test_auditors_who_leave_make_no_burst() -> None:
    active, incremental = (run("003-workflow", p) for p in ("active", "incremental"))
    assert group(incremental, "core").preserved > 0
    assert group(incremental, "all").triggered < 0.2 * group(active, "all").triggered
    assert group(incremental, "all").peak_queue < group(active, "all").peak_queue


def test_monitors_that_move_are_soon_everywhere() -> None:
    active, selective = (run("004-mobile", p) for p in ("active", "selective"))
    assert group(selective, "all").preserved > 10
    assert group(active, "core").subscriptions_arrived > 1_000
    assert group(selective, "core").subscriptions_arrived == 0
    assert mean_table(selective, "all") < mean_table(active, "all")
    assert group(selective, "tier-2").table_entries_end < group(active, "tier-2").table_entries_end
