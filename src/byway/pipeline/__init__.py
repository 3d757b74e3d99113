"""The data pipeline on Spark: analyses traces, runs sweeps, makes, imports and matches workloads.

The public names of this module work on DataFrames of any session. `spark_session` makes or takes a
session, `schemas` and `workload_schemas` declare the tables, `table_files` alone reads and writes
them, `jobs` runs what takes long. `traces` analyses what brokers did, `sweeps` runs the simulator
many times, `claims` repeats the measurements of papers, `workloads`, `importing` and
`bulk_matching` make and match tables, `storm` is the demonstration. Between reading and writing
there are functions from DataFrames to DataFrames. All of it works unchanged on one machine, on a
cluster and over Spark Connect: there are no RDDs or broadcasts here. The module loads a name when
it is first used, so that the command line starts without Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from byway.pipeline.bulk_matching import match, match_counts
    from byway.pipeline.importing import Imported, publications_from, subscriptions_from
    from byway.pipeline.spark_session import open_session
    from byway.pipeline.sweeps import read_sweep, sweep
    from byway.pipeline.table_files import read_table, write_table
    from byway.pipeline.traces import TraceTables, analyse, computed_once, read_traces
    from byway.pipeline.workloads import WorkloadFrames, workload

__all__ = [
    "Imported",
    "TraceTables",
    "WorkloadFrames",
    "analyse",
    "computed_once",
    "match",
    "match_counts",
    "open_session",
    "publications_from",
    "read_sweep",
    "read_table",
    "read_traces",
    "subscriptions_from",
    "sweep",
    "workload",
    "write_table",
]

_HOMES = {
    "Imported": "importing",
    "TraceTables": "traces",
    "WorkloadFrames": "workloads",
    "analyse": "traces",
    "computed_once": "traces",
    "match": "bulk_matching",
    "match_counts": "bulk_matching",
    "open_session": "spark_session",
    "publications_from": "importing",
    "read_sweep": "sweeps",
    "read_table": "table_files",
    "read_traces": "traces",
    "subscriptions_from": "importing",
    "sweep": "sweeps",
    "workload": "workloads",
    "write_table": "table_files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
