"""Generates a workload: its tables as DataFrames, and written to a place.

A task makes whole chunks, and each chunk is determined by its number: so the rows are the same
however many cores there are and in whatever order chunks are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from byway._version import __version__
from byway.pipeline.jobs import Progress
from byway.pipeline.parallelism import parallelism
from byway.pipeline.schemas import TableSchema
from byway.pipeline.table_files import StrPath, below, clear_table, read_table, write_table
from byway.pipeline.workload_schemas import (
    DESCRIPTION,
    PUBLICATIONS,
    REJECTS,
    SCHEDULE,
    SUBSCRIPTIONS,
)
from byway.pipeline.workloads.kinds import ROWS_DEFAULT, WorkloadRequest, request_of
from byway.workload import Generator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_CHUNKS: Final = 64
"""Chunks of a task at most; a task writes one file."""
_TASKS_PER_CORE: Final = 2
_TABLES: Final = {table.name: table for table in (SUBSCRIPTIONS, PUBLICATIONS, SCHEDULE)}


class WorkloadFrames(NamedTuple):
    """The tables of a workload. Nothing is computed before one is used."""

    subscriptions: DataFrame
    publications: DataFrame
    schedule: DataFrame | None
    """When subscriptions begin, move and end; None: the kind has no schedule."""


class TableFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a table in the description of a workload."""

    version: int
    rows: int


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Describes the workload at a place, with all that is needed to make it again."""

    kind: str
    seed: int
    generator: str
    parameters: dict[str, Any]
    tables: dict[str, TableFacts]
    byway: str


def workload(
    spark: SparkSession,
    kind: str,
    *,
    size: int | None = None,
    publications: int = ROWS_DEFAULT,
    seed: int = 0,
    settings: tuple[str, ...] = (),
) -> WorkloadFrames:
    """The tables of a workload of a kind that `byway pipeline workload` knows, as DataFrames.

    `size` is the number of subscriptions, `settings` are `key=value` for parameters of the
    generator. The same arguments give the same rows, whatever the partitioning. Raises
    `WorkloadRequestError` with the argument at fault.
    """
    return frames_of(spark, request_of(kind, size, publications, seed, settings))


def frames_of(spark: SparkSession, request: WorkloadRequest) -> WorkloadFrames:
    """The tables of a request that was checked."""
    frames = {table: _frame(spark, request, table) for table in tables_of(request)}
    return WorkloadFrames(frames[SUBSCRIPTIONS], frames[PUBLICATIONS], frames.get(SCHEDULE))


def generate(
    spark: SparkSession,
    request: WorkloadRequest,
    place: StrPath,
    progress: Progress | None = None,
) -> Description:
    """Write the tables of a workload below `place`, and a description beside them."""
    tables = tables_of(request)
    facts = {}
    for table in tables:
        target = below(place, table.name)
        write_table(_frame(spark, request, table), table, target, progress)
        rows = rows_of(request, table)
        if table is SCHEDULE:
            rows = read_table(spark, table, target).count()
        facts[table.name] = TableFacts(version=table.version, rows=rows)
    if SCHEDULE not in tables:
        clear_table(spark, SCHEDULE, below(place, SCHEDULE.name))  # of another workload
    for table in (SUBSCRIPTIONS, PUBLICATIONS):  # of tables that were imported
        clear_table(spark, REJECTS, below(place, f"{table.name}_rejects"))
    description = _described(request, facts)
    row = msgspec.to_builtins(description)
    row["parameters"] = msgspec.json.encode(description.parameters).decode()
    row["tables"] = msgspec.json.encode(description.tables).decode()
    values = [tuple(row[name] for name in DESCRIPTION.names)]
    frame = spark.createDataFrame(values, DESCRIPTION.spark_schema()).coalesce(1)
    write_table(frame, DESCRIPTION, below(place, DESCRIPTION.name))
    return description


def tables_of(request: WorkloadRequest) -> list[TableSchema]:
    """The tables of a workload."""
    has_schedule = request.generator.schedule(0) is not None
    return [SUBSCRIPTIONS, PUBLICATIONS, *([SCHEDULE] if has_schedule else [])]


def rows_of(request: WorkloadRequest, table: TableSchema) -> int:
    """Number of rows of a table; of a schedule, of the subscriptions that it is about."""
    return request.publications if table is PUBLICATIONS else request.subscriptions


def _frame(spark: SparkSession, request: WorkloadRequest, table: TableSchema) -> DataFrame:
    total = rows_of(request, table)
    chunks = -(-total // Generator.ROWS)
    tasks = max(-(-chunks // TASK_CHUNKS), min(chunks, _TASKS_PER_CORE * parallelism(spark)))
    numbers = spark.range(0, chunks, 1, max(1, tasks))
    return numbers.mapInArrow(
        partial(make_chunks, request.generator, table.name, total), table.ddl()
    )


def make_chunks(
    generator: Generator, table: str, total: int, batches: Iterator[Any]
) -> Iterator[Any]:
    """Run in a worker: the rows of the chunks whose numbers arrive."""
    for batch in batches:
        for chunk in batch.column(0).to_pylist():
            rows = chunk_rows(generator, _TABLES[table], chunk, total)
            yield from rows.combine_chunks().to_batches()


def chunk_rows(generator: Generator, table: TableSchema, chunk: int, total: int) -> Any:
    """The rows of one chunk, cut at the end of the table, as an Arrow table."""
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


def _described(request: WorkloadRequest, tables: dict[str, TableFacts]) -> Description:
    parameters: dict[str, Any] = msgspec.to_builtins(request.generator)
    generator = parameters.pop("type")
    seed = parameters.pop("seed")
    return Description(
        kind=request.kind,
        seed=seed,
        generator=generator,
        parameters=parameters,
        tables=tables,
        byway=__version__,
    )
