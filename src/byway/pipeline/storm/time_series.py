"""Time series of the storm: control messages, delays and table sizes in intervals, from traces.

Frames in, frames out, with the columns `run`, `t_s` and `value`. Times count from the first
publication of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byway.model.trace_schema import TraceEvent
from byway.pipeline.traces.tallies import is_event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def begin_of(trace: DataFrame) -> DataFrame:
    """The time of the first publication of each run, as `begin_us`."""
    from pyspark.sql import functions as f

    published = trace.where(is_event(TraceEvent.PUBLISHED))
    return published.groupBy("run").agg(f.min("t_us").alias("begin_us"))


def control_over_time(trace: DataFrame, begin: DataFrame, every_s: float) -> DataFrame:
    """Subscriptions and unsubscriptions per second that brokers sent one another."""
    from pyspark.sql import functions as f

    sent = trace.where(
        is_event(TraceEvent.CONTROL_SENT) & f.col("kind").isin("sub", "subs", "unsub")
    )
    return (
        sent.join(begin, "run")
        .where("t_us >= begin_us")
        .groupBy("run", _interval("t_us", every_s).alias("t_s"))
        .agg((f.sum("count") / every_s).alias("value"))
    )


def delays_over_time(trace: DataFrame, begin: DataFrame, every_s: float) -> DataFrame:
    """Mean delay, in milliseconds, of the publications that were made in an interval."""
    from pyspark.sql import functions as f

    return (
        trace.where(is_event(TraceEvent.DELIVERED))
        .join(begin, "run")
        .groupBy("run", _interval("t_pub_us", every_s).alias("t_s"))
        .agg((f.avg(f.col("t_us") - f.col("t_pub_us")) / 1000).alias("value"))
    )


def tables_over_time(trace: DataFrame, begin: DataFrame, every_s: float) -> DataFrame:
    """Entries of all subscription tables at the end of each interval.

    Brokers are sampled at their own times, so each counts with its last sample.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    samples = trace.where(is_event(TraceEvent.TABLE_SAMPLED) & (f.col("kind") == "subscriptions"))
    of_broker = Window.partitionBy("run", "broker").orderBy("t_us")
    of_run = Window.partitionBy("run").orderBy("t_us")
    grown = f.col("count") - f.coalesce(f.lag("count").over(of_broker), f.lit(0))
    return (
        samples.select("run", "t_us", grown.alias("grown"))
        .select("run", "t_us", f.sum("grown").over(of_run).alias("entries"))
        .join(begin, "run")
        .where("t_us >= begin_us")
        .groupBy("run", _interval("t_us", every_s).alias("t_s"))
        .agg(f.max_by("entries", "t_us").cast("double").alias("value"))
    )


def _interval(column: str, every_s: float) -> Any:
    from pyspark.sql import functions as f

    return f.floor((f.col(column) - f.col("begin_us")) / (every_s * 1_000_000)) * every_s
