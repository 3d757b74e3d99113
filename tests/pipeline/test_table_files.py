"""Tables come back as they were written; a file that cannot be read is named with the reason."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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
    below,
    check_file,
    clear_table,
    files_of,
    place_of,
    read_table,
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
    found = spark.read.parquet(str(tmp_path / "control"))
    assert found.dtypes == [(column.name, column.type) for column in CONTROL.columns]


def test_a_table_without_rows_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    write_table(spark.createDataFrame([], CONTROL.ddl()), CONTROL, tmp_path / "control")
    assert read_table(spark, CONTROL, tmp_path / "control").collect() == []


def test_a_table_is_replaced_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    for rows in (ROWS, ROWS[:1]):
        written = spark.createDataFrame(rows, CONTROL.ddl()).repartition(2)
        write_table(written, CONTROL, tmp_path / "control")
    assert list(map(tuple, read_table(spark, CONTROL, tmp_path / "control").collect())) == ROWS[:1]


def test_a_write_that_fails_leaves_no_table(spark: SparkSession, tmp_path: Path) -> None:
    good = spark.createDataFrame(ROWS, CONTROL.ddl())
    write_table(good, CONTROL, tmp_path / "control")
    with pytest.raises(PySparkException):
        write_table(
            good.withColumn("bytes", F.raise_error(F.lit("no"))), CONTROL, tmp_path / "control"
        )
    with pytest.raises(TableError, match="it holds no complete file of a control table"):
        read_table(spark, CONTROL, tmp_path / "control")


def test_a_table_that_is_not_complete_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, CONTROL.ddl())
    write_table(frame, CONTROL, tmp_path / "[x]")
    (tmp_path / "[x]" / "_temporary" / "0").mkdir(parents=True)
    with pytest.raises(TableError, match="the table is not complete: it is being written"):
        read_table(spark, CONTROL, tmp_path / "[x]")
    write_table(frame, CONTROL, tmp_path / "[x]")
    assert read_table(spark, CONTROL, tmp_path / "[x]").count() == 2


WRITER = """
import sys, time
from byway.pipeline.schemas import CONTROL
from byway.pipeline.spark_session import open_session
from byway.pipeline.table_files import write_table

def rows(batches):
    for batch in batches:
        if "slow" in batch.column("run").to_pylist():
            open(mark, "w").close()
            time.sleep(600)
        yield batch

place, mark = sys.argv[1:]
with open_session("local[1]", settings={"spark.driver.memory": "512m"}) as spark:
    names = [("fast", "adv", 1, 2, 3), ("slow", "adv", 1, 2, 3)]
    frame = spark.createDataFrame(names, CONTROL.ddl()).repartitionByRange(2, "run")
    write_table(frame.mapInArrow(rows, frame.schema), CONTROL, place)
"""


def java_of(process: int) -> int:
    """The JVM that a process has started: it is the driver."""
    (java,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(java)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_table_whose_writer_was_killed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """One of its two tasks is done by then."""
    mark = tmp_path / "mark"
    with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "control", mark]) as writer:
        try:
            for _ in range(4_000):
                if mark.exists() or writer.poll() is not None:
                    break
                time.sleep(0.1)
            os.kill(java_of(writer.pid), signal.SIGKILL)
        finally:
            writer.kill()
    assert list((tmp_path / "control").rglob("part-*"))
    with pytest.raises(TableError, match="the table is not complete: it is being written"):
        read_table(spark, CONTROL, tmp_path / "control")
    write_table(spark.createDataFrame(ROWS, CONTROL.ddl()), CONTROL, tmp_path / "control")
    assert read_table(spark, CONTROL, tmp_path / "control").count() == 2


def test_jobs_write_beside_one_another(spark: SparkSession, tmp_path: Path) -> None:
    def write(number: int) -> None:
        frame = spark.createDataFrame([("r", "adv", number, 2, 3)] * 50, CONTROL.ddl())
        write_table(frame.repartition(2), CONTROL, tmp_path / f"control{number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    for number in range(4):
        found = read_table(spark, CONTROL, tmp_path / f"control{number}").select("messages")
        assert [row["messages"] for row in found.collect()] == [number] * 50


# --- places -----------------------------------------------------------------------------------


def test_places_are_paths_of_any_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of("s3a://bucket/w") == "s3a://bucket/w"
    assert place_of("hdfs:/w") == "hdfs:/w"
    assert place_of("catalog:db.t") == "catalog:db.t"
    assert place_of("w/../v") == place_of(Path("v")) == f"{tmp_path}/v"
    assert place_of("a:b") == f"{tmp_path}/a:b"
    assert below("s3a://bucket/w/", "t") == "s3a://bucket/w/t"
    assert below(Path("w"), "t") == "w/t"
    assert below("catalog:db", "t") == "catalog:db.t"
    assert below("catalog:", "t") == "catalog:t"


def test_tables_are_written_to_any_filesystem(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, CONTROL.ddl())
    for place in (f"file://{tmp_path}/control", "viewfs://tests/tables/control"):
        write_table(frame, CONTROL, place)
        assert sorted(map(tuple, read_table(spark, CONTROL, place).collect())) == ROWS
    assert (tmp_path / "control").is_dir()
    clear_table(spark, CONTROL, "viewfs://tests/tables/control")
    assert read_table(spark, CONTROL, "viewfs://tests/tables/control").count() == 0


def test_tables_of_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE measured LOCATION '{tmp_path}/measured'")
    try:
        place = below("catalog:measured", "control")
        for rows in (ROWS, ROWS[:1]):
            write_table(spark.createDataFrame(rows, CONTROL.ddl()), CONTROL, place)
        assert list(map(tuple, read_table(spark, CONTROL, place).collect())) == ROWS[:1]
        with pytest.raises(TableError, match=r"catalog:measured.control: expected a summary table"):
            read_table(spark, SUMMARY, place)
        with pytest.raises(TableError, match="the catalog has no such table"):
            read_table(spark, CONTROL, "catalog:measured.other")
        with pytest.raises(TableError, match="the catalog has no such database"):
            write_table(spark.createDataFrame(ROWS, CONTROL.ddl()), CONTROL, "catalog:other.t")
    finally:
        spark.sql("DROP DATABASE measured CASCADE")


def test_a_place_that_spark_cannot_reach_is_named(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, CONTROL.ddl())
    (tmp_path / "file").touch()
    for place, told in (
        ("s3a://bucket/w", "cannot read or write there (Class org.apache.hadoop.fs.s3a.S3AFile"),
        ("nil://bucket/w", 'cannot read or write there (No FileSystem for scheme "nil"'),
        (str(tmp_path / "file/t"), "cannot be written (Parent path is not a directory"),
    ):
        with pytest.raises(TableError) as caught:
            write_table(frame, CONTROL, place)
        assert told in str(caught.value)
        assert caught.value.path == place
        with pytest.raises(TableError):
            read_table(spark, CONTROL, place)


def test_tables_that_spark_wrote_are_read(spark: SparkSession, tmp_path: Path) -> None:
    narrow = "bytes int, run string, kind string, messages smallint, entries bigint"
    rows = [(3, "r", "adv", 1, 2), (6, "r", "sub", 4, 5)]
    spark.createDataFrame(rows, narrow).write.partitionBy("kind").parquet(str(tmp_path / "t"))
    found = read_table(spark, CONTROL, tmp_path / "t")
    assert found.dtypes == [(column.name, column.type) for column in CONTROL.columns]
    assert sorted(map(tuple, found.collect())) == ROWS


def told(spark: SparkSession, table: TableSchema, path: Path) -> str:
    with pytest.raises(TableError) as caught:
        read_table(spark, table, path)
    return caught.value.reason


def test_tables_of_others_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, CONTROL.ddl())
    place = tmp_path / "t"
    write_table(frame, CONTROL, place)
    newer = CONTROL._replace(version=CONTROL.version + 1)
    assert told(spark, newer, place).endswith("written by an older byway; make it again")
    write_table(frame, newer, place)
    assert told(spark, CONTROL, place).endswith("it was written by a newer byway")
    for changed, reason in (
        (frame.drop("bytes"), "expected a control table, but columns are missing: bytes"),
        (frame.withColumn("more", F.lit(1)), "unknown columns: more; expected run, kind, messag"),
        (frame.withColumn("bytes", F.lit(1.0)), "column bytes is double, expected bigint"),
    ):
        changed.write.mode("overwrite").parquet(str(place))
        assert told(spark, CONTROL, place).startswith(reason)


def test_a_damaged_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "part.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(TableError, match=r"part\.parquet: Spark cannot read the file .*magic"):
        read_table(spark, CONTROL, tmp_path)
    with pytest.raises(TableError, match="there is no such file or directory"):
        read_table(spark, CONTROL, tmp_path / "nowhere")


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
    return max(directory.rglob("*.parquet"))


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
    with pytest.raises(TableError, match=r"Spark reads no file with a colon in its name, .*x:y"):
        read_table(spark, TRACE, tmp_path)


def test_a_file_that_is_named_twice_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = trace_file(tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    assert read_table(spark, TRACE, tmp_path, file, "one/../one", str(tmp_path)).count() == 1


def test_a_table_is_cleared_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("control", "mine"):
        write_table(spark.createDataFrame(ROWS, CONTROL.ddl()), CONTROL, tmp_path / name)
    for name in ("control", "nowhere"):
        clear_table(spark, CONTROL, tmp_path / name)
    clear_table(spark, SUMMARY, tmp_path / "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["control", "mine"]
    assert read_table(spark, CONTROL, tmp_path / "control").count() == 0
    assert read_table(spark, CONTROL, tmp_path / "mine").count() == 2


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
