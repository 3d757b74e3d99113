"""Snapshots of older layouts, made into the present one step by step.

A layout is what `snapshot.VERSION` counts. Structs travel as arrays, so a converter sees lists in
the order of the fields of the structs of its time: it changes them in place, or returns others. A
field that was added at the end of a struct, with a default, needs none of that, only its layout's
number and an empty converter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Plain = list[Any]
"""A `BrokerState` as lists, dicts, texts, bytes and numbers."""
Converter = Callable[[Plain], Plain]

OLDEST: Final = 4
"""Layouts before this one are refused."""
CONVERTERS: Final[dict[int, Converter]] = {}
"""By layout, what makes a state of it one of the next."""


def converted(state: Plain, layout: int, present: int) -> Plain:
    """A state of an older layout in the present one. Whatever a converter trips over is raised."""
    for step in range(layout, present):
        state = CONVERTERS[step](state)
    return state
