"""How two constraints relate: what they have in common, and whether one includes the other.

Inclusion (`subset`) never says yes wrongly and `intersect` never says empty wrongly. Both are exact
but for these cases, where they answer on the safe side:

- Numbers: they take it that between any two numbers there is another one, which fails for
  neighbouring floats and beyond 2**53. So `x > 0 AND x < 5e-324` is not known to be empty, and a
  range is never found to lie inside a finite set.
- Strings: a range (`<`, `<=`, `>`, `>=`) that holds finitely many strings, or that ends where the
  next code point begins (`s >= 'a' AND s < 'b'` is not known to mean `LIKE 'a%'`); a lower bound
  joined with NOT LIKE (`s >= 'ab' AND s NOT LIKE 'a%'` is not known to imply `s >= 'b'`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import msgspec

from byway.model.constraints import (
    KIND_OF,
    SEARCH_FROM,
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    common_prefix,
    high_key,
    holds_of_kind,
    is_among,
    low_key,
    number_range,
    pattern_holds,
    string_pattern,
)

# --- intersection ----------------------------------------------------------------------------


def intersect(a: Constraint, b: Constraint) -> Constraint | None:
    """The values in both, or None when there is none (or none can be told apart from none)."""
    if isinstance(a, Exists):
        return None if isinstance(b, Absent) else b
    if isinstance(b, Exists):
        return None if isinstance(a, Absent) else a
    if isinstance(a, Absent) or isinstance(b, Absent):
        return a if isinstance(a, Absent) and isinstance(b, Absent) else None
    if KIND_OF[type(a)] is not KIND_OF[type(b)]:
        return None
    if isinstance(a, (BoolSet, NumberSet, StringSet)):
        return _restrict(a, b)
    if isinstance(b, (BoolSet, NumberSet, StringSet)):
        return _restrict(b, a)
    if isinstance(a, NumberRange):
        assert isinstance(b, NumberRange)
        return _intersect_ranges(a, b)
    assert isinstance(b, StringPattern)
    return _intersect_patterns(a, b)


def _restrict(a: BoolSet | NumberSet | StringSet, b: Constraint) -> Constraint | None:
    values = tuple([v for v in a.values if holds_of_kind(b, v)])
    if len(values) == len(a.values):
        return a
    return type(a)(values) if values else None  # type: ignore[arg-type]


def _intersect_ranges(a: NumberRange, b: NumberRange) -> Constraint | None:
    low, low_open, high, high_open = a.low, a.low_open, a.high, a.high_open
    if b.low > low or (b.low == low and b.low_open):
        low, low_open = b.low, b.low_open
    if b.high < high or (b.high == high and b.high_open):
        high, high_open = b.high, b.high_open
    return number_range(low, low_open, high, high_open, a.excluded + b.excluded)


def _intersect_patterns(a: StringPattern, b: StringPattern) -> Constraint | None:
    prefix, suffix = a.prefix, a.suffix
    if b.prefix.startswith(prefix):
        prefix = b.prefix
    elif not prefix.startswith(b.prefix):
        return None
    if b.suffix.endswith(suffix):
        suffix = b.suffix
    elif not suffix.endswith(b.suffix):
        return None
    low, low_open, high, high_open = a.low, a.low_open, a.high, a.high_open
    if b.low > low or (b.low == low and b.low_open):
        low, low_open = b.low, b.low_open
    if b.high is not None and (high is None or b.high < high or (b.high == high and b.high_open)):
        high, high_open = b.high, b.high_open
    return string_pattern(
        low, low_open, high, high_open, prefix, suffix,
        a.contains + b.contains, a.excluded + b.excluded, a.not_prefix + b.not_prefix,
        a.not_suffix + b.not_suffix, a.not_contains + b.not_contains,
    )  # fmt: skip


def overlaps(a: Constraint, b: Constraint) -> bool:
    """Whether some present value satisfies both (may say yes when unsure, never no wrongly).

    It says what `intersect` would, without making what they have in common.
    """
    if isinstance(a, Absent) or isinstance(b, Absent):
        return False
    if isinstance(a, Exists) or isinstance(b, Exists):
        return True
    if KIND_OF[type(a)] is not KIND_OF[type(b)]:
        return False
    if isinstance(a, (BoolSet, NumberSet, StringSet)):
        return _holds_any(a, b)
    if isinstance(b, (BoolSet, NumberSet, StringSet)):
        return _holds_any(b, a)
    if isinstance(a, NumberRange):
        assert isinstance(b, NumberRange)
        return _ranges_overlap(a, b)
    assert isinstance(b, StringPattern)
    return _patterns_overlap(a, b)


def _holds_any(a: BoolSet | NumberSet | StringSet, b: Constraint) -> bool:
    if isinstance(b, (BoolSet, NumberSet, StringSet)):
        if len(a.values) > len(b.values):
            a, b = b, a
        if len(a.values) < SEARCH_FROM:
            return any(is_among(v, b.values) for v in a.values)
        return not set(a.values).isdisjoint(b.values)
    return any(holds_of_kind(b, v) for v in a.values)


def _ranges_overlap(a: NumberRange, b: NumberRange) -> bool:
    """Points left out do not matter, but at the ends of what the ranges have in common."""
    low, high = max(a.low, b.low), min(a.high, b.high)
    if low > high:
        return False
    ends = [v for v in (low, high) if is_among(v, a.excluded) or is_among(v, b.excluded)]
    bare = _intersect_ranges(_without_points(a), _without_points(b))
    if not ends or not isinstance(bare, NumberRange):
        return bare is not None and not (ends and isinstance(bare, NumberSet))
    return number_range(bare.low, bare.low_open, bare.high, bare.high_open, tuple(ends)) is not None


def _without_points(a: NumberRange) -> NumberRange:
    return NumberRange(a.low, a.low_open, a.high, a.high_open) if a.excluded else a


def _patterns_overlap(a: StringPattern, b: StringPattern) -> bool:
    """Values left out do not matter, unless patterns have one string in common."""
    bare = _intersect_patterns(_without_values(a), _without_values(b))
    if not isinstance(bare, StringSet):
        return bare is not None
    (only,) = bare.values
    return not (is_among(only, a.excluded) or is_among(only, b.excluded))


def _without_values(a: StringPattern) -> StringPattern:
    return msgspec.structs.replace(a, excluded=()) if a.excluded else a


# --- inclusion -------------------------------------------------------------------------------


def subset(inner: Constraint, outer: Constraint) -> bool:
    """Whether every way to satisfy `inner` satisfies `outer` (may say no when unsure)."""
    if type(inner) is NumberRange and type(outer) is NumberRange:
        return _range_subset(inner, outer)
    if isinstance(outer, Exists):
        return not isinstance(inner, Absent)
    if isinstance(outer, Absent):
        return isinstance(inner, Absent)
    if KIND_OF.get(type(inner)) is not KIND_OF[type(outer)]:
        return False
    if isinstance(inner, (BoolSet, NumberSet, StringSet)):
        if isinstance(outer, (BoolSet, NumberSet, StringSet)):
            return _set_subset(inner.values, outer.values)
        if isinstance(outer, NumberRange):
            return _numbers_in_range(inner.values, outer)
        return all(holds_of_kind(outer, v) for v in inner.values)
    if isinstance(inner, StringPattern) and isinstance(outer, StringPattern):
        return _pattern_subset(inner, outer)
    return False


def _numbers_in_range(values: tuple[Any, ...], outer: NumberRange) -> bool:
    if len(values) < SEARCH_FROM:
        return all(holds_of_kind(outer, v) for v in values)
    ends_hold = holds_of_kind(outer, values[0]) and holds_of_kind(outer, values[-1])
    return ends_hold and set(outer.excluded).isdisjoint(values)


def _set_subset(inner: tuple[Any, ...], outer: tuple[Any, ...]) -> bool:
    if not inner:
        return True
    if len(inner) > len(outer) or inner[0] < outer[0] or inner[-1] > outer[-1]:
        return False
    if len(inner) == 1 or len(outer) < SEARCH_FROM:
        return all(is_among(value, outer) for value in inner)
    return inner == outer or set(outer).issuperset(inner)


def is_long(constraint: Constraint) -> bool:
    """Whether it has so many members that to compare it takes a while."""
    if isinstance(constraint, (NumberRange, StringPattern)):
        return len(constraint.excluded) >= SEARCH_FROM
    if isinstance(constraint, (NumberSet, StringSet)):
        return len(constraint.values) >= SEARCH_FROM
    return False


def _range_subset(inner: NumberRange, outer: NumberRange) -> bool:
    if inner.low <= outer.low and low_key(inner) < low_key(outer):
        return False
    if inner.high >= outer.high and high_key(inner) > high_key(outer):
        return False
    if not outer.excluded or outer.excluded == inner.excluded:
        return True
    between = _between(outer.excluded, inner.low, inner.high)
    return not any(holds_of_kind(inner, v) for v in set(between).difference(inner.excluded))


def _between(members: tuple[Any, ...], low: Any, high: Any) -> tuple[Any, ...]:
    """Those of ascending members that are neither below `low` nor above `high`."""
    return members[bisect_left(members, low) : bisect_right(members, high)]


def _pattern_subset(inner: StringPattern, outer: StringPattern) -> bool:
    start = known_prefix(inner)
    known = (start, inner.suffix, *inner.contains)
    return (
        start.startswith(outer.prefix)
        and inner.suffix.endswith(outer.suffix)
        and all(any(part in text for text in known) for part in outer.contains)
        and _pattern_low_implies(inner, outer)
        and _pattern_high_implies(inner, outer)
        and not (outer.excluded and _holds_some(inner, outer.excluded))
        and all(_forbids_prefix(inner, start, p) for p in outer.not_prefix)
        and all(_forbids_suffix(inner, s) for s in outer.not_suffix)
        and all(any(part in p for part in inner.not_contains) for p in outer.not_contains)
    )


def _holds_some(pattern: StringPattern, values: tuple[str, ...]) -> bool:
    """Whether one of ascending values satisfies the pattern."""
    if values == pattern.excluded:
        return False
    if pattern.high is not None:
        values = values[: bisect_right(values, pattern.high)]
    rest = set(values[bisect_left(values, pattern.low) :]).difference(pattern.excluded)
    return any(pattern_holds(pattern, value) for value in rest)


def known_prefix(pattern: StringPattern) -> str:
    """What every string of the pattern starts with."""
    return pattern.prefix if pattern.high is None else common_prefix(pattern.low, pattern.high)


def _forbids_prefix(inner: StringPattern, start: str, prefix: str) -> bool:
    """Whether no string of `inner`, which all start with `start`, starts with `prefix`."""
    low, high = inner.low, inner.high
    return (
        any(prefix.startswith(p) for p in inner.not_prefix)
        or any(part in prefix for part in inner.not_contains)
        or not (prefix.startswith(start) or start.startswith(prefix))
        or (prefix < low and not low.startswith(prefix))
        or (high is not None and (prefix > high or (prefix == high and inner.high_open)))
    )


def _forbids_suffix(inner: StringPattern, suffix: str) -> bool:
    return (
        any(suffix.endswith(s) for s in inner.not_suffix)
        or any(part in suffix for part in inner.not_contains)
        or not (suffix.endswith(inner.suffix) or inner.suffix.endswith(suffix))
    )


def _pattern_low_implies(inner: StringPattern, outer: StringPattern) -> bool:
    if outer.low == "" and not outer.low_open:
        return True
    low, low_open = inner.low, inner.low_open
    if inner.prefix > low:
        low, low_open = inner.prefix, not pattern_holds(inner, inner.prefix)
    return low > outer.low or (low == outer.low and (low_open or not outer.low_open))


def _pattern_high_implies(inner: StringPattern, outer: StringPattern) -> bool:
    if outer.high is None:
        return True
    if inner.high is not None and (
        inner.high < outer.high
        or (inner.high == outer.high and (inner.high_open or not outer.high_open))
    ):
        return True
    # every string with a prefix that sorts below `high` and is no prefix of it sorts below it too
    return inner.prefix < outer.high and not outer.high.startswith(inner.prefix)
