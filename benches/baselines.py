"""What byway's index is compared with: textbook ways of doing the same with numpy.

`CountingIndex` matches by counting satisfied predicates (the counting algorithm of early
publish/subscribe systems); `BoxScan` answers relations by comparing with every stored filter at
once. Both take conjunctions of `=`, `<`, `<=`, `>`, `>=` and BETWEEN on numbers and `=` on strings,
and both are read-only: to change them is to build them anew. They see filters through `byway.model`
and know nothing of the index they are measured against.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from byway.model import Attributes, Conjunction, Filter, Value
from byway.model.constraints import NumberRange, NumberSet, StringSet

Keys = npt.NDArray[np.int64]
Owners = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Comparison = Literal["=", ">", ">=", "<", "<="]


def only_conjunction(filter: Filter) -> Conjunction:
    """The one alternative of a filter that the baselines can store."""
    (conjunction,) = filter.conjunctions
    return conjunction


def predicates(filter: Filter) -> Iterator[tuple[str, Comparison, Value]]:
    """The filter as comparisons of one attribute with one value each."""
    for name, constraint in only_conjunction(filter).terms:
        if isinstance(constraint, NumberSet | StringSet):
            (value,) = constraint.values
            yield name, "=", value
        else:
            assert isinstance(constraint, NumberRange)
            assert not constraint.excluded
            if constraint.low != -np.inf:
                yield name, ">" if constraint.low_open else ">=", constraint.low
            if constraint.high != np.inf:
                yield name, "<" if constraint.high_open else "<=", constraint.high


class Bounds(NamedTuple):
    """Bounds of one attribute and operator, ascending, and the filters they belong to."""

    values: Floats
    owners: Owners


class CountingIndex:
    """Counts, filter by filter, how many of its predicates a publication satisfies.

    Per attribute and operator: `=` maps a value to the filters that want it; an inequality has its
    bounds in ascending order with their filters beside them, so what is satisfied is one stretch.
    """

    def __init__(self, filters: list[Filter]) -> None:
        equal: dict[tuple[str, Value], list[int]] = defaultdict(list)
        bounds: dict[tuple[str, Comparison], list[tuple[float, int]]] = defaultdict(list)
        self._wanted = np.zeros(len(filters), np.int64)
        for key, filter in enumerate(filters):
            for name, comparison, value in predicates(filter):
                self._wanted[key] += 1
                if comparison == "=":
                    equal[name, value].append(key)
                else:
                    bounds[name, comparison].append((float(value), key))
        self._equal = {at: np.array(keys, np.int32) for at, keys in equal.items()}
        self._bounds = {at: _ascending(pairs) for at, pairs in bounds.items()}
        self.counted = 0

    def match(self, attributes: Attributes) -> Keys:
        """Keys (positions in the list of filters) that match, ascending."""
        satisfied = [np.zeros(0, np.int32)]
        for name, value in attributes.items():
            owners = self._equal.get((name, value))
            if owners is not None:
                satisfied.append(owners)
            if not isinstance(value, str):
                satisfied.extend(self._passed(name, value))
        owners = np.concatenate(satisfied)
        self.counted += len(owners)
        counts = np.bincount(owners, minlength=len(self._wanted))
        return np.flatnonzero(counts == self._wanted)

    def _passed(self, name: str, value: float) -> Iterator[Owners]:
        """The owners of the satisfied inequalities."""
        if stored := self._bounds.get((name, ">")):
            yield stored.owners[: np.searchsorted(stored.values, value, "left")]
        if stored := self._bounds.get((name, ">=")):
            yield stored.owners[: np.searchsorted(stored.values, value, "right")]
        if stored := self._bounds.get((name, "<")):
            yield stored.owners[np.searchsorted(stored.values, value, "right") :]
        if stored := self._bounds.get((name, "<=")):
            yield stored.owners[np.searchsorted(stored.values, value, "left") :]

    @property
    def memory_bytes(self) -> int:
        """Bytes of the arrays, the dictionaries that hold them apart."""
        equal = sum(owners.nbytes for owners in self._equal.values())
        bounds = sum(b.values.nbytes + b.owners.nbytes for b in self._bounds.values())
        return self._wanted.nbytes + equal + bounds


def _ascending(pairs: list[tuple[float, int]]) -> Bounds:
    values = np.array([value for value, _ in pairs])
    owners = np.array([owner for _, owner in pairs], np.int32)
    order = np.argsort(values, kind="stable")
    return Bounds(values[order], owners[order])


class BoxScan:
    """Filters as boxes, one row of lower and one of upper bounds per attribute, scanned whole.

    An attribute that a filter leaves open reaches from -∞ to ∞, an open bound is the next float, a
    string is a point. So a filter must not mix kinds on one attribute, which no workload here does.
    """

    def __init__(self, filters: list[Filter]) -> None:
        names = sorted({name for filter in filters for name in filter.attributes()})
        self._rows = {name: row for row, name in enumerate(names)}
        self._strings: dict[Value, float] = {}
        self._low = np.full((len(names), len(filters)), -np.inf)
        self._high = np.full((len(names), len(filters)), np.inf)
        for key, filter in enumerate(filters):
            for name, comparison, value in predicates(filter):
                if isinstance(value, str):
                    self._strings.setdefault(value, float(len(self._strings)))
                row, point = self._rows[name], self._point(value)
                _narrow(self._low[:, key], self._high[:, key], row, comparison, point)

    def covering(self, filter: Filter) -> Keys:
        """Keys of the filters that cover the given one, ascending."""
        low, high, _ = self._box(filter)
        inside = (self._low <= low[:, None]) & (high[:, None] <= self._high)
        return np.flatnonzero(inside.all(axis=0))

    def covered_by(self, filter: Filter) -> Keys:
        """Keys of the filters that the given one covers, ascending."""
        low, high, foreign = self._box(filter)
        if foreign:
            return np.zeros(0, np.int64)
        inside = (low[:, None] <= self._low) & (self._high <= high[:, None])
        return np.flatnonzero(inside.all(axis=0))

    def intersecting(self, advertisement: Filter) -> Keys:
        """Keys of the filters that `advertisement` may feed, ascending."""
        low, high, _ = self._box(advertisement)
        overlap = (self._low <= high[:, None]) & (low[:, None] <= self._high)
        named = np.isfinite(low) | np.isfinite(high)
        unnamed = (self._low == -np.inf) & (self._high == np.inf)
        return np.flatnonzero(np.where(named[:, None], overlap, unnamed).all(axis=0))

    def intersecting_advertisements(self, subscription: Filter) -> Keys:
        """Keys of the filters, read as advertisements, that may feed `subscription`, ascending."""
        low, high, foreign = self._box(subscription)
        if foreign:
            return np.zeros(0, np.int64)
        overlap = (self._low <= high[:, None]) & (low[:, None] <= self._high)
        named = np.isfinite(self._low) | np.isfinite(self._high)
        unnamed = (low == -np.inf) & (high == np.inf)
        return np.flatnonzero(np.where(named, overlap, unnamed[:, None]).all(axis=0))

    def _box(self, filter: Filter) -> tuple[Floats, Floats, bool]:
        """Lower and upper bounds, and whether it names an attribute that no stored filter does."""
        low = np.full(len(self._rows), -np.inf)
        high = np.full(len(self._rows), np.inf)
        foreign = False
        for name, comparison, value in predicates(filter):
            if name in self._rows:
                _narrow(low, high, self._rows[name], comparison, self._point(value))
            else:
                foreign = True
        return low, high, foreign

    def _point(self, value: Value) -> float:
        """A number itself, a string's number; a string that is not stored is a point apart."""
        return self._strings.get(value, -1.0) if isinstance(value, str) else float(value)


def _narrow(low: Floats, high: Floats, row: int, comparison: Comparison, point: float) -> None:
    if comparison in ("=", ">", ">="):
        low[row] = np.nextafter(point, np.inf) if comparison == ">" else point
    if comparison in ("=", "<", "<="):
        high[row] = np.nextafter(point, -np.inf) if comparison == "<" else point
