"""Constraints: the set of values that a conjunction allows one attribute to have.

Each conjunction holds one constraint per attribute, in one canonical form, so that equal sets
written differently are equal objects wherever this file can tell. It makes such sets and decides
membership; how two of them relate is in `constraint_relations`. Neither knows attribute names,
filters or text.
"""

from __future__ import annotations

from bisect import bisect_left
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
"""Values in one set, and values excluded from a range or pattern."""
PARTS_MAX: Final = 64
"""LIKE patterns on one attribute that are no plain prefix or suffix."""
SEARCH_FROM: Final = 16
"""Members from which on a set is searched by halves."""


class _Base(msgspec.Struct, frozen=True, array_like=True):
    pass


class Exists(_Base, frozen=True, array_like=True, tag="e"):
    """Any value of any kind, NaN included."""


class Absent(_Base, frozen=True, array_like=True, tag="a"):
    """The publication must not carry the attribute."""


class BoolSet(_Base, frozen=True, array_like=True, tag="b"):
    """One of the booleans, or both (ascending)."""

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


# --- making them -----------------------------------------------------------------------------


def equal_to(value: Value) -> Constraint:
    """The constraint of `= value`."""
    return one_of((value,))


def one_of(values: tuple[Value, ...]) -> Constraint:
    """The constraint of `IN values`: at least one, all of one kind."""
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
    """The constraint of `NOT IN values`, all of one kind: any other value of that kind; None when
    nothing is left."""
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


def low_key(constraint: NumberRange) -> tuple[float, int]:
    """The lower bound as a closed bound in the order of `number_key`."""
    nearest, rest = number_key(constraint.low)
    return (nearest, rest + constraint.low_open)


def high_key(constraint: NumberRange) -> tuple[float, int]:
    """The upper bound as a closed bound in the order of `number_key`."""
    nearest, rest = number_key(constraint.high)
    return (nearest, rest - constraint.high_open)


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
    """Whether a value of the constraint's own kind satisfies it; not asked of Exists and Absent."""
    if isinstance(constraint, NumberRange):
        assert not isinstance(value, str)
        if value < constraint.low or (value == constraint.low and constraint.low_open):
            return False
        if value > constraint.high or (value == constraint.high and constraint.high_open):
            return False
        return not (constraint.excluded and is_among(value, constraint.excluded))
    if isinstance(constraint, StringPattern):
        assert isinstance(value, str)
        return pattern_holds(constraint, value)
    return is_among(value, constraint.values)  # type: ignore[union-attr]


def is_among(value: Any, members: tuple[Any, ...]) -> bool:
    """Whether a value is one of some that ascend. Relations ask this once a member of another set,
    so a scan would make them quadratic in the length of a filter."""
    if len(members) < SEARCH_FROM:
        return value in members
    at = bisect_left(members, value)
    return at < len(members) and bool(members[at] == value)


def pattern_holds(pattern: StringPattern, value: str) -> bool:
    """Whether a string satisfies a pattern."""
    if value < pattern.low or (value == pattern.low and pattern.low_open):
        return False
    high = pattern.high
    if high is not None and (value > high or (value == high and pattern.high_open)):
        return False
    if not (value.startswith(pattern.prefix) and value.endswith(pattern.suffix)):
        return False
    return (
        all(part in value for part in pattern.contains)
        and not (pattern.excluded and is_among(value, pattern.excluded))
        and not any(part in value for part in pattern.not_contains)
        and not (pattern.not_prefix and value.startswith(pattern.not_prefix))
        and not (pattern.not_suffix and value.endswith(pattern.not_suffix))
    )
