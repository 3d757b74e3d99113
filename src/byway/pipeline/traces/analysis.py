"""Analyses a trace: computes all tables that are made of one."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame

from byway.pipeline.schemas import (
    BROKERS,
    CONTROL,
    DELAYS,
    EDGES,
    HOPS,
    LINKS,
    SIZES,
    SUMMARY,
    TREES,
    TableSchema,
)
from byway.pipeline.table_files import StrPath, below, clear_table, write_table
from byway.pipeline.traces import broker_load as load
from byway.pipeline.traces import delivery_paths as deliveries
from byway.pipeline.traces import sizes, trees
from byway.pipeline.traces.tallies import tallies
from byway.pipeline.traces.trace_summary import summary


class Analysis(NamedTuple):
    """The tables made of a trace. Nothing is computed before a table is used.

    `tallies` and `delays` are cached, because other tables are made of them: call `release`.
    """

    tallies: DataFrame
    delays: DataFrame
    tables: dict[TableSchema, DataFrame]

    @property
    def summary(self) -> DataFrame:
        """The summary, one row for each run."""
        return self.tables[SUMMARY]

    def write(self, directory: StrPath) -> None:
        """Write all tables below a directory or database, and remove the rows of an earlier
        analysis from `edges`."""
        for table, frame in self.tables.items():
            write_table(frame, table, below(directory, table.name))
        if EDGES not in self.tables:
            clear_table(self.summary.sparkSession, EDGES, below(directory, EDGES.name))

    def release(self) -> None:
        """Free the cached frames."""
        self.tallies.unpersist()
        self.delays.unpersist()


def analyse(
    trace: DataFrame, *, every_s: float = sizes.EVERY_S, with_edges: bool = False
) -> Analysis:
    """Make all tables of a trace; `edges`, a row for each step of a publication, if wanted."""
    counted = tallies(trace).repartition("run").persist()  # all that is asked is asked by run
    delayed = deliveries.delays(trace).repartition("run").persist()
    tables = {
        SUMMARY: summary(counted, delayed),
        HOPS: deliveries.hop_counts(counted),
        DELAYS: delayed,
        BROKERS: load.broker_load(counted),
        LINKS: load.link_load(counted),
        CONTROL: load.control_overhead(counted),
        SIZES: sizes.sizes_over_time(trace, every_s),
        TREES: trees.trees(trace, counted),
    }
    if with_edges:
        tables[EDGES] = trees.edges(trace)
    return Analysis(counted, delayed, tables)
