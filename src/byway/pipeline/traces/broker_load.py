"""The load of each broker and each link, and the share of control messages.

All of it is computed from the counts of the tallies. Rates are over the span of the run, from the
first row of any broker to the last; a run that took no time has none.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from byway.model.measurement import (
    CONTROL_MESSAGES,
    COPIES,
    DELIVERIES,
    FALSE_POSITIVES,
    MATCHED_BROKERS,
    PUBLICATION_HOPS,
    PUBLICATIONS,
    PURE_FORWARDERS,
    REFUSED_COPIES,
)
from byway.model.trace_schema import TraceEvent
from byway.pipeline.schemas import BROKERS, CONTROL, LINKS
from byway.pipeline.traces.tallies import (
    SENT,
    counts,
    is_event,
    total,
)

_MICROSECONDS: Final = 1_000_000


def spans(counted: DataFrame) -> DataFrame:
    """The span of each run, in seconds, as `span_s`."""
    span_us = F.max("t_us_max") - F.min("t_us_min")
    return counted.groupBy("run").agg((span_us / _MICROSECONDS).alias("span_s"))


def sent() -> dict[str, Column]:
    """The messages sent to brokers, as sums over tallies."""
    publications, control = counts(COPIES), counts(CONTROL_MESSAGES)
    return {
        "publications_sent": total("rows", publications),
        "publication_bytes": total("bytes", publications),
        "control_messages": total("rows", control),
        "control_entries": total("entries", control),
        "control_bytes": total("bytes", control),
    }


def link_load(counted: DataFrame) -> DataFrame:
    """The load of each link; its two directions are two rows."""
    messages = F.col("publications_sent") + F.col("control_messages")
    size = F.col("publication_bytes") + F.col("control_bytes")
    return (
        counted.where(is_event(*SENT))
        .groupBy("run", "broker", "link")
        .agg(*_named(sent()))
        .join(spans(counted), "run")
        .withColumn("messages_per_s", _per_s(messages))
        .withColumn("bytes_per_s", _per_s(size))
        .select(*LINKS.names)
    )


def broker_load(counted: DataFrame) -> DataFrame:
    """The work of each broker, and its traffic in both directions."""
    return (
        _work(counted)
        .join(_traffic(counted), ["run", "broker"], "full")
        .join(spans(counted), "run")
        .na.fill(0, [c.name for c in BROKERS.columns if not c.nullable])
        .withColumn("messages_in_per_s", _per_s(F.col("messages_in")))
        .withColumn("messages_out_per_s", _per_s(F.col("messages_out")))
        .select(*BROKERS.names)
    )


def _work(counted: DataFrame) -> DataFrame:
    words = {
        "published": counts(PUBLICATIONS),
        "received": counts(PUBLICATION_HOPS),
        "matched_brokers": counts(MATCHED_BROKERS),
        "pure_forwarders": counts(PURE_FORWARDERS),
        "false_positives": counts(FALSE_POSITIVES),
        "duplicates": counts(REFUSED_COPIES),
        "delivered": counts(DELIVERIES),
        "dropped": is_event(TraceEvent.DROPPED),
    }
    sums = {name: total("rows", where) for name, where in words.items()}
    return counted.groupBy("run", "broker").agg(*_named(sums))


def _traffic(counted: DataFrame) -> DataFrame:
    """Messages by broker. Each counts twice: at its sender and at its receiver."""
    messages = counted.where(is_event(*SENT))
    nothing = F.lit(0).cast("bigint")
    outgoing = messages.select(
        *("run", "broker"),
        nothing.alias("messages_in"),
        nothing.alias("bytes_in"),
        F.col("rows").alias("messages_out"),
        F.col("bytes").alias("bytes_out"),
    )
    incoming = messages.select(
        "run",
        F.col("link").alias("broker"),
        F.col("rows").alias("messages_in"),
        F.col("bytes").alias("bytes_in"),
        nothing.alias("messages_out"),
        nothing.alias("bytes_out"),
    )
    names = ("messages_in", "bytes_in", "messages_out", "bytes_out")
    both = outgoing.unionByName(incoming)
    return both.groupBy("run", "broker").agg(*(F.sum(name).alias(name) for name in names))


def control_overhead(counted: DataFrame) -> DataFrame:
    """Messages between brokers that are not publications, by kind."""
    return (
        counted.where(counts(CONTROL_MESSAGES))
        .groupBy("run", "kind")
        .agg(
            F.sum("rows").alias("messages"),
            F.sum("entries").alias("entries"),
            F.sum("bytes").alias("bytes"),
        )
        .select(*CONTROL.names)
    )


def _named(columns: dict[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in columns.items()]


def _per_s(amount: Column) -> Column:
    return F.when(F.col("span_s") > 0, amount / F.col("span_s"))
