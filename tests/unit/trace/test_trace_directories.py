"""Traces by run and day, and what compaction does to them."""

import os
import signal
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import pytest

from byway.model.errors import TraceError
from byway.trace import TraceBuffer, TraceWriter, read_trace
from byway.trace.file_merging import FileMerge, clean, lock, merge_files, plan, put_in_place
from byway.trace.trace_directories import DAY_US, date_of, listed, replaced_by

DAY = 20_775  # 2026-11-18


def write(root: Path, broker: str, times: list[int], run: str = "live 1") -> None:
    """A file for each time, as a broker makes one each minute."""
    buffer = TraceBuffer(broker)
    with TraceWriter(root, run, broker) as writer:
        for t_us in times:
            buffer.table_sampled(t_us, "subscriptions", t_us % 97)
            writer.write(buffer.drain())
            writer.flush()


def rows(root: Path) -> list[tuple[str, int]]:
    table = read_trace(root)
    return sorted(zip(table["broker"].to_pylist(), table["t_us"].to_pylist(), strict=True))


def compact(root: Path, keep_s: float = 0.0) -> int:
    with lock(root):
        clean(root, datetime.now(UTC).timestamp() - keep_s + 1)
        merges = plan(root)
        for merge in merges:
            put_in_place(merge, merge_files(merge))
        if not keep_s:
            clean(root, datetime.now(UTC).timestamp() + 1)
    return len(merges)


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet"))


def test_dates_are_those_of_the_calendar() -> None:
    assert date_of(0) == "1970-01-01"
    assert date_of(-1) == "1969-12-31"
    assert date_of(DAY) == "2026-11-18"
    assert date_of(-719_162) == "0001-01-01"
    assert date_of(-(10**9)) == "0001-01-01"
    assert date_of(10**9) == "9999-12-31"


def test_rows_lie_in_the_directory_of_their_day(tmp_path: Path) -> None:
    write(tmp_path, "A", [DAY * DAY_US - 1, DAY * DAY_US])
    assert names(tmp_path) == [
        "run=live%201/date=2026-11-17/trace-A-00000.parquet",
        "run=live%201/date=2026-11-18/trace-A-00000.parquet",
    ]
    assert rows(tmp_path) == [("A", DAY * DAY_US - 1), ("A", DAY * DAY_US)]


def test_files_of_a_day_are_merged_and_those_of_other_days_are_not(tmp_path: Path) -> None:
    for broker in ("A", "B"):
        write(tmp_path, broker, [5, 6, DAY_US + 1])
    write(tmp_path, "A", [7], run="other")
    before = rows(tmp_path)
    assert compact(tmp_path) == 2
    assert rows(tmp_path) == before
    assert [name.rpartition("/")[0] for name in names(tmp_path)] == [
        "run=live%201/date=1970-01-01", "run=live%201/date=1970-01-02", "run=other/date=1970-01-01"
    ]  # fmt: skip
    again = names(tmp_path)
    assert compact(tmp_path) == 0
    assert names(tmp_path) == again


def test_files_without_a_day_are_left_alone(tmp_path: Path) -> None:
    for run in ("a", "b"):
        write(tmp_path / run, "A", [1, 2])
        (day,) = (tmp_path / run).glob("*/*")
        day.rename(tmp_path / run / "flat")
    assert compact(tmp_path) == 0
    assert len(names(tmp_path)) == 4


def test_what_was_replaced_stays_for_a_while_and_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "A", [1, 2, 3])
    before, old = rows(tmp_path), listed(tmp_path)
    compact(tmp_path, keep_s=3_600)
    (merged,) = listed(tmp_path)
    assert replaced_by(merged) == old
    assert all(path.exists() for path in old)
    assert rows(tmp_path) == before
    write(tmp_path, "A", [4])  # a broker that starts again takes none of the names
    assert rows(tmp_path) == [*before, ("A", 4)]
    compact(tmp_path, keep_s=3_600)  # one file beside one that still has its sources: nothing
    assert rows(tmp_path) == [*before, ("A", 4)]
    compact(tmp_path)
    assert rows(tmp_path) == [*before, ("A", 4)]
    assert len(names(tmp_path)) == 1


def test_rows_keep_their_order_by_broker(tmp_path: Path) -> None:
    write(tmp_path, "A", list(range(12)))
    compact(tmp_path)
    write(tmp_path, "A", [12, 13])
    compact(tmp_path)
    assert read_trace(tmp_path)["t_us"].to_pylist() == list(range(14))


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    write(tmp_path, "A", [1, 2])
    bad = listed(tmp_path)[1]
    bad.write_bytes(bad.read_bytes()[:-9])
    with pytest.raises(TraceError) as caught:
        compact(tmp_path)
    assert caught.value.path == str(bad)
    assert len(listed(tmp_path)) == 2


def test_one_at_a_time(tmp_path: Path) -> None:
    again = pytest.raises(TraceError, match="another process compacts")
    with lock(tmp_path), again, lock(tmp_path):
        pass
    with lock(tmp_path):
        pass


def test_a_merged_file_with_other_rows_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "A", [1, 2])
    (merge,) = plan(tmp_path)
    short = FileMerge(merge.sources[:1], merge.target, merge.partial)
    with pytest.raises(TraceError, match="has 1 rows, expected 2"):
        put_in_place(merge, merge_files(short))
    assert len(listed(tmp_path)) == 2


def _die_at(root: Path, step: int) -> None:
    """Compact, and be killed before the operation on a file that has this number."""
    left = [step]

    def counted(operation: object) -> object:
        def call(self: Path, *args: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(self, *args, **options)  # type: ignore[operator]

        return call

    for name in ("replace", "unlink", "write_text"):
        setattr(Path, name, counted(getattr(Path, name)))
    compact(root)


@pytest.mark.parametrize("step", range(12))
def test_whenever_it_is_killed_every_row_is_there_once(tmp_path: Path, step: int) -> None:
    for broker in ("A", "B"):
        write(tmp_path, broker, [5, 6, DAY_US + 1])
    before = rows(tmp_path)
    process = get_context("fork").Process(target=_die_at, args=(tmp_path, step))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert rows(tmp_path) == before
    compact(tmp_path)
    assert rows(tmp_path) == before
    assert len(names(tmp_path)) == 2
    assert [
        path for path in tmp_path.rglob("*") if "merged" in path.name and path.suffix != ".parquet"
    ] == []
