"""Tables of one's own: what is read as what, and that no row is lost on the way."""

import csv
import json
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.pipeline.importing import (
    ImportOptions,
    ImportPlan,
    Type,
    load,
    plan_load,
    publications_from,
    subscriptions_from,
    user_frames,
)
from byway.pipeline.importing.types import inferred
from byway.pipeline.importing.user_frames import why_no_filter
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import read_table
from byway.pipeline.workload_schemas import PUBLICATIONS, REJECTS, SUBSCRIPTIONS

QUOTES = """\
symbol,open,volume,late
YHOO,18.37,6200,true
IBM,20,100,false

MSFT,,,
ORCL,20
"say ""ah"", please",1e3,7,FALSE
HP,4,9.5,true
SUN,"4,7,true
"""
MAPS = ("integers", "numbers", "strings", "booleans")


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class Read:
    """What became of some files."""

    def __init__(
        self, spark: SparkSession, kind: Any, files: Sequence[Path], **options: Any
    ) -> None:
        self.plan: ImportPlan = plan_load(spark, kind, files, ImportOptions(**options))
        out = files[0].parent / "out"
        self.told = load(spark, self.plan, out)
        table = PUBLICATIONS if kind == "publications" else SUBSCRIPTIONS
        self.rows = ordered(read_table(spark, table, out / kind), "id")
        self.rejects = ordered(read_table(spark, REJECTS, out / f"{kind}_rejects"), "row")
        assert (self.told.rows, self.told.rejected) == (len(self.rows), len(self.rejects))

    def reasons(self) -> list[tuple[int, str]]:
        return [(reject["row"], reject["reason"]) for reject in self.rejects]


def ordered(frame: DataFrame, *columns: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.orderBy(*columns).collect()]


def attributes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for name in MAPS for k, v in row[name].items()} for row in rows]


def test_a_table_of_quotes(spark: SparkSession, tmp_path: Path) -> None:
    file = write(tmp_path / "q u+o%20te.csv", QUOTES)
    read = Read(spark, "publications", [file], types={"volume": Type.INTEGER})
    assert read.plan.layout.attributes == {
        "symbol": Type.STRING,
        "open": Type.NUMBER,
        "volume": Type.INTEGER,
        "late": Type.BOOLEAN,
    }
    assert [row["id"] for row in read.rows] == [1, 2, 3, 5]
    assert attributes(read.rows) == [
        {"volume": 6200, "open": 18.37, "symbol": "YHOO", "late": True},
        {"volume": 100, "open": 20.0, "symbol": "IBM", "late": False},
        {"symbol": "MSFT"},
        {"volume": 7, "open": 1000.0, "symbol": 'say "ah", please', "late": False},
    ]
    assert read.reasons() == [
        (4, "not CSV, or not 4 cells"),
        (6, "volume: '9.5' is no integer"),
        (7, "not CSV, or not 4 cells"),
    ]
    assert read.rejects[0]["content"] == "ORCL,20"
    assert read.rejects[0]["file"] == str(file)
    assert read.told.reasons[0] == f"{file}:4: not CSV, or not 4 cells"


def test_cells_may_have_line_breaks(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_bytes(b'\xef\xbb\xbfa;b\n"x\ny";1\n\nz;2\n')
    read = Read(spark, "publications", [file], delimiter=";", multiline=True)
    assert attributes(read.rows) == [{"a": "x\ny", "b": 1}, {"a": "z", "b": 2}]
    assert [row["id"] for row in read.rows] == [1, 2]


def test_large_files_are_split(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are numbered through all splits of all files, in the order of these."""
    rows = 3_000
    for name in ("a", "b"):
        lines = [f"{name}{number},{'x' * 40}" for number in range(rows)]
        lines[1_000] = "short"
        write(tmp_path / f"{name}.csv", "\n".join(["n,pad", *lines, ""]))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        files = [tmp_path / "b.csv", tmp_path / "a.csv"]
        plan = plan_load(spark, "publications", files, ImportOptions())
        assert plan.sources[0].frame.rdd.getNumPartitions() > 10
        load(spark, plan, tmp_path / "out")
    finally:
        assert before is not None
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    found = ordered(read_table(spark, PUBLICATIONS, tmp_path / "out/publications"), "id")
    expected = [
        (first + number + 1, f"{name}{number}")
        for name, first in (("b", 0), ("a", rows))
        for number in range(rows)
        if number != 1_000
    ]
    assert [(row["id"], row["strings"]["n"]) for row in found] == expected
    rejects = ordered(read_table(spark, REJECTS, tmp_path / "out/publications_rejects"), "file")
    assert [(row["file"], row["row"]) for row in rejects] == [
        (f"{tmp_path}/a.csv", 1_001), (f"{tmp_path}/b.csv", 1_001),
    ]  # fmt: skip


def test_parquet_says_what_its_columns_hold(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "q.parquet"
    columns = {
        "small": pa.array([1, 2, None], pa.int8()),
        "large": pa.array([2**63, 5, 6], pa.uint64()),
        "real": pa.array([1.5, float("nan"), None], pa.float32()),
        "word": pa.array(["a", "b", "a"]).dictionary_encode(),
        "flag": [True, None, False],
        "day": pa.array([date(2024, 1, 2)] * 3),
        "price": pa.array([Decimal("1.25"), Decimal("2.00"), None]),
        "extra": [[1], [2], [3]],
    }
    pq.write_table(pa.table(columns), file)
    types = {"day": Type.STRING, "price": Type.NUMBER, "extra": Type.SKIP}
    read = Read(spark, "publications", [file], types=types)
    assert read.reasons() == [(1, "large: '9223372036854775808' does not fit into 64 bits")]
    first, second = attributes(read.rows)
    assert first.pop("real") != 0  # it is not a number
    assert first == {"small": 2, "large": 5, "word": "b", "day": "2024-01-02", "price": 2.0}
    assert second == {"large": 6, "word": "a", "flag": False, "day": "2024-01-02"}
    assert read.plan.unread == ["extra"]


def test_filters_are_parsed(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        ("7", "price > 18", "B1"),
        ("8", "price >", ""),
        ("x", "price > 1", ""),
        ("9", "[class,=,'STOCK'],[price,>,18]", "B2"),
        ("", "TRUE", ""),
        ("10", " ", ""),
    ]
    file = tmp_path / "f.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("number", "filter", "where"), *rows])
    read = Read(spark, "subscriptions", [file], id="number")
    assert read.rows == [
        {"id": 7, "broker": None, "filter": "price > 18"},
        {"id": 9, "broker": None, "filter": "[class,=,'STOCK'],[price,>,18]"},
    ]
    assert read.plan.unread == ["where"]
    assert [reason for _, reason in read.reasons()] == [
        "filter: at character 8: expected a number, a quoted string, TRUE or FALSE, found the end",
        "number: 'x' is no integer",
        "number: it has no number",
        "filter: there is no filter",
    ]
    placed = Read(spark, "subscriptions", [file], broker="where", filter="filter")
    assert [row["broker"] for row in placed.rows] == ["B1", None, "B2", None]
    assert [row["id"] for row in placed.rows] == [1, 3, 4, 5]


# --- frames


def test_frames_become_publications(spark: SparkSession) -> None:
    """Frames of the caller's own; columns of any name."""
    frame = spark.sql(
        "SELECT * FROM VALUES (7, 'IBM', 1.5D, true, 'x'), (8, '', NULL, NULL, NULL), "
        "(NULL, 'HP', 2D, false, 'y') AS t(`my id`, `a.b`, price, late, id)"
    )
    good, bad = publications_from(frame, ["a.b", "price", "late"], id="my id", broker="id")
    assert good.dtypes == [(column.name, column.type) for column in PUBLICATIONS.columns]
    assert ordered(good, "id") == [
        {
            "id": 7, "broker": "x", "integers": {}, "numbers": {"price": 1.5},
            "strings": {"a.b": "IBM"}, "booleans": {"late": True},
        },
        {"id": 8, "broker": None, "integers": {}, "numbers": {}, "strings": {}, "booleans": {}},
    ]  # fmt: skip
    assert bad.columns == [*frame.columns, "reason"]
    assert [(row["a.b"], row["reason"]) for row in bad.collect()] == [
        ("HP", "my id: it has no number")
    ]
    every = publications_from(frame.drop("my id"), {"price": "string", "late": Type.SKIP})
    rows = ordered(every.rows, "id")
    assert len({row["id"] for row in rows}) == 3
    assert attributes(rows) == [{"price": "1.5"}, {}, {"price": "2.0"}]
    assert every.rejects.collect() == []
    (first, *_) = attributes(ordered(publications_from(frame).rows, "id"))
    assert first == {"my id": 7, "a.b": "IBM", "price": 1.5, "late": True, "id": "x"}


def test_frames_become_subscriptions(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a = 1"), (2, "a ="), (3, None)], "n int, wanted string")
    good, bad = subscriptions_from(frame, "wanted", id="n")
    assert good.dtypes == [(column.name, column.type) for column in SUBSCRIPTIONS.columns]
    assert list(map(tuple, good.collect())) == [(1, None, "a = 1")]
    rejected = [(row["n"], row["reason"]) for row in bad.orderBy("n").collect()]
    assert rejected[0][1].startswith("wanted: at character 4: expected")
    assert rejected[1] == (3, "wanted: there is no filter")
    for column, told in (("x", "there is no column 'x'; it has n, wanted"),):
        with pytest.raises(TableError, match=told):
            subscriptions_from(frame, column)
    with pytest.raises(TableError, match=r"column 'a' is array<int>, which no attribute can hold"):
        publications_from(frame.select(F.array("n").alias("a")))
    with pytest.raises(TableError, match="expected 1 to 255 characters"):
        publications_from(frame.select(F.lit(1).alias("a" * 300)))


def test_publications_have_so_many_attributes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_frames, "ATTRIBUTES_MAX", 2)
    frame = spark.sql("SELECT * FROM VALUES (1, 'x', true), (2, NULL, false) AS t(a, b, c)")
    good, bad = publications_from(frame)
    assert attributes(ordered(good, "id")) == [{"a": 2, "c": False}]
    (reject,) = bad.collect()
    assert reject["reason"] == "3 attributes, but a publication has at most 2"


def test_reasons_of_filters() -> None:
    assert why_no_filter("a = 1") is None
    assert why_no_filter(" ") == "there is no filter"
    assert (why_no_filter("a = ") or "").startswith("at character")


# --- types


@pytest.mark.parametrize(
    ("cells", "type_"),
    [
        (["1", "-2", "+3", "", "0"], Type.INTEGER),
        (["1", "2.5", " 3 "], Type.NUMBER),
        (["1e3", ".5", "nan", "-inf"], Type.NUMBER),
        (["007", "008"], Type.STRING),
        (["true", "FALSE"], Type.BOOLEAN),
        (["1", "1_000"], Type.STRING),
        (["1"] * 19 + ["x"], Type.INTEGER),
        (["1"] * 8 + ["x"], Type.STRING),
        (["", ""], Type.STRING),
        ([], Type.STRING),
    ],
)
def test_a_column_is_what_most_of_its_cells_are(cells: list[str], type_: Type) -> None:
    assert inferred({"a": cells}) == {"a": type_}


CELLS = [
    ("1", Type.INTEGER, 1),
    (" -7 ", Type.INTEGER, -7),
    ("+3", Type.INTEGER, 3),
    ("1_0", Type.INTEGER, "'1_0' is no integer"),
    ("1.0", Type.INTEGER, "'1.0' is no integer"),
    ("9" * 50, Type.INTEGER, f"'{'9' * 39}…' does not fit into 64 bits"),
    ("1.5", Type.NUMBER, 1.5),
    (" .5e1 ", Type.NUMBER, 5.0),
    ("-Infinity", Type.NUMBER, float("-inf")),
    (" inf ", Type.NUMBER, float("inf")),
    ("1,5", Type.NUMBER, "'1,5' is no number"),
    ("1d", Type.NUMBER, "'1d' is no number"),
    (" 1e999", Type.NUMBER, "' 1e999' is too large for a floating-point number"),
    ("-1e400", Type.NUMBER, "'-1e400' is too large for a floating-point number"),
    (" True", Type.BOOLEAN, True),
    ("FALSE", Type.BOOLEAN, False),
    ("yes", Type.BOOLEAN, "'yes' is neither true nor false"),
    ("1", Type.BOOLEAN, "'1' is neither true nor false"),
    (" x ", Type.STRING, " x "),
    ("x" * 65_537, Type.STRING, "a string may have at most 65536 characters, this one has 65537"),
]


def test_cells_are_converted_or_told(spark: SparkSession) -> None:
    """Each cell is in a row and a column of its own."""
    names = [f"c{number:02}" for number in range(len(CELLS))]
    rows = [
        tuple(cell if place == number else None for place in range(len(CELLS)))
        for number, (cell, _, _) in enumerate(CELLS)
    ]
    frame = spark.createDataFrame(rows, ", ".join(f"{name} string" for name in names))
    types = {name: type_ for name, (_, type_, _) in zip(names, CELLS, strict=True)}
    good, bad = publications_from(frame, types)
    found = {name: value for row in attributes(ordered(good, "id")) for name, value in row.items()}
    told = dict(row["reason"].split(": ", 1) for row in bad.collect())
    assert not found.keys() & told.keys()
    expected = {name: outcome for name, (_, _, outcome) in zip(names, CELLS, strict=True)}
    assert found | told == expected


def test_values_of_other_types_are_converted_or_told(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES (1, 2D, 1.50BD, true), (2, 2.5D, 2.00BD, false), "
        "(3, double('nan'), 1.00BD, true), (4, 1e300D, 4.00BD, true) AS t(n, d, p, b)"
    )
    integers = {"d": Type.INTEGER, "p": Type.INTEGER}
    good, bad = publications_from(frame, integers, id="n")
    assert good.count() == 0
    assert [(row["n"], row["reason"]) for row in bad.orderBy("n").collect()] == [
        (1, "p: '1.50' is no integer"),
        (2, "d: '2.5' is no integer"),
        (3, "d: 'NaN' is no integer"),
        (4, "d: '1.0E300' does not fit into 64 bits"),
    ]
    good, bad = publications_from(frame, {"b": Type.INTEGER}, id="n")
    assert {row["reason"] for row in bad.collect()} == {
        "b: 'true' is no integer", "b: 'false' is no integer",
    }  # fmt: skip
    rows = attributes(ordered(publications_from(frame, {"p": "number", "b": "string"}).rows, "id"))
    assert rows[:2] == [{"p": 1.5, "b": "true"}, {"p": 2.0, "b": "false"}]


# --- files that cannot be used at all


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("q.csv", "", "the file is empty"),
        ("q.csv", "\n", "the file has no header"),
        ("q.csv", "a,,c\n", "column 2 has no name"),
        ("q.csv", "a,b,a\n", "two columns are called 'a'"),
        ("q.csv", '"a', "the header cannot be read"),
        ("q.csv", f"{'a' * 300}\n1\n", "expected 1 to 255 characters"),
        ("q.txt", "a\n", "expected a name that ends in .csv or .parquet"),
        ("q.parquet", "a", "Spark cannot read the file"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    spark: SparkSession, tmp_path: Path, name: str, text: str, told: str
) -> None:
    file = write(tmp_path / name, text)
    with pytest.raises(TableError) as caught:
        plan_load(spark, "publications", [file], ImportOptions())
    assert str(caught.value).startswith(f"{file}: ")
    assert told in str(caught.value)


def test_columns_that_cannot_be_used_are_told(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[1]]}), tmp_path / "q.parquet")

    def refused(kind: Any, files: list[Path], told: str, **options: Any) -> None:
        with pytest.raises(TableError, match=told):
            plan_load(spark, kind, files, ImportOptions(**options))

    told = r"column 'a' is array<bigint>, .*; declare its type, string or"
    refused("publications", [tmp_path / "q.parquet"], told)
    file = write(tmp_path / "f.csv", "a,b\n")
    refused("subscriptions", [file], r"there is no column 'filter'; .* of a, b")
    refused("publications", [file], "no column 'x'; it has a, b", types={"x": Type.SKIP})
    (tmp_path / "empty").mkdir()
    refused("publications", [tmp_path / "empty"], r"holds no \.csv or \.parquet file")
    file = write(tmp_path / "g.csv", "filter,a\n")
    typed = {"a": Type.STRING}
    refused("subscriptions", [file], "column 'a' has a type, but only public", types=typed)
    refused("publications", [file], "column 'filter' has filters, but only", filter="filter")
    files = [
        write(tmp_path / "a.csv", "n,filter\n1,a = 1\n"),
        write(tmp_path / "b.csv", "filter\n"),
    ]
    told = f"{files[1]}: there is no column 'n' with numbers; every file needs it, and this one has"
    refused("subscriptions", files, told, id="n")


def test_files_that_are_not_read_are_named(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("a.csv", "b.CSV", "sub/c.Parquet", "d.csv.gz", "_e.csv", ".f.csv", "sub/g.txt")
    (tmp_path / "sub").mkdir()
    for name in names:
        write(tmp_path / name, "a\n1\n")
    pq.write_table(pa.table({"a": [7]}), tmp_path / "sub/c.Parquet")
    plan = plan_load(spark, "publications", [tmp_path, tmp_path / "a.csv"], ImportOptions())
    read, skipped = ([str(tmp_path / name) for name in n] for n in (
        ("a.csv", "b.CSV", "sub/c.Parquet"), ("d.csv.gz", "sub/g.txt"),
    ))  # fmt: skip
    assert (plan.files, plan.skipped) == (read, skipped)
    assert caplog.messages == [f"files that are not read: {', '.join(skipped)}"]


# --- by the command


def pipeline(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.usefixtures("spark")
def test_rows_are_counted_through_all_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a.csv", "symbol,price\nIBM,1\nHP,2\n")
    pq.write_table(pa.table({"symbol": ["SUN"], "size": [4]}), tmp_path / "in/b.parquet")
    write(tmp_path / "in/c.csv", "price\n3\nx\n")
    out = tmp_path / "out"
    typed = ("--type", "price=number")
    done = pipeline("import", "publications", tmp_path / "in", "--out", out, *typed)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"publications: 4 rows in {out}/publications",
        "types: symbol string, price number, size integer",
        f"rejected: 1 rows in {out}/publications_rejects",
        f"  {tmp_path}/in/c.csv:2: price: 'x' is no number",
    ]
    rows = pq.read_table(out / "publications").to_pylist()
    assert sorted((row["id"], dict(row["strings"]).get("symbol")) for row in rows) == [
        (1, "IBM"), (2, "HP"), (3, "SUN"), (4, None),
    ]  # fmt: skip
    (reject,) = pq.read_table(out / "publications_rejects").to_pylist()
    assert (reject["file"], reject["row"]) == (f"{tmp_path}/in/c.csv", 2)
    done = pipeline("import", "publications", tmp_path / "in/a.csv", "--out", out, "--json")
    assert (done.exit_code, json.loads(done.stdout)["rejected"]) == (0, 0)
    assert pq.read_table(out / "publications_rejects").num_rows == 0


@pytest.mark.usefixtures("spark")
def test_a_workload_takes_the_place_of_imported_tables_and_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "w"
    file = write(tmp_path / "f.csv", "filter\na = 1\na =\n")
    assert pipeline("import", "subscriptions", file, "--out", place).exit_code == 1
    made = pipeline("workload", "dt1", "--size", 5, "--publications", 5, "--out", place)
    assert made.exit_code == 0
    assert pq.read_table(place / "subscriptions_rejects").num_rows == 0
    done = pipeline("import", "subscriptions", file, "--out", place)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{place}: holds a workload, which the table `workload` desc")
    assert pq.read_table(place / "subscriptions").num_rows == 5


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--type", "a=text"), "--type a=text: expected COLUMN=TYPE, the type one of integer,"),
        (("--delimiter", ";;"), "--delimiter ';;': expected one character"),
        ((), "{}/nowhere.csv: there is no such file or directory"),
    ],
)
def test_the_command_refuses(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    file = tmp_path / "nowhere.csv"
    done = pipeline("import", "publications", file, "--out", tmp_path, *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(told.format(tmp_path))
