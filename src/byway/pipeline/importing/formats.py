"""Formats: reads CSV and Parquet files of users as frames of their rows, each with its place,
well-formed or not.

It decides what a row is. What its cells mean is decided elsewhere.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from byway.pipeline.failures import told_of
from byway.pipeline.jobs import Progress, run_action
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import StrPath, place_of, reader_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CSV: Final = ".csv"
PARQUET: Final = ".parquet"
CONTENT_MAX: Final = 1_000
FILE: Final = "_file"
START: Final = "_start"
"""Where in its file the split of a row begins."""
POSITION: Final = "_position"
FAULT: Final = "_fault"
CONTENT: Final = "_content"
_CORRUPT: Final = "_corrupt"


class SourceRows(NamedTuple):
    """Rows of files with the same columns. A frame has them under names of its own, beside the
    place and the text of each row, and what is wrong with it as a whole."""

    files: list[str]
    frame: DataFrame
    columns: dict[str, str]
    """The name of each column in the frame."""
    is_csv: bool

    def cells(self) -> dict[str, Column]:
        """The columns of the user."""
        return {name: self.frame[own] for name, own in self.columns.items()}


def input_files(spark: SparkSession, places: Sequence[StrPath]) -> tuple[list[str], list[str]]:
    """The CSV and Parquet files at or below the places, in the order given, at least one and each
    once; and the other files below them. Spark does not list files whose names begin with `.` or
    `_`."""
    files: list[str] = []
    others: list[str] = []
    for place in dict.fromkeys(map(place_of, places)):
        with told_of(place, "user"):
            listed = (
                reader_of(spark)
                .format("binaryFile")
                .option("recursiveFileLookup", "true")
                .load(place)
                .select("path")
            )
            below = sorted(_shown(row["path"]) for row in listed.collect())
        found = [file for file in below if _suffix(file) in (CSV, PARQUET)]
        if not found:
            reason = f"it holds no {CSV} or {PARQUET} file"
            if not below and _suffix(place) in (CSV, PARQUET):
                reason = "the file is empty"
            elif below == [_shown(place)]:
                reason = f"expected a name that ends in {CSV} or {PARQUET}"
            raise TableError(place, reason)
        files += found
        others += [file for file in below if file not in set(found)]
    files = list(dict.fromkeys(files))
    return files, [file for file in dict.fromkeys(others) if file not in set(files)]


def _suffix(file: str) -> str:
    return PurePosixPath(file).suffix.lower()


def _shown(address: str) -> str:
    """A path of this machine without its scheme, or the address as it is."""
    return "/" + address.removeprefix("file:").lstrip("/") if address[:5] == "file:" else address


def sources_of(
    spark: SparkSession, files: Sequence[str], delimiter: str, *, multiline: bool
) -> list[SourceRows]:
    """The rows of all files, those with the same columns together."""
    parquet = [file for file in files if _suffix(file) == PARQUET]
    headers: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        if _suffix(file) != PARQUET:
            headers.setdefault(tuple(_header(spark, file, delimiter)), []).append(file)
    found = [
        _csv_source(spark, some, list(names), delimiter, multiline=multiline)
        for names, some in headers.items()
    ]
    return [*found, *([_parquet_source(spark, parquet)] if parquet else [])]


def _header(spark: SparkSession, file: str, delimiter: str) -> list[str]:
    """The names in the first line. Raises `TableError` if there are none, or two are the same."""
    with told_of(file, "user"):
        lines = reader_of(spark).text(file).head(1)
    try:
        names = next(csv.reader([row[0] for row in lines], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise TableError(file, f"the header cannot be read ({error})") from None
    if not names:
        raise TableError(file, "the file has no header")
    for number, name in enumerate(names):
        if not name.strip():
            raise TableError(file, f"column {number + 1} has no name")
        if name in names[:number]:
            raise TableError(file, f"two columns are called {name!r}")
    return names


def _csv_source(
    spark: SparkSession, files: list[str], names: list[str], delimiter: str, *, multiline: bool
) -> SourceRows:
    from pyspark.sql import functions as sql

    own = [f"c{number}" for number in range(len(names))]
    schema = ", ".join(f"{column} string" for column in (*own, _CORRUPT))
    rows = (
        reader_of(spark)
        .schema(schema)
        .options(
            header=True, mode="PERMISSIVE", columnNameOfCorruptRecord=_CORRUPT, sep=delimiter,
            quote='"', escape='"', unescapedQuoteHandling="RAISE_ERROR", multiLine=multiline,
            maxCharsPerColumn=-1, maxColumns=max(20_480, len(names)),
        )
        .csv(files)
    )  # fmt: skip
    told = sql.lit(f"not CSV, or not {len(names)} cells")
    content = sql.coalesce(sql.col(_CORRUPT), sql.concat_ws(delimiter, *own))
    fault = sql.when(sql.col(_CORRUPT).isNotNull(), told)
    frame = _placed(rows, own, fault, content)
    return SourceRows(files, frame, dict(zip(names, own, strict=True)), is_csv=True)


def _parquet_source(spark: SparkSession, files: list[str]) -> SourceRows:
    from pyspark.sql import functions as sql

    with told_of(", ".join(files), "user"):
        rows = reader_of(spark).option("mergeSchema", len(files) > 1).parquet(*files)
    names = rows.columns
    own = [f"c{number}" for number in range(len(names))]
    renamed = rows.select(
        *(
            rows[f"`{name.replace('`', '``')}`"].alias(c)
            for name, c in zip(names, own, strict=True)
        ),
        "_metadata",
    )
    texts = [renamed[column].cast("string") for column in own]
    nothing = sql.lit(None).cast("string")
    frame = _placed(renamed, own, nothing, sql.concat_ws(",", *texts))
    return SourceRows(files, frame, dict(zip(names, own, strict=True)), is_csv=False)


def _placed(rows: DataFrame, own: list[str], fault: Any, content: Any) -> DataFrame:
    """The rows with their places."""
    from pyspark.sql import functions as sql

    return rows.select(
        *own,
        sql.col("_metadata.file_path").alias(FILE),
        sql.col("_metadata.file_block_start").alias(START),
        sql.monotonically_increasing_id().alias(POSITION),
        fault.alias(FAULT),
        sql.substring(content, 1, CONTENT_MAX).alias(CONTENT),
    )


def numbered(
    spark: SparkSession,
    sources: Sequence[SourceRows],
    files: Sequence[str],
    progress: Progress | None = None,
) -> list[SourceRows]:
    """The sources with the columns `_row` and `_number`: the number of each row in its file, and
    through all files in their order, from 1. This counts all rows first."""
    from pyspark.sql import functions as sql

    counted = [
        source.frame.groupBy(FILE, START).agg(
            sql.count("*").alias("rows"), sql.min(POSITION).alias("first")
        )
        for source in sources
    ]
    together = reduce(lambda one, other: one.union(other), counted)
    splits = run_action(spark, together.collect, progress, "counting rows")
    order = {file: number for number, file in enumerate(files)}
    rows, offsets, before = 0, [], ""
    in_file = 0
    for split in sorted(splits, key=lambda s: (order[shown_file(s[FILE])], s[START])):
        if split[FILE] != before:
            before, in_file = split[FILE], 0
        offsets.append((split[FILE], split[START], in_file - split["first"], rows - in_file))
        in_file += split["rows"]
        rows += split["rows"]
    schema = f"{FILE} string, {START} bigint, _to_row bigint, _before bigint"
    table = spark.createDataFrame(offsets, schema)
    row = sql.col(POSITION) + sql.col("_to_row") + 1
    return [
        source._replace(
            frame=source.frame.join(sql.broadcast(table), [FILE, START])
            .withColumn("_row", row)
            .withColumn("_number", row + sql.col("_before"))
        )
        for source in sources
    ]


def shown_file(address: str) -> str:
    """The path of a file that Spark names by its address."""
    return _shown(unquote(address))
