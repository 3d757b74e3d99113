"""Tables come back as they were written; a file that cannot be read is named with the reason."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from byway.model.trace_schema import TraceEvent
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import CONTROL, METRICS, SUMMARY, TRACE, Column, ColumnType, TableSchema
from byway.pipeline.table_files import (
    check_file,
    checked_files,
    files_of,
    read_table,
    remove_table,
    write_file,
    write_table,
)
from byway.trace import TraceBuffer, TraceWriter
from tests.pipeline.trace_rows import collected, frame, row

ROWS = [("r", "adv", 1, 2, 3), ("r", "sub", 4, 5, 6)]


def write_rows(path: Path, table: TableSchema = CONTROL) -> Path:
    columns = zip(*ROWS, strict=True)
    data = dict(zip(CONTROL.names, columns, strict=True))
    data |= {name: ("?",) * len(ROWS) for name in table.names[len(CONTROL.names) :]}
    write_file(pa.table(data, table.arrow_schema()), path)
    return path


def reason(table: TableSchema, path: Path) -> str:
    with pytest.raises(TableError) as caught:
        check_file(table, path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("table", [TRACE, SUMMARY, METRICS], ids=lambda table: str(table.name))
def test_both_schemas_say_the_same(table: TableSchema) -> None:
    assert table.spark_schema().names == table.arrow_schema().names == table.names
    assert len(set(table.names)) == len(table.names)


def test_a_table_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    shuffled = spark.createDataFrame(ROWS, CONTROL.ddl()).select(*reversed(CONTROL.names))
    write_table(shuffled.repartition(3), CONTROL, tmp_path / "control")
    found = read_table(spark, CONTROL, tmp_path / "control")
    assert found.columns == CONTROL.names
    assert sorted(map(tuple, found.collect())) == ROWS
    assert [path.name for path in tmp_path.iterdir()] == ["control"]


def test_values_are_cast_to_the_declared_types(spark: SparkSession, tmp_path: Path) -> None:
    narrow = "run string, kind string, messages int, entries int, bytes int"
    write_table(spark.createDataFrame(ROWS, narrow), CONTROL, tmp_path / "control")
    for file in files_of(CONTROL, tmp_path / "control"):
        check_file(CONTROL, file)


def test_a_table_without_rows_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    write_table(spark.createDataFrame([], CONTROL.ddl()), CONTROL, tmp_path / "control")
    assert read_table(spark, CONTROL, tmp_path / "control").collect() == []


def test_a_table_is_replaced_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    for rows in (ROWS, ROWS[:1]):
        written = spark.createDataFrame(rows, CONTROL.ddl()).repartition(2)
        write_table(written, CONTROL, tmp_path / "control")
    assert list(map(tuple, read_table(spark, CONTROL, tmp_path / "control").collect())) == ROWS[:1]


def test_a_write_that_fails_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    good = spark.createDataFrame(ROWS, CONTROL.ddl())
    write_table(good, CONTROL, tmp_path / "control")
    with pytest.raises(PySparkException):
        write_table(
            good.withColumn("bytes", F.raise_error(F.lit("no"))), CONTROL, tmp_path / "control"
        )
    found = read_table(spark, CONTROL, tmp_path / "control").collect()
    assert sorted(map(tuple, found)) == ROWS


# --- files that cannot be read ----------------------------------------------------------------


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "part.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert reason(CONTROL, path).startswith("the file is truncated: it ends after")


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    path.write_text("hello")
    assert reason(CONTROL, path) == "expected a control table, but this is no Parquet file"


def test_a_damaged_footer_is_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "part.parquet")
    content = bytearray(path.read_bytes())
    content[-200:-8] = bytes(192)
    path.write_bytes(content)
    assert reason(CONTROL, path).startswith("the file is damaged")


def test_another_table_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "part.parquet")
    assert reason(SUMMARY, path) == (
        "expected a summary table, but its metadata has no 'byway.summary.version'"
    )


@pytest.mark.parametrize(
    ("written", "expected", "told"),
    [(1, 2, "older byway; make it again"), (3, 2, "a newer byway")],
)
def test_another_version_is_refused(tmp_path: Path, written: int, expected: int, told: str) -> None:
    path = write_rows(tmp_path / "part.parquet", CONTROL._replace(version=written))
    found = reason(CONTROL._replace(version=expected), path)
    assert found.startswith(f"has schema version {written}, expected {expected}: ")
    assert found.endswith(told)


EXTRA = Column("extra", ColumnType.STRING, True, "more")


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    wider = CONTROL._replace(columns=(*CONTROL.columns, EXTRA))
    path = write_rows(tmp_path / "part.parquet", wider)
    assert reason(CONTROL, path) == (
        "unknown columns: extra; expected run, kind, messages, entries, bytes"
    )


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "part.parquet")
    wider = CONTROL._replace(columns=(*CONTROL.columns, EXTRA))
    assert reason(wider, path) == "columns are missing: extra"


def test_another_type_is_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "part.parquet")
    text = CONTROL.columns[2]._replace(type=ColumnType.STRING)
    changed = CONTROL._replace(columns=(*CONTROL.columns[:2], text, *CONTROL.columns[3:]))
    assert reason(changed, path) == "column messages is int64, expected string"


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="there is no such file or directory"):
        files_of(CONTROL, tmp_path / "nowhere")
    (tmp_path / ".part.parquet.partial").touch()
    with pytest.raises(TableError, match=r"holds no \.parquet file of a control table"):
        files_of(CONTROL, tmp_path)


# --- traces are read leniently ----------------------------------------------------------------


def trace_file(directory: Path) -> Path:
    buffer = TraceBuffer(broker="A")
    buffer.delivered(1_010, ["ann"], "ticker", 1, 1, 1_000, hop=0, distance=0, size_bytes=64)
    with TraceWriter(directory, run="r1") as writer:
        writer.write(buffer.drain())
    return max(directory.glob("*.parquet"))


def test_a_trace_is_read_below_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    trace_file(tmp_path / "one")
    trace_file(tmp_path / "two")
    delivered = row(
        TraceEvent.DELIVERED, run="r1", t_us=1_010, t_pub_us=1_000, publisher="ticker",
        client="ann", size_bytes=64,
    )  # fmt: skip
    expected = collected(frame(spark, [delivered, delivered]), "run")
    assert collected(read_table(spark, TRACE, tmp_path), "run") == expected


@pytest.mark.parametrize(
    ("name", "sibling"),
    [
        ("run[1]", "run1"),
        ("{a,b}", "a"),
        ("ru*", "rust"),
        ("r?", "rx"),
        ("a\\b", "ab"),
        ("a:[b]", "c"),
    ],
)
def test_a_path_is_no_pattern(spark: SparkSession, tmp_path: Path, name: str, sibling: str) -> None:
    found = trace_file(tmp_path / name)
    found = found.rename(found.with_name("x[y].parquet"))
    trace_file(tmp_path / sibling)
    trace_file(tmp_path / sibling)
    assert read_table(spark, TRACE, found.parent).count() == 1
    write_table(read_table(spark, TRACE, found), TRACE, tmp_path / "out" / name)
    assert read_table(spark, TRACE, tmp_path / "out" / name).count() == 1


def test_a_file_with_a_colon_in_its_name_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    file = trace_file(tmp_path)
    file = file.rename(file.with_name("x:y.parquet"))
    with pytest.raises(TableError, match=r"x:y\.parquet: Spark reads no file with a colon"):
        read_table(spark, TRACE, tmp_path)


def test_a_file_that_is_named_twice_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = trace_file(tmp_path / "one")
    (tmp_path / "two").symlink_to("one")
    monkeypatch.chdir(tmp_path)
    paths = (tmp_path, file, "one/../one", tmp_path / "two")
    assert checked_files(TRACE, *paths) == [file]
    assert read_table(spark, TRACE, *paths).count() == 1


def test_a_table_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("control", "mine"):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "part.parquet")
    (tmp_path / "mine" / "notes.parquet").write_text("mine")
    for name in ("control", "mine", "nowhere"):
        remove_table(CONTROL, tmp_path / name)
    remove_table(SUMMARY, tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_columns_a_trace_should_not_have_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    table = pq.read_table(path)
    pq.write_table(table.append_column("mood", pa.array(["good"])), path)
    assert read_table(spark, TRACE, path).columns == TRACE.names


def test_columns_an_older_trace_does_not_have_are_null(spark: SparkSession, tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    later = TRACE._replace(version=TRACE.version + 1, columns=(*TRACE.columns, EXTRA))
    (found,) = read_table(spark, later, path).collect()
    assert (found["client"], found["extra"]) == ("ann", None)


def test_a_trace_of_a_later_byway_is_refused(tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"byway.trace.version": b"2"}), path)
    told = reason(TRACE, path)
    assert told == "has schema version 2, expected up to 1: it was written by a newer byway"
