"""Matches tables, and writes the answers: counts, and pairs if they are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from byway.pipeline.bulk_matching.match_frames import MEMORY_BYTES, match, match_counts
from byway.pipeline.jobs import Progress
from byway.pipeline.schemas import TableSchema
from byway.pipeline.table_files import StrPath, below, clear_table, read_table, write_table
from byway.pipeline.workload_schemas import PAIRS, PUBLICATION_MATCHES, SUBSCRIPTION_MATCHES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIDES = {"publication": PUBLICATION_MATCHES, "subscription": SUBSCRIPTION_MATCHES}


class MatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a match, and the tables that were written."""

    publications: int
    subscriptions: int
    pairs: int
    publications_without: int
    """Publications that match no subscription."""
    subscriptions_without: int
    """Subscriptions that no publication matches."""
    tables: list[str]


def match_tables(
    spark: SparkSession,
    publications: DataFrame,
    subscriptions: DataFrame,
    place: StrPath,
    *,
    pairs: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> MatchOutcome:
    """Match publications with subscriptions, and write the tables below `place`. Without `pairs`,
    those of an earlier match are removed."""
    targets = {table: below(place, table.name) for table in (*_SIDES.values(), PAIRS)}
    if pairs:
        found = match(publications, subscriptions, memory_bytes=memory_bytes)
        write_table(found, PAIRS, targets[PAIRS], progress)
        written = read_table(spark, PAIRS, targets[PAIRS])
        for (side, table), rows in zip(_SIDES.items(), (publications, subscriptions), strict=True):
            write_table(_counted(written, rows, side), table, targets[table], progress)
    else:
        clear_table(spark, PAIRS, targets.pop(PAIRS))
        counts = match_counts(publications, subscriptions, memory_bytes=memory_bytes).persist()
        try:
            for side, table in _SIDES.items():
                rows = counts.where(counts["side"] == side).withColumnRenamed("id", side)
                write_table(rows, table, targets[table], progress)
        finally:
            counts.unpersist()
    of_publications, of_subscriptions = (
        _totals(spark, table, targets[table]) for table in _SIDES.values()
    )
    return MatchOutcome(
        publications=of_publications[0],
        subscriptions=of_subscriptions[0],
        pairs=of_publications[1],
        publications_without=of_publications[2],
        subscriptions_without=of_subscriptions[2],
        tables=list(targets.values()),
    )


def _counted(pairs: DataFrame, rows: DataFrame, side: str) -> DataFrame:
    """The number of pairs of each row, those without one too."""
    from pyspark.sql import functions as sql

    found = pairs.groupBy(side).agg(sql.count("*").alias("matches"))
    every = rows.select(rows["id"].alias(side)).join(found, side, "left")
    return every.select(side, sql.coalesce("matches", sql.lit(0)).alias("matches"))


def _totals(spark: SparkSession, table: TableSchema, place: str) -> tuple[int, int, int]:
    """Number of rows, their matches, and how many have none."""
    from pyspark.sql import functions as sql

    found = read_table(spark, table, place).agg(
        sql.count("*"),
        sql.coalesce(sql.sum("matches"), sql.lit(0)),
        sql.count_if(sql.col("matches") == 0),
    )
    rows, matches, without = found.collect()[0]
    return rows, matches, without
