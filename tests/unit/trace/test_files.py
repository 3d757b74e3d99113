"""Trace files: bounded, atomic, the same bytes again, and refused with a reason."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from byway.model import BywayError, TraceError
from byway.model.trace_schema import COLUMNS, SCHEMA_VERSION
from byway.trace import TraceBuffer, TraceWriter, read_trace
from byway.trace.files import ARROW_SCHEMA, DirectoryWriter


def batch(count, start=0, broker="A"):
    buffer = TraceBuffer(broker)
    for number in range(start, start + count):
        buffer.published(1000 + number, f"p{number % 3}", 1, number, 990 + number, 1, 2, 64)
    return buffer.drain()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def file(tmp_path):
    """One sound trace file."""
    with DirectoryWriter(tmp_path, "r1") as writer:
        writer.write(batch(100))
    return tmp_path / "trace-00000.parquet"


def rewritten(file, table, **metadata):
    known = pq.read_schema(file).metadata
    changed = {**known, **{f"byway.trace.{k}".encode(): v for k, v in metadata.items()}}
    pq.write_table(table.replace_schema_metadata(changed), file)


def test_files_and_groups_are_bounded(tmp_path):
    with DirectoryWriter(tmp_path, "r1", rows_per_group=4, rows_per_file=10) as writer:
        writer.write(batch(13))
        assert names(tmp_path) == ["trace-00000.parquet"]  # the rest waits in memory
        writer.write(batch(10, start=13))
    assert names(tmp_path) == [f"trace-0000{n}.parquet" for n in range(3)]
    groups = []
    for path in sorted(tmp_path.iterdir()):
        metadata = pq.read_metadata(path)
        groups.append([metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)])
    assert groups == [[4, 4, 2], [4, 4, 2], [3]]
    assert read_trace(tmp_path)["sequence"].to_pylist() == list(range(23))


def test_a_file_is_hidden_until_it_is_complete(tmp_path):
    writer = DirectoryWriter(tmp_path, "r1", rows_per_group=4)
    writer.write(batch(5))
    assert names(tmp_path) == [".trace-00000.parquet.partial"]
    writer.flush()
    assert names(tmp_path) == ["trace-00000.parquet"]
    assert read_trace(tmp_path).num_rows == 5
    writer.flush()
    writer.close()
    writer.close()
    assert names(tmp_path) == ["trace-00000.parquet"]
    assert repr(writer).endswith("run 'r1', 1 files complete)")


def test_an_error_in_the_run_leaves_its_rows_and_no_partial_file(tmp_path):
    def run():
        with DirectoryWriter(tmp_path, "r1", rows_per_group=4) as writer:
            writer.write(batch(5))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert names(tmp_path) == ["trace-00000.parquet"]
    assert read_trace(tmp_path).num_rows == 5


def test_a_group_that_cannot_be_written_leaves_no_partial_file(tmp_path, monkeypatch):
    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    writer = DirectoryWriter(tmp_path, "r1", rows_per_group=4)
    writer.write(batch(4))
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OSError, match="No space"):
        writer.write(batch(4))
    assert names(tmp_path) == []


def test_a_restart_overwrites_nothing(tmp_path):
    (tmp_path / ".trace-A-00001.parquet.partial").write_bytes(b"left by a crash")
    for start in (0, 5):
        with DirectoryWriter(tmp_path, "r1", "A") as writer:
            writer.write(batch(5, start))
    assert names(tmp_path) == ["trace-A-00000.parquet", "trace-A-00001.parquet"]
    assert read_trace(tmp_path)["sequence"].to_pylist() == list(range(10))


def test_a_broker_name_is_made_fit_for_a_file(tmp_path):
    with DirectoryWriter(tmp_path, "r1", "../é 1") as writer:
        writer.write(batch(1, broker="../é 1"))
    assert names(tmp_path) == ["trace-..%2F%C3%A9%201-00000.parquet"]
    assert read_trace(tmp_path)["broker"].to_pylist() == ["../é 1"]


def test_an_empty_trace_is_a_trace(tmp_path):
    DirectoryWriter(tmp_path / "new" / "place", "r1").close()
    table = read_trace(tmp_path / "new" / "place")
    assert table.num_rows == 0
    assert table.schema == ARROW_SCHEMA


def test_a_trace_with_too_many_rows_is_given_up(tmp_path):
    with TraceWriter(tmp_path, "r", rows_per_group=2, rows_per_file=4, rows_max=10) as writer:
        writer.write(batch(10))
        assert not writer.is_given_up
        assert len(names(tmp_path / "run=r" / "date=1970-01-01")) == 3  # two are complete
        writer.write(batch(1, start=10))
        assert writer.is_given_up
        assert list(tmp_path.rglob("*.parquet*")) == []
        writer.write(batch(5, start=11))
        writer.flush()
    assert writer.rows == 16
    assert list(tmp_path.rglob("*.parquet*")) == []
    with TraceWriter(tmp_path, "r", rows_max=10) as writer:
        writer.write(batch(10))
    assert read_trace(tmp_path).num_rows == 10


def test_the_same_rows_give_the_same_bytes(tmp_path):
    written = []
    for place, parts in (("one", [20]), ("many", [1, 7, 0, 12])):
        start = 0
        with DirectoryWriter(tmp_path / place, "r1", rows_per_group=6) as writer:
            for part in parts:
                writer.write(batch(part, start))
                start += part
        written.append((tmp_path / place / "trace-00000.parquet").read_bytes())
    assert written[0] == written[1]


def test_many_brokers_share_a_writer(tmp_path):
    with DirectoryWriter(tmp_path, "r1") as writer:
        for broker in ("B", "A", "B"):
            writer.write(batch(2, broker=broker))
    table = read_trace(tmp_path)
    assert table["broker"].to_pylist() == list("BBAABB")
    assert set(table["run"].to_pylist()) == {"r1"}


def test_a_file_tells_its_version_run_and_events(file):
    metadata = pq.read_schema(file).metadata
    assert metadata[b"byway.trace.version"] == b"%d" % SCHEMA_VERSION
    assert metadata[b"byway.trace.run"] == b"r1"
    assert metadata[b"byway.trace.events"].startswith(b"1=published,2=received,3=forwarded,")


def test_foreign_columns_are_kept_behind_ours(file):
    table = read_trace(file)
    rewritten(file, table.add_column(0, "rack", pa.array(["x"] * table.num_rows)))
    read = read_trace(file)
    assert read.column_names == [*(c.name for c in COLUMNS), "rack"]
    with DirectoryWriter(file.parent, "r2") as writer:
        writer.write(batch(1))
    assert read_trace(file.parent)["rack"].null_count == 1


def refusal(path):
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert isinstance(caught.value, BywayError)
    assert caught.value.path == str(path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


def test_a_newer_version_is_refused(file):
    rewritten(file, read_trace(file), version=b"2")
    assert refusal(file) == "has schema version 2, this byway reads up to 1"


def test_missing_columns_are_named(file):
    rewritten(file, read_trace(file).drop_columns(["hop", "t_pub_us"]))
    assert refusal(file) == "columns are missing: t_pub_us, hop"


def test_a_column_of_another_type_is_refused(file):
    table = read_trace(file)
    at = table.column_names.index("hop")
    rewritten(file, table.set_column(at, "hop", table["hop"].cast(pa.float64())))
    assert refusal(file) == "column hop is double, expected int32"


@pytest.mark.parametrize("kept", [4, 11, 12, 500, -1])
def test_a_truncated_file_is_refused(file, kept):
    file.write_bytes(file.read_bytes()[:kept])
    whole = len(file.read_bytes())
    assert refusal(file) == f"the file is truncated: it ends after {whole} bytes"


def test_a_changed_byte_is_refused(file):
    content = bytearray(file.read_bytes())
    content[60] ^= 0xFF
    file.write_bytes(content)
    assert refusal(file).startswith("the file is damaged (")


def test_what_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "other.parquet"
    assert refusal(tmp_path) == "the directory holds no .parquet file"
    assert refusal(path) == "cannot be read (No such file or directory)"
    path.write_bytes(b"")
    assert refusal(path) == "expected a trace table, but this is no Parquet file"
    path.write_text("broker,event\n")
    assert refusal(path) == "expected a trace table, but this is no Parquet file"
    pq.write_table(pa.table({"hop": [1]}), path)
    assert refusal(path) == (
        "expected a trace table, but its metadata has no 'byway.trace.version'"
    )
    table = pa.table({"hop": [1]}).replace_schema_metadata({"byway.trace.version": "0x1"})
    pq.write_table(table, path)
    assert refusal(path) == "expected a trace table, but its version is '0x1'"
