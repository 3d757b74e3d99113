"""Generates a workload: workers write its files, each a fixed range of rows.

The range of a file is fixed by its number, and a chunk by its own: so the bytes are the same
however many cores there are and in whatever order files are made.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from byway._version import __version__
from byway.pipeline.jobs import run_job
from byway.pipeline.schemas import TableSchema
from byway.pipeline.table_files import SUFFIX, ParquetFile, clear_table, new_directory, write_text
from byway.pipeline.workload_schemas import (
    DESCRIPTION,
    PUBLICATIONS,
    REJECTS,
    SCHEDULE,
    SUBSCRIPTIONS,
)
from byway.pipeline.workloads.kinds import WorkloadRequest
from byway.workload import Generator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_CHUNKS: Final = 64
FILE_ROWS: Final = FILE_CHUNKS * Generator.ROWS
GROUP_ROWS: Final = FILE_ROWS // 4
"""Rows of a row group, which is what a task can read by itself."""
_TABLES: Final = {table.name: table for table in (SUBSCRIPTIONS, PUBLICATIONS, SCHEDULE)}


class WorkloadPiece(msgspec.Struct, frozen=True):
    """A task: one file of one table."""

    table: str
    number: int
    path: str


class WrittenFile(msgspec.Struct, frozen=True):
    """The table of a file, and its number of rows."""

    table: str
    rows: int


class TableFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a table in the description of a workload."""

    version: int
    rows: int
    files: int


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the workload in a directory, with all that is needed to make it again."""

    kind: str
    seed: int
    generator: str
    parameters: dict[str, Any]
    rows_per_file: int
    tables: dict[str, TableFacts]
    byway: str


def generate(
    spark: SparkSession,
    request: WorkloadRequest,
    directory: Path,
    progress: Callable[[int], None] | None = None,
) -> Description:
    """Write the tables of a workload into `directory`, and a description beside them."""
    tables = tables_of(request)
    with ExitStack() as stack:
        places = {
            table.name: stack.enter_context(new_directory(directory / table.name))
            for table in tables
        }
        pieces = list(pieces_of(request, places))

        def poll() -> None:
            if progress is not None:
                progress(sum(Path(piece.path).exists() for piece in pieces))

        written = run_job(spark, partial(write_piece, request), pieces, WrittenFile, poll)
    if SCHEDULE not in tables and (directory / DESCRIPTION).exists():
        shutil.rmtree(directory / SCHEDULE.name, ignore_errors=True)  # of another workload
    for table in (SUBSCRIPTIONS, PUBLICATIONS):
        clear_table(
            spark, REJECTS, directory / f"{table.name}_rejects"
        )  # of tables that were imported
    description = _described(request, tables, written)
    text = msgspec.json.format(msgspec.json.encode(description), indent=2).decode() + "\n"
    write_text(text, directory / DESCRIPTION)
    return description


def tables_of(request: WorkloadRequest) -> list[TableSchema]:
    """The tables of a workload."""
    has_schedule = request.generator.schedule(0) is not None
    return [SUBSCRIPTIONS, PUBLICATIONS, *([SCHEDULE] if has_schedule else [])]


def files_of(request: WorkloadRequest) -> int:
    """Number of files of a workload."""
    return len(list(pieces_of(request, {table.name: Path() for table in tables_of(request)})))


def pieces_of(request: WorkloadRequest, places: dict[str, Path]) -> Iterator[WorkloadPiece]:
    """The tasks for all files of all tables; a table has at least one file."""
    for table, place in places.items():
        rows = request.publications if table == PUBLICATIONS.name else request.subscriptions
        for number in range(max(1, -(-rows // FILE_ROWS))):
            yield WorkloadPiece(table, number, str(place / f"part-{number:05}{SUFFIX}"))


def write_piece(request: WorkloadRequest, piece: WorkloadPiece) -> WrittenFile:
    """Run in a worker: write one file of a table."""
    import pyarrow as pa

    table = _TABLES[piece.table]
    total = request.publications if table is PUBLICATIONS else request.subscriptions
    first = piece.number * FILE_CHUNKS
    count = -(-min(FILE_ROWS, total - first * Generator.ROWS) // Generator.ROWS)
    parts = [
        _rows_of(request.generator, table, chunk, total) for chunk in range(first, first + count)
    ]
    rows = pa.concat_tables([table.arrow_schema().empty_table(), *parts]).combine_chunks()
    with ParquetFile(Path(piece.path), rows.schema) as file:
        for start in range(0, max(1, rows.num_rows), GROUP_ROWS):
            file.write(rows.slice(start, GROUP_ROWS))
    return WrittenFile(piece.table, rows.num_rows)


def _rows_of(generator: Generator, table: TableSchema, chunk: int, total: int) -> Any:
    """The rows of one chunk, cut at the end of the table."""
    from byway.pipeline.workloads import workload_columns as columns

    start = chunk * generator.ROWS
    rows = min(generator.ROWS, total - start)
    names = generator.broker_names()
    if table is SCHEDULE:
        schedule = generator.schedule(chunk)
        assert schedule is not None
        kept = type(schedule)(*(column[schedule.rows < total] for column in schedule))
        return columns.schedule_rows(kept, names)
    if table is PUBLICATIONS:
        published = columns.broker_column(
            generator.publication_places(chunk), names, generator.ROWS
        )
        found = generator.publications(chunk).slice(0, rows)
        return columns.publication_rows(start, found, published[:rows])
    places = columns.broker_column(generator.subscription_places(chunk), names, generator.ROWS)
    wanted = generator.subscriptions(chunk).slice(0, rows)
    return columns.subscription_rows(start, wanted, places[:rows])


def _described(
    request: WorkloadRequest, tables: list[TableSchema], written: list[WrittenFile]
) -> Description:
    parameters: dict[str, Any] = msgspec.to_builtins(request.generator)
    generator = parameters.pop("type")
    seed = parameters.pop("seed")
    facts = {
        table.name: TableFacts(
            version=table.version,
            rows=sum(piece.rows for piece in written if piece.table == table.name),
            files=sum(piece.table == table.name for piece in written),
        )
        for table in tables
    }
    return Description(
        kind=request.kind,
        seed=seed,
        generator=generator,
        parameters=parameters,
        rows_per_file=FILE_ROWS,
        tables=facts,
        byway=__version__,
    )
