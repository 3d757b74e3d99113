"""Chunks: many subscriptions or publications in flat arrays, and the objects they stand for.

Compressed rows: row `i` owns the entries `offsets[i]` to `offsets[i + 1]` of every other array.
Names and strings are ids into two small tables. No entry is a Python object, so a chunk is shipped
as it lies (the offsets are 32-bit, as Arrow's lists want them). This file knows the layout and how
to make model objects of it; it draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from byway.model.constraints import (
    Constraint,
    NumberRange,
    NumberSet,
    StringSet,
    number_range,
)
from byway.model.filters import Conjunction, Filter
from byway.model.values import Number, Value

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int32]
CodeArray = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float64]

NO_STRING: Final = -1
NOWHERE: Final = -1
"""Stands for the number of a broker where a subscription is at none."""


class ValueKind(IntEnum):
    """What an entry of a publication holds. Integers lie within ±2^53: `numbers` are floats."""

    INTEGER = 0
    FLOAT = 1
    STRING = 2


class Operator(IntEnum):
    """How an entry of a filter compares. An entry with a string is always EQUAL."""

    EQUAL = 0
    LESS = 1
    LESS_EQUAL = 2
    GREATER = 3
    GREATER_EQUAL = 4
    BETWEEN = 5  # `numbers` to `highs`, both included


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PublicationChunk:
    """Publications. Names are distinct within a row, in any order.

    `numbers` is 0 where the kind is STRING, `string_ids` is -1 where it is not.
    """

    names: tuple[str, ...]
    strings: tuple[str, ...]
    offsets: IntArray
    name_ids: IntArray
    kinds: CodeArray
    numbers: FloatArray
    string_ids: IntArray

    def __post_init__(self) -> None:
        _check_columns(self.columns(), len(self.name_ids))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"PublicationChunk({len(self)} publications, {len(self.name_ids)} attributes)"

    def columns(self) -> dict[str, Array]:
        """The arrays by name; with the two tables they are the whole chunk."""
        return {
            "offsets": self.offsets,
            "name_ids": self.name_ids,
            "kinds": self.kinds,
            "numbers": self.numbers,
            "string_ids": self.string_ids,
        }

    def slice(self, start: int, stop: int) -> PublicationChunk:
        """Rows `start` to `stop`, on the same memory but for the offsets."""
        offsets, entries = _cut(self.offsets, start, stop)
        return PublicationChunk(
            self.names,
            self.strings,
            offsets,
            self.name_ids[entries],
            self.kinds[entries],
            self.numbers[entries],
            self.string_ids[entries],
        )

    def publications(self) -> list[dict[str, Value]]:
        """Each row as the attributes of one publication."""
        names = _looked_up(self.names, self.name_ids)
        values = self._values()
        return [
            dict(zip(names[a:b], values[a:b], strict=True))
            for a, b in pairwise(self.offsets.tolist())
        ]

    def _values(self) -> list[Value]:
        if (self.kinds == ValueKind.INTEGER).all():
            return self.numbers.astype(np.int64).tolist()  # type: ignore[no-any-return]
        values = self.numbers.astype(object)
        integers = self.kinds == ValueKind.INTEGER
        values[integers] = self.numbers[integers].astype(np.int64)
        texts = self.kinds == ValueKind.STRING
        values[texts] = _looked_up(self.strings, self.string_ids[texts])
        return values.tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FilterChunk:
    """Conjunctive filters. The table of names ascends, and so do the names within a row.

    An entry compares with a string (`string_ids` ≥ 0), or with `numbers`, and where the operator is
    BETWEEN with `highs` ≥ `numbers`. What an entry does not use is 0, or -1 for `string_ids`.
    """

    names: tuple[str, ...]
    strings: tuple[str, ...]
    offsets: IntArray
    name_ids: IntArray
    operators: CodeArray
    numbers: FloatArray
    highs: FloatArray
    string_ids: IntArray

    def __post_init__(self) -> None:
        _check_columns(self.columns(), len(self.name_ids))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"FilterChunk({len(self)} filters, {len(self.name_ids)} constraints)"

    def columns(self) -> dict[str, Array]:
        """The arrays by name; with the two tables they are the whole chunk."""
        return {
            "offsets": self.offsets,
            "name_ids": self.name_ids,
            "operators": self.operators,
            "numbers": self.numbers,
            "highs": self.highs,
            "string_ids": self.string_ids,
        }

    def slice(self, start: int, stop: int) -> FilterChunk:
        """Rows `start` to `stop`, on the same memory but for the offsets."""
        offsets, entries = _cut(self.offsets, start, stop)
        return FilterChunk(
            self.names,
            self.strings,
            offsets,
            self.name_ids[entries],
            self.operators[entries],
            self.numbers[entries],
            self.highs[entries],
            self.string_ids[entries],
        )

    def filters(self) -> list[Filter]:
        """Each row as a filter in canonical form; equal constraints are one object."""
        names = _looked_up(self.names, self.name_ids)
        terms = list(zip(names, self._constraints(), strict=True))
        return [
            Filter((Conjunction(tuple(terms[a:b])),)) for a, b in pairwise(self.offsets.tolist())
        ]

    def texts(self) -> list[str]:
        """Each row as selector text; `parse` gives the filter of that row back."""
        return [str(f) for f in self.filters()]

    def _constraints(self) -> list[Constraint]:
        known: dict[tuple[int, Number, Number, int], Constraint] = {}
        constraints: list[Constraint] = []
        for key in zip(
            self.operators.tolist(),
            _canonical_numbers(self.numbers),
            _canonical_numbers(self.highs),
            self.string_ids.tolist(),
            strict=True,
        ):
            constraint = known.get(key)
            if constraint is None:
                constraint = known[key] = self._constraint(*key)
            constraints.append(constraint)
        return constraints

    def _constraint(self, operator: int, number: Number, high: Number, string: int) -> Constraint:
        """The canonical constraint of one entry, made directly where the form is known."""
        if string != NO_STRING:
            return StringSet((self.strings[string],))
        if operator == Operator.EQUAL:
            return NumberSet((number,))
        if operator == Operator.LESS or operator == Operator.LESS_EQUAL:
            return NumberRange(high=number, high_open=operator == Operator.LESS)
        if operator == Operator.GREATER or operator == Operator.GREATER_EQUAL:
            return NumberRange(low=number, low_open=operator == Operator.GREATER)
        assert operator == Operator.BETWEEN
        interval = number_range(number, False, high, False)
        assert interval is not None, f"an empty interval: {number} to {high}"
        return interval


class ScheduleChunk(NamedTuple):
    """What subscriptions do in the course of time: one row each time that one comes somewhere,
    goes from one broker to another (both at once), or leaves."""

    times_us: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    """The subscription, by its number in the whole workload."""
    leaves: npt.NDArray[np.int64]
    """The number of the broker that it leaves; -1: it was at none."""
    joins: npt.NDArray[np.int64]
    """The number of the broker that it comes to; -1: at none."""

    def in_order(self) -> ScheduleChunk:
        """The same rows sorted by time, then by subscription."""
        order = np.lexsort((self.rows, self.times_us))
        return ScheduleChunk(*(column[order] for column in self))


def row_offsets(sizes: npt.NDArray[np.int64]) -> IntArray:
    """The offsets of rows that have these numbers of entries."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _check_columns(columns: dict[str, Array], entries: int) -> None:
    offsets = columns["offsets"]
    assert offsets[0] == 0 and offsets[-1] == entries
    assert all(len(a) == entries for name, a in columns.items() if name != "offsets")


def _cut(offsets: IntArray, start: int, stop: int) -> tuple[IntArray, slice]:
    start, stop, _ = slice(start, stop).indices(len(offsets) - 1)
    kept = offsets[start : max(start, stop) + 1]
    return kept - kept[0], slice(int(kept[0]), int(kept[-1]))


def _looked_up(table: tuple[str, ...], ids: IntArray) -> list[str]:
    return np.array(table, dtype=object)[ids].tolist()  # type: ignore[no-any-return]


def _canonical_numbers(numbers: FloatArray) -> list[Number]:
    """As `canonical_number`, for finite numbers within ±2^53: integral ones become ints."""
    whole = numbers == np.floor(numbers)
    if whole.all():
        return numbers.astype(np.int64).tolist()  # type: ignore[no-any-return]
    mixed = numbers.astype(object)
    mixed[whole] = numbers[whole].astype(np.int64)
    return mixed.tolist()  # type: ignore[no-any-return]
