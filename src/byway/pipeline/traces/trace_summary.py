"""The summary of a trace: one row for each run, with the names of the simulator's own summary."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from byway.model.measurement import (
    COPIES,
    DELIVERIES,
    FALSE_POSITIVES,
    MATCHED_BROKERS,
    PUBLICATION_HOPS,
    PUBLICATION_KIND,
    PUBLICATIONS,
    PURE_FORWARDERS,
    REFUSED_COPIES,
)
from byway.model.trace_schema import TraceEvent
from byway.pipeline.schemas import SUMMARY, ColumnType
from byway.pipeline.traces.broker_load import sent
from byway.pipeline.traces.delivery_paths import delay_summary
from byway.pipeline.traces.tallies import (
    SENT,
    counts,
    is_event,
    total,
)

_SUMMED: Final = (
    PUBLICATIONS,
    PUBLICATION_HOPS,
    DELIVERIES,
    MATCHED_BROKERS,
    PURE_FORWARDERS,
    FALSE_POSITIVES,
    REFUSED_COPIES,
)


def summary(counted: DataFrame, delays: DataFrame) -> DataFrame:
    """The summary of every run."""
    handled = F.col("matched_brokers") + F.col("pure_forwarders")
    reached = F.col("publications") + F.col("publication_hops")
    messages = F.col("publications_sent") + F.col("control_messages")
    return (
        _totals(counted)
        .join(_by_kind(counted), "run", "left")
        .join(delay_summary(delays), "run", "left")
        .withColumn("messages_by_kind", F.coalesce("messages_by_kind", _no_counts()))
        .withColumn("messages", messages)
        .withColumn("yield", F.try_divide("matched_brokers", handled))
        .withColumn("control_share", F.try_divide("control_messages", messages))
        .withColumn("brokers_per_publication", F.try_divide(reached, "publications"))
        .select(*SUMMARY.names)
    )


def _totals(counted: DataFrame) -> DataFrame:
    delivered = counts(DELIVERIES)
    hops = F.col("hop") * F.col("rows")
    columns = {
        "brokers": F.count_distinct("broker"),
        "span_s": (F.max("t_us_max") - F.min("t_us_min")) / 1_000_000,
        **{word.name: total("rows", counts(word)) for word in _SUMMED},
        "dropped": total("rows", is_event(TraceEvent.DROPPED)),
        "mean_hops": F.try_divide(F.sum(F.when(delivered, hops)), total("rows", delivered)),
        "hops_max": F.max(F.when(delivered, F.col("hop"))),
        **sent(),
        "rows": F.sum("rows"),
        "rows_lost": total("entries", is_event(TraceEvent.TRACE_LOST)),
    }
    return counted.groupBy("run").agg(*(column.alias(name) for name, column in columns.items()))


def _by_kind(counted: DataFrame) -> DataFrame:
    """Messages between brokers by kind, as the simulator names them: a copy is a `pub`."""
    kind = F.when(counts(COPIES), F.lit(PUBLICATION_KIND)).otherwise(F.col("kind"))
    messages = (
        counted.where(is_event(*SENT))
        .groupBy("run", kind.alias("kind"))
        .agg(F.sum("rows").alias("messages"))
    )
    pairs = F.sort_array(F.collect_list(F.struct("kind", "messages")))
    return messages.groupBy("run").agg(F.map_from_entries(pairs).alias("messages_by_kind"))


def _no_counts() -> Column:
    return F.create_map().cast(ColumnType.COUNTS.value)
