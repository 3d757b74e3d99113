"""Tables of one's own: what is read as what, and that no row is lost on the way."""

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.pipeline.importing import ImportOptions, Type, plan_load
from byway.pipeline.importing.loading import ImportPiece, LoadResult, load_file
from byway.pipeline.importing.types import CellError, inferred, value_of
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import check_file
from byway.pipeline.workload_schemas import PUBLICATIONS, REJECTS, SUBSCRIPTIONS

QUOTES = """\
symbol,open,volume,late
YHOO,18.37,6200,true
IBM,20,100,false

MSFT,,,
ORCL,20
"say ""ah"",
please",1e3,7,FALSE
HP,4,9.5,true
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class Read:
    """What became of one file, without Spark."""

    def __init__(self, kind: Any, file: Path, **options: Any) -> None:
        plan = plan_load(kind, [file], ImportOptions(**options))
        rows, rejects = file.with_suffix(".rows"), file.with_suffix(".rejects")
        self.plan = plan
        self.told: LoadResult = load_file(
            plan, ImportPiece(plan.files[0], 1, str(rows), str(rejects))
        )
        check_file(PUBLICATIONS if kind == "publications" else SUBSCRIPTIONS, rows)
        check_file(REJECTS, rejects)
        self.rows = pq.read_table(rows).to_pylist()
        self.rejects = pq.read_table(rejects).to_pylist()
        assert (self.told.rows, self.told.rejected) == (len(self.rows), len(self.rejects))

    def attributes(self) -> list[dict[str, Any]]:
        names = ("integers", "numbers", "strings", "booleans")
        return [{k: v for name in names for k, v in row[name]} for row in self.rows]

    def reasons(self) -> list[tuple[int, int | None, str]]:
        return [(reject["row"], reject["line"], reject["reason"]) for reject in self.rejects]


def test_a_table_of_quotes(tmp_path: Path) -> None:
    read = Read("publications", write(tmp_path / "q.csv", QUOTES), types={"volume": Type.INTEGER})
    assert read.plan.layout.attributes == {
        "symbol": Type.STRING,
        "open": Type.NUMBER,
        "volume": Type.INTEGER,
        "late": Type.BOOLEAN,
    }
    assert [row["id"] for row in read.rows] == [1, 2, 3, 5]
    assert read.attributes() == [
        {"volume": 6200, "open": 18.37, "symbol": "YHOO", "late": True},
        {"volume": 100, "open": 20.0, "symbol": "IBM", "late": False},
        {"symbol": "MSFT"},
        {"volume": 7, "open": 1000.0, "symbol": 'say "ah",\nplease', "late": False},
    ]
    assert read.reasons() == [
        (4, 6, "2 cells, expected 4"),
        (6, 9, "volume: '9.5' is no integer"),
    ]
    assert read.rejects[0]["content"] == "ORCL,20"
    assert read.told.shown[0] == f"{tmp_path}/q.csv:6: 2 cells, expected 4"


def test_a_quote_that_is_never_closed_is_told(tmp_path: Path) -> None:
    read = Read("publications", write(tmp_path / "q.csv", 'a\n1\n"2\n3\n4\n'))
    assert read.attributes() == [{"a": 1}]
    assert read.reasons() == [(2, 5, "lines 3 to 5: not CSV (unexpected end of data)")]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_bytes(b"\xef\xbb\xbfa,b\nx,1\n\xff,2\n")
    read = Read("publications", file, delimiter=",")
    assert read.attributes() == [{"a": "x", "b": 1}]
    ((row, line, reason),) = read.reasons()
    assert (row, line) == (2, 3)
    assert reason.startswith("a: '\\udcff' is not valid Unicode text")
    assert read.rejects[0]["content"] == "?,2"


def test_parquet_says_what_its_columns_hold(tmp_path: Path) -> None:
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
    read = Read("publications", file, types=types)
    assert read.reasons() == [(1, None, "large: '9223372036854775808' does not fit into 64 bits")]
    first, second = read.attributes()
    assert first.pop("real") != 0  # it is not a number
    assert first == {"small": 2, "large": 5, "word": "b", "day": "2024-01-02", "price": 2.0}
    assert second == {"large": 6, "word": "a", "flag": False, "day": "2024-01-02"}
    assert read.plan.unread == ("extra",)


def test_filters_are_parsed(tmp_path: Path) -> None:
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
    read = Read("subscriptions", file, id="number")
    assert read.rows == [
        {"id": 7, "broker": None, "filter": "price > 18"},
        {"id": 9, "broker": None, "filter": "[class,=,'STOCK'],[price,>,18]"},
    ]
    assert read.plan.unread == ("where",)
    assert [reason for _, _, reason in read.reasons()] == [
        "filter: at character 8: expected a number, a quoted string, TRUE or FALSE, found the end",
        "number: 'x' is no integer",
        "number: it has no number",
        "filter: there is no filter",
    ]
    placed = Read("subscriptions", file, broker="where", filter="filter")
    assert [row["broker"] for row in placed.rows] == ["B1", None, "B2", None]
    assert [row["id"] for row in placed.rows] == [1, 3, 4, 5]


def test_a_table_of_one_column_needs_no_name(tmp_path: Path) -> None:
    read = Read("subscriptions", write(tmp_path / "f.csv", "asks for\na = 1\nb = 2\n"))
    assert [row["filter"] for row in read.rows] == ["a = 1", "b = 2"]


@given(st.lists(st.lists(st.text(max_size=8), min_size=2, max_size=2), max_size=20))
def test_no_row_is_lost(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    file = tmp_path_factory.mktemp("rows") / "t.csv"
    with file.open("w", newline="", encoding="utf-8", errors="surrogatepass") as out:
        csv.writer(out).writerows([["a", "b"], *rows])
    read = Read("publications", file, types={"a": Type.STRING, "b": Type.INTEGER})
    numbers = [row["id"] for row in read.rows] + [reject["row"] for reject in read.rejects]
    assert sorted(numbers) == list(range(1, len(rows) + 1))


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


@pytest.mark.parametrize(
    ("cell", "type_", "told"),
    [
        ("1_0", Type.INTEGER, "'1_0' is no integer"),
        (True, Type.INTEGER, "'True' is no integer"),
        (1.5, Type.INTEGER, "'1.5' is no integer"),
        (float("nan"), Type.INTEGER, "'nan' is no integer"),
        ("9" * 5_000, Type.INTEGER, "does not fit into 64 bits"),
        ("1,5", Type.NUMBER, "'1,5' is no number"),
        (True, Type.NUMBER, "'True' is no number"),
        (" 1e999", Type.NUMBER, "' 1e999' is too large for a floating-point number"),
        ("-1e400", Type.NUMBER, "'-1e400' is too large for a floating-point number"),
        ("yes", Type.BOOLEAN, "'yes' is neither true nor false"),
        (1, Type.BOOLEAN, "'1' is neither true nor false"),
        ("x" * 70_000, Type.STRING, "a string may have at most 65536 characters"),
    ],
)
def test_a_cell_that_is_none_is_told(cell: object, type_: Type, told: str) -> None:
    with pytest.raises(CellError) as caught:
        value_of(cell, type_)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("cell", ["inf", "-Infinity", " inf "])
def test_infinity_is_a_number_if_it_is_said(cell: str) -> None:
    assert abs(value_of(cell, Type.NUMBER)) == float("inf")  # type: ignore[arg-type]


# --- files that cannot be used at all


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("q.csv", "", "the file has no header"),
        ("q.csv", "a,,c\n", "column 2 has no name"),
        ("q.csv", "a,b,a\n", "two columns are called 'a'"),
        ("q.csv", '"a', "the header cannot be read"),
        ("q.csv", f"{'a' * 300}\n1\n", "expected 1 to 255 characters"),
        ("q.txt", "a\n", "expected a name that ends in .csv or .parquet"),
        ("q.parquet", "a", "this is no Parquet file, or a damaged one"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    file = write(tmp_path / name, text)
    with pytest.raises(TableError) as caught:
        plan_load("publications", [file], ImportOptions())
    assert str(caught.value).startswith(f"{file}: ")
    assert told in str(caught.value)


def test_columns_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[1]]}), tmp_path / "q.parquet")
    with pytest.raises(TableError, match=r"column 'a' is list<.*; declare its type, string or"):
        plan_load("publications", [tmp_path / "q.parquet"], ImportOptions())
    file = write(tmp_path / "f.csv", "a,b\n")
    with pytest.raises(TableError, match=r"there is no column 'filter'; .* of a, b"):
        plan_load("subscriptions", [file], ImportOptions())
    with pytest.raises(TableError, match="there is no column 'x'; it has a, b"):
        plan_load("publications", [file], ImportOptions(types={"x": Type.SKIP}))
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match=r"holds no \.csv or \.parquet file"):
        plan_load("publications", [tmp_path / "empty"], ImportOptions())


def test_numbers_of_ones_own_are_in_every_file(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.csv", "n,filter\n1,a = 1\n"),
        write(tmp_path / "b.csv", "filter\n"),
    ]
    with pytest.raises(TableError) as caught:
        plan_load("subscriptions", files, ImportOptions(id="n"))
    told = "there is no column 'n' with numbers; every file needs it, and this one has filter"
    assert str(caught.value) == f"{files[1]}: {told}"


def test_what_says_nothing_of_such_rows_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "f.csv", "filter,a\n")
    with pytest.raises(TableError, match="column 'a' has a type, but only publications have attri"):
        plan_load("subscriptions", [file], ImportOptions(types={"a": Type.STRING}))
    with pytest.raises(TableError, match="column 'filter' has filters, but only subscriptions"):
        plan_load("publications", [file], ImportOptions(filter="filter"))


def test_files_that_are_not_read_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("a.csv", "b.CSV", "sub/c.Parquet", "d.csv.gz", "_e.csv", ".f.csv", "sub/g.txt")
    (tmp_path / "sub").mkdir()
    for name in names:
        write(tmp_path / name, "a\n1\n")
    pq.write_table(pa.table({"a": [7]}), tmp_path / "sub/c.Parquet")
    plan = plan_load("publications", [tmp_path], ImportOptions())
    read, skipped = (tuple(str(tmp_path / name) for name in n) for n in (
        ("a.csv", "b.CSV", "sub/c.Parquet"), (".f.csv", "_e.csv", "d.csv.gz", "sub/g.txt"),
    ))  # fmt: skip
    assert (plan.files, plan.skipped) == (read, skipped)
    assert caplog.messages == [f"files that are not read: {', '.join(skipped)}"]
    named = plan_load("publications", [tmp_path, tmp_path / "_e.csv"], ImportOptions())
    assert named.files == (*read, skipped[1])
    assert named.skipped == (skipped[0], *skipped[2:])


def test_many_files_that_are_not_read_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a.csv", "a\n")
    for number in range(8):
        write(tmp_path / f"{number}.txt", "")
    assert len(plan_load("publications", [tmp_path], ImportOptions()).skipped) == 8
    (told,) = caplog.messages
    assert told.endswith(f"{tmp_path}/4.txt and 3 more")


def test_a_file_that_is_named_twice_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "a.csv", "a\n1\n")
    (tmp_path / "b.csv").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    plan = plan_load("publications", [tmp_path, file, Path("a.csv")], ImportOptions())
    assert plan.files == (str(file),)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "q.parquet"
    pq.write_table(pa.table({"a": list(range(100_000))}), file, compression="zstd")
    content = bytearray(file.read_bytes())
    half = len(content) // 2
    content[4:half] = b"\xff" * (half - 4)
    file.write_bytes(content)
    plan = plan_load("publications", [file], ImportOptions())
    told = load_file(
        plan, ImportPiece(str(file), 1, str(tmp_path / "rows"), str(tmp_path / "rejects"))
    )
    assert told.fault is not None
    assert told.fault.startswith("cannot be read to its end")


# --- on Spark


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
        f"  {tmp_path}/in/c.csv:3: price: 'x' is no number",
    ]
    rows = pq.read_table(out / "publications").to_pylist()
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    (reject,) = pq.read_table(out / "publications_rejects").to_pylist()
    assert (reject["file"], reject["row"], reject["line"]) == (f"{tmp_path}/in/c.csv", 2, 3)
    done = pipeline("import", "publications", tmp_path / "in/a.csv", "--out", out, "--json")
    assert (done.exit_code, json.loads(done.stdout)["rejected"]) == (0, 0)
    assert pq.read_table(out / "publications_rejects").num_rows == 0


@pytest.mark.usefixtures("spark")
def test_a_workload_is_left_alone(tmp_path: Path) -> None:
    made = pipeline("workload", "dt1", "--size", 5, "--publications", 5, "--out", tmp_path / "w")
    assert made.exit_code == 0
    file = write(tmp_path / "f.csv", "filter\na = 1\n")
    done = pipeline("import", "subscriptions", file, "--out", tmp_path / "w")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{tmp_path}/w: holds a workload, which workload.json describes")
    assert pq.read_table(tmp_path / "w/subscriptions").num_rows == 5
    assert sorted(path.name for path in (tmp_path / "w").iterdir()) == [
        "publications", "subscriptions", "workload.json",
    ]  # fmt: skip


@pytest.mark.usefixtures("spark")
def test_a_workload_takes_the_place_of_imported_tables(tmp_path: Path) -> None:
    write(tmp_path / "f.csv", "filter\na = 1\na =\n")
    pipeline("import", "subscriptions", tmp_path / "f.csv", "--out", tmp_path / "w")
    pipeline("workload", "dt1", "--size", 5, "--publications", 5, "--out", tmp_path / "w")
    assert sorted(path.name for path in (tmp_path / "w").iterdir()) == [
        "publications", "subscriptions", "workload.json",
    ]  # fmt: skip


@pytest.mark.usefixtures("spark")
def test_files_that_are_not_read_are_in_the_answer(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.csv", "b.csv.gz"):
        write(tmp_path / "in" / name, "a\n1\n")
    out = ("--out", tmp_path / "out", "--json")
    told = json.loads(pipeline("import", "publications", tmp_path / "in", *out).stdout)
    assert (told["rows"], told["skipped"]) == (1, [f"{tmp_path}/in/b.csv.gz"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--type", "a=text"), "--type a=text: expected COLUMN=TYPE, the type one of integer,"),
        (("--delimiter", ";;"), "--delimiter ';;': expected one character"),
        ((), "nowhere.csv: there is no such file or directory"),
    ],
)
def test_the_command_refuses(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    done = pipeline("import", "publications", "nowhere.csv", "--out", tmp_path, *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(told)
