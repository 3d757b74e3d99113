"""What a predicate means: one comparison, negated or not, as alternatives of constraints."""

from __future__ import annotations

from typing import Final

from byway.model.constraints import (
    Constraint,
    equal_to,
    none_of,
    number_range,
    one_of,
    string_pattern,
)
from byway.model.errors import FilterError, shortened
from byway.model.filters import CANDIDATES_MAX, Filter
from byway.model.values import Kind, Number, Value, kind_of

Alternatives = list[dict[str, Constraint]]


def either(parts: list[Alternatives]) -> Alternatives:
    """OR of disjunctions; what covers what is left for later, unless they become too many."""
    if len(parts) == 1:
        return parts[0]
    joined = [alternative for part in parts for alternative in part]
    return joined if len(joined) <= CANDIDATES_MAX else reduced(joined)


def reduced(alternatives: Alternatives) -> Alternatives:
    """Within the bound, duplicates and covered alternatives gone."""
    return [dict(c.terms) for c in Filter.of(alternatives).conjunctions]


MIRROR: Final = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


_NEGATION: Final = {"=": "<>", "<>": "=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def single(name: str, constraint: Constraint | None) -> Alternatives:
    """The alternatives of one constraint on one attribute: none if it is empty."""
    return [] if constraint is None else [{name: constraint}]


def compare(name: str, operator: str, value: Value, negated: bool) -> Alternatives:
    """The alternatives of a comparison with a value, as in `price > 18`."""
    if negated:
        operator = _NEGATION[operator]
    if operator == "=":
        return [{name: equal_to(value)}]
    if operator in ("<>", "!="):
        return single(name, none_of((value,)))
    kind = kind_of(value)
    if kind is Kind.STRING:
        text = str(value)
        if operator in ("<", "<="):
            return single(name, string_pattern(high=text, high_open=operator == "<"))
        return single(name, string_pattern(low=text, low_open=operator == ">"))
    if kind is not Kind.NUMBER:
        raise FilterError("= or <>: booleans have no order")
    number: Number = value  # type: ignore[assignment]
    if operator in ("<", "<="):
        return single(name, number_range(high=number, high_open=operator == "<"))
    return single(name, number_range(low=number, low_open=operator == ">"))


def membership(name: str, values: list[Value], negated: bool) -> Alternatives:
    """The alternatives of `IN`, one for each kind of value in the list."""
    kinds: dict[Kind, list[Value]] = {}
    for value in values:
        kinds.setdefault(kind_of(value), []).append(value)
    if not negated:
        return [{name: one_of(tuple(group))} for group in kinds.values()]
    if len(kinds) > 1:
        return []  # no value is of two kinds
    return single(name, none_of(tuple(values)))


def between(name: str, low: Value, high: Value, negated: bool) -> Alternatives:
    """The alternatives of `BETWEEN`, whose bounds are of one kind."""
    if kind_of(low) is not kind_of(high):
        raise FilterError("two bounds of one kind for BETWEEN")
    if negated:
        return compare(name, "<", low, False) + compare(name, ">", high, False)
    if isinstance(low, str) and isinstance(high, str):
        return single(name, string_pattern(low=low, high=high))
    if isinstance(low, (bool, str)) or isinstance(high, (bool, str)):
        raise FilterError("numbers or strings for BETWEEN: booleans have no order")
    return single(name, number_range(low=low, high=high))


def like_pattern(name: str, pattern: str, escape: str | None, negated: bool) -> Alternatives:
    """The alternatives of `LIKE`, whose only wildcard is %."""
    prefix, suffix, part, exact = _reduce_like(pattern, escape)
    if exact is not None:
        return compare(name, "=", exact, negated)
    if part is not None:
        if negated:
            return single(name, string_pattern(not_contains=(part,)))
        return single(name, string_pattern(contains=(part,) if part else ()))
    if not negated:
        return single(name, string_pattern(prefix=prefix, suffix=suffix))
    return (single(name, string_pattern(not_prefix=(prefix,))) if prefix else []) + (
        single(name, string_pattern(not_suffix=(suffix,))) if suffix else []
    )


def _reduce_like(pattern: str, escape: str | None) -> tuple[str, str, str | None, str | None]:
    """(prefix, suffix, part, exact) of a LIKE pattern; exactly one reading is filled."""
    pieces: list[list[str]] = [[]]
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            follow = next(chars, None)
            if follow is None or follow not in ("%", "_", escape):
                raise FilterError("%, _ or the escape character after the escape character")
            pieces[-1].append(follow)
        elif char == "%":
            if pieces[-1] or len(pieces) == 1:
                pieces.append([])
        elif char == "_":
            raise FilterError("a LIKE pattern without _ (only % is a wildcard here)")
        else:
            pieces[-1].append(char)
    texts = ["".join(piece) for piece in pieces]
    if len(texts) == 1:
        return "", "", None, texts[0]
    if len(texts) == 2:
        prefix, suffix = texts
        if prefix and suffix and _can_overlap(prefix, suffix):
            raise FilterError(
                f"a LIKE pattern that is a prefix, a suffix or a part "
                f"({shortened(repr(prefix))} and {shortened(repr(suffix))} could share characters)"
            )
        return prefix, suffix, None, None
    if len(texts) == 3 and not texts[0] and not texts[2]:
        return "", "", texts[1], None
    raise FilterError("a LIKE pattern of the form 'a%', '%a', '%a%' or 'a%b'")


def _can_overlap(prefix: str, suffix: str) -> bool:
    """Whether some string shorter than both together starts with one and ends with the other.

    True iff a non-empty end of `prefix` is a start of `suffix` (the failure function of
    suffix + prefix, linear), or one contains the other at its edge, which is the same test.
    """
    joined = [*suffix, None, *prefix]
    failure = [0] * len(joined)
    length = 0
    for i in range(1, len(joined)):
        while length and joined[i] != joined[length]:
            length = failure[length - 1]
        if joined[i] == joined[length]:
            length += 1
        failure[i] = length
    return failure[-1] > 0
