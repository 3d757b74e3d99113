"""Partners: which filters may be merged with one, found by what they say.

Two filters of a *kind* go over the same link and agree in all but one attribute. Where that is a
range of numbers, those next to it are found by their bounds, however many there are: of ranges that
were merged wherever they touch, no other can touch it. Of sets, patterns and presence the latest
few of each form are kept; sets merge all alike, so few are left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

from byway.model import Filter
from byway.model.constraints import (
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    low_key,
)

KINDS_MAX: Final = 65_536
"""Kinds of which sets, patterns or presence are remembered; beyond, the oldest is forgotten."""
LATEST_MAX: Final = 8
"""Sets, patterns and the like of one kind and form."""
RANGES_MAX: Final = 65_536
"""Ranges, of all kinds; beyond, the kinds known longest are forgotten."""
TIDIED_MIN: Final = 1_024
"""Ranges from which on those that have gone are looked for."""
BESIDE: Final = 2
"""Ranges that are looked at on each side."""

K = TypeVar("K")
Kind = tuple[str, str, bytes]
"""A link, an attribute, and all else of a filter."""
Bound = tuple[float, int]
_encode = msgspec.msgpack.Encoder().encode

_MERGES_WITH: Final[dict[type, tuple[type, ...]]] = {
    NumberRange: (NumberSet,),
    NumberSet: (NumberSet,),
    StringSet: (StringSet, StringPattern),
    StringPattern: (StringSet, StringPattern),
    BoolSet: (BoolSet,),
    Exists: (Absent,),
    Absent: (Exists,),
}
"""Ranges apart, what forms of constraint one may be merged with."""


class PartnersState(msgspec.Struct, Generic[K], array_like=True):
    """What survives a restart, besides the latest ones."""

    ranges: list[tuple[Kind, list[tuple[Bound, K]]]]
    tidied_from: int


class Partners(Generic[K]):
    """Filters by key. `is_there` says of a key and a link whether it still counts."""

    def __init__(self, is_there: Callable[[K, str], bool]) -> None:
        self._is_there = is_there
        self.latest: dict[Kind, list[K]] = {}
        self._ranges: dict[Kind, list[tuple[Bound, K]]] = {}
        """Ascending by the lower bound."""
        self._count = 0
        self._tidied_from = TIDIED_MIN

    def add(self, key: K, filter: Filter, link: str) -> None:
        """Remember a filter of one conjunction."""
        for name, constraint, rest in _kinds(filter):
            if isinstance(constraint, NumberRange):
                self._add_range(key, (link, name, _encode(rest)), low_key(constraint))
            else:
                self._add_latest(key, _form(link, name, rest, type(constraint)))

    def _add_latest(self, key: K, kind: Kind) -> None:
        kept = [other for other in self.latest.get(kind, ()) if other != key]
        self.latest[kind] = [*kept, key][-LATEST_MAX:]
        if len(self.latest) > KINDS_MAX:
            del self.latest[next(iter(self.latest))]

    def _add_range(self, key: K, kind: Kind, low: Bound) -> None:
        ranges: list[Any] = self._ranges.setdefault(kind, [])
        at = bisect_left(ranges, (low, key))
        if at < len(ranges) and ranges[at] == (low, key):
            return
        ranges.insert(at, (low, key))
        self._count += 1
        if self._count > self._tidied_from:
            self._tidy()

    def near(self, filter: Filter, link: str) -> list[K]:
        """Those that may be merged with a filter, each once."""
        found: dict[K, None] = {}
        for name, constraint, rest in _kinds(filter):
            for form in _MERGES_WITH[type(constraint)]:
                found |= dict.fromkeys(self._latest_of(_form(link, name, rest, form)))
            if isinstance(constraint, (NumberRange, NumberSet)):
                kind = (link, name, _encode(rest))
                found |= dict.fromkeys(self._beside(kind, _low(constraint)))
        return list(found)

    def _latest_of(self, kind: Kind) -> list[K]:
        """The latest first."""
        kept = [key for key in self.latest.get(kind, ()) if self._is_there(key, kind[0])]
        if kept:
            self.latest[kind] = kept
        else:
            self.latest.pop(kind, None)
        return kept[::-1]

    def _beside(self, kind: Kind, low: Bound) -> list[K]:
        """The ranges that begin last before a bound, and first from there on."""
        ranges: list[Any] = self._ranges.get(kind, [])
        at = bisect_left(ranges, (low,))
        below = self._first_there(ranges, kind[0], at, -1)
        at = bisect_left(ranges, (low,))  # some may have gone
        return below + self._first_there(ranges, kind[0], at, 1)

    def _first_there(self, ranges: list[tuple[Bound, K]], link: str, at: int, way: int) -> list[K]:
        """The first ones from a place on, one way; those that have gone are forgotten."""
        found: list[K] = []
        at -= way < 0
        while 0 <= at < len(ranges) and len(found) < BESIDE:
            key = ranges[at][1]
            if self._is_there(key, link):
                found.append(key)
                at += way
            else:
                del ranges[at]
                self._count -= 1
                at -= way < 0
        return found

    def _tidy(self) -> None:
        """Forget ranges that have gone, and if that is not enough, kinds."""
        self._ranges = {
            kind: kept
            for kind, ranges in self._ranges.items()
            if (kept := [each for each in ranges if self._is_there(each[1], kind[0])])
        }
        self._count = sum(map(len, self._ranges.values()))
        while self._count >= RANGES_MAX:
            self._count -= len(self._ranges.pop(next(iter(self._ranges))))
        self._tidied_from = min(RANGES_MAX, max(TIDIED_MIN, 2 * self._count))

    def snapshot(self) -> PartnersState[K]:
        """The ranges."""
        return PartnersState(list(self._ranges.items()), self._tidied_from)

    def restore(self, latest: dict[Kind, list[K]], state: PartnersState[K]) -> None:
        """Go on."""
        self.latest, self._ranges = latest, dict(state.ranges)
        self._count = sum(map(len, self._ranges.values()))
        self._tidied_from = state.tidied_from


def _kinds(filter: Filter) -> Iterator[tuple[str, Constraint, list[tuple[str, Constraint]]]]:
    """By each attribute, what a filter says of it, and what else it says."""
    terms = filter.conjunctions[0].terms
    for name, constraint in terms:
        yield name, constraint, [term for term in terms if term[0] != name]


def _form(link: str, name: str, rest: list[tuple[str, Constraint]], form: type) -> Kind:
    return link, name, _encode((form.__name__, rest))


def _low(constraint: NumberRange | NumberSet) -> Bound:
    if isinstance(constraint, NumberRange):
        return low_key(constraint)
    return low_key(NumberRange(constraint.values[0], False))
