"""Estimates: turns the measures of runs into a mean and a 95 % interval for each measure, point and
contender.

Frames in, a frame out. Where a run's trace was measured, its value counts, else that of its
counters. The interval is Student's, because there are only a few seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Final

from byway.pipeline.claims.claim import Claim

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Quantiles 0.975 of Student's distribution with 1 to 30 degrees of freedom."""
_NORMAL: Final = 1.96


DIFFERENCE_MAX: Final = 1e-9
"""The largest relative difference between two sums of the same numbers in another order."""


def values(
    metrics: DataFrame, traced: DataFrame, runs: DataFrame, claims: Iterable[Claim]
) -> DataFrame:
    """One row for every run and measure, with the values that its counters (`metrics`) and its
    trace (`traced`) give, of the runs that `runs` (claim, at, contender, id) names."""
    measured = metrics.join(runs, "id").join(traced.withColumnRenamed("run", "id"), "id", "left")
    return reduce(type(measured).unionByName, (_values(measured, claim) for claim in claims))


def estimates(values: DataFrame) -> DataFrame:
    """Estimates from values. With one run both ends of the interval are the mean."""
    from pyspark.sql import functions as f

    chosen = values.withColumn("value", f.coalesce("traced_value", "counted_value"))
    return _summarised(chosen.where("value IS NOT NULL"))


def differences(values: DataFrame) -> DataFrame:
    """By claim and measure, the number of runs whose trace and counters give different values."""
    from pyspark.sql import functions as f

    counted, traced = f.col("counted_value"), f.col("traced_value")
    bound = DIFFERENCE_MAX * f.greatest(f.abs(counted), f.abs(traced))
    differs = values.where("traced_value IS NOT NULL").where(
        counted.isNull() | (f.abs(counted - traced) > bound)
    )
    return differs.groupBy("claim", "measure").count().orderBy("claim", "measure")


def _values(measured: DataFrame, claim: Claim) -> DataFrame:
    from pyspark.sql import functions as f

    nothing = f.lit(None).cast("double")
    columns = [
        f.struct(
            f.lit(m.name).alias("measure"),
            f.lit(m.unit).alias("unit"),
            f.expr(m.value).cast("double").alias("counted_value"),
            (nothing if m.traced is None else f.expr(m.traced).cast("double")).alias(
                "traced_value"
            ),
        )
        for m in claim.measures
    ]
    rows = measured.where(f.col("claim") == claim.id).select(
        "claim", "at", "contender", f.explode(f.array(*columns)).alias("found")
    )
    return rows.select("claim", "at", "contender", "found.*")


def _summarised(values: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    grouped = values.groupBy("claim", "measure", "unit", "at", "contender").agg(
        f.count("value").alias("runs"),
        f.count("traced_value").alias("traced"),
        f.avg("value").alias("mean"),
        f.coalesce(f.stddev_samp("value"), f.lit(0.0)).alias("deviation"),
    )
    half = _quantile() * f.col("deviation") / f.sqrt("runs")
    return grouped.select(
        "claim", "measure", "unit", "at", "contender", "runs", "traced", "mean",
        (f.col("mean") - half).alias("low"), (f.col("mean") + half).alias("high"),
    )  # fmt: skip


def _quantile() -> Column:
    from pyspark.sql import functions as f

    freedom = f.least(f.greatest(f.col("runs") - 1, f.lit(1)), f.lit(len(_T)))
    few = f.element_at(f.array(*map(f.lit, _T)), freedom.cast("int"))
    return f.when(f.col("runs") <= len(_T) + 1, few).otherwise(_NORMAL)
