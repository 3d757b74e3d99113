"""Engines: the tables of one trace by byway, by Spark SQL, by DuckDB and by Polars.

What Spark costs on one machine is stated next to what it buys: how tasks and shuffles grow with the
trace. DuckDB and Polars are optional: `pip install -c constraints.txt -e '.[bench]'`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benches.report import Figure, Section, at_most
from benches.run import Run
from benches.sections.analysing import ROWS, make_trace
from benches.sections.polars_tables import polars_tables
from benches.spark import Spent, of_all_processes, stages_since
from byway.pipeline.spark_session import open_session
from byway.pipeline.traces import computed_once, read_traces, write_tables

TITLE = "all tables of a trace, written, by four engines; processor time"
ROUNDS = 2
ORDERS = ("in the benchmark's order", "a file a broker")
QUERIES = Path(__file__).with_name("engines.sql")
CHECKED = {
    "trees": "deliveries",
    "delays": "deliveries",
    "sizes": "count_total",
    "links": "control_bytes",
}

Engine = Callable[[Path, Path], None]


def measure(run: Run) -> Section:
    """All engines on the same files, in two orders; then how Spark's work grows."""
    rows = run.scaled(ROWS)
    with TemporaryDirectory() as directory, open_session() as spark:
        run.step("make the trace")
        place = Path(directory)
        traces = {ORDERS[0]: place / "mixed", ORDERS[1]: place / "live"}
        made = make_trace(place / "seed", traces[ORDERS[0]], rows)
        (seed,) = (place / "seed").rglob("*.parquet")
        seed.rename(_made(place / "warm") / seed.name)
        _by_broker(traces[ORDERS[0]], traces[ORDERS[1]])
        spent: dict[str, dict[str, Spent]] = {}
        for order, trace in traces.items():
            for name, engine in _engines(spark).items():
                run.step(f"{name}, {order}")
                out = _made(place / "out" / name)
                engine(place / "warm", out)  # loads and compiles what it needs
                action = partial(engine, trace, out)
                rounds = [of_all_processes(action) for _ in range(ROUNDS)]
                spent.setdefault(order, {})[name] = min(rounds, key=lambda s: s.processor_s)
            _check(place / "out")
        growth = [_growth(spark, run, place, made, share) for share in (10, 3, 1)]
    figures = [
        Figure(
            order, by["byway"].processor_s, "s",
            at_most(18) if order == ORDERS[0] and not run.quick else None,
            {name: one.processor_s for name, one in by.items() if name != "byway"},
        )
        for order, by in spent.items()
    ]  # fmt: skip
    return Section("engines", TITLE, {"rows": made}, figures, [
        "plain Spark SQL, DuckDB and Polars compute one query a table, without shares and rates; "
        "their tables have the same rows",
        *growth,
    ])  # fmt: skip


# --- engines ----------------------------------------------------------------------------------


def _engines(spark: SparkSession) -> dict[str, Engine]:
    found: dict[str, Engine] = {
        "byway": lambda trace, out: _byway(spark, trace, out),
        "Spark SQL": lambda trace, out: _spark_sql(spark, trace, out),
    }
    try:
        import duckdb  # noqa: F401

        found["DuckDB"] = _duckdb
        import polars  # noqa: F401

        found["Polars"] = _polars
    except ImportError:
        pass
    return found


def _byway(spark: SparkSession, trace: Path, out: Path) -> None:
    with computed_once(read_traces(spark, trace)) as tables:
        write_tables(tables, out)


def _queries() -> dict[str, str]:
    parts = re.findall(r"^-- (\w+)\n(.*?);$", QUERIES.read_text(), re.M | re.S)
    return dict(parts)


def _spark_sql(spark: SparkSession, trace: Path, out: Path) -> None:
    spark.read.parquet(str(trace)).createOrReplaceTempView("trace")
    for name, query in _queries().items():
        spark.sql(query).write.mode("overwrite").parquet(str(out / name))


def _duckdb(trace: Path, out: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW trace AS FROM '{trace}/*.parquet'")
        for name, query in _queries().items():
            connection.execute(f"COPY ({query}) TO '{out / name}.parquet'")


def _polars(trace: Path, out: Path) -> None:
    import polars as pl

    for name, table in polars_tables(pl.scan_parquet(trace / "*.parquet")).items():
        table.sink_parquet(out / f"{name}.parquet")


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _check(out: Path) -> None:
    """The engines have found the same."""
    for table, column in CHECKED.items():
        answers = {}
        for engine in out.iterdir():
            place = engine / table
            found = ds.dataset(
                place if place.is_dir() else place.with_suffix(".parquet")
            ).to_table()
            answers[engine.name] = (found.num_rows, float(pc.sum(found[column]).as_py()))
        assert len(set(answers.values())) == 1, f"{table}.{column}: {answers}"


# --- growth -----------------------------------------------------------------------------------


def _growth(spark: SparkSession, run: Run, place: Path, rows: int, share: int) -> str:
    """What byway's tables of a part of the trace take of Spark."""
    run.step(f"growth: a {share}th")
    trace = place / "mixed"
    if share > 1:
        trace = place / f"part-{share}"
        trace.mkdir()
        files = sorted((place / "mixed").iterdir())
        for file in files[: max(1, len(files) // share)]:
            (trace / file.name).symlink_to(file)
    rows = sum(pq.read_metadata(file).num_rows for file in trace.iterdir())
    before = stages_since(spark, -1).last
    _byway(spark, trace, place / "out" / "byway")
    found = stages_since(spark, before)
    return (
        f"{found.told(rows)}, {found.processor_s:.1f} s of tasks; "
        f"at best {found.processor_s / found.on_two_s:.2f} times as fast on two cores"
    )


def _by_broker(mixed: Path, live: Path) -> None:
    """The same rows as live brokers write them: a file for each broker, in the order of time."""
    live.mkdir()
    table = ds.dataset(mixed).to_table().unify_dictionaries()
    schema = pq.read_schema(next(mixed.iterdir()))
    names = table["broker"].cast("string")
    for broker in pc.unique(names).to_pylist():
        rows = table.filter(pc.equal(names, broker)).sort_by("t_us").cast(schema)
        pq.write_table(rows, live / f"trace-{broker}-00000.parquet", 131_072, compression="zstd")
