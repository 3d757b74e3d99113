"""Every question to a trace, on rows made by hand."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from byway.model.trace_schema import TraceEvent
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.traces import analyse, computed_once
from byway.pipeline.traces import delivery_paths as deliveries
from tests.pipeline.trace_rows import collected, frame, row

# p publishes at A; B passes it on and wants it for nobody, C delivers to two clients, D is reached
# for nothing. A second publication stays at home.
ROWS = [
    row(TraceEvent.PUBLISHED, t_us=1_000, t_pub_us=1_000, matches=0, copies=1),
    row(TraceEvent.FORWARDED, t_us=1_000, t_pub_us=1_000, link="B"),
    row(TraceEvent.RECEIVED, broker="B", t_us=2_000, t_pub_us=1_000, hop=1, link="A", copies=2),
    row(TraceEvent.FORWARDED, broker="B", t_us=2_000, t_pub_us=1_000, hop=1, link="C"),
    row(TraceEvent.FORWARDED, broker="B", t_us=2_000, t_pub_us=1_000, hop=1, link="D", span=2),
    row(TraceEvent.RECEIVED, broker="C", t_us=3_000, t_pub_us=1_000, hop=2, link="B", matches=2),
    row(TraceEvent.DELIVERED, broker="C", t_us=3_000, t_pub_us=1_000, hop=2, client="c1"),
    row(TraceEvent.DELIVERED, broker="C", t_us=5_000, t_pub_us=1_000, hop=2, client="c2"),
    row(TraceEvent.RECEIVED, broker="D", t_us=3_000, t_pub_us=1_000, hop=2, link="B", span=2),
    row(
        TraceEvent.DROPPED,
        broker="D",
        t_us=3_100,
        t_pub_us=1_000,
        hop=2,
        kind="duplicate",
        link="B",
    ),
    row(TraceEvent.PUBLISHED, t_us=4_000, t_pub_us=4_000, sequence=2, matches=1),
    row(TraceEvent.DELIVERED, t_us=4_000, t_pub_us=4_000, sequence=2, client="home"),
    row(TraceEvent.CONTROL_SENT, t_us=0, kind="sub", link="B", count=3, size_bytes=30),
    row(
        TraceEvent.CONTROL_SENT, broker="B", t_us=500, kind="adv", link="A", count=1, size_bytes=20
    ),
    row(TraceEvent.TRACE_LOST, t_us=6_000, count=7),
]


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> DataFrame:
    return frame(spark, ROWS)


def only(frame: DataFrame) -> dict[str, Any]:
    (found,) = collected(frame, "run")
    return found


def test_summary(trace: DataFrame) -> None:
    assert only(analyse(trace).summary) == {
        "run": "r",
        "brokers": 4,
        "span_s": 0.006,
        "publications": 2,
        "publication_hops": 3,
        "deliveries": 3,
        "matched_brokers": 2,
        "pure_forwarders": 2,
        "yield": 0.5,
        "false_positives": 1,
        "duplicates": 1,
        "dropped": 1,
        "mean_hops": pytest.approx(4 / 3),
        "hops_max": 2,
        "mean_delay_ms": 2.0,
        "delay_ms_p50": 2.0,
        "delay_ms_p95": 4.0,
        "delay_ms_p99": 4.0,
        "delay_ms_max": 4.0,
        "messages": 5,
        "messages_by_kind": {"pub": 3, "sub": 1, "adv": 1},
        "publications_sent": 3,
        "publication_bytes": 30,
        "control_messages": 2,
        "control_entries": 4,
        "control_bytes": 50,
        "control_share": 0.4,
        "brokers_per_publication": 2.5,
        "rows": 15,
        "rows_lost": 7,
    }


def test_the_reference_computes_the_same(spark: SparkSession, trace: DataFrame) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/trace.md").read_text()
    (query,) = re.findall(r"^```sql\n(.*?)^```$", page, re.M | re.S)
    told = only(spark.sql(query.replace("FROM trace", "FROM {trace}"), trace=trace))
    found = only(analyse(trace).summary)
    names = ("deliveries", "matched_brokers", "pure_forwarders", "false_positives", "control_bytes")
    assert {name: told[name] for name in names} == {name: found[name] for name in names}
    assert told["hops"] == found["mean_hops"]


def test_samples_are_no_rows_of_the_summary(spark: SparkSession) -> None:
    samples = [
        row(TraceEvent.QUEUE_SAMPLED, kind="input"),
        row(TraceEvent.TABLE_SAMPLED, kind="forwarded"),
    ]
    both = frame(spark, ROWS + samples)
    assert only(analyse(both).summary)["rows"] == len(ROWS)


def test_a_run_in_which_nothing_was_published_has_nothing_to_measure(spark: SparkSession) -> None:
    quiet = frame(spark, [row(TraceEvent.LINK_CHANGED, kind="opened")])
    found = only(analyse(quiet).summary)
    nothing = ("yield", "mean_hops", "hops_max", "mean_delay_ms", "delay_ms_p95", "control_share")
    assert [found[name] for name in nothing] == [None] * len(nothing)
    assert found["messages_by_kind"] == {}
    assert (found["publications"], found["messages"], found["rows"]) == (0, 0, 1)


def test_runs_are_told_apart(spark: SparkSession) -> None:
    both = frame(spark, ROWS + [found | {"run": "s"} for found in ROWS[10:12]])
    found = collected(analyse(both).summary, "run")
    assert [(f["run"], f["deliveries"], f["delay_ms_max"]) for f in found] == [
        ("r", 3, 4.0),
        ("s", 1, 0.0),
    ]


def test_a_frame_that_is_no_trace_is_refused(spark: SparkSession, trace: DataFrame) -> None:
    """At once, with the columns at fault, not with what Spark makes of it."""
    told = "^the trace: expected a trace table, but columns are missing: run, broker, event, t_us$"
    with pytest.raises(TableError, match=told):
        analyse(spark.range(3))
    with pytest.raises(TableError, match=told), computed_once(spark.range(3)):
        pass
    times = trace.withColumn("t_us", F.timestamp_micros("t_us"))
    with pytest.raises(TableError, match="the trace: column t_us is timestamp, expected bigint"):
        analyse(times)


def test_a_frame_may_lack_what_may_be_null_and_have_wider_integers(
    spark: SparkSession, trace: DataFrame
) -> None:
    local = [row(TraceEvent.PUBLISHED, t_us=5, t_pub_us=5, matches=1),
             row(TraceEvent.DELIVERED, t_us=9, t_pub_us=5)]  # fmt: skip
    whole = frame(spark, local)
    some = whole.drop("link", "kind", "count", "size_bytes", "distance", "operation")
    assert collected(analyse(some).summary, "run") == collected(analyse(whole).summary, "run")
    assert collected(analyse(some).trees, "sequence") == collected(analyse(whole).trees, "sequence")
    wide = trace.select(
        *(
            F.col(n).cast("bigint" if t in ("tinyint", "int") else t).alias(n)
            for n, t in trace.dtypes
        )
    )
    assert wide.schema != trace.schema
    assert only(analyse(wide).summary) == only(analyse(trace).summary)
    assert analyse(wide).trees.schema == analyse(trace).trees.schema


def test_hop_counts(trace: DataFrame) -> None:
    assert collected(analyse(trace).hops, "hop") == [
        {"run": "r", "hop": 0, "deliveries": 1, "share": pytest.approx(1 / 3)},
        {"run": "r", "hop": 2, "deliveries": 2, "share": 1.0},
    ]


def test_percentiles_are_delays_that_happened(spark: SparkSession) -> None:
    counted = spark.createDataFrame(
        [("r", delay_us, 1) for delay_us in range(1, 101)] + [("few", 5, 1), ("few", 9, 1)],
        "run string, delay_us bigint, deliveries bigint",
    )
    few, many = collected(deliveries.delay_summary(counted), "run")
    names = ("delay_ms_p50", "delay_ms_p95", "delay_ms_p99", "delay_ms_max")
    assert [many[name] for name in names] == [0.05, 0.095, 0.099, 0.1]
    assert [few[name] for name in names] == [0.005, 0.009, 0.009, 0.009]


def test_delays_are_counted(trace: DataFrame) -> None:
    found = collected(analyse(trace).delays, "delay_us")
    assert [(f["delay_us"], f["deliveries"]) for f in found] == [(0, 1), (2_000, 1), (4_000, 1)]


def test_link_load_tells_directions_apart(trace: DataFrame) -> None:
    found = collected(analyse(trace).links, "broker", "link")
    names = ("broker", "link", "publications_sent", "control_messages", "control_bytes")
    assert [tuple(f[name] for name in names) for f in found] == [
        ("A", "B", 1, 1, 30),
        ("B", "A", 0, 1, 20),
        ("B", "C", 1, 0, 0),
        ("B", "D", 1, 0, 0),
    ]
    assert found[0]["messages_per_s"] == pytest.approx(2 / 0.006)
    assert found[0]["bytes_per_s"] == pytest.approx(40 / 0.006)


def test_broker_load_counts_both_ends_of_a_message(trace: DataFrame) -> None:
    found = {f.pop("broker"): f for f in collected(analyse(trace).brokers, "broker")}
    traffic = ("messages_in", "bytes_in", "messages_out", "bytes_out")
    assert {broker: tuple(f[name] for name in traffic) for broker, f in found.items()} == {
        "A": (1, 20, 2, 40),
        "B": (2, 40, 3, 40),
        "C": (1, 10, 0, 0),
        "D": (1, 10, 0, 0),
    }
    work = ("published", "received", "matched_brokers", "pure_forwarders", "false_positives",
            "duplicates", "delivered", "dropped")  # fmt: skip
    assert {broker: tuple(f[name] for name in work) for broker, f in found.items()} == {
        "A": (2, 0, 1, 0, 0, 0, 1, 0),
        "B": (0, 1, 0, 1, 0, 0, 0, 0),
        "C": (0, 1, 1, 0, 0, 0, 2, 0),
        "D": (0, 1, 0, 1, 1, 1, 0, 1),
    }


def test_a_broker_that_wrote_nothing_has_a_load_all_the_same(spark: SparkSession) -> None:
    sent = frame(spark, [row(TraceEvent.CONTROL_SENT, link="silent")])
    found = {f["broker"]: f for f in collected(analyse(sent).brokers, "broker")}
    assert found["silent"]["messages_in"] == 1
    assert found["silent"]["received"] == 0
    assert found["silent"]["messages_in_per_s"] is None  # the run took no time


def test_control_overhead(trace: DataFrame) -> None:
    assert collected(analyse(trace).control, "kind") == [
        {"run": "r", "kind": "adv", "messages": 1, "entries": 1, "bytes": 20},
        {"run": "r", "kind": "sub", "messages": 1, "entries": 3, "bytes": 30},
    ]


def test_trees(trace: DataFrame) -> None:
    first, second = collected(analyse(trace).trees, "sequence")
    assert first == {
        "run": "r", "publisher": "p", "incarnation": 1, "sequence": 1, "home": "A",
        "t_pub_us": 1_000, "brokers": 4, "depth": 2, "matched_brokers": 1, "pure_forwarders": 2,
        "false_positives": 1, "duplicates": 1, "bypassed": 1, "deliveries": 2,
        "delay_us_max": 4_000, "copies": 3,
    }  # fmt: skip
    assert (second["home"], second["brokers"], second["depth"]) == ("A", 1, 0)


def test_a_tree_whose_root_is_not_in_the_trace_has_no_home(spark: SparkSession) -> None:
    part = frame(spark, [found for found in ROWS if found["broker"] != "A"])
    (found,) = collected(analyse(part).trees, "sequence")
    assert (found["home"], found["brokers"], found["deliveries"]) == (None, 3, 2)


def test_a_publication_that_was_refused_has_no_tree(spark: SparkSession) -> None:
    refused = frame(spark, [row(TraceEvent.DROPPED, kind="nonconforming")])
    assert analyse(refused).trees.collect() == []


def test_edges_lead_from_parents_to_children(trace: DataFrame) -> None:
    found = collected(analyse(trace).edges, "hop", "broker")
    assert [(f["parent"], f["broker"], f["hop"], f["span"]) for f in found] == [
        ("A", "B", 1, 1),
        ("B", "C", 2, 1),
        ("B", "D", 2, 2),
    ]


def test_sizes_are_those_of_the_last_sample_in_an_interval(spark: SparkSession) -> None:
    samples = frame(
        spark,
        [
            row(TraceEvent.QUEUE_SAMPLED, kind="input", t_us=100_000, count=9, size_bytes=90),
            row(TraceEvent.QUEUE_SAMPLED, kind="input", t_us=900_000, count=2, size_bytes=20),
            row(TraceEvent.QUEUE_SAMPLED, kind="input", t_us=950_000, count=5, broker="B"),
            row(TraceEvent.QUEUE_SAMPLED, kind="input", t_us=1_000_000, count=4, size_bytes=40),
        ],
    )
    assert collected(analyse(samples).sizes, "t_s") == [
        {"run": "r", "t_s": 0.0, "what": "queue", "kind": "input", "brokers": 2,
         "count_total": 7, "count_max": 5, "bytes_total": 30},
        {"run": "r", "t_s": 1.0, "what": "queue", "kind": "input", "brokers": 1,
         "count_total": 4, "count_max": 4, "bytes_total": 40},
    ]  # fmt: skip


def test_backlogs_of_publishers_are_no_queues_besides(spark: SparkSession) -> None:
    samples = frame(
        spark,
        [
            row(TraceEvent.QUEUE_SAMPLED, kind="unconfirmed", link="B", count=5),
            row(TraceEvent.QUEUE_SAMPLED, kind="publisher_unconfirmed", publisher="p", count=3),
            row(TraceEvent.QUEUE_SAMPLED, kind="publisher_unconfirmed", publisher="q", count=2),
        ],
    )
    found = collected(analyse(samples).sizes, "what")
    assert [(f["kind"], f["count_total"]) for f in found] == [("unconfirmed", 5)]


def test_links_are_added_up_where_there_is_no_sample_of_the_whole(spark: SparkSession) -> None:
    samples = frame(
        spark,
        [
            row(TraceEvent.QUEUE_SAMPLED, kind="output", link="B", count=2),
            row(TraceEvent.QUEUE_SAMPLED, kind="output", link="C", count=3),
            row(TraceEvent.TABLE_SAMPLED, kind="preserved", count=4),
            row(TraceEvent.TABLE_SAMPLED, kind="preserved", link="B", count=4),
            row(TraceEvent.TABLE_SAMPLED, kind="preserved", link="C", count=1),
        ],
    )
    found = collected(analyse(samples, every_s=0.5).sizes, "what")
    assert [(f["what"], f["count_total"], f["bytes_total"]) for f in found] == [
        ("queue", 5, 20),
        ("table", 4, None),
    ]
