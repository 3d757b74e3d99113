"""Filters and publications over small domains, rich in corner cases and frequent in matches.

Every name has a usual kind: `n` and `m` hold numbers, `s` and `t` strings, `b` booleans, `x` any of
them; now and then one holds another kind. Values come from short lists that lie on, between and
next to each other, so that bounds meet.

Weights are repetitions in a list; every draw is one choice from a list, which keeps this fast.
"""

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from byway.model import ANY, FALSE, TRUE, Filter, Value
from byway.model.constraint_relations import intersect
from byway.model.constraints import (
    ABSENT,
    ANY_BOOLEAN,
    ANY_NUMBER,
    ANY_STRING,
    EXISTS,
    BoolSet,
    Constraint,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    none_of,
    number_range,
    one_of,
    string_pattern,
)

INF = float("inf")
NAN = float("nan")

NUMBER_NAMES = ("n", "m")
STRING_NAMES = ("s", "t")
NAMES = (*NUMBER_NAMES, *STRING_NAMES, "b", "x")

SMALL_NUMBERS = (-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4)
BIG_NUMBERS = (
    2**53 - 1,
    2**53,
    2**53 + 1,
    2.0**53 + 2,
    2**53 + 3,
    -(2**53) - 1,
    2**63 - 1,
    2.0**63,
    -(2**63),
    -(2**63) + 1,
    2.0**63 + 2048,
    1e300,
    5e-324,
    INF,
    -INF,
)
NUMBERS = SMALL_NUMBERS + BIG_NUMBERS
STRINGS = (
    "", "a", "b", "aa", "ab", "ba", "bb", "aab", "aba", "abb", "bab", "abab",
    "é", "\uffff", "\U0001d11e",
)  # fmt: skip
PARTS = ("a", "b", "ab", "ba", "aba", "é")
"""What prefixes, suffixes and parts are made of."""


# --- values and publications -----------------------------------------------------------------

USUAL_NUMBERS = SMALL_NUMBERS * 6 + BIG_NUMBERS
BOOLEANS = (False, True)
VALUES = USUAL_NUMBERS + STRINGS * 3 + BOOLEANS * 12 + (NAN, -0.0)
"""Any value of a publication: NaN and -0.0 too."""

_USUAL: dict[str, tuple[Value, ...]] = {
    **dict.fromkeys(NUMBER_NAMES, (*USUAL_NUMBERS, NAN, -0.0, "", "a", False, True)),
    **dict.fromkeys(STRING_NAMES, (*STRINGS * 3, 0, 1, NAN, False, True)),
    "b": (*BOOLEANS * 12, 0, 1, NAN, "", "a"),
    "x": VALUES,
}


def values_of(name: str) -> SearchStrategy[Value]:
    """A value of the name's usual kind, mostly."""
    return st.sampled_from(_USUAL.get(name, VALUES))


def values() -> SearchStrategy[Value]:
    """Values of publications, of every kind."""
    return st.sampled_from(VALUES)


def numbers() -> SearchStrategy[int | float]:
    """Numbers that may stand in a filter; small ones are the usual."""
    return st.sampled_from(USUAL_NUMBERS)


def strings() -> SearchStrategy[str]:
    return st.sampled_from(STRINGS)


@st.composite
def publications(draw: st.DrawFn) -> dict[str, Value]:
    """Attributes of one publication; one name in six is missing. `conjunction_filters` match about
    a quarter of them, `filters` half."""
    return _publication(draw, {})


@st.composite
def publications_near(draw: st.DrawFn, f: Filter) -> dict[str, Value]:
    """Publications whose values lie on, or right beside, the bounds that `f` itself names: about
    half of them match."""
    points: dict[str, list[Value]] = {}
    for conjunction in f.conjunctions:
        for name, constraint in conjunction.terms:
            points.setdefault(name, []).extend(boundary_points(constraint))
    return _publication(draw, points)


def _publication(draw: st.DrawFn, near: dict[str, list[Value]]) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    for name in sorted({*NAMES, *near}):
        what = draw(_PRESENCE)
        if what != "missing":
            points = near.get(name) if what == "near" else None
            attributes[name] = draw(st.sampled_from(points) if points else values_of(name))
    return attributes


_PRESENCE = st.sampled_from(("near", "near", "near", "usual", "usual", "missing"))


def boundary_points(constraint: Constraint) -> list[Value]:
    """Values at and around the edges of a constraint, inside and outside."""
    if isinstance(constraint, (BoolSet, NumberSet, StringSet)):
        return list(constraint.values)
    if isinstance(constraint, NumberRange):
        low, high = constraint.low, constraint.high
        points: list[Value] = [low, high, *constraint.excluded]
        if abs(low) <= 2**62:
            points += [low + 1, low + 0.5, low - 1]
        if abs(high) <= 2**62:
            points += [high - 1, high - 0.5, high + 1]
        return points
    if isinstance(constraint, StringPattern):
        middle = "".join(constraint.contains)
        made = constraint.prefix + middle + constraint.suffix
        more = [constraint.low, constraint.low + "a", constraint.high or "a", *constraint.excluded]
        return [made, constraint.prefix + "bb" + middle + constraint.suffix, *more]
    return []


# --- constraints -----------------------------------------------------------------------------


@st.composite
def number_constraints(draw: st.DrawFn) -> Constraint:
    """Sets, ranges (open, closed, half-infinite, with points left out), and every number."""
    form = draw(_NUMBER_FORMS)
    if form == "any":
        return ANY_NUMBER
    if form == "range":
        low, high = sorted((draw(numbers()), draw(numbers())))
        opens = draw(_OPENS)
        holes = tuple(draw(_NUMBERS)) if draw(_RARELY) else ()
        return number_range(low, opens[0], high, opens[1], holes) or one_of((low,))
    if form in ("low", "high"):
        end = draw(numbers())
        return number_range(**{form: end, form + "_open": draw(_FLAGS)}) or one_of((end,))
    points = tuple(draw(_NUMBERS))
    return one_of(points) if form == "in" else none_of(points) or ANY_NUMBER


@st.composite
def simple_string_constraints(draw: st.DrawFn) -> Constraint:
    """Constraints that one predicate on a string makes."""
    form = draw(_STRING_FORMS)
    if form == "any":
        return ANY_STRING
    if form in ("low", "high"):
        end = draw(strings())
        return string_pattern(**{form: end, form + "_open": draw(_FLAGS)}) or one_of((end,))
    if form in ("in", "not in"):
        points = tuple(draw(_STRINGS))
        return one_of(points) if form == "in" else none_of(points) or ANY_STRING
    part = draw(_PARTS)
    return string_pattern(**{form: part if form in ("prefix", "suffix") else (part,)}) or ANY_STRING


@st.composite
def string_constraints(draw: st.DrawFn) -> Constraint:
    """One to three string predicates joined by AND (those that contradict are left out)."""
    joined = draw(simple_string_constraints())
    for _ in range(draw(_FEW)):
        joined = intersect(joined, draw(simple_string_constraints())) or joined
    return joined


def boolean_constraints() -> SearchStrategy[Constraint]:
    return st.sampled_from((BoolSet((False,)), BoolSet((True,)), ANY_BOOLEAN))


def presence_constraints() -> SearchStrategy[Constraint]:
    return st.sampled_from((EXISTS, ABSENT))


_NUMBER_FORMS = st.sampled_from(("in", "low", "high", "range", "not in", "any"))
_STRING_FORMS = st.sampled_from(
    "in|low|high|prefix|suffix|contains|not in|not_prefix|not_suffix|not_contains|any".split("|")
)
_OPENS = st.sampled_from(((False, False), (False, True), (True, False), (True, True)))
_FLAGS = st.booleans()
_RARELY = st.sampled_from((False, False, False, True))
_FEW = st.sampled_from((0, 0, 1, 2))
_NUMBERS = st.lists(numbers(), min_size=1, max_size=4)
_STRINGS = st.lists(strings(), min_size=1, max_size=4)
_PARTS = st.sampled_from(PARTS)

_CONSTRAINTS: dict[str, Callable[[], SearchStrategy[Constraint]]] = {
    "number": number_constraints,
    "string": string_constraints,
    "boolean": boolean_constraints,
    "presence": presence_constraints,
}
_ANY_KIND = ("number", "string", "boolean", "presence")
_KINDS: dict[str, SearchStrategy[str]] = {
    **dict.fromkeys(NUMBER_NAMES, st.sampled_from(("number",) * 12 + _ANY_KIND)),
    **dict.fromkeys(STRING_NAMES, st.sampled_from(("string",) * 12 + _ANY_KIND)),
    "b": st.sampled_from(("boolean",) * 12 + _ANY_KIND),
    "x": st.sampled_from(_ANY_KIND),
}


def constraints() -> SearchStrategy[Constraint]:
    """Constraints of every kind."""
    return constraints_on("x")


@st.composite
def constraints_on(draw: st.DrawFn, name: str) -> Constraint:
    """A constraint of the name's usual kind, mostly."""
    return draw(_CONSTRAINTS[draw(_KINDS[name])]())


# --- filters ---------------------------------------------------------------------------------


@st.composite
def terms(draw: st.DrawFn, max_size: int = 3) -> dict[str, Constraint]:
    """The terms of one alternative; none at all is possible and rare."""
    if not draw(_NEARLY_ALWAYS):
        return {}
    names = draw(st.lists(_NAMES, min_size=1, max_size=max_size, unique=True))
    return {name: draw(constraints_on(name)) for name in names}


_NAMES = st.sampled_from(NAMES)
_NEARLY_ALWAYS = st.sampled_from((True,) * 15 + (False,))


def conjunction_filters(max_terms: int = 3) -> SearchStrategy[Filter]:
    """Filters with one alternative, TRUE among them."""
    return terms(max_terms).map(Filter.where)


@st.composite
def filters(draw: st.DrawFn, max_alternatives: int = 4, max_terms: int = 3) -> Filter:
    """Any filter: one alternative, several, TRUE, FALSE, ANY."""
    form = draw(_FILTER_FORMS)
    if form is not None:
        return form
    count = draw(st.integers(1, max_alternatives))
    return Filter.of([draw(terms(max_terms)) for _ in range(count)])


_FILTER_FORMS = st.sampled_from((None,) * 12 + (TRUE, FALSE, ANY))
