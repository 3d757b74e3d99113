"""Compacts traces: merges the small files of live brokers, each large file in a task of its own.

`byway.trace.file_merging` decides what is merged, and when readers take it. Here it is done on
Spark, in rounds, so that a driver that is killed loses the work of one round at most.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from byway.model.errors import TraceError
from byway.pipeline.jobs import Progress, part_of, run_job
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import StrPath, shared_directory
from byway.trace.file_merging import (
    TARGET_BYTES,
    Merged,
    clean,
    lock,
    merge_files,
    plan,
    put_in_place,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEEP_S: Final = 3_600.0
"""Seconds that replaced files stay for readers that listed them before."""
MERGES_A_ROUND: Final = 256


class Compaction(NamedTuple):
    """What a compaction has done."""

    merged: int
    """Files that were merged."""
    into: int
    """Files that they became."""
    rows: int
    removed: int
    """Files that were replaced by earlier compactions, or by this one, and are gone now."""

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return self._asdict()


def compact(
    spark: SparkSession,
    place: StrPath,
    *,
    target_bytes: int = TARGET_BYTES,
    keep_s: float = KEEP_S,
    progress: Progress | None = None,
) -> Compaction:
    """Merge the small files below a directory, by run and day. The directory must mean the same
    here and on all workers. `progress` is called with the number of large files made, and of all.
    Raises `TableError`."""
    root = _directory(place)
    merged = into = rows = 0
    try:
        with lock(root):
            removed = clean(root, time.time() - keep_s)
            merges = plan(root, target_bytes)
            for start in range(0, len(merges), MERGES_A_ROUND):
                chosen = merges[start : start + MERGES_A_ROUND]
                made = run_job(
                    *(spark, merge_files, chosen, Merged),
                    part_of(progress, start, len(merges)),
                    "merging",
                )
                for merge, done in zip(chosen, made, strict=True):
                    put_in_place(merge, done)
                    merged, into, rows = merged + len(merge.sources), into + 1, rows + done.rows
            if keep_s <= 0:
                removed += clean(root, time.time() + 1)
    except TraceError as error:
        raise TableError(error.path, error.reason) from error
    return Compaction(merged, into, rows, removed)


def _directory(place: StrPath) -> Path:
    root = shared_directory(place, "files can only be merged").absolute()
    if not root.is_dir():
        raise TableError(place, "there is no such directory")
    return root
