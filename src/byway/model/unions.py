"""Unions and hulls of constraints: what merging two filters needs.

`union` is exact or nothing; `hull` is the tightest single constraint that both imply.
"""

from __future__ import annotations

import msgspec

from byway.model.constraint_relations import intersect, known_prefix, subset
from byway.model.constraints import (
    EXISTS,
    KIND_OF,
    SET_SIZE_MAX,
    Absent,
    BoolSet,
    Constraint,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    common_prefix,
    high_key,
    holds_of_kind,
    low_key,
    number_range,
    one_of,
    pattern_holds,
    string_pattern,
)
from byway.model.values import Kind, Number


def union(a: Constraint, b: Constraint) -> Constraint | None:
    """Exactly the values in either, when one constraint can say that; else None."""
    if subset(a, b):
        return b
    if subset(b, a):
        return a
    if isinstance(a, (NumberSet, StringSet, BoolSet)) and type(a) is type(b):
        values = {*a.values, *b.values}
        return one_of(tuple(values)) if len(values) <= SET_SIZE_MAX else None
    if KIND_OF.get(type(a)) is Kind.NUMBER and KIND_OF.get(type(b)) is Kind.NUMBER:
        return _union_numbers(a, b)
    if isinstance(a, StringSet) and isinstance(b, StringPattern):
        return _filled(b, a)
    if isinstance(b, StringSet) and isinstance(a, StringPattern):
        return _filled(a, b)
    if isinstance(a, StringPattern) and isinstance(b, StringPattern):
        return _union_patterns(a, b)
    return None


StringBound = tuple[bool, str]


def string_span(pattern: StringPattern) -> tuple[StringBound, StringBound]:
    """Where it begins and ends. Two may be one where neither begins after the other's end."""
    return (False, pattern.low), (pattern.high is None, pattern.high or "")


def _union_patterns(a: StringPattern, b: StringPattern) -> Constraint | None:
    """Patterns that say the same but for where they begin and end, if these touch. What one leaves
    out and the other does not have stays out, also a string that both end at."""
    (a_low, a_high), (b_low, b_high) = string_span(a), string_span(b)
    if a_low > b_high or b_low > a_high:
        return None
    first = min(a, b, key=lambda p: (p.low, p.low_open))
    last = max(a, b, key=lambda p: (string_span(p)[1], not p.high_open))
    for same in (a, b):
        whole = string_pattern(
            first.low, first.low_open, last.high, last.high_open, same.prefix, same.suffix,
            same.contains, (), same.not_prefix, same.not_suffix, same.not_contains,
        )  # fmt: skip
        if isinstance(whole, StringPattern) and all(_is_cut(part, whole) for part in (a, b)):
            return _with_holes(whole, a, b)
    return None


def _is_cut(part: StringPattern, whole: StringPattern) -> bool:
    """Whether it is what a whole has between where the part begins and ends, but for holes."""
    between = StringPattern(part.low, part.low_open, part.high, part.high_open)
    return intersect(whole, between) == msgspec.structs.replace(part, excluded=())


def _with_holes(whole: StringPattern, a: StringPattern, b: StringPattern) -> Constraint | None:
    ends = {end for end in (a.low, a.high, b.low, b.high) if end is not None}
    holes = {
        text
        for text in {*a.excluded, *b.excluded, *ends}
        if pattern_holds(whole, text) and not (pattern_holds(a, text) or pattern_holds(b, text))
    }
    if len(holes) > SET_SIZE_MAX:
        return None
    return string_pattern(
        whole.low, whole.low_open, whole.high, whole.high_open, whole.prefix, whole.suffix,
        whole.contains, tuple(holes), whole.not_prefix, whole.not_suffix, whole.not_contains,
    )  # fmt: skip


def _filled(pattern: StringPattern, values: StringSet) -> Constraint | None:
    """A pattern and some strings that fill holes in it, or lie just where it begins or ends."""
    there = set(values.values)
    whole = msgspec.structs.replace(
        pattern,
        low_open=pattern.low_open and pattern.low not in there,
        high_open=pattern.high_open and pattern.high not in there,
        excluded=(),
    )
    if not all(pattern_holds(whole, v) for v in values.values):
        return None
    return msgspec.structs.replace(
        whole, excluded=tuple(v for v in pattern.excluded if v not in there)
    )


def _union_numbers(a: Constraint, b: Constraint) -> Constraint | None:
    """Union of intervals (and points) that touch or overlap, holes filled by the other's values."""
    parts = [_as_range(p) for p in _number_parts(a) + _number_parts(b)]
    parts.sort(key=low_key)
    joined = parts[0]
    missed: list[Number] = []
    for part in parts[1:]:
        nearest, rest = high_key(joined)
        if low_key(part) > (nearest, rest + 1):
            if part.low != joined.high:
                return None
            missed.append(part.low)  # both are open there
        if high_key(part) > high_key(joined):
            joined = NumberRange(joined.low, joined.low_open, part.high, part.high_open)
    holes = (*_common_holes(a, b), *missed)
    if len(holes) > SET_SIZE_MAX:
        return None
    return number_range(joined.low, joined.low_open, joined.high, joined.high_open, holes)


def _common_holes(a: Constraint, b: Constraint) -> tuple[Number, ...]:
    """Numbers that one of the two leaves out and the other does not have either."""
    left_out = {v for c in (a, b) if isinstance(c, NumberRange) for v in c.excluded}
    return tuple(v for v in left_out if not (holds_of_kind(a, v) or holds_of_kind(b, v)))


def _number_parts(c: Constraint) -> list[Constraint]:
    return [NumberSet((v,)) for v in c.values] if isinstance(c, NumberSet) else [c]


def _as_range(c: Constraint) -> NumberRange:
    if isinstance(c, NumberSet):
        return NumberRange(c.values[0], False, c.values[-1], False)
    assert isinstance(c, NumberRange)
    return NumberRange(c.low, c.low_open, c.high, c.high_open)


def hull(a: Constraint, b: Constraint) -> Constraint | None:
    """A constraint that both imply, as tight as one constraint gets; None: no constraint at all."""
    exact = union(a, b)
    if exact is not None:
        return exact
    if isinstance(a, Absent) or isinstance(b, Absent):
        return None
    kind = KIND_OF.get(type(a))
    if kind is None or kind is not KIND_OF.get(type(b)):
        return EXISTS
    if kind is Kind.NUMBER:
        ra, rb = _as_range(a), _as_range(b)
        low = min(ra, rb, key=low_key)
        high = max(ra, rb, key=high_key)
        holes = _common_holes(a, b)
        if len(holes) > SET_SIZE_MAX:
            holes = ()
        return number_range(low.low, low.low_open, high.high, high.high_open, holes)
    return _hull_strings(a, b)


def _hull_strings(a: Constraint, b: Constraint) -> Constraint | None:
    starts = _starts(a) + _starts(b)
    ends = [text[::-1] for text in _ends(a) + _ends(b)]
    prefix = common_prefix(min(starts), max(starts))
    suffix = common_prefix(min(ends), max(ends))[::-1]
    return string_pattern(prefix=prefix, suffix=suffix)


def _starts(c: Constraint) -> list[str]:
    if isinstance(c, StringSet):
        return list(c.values)
    assert isinstance(c, StringPattern)
    return [known_prefix(c)]


def _ends(c: Constraint) -> list[str]:
    if isinstance(c, StringSet):
        return list(c.values)
    assert isinstance(c, StringPattern)
    return [c.suffix]
