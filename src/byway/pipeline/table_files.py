"""Reads and writes the tables of the pipeline; no other module does.

A place is a path of any scheme that Spark reads and writes (`s3a://`, `hdfs://`, `file://`), or
`catalog:NAME`, a table or a database of the catalog. A path without a scheme belongs to the
filesystem that Spark uses by default; a relative one begins at the current directory. Tables are
written by Spark, and carry their version in the metadata of their first column. What is in a table
is decided by `schemas` and by those who compute it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from byway.pipeline.failures import told_of
from byway.pipeline.jobs import Progress, run_action
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import TableSchema
from byway.trace.files import RUN_KEY
from byway.trace.parquet_footer import read_footer, version_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import DataType, StructType

SUFFIX: Final = ".parquet"
PARTIAL: Final = ".partial"
CATALOG: Final = "catalog:"
"""What a place in the catalog begins with."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_OWN_FILE: Final = re.compile(r"file:(?://(?:localhost)?)?/+")
"""How the address of a file of this machine begins."""
_IS_PATTERN: Final = "__globPaths__"
"""Spark's option that says whether `[` and the like in a path stand for other characters."""
_SPECIAL: Final = re.compile(r"[][{}*?\\]")
_UNFINISHED: Final = "_temporary"
"""What Hadoop's committers leave in a directory while a table is written to it."""

StrPath = str | os.PathLike[str]


# --- places -----------------------------------------------------------------------------------


def place_of(place: StrPath) -> str:
    """A place as Spark takes it: what is no path of a scheme is an absolute path."""
    text = os.fspath(place)
    is_elsewhere = isinstance(place, str) and (text.startswith(CATALOG) or _SCHEME.match(text))
    return text if is_elsewhere else os.path.normpath(Path(text).absolute())


def below(place: StrPath, name: str) -> str:
    """The place of a table in a directory, or in a database of the catalog."""
    text = os.fspath(place)
    if isinstance(place, str) and text.startswith(CATALOG):
        return f"{text}{name}" if text == CATALOG else f"{text}.{name}"
    return f"{text.rstrip('/')}/{name}"


def shared_directory(place: StrPath, what: str) -> Path:
    """The directory at a place, for `what`: work whose tasks write files there by themselves. It is
    one of this machine, which all workers mount at the same path.

    Raises `TableError` if the place is in the catalog or has another scheme than `file:`.
    """
    text = os.fspath(place)
    if isinstance(place, str) and (found := _OWN_FILE.match(text)):
        return Path("/", text[found.end() :])
    if isinstance(place, str) and (text.startswith(CATALOG) or _SCHEME.match(text)):
        raise TableError(
            place,
            f"{what} in a directory that this machine and all workers mount at the same path; "
            "name one, and copy from there",
        )
    return Path(text)


def on_this_machine(path: Path) -> str:
    """The place of a path of this machine, whatever filesystem Spark uses by default."""
    return f"file://{path.absolute()}"


# --- reading ----------------------------------------------------------------------------------


def read_table(spark: SparkSession, table: TableSchema, *places: StrPath) -> DataFrame:
    """The rows at all places, with exactly the declared columns. Files of a lenient table are found
    at any depth. A place that is named twice, or lies below another one, counts once.

    Raises `TableError` if there is no such table, if it is not complete, or if its columns or its
    version are others; whether a table has no version, as one that Spark or somebody else wrote,
    is not asked.
    """
    named = list(dict.fromkeys(map(place_of, places)))
    paths = [place for place in named if not place.startswith(CATALOG)]
    frames = []
    if paths:
        if table.lenient:
            paths = _uppermost(paths)
        frames.append(_read_paths(spark, table, paths))
    for place in named:
        if place.startswith(CATALOG):
            with told_of(place, table.name):
                found = spark.table(place.removeprefix(CATALOG))
                check_columns(table, place, found.schema)
            frames.append(conformed(found, table))
    union, *others = frames
    for frame in others:
        union = union.unionByName(frame)
    return union


def _read_paths(spark: SparkSession, table: TableSchema, paths: list[str]) -> DataFrame:
    deep = str(table.lenient).lower()
    reader = reader_of(spark).option("recursiveFileLookup", deep)
    for path in paths:
        with told_of(path, table.name):
            if not path.endswith(SUFFIX) and _is_there(spark, below(path, _UNFINISHED)):
                raise TableError(path, "the table is not complete: it is being written, or was not")
    shown = ", ".join(paths)
    with told_of(shown, table.name):
        found = reader.parquet(*paths)
        check_columns(table, shown, found.schema)
        if table.lenient:  # a file may lack what others have
            found = reader.schema(table.spark_schema()).parquet(*paths)
    return conformed(found, table)


def read_pieces(spark: SparkSession, table: TableSchema, directory: StrPath) -> DataFrame:
    """The rows of all files in a directory to which tasks add files of a table, one by one. Files
    of another version may be among them; the caller chooses rows that it knows."""
    path = place_of(directory)
    with told_of(path, table.name):
        return reader_of(spark).schema(table.spark_schema()).parquet(path)


def conformed(frame: DataFrame, table: TableSchema) -> DataFrame:
    """The declared columns of a frame that has been checked, in order and with the declared
    types."""
    from pyspark.sql import functions as sql

    types = dict(frame.dtypes)
    return frame.select(
        *(
            (frame[c.name] if types.get(c.name) == c.type else frame[c.name].cast(str(c.type)))
            if c.name in types
            else sql.lit(None).cast(str(c.type)).alias(c.name)
            for c in table.columns
        )
    )


def reader_of(spark: SparkSession) -> DataFrameReader:
    """A reader of Spark that takes paths as they are, not as patterns."""
    return spark.read.option(_IS_PATTERN, "false")


def _is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is a file or directory. Spark finds that out before it looks for rows, though
    not if the path could be a pattern: then a pattern that stands for the path alone is asked. It
    is asked for twice, because of a single path that is not there Spark logs where it looked."""
    from pyspark.errors import AnalysisException

    pattern = _SPECIAL.sub(r"\\\g<0>", path)
    try:
        return bool(spark.read.schema("value string").text([pattern, pattern]).columns)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise


def check_place(spark: SparkSession, place: StrPath) -> None:
    """Raise `TableError` if Spark has no filesystem for a place, before anything is computed for
    it."""
    if not (to := place_of(place)).startswith(CATALOG):
        with told_of(os.fspath(place), "new"):
            _is_there(spark, to)


def _uppermost(paths: Sequence[str]) -> list[str]:
    """The paths without those that lie below others."""
    tops = tuple(f"{path.rstrip('/')}/" for path in paths)
    return [
        path
        for path, own in zip(paths, tops, strict=True)
        if not any(own != top and own.startswith(top) for top in tops)
    ]


def check_columns(table: TableSchema, place: str, found: StructType) -> None:
    """Raise `TableError` unless a frame with this schema can be read as `table`."""
    version = next(
        (field.metadata[key] for field in found if (key := _version_key(table)) in field.metadata),
        table.version,
    )
    _check_version(table, place, int(version))
    types = {field.name: field.dataType for field in found}
    needed = [c.name for c in table.columns if not (table.lenient and c.nullable)]
    missing = [name for name in needed if name not in types]
    if missing:
        raise TableError(
            place, f"expected a {table.name} table, but columns are missing: {_list(missing)}"
        )
    unknown = [name for name in types if name not in table.names]
    if unknown and not table.lenient:
        raise TableError(place, f"unknown columns: {_list(unknown)}; expected {_list(table.names)}")
    for field in table.spark_schema():
        if field.name in types and not _fits(types[field.name], field.dataType):
            kinds = types[field.name].simpleString(), field.dataType.simpleString()
            raise TableError(place, "column {} is {}, expected {}".format(field.name, *kinds))


def _fits(found: DataType, wanted: DataType) -> bool:
    """Whether every value of a type is one of the other."""
    from pyspark.sql import types as t

    if isinstance(wanted, t.MapType):
        return isinstance(found, t.MapType) and (
            _fits(found.keyType, wanted.keyType) and _fits(found.valueType, wanted.valueType)
        )
    if isinstance(wanted, t.ArrayType):
        return isinstance(found, t.ArrayType) and _fits(found.elementType, wanted.elementType)
    for ascending in (
        (t.ByteType, t.ShortType, t.IntegerType, t.LongType),
        (t.FloatType, t.DoubleType),
    ):
        if type(wanted) in ascending:
            return type(found) in ascending[: ascending.index(type(wanted)) + 1]
    return type(found) is type(wanted)


def _check_version(table: TableSchema, place: object, version: int) -> None:
    if version > table.version:
        expected = f"up to {table.version}" if table.lenient else f"{table.version}"
        reason = f"has schema version {version}, expected {expected}"
        raise TableError(place, f"{reason}: it was written by a newer byway")
    if version < table.version and not table.lenient:
        reason = f"has schema version {version}, expected {table.version}"
        raise TableError(place, f"{reason}: it was written by an older byway; make it again")


def _version_key(table: TableSchema) -> str:
    return version_key(table.name).decode()


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


# --- writing ----------------------------------------------------------------------------------


def write_table(
    frame: DataFrame, table: TableSchema, place: StrPath, progress: Progress | None = None
) -> None:
    """Make the rows of `frame` the table at a place, instead of what was there.

    `frame` must have the declared columns, in any order; they are cast to the declared types. What
    was there is gone from the beginning; until all rows are written, there is no table to be read.
    Raises `TableError` if Spark cannot write there.
    """
    written = versioned(frame, table).write.mode("overwrite")
    to = place_of(place)
    with told_of(os.fspath(place), table.name):
        if to.startswith(CATALOG):
            name = to.removeprefix(CATALOG)
            run_action(frame.sparkSession, lambda: written.saveAsTable(name), progress, table.name)
        else:
            run_action(frame.sparkSession, lambda: written.parquet(to), progress, table.name)


def versioned(frame: DataFrame, table: TableSchema) -> DataFrame:
    """The declared columns, cast to the declared types; the first one carries the version."""
    first, *others = (frame[c.name].cast(str(c.type)) for c in table.columns)
    names = table.names
    version = {_version_key(table): table.version}
    return frame.select(
        first.alias(names[0], metadata=version),
        *(column.alias(name) for column, name in zip(others, names[1:], strict=True)),
    )


def clear_table(spark: SparkSession, table: TableSchema, place: StrPath) -> None:
    """Remove the rows of the table at a place, if this table is there."""
    try:
        read_table(spark, table, place)
    except TableError:
        return
    write_table(spark.createDataFrame([], table.spark_schema()), table, place)


# --- files of one machine ---------------------------------------------------------------------


def read_file(table: TableSchema, path: Path) -> list[dict[str, Any]]:
    """The rows of one small file as dicts, without Spark."""
    check_file(table, path)
    rows: list[dict[str, Any]] = pq.read_table(path, columns=table.names).to_pylist()
    return rows


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
    _check_version(table, path, version)
    is_older = version < table.version
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
