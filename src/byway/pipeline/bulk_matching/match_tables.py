"""Matches tables: builds the parts, matches all publications with each, and adds up the results.

Each piece of publications is matched with each part in a task of its own. The tasks of a part
follow one another, so that about one index at a time has to be in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from byway.pipeline.bulk_matching.match_task import (
    MatchPiece,
    MatchPlaces,
    MatchResult,
    SumPiece,
    SumResult,
    match_piece,
    sum_up,
)
from byway.pipeline.bulk_matching.parts import (
    BuildPiece,
    BuildResult,
    IndexPart,
    build_parts,
    part_rows,
)
from byway.pipeline.bulk_matching.rows import RowGroups, grouped
from byway.pipeline.jobs import run_job
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import TableSchema
from byway.pipeline.table_files import PARTIAL, SUFFIX, new_directory, write_file
from byway.pipeline.workload_schemas import PAIRS, PUBLICATION_MATCHES, SUBSCRIPTION_MATCHES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY_BYTES: Final = 2**30
PIECE_ROWS: Final = 131_072
"""Publications of a task at most, unless a row group has more."""

Progress = Callable[[int, int, str], None]
"""Called now and then with the number of pieces done, their total, and the name of the step."""


class MatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a match, and the tables that were written."""

    publications: int
    subscriptions: int
    pairs: int
    publications_without: int
    """Publications that match no subscription."""
    subscriptions_without: int
    """Subscriptions that no publication matches."""
    parts: int
    tables: list[str]


def match_tables(
    spark: SparkSession,
    publications: Sequence[Path],
    subscriptions: Sequence[Path],
    directory: Path,
    *,
    pairs: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress | None = None,
) -> MatchOutcome:
    """Match files of publications with files of subscriptions, all of which were checked, and write
    the tables into `directory`."""
    pieces = grouped(publications, PIECE_ROWS)
    tables = [PUBLICATION_MATCHES, SUBSCRIPTION_MATCHES, *([PAIRS] if pairs else [])]
    # workers that live on know indexes by their paths
    work = directory.absolute() / f".match.{uuid4().hex}{PARTIAL}"
    has_answers = (directory / PUBLICATION_MATCHES.name).exists()
    with ExitStack() as stack:
        targets = {
            table: stack.enter_context(new_directory(directory / table.name)) for table in tables
        }
        for left in directory.glob(f".match.*{PARTIAL}"):
            shutil.rmtree(left, ignore_errors=True)
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        work.mkdir()
        places = MatchPlaces(str(work), str(targets[PAIRS]) if pairs else None)
        parts = _build(spark, subscriptions, pieces, work, memory_bytes, progress)
        found = _match(spark, places, parts, pieces, progress)
        summed = _sum_up(spark, places, parts, pieces, targets, progress)
        for table, target in targets.items():
            if not any(target.iterdir()):
                write_file(table.arrow_schema().empty_table(), target / f"part-00000{SUFFIX}")
    if not pairs and has_answers:
        shutil.rmtree(directory / PAIRS.name, ignore_errors=True)  # they belong to those before
    of_publications, of_subscriptions = summed[: len(pieces)], summed[len(pieces) :]
    return MatchOutcome(
        publications=sum(total.rows for total in of_publications),
        subscriptions=sum(total.rows for total in of_subscriptions),
        pairs=sum(one.pairs for one in found),
        publications_without=sum(total.without for total in of_publications),
        subscriptions_without=sum(total.without for total in of_subscriptions),
        parts=len(parts),
        tables=[str(directory / table.name) for table in tables],
    )


def _build(
    spark: SparkSession,
    subscriptions: Sequence[Path],
    publications: list[RowGroups],
    work: Path,
    memory_bytes: int,
    progress: Progress | None,
) -> list[IndexPart]:
    groups = grouped(subscriptions, 1)
    limit = part_rows(sum(group.rows for group in groups))
    sample = publications[0] if publications else None
    pieces = [
        BuildPiece(some, sample, str(work / f"part-{number:05}"), memory_bytes)
        for number, some in enumerate(_shares(groups, limit))
    ]
    poll = _poll(progress, "indexes", len(pieces), work, "part-?????-0000.index")
    built = run_job(spark, build_parts, pieces, BuildResult, poll)
    for result in built:
        if result.fault is not None:
            raise TableError(*result.fault)
    return [part for result in built for part in result.parts]


def _shares(groups: list[RowGroups], rows_max: int) -> list[list[RowGroups]]:
    """Consecutive groups with at most `rows_max` rows together, unless a single group has more."""
    shares: list[list[RowGroups]] = []
    rows = 0
    for group in groups:
        if not shares or rows + group.rows > rows_max:
            shares.append([])
            rows = 0
        shares[-1].append(group)
        rows += group.rows
    return shares


def _match(
    spark: SparkSession,
    places: MatchPlaces,
    parts: list[IndexPart],
    groups: list[RowGroups],
    progress: Progress | None,
) -> list[MatchResult]:
    pieces = [
        MatchPiece(part_number, part, number, some)
        for part_number, part in enumerate(parts)
        for number, some in enumerate(groups)
    ]
    poll = _poll(progress, "matching", len(pieces), Path(places.work), "publications-*.npy")
    return run_job(spark, partial(match_piece, places), pieces, MatchResult, poll)


def _sum_up(
    spark: SparkSession,
    places: MatchPlaces,
    parts: list[IndexPart],
    groups: list[RowGroups],
    targets: dict[TableSchema, Path],
    progress: Progress | None,
) -> list[SumResult]:
    """Add up the results: the totals of the pieces, then those of the parts."""
    to, of = targets[PUBLICATION_MATCHES], targets[SUBSCRIPTION_MATCHES]
    pieces = [
        SumPiece(str(to / f"part-{number:05}{SUFFIX}"), number, len(parts), groups=some)
        for number, some in enumerate(groups)
    ] + [
        SumPiece(str(of / f"part-{number:05}{SUFFIX}"), number, len(groups), part=part)
        for number, part in enumerate(parts)
    ]
    poll = _poll(progress, "totals", len(pieces), to.parent, f".*_matches*/part-*{SUFFIX}")
    return run_job(spark, partial(sum_up, places), pieces, SumResult, poll)


def _poll(
    progress: Progress | None, what: str, total: int, place: Path, pattern: str
) -> Callable[[], None]:
    """A function that reports the number of files that are complete by now."""

    def poll() -> None:
        if progress is not None:
            progress(len(list(place.glob(pattern))), total, what)

    return poll
