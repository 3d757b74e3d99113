"""Whether a filter that came as data is one that `parse` or `Filter.of` could have made.

Filters are trusted everywhere else: indexes and relations rely on their canonical form. What comes
from outside is checked here, once, by making it again.
"""

from __future__ import annotations

from byway.model.constraints import (
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    number_range,
    one_of,
    string_pattern,
    within_bounds,
)
from byway.model.errors import BywayError, InvalidValueError
from byway.model.filters import (
    ALTERNATIVES_MAX,
    ANY,
    TERMS_MAX,
    Conjunction,
    Filter,
    check_filter_bytes,
)
from byway.model.values import check_int, check_name, check_string


def check_filter(filter: Filter) -> None:
    """Raise `InvalidValueError`, naming the place, unless the filter is canonical and in bounds;
    `FilterLimitError` if it is too long, before anything is made of it."""
    check_filter_bytes(filter)
    if filter.open and filter != ANY:
        raise InvalidValueError("only ANY is an open filter")
    if len(filter.conjunctions) > ALTERNATIVES_MAX:
        raise InvalidValueError(f"a filter may have at most {ALTERNATIVES_MAX} alternatives")
    for conjunction in filter.conjunctions:
        _check_conjunction(conjunction)
    if len(filter.conjunctions) > 1:
        again = Filter.of([dict(conjunction.terms) for conjunction in filter.conjunctions])
        if again != filter:
            raise InvalidValueError("its alternatives are not in canonical form")


def _check_conjunction(conjunction: Conjunction) -> None:
    if len(conjunction.terms) > TERMS_MAX:
        raise InvalidValueError(f"an alternative may name at most {TERMS_MAX} attributes")
    before = None
    for name, constraint in conjunction.terms:
        check_name(name)
        if before is not None and name <= before:
            raise InvalidValueError(f"attribute {name!r} is out of order")
        before = name
        if not _is_canonical(constraint):
            raise InvalidValueError(f"the constraint on {name!r} is not in canonical form")


def _is_canonical(constraint: Constraint) -> bool:
    try:
        made = _made_again(constraint)
        return made == constraint and _same_numbers(made, constraint)
    except (BywayError, ValueError, TypeError):
        return False


def _same_numbers(a: Constraint | None, b: Constraint) -> bool:
    """Equal is not enough for numbers: 1 and 1.0 are equal, but only one of them is canonical."""
    return repr(a) == repr(b) if isinstance(b, (NumberSet, NumberRange)) else True


def _made_again(constraint: Constraint) -> Constraint | None:
    match constraint:
        case Exists() | Absent():
            return constraint
        case BoolSet(values) | NumberSet(values) | StringSet(values):
            for value in values:
                _check_value(value)
            return within_bounds(one_of(values)) if values else None
        case NumberRange(low, low_open, high, high_open, excluded):
            for number in (low, high, *excluded):
                _check_value(number)
            made = number_range(low, low_open, high, high_open, excluded)
        case StringPattern():
            texts = [constraint.low, constraint.high or "", constraint.prefix, constraint.suffix]
            for part in (
                constraint.contains, constraint.excluded, constraint.not_prefix,
                constraint.not_suffix, constraint.not_contains,
            ):  # fmt: skip
                texts += part
            for text in texts:
                _check_value(text)
            made = string_pattern(
                constraint.low, constraint.low_open, constraint.high, constraint.high_open,
                constraint.prefix, constraint.suffix, constraint.contains, constraint.excluded,
                constraint.not_prefix, constraint.not_suffix, constraint.not_contains,
            )  # fmt: skip
    return None if made is None else within_bounds(made)


def _check_value(value: object) -> None:
    if isinstance(value, str):
        check_string(value)
    elif isinstance(value, int):
        check_int(value)
