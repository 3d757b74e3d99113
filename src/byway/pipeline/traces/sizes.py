"""The sizes of queues and tables over time.

Brokers are sampled at their own times. Time is cut into intervals, and of each broker the last
sample of an interval counts. A sample without a link is of the whole broker; only where there is
none are those of its links added up.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from byway.model.trace_schema import TraceEvent
from byway.pipeline.schemas import SIZES
from byway.pipeline.traces.tallies import is_event

EVERY_S: Final = 1.0

_KEYS: Final = ("run", "interval", "what", "kind")


def sizes_over_time(trace: DataFrame, every_s: float = EVERY_S) -> DataFrame:
    """Queues and tables of all brokers, in intervals of `every_s` seconds."""
    every_us = round(every_s * 1_000_000)
    what = F.when(is_event(TraceEvent.QUEUE_SAMPLED), F.lit("queue")).otherwise(F.lit("table"))
    samples = trace.where(is_event(TraceEvent.QUEUE_SAMPLED, TraceEvent.TABLE_SAMPLED)).select(
        *("run", "broker", "kind", "link", "t_us", "count", "size_bytes"),
        F.floor(F.col("t_us") / every_us).alias("interval"),
        what.alias("what"),
    )
    together = samples.repartition("run", "interval")  # for all that follows, in one go
    return (
        _of_brokers(_last(together))
        .groupBy(*_KEYS)
        .agg(
            F.count(F.lit(1)).alias("brokers"),
            F.sum("count").alias("count_total"),
            F.max("count").alias("count_max"),
            F.sum("size_bytes").alias("bytes_total"),
        )
        .withColumn("t_s", F.col("interval") * every_us / 1_000_000)
        .select(*SIZES.names)
    )


def _last(samples: DataFrame) -> DataFrame:
    """The last sample of each queue and table in an interval."""
    return samples.groupBy(*_KEYS, "broker", "link").agg(
        F.max_by("count", "t_us").alias("count"),
        F.max_by("size_bytes", "t_us").alias("size_bytes"),
    )


def _of_brokers(samples: DataFrame) -> DataFrame:
    """One row for each broker, with the size of the whole, or the sum over its links."""
    is_whole = F.col("link").isNull()
    return samples.groupBy(*_KEYS, "broker").agg(
        *(
            F.coalesce(F.max(F.when(is_whole, F.col(size))), F.sum(size)).alias(size)
            for size in ("count", "size_bytes")
        )
    )
