"""Loads CSV and Parquet files into tables, each file in a task; rejected rows are kept apart.

It decides how columns are used unless the user says so, and how rows are numbered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from byway.pipeline.importing.formats import (
    columns_of,
    count_rows,
    input_files,
    is_parquet,
    parquet_schema,
    rows_of,
    sample_of,
)
from byway.pipeline.importing.types import Type, declared, inferred
from byway.pipeline.importing.user_tables import TABLES, Kind, Layout, Reader, check_attribute_name
from byway.pipeline.jobs import run_job
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import SUFFIX, ParquetFile, new_directory
from byway.pipeline.workload_schemas import DESCRIPTION, REJECTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("byway.import")

SAMPLE_ROWS: Final = 1_000
"""Rows of each CSV file from which the types of its columns are inferred."""
SHOWN_MAX: Final = 5
"""Rejects and skipped files that are named."""
_BATCH_ROWS: Final = 65_536


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about the columns."""

    id: str | None = None
    broker: str | None = None
    filter: str | None = None
    types: dict[str, Type] = {}
    delimiter: str = ","


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The files to read, and how their columns are used."""

    files: tuple[str, ...]
    layout: Layout
    unread: tuple[str, ...]
    """Columns that are not used."""
    skipped: tuple[str, ...]
    """Files below the directories that are neither CSV nor Parquet, or hidden."""
    delimiter: str


class ImportPiece(msgspec.Struct, frozen=True):
    """A task: one file, the number of its first row, and the files for its rows and rejects."""

    file: str
    first: int
    rows: str
    rejects: str


class RowCount(msgspec.Struct, frozen=True):
    """Number of rows of a file."""

    rows: int


class LoadResult(msgspec.Struct, frozen=True):
    """Number of rows and rejects of a file, or why it could not be read."""

    rows: int
    rejected: int
    shown: list[str] = []
    """The first rejects, each with its place and reason."""
    fault: str | None = None
    """Why the file could not be read to its end."""


class ImportOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The tables that an import wrote, and their numbers of rows."""

    table: str
    rows: int
    rejects: str
    rejected: int
    reasons: list[str]
    """The first rejects of all files, each with its place and reason."""
    types: dict[str, Type]
    unread: tuple[str, ...]
    skipped: tuple[str, ...]


# --- planning ---------------------------------------------------------------------------------


def plan_load(kind: Kind, paths: Sequence[Path], options: ImportOptions) -> ImportPlan:
    """Plan an import, and check it. Raises `TableError` with the file or column at fault."""
    files, others = input_files(list(paths))
    if others:
        log.warning("files that are not read: %s", _shown(others))
    columns = {file: columns_of(file, options.delimiter) for file in files}
    every = list(dict.fromkeys(name for names in columns.values() for name in names))
    for name in (options.id, options.broker, options.filter, *options.types):
        if name is not None and name not in every:
            raise TableError(files[0], f"there is no column {name!r}; it has {', '.join(every)}")
    _check_options(kind, columns, options)
    layout = _layout(kind, files, columns, every, options)
    used = {layout.id, layout.broker, layout.filter, *layout.attributes}
    unread = [name for name in every if name not in used]
    left_out = [name for name, type_ in layout.attributes.items() if type_ is Type.SKIP]
    return ImportPlan(
        files=tuple(str(file.absolute()) for file in files),
        layout=layout,
        unread=(*unread, *left_out),
        skipped=tuple(str(file.absolute()) for file in others),
        delimiter=options.delimiter,
    )


def _shown(files: Sequence[Path]) -> str:
    more = len(files) - SHOWN_MAX
    return ", ".join(map(str, files[:SHOWN_MAX])) + (f" and {more:,} more" if more > 0 else "")


def _check_options(kind: Kind, columns: Mapping[Path, list[str]], options: ImportOptions) -> None:
    for file, names in columns.items():
        if options.id is not None and options.id not in names:
            reason = f"there is no column {options.id!r} with numbers; every file needs it"
            raise TableError(file, f"{reason}, and this one has {', '.join(names)}")
        if kind == "subscriptions" and options.types:
            reason = f"column {next(iter(options.types))!r} has a type, but only publications"
            raise TableError(file, f"{reason} have attributes")
        if kind == "publications" and options.filter is not None:
            reason = f"column {options.filter!r} has filters, but only subscriptions have any"
            raise TableError(file, reason)


def _layout(
    kind: Kind,
    files: Sequence[Path],
    columns: Mapping[Path, list[str]],
    every: Sequence[str],
    options: ImportOptions,
) -> Layout:
    if kind == "subscriptions":
        wanted = options.filter or (every[0] if len(every) == 1 else "filter")
        for file, names in columns.items():
            if wanted not in names:
                reason = f"there is no column {wanted!r}; name the one with filters, of"
                raise TableError(file, f"{reason} {', '.join(names)}")
        return Layout(kind=kind, id=options.id, broker=options.broker, filter=wanted)
    taken = (options.id, options.broker)
    types = {
        name: type_ for name, type_ in _types(files, columns, options).items() if name not in taken
    }
    for name, type_ in types.items():
        fault = None if type_ is Type.SKIP else check_attribute_name(name)
        if fault is not None:
            raise TableError(files[0], f"column {name!r}: {fault}")
    return Layout(kind=kind, id=options.id, broker=options.broker, attributes=types)


def _types(
    files: Sequence[Path], columns: Mapping[Path, list[str]], options: ImportOptions
) -> dict[str, Type]:
    """The type of each column: the user's, else Parquet's, else inferred from rows of CSV."""
    samples: dict[str, list[str]] = {}
    found: dict[str, Type] = {}
    for file in files:
        if is_parquet(file):
            for name, type_ in _declared(file, options).items():
                if found.setdefault(name, type_) != type_:
                    reason = f"column {name!r} is {type_} here and {found[name]} in another file"
                    raise TableError(file, f"{reason}; declare its type")
        else:
            cells = sample_of(file, columns[file], SAMPLE_ROWS, options.delimiter)
            for name, column in cells.items():
                samples.setdefault(name, []).extend(column)
    return inferred(samples) | found | options.types


def _declared(file: Path, options: ImportOptions) -> dict[str, Type]:
    schema = parquet_schema(file)
    types = {**declared(schema), **options.types}
    for name in (options.id, options.broker):
        types.pop(name or "", None)
    for name, type_ in types.items():
        if type_ is None:
            reason = f"column {name!r} is {schema.field(name).type}, which no attribute can hold"
            raise TableError(file, f"{reason}; declare its type, string or skip")
    return {name: type_ for name, type_ in types.items() if type_ is not None}


# --- loading ----------------------------------------------------------------------------------


def load(
    spark: SparkSession,
    plan: ImportPlan,
    directory: Path,
    progress: Callable[[int], None] | None = None,
) -> ImportOutcome:
    """Read all files, and write a table of the rows and one of the rejects into `directory`."""
    if (directory / DESCRIPTION).exists():
        reason = f"holds a workload, which {DESCRIPTION} describes; name another directory"
        raise TableError(directory, reason)
    table = TABLES[plan.layout.kind]
    target, rejects = directory / table.name, directory / f"{table.name}_rejects"
    with new_directory(target) as good, new_directory(rejects) as bad:
        pieces = [
            ImportPiece(
                file,
                first,
                str(good / f"part-{number:05}{SUFFIX}"),
                str(bad / f"part-{number:05}{SUFFIX}"),
            )
            for number, (file, first) in enumerate(_firsts(spark, plan))
        ]

        def poll() -> None:
            if progress is not None:
                progress(sum(Path(piece.rows).exists() for piece in pieces))

        loaded = run_job(spark, partial(load_file, plan), pieces, LoadResult, poll)
        for piece, result in zip(pieces, loaded, strict=True):
            if result.fault is not None:
                raise TableError(piece.file, result.fault)
    shown = [reason for result in loaded for reason in result.shown]
    return ImportOutcome(
        table=str(target),
        rows=sum(result.rows for result in loaded),
        rejects=str(rejects),
        rejected=sum(result.rejected for result in loaded),
        reasons=shown[:SHOWN_MAX],
        types=plan.layout.attributes,
        unread=plan.unread,
        skipped=plan.skipped,
    )


def _firsts(spark: SparkSession, plan: ImportPlan) -> list[tuple[str, int]]:
    """Each file with the number of its first row; rows are numbered from 1 through all files."""
    if len(plan.files) == 1 or plan.layout.id is not None:
        return [(file, 1) for file in plan.files]
    pieces = [ImportPiece(file, 0, "", "") for file in plan.files]
    counted = run_job(spark, partial(count_file, plan), pieces, RowCount)
    firsts, first = [], 1
    for file, count in zip(plan.files, counted, strict=True):
        firsts.append((file, first))
        first += count.rows
    return firsts


def count_file(plan: ImportPlan, piece: ImportPiece) -> RowCount:
    """Run in a worker: count the rows of one file."""
    return RowCount(count_rows(Path(piece.file), plan.delimiter))


def load_file(plan: ImportPlan, piece: ImportPiece) -> LoadResult:
    """Run in a worker: read one file, and write its rows and rejects."""
    path = Path(piece.file)
    columns = columns_of(path, plan.delimiter)
    reader = Reader(plan.layout, piece.file, columns, piece.first)
    shown: list[str] = []
    rows = rejected = 0
    table = TABLES[plan.layout.kind]
    with (
        ParquetFile(Path(piece.rows), table.arrow_schema()) as good,
        ParquetFile(Path(piece.rejects), REJECTS.arrow_schema()) as bad,
    ):
        try:
            for row in rows_of(path, columns, plan.delimiter):
                reader.put(row)
                if len(reader) == _BATCH_ROWS:
                    counts = _write(reader, good, bad, shown)
                    rows, rejected = rows + counts[0], rejected + counts[1]
        except (pa.ArrowException, OSError) as error:
            return LoadResult(rows, rejected, fault=f"cannot be read to its end ({error})")
        counts = _write(reader, good, bad, shown)
    return LoadResult(rows + counts[0], rejected + counts[1], shown)


def _write(reader: Reader, good: ParquetFile, bad: ParquetFile, shown: list[str]) -> Any:
    """Write what was read to the files, and return the numbers of rows and rejects."""
    rows, rejects = reader.take()
    good.write(rows)
    bad.write(rejects)
    for reject in rejects.slice(0, SHOWN_MAX - len(shown)).to_pylist():
        place = reject["row"] if reject["line"] is None else reject["line"]
        shown.append(f"{reject['file']}:{place}: {reject['reason']}")
    return rows.num_rows, rejects.num_rows
