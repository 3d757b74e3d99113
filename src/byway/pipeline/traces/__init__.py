"""Traces: what brokers did, live or simulated, as tables.

Each file answers one question with functions from DataFrames to DataFrames; `analysis` names all of
them. They read the columns of the trace by name and need no join over its rows: `tallies` folds
most of them once, and much is asked of that small table.
"""

from byway.pipeline.traces.analysis import Analysis, analyse

__all__ = ["Analysis", "analyse"]
