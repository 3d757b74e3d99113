"""Parses many similar filter texts quickly.

A text of plain comparisons joined by AND, as generators write them, is assembled from comparisons
that were parsed before; every other text is parsed as it is. The filter is the same either way.
"""

from __future__ import annotations

import re
from typing import Any, Final

from byway.model import Conjunction, Filter, FilterError, parse
from byway.model.constraints import Constraint
from byway.model.filters import TERMS_MAX

_KNOWN_MAX: Final = 500_000
_JOINT: Final = " AND "
_NUMBER: Final = r"-?\d{1,15}(?:\.\d{1,15})?"
_PLAIN: Final = re.compile(
    rf"(?:=|<=?|>=?) (?:{_NUMBER}|'[^']*')|BETWEEN {_NUMBER} AND {_NUMBER}", re.ASCII
)
_NAME: Final = re.compile(r"[A-Za-z_][\w.$%]*", re.ASCII)
_ANY: Final = "= 0"
"""A comparison that any name can be parsed with."""

Term = tuple[str, Constraint]


class FilterTexts:
    """Parses filter texts, and remembers the names and the comparisons in them."""

    def __init__(self) -> None:
        self._names: dict[str, str | None] = {}
        self._constraints: dict[str, Constraint | None] = {}

    def __repr__(self) -> str:
        return f"<FilterTexts {len(self._names)} names, {len(self._constraints)} comparisons>"

    def read(self, text: str) -> Filter:
        """The filter of `text`, equal to `parse(text)`."""
        names, constraints = self._names, self._constraints
        terms: list[Term] = []
        before = ""
        for piece in _comparisons(text):
            written, _, comparison = piece.partition(" ")
            name = names.get(written) or self._learn_name(written)
            constraint = constraints.get(comparison) or self._learn(comparison)
            if name is None or constraint is None or name <= before:
                return parse(text)  # not plain, or names twice or in another order
            before = name
            terms.append((name, constraint))
        if len(terms) > TERMS_MAX:
            return parse(text)
        return Filter((Conjunction(tuple(terms)),))

    def _learn_name(self, written: str) -> str | None:
        """Parse and remember a name; None if it is not plain."""
        if written in self._names or not _NAME.fullmatch(written):
            return None
        term = _term(f"{written} {_ANY}")
        _forget_if_full(self._names)
        name = self._names[written] = None if term is None else term[0]
        return name

    def _learn(self, comparison: str) -> Constraint | None:
        """Parse and remember what a comparison says; None if it is not plain."""
        if comparison in self._constraints or not _PLAIN.fullmatch(comparison):
            return None
        term = _term(f"a {comparison}")
        _forget_if_full(self._constraints)
        constraint = self._constraints[comparison] = None if term is None else term[1]
        return constraint


def _term(text: str) -> Term | None:
    """The only term of a text; None if it has another form."""
    try:
        conjunctions = parse(text).conjunctions
    except FilterError:
        return None
    if len(conjunctions) != 1 or len(conjunctions[0].terms) != 1:
        return None
    return conjunctions[0].terms[0]


def _forget_if_full(known: dict[str, Any]) -> None:
    if len(known) >= _KNOWN_MAX:
        known.clear()


def _comparisons(text: str) -> list[str]:
    """The parts that AND joins, provided that they are plain comparisons."""
    pieces = text.split(_JOINT)
    if " BETWEEN " not in text:
        return pieces
    joined, at = [], 0
    while at < len(pieces):
        size = 2 if " BETWEEN " in pieces[at] else 1
        joined.append(_JOINT.join(pieces[at : at + size]))
        at += size
    return joined
