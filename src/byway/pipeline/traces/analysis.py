"""Analyses a trace: all tables that are made of one.

They are lazy: every action on a table computes it from the trace. `computed_once` is for those who
want many of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from byway.pipeline.jobs import Progress
from byway.pipeline.schemas import (
    BROKERS,
    CONTROL,
    DELAYS,
    EDGES,
    HOPS,
    LINKS,
    SIZES,
    SUMMARY,
    TRACE,
    TREES,
    ColumnType,
    TableSchema,
)
from byway.pipeline.table_files import StrPath, below, check_columns, clear_table, write_table
from byway.pipeline.traces import broker_load as load
from byway.pipeline.traces import delivery_paths as deliveries
from byway.pipeline.traces import sizes, trees
from byway.pipeline.traces.tallies import EVERY_S, counted, delays_of, samples_of, tallies
from byway.pipeline.traces.trace_summary import summary


class TraceTables(NamedTuple):
    """The tables of a trace, each with the columns and types that `byway.pipeline.schemas` has
    under its name. Nothing is computed before a table is used."""

    summary: DataFrame
    """One row for each run."""
    hops: DataFrame
    delays: DataFrame
    brokers: DataFrame
    links: DataFrame
    control: DataFrame
    sizes: DataFrame
    trees: DataFrame
    """One row for each publication."""
    edges: DataFrame
    """One row for each link that a publication crossed."""

    def by_schema(self) -> dict[TableSchema, DataFrame]:
        """The tables by their schemas."""
        return dict(zip(SCHEMAS, self, strict=True))


SCHEMAS = (SUMMARY, HOPS, DELAYS, BROKERS, LINKS, CONTROL, SIZES, TREES, EDGES)
"""The schemas of `TraceTables`, in order."""
_ACCEPTED = TRACE._replace(
    columns=tuple(
        c if c.type == ColumnType.STRING else c._replace(type=ColumnType.INT64)
        for c in TRACE.columns
    )
)
"""The columns of a trace that a program has made: its integers may be wider than those of files."""


def analyse(trace: DataFrame, every_s: float = EVERY_S) -> TraceTables:
    """The tables of a trace, with sizes of queues and tables in intervals of `every_s` seconds.

    `trace` has the columns of the trace, in any order; others are not looked at, and columns that
    may be null may be missing. Nothing is computed, cached or collected here. Raises `TableError`
    if columns are missing or have other types.
    """
    trace = _checked(trace)
    return _tables(trace, tallies(trace, every_s), every_s)


@contextmanager
def computed_once(trace: DataFrame, every_s: float = EVERY_S) -> Iterator[TraceTables]:
    """The same for several actions: what the tables have in common is cached until the block ends.
    All of them together scan the trace twice, or three times with `edges`."""
    trace = _checked(trace)
    tallied = tallies(trace, every_s).persist()
    try:
        yield _tables(trace, tallied, every_s)
    finally:
        tallied.unpersist()


def write_tables(
    tables: TraceTables,
    place: StrPath,
    *,
    with_edges: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the tables below a directory or database. Without `edges`, the rows of an earlier
    analysis are removed from there."""
    for table, frame in tables.by_schema().items():
        if with_edges or table is not EDGES:
            write_table(frame, table, below(place, table.name), progress)
    if not with_edges:
        clear_table(tables.summary.sparkSession, EDGES, below(place, EDGES.name))


def _checked(trace: DataFrame) -> DataFrame:
    """The trace, with nulls for what it lacks and may lack."""
    check_columns(_ACCEPTED, "the trace", trace.schema)
    there = set(trace.columns)
    lacking = [column for column in TRACE.columns if column.name not in there]
    nulls = {column.name: F.lit(None).cast(str(column.type)) for column in lacking}
    return trace.withColumns(nulls) if nulls else trace


def _tables(trace: DataFrame, tallied: DataFrame, every_s: float) -> TraceTables:
    rows, delays = counted(tallied), delays_of(tallied)
    found = (
        summary(rows, delays),
        deliveries.hop_counts(rows),
        delays,
        load.broker_load(rows),
        load.link_load(rows),
        load.control_overhead(rows),
        sizes.sizes_over_time(samples_of(tallied), every_s),
        trees.trees(trace, rows),
        trees.edges(trace),
    )
    return TraceTables(*map(_declared, found, SCHEMAS))


def _declared(frame: DataFrame, table: TableSchema) -> DataFrame:
    """The columns of a table with their declared types."""
    return frame.select(*(F.col(c.name).cast(str(c.type)).alias(c.name) for c in table.columns))
