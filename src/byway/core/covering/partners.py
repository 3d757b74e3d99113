"""Partners: an index of filters, which finds those that may be merged with a given filter.

The index has *buckets*. For each alternative of a filter and each attribute in it there is a
bucket, named by everything else that the alternative says: two filters share a bucket if they
differ in that attribute alone. Within a bucket, ranges are found by where they begin and end, sets
by their size, patterns by the strings that they leave out. Only filters that may be merged are
found: with no more parts together than `most`.

A filter with OR is in more buckets: one named by its other alternatives, where it meets all filters
that differ from it in one alternative, and one for filters without OR, which may be merged with one
of its alternatives.
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
POSTINGS_MAX: Final = 262_144
"""Postings of all filters together. If more than half as many are left when the index is tidied,
the older half of the filters is forgotten."""
TIDIED_MIN: Final = 4_096
"""With more postings than this, those of filters that have gone are looked for."""
WALK_MAX: Final = 1_024
"""Postings of a bucket that a search examines; of ranges, on each side."""
GONE_MAX: Final = 32
"""Postings on each side of where a search begins. If a quarter of these have gone, the bucket is
tidied."""
BESIDE: Final = 2
"""Ranges on each side that are found though they do not touch."""
HOLES_MAX: Final = 64
"""Strings by which a pattern that leaves them out is indexed, open ends included."""

K = TypeVar("K")
Bucket = tuple[Any, ...]
Span = tuple[Any, Any]
"""Where a range begins and ends. Two touch if neither begins after the other's end."""
_encode = msgspec.msgpack.Encoder().encode


class PartnersState(msgspec.Struct, Generic[K], array_like=True):
    """What of a `Partners` survives a restart."""

    known: list[tuple[K, str]]
    tidied_from: int


class Posting(Generic[K]):
    """A filter in a bucket. A filter that is added again has a new `number`; its older postings no
    longer count."""

    __slots__ = ("high", "key", "low", "number", "size")

    def __init__(self, key: K, number: int, size: int, span: Span | None) -> None:
        self.key, self.number, self.size = key, number, size
        self.low: Any = span and span[0]
        self.high: Any = span and span[1]


def _begin(posting: Posting[Any]) -> Any:
    return posting.low


class Partners(Generic[K]):
    """An index of filters, each with a key and a link. `weight_of` says how many parts a filter was
    merged from; None: it no longer counts. With `exact`, and for filters with OR, only filters that
    may merge perfectly are found."""

    def __init__(
        self, weight_of: Callable[[K, str], int | None], most: int, *, exact: bool
    ) -> None:
        self._weight_of = weight_of
        self._most = most
        self._exact = exact
        self._known: dict[tuple[K, str], int] = {}
        """By key and link, the number under which a filter was added last; the latest last."""
        self._added = 0
        self._by_age: dict[Bucket, list[Posting[K]]] = {}
        """Postings by bucket, the latest last."""
        self._spans: dict[Bucket, list[Posting[K]]] = {}
        """Postings of ranges by bucket, ascending by where they begin."""
        self.postings = 0
        """Number of postings in all buckets together."""
        self._owned: set[Bucket] | None = None
        """After a copy, the buckets that are not shared with it any more; None: all."""
        self._tidied_from = TIDIED_MIN

    def add(self, key: K, filter: Filter, link: str, path: tuple[str, ...] = ()) -> None:
        """Add a filter of a link, as the latest. Only those that are told there with equal paths
        are partners."""
        if not may_merge(filter):
            return
        self._known.pop((key, link), None)
        self._added += 1
        self._known[key, link] = self._added
        for group, name, constraint, rest in _keys_of(filter, _groups_of):
            at = (link, path, group, name, rest)
            span = _span(constraint)
            posting = Posting(key, self._added, _size(constraint), span)
            if span is not None and not isinstance(constraint, NumberSet):
                spans = self._own(self._spans, (*at, _form(constraint)))
                insort(spans, posting, key=_begin)
                self.postings += 1
            for form in _indexed_as(constraint, self._exact):
                self._own(self._by_age, (*at, form)).append(posting)
                self.postings += 1
        if self.postings > self._tidied_from:
            self._tidy()

    def forget(self, key: K, link: str) -> None:
        """Forget a filter of a link. One that went and comes again must be added anew: a copy that
        was restored meanwhile does not know it."""
        self._known.pop((key, link), None)

    def _own(self, buckets: dict[Bucket, list[Posting[K]]], bucket: Bucket) -> list[Posting[K]]:
        """The postings of a bucket, to be changed: a copy of them, if they are shared."""
        postings = buckets.setdefault(bucket, [])
        if self._owned is not None and bucket not in self._owned:
            self._owned.add(bucket)
            postings = buckets[bucket] = postings.copy()
        return postings

    def near(
        self, filter: Filter, link: str, weight: int, path: tuple[str, ...] = ()
    ) -> Iterator[K]:
        """The keys of filters that may be merged with a filter of `weight` parts, each once.
        Nothing may be added before the last one is taken."""
        if not may_merge(filter):
            return
        found: set[K] = set()
        with_or = len(filter.conjunctions) > 1
        for group, name, constraint, rest in _keys_of(filter, _groups_for):
            at = (link, path, group, name, rest)
            exact = self._exact or with_or or group != _ALONE
            for key in self._candidates(at, constraint, weight, exact):
                if key not in found:
                    found.add(key)
                    yield key

    def _candidates(
        self, at: Bucket, constraint: Constraint, weight: int, exact: bool
    ) -> Iterator[K]:
        span = _span(constraint)
        if span is not None:
            yield from self._beside((*at, _form(constraint)), span, weight, exact)
        for form in _sought_as(constraint, exact):
            yield from self._latest((*at, form), constraint, weight)

    def _latest(self, bucket: Bucket, constraint: Constraint, weight: int) -> Iterator[K]:
        """The filters of a bucket, the latest first; of sets, those that are not too large together
        with this one."""
        size = _size(constraint)
        for posting in self._postings_of(self._by_age, bucket, None)[: -WALK_MAX - 1 : -1]:
            small = not (size and posting.size) or size + posting.size <= SET_SIZE_MAX
            if small and self._fits(posting, bucket[0], weight):
                yield posting.key

    def _beside(self, bucket: Bucket, span: Span, weight: int, exact: bool) -> Iterator[K]:
        """The filters whose ranges touch a span, and unless `exact` the next ones on both sides."""
        spans = self._postings_of(self._spans, bucket, span[0])
        at = bisect_left(spans, span[0], key=_begin)
        for order in (range(at - 1, -1, -1), range(at, len(spans))):
            beside = 0 if exact else BESIDE
            for posting in (spans[number] for number in order[:WALK_MAX]):
                touches = posting.low <= span[1] and span[0] <= posting.high
                if not touches and not beside and posting.low > span[1]:
                    break
                if (touches or beside) and self._fits(posting, bucket[0], weight):
                    beside = max(beside - 1, 0)
                    yield posting.key

    def _postings_of(
        self, buckets: dict[Bucket, list[Posting[K]]], bucket: Bucket, low: Any
    ) -> list[Posting[K]]:
        """The postings of a bucket. If many of those around `low`, or with None of the last ones,
        are of filters that have gone, the bucket is tidied first."""
        postings = buckets.get(bucket, [])
        at = len(postings) if low is None else bisect_left(postings, low, key=_begin)
        around = postings[max(at - GONE_MAX, 0) : at + GONE_MAX]
        if sum(not self._is_known(posting, bucket[0]) for posting in around) > GONE_MAX // 2:
            kept = [posting for posting in postings if self._is_known(posting, bucket[0])]
            self.postings -= len(postings) - len(kept)
            _put(buckets, bucket, kept)
            return kept
        return postings

    def _is_known(self, posting: Posting[K], link: str) -> bool:
        return self._known.get((posting.key, link)) == posting.number

    def _fits(self, posting: Posting[K], link: str, weight: int) -> bool:
        """Whether a filter may be merged with one of `weight` parts. One that fits none is
        forgotten."""
        at = (posting.key, link)
        if not self._is_known(posting, link):
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
        if self.postings > POSTINGS_MAX // 2:
            for at in list(self._known)[: len(self._known) // 2]:
                del self._known[at]
            self._drop_unknown()
        self._tidied_from = min(POSTINGS_MAX, max(TIDIED_MIN, 2 * self.postings))

    def _drop_unknown(self) -> None:
        indexes = (self._by_age, self._spans)
        for buckets in indexes:
            for bucket, postings in list(buckets.items()):
                _put(buckets, bucket, [p for p in postings if self._is_known(p, bucket[0])])
        self.postings = sum(len(postings) for index in indexes for postings in index.values())

    def copy_from(self, other: Partners[K], without: frozenset[str]) -> None:
        """Know the filters that another index knows, but of the links `without`. Postings are
        shared until one of the two changes them."""
        self._known = {at: n for at, n in other._known.items() if at[1] not in without}
        self._added, self._tidied_from = other._added, other._tidied_from
        self._by_age, self._spans = other._by_age.copy(), other._spans.copy()
        self.postings = other.postings
        self._owned, other._owned = set(), set()

    def snapshot(self) -> PartnersState[K]:
        """The filters that are known, by key and link, the latest last."""
        there = [at for at in self._known if self._weight_of(*at) is not None]
        return PartnersState(there, self._tidied_from)

    def restore(
        self,
        state: PartnersState[K],
        found_by: Callable[[K], tuple[Filter, tuple[str, ...]] | None],
    ) -> None:
        """Go on from what `snapshot` returned; `found_by` finds filter and path of a key."""
        for key, link in state.known:
            found = found_by(key)
            if found is not None:
                self.add(key, found[0], link, found[1])
        self._tidied_from = max(self._tidied_from, state.tidied_from)


def _put(buckets: dict[Bucket, list[Posting[K]]], bucket: Bucket, kept: list[Posting[K]]) -> None:
    if kept:
        buckets[bucket] = kept
    else:
        buckets.pop(bucket, None)


def may_merge(filter: Filter) -> bool:
    """Whether a filter is of a kind that is merged at all."""
    alternatives = filter.conjunctions
    return 1 <= len(alternatives) <= ALTERNATIVES_MAX and all(a.terms for a in alternatives)


# --- buckets -------------------------------------------------------------------------------------

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
    """The groups of buckets in which a filter with these other alternatives is indexed."""
    return (others, _ANY_OTHERS) if others else (_ALONE,)


def _groups_for(others: bytes) -> tuple[bytes, ...]:
    """The groups of buckets in which partners of a filter with these other alternatives are."""
    return (_ALONE, others, _ANY_OTHERS) if others else (_ALONE, _ANY_OTHERS)


def _keys_of(
    filter: Filter, groups: Callable[[bytes], tuple[bytes, ...]]
) -> Iterator[tuple[bytes, str, Constraint, bytes]]:
    """For each alternative and attribute: group, attribute, its constraint, and a digest of the
    other constraints."""
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
    """Ranges of one form may merge. Patterns of one form have the same LIKE and NOT LIKE."""
    if not isinstance(constraint, StringPattern):
        return b""
    return _digest((constraint.suffix, constraint.not_suffix, constraint.not_contains))


def _size(constraint: Constraint) -> int:
    return len(constraint.values) if isinstance(constraint, (NumberSet, StringSet)) else 0


def _indexed_as(constraint: Constraint, exact: bool) -> list[Any]:
    """The forms under which a constraint is indexed, besides where it begins and ends."""
    if isinstance(constraint, StringPattern):
        ends = [(constraint.low, constraint.low_open), (constraint.high, constraint.high_open)]
        holes = [*(text for text, is_open in ends if is_open), *constraint.excluded]
        return [("but", text) for text in holes[:HOLES_MAX]] + ["pattern"] * (not exact)
    return [] if isinstance(constraint, NumberRange) else [_NAMES[type(constraint)]]


def _sought_as(constraint: Constraint, exact: bool) -> list[Any]:
    """The forms under which partners of a constraint are indexed."""
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
