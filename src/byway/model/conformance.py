"""Why a publication conforms to no advertisement, in words that name the attribute."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from byway.model.constraints import KIND_OF, contains
from byway.model.errors import shortened
from byway.model.filters import Conjunction, Filter
from byway.model.values import Attributes, Kind, kind_of
from byway.model.writing import name_text, predicate_texts, value_text

ALTERNATIVES_MAX: Final = 64
"""Alternatives of advertisements that are compared with the publication, to find the closest."""
NAMED_MAX: Final = 3
"""Attributes that are named; the others are counted."""
_TEXT_MAX: Final = 100
NOUNS: Final = {
    Kind.BOOLEAN: "the boolean",
    Kind.NUMBER: "the number",
    Kind.STRING: "the text",
    Kind.NAN: "the number",
}
NO_ADVERTISEMENT: Final = (
    "this client has no advertisement: advertise what it publishes first, "
    'or everything with advertise("ANY")'
)


def nonconformance(attributes: Attributes, advertisements: Iterable[Filter]) -> str:
    """Why a publication conforms to none of these advertisements: what is wrong for the alternative
    that admits most of its attributes."""
    filters = list(islice(advertisements, ALTERNATIVES_MAX))
    if not filters:
        return NO_ADVERTISEMENT
    alternatives = (conjunction for filter in filters for conjunction in filter.conjunctions)
    offences = [_offences(attributes, c) for c in islice(alternatives, ALTERNATIVES_MAX)]
    reason = "it conforms to no advertisement of this client"
    if not offences:
        return f"{reason}: they admit nothing"  # FALSE
    closest = min(offences, key=len)
    more = f"; and {len(closest) - NAMED_MAX} more" if len(closest) > NAMED_MAX else ""
    return f"{reason}: {'; '.join(closest[:NAMED_MAX])}{more}"


def _offences(attributes: Attributes, alternative: Conjunction) -> list[str]:
    """For each attribute that an alternative does not admit, its value and what is expected."""
    named = dict(alternative.terms)
    found = []
    for name, value in attributes.items():
        constraint = named.get(name)
        if constraint is not None and contains(constraint, value):
            continue
        if constraint is None:
            others = ", ".join(map(name_text, named))
            expected = f"no attributes but {others}" if named else "no attributes"
        else:
            expected = " AND ".join(predicate_texts(name, constraint))
        kind = None if constraint is None else KIND_OF.get(type(constraint))
        noun = "" if kind in (None, kind_of(value)) else f"{NOUNS[kind_of(value)]} "
        found.append(
            f"{shortened(name_text(name), _TEXT_MAX)} is {noun}{shortened(value_text(value))}, "
            f"expected {shortened(expected, _TEXT_MAX)}"
        )
    return found
