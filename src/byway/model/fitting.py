"""Tables that shrink: Python never makes a dict smaller when keys are deleted."""

from __future__ import annotations

import sys
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_SPARE_BYTES: Final = 4_096
_ENTRY_BYTES: Final = 512
"""A dict of this size for each of its keys, or a larger one, is mostly empty: what is full has 30
to 60 bytes. So what is copied is small beside what was deleted before."""


def fitting(table: dict[K, V]) -> dict[K, V]:
    """The same dict, or a smaller one of the same keys in the same order if it is mostly empty."""
    if sys.getsizeof(table) > _SPARE_BYTES + _ENTRY_BYTES * len(table):
        return dict(table)
    return table
