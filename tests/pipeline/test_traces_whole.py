"""A simulated trace, analysed as a whole, is what plain Python and the simulator itself say."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from byway.pipeline.schemas import SUMMARY, TRACE
from byway.pipeline.table_files import read_table
from byway.pipeline.traces import TraceTables, analyse
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario
from byway.trace import read_trace
from tests.pipeline.trace_rows import Row, by_hand, collected, depth, trees_by_hand

ROOT = Path(__file__).parents[2]
LOAD = [
    "duration_s=3", "warmup_s=1", "topology.brokers=9", "workload.subscriptions=60",
    "workload.publishers_at=random", "workload.subscribers=20",
]  # fmt: skip


class Whole(NamedTuple):
    """One run, told in three ways."""

    facts: dict[str, Any]
    rows: list[Row]
    tables: TraceTables
    found: Row


@pytest.fixture(scope="module", params=["load", "small-chain"])
def whole(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Whole:
    settings = LOAD if request.param == "load" else []
    scenario = read_scenario(ROOT / f"examples/scenarios/{request.param}.toml", settings)
    directory = tmp_path_factory.mktemp("trace")
    facts = run_scenario(scenario, 3, directory).facts()
    rows = read_trace(directory).to_pylist()
    tables = analyse(read_table(spark, TRACE, directory))
    (found,) = collected(tables.summary, "run")
    return Whole(facts, rows, tables, found)


def test_the_summary_is_that_of_plain_python(whole: Whole) -> None:
    expected = by_hand(whole.rows)
    assert expected["deliveries"] > 5
    assert {name: whole.found[name] for name in expected} == {
        name: pytest.approx(value) for name, value in expected.items()
    }


def test_the_summary_is_that_of_the_simulator(whole: Whole) -> None:
    both = sorted(set(SUMMARY.names) & set(whole.facts))
    assert {"deliveries", "yield", "mean_delay_ms", "messages_by_kind", "brokers"} <= set(both)
    rounded_down = ("delay_ms_p50", "delay_ms_p95", "delay_ms_p99")
    for name in set(both) - {*rounded_down, "duplicates"}:
        assert whole.found[name] == pytest.approx(whole.facts[name]), name
    for name in rounded_down:  # the simulator keeps seven binary digits of a delay
        assert whole.facts[name] <= whole.found[name] <= whole.facts[name] * (1 + 1 / 64)


def test_trees_are_those_of_plain_python(whole: Whole) -> None:
    expected = {
        key: (tree["home"], 1 + len(tree["parents"]), depth(tree), len(tree["clients"]))
        for key, tree in trees_by_hand(whole.rows).items()
    }
    found = {
        (t["publisher"], t["incarnation"], t["sequence"]): (
            t["home"],
            t["brokers"],
            t["depth"],
            t["deliveries"],
        )
        for t in collected(whole.tables.trees, "sequence")
    }
    assert found == expected


def test_tables_agree_with_the_summary(whole: Whole) -> None:
    tables, found = whole.tables, whole.found
    brokers, links = collected(tables.brokers, "broker"), collected(tables.links, "broker")
    assert sum(b["messages_out"] for b in brokers) == found["messages"]
    assert sum(b["messages_in"] for b in brokers) == found["messages"]
    assert sum(b["pure_forwarders"] for b in brokers) == found["pure_forwarders"]
    sent = sum(link["publications_sent"] + link["control_messages"] for link in links)
    assert sent == found["messages"]
    hops = collected(tables.hops, "hop")
    assert sum(h["hop"] * h["deliveries"] for h in hops) / found["deliveries"] == pytest.approx(
        found["mean_hops"]
    )


def test_the_last_tables_are_those_the_simulator_ends_with(whole: Whole) -> None:
    sizes = [
        size
        for size in collected(whole.tables.sizes, "run")
        if size["what"] == "table" and size["kind"] == "subscriptions"
    ]
    peak = max(size["count_total"] for size in sizes)
    assert 0 < peak <= whole.facts["table_entries_peak"]
    assert {size["brokers"] for size in sizes} == {whole.facts["brokers"]}
