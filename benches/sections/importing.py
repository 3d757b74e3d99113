"""Importing: quotes in CSV as publications, filters in CSV as subscriptions."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from benches.report import Figure, Section, at_most
from benches.run import Run
from benches.spark import Spent, of_all_processes
from byway.pipeline.importing import ImportOptions, load, plan_load
from byway.pipeline.importing.user_frames import Kind
from byway.pipeline.spark_session import open_session
from byway.workload import Siena

TITLE = "CSV files of users imported as tables, on this machine"
ROWS = 1_000_000


def measure(run: Run) -> Section:
    """Processor time a row; the files are copies of a few thousand rows."""
    rows = run.scaled(ROWS)
    with TemporaryDirectory() as directory, open_session() as spark:
        place = Path(directory)
        quotes = [
            f"S{n % 400},{n % 977 / 8},{n % 1013 / 8},{n * 100},5-Sep-96" for n in range(5_000)
        ]
        filters = [f'"{text}"' for text in Siena(seed=1).subscriptions(0).texts()]
        published = _file(place / "quotes.csv", "symbol,open,close,volume,date", quotes, rows)
        subscribed = _file(place / "filters.csv", "filter", filters, rows)
        for kind, file in (("publications", published), ("subscriptions", subscribed)):
            small = _file(place / f"small-{kind}.csv", *_lines(file, 1_000), 1_000)
            _imported(spark, kind, small)  # type: ignore[arg-type]
        run.step("publications")
        of_quotes = _imported(spark, "publications", published)
        run.step("subscriptions")
        of_filters = _imported(spark, "subscriptions", subscribed)
    figures = [
        Figure(
            "publications, processor time a row",
            of_quotes.processor_s / rows * 1e6,
            "µs",
            None if run.quick else at_most(33 / 5),
        ),
        Figure("publications", rows / of_quotes.clock_s, "rows/s", more_is_better=True),
        Figure("subscriptions, processor time a row", of_filters.processor_s / rows * 1e6, "µs"),
        Figure("subscriptions", rows / of_filters.clock_s, "rows/s", more_is_better=True),
    ]
    return Section("importing", TITLE, {"rows": rows, "columns of quotes": 5}, figures, [
        "counting, converting and writing; one file each, after small ones that warm Spark up",
    ])  # fmt: skip


def _file(path: Path, header: str, lines: list[str], rows: int) -> Path:
    with path.open("w") as file:
        file.write(f"{header}\n")
        for start in range(0, rows, len(lines)):
            file.write("\n".join(lines[: rows - start]) + "\n")
    return path


def _lines(file: Path, count: int) -> tuple[str, list[str]]:
    with file.open() as lines:
        header = next(lines).rstrip()
        return header, [next(lines).rstrip() for _ in range(count)]


def _imported(spark: SparkSession, kind: Kind, file: Path) -> Spent:
    def load_file() -> None:
        plan = plan_load(spark, kind, [file], ImportOptions())
        assert load(spark, plan, file.parent / "out").rejected == 0

    return of_all_processes(load_file)
