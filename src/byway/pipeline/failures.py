"""Explains failures of Spark in one line, with the file or the reason in it.

It decides which part of a stack trace is shown. Who shows it, and how a program ends, is decided
elsewhere.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from byway.pipeline.pipeline_errors import JobError, PipelineError, TableError

_FILE: Final = re.compile(r"error while reading file (.+?)\.(?:\s|$)")
_TRACEBACK: Final = "Traceback (most recent call last):"
_TASK: Final = re.compile(r"^.*most recent failure: .*?executor [^)]*\): ")
_PLAIN: Final = re.compile(r"^(?:org\.apache\.spark\.SparkException: )+")


def explained(error: BaseException) -> PipelineError | None:
    """An error of Spark as an error of the pipeline; None if it is not one of Spark."""
    from pyspark.errors import PySparkException

    is_of_java = type(error).__module__.startswith("py4j")
    if not is_of_java and not isinstance(error, PySparkException):
        return None
    text = str(error)
    if file := _FILE.search(text):
        return TableError(_path(file[1]), f"Spark cannot read the file ({_cause(text)})")
    reason = _raised(text) or (_thrown(text) if is_of_java else text.partition("\n")[0])
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
