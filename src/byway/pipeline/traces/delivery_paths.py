"""The hops and delays of deliveries, exactly.

Delays are counted by microsecond, so percentiles are those of all deliveries, not estimates, and
the same every time.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from byway.model.measurement import DELIVERIES
from byway.pipeline.schemas import DELAYS, HOPS
from byway.pipeline.traces.tallies import counts

PERCENTILES: Final = {"delay_ms_p50": 50, "delay_ms_p95": 95, "delay_ms_p99": 99}

_MILLISECOND: Final = 1_000


def hop_counts(tallies: DataFrame) -> DataFrame:
    """Deliveries by the number of links they crossed, and the cumulative share."""
    run = Window.partitionBy("run")
    so_far = run.orderBy("hop").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        tallies.where(counts(DELIVERIES))
        .groupBy("run", "hop")
        .agg(F.sum("rows").alias("deliveries"))
        .withColumn("share", F.sum("deliveries").over(so_far) / F.sum("deliveries").over(run))
        .select(*HOPS.names)
    )


def delays(trace: DataFrame) -> DataFrame:
    """Deliveries by their delay in microseconds."""
    return (
        trace.where(counts(DELIVERIES))
        .groupBy("run", (F.col("t_us") - F.col("t_pub_us")).alias("delay_us"))
        .agg(F.count(F.lit(1)).alias("deliveries"))
        .select(*DELAYS.names)
    )


def delay_summary(delays: DataFrame) -> DataFrame:
    """Mean, percentiles and maximum of each run's delays.

    A percentile is the shortest delay that this share of the deliveries did not exceed.
    """
    run = Window.partitionBy("run")
    so_far = run.orderBy("delay_us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = delays.withColumns(
        {
            "seen": F.sum("deliveries").over(so_far),
            "all": F.sum("deliveries").over(run),
        }
    )
    mean_us = F.sum(F.col("delay_us") * F.col("deliveries")) / F.sum("deliveries")
    return ranked.groupBy("run").agg(
        (mean_us / _MILLISECOND).alias("mean_delay_ms"),
        *(_percentile(share).alias(name) for name, share in PERCENTILES.items()),
        (F.max("delay_us") / _MILLISECOND).alias("delay_ms_max"),
    )


def _percentile(per_cent: int) -> Column:
    reached = F.col("seen") * 100 >= F.col("all") * per_cent
    return F.min(F.when(reached, F.col("delay_us"))) / _MILLISECOND
