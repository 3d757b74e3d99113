"""Reads and writes the tables of the pipeline; no other module does.

A table is a directory of Parquet files, each with the name and version of its schema in its footer.
Files are written by the workers, under a hidden name, and renamed when they are complete; so is
the directory. The paths must mean the same to whoever runs the pipeline and to all workers. What is
in a table is decided by `schemas` and by those who compute it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import TableSchema
from byway.trace.files import RUN_KEY
from byway.trace.parquet_footer import read_footer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX: Final = ".parquet"
PARTIAL: Final = ".partial"

_IS_PATTERN: Final = "__globPaths__"
"""Spark's option that says whether `[` and the like in a path stand for other characters."""

StrPath = str | os.PathLike[str]


# --- reading ----------------------------------------------------------------------------------


def read_table(spark: SparkSession, table: TableSchema, *paths: StrPath) -> DataFrame:
    """The rows of all files at or below `paths`, with exactly the declared columns.

    Raises `TableError` with the file at fault before Spark looks at any.
    """
    return read_files(spark, table, checked_files(table, *paths))


def checked_files(table: TableSchema, *paths: StrPath) -> list[Path]:
    """The files at or below `paths`, each once, after checking that all can be read. Needs no
    Spark. Raises `TableError`."""
    files = distinct(file for path in paths for file in files_of(table, Path(path)))
    for file in files:
        check_file(table, file)
    return files


def read_files(spark: SparkSession, table: TableSchema, files: list[Path]) -> DataFrame:
    """The rows of files that were checked. Raises `TableError` if Spark cannot read such a name."""
    for file in files:
        if ":" in file.name:
            raise TableError(file, "Spark reads no file with a colon in its name; rename it")
    reader = spark.read.schema(table.spark_schema()).option(_IS_PATTERN, "false")
    return reader.parquet(*(str(file) for file in files))


def read_file(table: TableSchema, path: Path) -> list[dict[str, Any]]:
    """The rows of one small file as dicts, without Spark."""
    check_file(table, path)
    rows: list[dict[str, Any]] = pq.read_table(path, columns=table.names).to_pylist()
    return rows


def distinct(files: Iterable[Path]) -> list[Path]:
    """The files in their order, each once, by whichever of its paths comes first."""
    found: dict[Path, Path] = {}
    for file in files:
        found.setdefault(file.resolve(), file)
    return list(found.values())


def run_of(trace: Path) -> str | None:
    """The run in the metadata of a trace file that was checked."""
    name = (pq.read_schema(trace).metadata or {}).get(RUN_KEY)
    return None if name is None else name.decode()


def files_of(table: TableSchema, path: Path) -> list[Path]:
    """The complete files at or below `path`, sorted; at least one."""
    if path.is_file():
        return [path.absolute()]
    if not path.is_dir():
        raise TableError(path, "there is no such file or directory")
    files = sorted(
        file.absolute()
        for file in path.rglob(f"*{SUFFIX}")
        if not any(part[0] in "._" for part in file.relative_to(path).parts)
    )
    if not files:
        raise TableError(path, f"the directory holds no {SUFFIX} file of a {table.name} table")
    return files


def check_file(table: TableSchema, path: Path) -> None:
    """Raise `TableError` unless `path` is a complete file of `table` in a version to be read."""
    found, version = read_footer(path, table.name, TableError)
    if version > table.version:
        expected = f"up to {table.version}" if table.lenient else f"{table.version}"
        reason = f"has schema version {version}, expected {expected}"
        raise TableError(path, f"{reason}: it was written by a newer byway")
    is_older = version < table.version
    if is_older and not table.lenient:
        reason = f"has schema version {version}, expected {table.version}"
        raise TableError(path, f"{reason}: it was written by an older byway; make it again")
    _check_columns(table, path, found, is_older=is_older)


def _check_columns(table: TableSchema, path: Path, found: Any, *, is_older: bool) -> None:
    expected = table.arrow_schema()
    missing = [name for name in table.names if name not in found.names]
    if missing and not is_older:
        raise TableError(path, f"columns are missing: {', '.join(missing)}")
    unknown = [name for name in found.names if name not in table.names]
    if unknown and not table.lenient:
        known = ", ".join(table.names)
        raise TableError(path, f"unknown columns: {', '.join(unknown)}; expected {known}")
    for name in table.names:
        if name not in missing:
            kind, wanted = _plain(found.field(name).type), expected.field(name).type
            if not kind.equals(wanted):
                raise TableError(path, f"column {name} is {kind}, expected {wanted}")


def _plain(kind: Any) -> Any:
    """The type without its dictionary, which is only a way to store it."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


# --- writing ----------------------------------------------------------------------------------


def write_table(frame: DataFrame, table: TableSchema, directory: StrPath) -> None:
    """Make `directory` the table with the rows of `frame`, in the place of what was there.

    `frame` must have the declared columns, in any order; they are cast to the declared types.
    """
    columns = [frame[c.name].cast(str(c.type)).alias(c.name) for c in table.columns]
    with new_directory(directory) as place:
        parts = frame.select(columns).mapInArrow(
            partial(_write_part, table, str(place)),
            "rows bigint",
        )
        parts.write.format("noop").mode("overwrite").save()
        if not any(place.iterdir()):
            write_file(table.arrow_schema().empty_table(), place / f"part-00000{SUFFIX}")


@contextmanager
def new_directory(directory: StrPath) -> Iterator[Path]:
    """A hidden place that becomes `directory`, instead of what was there, when the block is done.

    If the block is left by an error, all is as it was.
    """
    target = Path(directory).absolute()
    place = target.with_name(f".{target.name}{PARTIAL}")
    shutil.rmtree(place, ignore_errors=True)
    try:
        place.mkdir(parents=True)
    except OSError as error:
        raise TableError(target, f"cannot be written ({error.strerror})") from error
    try:
        yield place
        _put_in_place(place, target)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def remove_table(table: TableSchema, directory: StrPath) -> None:
    """Remove the table in a directory, if that directory holds this table."""
    try:
        checked_files(table, directory)
    except TableError:
        return
    shutil.rmtree(directory)


def _write_part(table: TableSchema, directory: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Run in a worker: write the rows of one partition to one file."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    path = Path(directory, f"part-{context.partitionId():05}{SUFFIX}")
    schema = table.arrow_schema()
    rows = 0
    with ParquetFile(path, schema) as file:
        for batch in batches:
            if batch.num_rows:
                file.write(pa.Table.from_batches([batch]).cast(schema))
                rows += batch.num_rows
    yield pa.record_batch([pa.array([rows], pa.int64())], ["rows"])


def write_file(rows: Any, path: Path) -> None:
    """Write one complete file with the rows of an Arrow table, whose schema has the version."""
    with ParquetFile(path, rows.schema) as file:
        file.write(rows)


def write_text(text: str, path: Path) -> None:
    """Write a small text file, completely or not at all."""
    partial_path = path.with_name(f".{path.name}{PARTIAL}")
    partial_path.write_text(text)
    partial_path.replace(path)


class ParquetFile:
    """A Parquet file that appears under its name when it is complete, and never if it is empty."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.path = path
        self.schema = schema
        self._partial = path.with_name(f".{path.name}.{uuid4().hex}{PARTIAL}")
        self._writer: Any = None

    def __repr__(self) -> str:
        return f"ParquetFile({str(self.path)!r})"

    def __enter__(self) -> ParquetFile:
        return self

    def write(self, rows: Any) -> None:
        """Add the rows of an Arrow table."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._partial, self.schema, compression="zstd", write_page_checksum=True
            )
        self._writer.write_table(rows)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is None:
            return
        try:
            self._writer.close()
            if kind is None:
                self._partial.replace(self.path)
        finally:
            self._partial.unlink(missing_ok=True)


def _put_in_place(complete: Path, target: Path) -> None:
    """Replace a directory. One cannot be renamed over another: for a moment there is none."""
    before = target.with_name(f".{target.name}.before{PARTIAL}")
    shutil.rmtree(before, ignore_errors=True)
    if target.exists():
        target.rename(before)
    complete.rename(target)
    shutil.rmtree(before, ignore_errors=True)
