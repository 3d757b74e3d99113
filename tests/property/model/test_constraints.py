"""The algebra of constraints agrees with membership."""

from hypothesis import given
from hypothesis import strategies as st

from byway.model import Value
from byway.model.constraint_relations import intersect, overlaps, subset
from byway.model.constraints import (
    ABSENT,
    ANY_STRING,
    SET_SIZE_MAX,
    Constraint,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    contains,
    high_key,
    low_key,
)
from byway.model.unions import hull, union
from byway.model.values import canonical_number, number_key
from tests.property.model.worlds import NUMBER_WORLD, STRING_WORLD, is_plain, values_for
from tests.strategies import (
    boundary_points,
    constraints,
    number_constraints,
    numbers,
    simple_string_constraints,
    string_constraints,
)

SAME_KIND = st.sampled_from(
    (number_constraints(), number_constraints(), string_constraints(), simple_string_constraints())
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Constraint, Constraint]:
    """Two constraints, mostly of one kind."""
    kind = draw(SAME_KIND) if draw(st.integers(0, 7)) else constraints()
    return draw(kind), draw(kind)


def plain_pairs() -> st.SearchStrategy[tuple[Constraint, Constraint]]:
    return pairs().filter(lambda pair: all(map(is_plain, pair)))


def members(constraint: Constraint | None, values: list[Value]) -> set[int]:
    """Which of the values it has, by their place (NaN is not equal to itself)."""
    if constraint is None:
        return set()
    return {i for i, value in enumerate(values) if contains(constraint, value)}


def worlds_of(*constraints: Constraint) -> tuple[list[Value], list[set[int]]]:
    around = [v for c in constraints for v in boundary_points(c)]
    values = [*values_for(list(constraints)), *around]
    return values, [members(c, values) for c in constraints]


@given(pairs())
def test_intersect_has_what_both_have(pair: tuple[Constraint, Constraint]) -> None:
    values, (a, b) = worlds_of(*pair)
    both = intersect(*pair)
    if both is not ABSENT:
        assert members(both, values) == a & b
    assert overlaps(*pair) is (both is not None and both is not ABSENT)


@given(plain_pairs())
def test_intersect_knows_emptiness_exactly_for_plain_pairs(
    pair: tuple[Constraint, Constraint],
) -> None:
    _, (a, b) = worlds_of(*pair)
    assert overlaps(*pair) is bool(a & b)


@given(pairs(), constraints())
def test_intersect_is_one_form_whatever_the_order(
    pair: tuple[Constraint, Constraint], third: Constraint
) -> None:
    a, b = pair
    assert intersect(a, b) == intersect(b, a)
    assert intersect(a, a) == a
    assert both_of(both_of(a, b), third) == both_of(a, both_of(b, third))
    assert both_of(both_of(third, b), a) == both_of(third, both_of(a, b))


def both_of(a: Constraint | None, b: Constraint | None) -> Constraint | None:
    return None if a is None or b is None else intersect(a, b)


@given(st.lists(simple_string_constraints(), min_size=3, max_size=3))
def test_three_string_predicates_have_one_form_and_the_right_members(
    predicates: list[Constraint],
) -> None:
    a, b, c = predicates
    joined = both_of(both_of(a, b), c)
    assert joined == both_of(a, both_of(b, c)) == both_of(both_of(c, a), b)
    values, sets = worlds_of(*predicates)
    assert members(joined, values) == set.intersection(*sets)


@given(pairs())
def test_subset_is_never_wrong_when_it_says_yes(pair: tuple[Constraint, Constraint]) -> None:
    _, (a, b) = worlds_of(*pair)
    if subset(*pair):
        assert a <= b


@given(plain_pairs())
def test_subset_is_exact_for_plain_pairs(pair: tuple[Constraint, Constraint]) -> None:
    _, (a, b) = worlds_of(*pair)
    if ABSENT not in pair:
        assert subset(*pair) is (a <= b)


@given(st.tuples(simple_string_constraints(), simple_string_constraints()))
def test_single_string_predicates_are_exact_ranges_too(
    pair: tuple[Constraint, Constraint],
) -> None:
    _, (a, b) = worlds_of(*pair)
    assert subset(*pair) is (a <= b)
    assert overlaps(*pair) is bool(a & b)
    assert (pair[0] == pair[1]) is (a == b)


@given(plain_pairs())
def test_plain_constraints_with_equal_members_are_equal(
    pair: tuple[Constraint, Constraint],
) -> None:
    _, (a, b) = worlds_of(*pair)
    if ABSENT not in pair:
        assert (pair[0] == pair[1]) is (a == b)


@given(pairs())
def test_meeting_something_narrows(pair: tuple[Constraint, Constraint]) -> None:
    a, b = pair
    both = intersect(a, b)
    if both is not None:
        assert subset(both, a)
        assert subset(both, b)
    if subset(a, b):
        assert both == a


@given(pairs())
def test_union_is_exact(pair: tuple[Constraint, Constraint]) -> None:
    values, (a, b) = worlds_of(*pair)
    joined = union(*pair)
    if joined is not None and joined is not ABSENT:
        assert members(joined, values) == a | b
    assert is_same(union(*pair[::-1]), joined)


def is_same(a: Constraint | None, b: Constraint | None) -> bool:
    """Equal, or `x > 2**53` and `x >= 2**53 + 1`: two ways to say the same."""
    return a == b or (a is not None and b is not None and subset(a, b) and subset(b, a))


@given(pairs())
def test_hull_has_what_either_has(pair: tuple[Constraint, Constraint]) -> None:
    values, (a, b) = worlds_of(*pair)
    wide = hull(*pair)
    if wide is not None:
        assert members(wide, values) >= a | b
        assert all(subset(c, wide) for c in pair)
        assert (wide == ABSENT) is (pair == (ABSENT, ABSENT))
    else:
        assert ABSENT in pair
    assert is_same(hull(*pair[::-1]), wide)


@given(numbers(), numbers())
def test_number_keys_order_as_numbers_do(a: int | float, b: int | float) -> None:
    a, b = canonical_number(a), canonical_number(b)
    assert (number_key(a) < number_key(b)) is (a < b)
    assert (number_key(a) == number_key(b)) is (a == b)


@given(number_constraints())
def test_bound_keys_bracket_exactly_the_members(constraint: Constraint) -> None:
    if isinstance(constraint, NumberRange):
        low, high = low_key(constraint), high_key(constraint)
        for value in NUMBER_WORLD:
            within = low <= number_key(value) <= high  # type: ignore[arg-type]
            assert within is (contains(constraint, value) or value in constraint.excluded)


@given(number_constraints())
def test_number_constraints_are_canonical(constraint: Constraint) -> None:
    if isinstance(constraint, NumberSet):
        assert list(constraint.values) == sorted(set(constraint.values))
    else:
        assert isinstance(constraint, NumberRange)
        assert list(constraint.excluded) == sorted(set(constraint.excluded))
        assert all(constraint.low < v < constraint.high for v in constraint.excluded)
        assert constraint.low < constraint.high


@given(string_constraints())
def test_string_constraints_are_canonical(constraint: Constraint) -> None:
    if isinstance(constraint, StringSet):
        assert list(constraint.values) == sorted(set(constraint.values))
    else:
        assert isinstance(constraint, StringPattern)
        bare = {v for v in STRING_WORLD if contains(constraint, v)} or {"unknown"}
        assert not bare & set(constraint.excluded)
        assert len(constraint.excluded) <= SET_SIZE_MAX
        assert intersect(constraint, ANY_STRING) == constraint
