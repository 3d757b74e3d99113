"""The hops and delays of deliveries, exactly.

Delays are counted by microsecond, so percentiles are those of all deliveries, not estimates, and
the same every time.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from byway.model.measurement import DELIVERIES
from byway.pipeline.schemas import HOPS
from byway.pipeline.traces.tallies import counts

PERCENTILES: Final = {"delay_ms_p50": 50, "delay_ms_p95": 95, "delay_ms_p99": 99}

_MILLISECOND: Final = 1_000
_CELL_BITS: Final = 10
"""Delays that differ in these last bits only are added up when a percentile is looked for first."""


def hop_counts(counted: DataFrame) -> DataFrame:
    """Deliveries by the number of links they crossed, and the cumulative share."""
    run = Window.partitionBy("run")
    so_far = _up_to_here(run.orderBy("hop"))
    return (
        counted.where(counts(DELIVERIES))
        .groupBy("run", "hop")
        .agg(F.sum("rows").alias("deliveries"))
        .withColumn("share", F.sum("deliveries").over(so_far) / F.sum("deliveries").over(run))
        .select(*HOPS.names)
    )


def delay_summary(delays: DataFrame) -> DataFrame:
    """Mean, percentiles and maximum of each run's delays.

    A percentile is the shortest delay that this share of the deliveries did not exceed; Spark's own
    interpolates between two delays. It is found in two steps, so that a run with many different
    delays is not one task: first its cell of about a millisecond, then the delay in that cell.
    """
    wanted = _runs(delays).select(
        "*", F.explode(F.array(*map(_place, PERCENTILES.values()))).alias("place")
    )
    places = wanted.select("run", "all", "sum_us", "longest_us", "place.*")
    in_cell = _up_to_here(Window.partitionBy("run", "per_cent").orderBy("delay_us"))
    near = delays.withColumn("cell", _cell()).join(places, ["run", "cell"])
    reached = near.withColumn("seen", F.col("before") + F.sum("deliveries").over(in_cell))
    return (
        reached.where("seen * 100 >= all * per_cent")
        .groupBy("run")
        .agg(
            (F.max("sum_us") / F.max("all") / _MILLISECOND).alias("mean_delay_ms"),
            *(_shortest(share).alias(name) for name, share in PERCENTILES.items()),
            (F.max("longest_us") / _MILLISECOND).alias("delay_ms_max"),
        )
    )


def _cell() -> Column:
    return F.shiftright("delay_us", _CELL_BITS)


def _runs(delays: DataFrame) -> DataFrame:
    """For each run the number, sum and maximum of its delays, and its cells in order, each with the
    number of deliveries up to its end."""
    cells = delays.groupBy("run", _cell().alias("cell")).agg(
        F.sum("deliveries").alias("deliveries"),
        F.sum(F.col("delay_us") * F.col("deliveries")).alias("sum_us"),
        F.max("delay_us").alias("longest_us"),
    )
    so_far = _up_to_here(Window.partitionBy("run").orderBy("cell"))
    counted = cells.withColumn("seen", F.sum("deliveries").over(so_far))
    return counted.groupBy("run").agg(
        F.sum("deliveries").alias("all"),
        F.sum("sum_us").alias("sum_us"),
        F.max("longest_us").alias("longest_us"),
        F.sort_array(F.collect_list(F.struct("cell", "seen", "deliveries"))).alias("cells"),
    )


def _place(per_cent: int) -> Column:
    """The cell in which a percentile lies, and the number of deliveries before it."""
    reaches = F.filter("cells", lambda cell: cell.seen * 100 >= F.col("all") * per_cent)
    first = F.get(reaches, F.lit(0))
    return F.struct(
        F.lit(per_cent).alias("per_cent"),
        first.cell.alias("cell"),
        (first.seen - first.deliveries).alias("before"),
    )


def _up_to_here(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _shortest(per_cent: int) -> Column:
    delay_us = F.when(F.col("per_cent") == per_cent, F.col("delay_us"))
    return F.min(delay_us) / _MILLISECOND
