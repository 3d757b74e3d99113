"""Formats: reads the rows of CSV and Parquet files, each with its place, well-formed or not.

It decides what a row is. What its cells mean is decided elsewhere. Rows are streamed, so files may
be larger than memory.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import distinct

CSV: Final = ".csv"
PARQUET: Final = ".parquet"
CONTENT_MAX: Final = 1_000
_BATCH_ROWS: Final = 16_384


class Row(NamedTuple):
    """A row of a file, and its place there."""

    number: int
    """Counted from 1, the header apart."""
    line: int | None
    cells: list[Any]
    fault: str | None = None
    """What is wrong with the row as a whole; its cells are not used then."""

    def content(self) -> str:
        """The cells as text, cut after `CONTENT_MAX` characters."""
        text = ",".join("" if cell is None else str(cell) for cell in self.cells)
        return text[:CONTENT_MAX].encode(errors="replace").decode()


def input_files(paths: list[Path]) -> tuple[list[Path], list[Path]]:
    """The CSV and Parquet files at or below `paths`, in the order given, at least one and each
    once; and the other files below them."""
    files: list[Path] = []
    others: list[Path] = []
    for path in paths:
        if not path.exists():
            raise TableError(path, "there is no such file or directory")
        if path.is_dir():
            below = sorted(found for found in path.rglob("*") if not found.is_dir())
            found = [file for file in below if _is_input(file) and not _is_hidden(file)]
            if not found:
                raise TableError(path, f"the directory holds no {CSV} or {PARQUET} file")
            others += [file for file in below if not _is_input(file) or _is_hidden(file)]
        elif _is_input(path):
            found = [path]
        else:
            raise TableError(path, f"expected a name that ends in {CSV} or {PARQUET}")
        files += found
    files = distinct(files)
    named = set(files)
    return files, [file for file in distinct(others) if file not in named]


def _is_input(path: Path) -> bool:
    return path.suffix.lower() in (CSV, PARQUET)


def _is_hidden(path: Path) -> bool:
    return path.name[0] in "._"


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet, by its name; every other input is CSV."""
    return path.suffix.lower() == PARQUET


def columns_of(path: Path, delimiter: str = ",") -> list[str]:
    """The names of the columns. Raises `TableError` if there are none, or two are the same."""
    if is_parquet(path):
        names = list(parquet_schema(path).names)
    else:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            try:
                names = next(csv.reader(file, delimiter=delimiter, strict=True), [])
            except csv.Error as error:
                raise TableError(path, f"the header cannot be read ({error})") from None
    if not names:
        raise TableError(path, "the file has no header")
    for number, name in enumerate(names):
        if not name.strip():
            raise TableError(path, f"column {number + 1} has no name")
        if name in names[:number]:
            raise TableError(path, f"two columns are called {name!r}")
    return names


def parquet_schema(path: Path) -> Any:
    """The Arrow schema of a Parquet file. Raises `TableError`."""
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(path, f"this is no Parquet file, or a damaged one ({error})") from None


def rows_of(path: Path, columns: list[str], delimiter: str = ",") -> Iterator[Row]:
    """All rows, malformed ones too. `columns` are those of the file."""
    if is_parquet(path):
        return _parquet_rows(path)
    return _csv_rows(path, len(columns), delimiter)


def sample_of(path: Path, columns: list[str], rows: int, delimiter: str = ",") -> dict[str, Any]:
    """The cells of the first well-formed rows, by column."""
    good = (row.cells for row in rows_of(path, columns, delimiter) if row.fault is None)
    cells = list(islice(good, rows))
    return {name: [row[place] for row in cells] for place, name in enumerate(columns)}


def count_rows(path: Path, delimiter: str = ",") -> int:
    """Number of rows, malformed ones too."""
    if is_parquet(path):
        return int(pq.read_metadata(path).num_rows)
    return sum(1 for _ in _csv_rows(path, 0, delimiter))


def _parquet_rows(path: Path) -> Iterator[Row]:
    number = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            columns = [column.to_pylist() for column in batch.columns]
            for cells in zip(*columns, strict=True):
                number += 1
                yield Row(number, None, list(cells))


def _csv_rows(path: Path, width: int, delimiter: str) -> Iterator[Row]:
    """The rows of a CSV file. Empty lines are no rows. A quote that is never closed makes the rest
    of the file one malformed row."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        next(reader, None)
        number = 0
        while True:
            start = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                number += 1
                lines = f"lines {start} to {reader.line_num}: " if reader.line_num > start else ""
                yield Row(number, reader.line_num, [], f"{lines}not CSV ({error})")
                continue
            if cells is None:
                return
            if not cells:
                continue
            number += 1
            fault = None
            if len(cells) != width:
                fault = f"{len(cells)} cells, expected {width}"
            yield Row(number, reader.line_num, cells, fault)
