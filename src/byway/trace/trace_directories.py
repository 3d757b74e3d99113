"""Where the files of a trace lie: `run=RUN/date=YYYY-MM-DD/trace-BROKER-NNNNN.parquet`.

The date is that of the rows' `t_us` in UTC, so that a reader can leave out days by their names.
Directories that have files without these two levels are read as well. Compaction replaces files of
a directory by one, and states their names in a file beside it; who lists a directory leaves them
out. This module decides names and lists files; it opens no trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import numpy as np

SUFFIX: Final = ".parquet"
PARTIAL: Final = ".partial"
DAY_US: Final = 86_400_000_000
MERGED: Final = "merged-"
"""What the names of files begin with that compaction has made."""

_REPLACED: Final = ".replaced"
_DATE: Final = re.compile(r"date=\d{4}-\d\d-\d\d")


def run_directory(root: Path, run: str) -> Path:
    """The directory of a run."""
    return root / f"run={quote(run, safe='')}"


def date_directory(root: Path, run: str, day: int) -> Path:
    """The directory of a day of a run; days are numbered from 1970-01-01."""
    return run_directory(root, run) / f"date={date_of(day)}"


def date_of(day: int) -> str:
    """The date of a day by its number. It lies in the years 1 to 9999, as Python's own do."""
    first, last = -719_162, 2_932_896
    return str(np.datetime64(min(max(day, first), last), "D"))


def is_dated(directory: Path) -> bool:
    """Whether a directory is that of a day of a run."""
    return bool(_DATE.fullmatch(directory.name)) and directory.parent.name.startswith("run=")


def listed(path: Path) -> list[Path]:
    """The complete trace files at or below `path`, sorted, without those that were replaced."""
    if not path.is_dir():
        return [path] if path.suffix == SUFFIX else []
    return without_replaced(
        sorted(
            file
            for file in path.rglob(f"*{SUFFIX}")
            if not any(part[0] in "._" for part in file.relative_to(path).parts)
        )
    )


def without_replaced(files: Iterable[Path]) -> list[Path]:
    """The files without those that another one of them replaces."""
    files = list(files)
    gone = {old for file in files for old in replaced_by(file)}
    return [file for file in files if file not in gone]


def replaced_by(file: Path) -> list[Path]:
    """The files that a merged file replaces and that may still be there; none for other files."""
    if not file.name.startswith(MERGED):
        return []
    try:
        names = replaced_names(file).read_text().splitlines()
    except FileNotFoundError:
        return []  # all of them have been removed
    return [file.with_name(name) for name in names]


def replaced_names(merged: Path) -> Path:
    """The file that has the names of what a merged file replaces, a line each."""
    return merged.with_name(f"_{merged.name.removesuffix(SUFFIX)}{_REPLACED}")


def merged_file(replaced: Path) -> Path:
    """The merged file that a file of names is about."""
    return replaced.with_name(f"{replaced.name.removesuffix(_REPLACED).removeprefix('_')}{SUFFIX}")


def used_names(directory: Path) -> list[str]:
    """The names of all files that are in a directory or have been replaced there."""
    names = [path.name for path in directory.iterdir()]
    for path in directory.glob(f"_{MERGED}*{_REPLACED}"):
        names += path.read_text().splitlines()
    return names
