"""Merging: one filter in place of two, and what it matches that neither asked for.

A merge is *perfect* when it is known to accept exactly what the two accept. Otherwise its `volume`
estimates the share of the merged filter's own publications that neither part wants: above 0, up to
1 (all). Without statistics of publications that estimate takes values to be spread evenly over the
merged constraint; a caller who has statistics passes `share`.

Filters are read open-world here: merging is for subscriptions, not for advertisements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Final, NamedTuple

import msgspec

from byway.model.constraint_relations import intersect, subset
from byway.model.constraints import (
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringSet,
)
from byway.model.filters import ANY, Conjunction, Filter
from byway.model.unions import hull, union

Share = Callable[[str, Constraint, Constraint | None], float]
"""share(attribute, inner, outer): of the publications that satisfy `outer` on this attribute (None:
no constraint), the part that satisfies `inner`."""

_UNKNOWN_SHARE: Final = 1 / 3
_PRESENT_SHARE: Final = 1 / 2
_DROPPED_SHARE: Final = 1 / 10
_VOLUME_MIN: Final = 1e-9  # of a merge that is not known to be perfect


class Merge(msgspec.Struct, frozen=True):
    """The merged filter, whether it is exact, and the share of unwanted publications it matches."""

    filter: Filter
    perfect: bool
    volume: float


def even_share(attribute: str, inner: Constraint, outer: Constraint | None) -> float:
    """Share under the assumption that values spread evenly over `outer`, where it is finite.

    Elsewhere a guess: a third, which leaves as much for the other part of a merge as for what
    neither wants; a half for being there at all, a tenth for a predicate that a merge drops.
    """
    del attribute
    if outer is None:
        return _PRESENT_SHARE if isinstance(inner, (Exists, Absent)) else _DROPPED_SHARE
    if inner == outer:
        return 1.0
    if isinstance(outer, (BoolSet, NumberSet, StringSet)):
        size = len(inner.values) if isinstance(inner, type(outer)) else 1
        return min(1.0, size / len(outer.values))
    if isinstance(outer, NumberRange):
        whole = float(outer.high) - float(outer.low)
        if not 0 < whole < float("inf"):
            return _UNKNOWN_SHARE
        if isinstance(inner, NumberRange):
            return min(1.0, max(0.0, (float(inner.high) - float(inner.low)) / whole))
        if isinstance(inner, NumberSet):
            return min(1.0, len(inner.values) / (whole + 1.0))
    return _UNKNOWN_SHARE


def merge(f: Filter, g: Filter, share: Share = even_share) -> Merge:
    """One filter that accepts all that `f` or `g` accepts, with at most as many alternatives as the
    larger of the two. Perfect steps are taken first; then the pair that costs least, and so on."""
    if f.open or g.open:
        return Merge(ANY, True, 0.0)
    room = max(len(f.conjunctions), len(g.conjunctions), 1)
    pool = _Pool([*f.conjunctions, *g.conjunctions], share)
    kept = 1.0  # share of what comes through that somebody asked for
    perfect = True
    while True:
        step = pool.perfect_step()
        if step is None and len(pool.parts) > room:
            step = pool.cheapest_step()
        if step is None:
            break
        perfect = perfect and step.volume == 0.0
        kept *= 1.0 - step.volume / (len(pool.parts) - 1)
        pool.take(step)
    merged = Filter.of([dict(part.terms) for part in pool.parts.values()])
    return Merge(merged, perfect, 0.0 if perfect else max(1.0 - kept, _VOLUME_MIN))


def merge_exactly(f: Filter, g: Filter) -> Filter | None:
    """What `merge` gives where that is perfect, else None; far faster where it is not."""
    if f.open or g.open:
        return ANY
    pool = _Pool([*f.conjunctions, *g.conjunctions], even_share)
    while (step := pool.perfect_step()) is not None:
        pool.take(step)
    if len(pool.parts) > max(len(f.conjunctions), len(g.conjunctions), 1):
        return None
    return Filter.of([dict(part.terms) for part in pool.parts.values()])


def share_of(f: Filter, merged: Filter, share: Share = even_share) -> float:
    """Of what a merged filter of one conjunction lets through, the part that satisfies `f`, one of
    its parts."""
    [inner], [outer] = f.conjunctions, merged.conjunctions
    return _product(inner.terms, dict(outer.terms), share)


class _Step(NamedTuple):
    """Two parts become one. `volume` is relative to the joined part, `cost` to all publications."""

    cost: float
    volume: float
    first: int
    second: int
    joined: Conjunction


class _Pool:
    """Parts by number, still to be joined. What a pair would give is worked out once."""

    def __init__(self, conjunctions: list[Conjunction], share: Share) -> None:
        self.share = share
        self.parts: dict[int, Conjunction] = {}
        self.made = 0
        self.unchecked: list[tuple[int, int]] = []  # pairs that may join perfectly
        self.steps: dict[tuple[int, int], _Step] = {}  # the others, as far as they were asked for
        for conjunction in sorted(conjunctions, key=msgspec.msgpack.encode):
            self.add(conjunction)

    def add(self, conjunction: Conjunction) -> None:
        """Add a part, to be tried with all others."""
        self.unchecked += [(other, self.made) for other in self.parts]
        self.parts[self.made] = conjunction
        self.made += 1

    def take(self, step: _Step) -> None:
        """Put the joined part of a step in place of its two."""
        del self.parts[step.first], self.parts[step.second]
        self.add(step.joined)

    def perfect_step(self) -> _Step | None:
        """A pair that joins perfectly, if there is one that was not tried before."""
        while self.unchecked:
            i, j = self.unchecked.pop()
            if i in self.parts and j in self.parts:
                joined = _perfect(self.parts[i], self.parts[j])
                if joined is not None:
                    return _Step(0.0, 0.0, i, j, joined)
        return None

    def cheapest_step(self) -> _Step | None:
        """The pair whose joined part adds the fewest unwanted publications."""
        return min(map(self.step, combinations(self.parts, 2)), key=_order, default=None)

    def step(self, pair: tuple[int, int]) -> _Step:
        """What joining a pair gives and costs, worked out once."""
        known = self.steps.get(pair)
        if known is None:
            a, b = self.parts[pair[0]], self.parts[pair[1]]
            joined = _hull(a, b)
            volume = _volume(a, b, joined, self.share)
            cost = volume * _product(joined.terms, {}, self.share)
            known = self.steps[pair] = _Step(cost, volume, *pair, joined)
        return known


def _order(step: _Step) -> tuple[float, ...]:
    return step[:4]


def _perfect(a: Conjunction, b: Conjunction) -> Conjunction | None:
    """The exact union of two conjunctions if one conjunction can say it: one covers the other, or
    they differ in a single attribute whose union is one constraint, or none at all."""
    if a.covers(b):
        return a
    if b.covers(a):
        return b
    if len(a.terms) != len(b.terms):
        return None
    terms: list[tuple[str, Constraint]] = []
    differing = 0
    for (name, mine), (other_name, theirs) in zip(a.terms, b.terms, strict=True):
        if name != other_name:
            return None
        if mine == theirs:
            terms.append((name, mine))
            continue
        differing += 1
        joined = union(mine, theirs)
        if differing > 1 or (joined is None and {type(mine), type(theirs)} != {Exists, Absent}):
            return None
        if joined is not None:
            terms.append((name, joined))
    return Conjunction(tuple(terms))


def _hull(a: Conjunction, b: Conjunction) -> Conjunction:
    """The tightest conjunction that two imply, attribute by attribute."""
    theirs = dict(b.terms)
    terms: dict[str, Constraint] = {}
    for name, mine in a.terms:
        if name in theirs:
            joined = hull(mine, theirs[name])
            if joined is not None:
                terms[name] = joined
    return Conjunction.of(terms)


def _volume(a: Conjunction, b: Conjunction, joined: Conjunction, share: Share) -> float:
    """1 - P(a) - P(b) + P(a and b), each relative to the merged conjunction."""
    outer = dict(joined.terms)
    mine, theirs = dict(a.terms), dict(b.terms)
    both: dict[str, Constraint] | None = dict(mine)
    for name, constraint in theirs.items():
        assert both is not None
        meet = intersect(both[name], constraint) if name in both else constraint
        if meet is None or (isinstance(meet, Absent) and name in outer):
            both = None
            break
        both[name] = meet
    overlap = _product(sorted(both.items()), outer, share) if both is not None else 0.0
    wanted = _product(a.terms, outer, share) + _product(b.terms, outer, share) - overlap
    return min(1.0, max(_VOLUME_MIN, 1.0 - wanted))


def _product(
    terms: Iterable[tuple[str, Constraint]], outer: Mapping[str, Constraint], share: Share
) -> float:
    """The share of `outer` that satisfies all terms, as if attributes were independent."""
    product = 1.0
    for name, constraint in terms:
        whole = outer.get(name)
        if whole is None or not subset(whole, constraint):
            product *= share(name, constraint, whole)
    return product
