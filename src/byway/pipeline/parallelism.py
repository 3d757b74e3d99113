"""Tells how many tasks Spark can run at a time, from which plans choose their numbers of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parallelism(spark: SparkSession) -> int:
    """Spark's default parallelism: the cores at hand, or what `spark.default.parallelism` says.

    Over Connect a small job finds the cores, if nothing is set.
    """
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        return int(context.defaultParallelism)
    if (chosen := spark.conf.get("spark.default.parallelism", None)) is not None:
        return int(chosen)
    from pyspark.sql import functions as sql

    # a range has as many partitions
    numbers = spark.range(1 << 20).select(sql.spark_partition_id().alias("partition"))
    return max(1, numbers.distinct().count())
