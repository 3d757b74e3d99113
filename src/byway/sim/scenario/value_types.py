"""Value types of scenario files: kinds of values with their bounds and units."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from byway.model.options import above, in_order, within

TIME_S_MAX: Final = 10_000_000.0  # about 115 days
SEED_MAX: Final = 2**32 - 1
COUNT_MAX: Final = 10_000_000
WARMUP_END: Final = "the end of the warm-up"
RUN_END: Final = "the end of the run"

Seconds = Annotated[float, within(0, TIME_S_MAX, unit="s")]
Span = Annotated[float, above(0, TIME_S_MAX, unit="s")]
Milliseconds = Annotated[float, within(0, 3_600_000, unit="ms")]
ClientLatency = Annotated[float, within(0, 1_000, unit="ms")]
"""A client gives up an attempt to connect after 5 s, and needs four of these for it."""
Rate = Annotated[float, within(0, 1_000_000, unit="1/s")]
ByteRate = Annotated[float, above(0, 1e15, unit="bytes/s")]
MessageRate = Annotated[float, above(0, 1e15, unit="messages/s")]
Count = Annotated[int, within(0, COUNT_MAX)]
Quantity = Annotated[int, within(1, COUNT_MAX)]
Factor = Annotated[float, within(1, 1_000_000)]
Name = Annotated[str, within(1, 255)]
Names = Annotated[tuple[Name, ...], within(1)]
Place = Name | Names
"""Which brokers: `all`, `leaves`, `inner`, `random`, the name of a role, or their own names."""
Expected = float | Annotated[tuple[float, float], in_order("rising")]
"""A number, or the least and the most that it may be."""


class ScenarioTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a scenario file: plain data that cannot change."""


def microseconds(seconds: float) -> int:
    """Whole microseconds, as brokers and the simulator count."""
    return round(seconds * 1_000_000)
