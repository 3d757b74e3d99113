"""Tallies: a trace folded once into counts, small enough to be asked again and again.

It decides what is told apart: for each run, broker and event the neighbour, the kind, the hop, and
whether a publication matched and went on. Which of these counts mean what is said elsewhere.
Samples of queues and tables are left out; they are not counted but looked at.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from byway.model.trace_schema import DropReason, Event

KEYS: Final = ("run", "broker", "event", "link", "kind", "hop", "is_matched", "is_passed_on")

_SAMPLES: Final = (int(Event.QUEUE_SAMPLED), int(Event.TABLE_SAMPLED))


def tallies(trace: DataFrame) -> DataFrame:
    """Rows, entries and bytes by `KEYS`, and when the first and the last of these rows happened."""
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


# --- what rows tell ---------------------------------------------------------------------------


def is_event(*events: Event) -> Column:
    """The row tells one of these events."""
    return F.col("event").isin(*map(int, events))


HANDLED: Final = (Event.PUBLISHED, Event.RECEIVED)
"""A broker matched a publication."""
SENT: Final = (Event.FORWARDED, Event.CONTROL_SENT)
"""A broker sent something to another."""


def is_matched() -> Column:
    """A publication matched for a local client."""
    return is_event(*HANDLED) & F.col("is_matched")


def is_pure_forwarder() -> Column:
    """A publication came from a neighbour and matched for no local client. A home broker is none:
    it has the publication anyway."""
    return is_event(Event.RECEIVED) & ~F.col("is_matched")


def is_false_positive() -> Column:
    """A publication came from a neighbour, and nobody wants it here or beyond."""
    return is_event(Event.RECEIVED) & ~F.col("is_matched") & ~F.col("is_passed_on")


def is_duplicate() -> Column:
    """A publication was refused because the broker had it already."""
    return is_event(Event.DROPPED) & (F.col("kind") == DropReason.DUPLICATE.value)


def total(of: str, where: Column) -> Column:
    """The sum of a tally over the rows where something holds, 0 where it never does."""
    return F.coalesce(F.sum(F.when(where, F.col(of))), F.lit(0))
