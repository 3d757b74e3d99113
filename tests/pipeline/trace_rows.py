"""Rows of traces by hand, and the figures of a trace by plain Python."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import ceil
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from byway.model.trace_schema import FILLED, TraceEvent
from byway.pipeline.schemas import TRACE

Row = dict[str, Any]

DEFAULTS: Row = {
    "run": "r", "broker": "A", "t_us": 0, "publisher": "p", "incarnation": 1, "sequence": 1,
    "t_pub_us": 0, "hop": 0, "distance": 0, "link": "B", "span": 1, "client": "c", "matches": 0,
    "copies": 0, "size_bytes": 10, "kind": "sub", "count": 1, "operation": "o", "phase": "f",
}  # fmt: skip


def row(event: TraceEvent, **values: Any) -> Row:
    """A row with what the event fills; optional columns only if they are given."""
    filled = {"run", "broker", "t_us", *FILLED[event].required}
    assert set(values) <= filled | set(FILLED[event].optional)
    given = {name: value for name, value in DEFAULTS.items() if name in filled}
    return dict.fromkeys(TRACE.names) | given | {"event": int(event)} | values


def frame(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    tuples = [tuple(row[name] for name in TRACE.names) for row in rows]
    return spark.createDataFrame(tuples, TRACE.spark_schema())


def collected(frame: DataFrame, *keys: str) -> list[Row]:
    """All rows, sorted."""
    rows = [found.asDict() for found in frame.collect()]
    return sorted(rows, key=lambda found: [str(found[key]) for key in keys])


# --- plain Python -----------------------------------------------------------------------------


def by_hand(rows: list[Row]) -> Row:
    """The figures of one run."""
    events: dict[TraceEvent, list[Row]] = defaultdict(list)
    for found in rows:
        events[TraceEvent(found["event"])].append(found)
    published, received = events[TraceEvent.PUBLISHED], events[TraceEvent.RECEIVED]
    delivered, forwarded = events[TraceEvent.DELIVERED], events[TraceEvent.FORWARDED]
    control = events[TraceEvent.CONTROL_SENT]
    matched = [r for r in published + received if r["matches"]]
    pure = [r for r in received if not r["matches"]]
    delays = sorted(r["t_us"] - r["t_pub_us"] for r in delivered)
    return {
        "publications": len(published),
        "publication_hops": len(received),
        "deliveries": len(delivered),
        "matched_brokers": len(matched),
        "pure_forwarders": len(pure),
        "yield": len(matched) / (len(matched) + len(pure)),
        "false_positives": sum(not r["copies"] for r in pure),
        "mean_hops": sum(r["hop"] for r in delivered) / len(delivered),
        "mean_delay_ms": sum(delays) / len(delays) / 1_000,
        "delay_ms_p50": nearest_rank(delays, 50) / 1_000,
        "delay_ms_p95": nearest_rank(delays, 95) / 1_000,
        "delay_ms_p99": nearest_rank(delays, 99) / 1_000,
        "delay_ms_max": delays[-1] / 1_000,
        "messages": len(forwarded) + len(control),
        "messages_by_kind": {"pub": len(forwarded)} | Counter(r["kind"] for r in control),
        "control_bytes": sum(r["size_bytes"] for r in control),
        "brokers": len({r["broker"] for r in rows}),
    }


def nearest_rank(values: list[int], per_cent: int) -> int:
    return values[max(ceil(len(values) * per_cent / 100), 1) - 1]


def trees_by_hand(rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    """By publication: its home, the brokers it reached with their parents, and who got it."""
    trees: dict[tuple[Any, ...], Row] = {}
    for found in rows:
        if found["event"] in (TraceEvent.PUBLISHED, TraceEvent.RECEIVED, TraceEvent.DELIVERED):
            key = found["publisher"], found["incarnation"], found["sequence"]
            tree = trees.setdefault(key, {"home": None, "parents": {}, "clients": []})
            if found["event"] == TraceEvent.PUBLISHED:
                tree["home"] = found["broker"]
            elif found["event"] == TraceEvent.RECEIVED:
                tree["parents"][found["broker"]] = found["link"]
            else:
                tree["clients"].append(found["client"])
    return trees


def depth(tree: Row) -> int:
    """The longest way from the root, by walking up from every broker."""
    deepest = 0
    for broker in tree["parents"]:
        steps = 0
        while broker != tree["home"]:
            broker, steps = tree["parents"][broker], steps + 1
        deepest = max(deepest, steps)
    return deepest
