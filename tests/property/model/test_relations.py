"""covers, intersects and conforms against brute force over a small world."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from byway.model import ANY, FALSE, Filter, Value, conforms, covers, intersects
from byway.model.constraints import ABSENT, EXISTS, Constraint
from byway.model.filters import conjoin
from tests.property.model.worlds import is_plain, publications_telling_apart
from tests.strategies import (
    conjunction_filters,
    constraints_on,
    filters,
    publications,
    publications_near,
)


@st.composite
def pairs(
    draw: st.DrawFn,
    max_alternatives: int = 1,
    allowed: Callable[[Constraint], bool] = lambda _: True,
) -> tuple[Filter, Filter]:
    """Two filters about the same one or two attributes, so that they often relate."""
    names = draw(st.lists(st.sampled_from("nsbx"), min_size=1, max_size=2, unique=True))
    both: list[Filter] = []
    for _ in range(2):
        alternatives = []
        for _ in range(draw(st.integers(1, max_alternatives))):
            named = [name for name in names if draw(_NEARLY_ALWAYS)]
            alternatives.append(
                {name: draw(constraints_on(name).filter(allowed)) for name in named}
            )
        both.append(Filter.of(alternatives))
    f, g = both
    if draw(st.booleans()):  # a common term leaves the others to decide
        name, constraint = names[0], draw(constraints_on(names[0]).filter(allowed))
        f, g = (
            Filter.of({**dict(c.terms), name: constraint} for c in h.conjunctions) for h in both
        )
    return f, g


_NEARLY_ALWAYS = st.sampled_from((True, True, True, True, False))


def is_covered(f: Filter, g: Filter) -> bool:
    return all(f.matches(p) for p in publications_telling_apart(f, g) if g.matches(p))


def can_meet(advertisement: Filter, subscription: Filter) -> bool:
    return any(
        is_admitted(attributes, advertisement) and subscription.matches(attributes)
        for attributes in publications_telling_apart(advertisement, subscription)
    )


def is_admitted(attributes: dict[str, Value], advertisement: Filter) -> bool:
    """The closed-world rule, spelled out: every attribute is named, and what is there satisfies."""
    if advertisement == ANY:
        return True
    for conjunction in advertisement.conjunctions:
        named: dict[str, Constraint] = dict(conjunction.terms)
        if all(
            name in named and Filter.where({name: named[name]}).matches({name: value})
            for name, value in attributes.items()
        ):
            return True
    return False


# --- covers ----------------------------------------------------------------------------------


@given(pairs(max_alternatives=3))
def test_covers_is_never_wrong_when_it_says_yes(pair: tuple[Filter, Filter]) -> None:
    for f, g in (pair, pair[::-1]):
        if covers(f, g):
            assert is_covered(f, g)


@given(pairs(allowed=is_plain))
def test_covers_is_exact_for_plain_conjunctions(pair: tuple[Filter, Filter]) -> None:
    for f, g in (pair, pair[::-1]):
        assert covers(f, g) is is_covered(f, g)


@given(pairs(allowed=is_plain), st.sampled_from(("", "m")))
def test_covers_is_exact_for_what_narrows_both(pair: tuple[Filter, Filter], other: str) -> None:
    f, g = pair
    joined = conjoin([dict(c.terms) for h in pair for c in h.conjunctions])
    narrow = (
        FALSE if joined is None else Filter.where({**joined, **({other: EXISTS} if other else {})})
    )
    assert covers(f, narrow)
    assert covers(g, narrow)
    assert covers(narrow, f) is is_covered(narrow, f)


@given(filters())
def test_covers_is_reflexive_and_bounded(f: Filter) -> None:
    assert covers(f, f)
    assert covers(ANY, f)
    assert covers(f, FALSE)


# --- intersects and conforms -----------------------------------------------------------------


@given(pairs(max_alternatives=3))
def test_intersects_is_never_wrong_when_it_says_no(pair: tuple[Filter, Filter]) -> None:
    for advertisement, subscription in (pair, pair[::-1]):
        if not intersects(advertisement, subscription):
            assert not can_meet(advertisement, subscription)


@given(pairs(max_alternatives=3, allowed=is_plain))
def test_intersects_is_exact_for_plain_filters(pair: tuple[Filter, Filter]) -> None:
    for advertisement, subscription in (pair, pair[::-1]):
        assert intersects(advertisement, subscription) is can_meet(advertisement, subscription)


@given(filters(), publications())
def test_conforms_is_exact(advertisement: Filter, attributes: dict[str, Value]) -> None:
    assert conforms(attributes, advertisement) is is_admitted(attributes, advertisement)


@given(st.data(), filters(), filters())
def test_a_conforming_match_is_an_intersection(
    data: st.DataObject, advertisement: Filter, subscription: Filter
) -> None:
    attributes = data.draw(publications_near(subscription))
    named = set(advertisement.attributes())
    attributes = {n: v for n, v in attributes.items() if n in named or advertisement == ANY}
    if conforms(attributes, advertisement) and subscription.matches(attributes):
        assert intersects(advertisement, subscription)


@given(st.data(), conjunction_filters())
def test_leaving_attributes_out_keeps_a_publication_conforming(
    data: st.DataObject, advertisement: Filter
) -> None:
    attributes = data.draw(publications_near(advertisement))
    [conjunction] = advertisement.conjunctions
    fitting = {
        name: attributes[name]
        for name, constraint in conjunction.terms
        if constraint != ABSENT and name in attributes
        if Filter.where({name: constraint}).matches(attributes)
    }
    assert conforms(fitting, advertisement)
    assert conforms({}, advertisement)
    assert not conforms({**fitting, "never named": 1}, advertisement)
