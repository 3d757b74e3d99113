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
from byway.pipeline.traces.tallies import EVERY_S, interval_us, is_event

_KEYS: Final = ("run", "interval", "event", "kind")


def sizes_over_time(samples: DataFrame, every_s: float = EVERY_S) -> DataFrame:
    """Queues and tables of all brokers, from the last samples in intervals of `every_s` seconds."""
    what = F.when(is_event(TraceEvent.QUEUE_SAMPLED), F.lit("queue")).otherwise(F.lit("table"))
    return (
        _of_brokers(samples)
        .groupBy(*_KEYS)
        .agg(
            F.count(F.lit(1)).alias("brokers"),
            F.sum("count").alias("count_total"),
            F.max("count").alias("count_max"),
            F.sum("size_bytes").alias("bytes_total"),
        )
        .withColumn("what", what)
        .withColumn("t_s", F.col("interval") * interval_us(every_s) / 1_000_000)
        .select(*SIZES.names)
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
