"""Explains failures of Spark in one line, with the file or the reason in it.

It decides which part of a stack trace is shown. Who shows it, and how a program ends, is decided
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from byway.pipeline.pipeline_errors import JobError, PipelineError, RowError, TableError

_FILE: Final = re.compile(r"error while reading file (.+?)\.(?:\s|$)")
NOT_A_TRACE: Final = "expected a trace, but its rows have no event: "
"""How an error begins that a query raises for a file, whose path follows."""
_FOREIGN: Final = re.compile(re.escape(NOT_A_TRACE) + r"(\S+)")
_TRACEBACK: Final = "Traceback (most recent call last):"
_TASK: Final = re.compile(r"^.*most recent failure: .*?executor [^)]*\): ")
_NOT_THERE: Final = {
    "PATH_NOT_FOUND": "there is no such file or directory",
    "UNABLE_TO_INFER_SCHEMA": "it holds no complete file of a {} table",
    "TABLE_OR_VIEW_NOT_FOUND": "the catalog has no such table",
    "SCHEMA_NOT_FOUND": "the catalog has no such database",
}
"""What is wrong with the place of a table, by the condition that Spark names."""
_NO_FILESYSTEM: Final = re.compile(
    r"Class [\w.$]+FileSystem not found|No FileSystem for scheme \S+|"
    r"(?:Empty Mount table|Could not initialize class [\w.$]*FileSystem)[^\n]*"
)
_COLON: Final = re.compile(r"Relative path in absolute URI: (\S+)")
_UNWRITABLE: Final = re.compile(
    r"(?:Mkdirs failed|Parent path is not a directory|Permission denied|Read-only file system|"
    r"No space left|InternalDir of ViewFileSystem is readonly)[^\n]*"
)
_ROW: Final = re.compile(rf"(?:{re.escape(RowError.__module__)}\.)?{RowError.__name__}: (.*)")
_PLAIN: Final = re.compile(r"^(?:org\.apache\.spark\.SparkException: )+")


@contextmanager
def told_of(place: str, table: str) -> Iterator[None]:
    """Let an error of Spark that is about the place of a table become a `TableError` about it."""
    try:
        yield
    except Exception as error:
        found = _fault_of_place(error, place, table)
        if found is None:
            raise
        raise found from error


def _fault_of_place(error: Exception, place: str, table: str) -> TableError | None:
    from pyspark.errors import PySparkException

    text = str(error)
    if isinstance(error, PySparkException):
        reason = _NOT_THERE.get(error.getCondition() or "")
        if reason is not None:
            return TableError(place, reason.format(table))
    elif not type(error).__module__.startswith("py4j"):
        return None
    if missing := _NO_FILESYSTEM.search(text):
        return TableError(place, f"this Spark cannot read or write there ({missing[0]})")
    if name := _COLON.search(text):
        return TableError(place, f"Spark reads no file with a colon in its name, {name[1]}")
    if failed := _UNWRITABLE.search(text):
        return TableError(place, f"cannot be written ({failed[0].strip()})")
    known = explained(error)
    return known if isinstance(known, TableError) else None


def explained(error: BaseException) -> PipelineError | None:
    """An error of Spark as an error of the pipeline; None if it is not one of Spark."""
    from pyspark.errors import PySparkException

    is_of_java = type(error).__module__.startswith("py4j")
    if not is_of_java and not isinstance(error, PySparkException):
        return None
    text = str(error)
    if file := _FILE.search(text):
        return TableError(_path(file[1]), f"Spark cannot read the file ({_cause(text)})")
    if file := _FOREIGN.search(text):
        return TableError(_path(file[1].rstrip(".")), NOT_A_TRACE.rstrip(": "))
    raised = _raised(text)
    if raised and (row := _ROW.match(raised)):
        return RowError(row[1])
    reason = raised or (_thrown(text) if is_of_java else text.partition("\n")[0])
    return JobError(f"Spark failed: {reason}")


def _path(address: str) -> str:
    """The path of a file on this machine, or the address unchanged."""
    parts = urlsplit(address)
    return unquote(parts.path) if parts.scheme == "file" else address


def _raised(text: str) -> str | None:
    """The exception of a worker: the first line after its last traceback."""
    _, found, traceback = text.rpartition(_TRACEBACK)
    lines = traceback.splitlines() if found else []
    return next((line for line in lines if line.strip() and not line.startswith("  ")), None)


def _thrown(text: str) -> str:
    """The exception of the JVM: the line after py4j's own, without what Spark puts around it."""
    lines = [line for line in text.splitlines() if line.strip()] or ["no reason given"]
    thrown = next((line for line in lines if line.startswith(":")), lines[0]).lstrip(": ")
    return _PLAIN.sub("", _TASK.sub("", thrown))


def _cause(text: str) -> str:
    causes = [line.strip() for line in text.splitlines() if "Caused by: " in line]
    return causes[-1].removeprefix("Caused by: ") if causes else "no reason given"
