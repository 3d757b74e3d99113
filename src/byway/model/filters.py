"""Filters: a bounded disjunction of conjunctions, and how two filters relate.

A subscription reads a filter *open-world*: attributes it does not name may be anything. An
advertisement reads it *closed-world*: a publication conforms iff each of its attributes is named
and satisfied; fewer attributes are fine, an extra one is not. The same `Filter` type serves both.

Relations are exact for conjunctions up to the cases listed in `constraint_relations`. For
disjunctions, `covers` asks that each alternative of the covered filter lies inside one single
alternative of the covering one (so `covers(x < 5 OR x >= 5, x < 9)` is False: safe, not exact).
`intersects` and `conforms` add no doubt of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from byway.model.constraint_relations import intersect, is_long, overlaps, subset
from byway.model.constraints import (
    SET_SIZE_MAX,
    Absent,
    BoolSet,
    Constraint,
    NumberSet,
    StringSet,
    contains,
    one_of,
    within_bounds,
)
from byway.model.errors import FilterLimitError, InvalidValueError
from byway.model.values import Attributes, Value

ALTERNATIVES_MAX: Final = 64
"""Conjunctions in one filter."""
CANDIDATES_MAX: Final = 2 * ALTERNATIVES_MAX
"""Alternatives before covered ones are dropped."""
TERMS_MAX: Final = 64
"""Attributes in one conjunction."""
FILTER_BYTES_MAX: Final = 65_536
"""Encoded size of a filter: far below a frame, so that what a broker accepted it can always pass
on, whatever is added on the way."""

Terms = tuple[tuple[str, Constraint], ...]


class Conjunction(msgspec.Struct, frozen=True, array_like=True):
    """Attributes with one constraint each, ascending by name. Without any it is always true."""

    terms: Terms = ()

    @classmethod
    def of(cls, constraints: Mapping[str, Constraint]) -> Conjunction:
        """The conjunction of one constraint per attribute."""
        if len(constraints) > TERMS_MAX:
            raise FilterLimitError("attributes in one alternative", TERMS_MAX, len(constraints))
        return cls(tuple(sorted(constraints.items())) if len(constraints) > 1
                   else tuple(constraints.items()))  # fmt: skip

    def matches(self, attributes: Attributes) -> bool:
        """Whether the attributes satisfy every term."""
        for name, constraint in self.terms:
            value = attributes.get(name)
            if value is None and name not in attributes:
                if not isinstance(constraint, Absent):
                    return False
            elif not contains(constraint, value):  # type: ignore[arg-type]
                return False
        return True

    def covers(self, other: Conjunction) -> bool:
        """Whether `other` implies this conjunction, term by term."""
        if len(self.terms) > len(other.terms):
            return False
        theirs = dict(other.terms)
        long = []
        for name, constraint in self.terms:
            inner = theirs.get(name)
            if inner is None:
                return False
            if inner is not constraint and inner != constraint:
                if is_long(constraint):
                    long.append((inner, constraint))  # a short one may decide
                elif not subset(inner, constraint):
                    return False
        return all(subset(inner, constraint) for inner, constraint in long)

    def admits(self, attributes: Attributes) -> bool:
        """Closed-world reading: every attribute is named here and satisfies its constraint."""
        named = dict(self.terms)
        return all(
            name in named and contains(named[name], value) for name, value in attributes.items()
        )

    def may_produce(self, subscription: Conjunction) -> bool:
        """Closed-world reading: some publication admitted here matches `subscription`."""
        named = dict(self.terms)
        for name, constraint in subscription.terms:
            if isinstance(constraint, Absent):
                continue  # a publication may leave the attribute out
            mine = named.get(name)
            if mine is None or not overlaps(mine, constraint):
                return False
        return True

    def __repr__(self) -> str:
        from byway.model.writing import conjunction_text

        return f"Conjunction({conjunction_text(self)})"


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """A bounded disjunction in canonical form; made by `parse`, `Filter.of` or `Filter.where`.

    `open` is set on `ANY` alone: as a subscription it reads as TRUE, as an advertisement it admits
    every publication (TRUE, closed-world, admits only the empty one).
    """

    conjunctions: tuple[Conjunction, ...]
    open: bool = False

    @classmethod
    def of(cls, alternatives: Iterable[Mapping[str, Constraint]]) -> Filter:
        """The canonical filter that accepts what any of the alternatives accepts."""
        return cls(_canonical([Conjunction.of(terms) for terms in alternatives]))

    @classmethod
    def where(cls, constraints: Mapping[str, Constraint]) -> Filter:
        """The filter with one alternative."""
        return cls((Conjunction.of(constraints),))

    def matches(self, attributes: Attributes) -> bool:
        """Whether a publication with these attributes is wanted (open-world)."""
        return any(conjunction.matches(attributes) for conjunction in self.conjunctions)

    def attributes(self) -> tuple[str, ...]:
        """The names it constrains, ascending."""
        return tuple(sorted({name for c in self.conjunctions for name, _ in c.terms}))

    def __str__(self) -> str:
        from byway.model.writing import filter_text

        return filter_text(self)

    def __repr__(self) -> str:
        return f"Filter({self!s})"


TRUE: Final = Filter((Conjunction(),))
FALSE: Final = Filter(())
ANY: Final = Filter((Conjunction(),), open=True)


def check_filter_bytes(filter: Filter) -> None:
    """Raise `FilterLimitError` for a filter that is too long to travel, `InvalidValueError` for
    one with a value that cannot."""
    try:
        size = len(msgspec.msgpack.encode(filter))
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidValueError(f"a filter with a value that cannot travel: {error}") from None
    if size > FILTER_BYTES_MAX:
        raise FilterLimitError("bytes as it travels", FILTER_BYTES_MAX, size)


def _canonical(alternatives: list[Conjunction]) -> tuple[Conjunction, ...]:
    """Fold single-attribute sets, drop what another alternative covers, sort.

    The result depends on which alternatives there are, not on their order.
    """
    if len(alternatives) < 2:
        return tuple(alternatives)
    candidates = _fold_sets(alternatives)
    kept: list[Conjunction] = []
    for candidate in sorted(candidates, key=_order):
        if not any(k.covers(candidate) for k in kept):
            kept = [k for k in kept if not candidate.covers(k)]
            kept.append(candidate)
    if len(kept) > ALTERNATIVES_MAX:
        raise FilterLimitError("alternatives", ALTERNATIVES_MAX, len(kept))
    return tuple(kept)


def _order(conjunction: Conjunction) -> bytes:
    """Any total order that depends on the content alone."""
    return msgspec.msgpack.encode(conjunction)


def _fold_sets(alternatives: list[Conjunction]) -> set[Conjunction]:
    """`x = 1 OR x = 2 OR x > 5 OR x = 7` is two alternatives, `x IN (1, 2)` and `x > 5`."""
    sets: dict[tuple[str, type], set[Value]] = {}
    others: dict[str, set[Constraint]] = {}
    folded: set[Conjunction] = set()
    for conjunction in alternatives:
        if len(conjunction.terms) == 1:
            name, constraint = conjunction.terms[0]
            if isinstance(constraint, (BoolSet, NumberSet, StringSet)):
                sets.setdefault((name, type(constraint)), set()).update(constraint.values)
                continue
            others.setdefault(name, set()).add(constraint)
        folded.add(conjunction)
    if len(folded) + len(sets) > CANDIDATES_MAX:
        raise FilterLimitError(
            "alternatives before normalisation", CANDIDATES_MAX, len(folded) + len(sets)
        )
    for (name, _), members in sets.items():
        wider = others.get(name, ())
        values = sorted(v for v in members if not any(contains(c, v) for c in wider))
        for start in range(0, len(values), SET_SIZE_MAX):
            values_here = tuple(values[start : start + SET_SIZE_MAX])
            folded.add(Conjunction(((name, one_of(values_here)),)))
    return folded


def conjoin(parts: Sequence[Mapping[str, Constraint]]) -> dict[str, Constraint] | None:
    """The terms of all parts together; None when they contradict each other."""
    if not parts:
        return {}
    terms = dict(parts[0])
    shared: dict[str, list[Constraint]] = {}
    for part in parts[1:]:
        for name, constraint in part.items():
            if name in terms:
                shared.setdefault(name, [terms[name]]).append(constraint)
            else:
                terms[name] = constraint
    if len(terms) > TERMS_MAX:
        raise FilterLimitError("attributes in one alternative", TERMS_MAX, len(terms))
    for name, constraints in shared.items():
        joined = _intersect_all(constraints)
        if joined is None:
            return None
        terms[name] = joined
    return terms


def _intersect_all(constraints: list[Constraint]) -> Constraint | None:
    """Pair by pair, then the pairs' results likewise: thousands on one attribute stay cheap."""
    while len(constraints) > 1:
        joined = []
        for i in range(1, len(constraints), 2):
            both = intersect(constraints[i - 1], constraints[i])
            if both is None:
                return None
            joined.append(within_bounds(both))
        if len(constraints) % 2:
            joined.append(constraints[-1])
        constraints = joined
    return constraints[0]


# --- relations -------------------------------------------------------------------------------


def covers(f: Filter, g: Filter) -> bool:
    """Whether every publication that matches `g` matches `f`. May say no when unsure, never yes."""
    return all(any(wide.covers(narrow) for wide in f.conjunctions) for narrow in g.conjunctions)


def intersects(advertisement: Filter, subscription: Filter) -> bool:
    """Whether some publication conforms to `advertisement` and matches `subscription`.

    Directed: the advertisement is read closed-world. May say yes when unsure, never no wrongly.
    """
    if advertisement.open:
        return bool(subscription.conjunctions)
    return any(
        wide.may_produce(wanted)
        for wide in advertisement.conjunctions
        for wanted in subscription.conjunctions
    )


def conforms(attributes: Attributes, advertisement: Filter) -> bool:
    """Whether a publication with these attributes is what `advertisement` announced (exact)."""
    return advertisement.open or any(c.admits(attributes) for c in advertisement.conjunctions)
