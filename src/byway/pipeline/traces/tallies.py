"""Tallies: a trace aggregated once into counts, samples and delays, which most tables are made of.

It decides the keys of that one aggregation, and gives its three parts as frames. A row that is no
sample is counted by broker, event, neighbour, kind, hop, and whether a publication matched and was
passed on. A delivery is counted a second time, by its delay. Of samples of one queue or table in
one interval the last one is kept. What rows with certain keys mean is decided in
`model.measurement`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from byway.model.measurement import (
    CONTROL_MESSAGES,
    COPIES,
    DELIVERIES,
    MATCHED_BROKERS,
    CountedWord,
)
from byway.model.trace_schema import QUEUES_OF_PUBLISHERS, TraceEvent

EVERY_S: Final = 1.0
"""Length of an interval of samples."""

_COUNTED: Final = ("run", "broker", "event", "link", "kind", "hop", "is_matched", "is_passed_on")
_KEYS: Final = (*_COUNTED, "interval", "delay_us")
_SAMPLED: Final = (TraceEvent.QUEUE_SAMPLED, TraceEvent.TABLE_SAMPLED)


def tallies(trace: DataFrame, every_s: float = EVERY_S) -> DataFrame:
    """The one aggregation of a trace; `counted`, `delays_of` and `samples_of` are its parts."""
    is_delay = F.col("is_delay")
    is_sample = is_event(*_SAMPLED)
    # a delivery comes twice, the second time with nothing but its delay
    has_delay = counts(DELIVERIES) & F.col("t_pub_us").isNotNull()
    times = F.when(has_delay, _flags(False, True)).otherwise(_flags(False))
    rows = trace.select(
        *("run", "broker", "event", "link", "kind", "hop", "matches", "copies"),
        *("t_us", "t_pub_us", "count", "size_bytes"),
        F.explode(times).alias("is_delay"),
    ).select(
        *("run", "event", "t_us", "count", "size_bytes"),
        *(F.when(~is_delay, F.col(name)).alias(name) for name in ("broker", "link", "kind", "hop")),
        F.when(~is_delay, F.col("matches") > 0).alias("is_matched"),
        F.when(~is_delay, F.col("copies") > 0).alias("is_passed_on"),
        F.when(is_sample, interval_of("t_us", every_s)).alias("interval"),
        F.when(is_delay, F.col("t_us") - F.col("t_pub_us")).alias("delay_us"),
    )
    return rows.groupBy(*_KEYS).agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum("count").alias("entries"),
        F.sum("size_bytes").alias("bytes"),
        F.min("t_us").alias("t_us_min"),
        F.max("t_us").alias("t_us_max"),
        F.max_by("count", "t_us").alias("last_count"),
        F.max_by("size_bytes", "t_us").alias("last_bytes"),
    )


def counted(tallies: DataFrame) -> DataFrame:
    """Rows, entries and bytes, with the times of the first and the last row. Samples are left out,
    because they are values, not events."""
    numbers = ("rows", "entries", "bytes", "t_us_min", "t_us_max")
    return tallies.where("interval IS NULL AND delay_us IS NULL").select(*_COUNTED, *numbers)


def delays_of(tallies: DataFrame) -> DataFrame:
    """Deliveries by their delay in microseconds."""
    return tallies.where("delay_us IS NOT NULL").select(
        "run", "delay_us", F.col("rows").alias("deliveries")
    )


def samples_of(tallies: DataFrame) -> DataFrame:
    """The last sample of each queue and table in an interval. Those of publishers are left out:
    they are of messages that are in the queues of links too."""
    of_publisher = F.coalesce(F.col("kind").isin(*QUEUES_OF_PUBLISHERS), F.lit(False))
    return tallies.where(F.col("interval").isNotNull() & ~of_publisher).select(
        *("run", "broker", "event", "link", "kind", "interval"),
        F.col("last_count").alias("count"),
        F.col("last_bytes").alias("size_bytes"),
    )


def interval_of(time: str, every_s: float) -> Column:
    """The number of the interval that a time in microseconds lies in."""
    return F.floor(F.col(time) / interval_us(every_s))


def interval_us(every_s: float) -> int:
    """The length of an interval in microseconds."""
    return round(every_s * 1_000_000)


def _flags(*values: bool) -> Column:
    return F.array(*map(F.lit, values))


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
