"""Imports CSV and Parquet files as a table; rejected rows are kept apart.

It decides how columns are used unless the user says so, and how rows are numbered.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from byway.pipeline.importing.formats import (
    CONTENT,
    FAULT,
    FILE,
    SourceRows,
    input_files,
    numbered,
    sources_of,
)
from byway.pipeline.importing.types import Type, declared, inferred
from byway.pipeline.importing.user_frames import (
    REASON,
    TABLES,
    Kind,
    Layout,
    check_attribute_names,
    is_bad,
    marked_rows,
)
from byway.pipeline.jobs import Progress
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import StrPath, below, check_place, read_table, write_table
from byway.pipeline.workload_schemas import DESCRIPTION, REJECTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("byway.import")

SAMPLE_ROWS: Final = 1_000
"""Rows of CSV files with the same columns, from which the types of these are inferred."""
SHOWN_MAX: Final = 5
"""Rejects and skipped files that are named."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about the columns, and about CSV."""

    id: str | None = None
    broker: str | None = None
    filter: str | None = None
    types: dict[str, Type] = {}
    delimiter: str = ","
    multiline: bool = False
    """Cells of CSV may have line breaks. One core reads a file then."""


class ImportPlan(NamedTuple):
    """The rows to import, and how their columns are used."""

    files: list[str]
    sources: list[SourceRows]
    layout: Layout
    unread: list[str]
    """Columns that are not used."""
    skipped: list[str]
    """Files below the directories that are neither CSV nor Parquet."""


class ImportOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The tables that an import wrote, and their numbers of rows."""

    table: str
    rows: int
    rejects: str
    rejected: int
    reasons: list[str]
    """The first rejects of all files, each with its place and reason."""
    types: dict[str, Type]
    unread: list[str]
    skipped: list[str]


# --- planning ---------------------------------------------------------------------------------


def plan_load(
    spark: SparkSession, kind: Kind, places: Sequence[StrPath], options: ImportOptions
) -> ImportPlan:
    """Plan an import, and check it. Raises `TableError` with the file or column at fault."""
    files, others = input_files(spark, places)
    if others:
        log.warning("files that are not read: %s", _shown(others))
    sources = sources_of(spark, files, options.delimiter, multiline=options.multiline)
    every = list(dict.fromkeys(name for source in sources for name in source.columns))
    for name in (options.id, options.broker, options.filter, *options.types):
        if name is not None and name not in every:
            raise TableError(files[0], f"there is no column {name!r}; it has {', '.join(every)}")
    _check_options(kind, sources, options)
    layout = _layout(kind, sources, every, options)
    used = {layout.id, layout.broker, layout.filter, *layout.attributes}
    unread = [name for name in every if name not in used]
    left_out = [name for name, type_ in layout.attributes.items() if type_ is Type.SKIP]
    return ImportPlan(files, sources, layout, [*unread, *left_out], others)


def _shown(files: Sequence[str]) -> str:
    more = len(files) - SHOWN_MAX
    return ", ".join(files[:SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")


def _check_options(kind: Kind, sources: Sequence[SourceRows], options: ImportOptions) -> None:
    for source in sources:
        file, names = source.files[0], source.columns
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
    kind: Kind, sources: Sequence[SourceRows], every: Sequence[str], options: ImportOptions
) -> Layout:
    if kind == "subscriptions":
        wanted = options.filter or (every[0] if len(every) == 1 else "filter")
        for source in sources:
            if wanted not in source.columns:
                reason = f"there is no column {wanted!r}; name the one with filters, of"
                raise TableError(source.files[0], f"{reason} {', '.join(source.columns)}")
        return Layout(kind=kind, id=options.id, broker=options.broker, filter=wanted)
    taken = (options.id, options.broker)
    found = _types(sources, options)
    types = {name: found[name] for name in every if name not in taken}
    layout = Layout(kind=kind, id=options.id, broker=options.broker, attributes=types)
    check_attribute_names(sources[0].files[0], layout)
    return layout


def _types(sources: Sequence[SourceRows], options: ImportOptions) -> dict[str, Type]:
    """The type of each column: the user's, else Parquet's, else inferred from rows of CSV."""
    samples: dict[str, list[str | None]] = {}
    found: dict[str, Type] = {}
    for source in sources:
        if not source.is_csv:
            found |= _declared(source, options)
            continue
        rows = source.frame.where(f"{FAULT} IS NULL").select(*source.columns.values())
        for row in rows.limit(SAMPLE_ROWS).collect():
            for name, cell in zip(source.columns, row, strict=True):
                samples.setdefault(name, []).append(cell)
        for name in source.columns:
            samples.setdefault(name, [])
    return inferred(samples) | found | options.types


def _declared(source: SourceRows, options: ImportOptions) -> dict[str, Type]:
    of = source.frame.schema
    found = {}
    for name, own in source.columns.items():
        if name in (options.id, options.broker):
            continue
        type_ = options.types.get(name) or declared(of[own].dataType)
        if type_ is None:
            kind = of[own].dataType.simpleString()
            reason = f"column {name!r} is {kind}, which no attribute can hold"
            raise TableError(source.files[0], f"{reason}; declare its type, string or skip")
        found[name] = type_
    return found


# --- loading ----------------------------------------------------------------------------------


def load(
    spark: SparkSession, plan: ImportPlan, place: StrPath, progress: Progress | None = None
) -> ImportOutcome:
    """Write a table of the rows and one of the rejects below `place`."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    _check_place(spark, place)
    table = TABLES[plan.layout.kind]
    target, rejects = below(place, table.name), below(place, f"{table.name}_rejects")
    marked = _marked(spark, plan, progress)
    seen = Observation("import")
    rejects_seen = sql.count(REASON).alias("rejected")
    counts = sql.count(sql.lit(1)).alias("rows"), rejects_seen
    needed = marked.select(*table.names, REASON)  # the rest is not computed for good rows
    good = needed.observe(seen, *counts).where(sql.col(REASON).isNull())
    write_table(good, table, target, progress)
    rejected = int(seen.get["rejected"])
    bad = marked.where(is_bad()).select(*REJECTS.names)
    if not rejected:  # nothing is read again
        bad = spark.createDataFrame([], REJECTS.spark_schema()).coalesce(1)
    write_table(bad, REJECTS, rejects, progress)
    return ImportOutcome(
        table=target,
        rows=int(seen.get["rows"]) - rejected,
        rejects=rejects,
        rejected=rejected,
        reasons=_first(spark, rejects) if rejected else [],
        types=plan.layout.attributes,
        unread=plan.unread,
        skipped=plan.skipped,
    )


def _check_place(spark: SparkSession, place: StrPath) -> None:
    """Raise `TableError` if nothing can be written there, or if a generated workload is there,
    whose description would be wrong."""
    check_place(spark, place)
    try:
        read_table(spark, DESCRIPTION, below(place, DESCRIPTION.name))
    except TableError:
        return
    reason = f"holds a workload, which the table `{DESCRIPTION.name}` describes"
    raise TableError(place, f"{reason}; name another directory")


def _marked(spark: SparkSession, plan: ImportPlan, progress: Progress | None) -> DataFrame:
    """The columns of the table and of the rejects, of all rows."""
    from pyspark.sql import functions as sql

    frames = []
    local = sql.regexp_replace(FILE, "^file:/+", "/")
    file = sql.url_decode(sql.replace(local, sql.lit("+"), sql.lit("%2B")))
    kept = [file.alias("file"), sql.col("_row").alias("row"), sql.col(CONTENT).alias("content")]
    for source in numbered(spark, plan.sources, plan.files, progress):
        number, fault = sql.col("_number"), sql.col(FAULT)
        rows = marked_rows(source.frame, source.cells(), number, plan.layout, fault, kept)
        frames.append(rows)
    return reduce(lambda one, other: one.unionByName(other), frames)


def _first(spark: SparkSession, rejects: str) -> list[str]:
    """The first rejects, each with its place and reason."""
    found = read_table(spark, REJECTS, rejects).orderBy("file", "row").limit(SHOWN_MAX).collect()
    return [f"{row['file']}:{row['row']}: {row['reason']}" for row in found]
