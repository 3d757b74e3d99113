"""The footer of a byway Parquet file: whether the file is complete, and what table it states it is.

A byway file has `byway.TABLE.version` in its metadata. Which versions and columns a reader accepts
is decided by the reader, and so is the error it raises.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC: Final = b"PAR1"
_VERSION: Final = re.compile(rb"[1-9][0-9]{0,8}")

FileError = Callable[[str, str], Exception]
"""Makes the error to raise from the path of a file and a reason."""


class Footer(NamedTuple):
    """The Arrow schema of a file, and the version of its table."""

    schema: Any
    version: int


def version_key(table: str) -> bytes:
    """The metadata key under which a file of `table` states its version."""
    return f"byway.{table}.version".encode()


def read_footer(path: Path, table: str, error: FileError) -> Footer:
    """The footer of a complete Parquet file of `table`. Raises what `error` makes otherwise."""
    _check_ends(path, table, error)
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as failure:
        raise error(str(path), f"the file is damaged ({failure})") from failure
    key = version_key(table)
    version = (schema.metadata or {}).get(key)
    if version is None:
        reason = f"expected a {table} table, but its metadata has no {key.decode()!r}"
        raise error(str(path), reason)
    if not _VERSION.fullmatch(version):
        stated = version.decode(errors="replace")
        raise error(str(path), f"expected a {table} table, but its version is {stated!r}")
    return Footer(schema, int(version))


def _check_ends(path: Path, table: str, error: FileError) -> None:
    """Check the four bytes that a Parquet file begins and ends with: a truncated one lacks the
    last."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(_MAGIC)))
            end = file.read()
    except OSError as failure:
        raise error(str(path), f"cannot be read ({failure.strerror})") from failure
    if start != _MAGIC:
        raise error(str(path), f"expected a {table} table, but this is no Parquet file")
    if size < 3 * len(_MAGIC) or end != _MAGIC:
        raise error(str(path), f"the file is truncated: it ends after {size} bytes")
