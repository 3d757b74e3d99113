"""Workloads as tables: rows are those of the generators, the same whoever makes them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.model import parse
from byway.pipeline.pipeline_errors import WorkloadRequestError
from byway.pipeline.schemas import TableSchema
from byway.pipeline.table_files import read_table
from byway.pipeline.workload_schemas import DESCRIPTION, PUBLICATIONS, SCHEDULE, SUBSCRIPTIONS
from byway.pipeline.workloads import KINDS, generate, request_of, workload
from byway.pipeline.workloads.generate import chunk_rows, make_chunks, rows_of, tables_of
from byway.pipeline.workloads.workload_columns import broker_column, filter_texts, publication_rows
from byway.workload import (
    Clustered,
    CoveringDegree,
    Feeds,
    Generator,
    Mobile,
    Siena,
    StockQuotes,
    Workflow,
    Zipf,
)

GENERATORS = [
    Siena(seed=3),
    Zipf(seed=3, names=50, values=20, between_share=0.5),
    CoveringDegree(seed=3, count=9_000),
    Clustered(seed=3, count=9_000),
    StockQuotes(seed=3),
    StockQuotes(seed=3, ranges=True),
    Feeds(seed=3),
    Mobile(seed=3, monitors=5),
    Workflow(seed=3, auditors=4, instances=1),
]
every_generator = pytest.mark.parametrize(
    "generator", GENERATORS, ids=[f"{type(g).__name__}-{n}" for n, g in enumerate(GENERATORS)]
)


def made_here(kind: str, *arguments: object, **more: object) -> dict[TableSchema, Any]:
    """The tables of a workload, without Spark, as Arrow tables."""
    request = request_of(kind, *arguments, **more)  # type: ignore[arg-type]
    found = {}
    for table in tables_of(request):
        total = rows_of(request, table)
        chunks = [
            chunk_rows(request.generator, table, chunk, total)
            for chunk in range(-(-total // Generator.ROWS))
        ]
        found[table] = pa.concat_tables([table.arrow_schema().empty_table(), *chunks])
    return found


# --- columns


@every_generator
def test_texts_are_those_of_the_filters(generator: Generator) -> None:
    chunk = generator.subscriptions(0)
    texts = filter_texts(chunk).to_pylist()
    assert texts == chunk.texts()
    assert [parse(text) for text in texts[:50]] == chunk.slice(0, 50).filters()


@every_generator
def test_publications_keep_their_attributes_and_types(generator: Generator) -> None:
    chunk = generator.publications(1)
    rows = publication_rows(7, chunk, broker_column(None, (), len(chunk))).to_pylist()
    assert [row["id"] for row in rows] == list(range(7, 7 + len(chunk)))
    for row, publication in zip(rows, chunk.publications(), strict=True):
        for column, kind in (("integers", int), ("numbers", float), ("strings", str)):
            expected = {name: v for name, v in publication.items() if type(v) is kind}
            assert dict(row[column]) == expected
            assert all(type(value) is kind for _, value in row[column])
        assert row["booleans"] == []


# --- requests


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_made(kind: str) -> None:
    request = request_of(kind, publications=50, seed=5)
    rows = made_here(kind, publications=50, seed=5)
    assert rows[SUBSCRIPTIONS].num_rows == request.subscriptions
    assert rows[PUBLICATIONS].num_rows == 50
    assert (SCHEDULE in rows) == (kind in ("mobile", "workflow"))
    placed = rows[SUBSCRIPTIONS]["broker"].null_count < request.subscriptions
    assert placed == (kind in ("clustered", "dt1", "dt2", "dt3", "mobile", "workflow"))
    assert (rows[PUBLICATIONS]["broker"].null_count == 0) == kind.startswith("dt")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("sienna",), "sienna: unknown kind of workload; did you mean 'siena'?"),
        (("siena", -1), "--size: expected 0 to 1,000,000,000,000 rows, found -1"),
        (("siena", 1, 10**13), "--publications: expected 0 to 1,000,000,000,000 rows, found 10,"),
        (("siena", 1, 1, -1), "--seed: expected 0 to 4294967295, found -1"),
        (("dt1", 7_000), "--size: 7,000, but with these parameters dt1 has 6,5"),
        (("covering", 10), "covering: degree = 30.0: expected less than the count, 10"),
        (("siena", 1, 1, 0, ["names=0"]), "--set names=0: names = 0: expected a number from 1 to"),
        (("siena", 1, 1, 0, ["names=x"]), "--set names=x: names: expected an integer, found 'x'"),
        (("siena", 1, 1, 0, ["name=3"]), "--set name=3: name: unknown key; did you mean 'names'?"),
        (("siena", 1, 1, 0, ["names"]), "--set names: expected key=value"),
        (("siena", 1, 1, 0, ["seed=1"]), "--set seed=1: is set by --seed"),
        (("covering", 99, 1, 0, ["count=9"]), "--set count=9: is set by --size"),
    ],
)
def test_what_cannot_be_made_is_named(arguments: tuple[object, ...], told: str) -> None:
    with pytest.raises(WorkloadRequestError) as caught:
        request_of(*arguments)  # type: ignore[arg-type]
    assert str(caught.value).startswith(told)


def test_sizes_cut_schedules() -> None:
    few = made_here("mobile", 100, 1)[SCHEDULE].to_pylist()
    many = made_here("mobile", 4_000, 1)[SCHEDULE].to_pylist()
    assert few == [row for row in many if row["subscription"] < 100]
    assert few


# --- on Spark


def as_rows(table: Any) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table as Spark gives them."""
    names = ("integers", "numbers", "strings", "booleans")
    return [
        tuple(dict(row[name]) if name in names else row[name] for name in row)
        for row in table.to_pylist()
    ]


def test_rows_do_not_depend_on_who_makes_them(spark: SparkSession, tmp_path: Path) -> None:
    size = 2 * Generator.ROWS + 500
    description = generate(spark, request_of("dt3", publications=size, seed=9), tmp_path / "w")
    expected = made_here("dt3", publications=size, seed=9)
    frames = workload(spark, "dt3", publications=size, seed=9)
    assert frames.schedule is None
    for table, frame in (
        (SUBSCRIPTIONS, frames.subscriptions),
        (PUBLICATIONS, frames.publications),
    ):
        assert frame.dtypes == [(column.name, column.type) for column in table.columns]
        rows = as_rows(expected[table])
        found = read_table(spark, table, tmp_path / "w" / table.name)
        assert [tuple(row) for row in found.orderBy("id").collect()] == rows
        assert [tuple(row) for row in frame.repartition(5).orderBy("id").collect()] == rows
        assert description.tables[table.name].rows == len(rows)
    (told,) = read_table(spark, DESCRIPTION, tmp_path / "w/workload").collect()
    assert (told["kind"], told["generator"], told["seed"]) == ("dt3", "Feeds", 9)
    assert json.loads(told["parameters"])["subscribers"] == 125
    assert json.loads(told["tables"])["publications"] == {"version": 1, "rows": size}


def test_a_task_makes_whole_chunks() -> None:
    request = request_of("mobile", 5_000, 1)
    numbers = pa.record_batch([pa.array([1, 0])], ["id"])
    made = make_chunks(request.generator, "schedule", 5_000, iter([numbers]))
    rows = [row for batch in made for row in batch.to_pylist()]
    expected = made_here("mobile", 5_000, 1)[SCHEDULE].to_pylist()
    assert sorted(map(str, rows)) == sorted(map(str, expected))


def test_a_workload_without_rows_has_tables(spark: SparkSession) -> None:
    frames = workload(spark, "siena", size=0, publications=0)
    assert frames.subscriptions.collect() == frames.publications.collect() == []


def pipeline(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.usefixtures("spark")
def test_a_schedule_of_another_workload_does_not_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    made = pipeline("workload", "mobile", "--size", 50, "--publications", 9, "--out", tmp_path)
    assert made.exit_code == 0
    lines = made.stdout.splitlines()
    assert lines[0] == f"subscriptions: 50 rows in {tmp_path}/subscriptions"
    assert (tmp_path / "schedule").is_dir()
    arguments = ("--size", 50, "--publications", 0, "--out", tmp_path, "--json")
    made = pipeline("workload", "siena", "--set", "names=40", *arguments)
    assert json.loads(made.stdout)["parameters"]["names"] == 40
    assert {path.name for path in tmp_path.iterdir()} == {
        "mine", "publications", "schedule", "subscriptions", "workload",
    }  # fmt: skip
    assert pq.read_table(tmp_path / "schedule").num_rows == 0
    assert pq.read_table(tmp_path / "publications").num_rows == 0


def test_the_command_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    done = pipeline("workload", "siena", "--size", -3, "--out", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "--size: expected 0 to 1,000,000,000,000 rows, found -3\n"
    (tmp_path / "file").touch()
    done = pipeline("workload", "dt1", "--out", tmp_path / "file")
    assert done.exit_code == 2
    reason = f"cannot be written (Parent path is not a directory: file:{tmp_path}/file)"
    assert done.stderr.splitlines()[-1] == f"{tmp_path}/file/subscriptions: {reason}"
