"""The measures of a part of a run, computed from its trace.

They are those that the simulator's meter adds up while a run goes on (`sim.meters`), under the same
names, as far as a trace holds them: what brokers took and sent, their tables in the end, their
longest queues, and how late deliveries were. What is measured, and where, is given as frames.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from byway.model.measurement import (
    CONTROL_MESSAGES,
    DELIVERIES,
    FALSE_POSITIVES,
    PUBLICATION_HOPS,
    SUBSCRIPTION_KINDS,
)
from byway.model.trace_schema import Queue, TableKind, TraceEvent
from byway.pipeline.schemas import MEASURED
from byway.pipeline.traces.tallies import counts, is_event, total
from byway.sim.scenario.listed_clients import PROBES

PARTS: Final = "run string, from_us bigint, to_us bigint, name string, broker string"
"""Columns of the frame of parts: by run and group of brokers, each broker of it."""

_SUMS: Final = (
    "publications",
    "false_positives",
    "subscriptions_arrived",
    "subscription_messages",
)
_MILLISECOND: Final = 1_000


def part_measures(trace: DataFrame, parts: DataFrame, requests: DataFrame) -> DataFrame:
    """The measures of every run in `parts`, by the path that `byway simulate --json` has below
    `measured`, such as `groups.core.peak_queue`. `requests` has the times at which clients were to
    publish."""
    times = F.broadcast(parts.select("run", "from_us", "to_us").distinct())
    timed = trace.join(times, "run")
    found = _of_groups(timed.where("t_us >= from_us"), parts).unionByName(
        _of_deliveries(timed, requests)
    )
    pairs = F.sort_array(F.collect_list(F.struct("path", "value")))
    return (
        found.where("value IS NOT NULL")
        .groupBy("run")
        .agg(F.map_from_entries(pairs).alias("measured"))
        .select(*MEASURED.names)
    )


# --- brokers ----------------------------------------------------------------------------------


def _of_groups(part: DataFrame, parts: DataFrame) -> DataFrame:
    """Path and value of what is measured of groups of brokers."""
    brokers = (
        parts.join(_own(part), ["run", "broker"], "left")
        .join(_sent_to(part), ["run", "broker"], "left")
        .na.fill(0, [*_SUMS, "peak_queue", "table_entries_end"])
    )
    groups = (
        brokers.groupBy("run", "name")
        .agg(
            *(F.sum(name).alias(name) for name in _SUMS),
            F.max("peak_queue").alias("peak_queue"),
            F.avg("table_entries_end").alias("table_entries_end"),
        )
        .withColumn("false_positive_share", F.try_divide("false_positives", "publications"))
    )
    names = (*_SUMS, "peak_queue", "table_entries_end", "false_positive_share")
    return _paths(groups, F.concat(F.lit("groups."), F.col("name"), F.lit(".")), names)


def _own(part: DataFrame) -> DataFrame:
    """What brokers took, and their queues and tables."""
    longest = is_event(TraceEvent.QUEUE_SAMPLED) & (F.col("kind") == Queue.INPUT_PEAK.value)
    whole = (
        is_event(TraceEvent.TABLE_SAMPLED)
        & (F.col("kind") == TableKind.SUBSCRIPTIONS.value)
        & F.col("link").isNull()
    )
    return (
        part.withColumns({"is_matched": F.col("matches") > 0, "is_passed_on": F.col("copies") > 0})
        .groupBy("run", "broker")
        .agg(
            F.count_if(counts(PUBLICATION_HOPS)).alias("publications"),
            F.count_if(counts(FALSE_POSITIVES)).alias("false_positives"),
            F.max(F.when(longest, F.col("count"))).alias("peak_queue"),
            F.max_by(F.when(whole, F.col("count")), F.when(whole, F.col("t_us"))).alias(
                "table_entries_end"
            ),
        )
    )


def _sent_to(part: DataFrame) -> DataFrame:
    """The subscriptions that brokers were sent."""
    subscriptions = counts(CONTROL_MESSAGES) & F.col("kind").isin(*SUBSCRIPTION_KINDS)
    return (
        part.where(subscriptions)
        .groupBy("run", F.col("link").alias("broker"))
        .agg(
            total("count", F.lit(True)).alias("subscriptions_arrived"),
            F.count(F.lit(1)).alias("subscription_messages"),
        )
    )


# --- deliveries -------------------------------------------------------------------------------


def _of_deliveries(timed: DataFrame, requests: DataFrame) -> DataFrame:
    """Path and value of what is measured of deliveries. A delay begins when the publisher was to
    publish; in a later incarnation its sequences began anew, and it begins at its broker."""
    requested = requests.withColumnRenamed("t_us", "requested_us").withColumn(
        "incarnation", F.lit(1).cast("bigint")
    )
    delivered = (
        timed.where(counts(DELIVERIES))
        .join(requested, ["run", "publisher", "incarnation", "sequence"], "left")
        .withColumn("begin_us", F.coalesce("requested_us", "t_pub_us"))
        .withColumn("delay_us", F.col("t_us") - F.col("begin_us"))
        .withColumn("is_probe", F.col("publisher").startswith(PROBES))
        .where("is_probe OR begin_us BETWEEN from_us AND to_us")
    )
    delays = delivered.groupBy("run", "is_probe").agg(
        F.count(F.lit(1)).alias("deliveries"),
        (F.sum("delay_us") / F.count(F.lit(1)) / _MILLISECOND).alias("mean_ms"),
        (F.max("delay_us") / _MILLISECOND).alias("max_ms"),
    )
    prefix = F.when(F.col("is_probe"), F.lit("probes.")).otherwise(F.lit("delays."))
    return _paths(delays, prefix, ("deliveries", "mean_ms", "max_ms"))


def _paths(frame: DataFrame, prefix: Column, names: tuple[str, ...]) -> DataFrame:
    """One row for each of these columns, with its name behind a prefix."""
    columns = [
        F.struct(
            F.concat(prefix, F.lit(name)).alias("path"),
            F.col(name).cast("double").alias("value"),
        )
        for name in names
    ]
    exploded = frame.select("run", F.explode(F.array(*columns)).alias("found"))
    return exploded.select("run", "found.path", "found.value")
