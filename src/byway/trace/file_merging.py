"""Merges the small trace files of a day into large ones, without a moment in which rows are missing
or there twice.

A merged file is written under a hidden name. The names of what it replaces are stated in a file
beside it, and then it gets its own name: from that moment readers (`trace_directories.listed`) take
it instead of them. What was replaced stays for a while, for readers that listed it before, and is
removed by a later compaction. If the process dies anywhere, the same call goes on from there. One
process at a time compacts below a directory, which a lock ensures that ends with the process;
others may merge files for it, but only the one with the lock gives them their names.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from byway.model.errors import TraceError
from byway.trace.files import check_trace_file, write_merged
from byway.trace.trace_directories import (
    MERGED,
    PARTIAL,
    SUFFIX,
    is_dated,
    listed,
    merged_file,
    replaced_by,
    replaced_names,
)

TARGET_BYTES: Final = 128 * 2**20
"""A merged file is at most this large, and a file of half this size is not merged any more."""

_MADE: Final = re.compile(rf"^{MERGED}|-[0-9a-f]{{32}}$")
_LOCK: Final = ".compaction.lock"


class FileMerge(msgspec.Struct, frozen=True):
    """Files of one directory that become one."""

    sources: tuple[str, ...]
    target: str
    partial: str
    """The hidden name under which the target is written."""


class Merged(msgspec.Struct, frozen=True):
    """What `merge_files` has written."""

    rows: int
    size_bytes: int


@contextmanager
def lock(root: Path) -> Iterator[None]:
    """Be the only one who compacts below a directory. Raises `TraceError` if another one does."""
    try:
        with (root / _LOCK).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TraceError(str(root), "another process compacts this directory") from None
            yield
    except OSError as error:
        raise TraceError(str(root), f"cannot be written ({error.strerror})") from error


def clean(root: Path, before_s: float) -> int:
    """Remove what a process that died has left, and what was replaced before a time, in seconds
    since 1970; the number of replaced files that are gone now."""
    for left in [*root.rglob(f".{MERGED}*{PARTIAL}"), *root.rglob(f"._{MERGED}*{PARTIAL}")]:
        left.unlink(missing_ok=True)
    removed = 0
    for names in sorted(root.rglob(f"_{MERGED}*")):
        merged = merged_file(names)
        if not merged.exists():  # it did not come so far
            names.unlink(missing_ok=True)
        elif merged.stat().st_mtime < before_s:
            for old in replaced_by(merged):
                removed += old.exists()
                old.unlink(missing_ok=True)
            names.unlink()  # last: until then the names are known, whatever happens
    return removed


def plan(root: Path, target_bytes: int = TARGET_BYTES) -> list[FileMerge]:
    """The files to be merged, by directories of a run and a day; others are left alone."""
    by_directory: dict[Path, list[Path]] = {}
    for file in listed(root):
        if is_dated(file.parent) and not replaced_names(file).exists():
            by_directory.setdefault(file.parent, []).append(file)
    return [
        merge
        for directory, files in by_directory.items()
        for group in _groups(files, target_bytes)
        if (merge := _merge(directory, group))
    ]


def _groups(files: Iterable[Path], target_bytes: int) -> Iterator[list[Path]]:
    group: list[Path] = []
    total = 0
    for file in files:
        size = file.stat().st_size
        if 2 * size >= target_bytes:
            continue
        if group and total + size > target_bytes:
            yield group
            group, total = [], 0
        group.append(file)
        total += size
    if group:
        yield group


def _merge(directory: Path, sources: list[Path]) -> FileMerge | None:
    if len(sources) < 2:
        return None
    first = _MADE.sub("", sources[0].stem)  # names keep the order of what they hold
    name = f"{MERGED}{first}-{uuid4().hex}{SUFFIX}"
    return FileMerge(
        sources=tuple(map(str, sources)),
        target=str(directory / name),
        partial=str(directory / f".{name}{PARTIAL}"),
    )


def merge_files(merge: FileMerge) -> Merged:
    """Write the rows of all sources, in their order, to the hidden file. Raises `TraceError` with
    the source that is at fault."""
    partial = Path(merge.partial)
    sources = list(map(Path, merge.sources))
    for source in sources:
        check_trace_file(source)
    rows = write_merged(partial, sources)
    return Merged(rows, partial.stat().st_size)


def put_in_place(merge: FileMerge, merged: Merged) -> None:
    """Let readers take the merged file instead of its sources, from one moment to the next."""
    target, partial = Path(merge.target), Path(merge.partial)
    expected = sum(_rows(Path(source)) for source in merge.sources)
    if merged.rows != expected:
        partial.unlink(missing_ok=True)
        raise TraceError(merge.target, f"has {merged.rows:,} rows, expected {expected:,}")
    names = replaced_names(target)
    hidden = names.with_name(f".{names.name}{PARTIAL}")
    hidden.write_text("".join(f"{Path(source).name}\n" for source in merge.sources))
    hidden.replace(names)
    partial.replace(target)


def _rows(path: Path) -> int:
    try:
        rows: int = pq.read_metadata(path).num_rows
    except (pa.ArrowException, OSError) as error:
        raise TraceError(str(path), f"cannot be read ({error})") from error
    return rows
