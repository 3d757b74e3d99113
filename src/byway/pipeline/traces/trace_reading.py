"""Reads traces: which files of a directory count, and which rows of them.

Days are left out by the names of their directories (`byway.trace.trace_directories`), and so is
what a merged file replaces. Spark lists the files and plans without those; the driver opens a few
footers at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from byway.pipeline.failures import NOT_A_TRACE
from byway.pipeline.schemas import TRACE
from byway.pipeline.table_files import CATALOG, StrPath, check_file, place_of, read_table
from byway.trace.parquet_footer import version_key
from byway.trace.trace_directories import DAY_US, MERGED, date_of, replaced_by

FOOTERS_MAX: Final = 32
"""Files of this machine whose footers are looked at before Spark reads any row."""

_PATH: Final = "_metadata.file_path"
_DATE: Final = r"/date=(-?\d{4}-\d\d-\d\d)/[^/]*$"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_traces(
    spark: SparkSession,
    *places: StrPath,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """The rows of the traces at all places, from `since` on and before `until`; times without a
    zone are UTC.

    Raises `TableError` if there is no trace, or if one of the first files is damaged. What is wrong
    with others becomes an error when Spark reads them, with the name of the file.
    """
    frames = [_read(spark, place, since, until) for place in _distinct(places)]
    union, *others = frames
    for frame in others:
        union = union.unionByName(frame)
    return union


def _read(
    spark: SparkSession, place: str, since: datetime | None, until: datetime | None
) -> DataFrame:
    frame = read_table(spark, TRACE, place)
    if not place.startswith(CATALOG):
        files = sorted(frame.inputFiles())
        for file in _local(files[:FOOTERS_MAX]):
            _check_footer(file)
        merged = (file for file in files if f"/{MERGED}" in file)  # no look at the others
        gone = sorted({old for file in _local(merged) for old in replaced_by(file)})
        if gone:
            frame = frame.where(~_local_path().isin(*map(_as_spark_names, gone)))
        if since is not None or until is not None:
            frame = frame.where(_may_be_between(since, until))
        frame = frame.withColumn("event", _checked_event())
    if since is not None:
        frame = frame.where(F.col("t_us") >= microseconds(since))
    if until is not None:
        frame = frame.where(F.col("t_us") < microseconds(until))
    return frame.select(*TRACE.names)


def _check_footer(file: Path) -> None:
    """Raise `TableError` if byway wrote the file and it is damaged, or of a newer byway."""
    try:
        is_ours = version_key(TRACE.name) in (pq.read_schema(file).metadata or {})
    except (pa.ArrowException, OSError):
        is_ours = True
    if is_ours:
        check_file(TRACE, file)


def microseconds(time: datetime) -> int:
    """A time as traces have it; without a zone it is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    since_epoch = aware - _EPOCH
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 1_000_000 + since_epoch.microseconds


def _may_be_between(since: datetime | None, until: datetime | None) -> Column:
    """Whether a file can have rows of these times, by its path. Spark asks that once for each file
    when it plans, and opens only those that can."""
    date = F.regexp_extract(_PATH, _DATE, 1)
    wanted = F.lit(True)
    if since is not None:
        wanted = wanted & (date >= date_of(microseconds(since) // DAY_US))
    if until is not None:
        wanted = wanted & (date <= date_of((microseconds(until) - 1) // DAY_US))
    return (date == "") | wanted


def _checked_event() -> Column:
    """The event, which every row of a trace has; a file without it is no trace."""
    stop = F.raise_error(F.concat(F.lit(NOT_A_TRACE), F.col(_PATH)))
    return F.when(F.col("event").isNotNull(), F.col("event")).otherwise(stop.cast("tinyint"))


def _distinct(places: Iterable[StrPath]) -> list[str]:
    """The places, without those that are named twice or lie below another one."""
    named = list(dict.fromkeys(place_of(place).rstrip("/") or "/" for place in places))
    return [
        place
        for place in named
        if not any(place != top and place.startswith(f"{top.rstrip('/')}/") for top in named)
    ]


def _local(files: Iterable[str]) -> Iterator[Path]:
    """The files that are on this machine."""
    for file in files:
        address = urlsplit(file)
        path = Path(unquote(address.path))
        if address.scheme == "file" and path.is_file():
            yield path


def _local_path() -> Column:
    """The path of a file on this machine, as Spark writes it."""
    return F.regexp_replace(_PATH, "^file:/+", "/")


def _as_spark_names(path: Path) -> str:
    return quote(str(path), safe="/=:@!$&'()*+,;-._~")
