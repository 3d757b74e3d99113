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

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from hashlib import blake2b
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
from byway.model.unions import string_span

ALTERNATIVES_MAX: Final = 8
"""Filters with more are not merged."""
SHOWN_MAX: Final = 262_144
"""Places of all filters together. Where more than half of that are taken when it is tidied, the
older half of the filters is forgotten."""
TIDIED_MIN: Final = 4_096
"""Places from which on filters that have gone are looked for."""
WALK_MAX: Final = 1_024
"""Filters of a place that are looked at; of ranges, on each side."""
GONE_MAX: Final = 32
"""Filters on each side of where a search begins. If a quarter of these have gone, the place is
tidied."""
BESIDE: Final = 2
"""Ranges on each side that need not touch."""
HOLES_MAX: Final = 64
"""Strings by which a pattern that leaves them out is known, open ends among them."""

K = TypeVar("K")
Place = tuple[Any, ...]
Span = tuple[Any, Any]
"""Where a range begins and ends: two may be one where neither begins after the other's end."""
_encode = msgspec.msgpack.Encoder().encode


class PartnersState(msgspec.Struct, Generic[K], array_like=True):
    """What of a `Partners` survives a restart."""

    known: list[tuple[K, str]]
    tidied_from: int


class Shown(Generic[K]):
    """A filter in a place. `number` tells which time it is there; an older one has gone."""

    __slots__ = ("high", "key", "low", "number", "size")

    def __init__(self, key: K, number: int, size: int, span: Span | None) -> None:
        self.key, self.number, self.size = key, number, size
        self.low: Any = span and span[0]
        self.high: Any = span and span[1]


def _begin(shown: Shown[Any]) -> Any:
    return shown.low


class Partners(Generic[K]):
    """Filters by key and link. `weight_of` says how many parts one stands for, and None of one that
    no longer counts. With `exact`, and with OR, only what may merge perfectly is found."""

    def __init__(
        self, weight_of: Callable[[K, str], int | None], most: int, *, exact: bool
    ) -> None:
        self._weight_of = weight_of
        self._most = most
        self._exact = exact
        self._known: dict[tuple[K, str], int] = {}
        """By key and link, the number under which a filter was added last; the latest last."""
        self._added = 0
        self._places: dict[Place, list[Shown[K]]] = {}
        """Filters by place, the latest last."""
        self._spans: dict[Place, list[Shown[K]]] = {}
        """Filters whose constraint is a range, by place, ascending by where it begins."""
        self.shown = 0
        """Number of entries in all places together."""
        self._tidied_from = TIDIED_MIN

    def add(self, key: K, filter: Filter, link: str) -> None:
        """Remember a filter of a link, as the latest."""
        if not may_merge(filter):
            return
        self._known.pop((key, link), None)
        self._added += 1
        self._known[key, link] = self._added
        for group, name, constraint, rest in _meetings(filter, _groups_of):
            at = (link, group, name, rest)
            span = _span(constraint)
            shown = Shown(key, self._added, _size(constraint), span)
            if span is not None and not isinstance(constraint, NumberSet):
                insort(self._spans.setdefault((*at, _form(constraint)), []), shown, key=_begin)
                self.shown += 1
            for form in _shown_as(constraint, self._exact):
                self._places.setdefault((*at, form), []).append(shown)
                self.shown += 1
        if self.shown > self._tidied_from:
            self._tidy()

    def near(self, filter: Filter, link: str, weight: int) -> Iterator[K]:
        """Those that may be merged with a filter of so many parts, each once. Nothing may be added
        before the last is asked for."""
        if not may_merge(filter):
            return
        found: set[K] = set()
        with_or = len(filter.conjunctions) > 1
        for group, name, constraint, rest in _meetings(filter, _groups_for):
            at = (link, group, name, rest)
            exact = self._exact or with_or or group != _ALONE
            for key in self._meeting(at, constraint, weight, exact):
                if key not in found:
                    found.add(key)
                    yield key

    def _meeting(self, at: Place, constraint: Constraint, weight: int, exact: bool) -> Iterator[K]:
        span = _span(constraint)
        if span is not None:
            yield from self._beside((*at, _form(constraint)), span, weight, exact)
        for form in _sought_as(constraint, exact):
            yield from self._latest((*at, form), constraint, weight)

    def _latest(self, place: Place, constraint: Constraint, weight: int) -> Iterator[K]:
        """The latest first, of sets those with which one is not too large."""
        size = _size(constraint)
        for shown in self._there(self._places, place, None)[: -WALK_MAX - 1 : -1]:
            small = not (size and shown.size) or size + shown.size <= SET_SIZE_MAX
            if small and self._fits(shown, place[0], weight):
                yield shown.key

    def _beside(self, place: Place, span: Span, weight: int, exact: bool) -> Iterator[K]:
        """Ranges that touch a span, and unless it is to be exact, the next on both sides."""
        spans = self._there(self._spans, place, span[0])
        at = bisect_left(spans, span[0], key=_begin)
        for order in (range(at - 1, -1, -1), range(at, len(spans))):
            beside = 0 if exact else BESIDE
            for shown in (spans[number] for number in order[:WALK_MAX]):
                touches = shown.low <= span[1] and span[0] <= shown.high
                if not touches and not beside and shown.low > span[1]:
                    break
                if (touches or beside) and self._fits(shown, place[0], weight):
                    beside = max(beside - 1, 0)
                    yield shown.key

    def _there(self, places: dict[Place, list[Shown[K]]], place: Place, low: Any) -> list[Shown[K]]:
        """Those of a place. If many have gone, of the last ones or those about a place in their
        order, they are forgotten."""
        shown = places.get(place, [])
        at = len(shown) if low is None else bisect_left(shown, low, key=_begin)
        about = shown[max(at - GONE_MAX, 0) : at + GONE_MAX]
        if sum(not self._is_known(each, place[0]) for each in about) > GONE_MAX // 2:
            kept = [each for each in shown if self._is_known(each, place[0])]
            self.shown -= len(shown) - len(kept)
            _put(places, place, kept)
            return kept
        return shown

    def _is_known(self, shown: Shown[K], link: str) -> bool:
        return self._known.get((shown.key, link)) == shown.number

    def _fits(self, shown: Shown[K], link: str, weight: int) -> bool:
        """Whether one may be joined with so many. Those that cannot with any are forgotten."""
        at = (shown.key, link)
        if not self._is_known(shown, link):
            return False
        own = self._weight_of(*at)
        if own is None or own >= self._most:
            del self._known[at]
            return False
        return own + weight <= self._most

    def _tidy(self) -> None:
        """Forget filters that have gone, and if that is not enough, those known longest."""
        self._known = {
            at: number
            for at, number in self._known.items()
            if (self._weight_of(*at) or self._most) < self._most
        }
        self._drop_unknown()
        if self.shown > SHOWN_MAX // 2:
            for at in list(self._known)[: len(self._known) // 2]:
                del self._known[at]
            self._drop_unknown()
        self._tidied_from = min(SHOWN_MAX, max(TIDIED_MIN, 2 * self.shown))

    def _drop_unknown(self) -> None:
        for places in (self._places, self._spans):
            for place, shown in list(places.items()):
                _put(places, place, [s for s in shown if self._is_known(s, place[0])])
        self.shown = sum(map(len, self._places.values())) + sum(map(len, self._spans.values()))

    def snapshot(self) -> PartnersState[K]:
        """The filters that are known, by key and link, the latest last."""
        there = [at for at in self._known if self._weight_of(*at) is not None]
        return PartnersState(there, self._tidied_from)

    def restore(self, state: PartnersState[K], filter_of: Callable[[K], Filter | None]) -> None:
        """Go on from what `snapshot` returned; `filter_of` finds the filter of a key, if any."""
        for key, link in state.known:
            filter = filter_of(key)
            if filter is not None:
                self.add(key, filter, link)
        self._tidied_from = max(self._tidied_from, state.tidied_from)


def _put(places: dict[Place, list[Shown[K]]], place: Place, kept: list[Shown[K]]) -> None:
    if kept:
        places[place] = kept
    else:
        places.pop(place, None)


def may_merge(filter: Filter) -> bool:
    """Whether a filter is of a kind that is merged at all."""
    alternatives = filter.conjunctions
    return 1 <= len(alternatives) <= ALTERNATIVES_MAX and all(a.terms for a in alternatives)


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
    """The groups in which a filter with these other alternatives is known."""
    return (others, _ANY_OTHERS) if others else (_ALONE,)


def _groups_for(others: bytes) -> tuple[bytes, ...]:
    """The groups in which partners of a filter with these other alternatives are found."""
    return (_ALONE, others, _ANY_OTHERS) if others else (_ALONE, _ANY_OTHERS)


def _meetings(
    filter: Filter, groups: Callable[[bytes], tuple[bytes, ...]]
) -> Iterator[tuple[bytes, str, Constraint, bytes]]:
    """By alternative and attribute: groups, what a filter says of the attribute, what else."""
    alternatives = filter.conjunctions
    for number, alternative in enumerate(alternatives):
        rest_of_all = (*alternatives[:number], *alternatives[number + 1 :])
        others = _digest(rest_of_all) if rest_of_all else b""
        for name, constraint in alternative.terms:
            rest = _digest([term for term in alternative.terms if term[0] != name])
            for group in groups(others):
                yield group, name, constraint, rest


def _digest(part: object) -> bytes:
    """Names a part of a filter, which may be large."""
    return blake2b(_encode(part), digest_size=16).digest()


def _span(constraint: Constraint) -> Span | None:
    if isinstance(constraint, NumberSet):
        constraint = NumberRange(constraint.values[0], False, constraint.values[-1], False)
    if isinstance(constraint, NumberRange):
        nearest, rest = high_key(constraint)
        return low_key(constraint), (nearest, rest + 2)  # one number may be missing between
    return string_span(constraint) if isinstance(constraint, StringPattern) else None


def _form(constraint: Constraint) -> bytes:
    """Ranges of one form may be one. The rest of a pattern depends on where it begins and ends."""
    if not isinstance(constraint, StringPattern):
        return b""
    return _digest((constraint.suffix, constraint.not_suffix, constraint.not_contains))


def _size(constraint: Constraint) -> int:
    return len(constraint.values) if isinstance(constraint, (NumberSet, StringSet)) else 0


def _shown_as(constraint: Constraint, exact: bool) -> list[Any]:
    """The forms by which a constraint is known, besides where it begins and ends."""
    if isinstance(constraint, StringPattern):
        ends = [(constraint.low, constraint.low_open), (constraint.high, constraint.high_open)]
        holes = [*(text for text, is_open in ends if is_open), *constraint.excluded]
        return [("but", text) for text in holes[:HOLES_MAX]] + ["pattern"] * (not exact)
    return [] if isinstance(constraint, NumberRange) else [_NAMES[type(constraint)]]


def _sought_as(constraint: Constraint, exact: bool) -> list[Any]:
    """The forms by which partners of a constraint are found."""
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
