"""Tallies: a trace aggregated once into counts, small enough to be queried many times.

It decides the keys: run, broker, event, neighbour, kind, hop, and whether a publication matched and
was passed on. What rows with certain keys mean is decided in `model.measurement`. Samples of queues
and tables are left out, because they are values, not events.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from byway.model.measurement import CONTROL_MESSAGES, COPIES, MATCHED_BROKERS, CountedWord
from byway.model.trace_schema import TraceEvent

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


HANDLED: Final = MATCHED_BROKERS.rows.events
"""Events at which a broker matched a publication."""
SENT: Final = (*COPIES.rows.events, *CONTROL_MESSAGES.rows.events)
"""Events at which a broker sent a message to another."""


def counts(word: CountedWord) -> Column:
    """Whether a row counts for a word, as the model defines it."""
    rule = word.rows
    found = is_event(*rule.events)
    for column, wanted in (("is_matched", rule.is_matched), ("is_passed_on", rule.is_passed_on)):
        if wanted is not None:
            found = found & (F.col(column) if wanted else ~F.col(column))
    return found if rule.kind is None else found & (F.col("kind") == rule.kind)


def total(of: str, where: Column) -> Column:
    """The sum of a tally over the rows where `where` holds; 0 if there are none."""
    return F.coalesce(F.sum(F.when(where, F.col(of))), F.lit(0))
