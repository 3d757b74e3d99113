"""`overlaps` says what `intersect` would, for short sets and for long ones, searched by halves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from byway.model.constraint_relations import intersect, overlaps, subset
from byway.model.constraints import Absent, Constraint, contains, none_of, one_of
from tests.strategies import boundary_points, constraints


@st.composite
def long_constraints(draw: st.DrawFn) -> Constraint:
    """IN and NOT IN with up to 40 members that are near each other."""
    members = draw(st.lists(st.integers(0, 60), min_size=1, max_size=40))
    values = tuple(members) if draw(st.booleans()) else tuple(f"{n:02}" for n in members)
    made = draw(st.sampled_from((one_of, none_of)))(values)
    assert made is not None
    return made


either = st.one_of(constraints(), long_constraints())


@given(either, either)
def test_overlaps_is_whether_there_is_an_intersection(a: Constraint, b: Constraint) -> None:
    present = not (isinstance(a, Absent) or isinstance(b, Absent))
    assert overlaps(a, b) == (present and intersect(a, b) is not None)


@given(either, either)
def test_members_of_a_subset_are_members(a: Constraint, b: Constraint) -> None:
    assert subset(a, a)
    if subset(a, b):
        for value in [*boundary_points(a), *boundary_points(b)]:
            assert contains(b, value) or not contains(a, value)
