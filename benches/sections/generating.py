"""Generating: ten million subscriptions as a table, and some of other kinds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from benches.report import Figure, Section, below
from benches.run import Run
from benches.spark import Spent, of_all_processes
from byway.pipeline.spark_session import open_session
from byway.pipeline.workloads import generate, request_of

TITLE = "workloads as tables, on this machine"
ROWS = 10_000_000
OTHERS = ("uniform", "covering", "stocks", "mobile")
OTHER_ROWS = 1_000_000
PUBLICATION_ROWS = 1_000_000


def measure(run: Run) -> Section:
    """Subscriptions of SIENA, of other kinds, and publications."""
    rows, some = run.scaled(ROWS), run.scaled(OTHER_ROWS)
    publications = run.scaled(PUBLICATION_ROWS)
    with TemporaryDirectory() as directory, open_session() as spark:
        out = Path(directory)
        _made(spark, "siena", 10_000, 10_000, out)
        run.step("siena")
        siena = _made(spark, "siena", rows, 0, out)
        size = sum(file.stat().st_size for file in (out / "subscriptions").glob("*.parquet"))
        run.step("publications")
        published = _made(spark, "siena", 0, publications, out)
        others = {}
        for kind in OTHERS:
            run.step(kind)
            others[kind] = _made(spark, kind, some, 0, out)
    figures = [
        Figure("SIENA subscriptions", siena.clock_s, "s", below(60)),
        Figure("the same, processor time", siena.processor_s, "s"),
        Figure("SIENA publications", published.clock_s, "s"),
        *(Figure(f"{kind} subscriptions", spent.clock_s, "s") for kind, spent in others.items()),
    ]
    sizes = {
        "SIENA subscriptions": rows,
        "MiB of Parquet": size / 2**20,
        "publications": publications,
        "of other kinds": some,
    }
    return Section("generating", TITLE, sizes, figures, [
        "mobile: with its schedule; one round each, after a small one that warms Spark up",
    ])  # fmt: skip


def _made(spark: SparkSession, kind: str, rows: int, publications: int, out: Path) -> Spent:
    request = request_of(kind, rows, publications, seed=1)
    return of_all_processes(lambda: generate(spark, request, out))
