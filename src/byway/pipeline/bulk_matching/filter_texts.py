"""Parses many similar filter texts quickly.

A text of plain comparisons joined by AND, as generators write them, is assembled from comparisons
that were parsed before; every other text is parsed as it is. The filter is the same either way.
"""

from __future__ import annotations

import re
from typing import Final

from byway.model import Conjunction, Filter, FilterError, parse
from byway.model.constraints import Constraint
from byway.model.filters import TERMS_MAX

_KNOWN_MAX: Final = 500_000
_JOINT: Final = " AND "
_NUMBER: Final = r"-?\d{1,15}(?:\.\d{1,15})?"
_PLAIN: Final = re.compile(
    rf"[A-Za-z_][\w.$%]* (?:(?:=|<=?|>=?) (?:{_NUMBER}|'[^']*')|BETWEEN {_NUMBER} AND {_NUMBER})",
    re.ASCII,
)

Term = tuple[str, Constraint]


class FilterTexts:
    """Parses filter texts, and remembers the comparisons in them."""

    def __init__(self) -> None:
        self._known: dict[str, Term | None] = {}

    def __repr__(self) -> str:
        return f"<FilterTexts {len(self._known)} comparisons known>"

    def read(self, text: str) -> Filter:
        """The filter of `text`, equal to `parse(text)`."""
        terms: list[Term] = []
        before = ""
        for piece in _comparisons(text):
            term = self._known.get(piece)
            if term is None:
                term = self._learn(piece)
            if term is None or term[0] <= before:  # as it is: names twice, or in another order
                return parse(text)
            before = term[0]
            terms.append(term)
        if len(terms) > TERMS_MAX:
            return parse(text)
        return Filter((Conjunction(tuple(terms)),))

    def _learn(self, piece: str) -> Term | None:
        """Parse and remember a comparison; None if it is not plain."""
        if not _PLAIN.fullmatch(piece):
            return None
        try:
            conjunctions = parse(piece).conjunctions
        except FilterError:
            return None
        if len(conjunctions) != 1 or len(conjunctions[0].terms) != 1:
            return None
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        term = self._known[piece] = conjunctions[0].terms[0]
        return term


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
