"""Analyses the traces of brokers, live or simulated, into tables.

Each module makes some tables with functions from DataFrames to DataFrames; `analysis` makes all of
them. They read the columns of the trace by name and need no join over its rows: `tallies`
aggregates most of them once, and many tables are computed from that small one.
"""

from byway.pipeline.traces.analysis import TraceTables, analyse, computed_once, write_tables
from byway.pipeline.traces.compaction import Compaction, compact
from byway.pipeline.traces.trace_reading import read_traces

__all__ = [
    "Compaction",
    "TraceTables",
    "analyse",
    "compact",
    "computed_once",
    "read_traces",
    "write_tables",
]
