"""Trace files: writes Parquet with the model's schema in bounded parts, and reads checked files.

It decides names, sizes and encodings of files. The bytes are a function of the rows, the names
given to the writer, its bounds and the version of pyarrow: not of the time, of the machine, or of
how often a buffer was drained. It must not know what the rows mean.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from byway.model.errors import TraceError
from byway.model.trace_schema import (
    COLUMNS,
    FILLED,
    SCHEMA_VERSION,
    TraceColumn,
    TraceColumnType,
    TraceEvent,
)
from byway.trace.buffer import RowBatch
from byway.trace.parquet_footer import read_footer, version_key
from byway.trace.trace_directories import PARTIAL, SUFFIX, listed, used_names

ROWS_PER_GROUP: Final = 131_072
ROWS_PER_FILE: Final = 8 * ROWS_PER_GROUP

TABLE: Final = "trace"
VERSION_KEY: Final = version_key(TABLE)
RUN_KEY: Final = b"byway.trace.run"
EVENTS_KEY: Final = b"byway.trace.events"

_ARROW_TYPES: Final = {
    TraceColumnType.INT8: pa.int8(),
    TraceColumnType.INT32: pa.int32(),
    TraceColumnType.INT64: pa.int64(),
    TraceColumnType.STRING: pa.dictionary(pa.int32(), pa.string()),
}
ARROW_SCHEMA: Final = pa.schema(
    [pa.field(c.name, _ARROW_TYPES[c.type], nullable=c.nullable) for c in COLUMNS]
)
_STRINGS: Final = tuple(c.name for c in COLUMNS if c.type is TraceColumnType.STRING)
_INCREASING: Final = ("t_us", "sequence", "t_pub_us")  # hardly a value twice: no dictionary


def record_batch(batch: RowBatch, run: str) -> Any:
    """`batch` as an Arrow record batch of the whole schema."""
    rows = batch.rows
    events = rows["event"]
    arrays = []
    for column in COLUMNS:
        if column.name in ("run", "broker"):
            name = run if column.name == "run" else batch.broker
            arrays.append(_dictionary(np.zeros(len(rows), np.int32), None, pa.array([name])))
        elif column.type is TraceColumnType.STRING:
            numbers = rows[column.name]
            is_null = numbers == 0
            indices = np.where(is_null, 0, numbers.astype(np.int32) - 1)
            names = pa.array(batch.names[column.name], pa.string())
            arrays.append(_dictionary(indices, is_null, names))
        else:
            is_null = ~_FILLED_BY[column.name][events] if column.nullable else None
            values = np.ascontiguousarray(rows[column.name])
            arrays.append(pa.array(values, _ARROW_TYPES[column.type], mask=is_null))
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


class DirectoryWriter:
    """Writes batches to one directory, as files of at most `rows_per_file` rows.

    A file is named `trace-NNNNN.parquet`, or `trace-BROKER-NNNNN.parquet` if all rows are of one
    `broker`; NNNNN goes on where earlier files of that name end, so a broker that restarts
    overwrites nothing. It has a hidden name until it is complete. At most `rows_per_group` rows,
    and one batch, wait in memory. Only one writer at a time may use a directory with the same
    `broker`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        run: str,
        broker: str | None = None,
        *,
        rows_per_group: int = ROWS_PER_GROUP,
        rows_per_file: int = ROWS_PER_FILE,
    ) -> None:
        assert 0 < rows_per_group <= rows_per_file
        self.directory = Path(directory)
        self.run = run
        self.broker = broker
        self._rows_per_group = rows_per_group
        self._rows_per_file = rows_per_file
        self._prefix = "trace-" if broker is None else f"trace-{quote(broker, safe='')}-"
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._file: Any = None
        self._file_rows = 0
        self._closed = False
        self.directory.mkdir(parents=True, exist_ok=True)
        self._number = self._first = self._next_number()

    def __repr__(self) -> str:
        files = self._number - self._first
        return f"DirectoryWriter({str(self.directory)!r}, run {self.run!r}, {files} files complete)"

    def __enter__(self) -> DirectoryWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()  # after an error too: the rows up to it are what one wants to read

    def write(self, batch: RowBatch) -> None:
        """Take over the rows of `batch`; they are in a complete file after `flush` or `close`."""
        assert not self._closed, "the writer is closed"
        assert self.broker is None or batch.broker == self.broker
        if len(batch):
            self._take(batch)

    def _take(self, batch: RowBatch) -> None:
        self._pending.append(record_batch(batch, self.run))
        self._pending_rows += len(batch)
        while self._pending_rows >= self._group_rows():
            self._write_group(self._group_rows())

    def discard(self) -> None:
        """Remove all files of this writer, and take over no further rows."""
        self._closed = True
        self._pending, self._pending_rows = [], 0
        if self._file is not None:
            self._abandon_file()
        for number in range(self._first, self._number):
            self._path(number).unlink(missing_ok=True)
        self._number = self._first

    def flush(self) -> None:
        """Complete the present file, so that every row taken over can be read."""
        if self._pending_rows:
            self._write_group(self._pending_rows)
        self._complete_file()

    def close(self) -> None:
        """Flush, and leave an empty file if there was no row: an empty trace is a trace."""
        if self._closed:
            return
        self.flush()
        if self._number == self._first:
            self._open_file()
            self._complete_file()
        self._closed = True

    def _group_rows(self) -> int:
        """Number of rows of the next group, once there are enough."""
        return min(self._rows_per_group, self._rows_per_file - self._file_rows)

    def _write_group(self, rows: int) -> None:
        table = pa.Table.from_batches(self._pending, ARROW_SCHEMA)
        rest = table.slice(rows)
        self._pending = rest.to_batches()
        self._pending_rows = rest.num_rows
        if self._file is None:
            self._open_file()
        try:
            self._file.write_table(_canonical(table.slice(0, rows)), row_group_size=rows)
        except BaseException:
            self._abandon_file()
            raise
        self._file_rows += rows
        if self._file_rows >= self._rows_per_file:
            self._complete_file()

    def _open_file(self) -> None:
        self._file_rows = 0
        self._file = _parquet_writer(self._temporary(), self.run)

    def _complete_file(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        self._file_rows = 0
        try:
            file.close()
            self._temporary().replace(self._path(self._number))
        finally:
            self._temporary().unlink(missing_ok=True)
        self._number += 1

    def _abandon_file(self) -> None:
        """Remove a file that could not be written, on a full disk for instance."""
        file, self._file = self._file, None
        self._file_rows = 0
        with suppress(OSError, pa.ArrowException):
            file.close()
        self._temporary().unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.directory / f"{self._prefix}{number:05}{SUFFIX}"

    def _temporary(self) -> Path:
        return self.directory / f".{self._path(self._number).name}{PARTIAL}"

    def _next_number(self) -> int:
        ours = re.compile(re.escape(self._prefix) + r"(\d+)" + re.escape(SUFFIX))
        matches = map(ours.fullmatch, used_names(self.directory))
        return 1 + max((int(m[1]) for m in matches if m), default=-1)


def write_merged(path: Path, sources: list[Path]) -> int:
    """Write the rows of trace files of one run, in their order, to one file; their number. Raises
    `TraceError` with the source that cannot be read."""
    run = (pq.read_schema(sources[0]).metadata or {}).get(RUN_KEY, b"").decode()
    pending: list[Any] = []
    waiting = rows = 0
    with _parquet_writer(path, run) as to:
        for source in sources:
            for table in _groups_of(source):
                pending.append(table)
                waiting += table.num_rows
                while waiting >= ROWS_PER_GROUP:
                    whole = pa.concat_tables(pending).unify_dictionaries()
                    to.write_table(_canonical(whole.slice(0, ROWS_PER_GROUP)), ROWS_PER_GROUP)
                    rows += ROWS_PER_GROUP
                    waiting -= ROWS_PER_GROUP
                    pending = [whole.slice(ROWS_PER_GROUP)]
        if waiting:
            to.write_table(_canonical(pa.concat_tables(pending)), waiting)
    return rows + waiting


def _groups_of(source: Path) -> Iterator[Any]:
    """The row groups of a checked trace file, one after another, with the columns of the schema."""
    try:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, columns=[c.name for c in COLUMNS])
                yield table.select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise TraceError(str(source), f"the file is damaged ({error})") from error


def read_trace(path: str | os.PathLike[str]) -> Any:
    """The rows of a trace file, or of all trace files below a directory by name, as an Arrow table.

    The columns of the schema come first, in its order, then others the files may have.
    """
    path = Path(path)
    if not path.is_dir():
        return _read_file(path)
    files = listed(path)
    if not files:
        raise TraceError(str(path), f"the directory holds no {SUFFIX} file")
    tables = [_read_file(file) for file in files]
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries()


def check_trace_file(path: Path) -> None:
    """Check that `path` is a complete trace file that this byway can read. Raises `TraceError`."""
    found, version = read_footer(path, TABLE, TraceError)
    if version > SCHEMA_VERSION:
        reason = f"has schema version {version}, this byway reads up to {SCHEMA_VERSION}"
        raise TraceError(str(path), reason)
    missing = [c.name for c in COLUMNS if c.name not in found.names]
    if missing:
        raise TraceError(str(path), f"columns are missing: {', '.join(missing)}")
    for column in COLUMNS:
        kind, expected = found.field(column.name).type, _ARROW_TYPES[column.type]
        if kind != expected:
            raise TraceError(str(path), f"column {column.name} is {kind}, expected {expected}")


def _read_file(path: Path) -> Any:
    check_trace_file(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise TraceError(str(path), f"the file is damaged ({error})") from error
    names = [c.name for c in COLUMNS]
    table = table.select(names + [n for n in table.column_names if n not in names])
    return table.replace_schema_metadata(None)


def _parquet_writer(path: Path, run: str) -> Any:
    return pq.ParquetWriter(
        path,
        ARROW_SCHEMA.with_metadata(_metadata(run)),
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=[c.name for c in COLUMNS if c.name not in _INCREASING],
        write_statistics=True,
        write_page_checksum=True,
        store_schema=True,
    )


def _metadata(run: str) -> dict[bytes, bytes]:
    events = ",".join(f"{int(event)}={event.name.lower()}" for event in TraceEvent)
    return {
        VERSION_KEY: str(SCHEMA_VERSION).encode(),
        RUN_KEY: run.encode(),
        EVENTS_KEY: events.encode(),
    }


def _canonical(table: Any) -> Any:
    """The same rows, with dictionaries that depend on these rows alone."""
    columns = [
        _first_seen_first(column) if name in _STRINGS else column.combine_chunks()
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=ARROW_SCHEMA)


def _first_seen_first(column: Any) -> Any:
    """The same names, with a dictionary of just those, in the order they appear."""
    encoded = column.unify_dictionaries().combine_chunks()
    numbers = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()  # null: one more name
    rows = len(numbers)
    first_row = np.full(len(encoded.dictionary) + 1, rows)
    first_row[numbers[::-1]] = np.arange(rows - 1, -1, -1)  # of equal indices the last one counts
    order = np.argsort(first_row[:-1], kind="stable")
    order = order[first_row[order] < rows]
    new_numbers = np.full(len(first_row), -1, np.int32)
    new_numbers[order] = np.arange(len(order))
    indices = new_numbers[numbers]
    return _dictionary(indices, indices < 0, encoded.dictionary.take(pa.array(order)))


def _dictionary(indices: Any, is_null: Any, names: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32(), mask=is_null), names)


def _filled_by(column: TraceColumn) -> Any:
    """An array by event number: whether the event fills `column`."""
    filled = np.zeros(max(TraceEvent) + 1, np.bool_)
    for event, columns in FILLED.items():
        filled[event] = column.name in columns.required + columns.optional
    return filled


_FILLED_BY: Final = {column.name: _filled_by(column) for column in COLUMNS}
