"""Canonical selector text: what `parse` reads back to an equal filter."""

from __future__ import annotations

import re
from typing import Final

from byway.model.constraints import (
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
)
from byway.model.filters import Conjunction, Filter
from byway.model.scanning import keyword_of
from byway.model.values import INFINITY, Value

_BARE_NAME: Final = re.compile(r"[^\W\d][\w.$%]*\Z")


def filter_text(f: Filter) -> str:
    """Canonical selector text; `parse` gives an equal filter back."""
    if f.open:
        return "ANY"
    if not f.conjunctions:
        return "FALSE"
    return " OR ".join(conjunction_text(c) for c in f.conjunctions)


def conjunction_text(conjunction: Conjunction) -> str:
    """Canonical selector text of one alternative."""
    if not conjunction.terms:
        return "TRUE"
    return " AND ".join(
        predicate for name, constraint in conjunction.terms
        for predicate in predicate_texts(name, constraint)
    )  # fmt: skip


def predicate_texts(name: str, constraint: Constraint) -> list[str]:
    """The predicates, joined by AND, that say one constraint."""
    who = name_text(name)
    if isinstance(constraint, Exists):
        return [f"{who} IS NOT NULL"]
    if isinstance(constraint, Absent):
        return [f"{who} IS NULL"]
    if isinstance(constraint, (BoolSet, NumberSet, StringSet)):
        return [_set_text(who, "=", "IN", constraint.values)]
    if isinstance(constraint, NumberRange):
        return _range_texts(who, constraint)
    return _pattern_texts(who, constraint)


def _set_text(who: str, single: str, many: str, values: tuple[Value, ...]) -> str:
    if len(values) == 1:
        return f"{who} {single} {value_text(values[0])}"
    return f"{who} {many} ({', '.join(map(value_text, values))})"


def _range_texts(who: str, c: NumberRange) -> list[str]:
    texts = []
    unbounded_low = c.low == -INFINITY and not c.low_open
    unbounded_high = c.high == INFINITY and not c.high_open
    if not (unbounded_low or unbounded_high or c.low_open or c.high_open):
        texts.append(f"{who} BETWEEN {value_text(c.low)} AND {value_text(c.high)}")
    else:
        if not unbounded_low or (unbounded_high and not c.excluded):
            texts.append(f"{who} {'>' if c.low_open else '>='} {value_text(c.low)}")
        if not unbounded_high:
            texts.append(f"{who} {'<' if c.high_open else '<='} {value_text(c.high)}")
    if c.excluded:
        texts.append(_set_text(who, "<>", "NOT IN", c.excluded))
    return texts


def _pattern_texts(who: str, c: StringPattern) -> list[str]:
    texts = []
    if c.low or c.low_open:
        texts.append(f"{who} {'>' if c.low_open else '>='} {value_text(c.low)}")
    if c.high is not None:
        texts.append(f"{who} {'<' if c.high_open else '<='} {value_text(c.high)}")
    if c.prefix:
        texts.append(_like_text(who, "LIKE", c.prefix, "{}%"))
    if c.suffix:
        texts.append(_like_text(who, "LIKE", c.suffix, "%{}"))
    texts += [_like_text(who, "LIKE", part, "%{}%") for part in c.contains]
    texts += [_like_text(who, "NOT LIKE", part, "{}%") for part in c.not_prefix]
    texts += [_like_text(who, "NOT LIKE", part, "%{}") for part in c.not_suffix]
    texts += [_like_text(who, "NOT LIKE", part, "%{}%") for part in c.not_contains]
    if c.excluded:
        texts.append(_set_text(who, "<>", "NOT IN", c.excluded))
    return texts or [f"{who} LIKE '%'"]


def _like_text(who: str, operator: str, part: str, form: str) -> str:
    if any(char in part for char in "%_\\"):
        part = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{who} {operator} {value_text(form.format(part))} ESCAPE '\\'"
    return f"{who} {operator} {value_text(form.format(part))}"


def name_text(name: str) -> str:
    """A name as it stands in a filter text: bare where that reads back, else quoted."""
    if _BARE_NAME.match(name) and keyword_of(name) == "name":
        return name
    return '"' + name.replace('"', '""') + '"'


def value_text(value: Value) -> str:
    """A value as it stands in a filter text."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value in (INFINITY, -INFINITY):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)
