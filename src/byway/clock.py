"""The clock of live processes: microseconds since 1970 that never go back."""

from time import monotonic_ns, time_ns
from typing import Final

_WALL_NS: Final = time_ns() - monotonic_ns()


def now_us() -> int:
    """Microseconds since 1970; the number never decreases while a process lives."""
    return (_WALL_NS + monotonic_ns()) // 1_000
