"""Matching at scale: a million publications, a million subscriptions; and Spark's own join."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from benches.report import Figure, Section, at_most
from benches.run import Run
from benches.spark import Spent, of_all_processes, stages_since
from byway.pipeline.bulk_matching import MatchOutcome, match_tables
from byway.pipeline.spark_session import open_session
from byway.pipeline.table_files import read_table
from byway.pipeline.workload_schemas import PUBLICATIONS, SUBSCRIPTIONS
from byway.pipeline.workloads import generate, request_of

TITLE = "publications and subscriptions matched on Spark, on this machine"
ROWS = 1_000_000
JOIN_PUBLICATIONS = 4_000
JOIN_SUBSCRIPTIONS = 40_000


class _Tables:
    """A workload, and its answers."""

    def __init__(
        self, spark: SparkSession, directory: Path, kind: str, publications: int, subscriptions: int
    ) -> None:
        self.place = directory / f"{kind}-{subscriptions}"
        self.decided = publications * subscriptions
        generate(spark, request_of(kind, subscriptions, publications, seed=1), self.place)

    def match(self, spark: SparkSession, pairs: bool = False) -> MatchOutcome:
        """Match them."""
        tables = (
            read_table(spark, table, self.place / table.name)
            for table in (PUBLICATIONS, SUBSCRIPTIONS)
        )
        return match_tables(spark, *tables, self.place / "matched", pairs=pairs)


def measure(run: Run) -> Section:
    """Counts of SIENA's workload, pairs of a selective one, and Spark's own join."""
    rows = run.scaled(ROWS)
    with TemporaryDirectory() as directory, open_session() as spark:
        place = Path(directory)
        run.step("Spark's join")
        some = run.scaled(JOIN_PUBLICATIONS)
        first = _Tables(spark, place, "siena", 100, 1_000)
        small = _Tables(spark, place, "siena", some, JOIN_SUBSCRIPTIONS)
        assert _join(spark, first.place) == first.match(spark, pairs=True).pairs
        found: list[int] = []
        joined = of_all_processes(lambda: found.append(_join(spark, small.place)))
        run.step("the same tables")
        matched, of_small = _spent(spark, small, pairs=True)
        assert found == [of_small.pairs]
        run.step("SIENA, a tenth")
        tenth = _Tables(spark, place, "siena", rows // 10, rows // 10)
        grown = [_growth(spark, tenth, rows // 10)[0]]
        run.step("SIENA")
        siena = _Tables(spark, place, "siena", rows, rows)
        line, counted, of_siena = _growth(spark, siena, rows)
        grown.append(line)
        run.step("uniform")
        uniform = _Tables(spark, place, "uniform", rows, rows)
        written, of_uniform = _spent(spark, uniform, pairs=True)
    rate, per_s = "pairs decided/s", "/s"
    figures = [
        Figure("SIENA, counts", counted.clock_s, "s"),
        Figure(
            "SIENA, counts, processor time",
            counted.processor_s,
            "s",
            None if run.quick else at_most(90),
        ),
        Figure("SIENA, counts, rate", siena.decided / counted.clock_s, rate, more_is_better=True),
        Figure("SIENA, counts, publications", rows / counted.clock_s, per_s, more_is_better=True),
        Figure(
            "SIENA, counts, pairs found",
            of_siena.pairs / counted.clock_s,
            per_s,
            more_is_better=True,
        ),
        Figure("uniform, pairs written", written.clock_s, "s"),
        Figure("uniform, pairs written, processor time", written.processor_s, "s"),
        Figure("uniform, pairs, publications", rows / written.clock_s, per_s, more_is_better=True),
        Figure(
            "small SIENA tables, pairs emitted",
            of_small.pairs / matched.clock_s,
            per_s,
            more_is_better=True,
        ),
        Figure(
            "uniform, pairs, rate", uniform.decided / written.clock_s, rate, more_is_better=True
        ),
        Figure(
            "small SIENA tables, pairs",
            small.decided / matched.clock_s,
            rate,
            baselines={"Spark's join": small.decided / joined.clock_s},
            more_is_better=True,
        ),
    ]
    sizes = {
        "publications": rows,
        "subscriptions": rows,
        "SIENA pairs": of_siena.pairs,
        "uniform pairs": of_uniform.pairs,
        "small tables": f"{some:,} × {JOIN_SUBSCRIPTIONS:,}",
        "small pairs": of_small.pairs,
    }
    return Section("matching_scale", TITLE, sizes, figures, [
        "decided: publications × subscriptions; with building and mapping of the indexes",
        "Spark's join: constraints and attributes joined by name, those that hold counted for each "
        "pair; the answers are the same",
        *grown,
    ])  # fmt: skip


def _growth(spark: SparkSession, tables: _Tables, rows: int) -> tuple[str, Spent, MatchOutcome]:
    """What counts of a workload take of Spark, in a line; and by the clock and of processors."""
    before = stages_since(spark, -1).last
    spent, outcome = _spent(spark, tables, pairs=False)
    found = stages_since(spark, before)
    faster = f"at best {found.run_s / found.run_on_two_s:.2f} times as fast on two cores"
    return f"counts of {found.told(rows)}; {faster}", spent, outcome


def _spent(spark: SparkSession, tables: _Tables, *, pairs: bool) -> tuple[Spent, MatchOutcome]:
    outcomes: list[MatchOutcome] = []
    spent = of_all_processes(lambda: outcomes.append(tables.match(spark, pairs)))
    return spent, outcomes[0]


def _join(spark: SparkSession, place: Path) -> int:
    """The number of pairs, by Spark alone."""
    published = spark.read.parquet(str(place / "publications")).select(
        sql.col("id").alias("publication"), sql.explode("integers").alias("name", "value")
    )
    constraints = sql.split("filter", " AND ")
    subscribed = (
        spark.read.parquet(str(place / "subscriptions"))
        .select(
            sql.col("id").alias("subscription"),
            sql.size(constraints).alias("constraints"),
            sql.explode(constraints).alias("constraint"),
        )
        .select(
            "subscription",
            "constraints",
            sql.split("constraint", " ")[0].alias("name"),
            sql.split("constraint", " ")[1].alias("operator"),
            sql.split("constraint", " ")[2].cast("bigint").alias("bound"),
        )
    )
    holds = sql.expr(
        "CASE operator WHEN '=' THEN value = bound WHEN '<' THEN value < bound "
        "ELSE value > bound END"
    )
    satisfied = published.join(subscribed, "name").where(holds)
    pairs = satisfied.groupBy("publication", "subscription", "constraints").count()
    return pairs.where("count = constraints").count()
