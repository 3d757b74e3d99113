"""Workloads as tables: rows are those of the generators, bytes the same whoever makes them."""

import json
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.model import parse
from byway.pipeline.pipeline_errors import WorkloadRequestError
from byway.pipeline.table_files import check_file, read_table
from byway.pipeline.workload_schemas import PUBLICATIONS, SCHEDULE, SUBSCRIPTIONS
from byway.pipeline.workloads import KINDS, generate, request_of
from byway.pipeline.workloads.generate import (
    FILE_ROWS,
    WorkloadPiece,
    pieces_of,
    tables_of,
    write_piece,
)
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

TABLES = {table.name: table for table in (SUBSCRIPTIONS, PUBLICATIONS, SCHEDULE)}
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


def digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def write_here(kind: str, directory: Path, *arguments: object, **more: object) -> None:
    """The files of a workload, without Spark, the last one first."""
    request = request_of(kind, *arguments, **more)  # type: ignore[arg-type]
    places = {table.name: directory / table.name for table in tables_of(request)}
    for place in places.values():
        place.mkdir(parents=True)
    for piece in reversed(list(pieces_of(request, places))):
        write_piece(request, piece)


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
def test_every_kind_can_be_made(kind: str, tmp_path: Path) -> None:
    write_here(kind, tmp_path, publications=50, seed=5)
    request = request_of(kind, publications=50, seed=5)
    rows = {}
    for name, table in TABLES.items():
        for path in (tmp_path / name).glob("*"):
            check_file(table, path)
            rows[name] = pq.read_table(path)
    assert rows["subscriptions"].num_rows == request.subscriptions
    assert rows["publications"].num_rows == 50
    assert ("schedule" in rows) == (kind in ("mobile", "workflow"))
    placed = rows["subscriptions"]["broker"].null_count < request.subscriptions
    assert placed == (kind in ("clustered", "dt1", "dt2", "dt3", "mobile", "workflow"))
    assert (rows["publications"]["broker"].null_count == 0) == kind.startswith("dt")


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


def test_sizes_cut_schedules(tmp_path: Path) -> None:
    write_here("mobile", tmp_path / "few", 100, 1)
    write_here("mobile", tmp_path / "many", 4_000, 1)
    few = pq.read_table(tmp_path / "few/schedule/part-00000.parquet").to_pylist()
    many = pq.read_table(tmp_path / "many/schedule/part-00000.parquet").to_pylist()
    assert few == [row for row in many if row["subscription"] < 100]
    assert few


# --- on Spark


def test_bytes_do_not_depend_on_who_makes_them(spark: SparkSession, tmp_path: Path) -> None:
    size = FILE_ROWS + 5_000
    shown: list[int] = []
    request = request_of("dt3", publications=size, seed=9)
    description = generate(spark, request, tmp_path / "spark", shown.append)
    write_here("dt3", tmp_path / "here", publications=size, seed=9)
    made = digests(tmp_path / "spark")
    text = (tmp_path / "spark/workload.json").read_bytes()
    assert made.pop("workload.json") == sha256(text).hexdigest()
    assert made == digests(tmp_path / "here")
    assert [*made] == [
        "publications/part-00000.parquet",
        "publications/part-00001.parquet",
        "subscriptions/part-00000.parquet",
    ]
    assert shown[-1] == 3
    # a smaller workload has the same full files
    piece = WorkloadPiece("publications", 0, str(tmp_path / "full.parquet"))
    write_piece(request_of("dt3", publications=FILE_ROWS, seed=9), piece)
    full = sha256((tmp_path / "full.parquet").read_bytes()).hexdigest()
    assert full == made["publications/part-00000.parquet"]
    told = json.loads(text)
    assert (told["kind"], told["generator"], told["seed"]) == ("dt3", "Feeds", 9)
    assert told["parameters"]["subscribers"] == 125
    assert told["tables"]["publications"] == {"version": 1, "rows": size, "files": 2}
    assert told["tables"]["subscriptions"]["rows"] == description.tables["subscriptions"].rows
    # the rows are those of the generator, in Spark's eyes, too
    found = read_table(spark, PUBLICATIONS, tmp_path / "spark/publications")
    row = found.where(f"id = {FILE_ROWS + 3}").collect()[0].asDict()
    expected = Feeds(brokers=250, feeds=250, subscribers=125, seed=9).publications(
        FILE_ROWS // Generator.ROWS
    )
    assert {**row["integers"], **row["strings"]} == expected.publications()[3]
    assert row["broker"] == row["strings"]["feed"]


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
        "mine", "publications", "subscriptions", "workload.json",
    }  # fmt: skip
    assert pq.read_table(tmp_path / "publications").num_rows == 0


def test_the_command_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    done = pipeline("workload", "siena", "--size", -3, "--out", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "--size: expected 0 to 1,000,000,000,000 rows, found -3\n"
    (tmp_path / "file").touch()
    done = pipeline("workload", "dt1", "--out", tmp_path / "file")
    assert done.exit_code == 2
    assert done.stderr == f"{tmp_path}/file/subscriptions: cannot be written (Not a directory)\n"
