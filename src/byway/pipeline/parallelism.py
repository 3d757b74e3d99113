"""Tells how many tasks Spark can run at a time, from which plans choose their numbers of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parallelism(spark: SparkSession) -> int:
    """Spark's default parallelism: the cores at hand, or what `spark.default.parallelism` says."""
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        return int(context.defaultParallelism)
    from pyspark.sql import functions as sql

    # Connect does not tell; a range has as many partitions
    numbers = spark.range(1 << 20).select(sql.spark_partition_id().alias("partition"))
    return max(1, numbers.distinct().count())
