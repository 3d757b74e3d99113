"""The log of a broker process on stderr: one line per event, for people or as JSON.

This module decides the format of a line; callers decide what is logged, and at which level.
"""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

ROOT: Final = "byway"
_encode: Final = msgspec.json.Encoder().encode


class HumanFormatter(logging.Formatter):
    """Time, level, text, and the exception if any, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of text."""
        text = f"{_time(record)} {record.levelname.lower():<7} {record.getMessage()}"
        trouble = _trouble(record)
        return _one_line(f"{text}: {trouble}" if trouble else text)


class JsonFormatter(logging.Formatter):
    """An object with `time`, `level`, `logger`, `broker`, `message`, and `exception` if any."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self.broker = broker

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        facts: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "broker": self.broker,
            "message": record.getMessage(),
        }
        trouble = _trouble(record)
        if trouble:
            facts["exception"] = trouble
        return _encode(facts).decode()


def set_up(form: str, level: str, broker: str) -> None:
    """Log in this format from now on, without records below the level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(broker) if form == "json" else HumanFormatter())
    log = logging.getLogger(ROOT)
    log.handlers = [handler]
    log.setLevel(level.upper())
    log.propagate = False


def _time(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trouble(record: logging.LogRecord) -> str:
    if record.exc_info is None or record.exc_info[1] is None:
        return ""
    return "".join(traceback.format_exception(record.exc_info[1])).strip()


def _one_line(text: str) -> str:
    """The text without line breaks and control characters, so that what a peer sent cannot look
    like a line of this log."""
    lines = " | ".join(line.strip() for line in text.splitlines())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in lines)
