"""Analysing: ten million rows of a trace, to the summary and to all tables."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benches.report import Figure, Section, at_most, below
from benches.run import Run
from benches.spark import Spent, of_all_processes
from byway.pipeline.spark_session import open_session
from byway.pipeline.traces import analyse, computed_once, read_traces, write_tables
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario

TITLE = "a trace of ten million rows, on this machine"
ROWS = 10_000_000
ROWS_PER_FILE = 1_000_000
ROUNDS = 3
SCENARIO = Path(__file__).parents[2] / "examples/scenarios/load.toml"


def measure(run: Run) -> Section:
    """The summary alone, and all tables written."""
    with TemporaryDirectory() as directory:
        run.step("make the trace")
        traces, out = Path(directory, "traces"), Path(directory, "out")
        rows = make_trace(Path(directory, "seed"), traces, run.scaled(ROWS))
        with open_session() as spark:
            run.step("summary")
            summary = _best(lambda: _summary(spark, traces))
            run.step("all tables")
            tables = _best(lambda: _tables(spark, traces, out))
        trees = sum(pq.read_metadata(file).num_rows for file in (out / "trees").glob("*.parquet"))
        size = sum(file.stat().st_size for file in traces.iterdir())
    figures = [
        Figure("summary", summary.clock_s, "s", below(15)),
        Figure("summary, processor time", summary.processor_s, "s"),
        Figure("all tables, written", tables.clock_s, "s", below(15)),
        Figure(
            "all tables, processor time",
            tables.processor_s,
            "s",
            None if run.quick else at_most(18),
        ),
    ]
    sizes = {"rows": rows, "MiB of Parquet": size / 2**20, "publications": trees}
    return Section("analysing", TITLE, sizes, figures, [
        "a simulated trace of 21 brokers, repeated one after another, with delays moved at random",
    ])  # fmt: skip


def _best(action: Any) -> Spent:
    action()
    return min((of_all_processes(action) for _ in range(ROUNDS)), key=lambda spent: spent.clock_s)


def _summary(spark: SparkSession, traces: Path) -> None:
    assert len(analyse(read_traces(spark, traces)).summary.collect()) == 1


def _tables(spark: SparkSession, traces: Path, out: Path) -> None:
    with computed_once(read_traces(spark, traces)) as tables:
        write_tables(tables, out)


# --- the trace --------------------------------------------------------------------------------


def make_trace(seed: Path, traces: Path, rows: int) -> int:
    """Repeat a simulated trace until there are so many rows; how many there are."""
    run_scenario(read_scenario(SCENARIO, ["duration_s=40"]), 1, seed)
    (file,) = seed.rglob("*.parquet")
    table, schema = pq.read_table(file), pq.read_schema(file)
    traces.mkdir()
    rng = np.random.default_rng(1)
    copies = -(-rows // table.num_rows)
    per_file = max(1, ROWS_PER_FILE // table.num_rows)
    for start in range(0, copies, per_file):
        path = traces / f"trace-{start:05}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd") as to:
            for number in range(start, min(start + per_file, copies)):
                to.write_table(_moved(table, number, rng).cast(schema), row_group_size=131_072)
    return copies * table.num_rows


def _moved(table: Any, number: int, rng: np.random.Generator) -> Any:
    """The same, `number` minutes later."""
    shift_us = number * 60_000_000
    jitter_us = pa.array(rng.integers(0, 1_000, table.num_rows))
    changed = {
        "t_us": pc.add(pc.add(table["t_us"], shift_us), jitter_us),
        "t_pub_us": pc.add(table["t_pub_us"], shift_us),
        "sequence": pc.add(table["sequence"], number * 1_000_000),
    }
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), table.field(name), values)
    return table
