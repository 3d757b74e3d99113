"""Tallies: a trace aggregated once into counts, small enough to be queried many times.

It decides the keys: run, broker, event, neighbour, kind, hop, and whether a publication matched and
was passed on; and what rows with certain keys mean. Samples of queues and tables are left out,
because they are values, not events.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from byway.model.trace_schema import DropReason, TraceEvent

KEYS: Final = ("run", "broker", "event", "link", "kind", "hop", "is_matched", "is_passed_on")

_SAMPLES: Final = (int(TraceEvent.QUEUE_SAMPLED), int(TraceEvent.TABLE_SAMPLED))


def tallies(trace: DataFrame) -> DataFrame:
    """Rows, entries and bytes by `KEYS`, with the times of the first and the last row."""
    return (
        trace.where(~F.col("event").isin(*_SAMPLES))
        .select(
            *("run", "broker", "event", "link", "kind", "hop", "t_us", "count", "size_bytes"),
            (F.col("matches") > 0).alias("is_matched"),
            (F.col("copies") > 0).alias("is_passed_on"),
        )
        .groupBy(*KEYS)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum("count").alias("entries"),
            F.sum("size_bytes").alias("bytes"),
            F.min("t_us").alias("t_us_min"),
            F.max("t_us").alias("t_us_max"),
        )
    )


# --- what rows mean ---------------------------------------------------------------------------


def is_event(*events: TraceEvent) -> Column:
    """Whether a row is one of these events."""
    return F.col("event").isin(*map(int, events))


HANDLED: Final = (TraceEvent.PUBLISHED, TraceEvent.RECEIVED)
"""Events at which a broker matched a publication."""
SENT: Final = (TraceEvent.FORWARDED, TraceEvent.CONTROL_SENT)
"""Events at which a broker sent a message to another."""


def is_matched() -> Column:
    """Whether a publication matched a subscription of a local client."""
    return is_event(*HANDLED) & F.col("is_matched")


def is_pure_forwarder() -> Column:
    """Whether a publication came from a neighbour and matched no local client. A home broker is no
    pure forwarder: it has the publication anyway."""
    return is_event(TraceEvent.RECEIVED) & ~F.col("is_matched")


def is_false_positive() -> Column:
    """Whether a publication came from a neighbour, and nobody wants it here or beyond."""
    return is_event(TraceEvent.RECEIVED) & ~F.col("is_matched") & ~F.col("is_passed_on")


def is_duplicate() -> Column:
    """Whether a publication was refused because the broker had it already."""
    return is_event(TraceEvent.DROPPED) & (F.col("kind") == DropReason.DUPLICATE.value)


def total(of: str, where: Column) -> Column:
    """The sum of a tally over the rows where `where` holds; 0 if there are none."""
    return F.coalesce(F.sum(F.when(where, F.col(of))), F.lit(0))
