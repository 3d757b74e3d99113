"""Traces, counters and the simulator's account say the same of every scenario file, with faults.

All files are run as they are, in small sizes, and with crashes, restarts with and without state,
cuts and partitions; those with a `[measure]` table under pruning with cuts too. The traces of all
runs are analysed by Spark at once. What may differ is on docs/reference/measures.md, and is
accounted for one by one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from pyspark.sql import SparkSession

from byway.core.counters import Counters
from byway.model.measurement import (
    CONTROL_MESSAGES,
    COPIES,
    COUNTED,
    DELIVERIES,
    FALSE_POSITIVES,
    MATCHED_BROKERS,
    PUBLICATION_HOPS,
    PUBLICATIONS,
    PURE_FORWARDERS,
    REFUSED_COPIES,
)
from byway.model.trace_schema import TraceEvent
from byway.pipeline.schemas import (
    BROKERS,
    HOPS,
    LINKS,
    REQUESTS,
    SIZES,
    SUMMARY,
    TRACE,
    TableSchema,
)
from byway.pipeline.table_files import read_table
from byway.pipeline.traces import computed_once
from byway.pipeline.traces.part_measures import PARTS, part_measures
from byway.sim.engine.network import HEADER_BYTES
from byway.sim.scenario.measure import part_of
from byway.trace import read_trace
from tests.measured_runs import (
    CRASHES,
    CUTS,
    FILES,
    SMALL,
    MeasuredRun,
    Pair,
    run_measured,
    scenario,
)
from tests.pipeline.trace_rows import Row, collected

PRUNING = {"003": "brokers.covering=incremental", "004": "brokers.covering=selective"}
MEASURING = ("pruning/003-controlled", "pruning/004-default")
OF_BROKERS = {
    "published": PUBLICATIONS,
    "received": PUBLICATION_HOPS,
    "matched_brokers": MATCHED_BROKERS,
    "pure_forwarders": PURE_FORWARDERS,
    "false_positives": FALSE_POSITIVES,
    "duplicates": REFUSED_COPIES,
    "delivered": DELIVERIES,
}
OF_GROUPS = {
    "publications", "false_positives", "false_positive_share", "subscriptions_arrived",
    "subscription_messages", "peak_queue", "table_entries_end",
}  # fmt: skip
TABLES = (SUMMARY, HOPS, BROKERS, LINKS, SIZES)


class Traced(NamedTuple):
    """The rows of the tables that Spark made of all traces, by run."""

    tables: dict[TableSchema, dict[str, list[Row]]]
    measured: dict[str, dict[str, float]]


class AllRuns(NamedTuple):
    """All runs, told by the simulator and by Spark."""

    runs: dict[str, MeasuredRun]
    traced: Traced
    directory: Path

    def rows(self, table: TableSchema, run: str) -> list[Row]:
        return self.traced.tables[table].get(run, [])

    def summary(self, run: str) -> Row:
        (found,) = self.rows(SUMMARY, run)
        return found

    def deliveries(self, run: str) -> list[Row]:
        """Rows about clients, as they are."""
        columns = [
            "event",
            "broker",
            "t_us",
            "publisher",
            "incarnation",
            "sequence",
            "hop",
            "client",
        ]
        rows = read_trace(self.directory / run).select(columns).to_pylist()
        return [row for row in rows if row["client"] is not None]

    def copies_chosen(self, run: str) -> int:
        """The links that brokers chose for publications."""
        copies = read_trace(self.directory / run).column("copies").to_pylist()
        return sum(number or 0 for number in copies)


def variants(name: str, every: bool) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, faults and further settings of the runs of a file."""
    policy = PRUNING.get(name.removeprefix("pruning/")[:3])
    more = () if policy is None else (policy, "brokers.pruning_samples_min=1")
    yield "as-it-is", "", ()
    yield "crashes", CRASHES, more
    if policy is not None and (every or name in MEASURING):
        yield "cuts", CUTS, (*more, "brokers.incremental_bursts=[2, 1_000]")


def simulated(directory: Path, seeds: list[int], every: bool) -> dict[str, MeasuredRun]:
    runs = {}
    for name in FILES:
        for kind, faults, more in variants(name, every):
            for seed in seeds:
                run = f"{name.replace('/', '-')}-{kind}-{seed}"
                found = scenario(name, faults, more)
                runs[run] = run_measured(found, run, directory / run, seed)
    return runs


def analysed(spark: SparkSession, runs: dict[str, MeasuredRun], directory: Path) -> Traced:
    trace = read_table(spark, TRACE, directory).persist()
    tables: dict[TableSchema, dict[str, list[Row]]] = {}
    with computed_once(trace) as computed:
        for table in TABLES:
            of_runs: dict[str, list[Row]] = defaultdict(list)
            for row in collected(computed.by_schema()[table], "run"):
                of_runs[row["run"]].append(row)
            tables[table] = of_runs
    parts: list[tuple[Any, ...]] = []
    requests: list[tuple[Any, ...]] = []
    for name, run in runs.items():
        part = part_of(run.plan)
        if part is not None:
            for group, brokers in part.groups.items():
                parts += [(name, part.from_us, part.to_us, group, broker) for broker in brokers]
            for client, times_us in part.requests_us.items():
                requests += [(name, client, n, t_us) for n, t_us in enumerate(times_us, start=1)]
    found = part_measures(
        trace,
        spark.createDataFrame(parts, PARTS),
        spark.createDataFrame(requests, REQUESTS.spark_schema()),
    )
    measured = {row["run"]: row["measured"] for row in found.collect()}
    trace.unpersist()
    return Traced(tables, measured)


def all_runs(spark: SparkSession, directory: Path, seeds: list[int], every: bool) -> AllRuns:
    runs = simulated(directory, seeds, every)
    return AllRuns(runs, analysed(spark, runs, directory), directory)


@pytest.fixture(scope="module")
def everything(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AllRuns:
    return all_runs(spark, tmp_path_factory.mktemp("traces"), [1], every=False)


@pytest.mark.timeout(600)
def test_every_scenario_file_is_measured_once(everything: AllRuns) -> None:
    assert set(SMALL) == set(FILES)
    check(everything)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_with_more_seeds(spark: SparkSession, tmp_path: Path) -> None:
    check(all_runs(spark, tmp_path, [2, 3, 4], every=True))


def check(everything: AllRuns) -> None:
    """All that is measured more than once is the same."""
    for name, run in everything.runs.items():
        try:
            check_counted(everything, run)
            check_brokers(everything, run)
            check_messages(everything, run)
            check_deliveries(everything, run)
            check_tables(everything, run)
            if run.measures is not None:
                check_part(everything.traced.measured[name], run)
        except AssertionError as error:
            error.add_note(f"run {name}")
            raise
    check_that_enough_happened(everything)


# --- one run --------------------------------------------------------------------------------------


def lives(run: MeasuredRun) -> list[Counters]:
    return [counters for own in run.counters.values() for counters in own]


def check_counted(everything: AllRuns, run: MeasuredRun) -> None:
    """Every word that is counted, in the trace and by all brokers together."""
    summary, metrics = everything.summary(run.name), msgspec.to_builtins(run.metrics)
    assert summary["rows_lost"] == 0
    for word in COUNTED:
        assert summary[word.name] == sum(getattr(c, word.counter) for c in lives(run)), word.name
        if word not in (DELIVERIES, REFUSED_COPIES, COPIES, CONTROL_MESSAGES):
            assert summary[word.name] == metrics[word.name], word.name
    assert summary["yield"] == pytest.approx(metrics["yield"])


def check_brokers(everything: AllRuns, run: MeasuredRun) -> None:
    """The same broker by broker, and messages link by link."""
    found = {row["broker"]: row for row in everything.rows(BROKERS, run.name)}
    for broker, own in run.counters.items():
        for column, word in OF_BROKERS.items():
            counted = sum(getattr(counters, word.counter) for counters in own)
            assert found[broker][column] == counted, (broker, column)
    sent: Counter[tuple[str, str, str]] = Counter()
    for broker, own in run.counters.items():
        for counters in own:
            for link, kind, count in counters.sent():
                sent[broker, link, "pub" if kind == "pub" else "control"] += count
    traced = {
        (row["broker"], row["link"], kind): row[column]
        for row in everything.rows(LINKS, run.name)
        for kind, column in (("pub", "publications_sent"), ("control", "control_messages"))
        if row[column]
    }
    assert traced == sent


def check_messages(everything: AllRuns, run: MeasuredRun) -> None:
    """Messages by kind, and bytes, also as the channels between brokers carried them."""
    summary, notes = everything.summary(run.name), run.notes
    assert summary["messages_by_kind"] == run.metrics.messages == notes.messages
    assert summary["messages"] == run.metrics.messages_total
    headers = HEADER_BYTES * summary["publications_sent"]
    traced = summary["publication_bytes"] + headers + summary["control_bytes"]
    assert traced == notes.message_bytes
    if run.metrics.bytes_sent is not None:
        never_left = sum(c.waiting_bytes for c in notes.channels if not c.open)
        assert traced - never_left == run.metrics.bytes_sent


def check_deliveries(everything: AllRuns, run: MeasuredRun) -> None:
    """What clients got is what was put into sessions, but for what was lost there or came twice."""
    received = run.notes.received
    assert len(received) == run.metrics.deliveries
    assert run.notes.refused.total() == run.metrics.redelivered
    rows = everything.deliveries(run.name)
    put: dict[Pair, list[Row]] = defaultdict(list)
    dropped: set[Pair] = set()
    for row in rows:
        pair = row["publisher"], row["incarnation"], row["sequence"], row["client"]
        if row["event"] == TraceEvent.DELIVERED:
            put[pair].append(row)
        else:
            dropped.add(pair)
    assert received.keys() <= put.keys()
    forgot = [restart for restart in run.notes.restarts if not restart.stored]
    extra: Counter[int] = Counter()
    for pair, found in put.items():
        for earlier, later in pairwise(found):
            assert any(
                restart.broker == later["broker"]
                and earlier["t_us"] <= restart.t_us <= later["t_us"]
                for restart in forgot
            ), f"{pair} was delivered twice by a broker that forgot nothing"
        if pair not in received:
            assert (
                pair in dropped
                or pair in run.notes.refused
                or pair[-1] in run.away
                or any(
                    r.broker == found[-1]["broker"] and r.t_us >= found[-1]["t_us"] for r in forgot
                )
            ), f"{pair} was neither received nor lost"
        extra.update(row["hop"] for row in found[pair in received :])
    hops = Counter({row["hop"]: row["deliveries"] for row in everything.rows(HOPS, run.name)})
    account = Counter({int(hop): n for hop, n in run.metrics.deliveries_by_hops.items()})
    assert hops - extra == account == Counter(received.values())
    assert hops.total() == account.total() + extra.total()
    if not extra:
        summary = everything.summary(run.name)
        assert summary["mean_hops"] == pytest.approx(run.metrics.mean_hops)


def check_tables(everything: AllRuns, run: MeasuredRun) -> None:
    """Tables at the end, and queues at their longest."""
    sizes = everything.rows(SIZES, run.name)
    tables = [row for row in sizes if (row["what"], row["kind"]) == ("table", "subscriptions")]
    last = max(tables, key=lambda row: row["t_s"])
    assert (last["count_total"], last["brokers"]) == (run.metrics.table_entries, len(run.counters))
    peaks = [row["count_max"] for row in sizes if row["kind"] == "input_peak"]
    assert max(peaks) == run.metrics.peak_queue


def check_part(traced: dict[str, float], run: MeasuredRun) -> None:
    """The measured part of a run: what its meter says is what its trace holds."""
    measured = msgspec.to_builtins(run.measures)
    assert {path.split(".")[0] for path in traced} >= {"delays", "groups"}
    for path, value in traced.items():
        counted: Any = measured
        for key in path.split("."):
            counted = counted[key]
        assert value == pytest.approx(counted, rel=1e-9), path
    for group in measured["groups"]:
        held = {path.rpartition(".")[2] for path in traced if path.startswith(f"groups.{group}.")}
        assert held | {"false_positive_share"} == OF_GROUPS, group
    assert traced["groups.all.table_entries_end"] > 0


# --- all of them ----------------------------------------------------------------------------------


def check_that_enough_happened(everything: AllRuns) -> None:
    """All that may differ did, so that the test shows something."""
    runs = everything.runs.values()
    happened = {
        "kept state": any(r.stored for run in runs for r in run.notes.restarts),
        "lost state": any(not r.stored for run in runs for r in run.notes.restarts),
        "false positives": sum(run.metrics.false_positives for run in runs) > 5,
        "false positives in a part": any(
            run.measures is not None and run.measures.groups["all"].false_positives for run in runs
        ),
        "redelivered": any(run.metrics.redelivered for run in runs),
        "never received": any(
            everything.summary(run.name)["deliveries"] > run.metrics.deliveries for run in runs
        ),
        "refused copies": any(everything.summary(run.name)["duplicates"] for run in runs),
        "copies that were never sent": any(
            everything.copies_chosen(run.name) > run.metrics.messages.get("pub", 0) for run in runs
        ),
        "copies that were sent again": any(
            everything.copies_chosen(run.name) < run.metrics.messages.get("pub", 0) for run in runs
        ),
        "bytes that never left": any(
            channel.waiting_bytes for run in runs for channel in run.notes.channels
        ),
    }
    assert [what for what, did in happened.items() if not did] == []
