"""Which files and rows of a directory of traces Spark reads."""

import re
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from byway.pipeline.failures import explained
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import TRACE
from byway.pipeline.traces import analyse, compact, computed_once, read_traces
from byway.pipeline.traces.trace_reading import FOOTERS_MAX
from byway.trace import TraceBuffer, TraceWriter
from byway.trace.trace_directories import DAY_US, listed

DAY = 20_775  # 2026-11-18
NOON_US = DAY * DAY_US + DAY_US // 2


def write(root: Path, times: list[int], run: str = "r[1] %x", broker: str = "A") -> None:
    """A file for each time."""
    buffer = TraceBuffer(broker)
    with TraceWriter(root, run, broker) as writer:
        for number, t_us in enumerate(times):
            buffer.published(t_us, "p", 1, number, t_us, matches=0, copies=0, size_bytes=1)
            writer.write(buffer.drain())
            writer.flush()


def times(frame: DataFrame) -> list[int]:
    return sorted(row["t_us"] for row in frame.select("t_us").collect())


def files_read(frame: DataFrame) -> int:
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return int(leaves.head().metrics().apply("numFiles").value())


def error_of(frame: DataFrame) -> TableError:
    try:
        frame.collect()
    except Exception as failure:
        error = explained(failure)
        assert isinstance(error, TableError)
        return error
    pytest.fail("it could be read")


def test_days_are_left_out_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    days = [NOON_US + n * DAY_US for n in range(-3, 4)]
    write(tmp_path, days)
    found = read_traces(
        spark, tmp_path, since=datetime(2026, 11, 18, 12), until=datetime(2026, 11, 20, 12)
    )
    assert times(found) == [NOON_US, NOON_US + DAY_US]
    assert files_read(found) == 3
    assert times(read_traces(spark, tmp_path, until=datetime(2026, 11, 18))) == days[:3]
    assert files_read(read_traces(spark, tmp_path, until=datetime(2026, 11, 18))) == 3


def test_files_without_a_day_are_read_by_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "x", [NOON_US, NOON_US + DAY_US])
    flat = tmp_path / "flat"
    flat.mkdir()
    for number, file in enumerate(listed(tmp_path / "x")):
        file.rename(flat / f"trace-{number:05}.parquet")
    write(tmp_path, [NOON_US + 1])
    found = read_traces(spark, tmp_path, until=datetime(2026, 11, 19))
    assert times(found) == [NOON_US, NOON_US + 1]


@pytest.mark.parametrize("keep_s", [3_600.0, 0.0])
def test_a_compacted_trace_is_the_same(spark: SparkSession, tmp_path: Path, keep_s: float) -> None:
    for broker in ("A", "B"):
        write(tmp_path, [NOON_US, NOON_US + 1, NOON_US + DAY_US], broker=broker)
    before = read_traces(spark, tmp_path)
    expected = analyse(before).summary.collect()
    told: list[tuple[int, int, str]] = []
    done = compact(spark, tmp_path, keep_s=keep_s, progress=lambda *facts: told.append(facts))
    assert told[-1] == (2, 2, "merging")
    assert (done.merged, done.into, done.rows) == (6, 2, 6)
    assert done.removed == (0 if keep_s else 6)
    after = read_traces(spark, tmp_path)
    assert analyse(after).summary.collect() == expected
    assert files_read(after.select("t_us")) == 2
    if keep_s:  # who listed the files before reads them still
        assert analyse(before).summary.collect() == expected
    assert compact(spark, tmp_path, keep_s=keep_s)[:2] == (0, 0)


def test_a_place_that_is_not_here_cannot_be_compacted(spark: SparkSession, tmp_path: Path) -> None:
    for place, reason in (
        ("s3a://bucket/traces", "this machine and all workers mount"),
        (tmp_path / "nowhere", "there is no such directory"),
    ):
        with pytest.raises(TableError, match=reason) as caught:
            compact(spark, place)
        assert caught.value.path == str(place)


def test_a_foreign_file_among_many_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The driver looks at a few footers; the others are looked at when Spark reads them."""
    write(tmp_path, [NOON_US + n for n in range(FOOTERS_MAX + 2)])
    foreign = tmp_path / "run=z" / "date=2026-11-18" / "trace z.parquet"
    foreign.parent.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), foreign)
    frame = read_traces(spark, tmp_path)
    for table in (analyse(frame).summary, analyse(frame).trees, analyse(frame).sizes):
        error = error_of(table)
        assert error.path == str(foreign)
        assert error.reason == "expected a trace, but its rows have no event"


def test_a_truncated_file_among_many_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [NOON_US + n for n in range(FOOTERS_MAX + 2)])
    bad = listed(tmp_path)[-1]
    bad.write_bytes(bad.read_bytes()[:-9])
    error = error_of(analyse(read_traces(spark, tmp_path)).summary)
    assert error.path == str(bad)


def test_the_first_files_are_looked_at_before_spark_reads(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, [NOON_US, NOON_US + 1])
    bad = listed(tmp_path)[-1]
    table = pq.read_table(bad)
    pq.write_table(table.replace_schema_metadata({"byway.trace.version": "99"}), bad)
    with pytest.raises(TableError, match="it was written by a newer byway") as caught:
        read_traces(spark, tmp_path)
    assert caught.value.path == str(bad)


def test_files_that_nothing_replaces_are_not_looked_at(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver looks at a few footers, however many files there are."""
    looked = []
    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: looked.append(path) or is_file(path))
    write(tmp_path, [NOON_US + n for n in range(FOOTERS_MAX + 20)])
    assert read_traces(spark, tmp_path).count() == FOOTERS_MAX + 20
    assert len([path for path in looked if path.suffix == ".parquet"]) == FOOTERS_MAX


def test_a_place_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [NOON_US, NOON_US + 1])
    (file, _) = listed(tmp_path)
    assert read_traces(spark, tmp_path, file, f"{tmp_path}/", file.parent).count() == 2
    assert read_traces(spark, file, file).columns == TRACE.names


def test_all_tables_together_scan_the_trace_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Once for what is cached, once for `trees`; `edges` would be a third scan."""
    write(tmp_path, [NOON_US])
    with computed_once(read_traces(spark, tmp_path)) as tables:
        plans = {
            name: frame._jdf.queryExecution().optimizedPlan().toString()
            for name, frame in tables._asdict().items()
        }
    of_files = {
        name: len(re.findall(r"(?<!InMemory)Relation \[", plan)) for name, plan in plans.items()
    }
    assert {name for name, plan in plans.items() if "InMemoryRelation" not in plan} == {"edges"}
    assert {name: scans for name, scans in of_files.items() if scans} == {"trees": 1, "edges": 1}


def test_tables_have_their_declared_columns(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [NOON_US])
    tables = analyse(read_traces(spark, tmp_path))
    assert [table.name for table in tables.by_schema()] == list(tables._fields)
    for table, frame in tables.by_schema().items():
        declared = table.spark_schema()
        assert frame.columns == declared.names, table.name
        assert [f.dataType for f in frame.schema] == [f.dataType for f in declared], table.name
