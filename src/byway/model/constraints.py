"""Constraints: the set of values that a conjunction allows one attribute to have.

Each conjunction holds one constraint per attribute, in one canonical form, so that equal sets
written differently are equal objects wherever this file can tell. It decides membership,
intersection and inclusion of such sets. It does not know attribute names, filters or text.

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
from collections.abc import Callable
from typing import Any, Final

import msgspec

from byway.model.errors import FilterLimitError
from byway.model.values import (
    INFINITY,
    Kind,
    Number,
    Value,
    canonical_number,
    check_string,
    kind_of,
    number_key,
)

SET_SIZE_MAX: Final = 1_024
PARTS_MAX: Final = 64
_SEARCH_FROM: Final = 16
"""Members from which on a set is searched by halves."""


class _Base(msgspec.Struct, frozen=True, array_like=True):
    pass


class Exists(_Base, frozen=True, array_like=True, tag="e"):
    """Any value of any kind, NaN included."""


class Absent(_Base, frozen=True, array_like=True, tag="a"):
    """The publication must not carry the attribute."""


class BoolSet(_Base, frozen=True, array_like=True, tag="b"):
    """One or both booleans."""

    values: tuple[bool, ...]


class NumberSet(_Base, frozen=True, array_like=True, tag="ns"):
    """One of finitely many numbers, ascending."""

    values: tuple[Number, ...]


class NumberRange(_Base, frozen=True, array_like=True, tag="nr"):
    """An interval of numbers, less some points inside it (ascending)."""

    low: Number = -INFINITY
    low_open: bool = False
    high: Number = INFINITY
    high_open: bool = False
    excluded: tuple[Number, ...] = ()


class StringSet(_Base, frozen=True, array_like=True, tag="ss"):
    """One of finitely many strings, ascending by code point."""

    values: tuple[str, ...]


class StringPattern(_Base, frozen=True, array_like=True, tag="sp"):
    """Strings by range (code-point order), prefix, suffix and parts, less what is excluded."""

    low: str = ""
    low_open: bool = False
    high: str | None = None
    high_open: bool = False
    prefix: str = ""
    suffix: str = ""
    contains: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    not_prefix: tuple[str, ...] = ()
    not_suffix: tuple[str, ...] = ()
    not_contains: tuple[str, ...] = ()


Constraint = Exists | Absent | BoolSet | NumberSet | NumberRange | StringSet | StringPattern

EXISTS: Final = Exists()
ABSENT: Final = Absent()
ANY_NUMBER: Final = NumberRange()
ANY_STRING: Final = StringPattern()
ANY_BOOLEAN: Final = BoolSet((False, True))

KIND_OF: Final[dict[type, Kind]] = {
    BoolSet: Kind.BOOLEAN,
    NumberSet: Kind.NUMBER,
    NumberRange: Kind.NUMBER,
    StringSet: Kind.STRING,
    StringPattern: Kind.STRING,
}


def kind_of_constraint(constraint: Constraint) -> Kind | None:
    """The kind of value it admits; None for Exists (all kinds) and Absent (none)."""
    return KIND_OF.get(type(constraint))


# --- making them -----------------------------------------------------------------------------


def equal_to(value: Value) -> Constraint:
    """`= value`."""
    return one_of((value,))


def one_of(values: tuple[Value, ...]) -> Constraint:
    """`IN values`, all of one kind, at least one."""
    kind = kind_of(values[0])
    if kind is Kind.BOOLEAN:
        return BoolSet(tuple(sorted({bool(v) for v in values})))
    if kind is Kind.STRING:
        if len(values) == 1:
            return StringSet((check_string(values[0]),))  # type: ignore[arg-type]
        return within_bounds(StringSet(tuple(sorted({check_string(v) for v in values}))))  # type: ignore[arg-type]
    if len(values) == 1:
        return NumberSet((canonical_number(values[0]),))  # type: ignore[arg-type]
    return within_bounds(NumberSet(tuple(sorted({canonical_number(v) for v in values}))))  # type: ignore[arg-type]


def within_bounds(constraint: Constraint) -> Constraint:
    """`constraint` itself if a filter may hold one so large, else `FilterLimitError`.

    Only what builds filters asks this; the relations work on intermediate results of any size.
    """
    if isinstance(constraint, (NumberSet, StringSet)):
        if len(constraint.values) > SET_SIZE_MAX:
            raise FilterLimitError("values in one set", SET_SIZE_MAX, len(constraint.values))
    elif isinstance(constraint, (NumberRange, StringPattern)):
        if len(constraint.excluded) > SET_SIZE_MAX:
            raise FilterLimitError("excluded values", SET_SIZE_MAX, len(constraint.excluded))
        if isinstance(constraint, StringPattern) and _part_count(constraint) > PARTS_MAX:
            raise FilterLimitError(
                "LIKE patterns on one attribute", PARTS_MAX, _part_count(constraint)
            )
    return constraint


def _part_count(c: StringPattern) -> int:
    return len(c.contains) + len(c.not_prefix) + len(c.not_suffix) + len(c.not_contains)


def none_of(values: tuple[Value, ...]) -> Constraint | None:
    """`NOT IN values`, all of one kind: any other value of that kind; None when nothing is left."""
    wanted = one_of(values)
    if isinstance(wanted, BoolSet):
        rest = tuple(b for b in (False, True) if b not in wanted.values)
        return BoolSet(rest) if rest else None
    if isinstance(wanted, StringSet):
        return StringPattern(excluded=wanted.values)
    assert isinstance(wanted, NumberSet)
    return number_range(excluded=wanted.values)


def number_range(
    low: Number = -INFINITY,
    low_open: bool = False,
    high: Number = INFINITY,
    high_open: bool = False,
    excluded: tuple[Number, ...] = (),
) -> Constraint | None:
    """The canonical interval of numbers, None when it is empty. `excluded` need not be sorted."""
    low = canonical_number(low)
    high = canonical_number(high)
    if low > high or (low == high and (low_open or high_open)):
        return None
    if excluded:
        inside: set[Number] = set()
        for number in map(canonical_number, excluded):
            if number == low and not low_open:
                low_open = True
            elif number == high and not high_open:
                high_open = True
            elif low < number < high:
                inside.add(number)
        if low == high and (low_open or high_open):
            return None
        excluded = tuple(sorted(inside))
    if low == high:
        return NumberSet((low,))
    made = NumberRange(low, low_open, high, high_open, excluded)
    if low_open and high_open and low_key(made) > high_key(made):
        return None  # two neighbouring integers beyond 2**53, both excluded
    return made


def string_pattern(
    low: str = "",
    low_open: bool = False,
    high: str | None = None,
    high_open: bool = False,
    prefix: str = "",
    suffix: str = "",
    contains: tuple[str, ...] = (),
    excluded: tuple[str, ...] = (),
    not_prefix: tuple[str, ...] = (),
    not_suffix: tuple[str, ...] = (),
    not_contains: tuple[str, ...] = (),
) -> Constraint | None:
    """The canonical string constraint, or None when it is visibly empty."""
    if prefix:
        if low <= prefix:
            low, low_open = prefix, low_open and low == prefix
        elif not low.startswith(prefix):
            return None
        if high is not None and high < prefix:
            return None
        if high is not None and high.startswith(prefix):
            prefix = ""  # the bounds say it
        else:
            high, high_open = None, False
    if high is None and low == prefix:
        if low_open:
            excluded = (*excluded, low)
        low, low_open = "", False
    if low_open and low == "":
        excluded, low_open = (*excluded, ""), False
    if "" in not_prefix or "" in not_suffix or "" in not_contains:
        return None
    not_prefix = _shortest(not_prefix, str.startswith)
    not_suffix = _shortest(not_suffix, str.endswith)
    not_contains = _shortest(not_contains, str.__contains__)
    if high is not None:
        cut = _forbidden_start(high, not_prefix, not_contains)
        if cut is not None:
            high, high_open = cut, True
        if low > high or (low == high and (low_open or high_open)):
            return None
    start = common_prefix(low, high) if high is not None else prefix
    contains = _longest_parts(contains, start, suffix)
    if _forbidden_start(start, not_prefix, not_contains) is not None or any(
        suffix.endswith(s) for s in not_suffix
    ):
        return None
    if any(part in text for part in not_contains for text in (suffix, *contains)):
        return None
    not_prefix = tuple(
        p for p in not_prefix
        if p.startswith(start) and (p >= low or low.startswith(p)) and (high is None or p < high)
        and not any(part in p for part in not_contains)
    )  # fmt: skip
    not_suffix = tuple(
        s for s in not_suffix
        if s.endswith(suffix) and not any(part in s for part in not_contains)
    )  # fmt: skip
    pattern = StringPattern(
        low, low_open, high, high_open, prefix, suffix, contains,
        (), not_prefix, not_suffix, not_contains,
    )  # fmt: skip
    inside = {v for v in excluded if pattern_holds(pattern, v)}
    low_open = low_open or (low != "" and (low in inside or not pattern_holds(pattern, low)))
    if high is not None and not high_open:
        high_open = high in inside or not pattern_holds(pattern, high)
    if low == high:
        return None if low_open or high_open else StringSet((low,))
    inside -= {low if low_open else None, high}
    return StringPattern(
        low, low_open, high, high_open, prefix, suffix, contains,
        tuple(sorted(inside)), not_prefix, not_suffix, not_contains,
    )  # fmt: skip


def _forbidden_start(
    text: str, not_prefix: tuple[str, ...], not_contains: tuple[str, ...]
) -> str | None:
    """The shortest start of `text` that nothing may start with, if there is one."""
    lengths = [len(p) for p in not_prefix if text.startswith(p)]
    lengths += [text.index(part) + len(part) for part in not_contains if part in text]
    return text[: min(lengths)] if lengths else None


def _longest_parts(parts: tuple[str, ...], prefix: str, suffix: str) -> tuple[str, ...]:
    """`parts` without those that another part, the prefix or the suffix implies; sorted."""
    kept: list[str] = []
    for part in sorted(set(parts), key=lambda p: (-len(p), p)):
        if part not in prefix and part not in suffix and not any(part in k for k in kept):
            kept.append(part)
    return tuple(sorted(kept))


def _shortest(parts: tuple[str, ...], implies: Callable[[str, str], bool]) -> tuple[str, ...]:
    """`parts` without those that imply a shorter one; sorted."""
    if len(parts) < 2:
        return parts
    kept: list[str] = []
    for part in sorted(set(parts), key=lambda p: (len(p), p)):
        if not any(implies(part, k) for k in kept):
            kept.append(part)
    return tuple(sorted(kept))


def common_prefix(low: str, high: str) -> str:
    """What `low`, `high` and every string between them in code-point order start with."""
    for i, (a, b) in enumerate(zip(low, high, strict=False)):
        if a != b:
            return low[:i]
    return min(low, high)


# --- membership ------------------------------------------------------------------------------


def contains(constraint: Constraint, value: Value) -> bool:
    """Whether a present `value` satisfies the constraint (Absent is satisfied by none)."""
    kind = kind_of(value)
    if KIND_OF.get(type(constraint)) is not kind:
        return isinstance(constraint, Exists)
    return holds_of_kind(constraint, value)


def holds_of_kind(constraint: Constraint, value: Value) -> bool:
    if isinstance(constraint, NumberRange):
        assert not isinstance(value, str)
        if value < constraint.low or (value == constraint.low and constraint.low_open):
            return False
        if value > constraint.high or (value == constraint.high and constraint.high_open):
            return False
        return not (constraint.excluded and _is_among(value, constraint.excluded))
    if isinstance(constraint, StringPattern):
        assert isinstance(value, str)
        return pattern_holds(constraint, value)
    return _is_among(value, constraint.values)  # type: ignore[union-attr]


def _is_among(value: Any, members: tuple[Any, ...]) -> bool:
    """Whether a value is one of some that ascend. Relations ask this once a member of another set,
    so a scan would make them quadratic in the length of a filter."""
    if len(members) < _SEARCH_FROM:
        return value in members
    at = bisect_left(members, value)
    return at < len(members) and bool(members[at] == value)


def pattern_holds(pattern: StringPattern, value: str) -> bool:
    if value < pattern.low or (value == pattern.low and pattern.low_open):
        return False
    high = pattern.high
    if high is not None and (value > high or (value == high and pattern.high_open)):
        return False
    if not (value.startswith(pattern.prefix) and value.endswith(pattern.suffix)):
        return False
    return (
        all(part in value for part in pattern.contains)
        and not (pattern.excluded and _is_among(value, pattern.excluded))
        and not any(part in value for part in pattern.not_contains)
        and not (pattern.not_prefix and value.startswith(pattern.not_prefix))
        and not (pattern.not_suffix and value.endswith(pattern.not_suffix))
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
        if len(a.values) < _SEARCH_FROM:
            return any(_is_among(v, b.values) for v in a.values)
        return not set(a.values).isdisjoint(b.values)
    return any(holds_of_kind(b, v) for v in a.values)


def _ranges_overlap(a: NumberRange, b: NumberRange) -> bool:
    """Points left out do not matter, but at the ends of what the ranges have in common."""
    low, high = max(a.low, b.low), min(a.high, b.high)
    if low > high:
        return False
    ends = [v for v in (low, high) if _is_among(v, a.excluded) or _is_among(v, b.excluded)]
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
    return not (_is_among(only, a.excluded) or _is_among(only, b.excluded))


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
    if len(values) < _SEARCH_FROM:
        return all(holds_of_kind(outer, v) for v in values)
    ends_hold = holds_of_kind(outer, values[0]) and holds_of_kind(outer, values[-1])
    return ends_hold and set(outer.excluded).isdisjoint(values)


def _set_subset(inner: tuple[Any, ...], outer: tuple[Any, ...]) -> bool:
    if not inner:
        return True
    if len(inner) > len(outer) or inner[0] < outer[0] or inner[-1] > outer[-1]:
        return False
    if len(inner) == 1 or len(outer) < _SEARCH_FROM:
        return all(_is_among(value, outer) for value in inner)
    return inner == outer or set(outer).issuperset(inner)


def is_long(constraint: Constraint) -> bool:
    """Whether it has so many members that to compare it takes a while."""
    if isinstance(constraint, (NumberRange, StringPattern)):
        return len(constraint.excluded) >= _SEARCH_FROM
    if isinstance(constraint, (NumberSet, StringSet)):
        return len(constraint.values) >= _SEARCH_FROM
    return False


def low_key(constraint: NumberRange) -> tuple[float, int]:
    """The lower bound as a closed bound in the order of `number_key`."""
    nearest, rest = number_key(constraint.low)
    return (nearest, rest + constraint.low_open)


def high_key(constraint: NumberRange) -> tuple[float, int]:
    """The upper bound as a closed bound in the order of `number_key`."""
    nearest, rest = number_key(constraint.high)
    return (nearest, rest - constraint.high_open)


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
