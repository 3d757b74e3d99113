"""Partners: which filters may be merged with one, found by what they say.

Filters are known by *places*. For each alternative of a filter and each of its attributes there is
one, named by all else that the alternative says: two filters meet in a place if they differ in that
attribute alone. There, ranges are found by where they begin and end, sets by their size, patterns
by the strings that they leave out. Of those that meet only what may be joined is found: no more
parts together than `most`.

Filters with OR are known in two more ways: by their other alternatives, so that all that differ in
one alternative meet, and for filters without OR, which may be joined with one of the alternatives.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

from byway.model import Filter
from byway.model.constraints import (
    SET_SIZE_MAX,
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    high_key,
    low_key,
)
from byway.model.unions import bare, string_span

ALTERNATIVES_MAX: Final = 8
"""Filters with more are not merged."""
SHOWN_MAX: Final = 262_144
"""Places of all filters together; beyond, the filters known longest are forgotten."""
TIDIED_MIN: Final = 4_096
"""Places from which on filters that have gone are looked for."""
WALK_MAX: Final = 256
"""Filters of a place that are looked at."""
FOUND_MAX: Final = 8
"""Filters that one place gives; of ranges, on each side."""
BESIDE: Final = 2
"""Ranges on each side that need not touch."""
HOLES_MAX: Final = 64
"""Strings by which a pattern that leaves them out is known."""

K = TypeVar("K")
T = TypeVar("T")
Place = tuple[Any, ...]
Span = tuple[Any, Any]
"""Where a range begins and ends: two touch where neither begins after the other's end."""
_encode = msgspec.msgpack.Encoder().encode


class PartnersState(msgspec.Struct, Generic[K], array_like=True):
    """What survives a restart."""

    known: list[tuple[K, str]]
    tidied_from: int


class Partners(Generic[K]):
    """Filters by key and link. `weight_of` says how many parts one stands for, and None of one that
    no longer counts. With `exact`, and with OR, only what may merge perfectly is found."""

    def __init__(
        self, weight_of: Callable[[K, str], int | None], most: int, *, exact: bool
    ) -> None:
        self._weight_of = weight_of
        self._most = most
        self._exact = exact
        self._known: dict[tuple[K, str], Filter] = {}
        self._places: dict[Place, list[tuple[int, K]]] = {}
        """The size of a set, and whose it is; the latest last."""
        self._spans: dict[Place, list[tuple[Any, Any, K]]] = {}
        """Ascending by where they begin."""
        self.shown = 0
        """In how many places filters are, all together."""
        self._tidied_from = TIDIED_MIN

    def add(self, key: K, filter: Filter, link: str) -> None:
        """Remember a filter."""
        if (key, link) in self._known or not may_merge(filter):
            return
        self._known[key, link] = filter
        for group, name, constraint, rest in _meetings(filter, _groups_of):
            at = (link, group, name, rest)
            span = _span(constraint)
            if span is not None and not isinstance(constraint, NumberSet):
                spans: list[Any] = self._spans.setdefault((*at, _form(constraint)), [])
                shown = (*span, key)
                where = bisect_left(spans, shown)
                if where == len(spans) or spans[where] != shown:
                    spans.insert(where, shown)
                    self.shown += 1
            for form in _shown_as(constraint, self._exact):
                self._places.setdefault((*at, form), []).append((_size(constraint), key))
                self.shown += 1
        if self.shown > self._tidied_from:
            self._tidy()

    def near(self, filter: Filter, link: str, weight: int) -> list[K]:
        """Those that may be merged with a filter of so many parts, each once."""
        found: dict[K, None] = {}
        with_or = len(filter.conjunctions) > 1
        if not may_merge(filter):
            return []
        for group, name, constraint, rest in _meetings(filter, _groups_for):
            at = (link, group, name, rest)
            span = _span(constraint)
            exact = self._exact or with_or or group != _ALONE
            if span is not None:
                found |= dict.fromkeys(self._beside((*at, _form(constraint)), span, weight, exact))
            for form in _sought_as(constraint, exact):
                found |= dict.fromkeys(self._latest((*at, form), _size(constraint), weight))
        return list(found)

    def _latest(self, place: Place, size: int, weight: int) -> list[K]:
        """The latest first, of sets those with which one of this size is not too large."""
        shown = self._places.get(place)
        found: list[K] = []
        if shown is None:
            return found
        for at in range(len(shown) - 1, max(-1, len(shown) - 1 - WALK_MAX), -1):
            of, key = shown[at]
            if not (size and of) or size + of <= SET_SIZE_MAX:
                fits = self._fits(key, place[0], weight)
                if fits is None:
                    del shown[at]
                    self.shown -= 1
                elif fits:
                    found.append(key)
                    if len(found) == FOUND_MAX:
                        break
        if not shown:
            del self._places[place]
        return found

    def _beside(self, place: Place, span: Span, weight: int, exact: bool) -> list[K]:
        """Ranges that touch a span, and unless it is to be exact, the next on both sides."""
        beside = 0 if exact else BESIDE
        spans = self._spans.get(place)
        if spans is None:
            return []
        at = bisect_left(spans, (span[0],))
        found: list[K] = []
        gone: list[int] = []
        for order in (range(at - 1, -1, -1), range(at, len(spans))):
            kept, lost = self._walk(spans, order[:WALK_MAX], span, beside, (place[0], weight))
            found += kept
            gone += lost
        for number in sorted(gone, reverse=True):
            del spans[number]
        self.shown -= len(gone)
        if not spans:
            del self._spans[place]
        return found

    def _walk(
        self,
        spans: list[tuple[Any, Any, K]],
        order: range,
        span: Span,
        beside: int,
        joined: tuple[str, int],
    ) -> tuple[list[K], list[int]]:
        """What is found one way, and where one has gone. So many `beside` need not touch."""
        found: list[K] = []
        gone: list[int] = []
        for at in order:
            low, high, key = spans[at]
            touches = low <= span[1] and span[0] <= high
            if not touches and len(found) >= beside:
                if low > span[1]:
                    break
                continue
            fits = self._fits(key, *joined)
            if fits is None:
                gone.append(at)
            elif fits:
                found.append(key)
                if len(found) == FOUND_MAX:
                    break
        return found, gone

    def _fits(self, key: K, link: str, weight: int) -> bool | None:
        """Whether one may be joined with so many; None: with none any more, and it is forgotten."""
        if (key, link) not in self._known:
            return None
        own = self._weight_of(key, link)
        if own is None or own >= self._most:
            del self._known[key, link]
            return None
        return own + weight <= self._most

    def _tidy(self) -> None:
        """Forget filters that have gone, and if that is not enough, those known longest."""
        self._known = {
            at: filter
            for at, filter in self._known.items()
            if (self._weight_of(*at) or self._most) < self._most
        }
        self._drop_unknown()
        if self.shown > SHOWN_MAX // 2:
            for at in list(self._known)[: len(self._known) // 2]:
                del self._known[at]
            self._drop_unknown()
        self._tidied_from = min(SHOWN_MAX, max(TIDIED_MIN, 2 * self.shown))

    def _drop_unknown(self) -> None:
        known = self._known
        for place, shown in list(self._places.items()):
            kept = [s for s in dict.fromkeys(shown) if (s[1], place[0]) in known]
            _put(self._places, place, kept)
        for place, spans in list(self._spans.items()):
            _put(self._spans, place, [s for s in spans if (s[2], place[0]) in known])
        self.shown = sum(map(len, self._places.values())) + sum(map(len, self._spans.values()))

    def snapshot(self) -> PartnersState[K]:
        """Which ones are known."""
        there = [at for at in self._known if self._weight_of(*at) is not None]
        return PartnersState(there, self._tidied_from)

    def restore(self, state: PartnersState[K], filter_of: Callable[[K], Filter | None]) -> None:
        """Go on."""
        for key, link in state.known:
            filter = filter_of(key)
            if filter is not None:
                self.add(key, filter, link)
        self._tidied_from = max(self._tidied_from, state.tidied_from)


def _put(places: dict[Place, list[T]], place: Place, kept: list[T]) -> None:
    if kept:
        places[place] = kept
    else:
        del places[place]


def may_merge(filter: Filter) -> bool:
    """Whether a filter is of a kind that is merged at all."""
    return 1 <= len(filter.conjunctions) <= ALTERNATIVES_MAX


# --- places --------------------------------------------------------------------------------------

_ALONE: Final = b""
_ANY_OTHERS: Final = b"or"
_NAMES: Final[dict[type, str]] = {
    NumberSet: "numbers",
    StringSet: "strings",
    BoolSet: "booleans",
    Exists: "there",
    Absent: "not there",
}


def _groups_of(others: bytes) -> tuple[bytes, ...]:
    """Where one with these other alternatives is known,"""
    return (others, _ANY_OTHERS) if others else (_ALONE,)


def _groups_for(others: bytes) -> tuple[bytes, ...]:
    """and where its partners are."""
    return (_ALONE, others, _ANY_OTHERS) if others else (_ALONE, _ANY_OTHERS)


def _meetings(
    filter: Filter, groups: Callable[[bytes], tuple[bytes, ...]]
) -> Iterator[tuple[bytes, str, Constraint, bytes]]:
    """By alternative and attribute: groups, what a filter says of the attribute, what else."""
    alternatives = filter.conjunctions
    for number, alternative in enumerate(alternatives):
        rest_of_all = (*alternatives[:number], *alternatives[number + 1 :])
        others = _encode(rest_of_all) if rest_of_all else b""
        for name, constraint in alternative.terms:
            rest = _encode([term for term in alternative.terms if term[0] != name])
            for group in groups(others):
                yield group, name, constraint, rest


def _span(constraint: Constraint) -> Span | None:
    if isinstance(constraint, NumberSet):
        constraint = NumberRange(constraint.values[0], False, constraint.values[-1], False)
    if isinstance(constraint, NumberRange):
        nearest, rest = high_key(constraint)
        return low_key(constraint), (nearest, rest + 1)
    return string_span(constraint) if isinstance(constraint, StringPattern) else None


def _form(constraint: Constraint) -> bytes:
    """Ranges of one form are one range if they touch."""
    return _encode(bare(constraint)) if isinstance(constraint, StringPattern) else b""


def _size(constraint: Constraint) -> int:
    return len(constraint.values) if isinstance(constraint, (NumberSet, StringSet)) else 0


def _shown_as(constraint: Constraint, exact: bool) -> list[Any]:
    """What a constraint is known by, besides where it begins and ends,"""
    if isinstance(constraint, StringPattern):
        ends = [(constraint.low, constraint.low_open), (constraint.high, constraint.high_open)]
        holes = [*(text for text, is_open in ends if is_open), *constraint.excluded]
        return [("but", text) for text in holes[:HOLES_MAX]] + ["pattern"] * (not exact)
    return [] if isinstance(constraint, NumberRange) else [_NAMES[type(constraint)]]


def _sought_as(constraint: Constraint, exact: bool) -> list[Any]:
    """and what its partners are."""
    if isinstance(constraint, (NumberRange, NumberSet)):
        return ["numbers"]
    if isinstance(constraint, StringPattern):
        return ["strings"] + ["pattern"] * (not exact)
    if isinstance(constraint, StringSet):
        filling = [("but", text) for text in constraint.values]
        return ["strings", *filling] + ["pattern"] * (not exact)
    if isinstance(constraint, BoolSet):
        return ["booleans"]
    return ["not there" if isinstance(constraint, Exists) else "there"]
