"""Times as people type them: `250ms`, `10s`, `2m`, `1h`; a number without a unit is in seconds."""

from __future__ import annotations

import math
import re
from typing import Final

from byway.model.errors import InvalidValueError, shortened

EXPECTED: Final = "a time such as 10s, 250ms, 2m or 1h, or a number of seconds"
_TEXT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|m|h)?", re.ASCII)
MICROSECONDS: Final = {"µs": 1, "ms": 1_000, "s": 1_000_000}
"""By the unit of a number, the microseconds that 1 means."""
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def parse_duration(text: str) -> float:
    """The seconds that a text means. Raises `InvalidValueError`, also for what is negative or too
    large to be a number."""
    found = _TEXT.fullmatch(text.strip())
    if found is not None:
        number, unit = found.groups()
        seconds = float(number) * _MILLISECONDS[unit or "s"] / 1_000
        if math.isfinite(seconds):
            return seconds
    raise InvalidValueError(f"expected {EXPECTED}, found {shortened(repr(text))}")


def format_duration(microseconds: int) -> str:
    """A time as people type it, in the largest unit that needs no decimals: `250ms`, `2m`."""
    if not microseconds:
        return "0s"
    for unit in ("h", "m", "s"):
        count, rest = divmod(microseconds, _MILLISECONDS[unit] * 1_000)
        if not rest:
            return f"{count}{unit}"
    whole, part = divmod(microseconds, 1_000)
    return f"{whole}.{part:03}".rstrip("0").rstrip(".") + "ms"
