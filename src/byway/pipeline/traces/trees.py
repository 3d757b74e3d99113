"""Delivery trees: the path of each publication from its home broker to its subscribers.

`trees` has one row for each publication, `edges` one row for each link it crossed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from byway.model.measurement import (
    DELIVERIES,
    FALSE_POSITIVES,
    MATCHED_BROKERS,
    PUBLICATION_HOPS,
    PUBLICATIONS,
    PURE_FORWARDERS,
    REFUSED_COPIES,
)
from byway.model.trace_schema import TraceEvent
from byway.pipeline.schemas import EDGES, TREES
from byway.pipeline.traces.tallies import (
    HANDLED,
    counts,
    is_event,
)

PUBLICATION: Final = ("run", "publisher", "incarnation", "sequence")

_OF_PUBLICATIONS: Final = (*HANDLED, TraceEvent.DELIVERED, TraceEvent.DROPPED)


def trees(trace: DataFrame, counted: DataFrame) -> DataFrame:
    """The tree of each publication that a broker handled; one that was refused has none.

    Spark aggregates numbers in place but sorts for text: home brokers are aggregated as hashes, and
    their names come from the counts, which have all brokers.
    """
    delay_us = F.col("t_us") - F.col("t_pub_us")
    homes = counted.where(counts(PUBLICATIONS)).select(
        "run", F.col("broker").alias("home"), F.xxhash64("broker").alias("home_hash")
    )
    return (
        trace.where(is_event(*_OF_PUBLICATIONS))
        .withColumns({"is_matched": F.col("matches") > 0, "is_passed_on": F.col("copies") > 0})
        .groupBy(*PUBLICATION)
        .agg(
            F.max(F.when(counts(PUBLICATIONS), F.xxhash64("broker"))).alias("home_hash"),
            F.min("t_pub_us").alias("t_pub_us"),
            F.count_if(is_event(*HANDLED)).alias("brokers"),
            F.max(F.when(is_event(*HANDLED), F.col("hop"))).alias("depth"),
            F.count_if(counts(MATCHED_BROKERS)).alias("matched_brokers"),
            F.count_if(counts(PURE_FORWARDERS)).alias("pure_forwarders"),
            F.count_if(counts(FALSE_POSITIVES)).alias("false_positives"),
            F.count_if(counts(REFUSED_COPIES)).alias("duplicates"),
            F.coalesce(F.sum(F.col("span") - 1), F.lit(0)).alias("bypassed"),
            F.count_if(counts(DELIVERIES)).alias("deliveries"),
            F.max(F.when(counts(DELIVERIES), delay_us)).alias("delay_us_max"),
            F.coalesce(F.sum("copies"), F.lit(0)).alias("copies"),
        )
        .where("brokers > 0")
        .join(F.broadcast(homes.distinct()), ["run", "home_hash"], "left")
        .select(*TREES.names)
    )


def edges(trace: DataFrame) -> DataFrame:
    """The links that publications crossed, from parent to child."""
    received = trace.where(counts(PUBLICATION_HOPS))
    return received.withColumn("parent", F.col("link")).select(*EDGES.names)
