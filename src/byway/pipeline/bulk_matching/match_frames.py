"""The plan of a match: subscriptions in parts, publications in slices, a task for each of both.

A task gets the indexes of its part and the publications of its slice by Spark's own shuffle, so
nothing has to be shared between machines. Subscriptions are indexed once, however many slices there
are. Nothing is computed before the answer is used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from byway.pipeline.bulk_matching import match_task
from byway.pipeline.bulk_matching.blocks import publication_blocks, subscription_blocks
from byway.pipeline.bulk_matching.index_parts import BUILT, MEMORY_MIN, SAMPLE_ROWS, build
from byway.pipeline.parallelism import parallelism
from byway.pipeline.schemas import TableSchema
from byway.pipeline.table_files import check_columns, conformed
from byway.pipeline.workload_schemas import PUBLICATIONS, SUBSCRIPTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEMORY_BYTES: Final = 2**30
PARTS_MAX: Final = 20
"""Every part gets all publications, and every slice all indexes: more of both is more to move."""
TASKS_PER_CORE: Final = 4
_SIDES: Final = {
    "publication": match_task.PUBLICATION_SIDE,
    "subscription": match_task.SUBSCRIPTION_SIDE,
}


def match(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    memory_bytes: int = MEMORY_BYTES,
    cores: int | None = None,
) -> DataFrame:
    """The pairs that match, with the columns `publication` and `subscription`: their ids.

    `publications` needs the columns of that table but for `broker`, `subscriptions` an `id` and a
    `filter`. The answer is that of the cross join which evaluates every filter on every
    publication. An index has at most `memory_bytes`. There are tasks for so many `cores`, by
    default as Spark's default parallelism says. Nothing is computed yet. Raises `TableError` if
    columns are missing or have other types; a filter that is not valid ends the job that uses the
    answer, with the subscription's id.
    """
    arriving = _arriving(publications, subscriptions, memory_bytes, cores)
    return arriving.mapInArrow(match_task.pairs, match_task.PAIRED)


def match_counts(
    publications: DataFrame,
    subscriptions: DataFrame,
    *,
    memory_bytes: int = MEMORY_BYTES,
    cores: int | None = None,
) -> DataFrame:
    """How often each publication and each subscription matches, those without a match too.

    The columns are `side` (`publication` or `subscription`), `id` and `matches`. Ids must be
    unique on each side: the matches of equal ones are summed. The rest is as with `match`, of whose
    pairs none is made, so it is much faster where there are many.
    """
    from pyspark.sql import functions as sql

    arriving = _arriving(publications, subscriptions, memory_bytes, cores)
    found = arriving.mapInArrow(match_task.counts, match_task.COUNTED)
    summed = found.groupBy("side", "id").agg(sql.sum("matches").alias("matches"))
    names = sql.element_at(sql.array(*map(sql.lit, _SIDES)), sql.col("side").cast("int") + 1)
    return summed.select(names.alias("side"), "id", "matches")


def _arriving(
    publications: DataFrame, subscriptions: DataFrame, memory_bytes: int, cores: int | None
) -> DataFrame:
    """What the tasks get, each in its partition: pieces of indexes, then blocks of publications."""
    from pyspark.sql import functions as sql

    if memory_bytes < MEMORY_MIN:
        raise ValueError(f"memory_bytes: expected at least {MEMORY_MIN:,}, found {memory_bytes:,}")
    published = _columns(publications, PUBLICATIONS)
    subscribed = _columns(subscriptions, SUBSCRIPTIONS)
    parts, slices = parts_and_slices(cores or parallelism(publications.sparkSession))
    built = _indexes(published, subscribed, parts, memory_bytes)
    every_slice = sql.explode(sql.sequence(sql.lit(0), sql.lit(slices - 1)))
    every_part = sql.explode(sql.sequence(sql.lit(0), sql.lit(parts - 1)))
    nothing = sql.lit(0)
    blocks = published.mapInArrow(partial(publication_blocks, slices), "slice int, block binary")
    rows = built.select(
        "part", every_slice.alias("slice"), nothing.alias("step"), "number", "piece", "block"
    ).union(
        blocks.select(
            every_part.alias("part"),
            "slice",
            sql.lit(1).alias("step"),
            nothing.alias("number"),
            nothing.alias("piece"),
            "block",
        )
    )
    task = sql.col("part") * sql.lit(slices) + sql.col("slice")
    dealt = rows.repartitionById(parts * slices, task)
    return dealt.sortWithinPartitions("step", "number", "piece")


def parts_and_slices(cores: int) -> tuple[int, int]:
    """Numbers of parts and of slices: together, a few tasks for each core."""
    parts = max(1, min(cores, PARTS_MAX))
    return parts, -(-TASKS_PER_CORE * max(1, cores) // parts)


def _indexes(
    publications: DataFrame, subscriptions: DataFrame, parts: int, memory_bytes: int
) -> DataFrame:
    """The indexes of all parts, in pieces; they are adapted to some of the publications."""
    from pyspark.sql import functions as sql

    every_part = sql.explode(sql.sequence(sql.lit(0), sql.lit(parts - 1)))
    sample = publications.limit(SAMPLE_ROWS).mapInArrow(
        partial(publication_blocks, 1), "slice int, block binary"
    )
    blocks = subscriptions.mapInArrow(partial(subscription_blocks, parts), "part int, block binary")
    rows = sample.select(every_part.alias("part"), sql.lit(0).alias("step"), "block").union(
        blocks.select("part", sql.lit(1).alias("step"), "block")
    )
    dealt = rows.repartitionById(parts, sql.col("part")).sortWithinPartitions("step")
    return dealt.mapInArrow(partial(build, memory_bytes), BUILT)


def _columns(frame: DataFrame, table: TableSchema) -> DataFrame:
    """The columns that are needed, with the declared types; others are left out."""
    needed = tuple(
        column._replace(nullable=False) for column in table.columns if column.name != "broker"
    )
    wanted = table._replace(columns=needed, lenient=True)
    check_columns(wanted, f"the {table.name}", frame.schema)
    return conformed(frame, wanted)
