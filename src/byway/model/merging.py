"""Merging: one filter in place of two, and what it lets through that neither asked for.

A merge is *perfect* when it is known to accept exactly what the two accept. Otherwise its `volume`
estimates the share of the merged filter's own publications that neither part wants: above 0, up to
1 (all). Without statistics of publications that estimate takes values to be spread evenly over the
merged constraint; a caller who has statistics passes `share`.

Filters are read open-world here: merging is for subscriptions, not for advertisements.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Final, NamedTuple

import msgspec

from byway.model.constraints import (
    Absent,
    BoolSet,
    Constraint,
    NumberRange,
    NumberSet,
    StringSet,
    hull,
    intersect,
    subset,
    union,
)
from byway.model.filters import ANY, Conjunction, Filter

Share = Callable[[str, Constraint, Constraint | None], float]
"""share(attribute, inner, outer): of the publications that satisfy `outer` on this attribute (None:
no constraint), the part that satisfies `inner`."""

_UNKNOWN_SHARE: Final = 0.5
_VOLUME_MIN: Final = 1e-9  # of a merge that is not known to be perfect


class Merge(msgspec.Struct, frozen=True):
    """The merged filter, whether it is exact, and the share it lets through in vain."""

    filter: Filter
    perfect: bool
    volume: float


def even_share(attribute: str, inner: Constraint, outer: Constraint | None) -> float:
    """Share under the assumption that values spread evenly; one half where nothing can be said."""
    del attribute
    if outer is None or inner == outer:
        return 1.0 if outer is not None else _UNKNOWN_SHARE
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


class _Step(NamedTuple):
    """Two parts become one."""

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
        self.unchecked += [(other, self.made) for other in self.parts]
        self.parts[self.made] = conjunction
        self.made += 1

    def take(self, step: _Step) -> None:
        del self.parts[step.first], self.parts[step.second]
        self.add(step.joined)

    def perfect_step(self) -> _Step | None:
        while self.unchecked:
            i, j = self.unchecked.pop()
            if i in self.parts and j in self.parts:
                joined = _perfect(self.parts[i], self.parts[j])
                if joined is not None:
                    return _Step(0.0, i, j, joined)
        return None

    def cheapest_step(self) -> _Step | None:
        return min(map(self.step, combinations(self.parts, 2)), key=_cost, default=None)

    def step(self, pair: tuple[int, int]) -> _Step:
        known = self.steps.get(pair)
        if known is None:
            a, b = self.parts[pair[0]], self.parts[pair[1]]
            joined = _hull(a, b)
            known = self.steps[pair] = _Step(_volume(a, b, joined, self.share), *pair, joined)
        return known


def _cost(step: _Step) -> tuple[float, int, int]:
    return step[:3]


def _perfect(a: Conjunction, b: Conjunction) -> Conjunction | None:
    """The exact union of two conjunctions if one conjunction can say it: one covers the other, or
    they differ in a single attribute whose union is one constraint."""
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
        if differing > 1 or joined is None:
            return None
        terms.append((name, joined))
    return Conjunction(tuple(terms))


def _hull(a: Conjunction, b: Conjunction) -> Conjunction:
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

    def probability(terms: dict[str, Constraint]) -> float:
        product = 1.0
        for name in sorted(terms):
            whole = outer.get(name)
            if whole is None or not subset(whole, terms[name]):
                product *= share(name, terms[name], whole)
        return product

    mine, theirs = dict(a.terms), dict(b.terms)
    both: dict[str, Constraint] | None = dict(mine)
    for name, constraint in theirs.items():
        assert both is not None
        meet = intersect(both[name], constraint) if name in both else constraint
        if meet is None or (isinstance(meet, Absent) and name in outer):
            both = None
            break
        both[name] = meet
    overlap = probability(both) if both is not None else 0.0
    wanted = probability(mine) + probability(theirs) - overlap
    return min(1.0, max(_VOLUME_MIN, 1.0 - wanted))
