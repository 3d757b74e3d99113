"""One filter, one form: however it is written, in whatever order, with whatever spelling."""

from itertools import permutations

import msgspec
import pytest

from byway.model import ANY, FALSE, TRUE, Conjunction, Filter, parse
from byway.model.constraints import (
    ABSENT,
    EXISTS,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    equal_to,
    number_range,
    one_of,
    string_pattern,
)
from byway.model.filters import conjoin


@pytest.mark.parametrize(
    ("texts", "canonical"),
    [
        (["b = 2 AND a = 1", "a = 1 AND b = 2", "(b = 2) AND (a = 1)"], "a = 1 AND b = 2"),
        (["a = 1 OR a = 2", "a IN (2, 1)", "a = 2 OR a = 1.0", "a IN (1, 2, 2)"], "a IN (1, 2)"),
        (["a = 1 OR a = 7 OR a > 5", "a > 5 OR a = 1", "(a = 7 OR a > 5) OR a = 1"],
         "a = 1 OR a > 5"),
        (["a = TRUE OR a = FALSE", "a IN (FALSE, TRUE)"], "a IN (FALSE, TRUE)"),
        (["a = 1 OR a IS NOT NULL", "a EXISTS OR a LIKE 'x%'"], "a IS NOT NULL"),
        (["a > 1 OR a > 2", "a > 1 OR a > 1 AND b = 1"], "a > 1"),
        (["a = 1 OR TRUE", "NOT (a = 1 AND FALSE)"], "TRUE"),
        (["a = 1 AND a = 2", "a > 1 AND a < 1", "a LIKE 'a%' AND a LIKE 'b%'"], "FALSE"),
        (["a >= 1.0 AND a <= 2e0", "NOT (a < 1 OR a > 2)"], "a BETWEEN 1 AND 2"),
        (["a > 1 AND a < 3 AND a <> 2 AND a <> 9"], "a > 1 AND a < 3 AND a <> 2"),
        (["a <> 2 AND a <> 1", "a NOT IN (1, 2)"], "a NOT IN (1, 2)"),
        (["a <= INFINITY", "a >= -INFINITY", "a < 5 AND a < 9 OR a >= -INFINITY"],
         "a >= -INFINITY"),
        (["a > -INFINITY"], "a > -INFINITY"),
        (["a = -0.0", "a = 0", "a BETWEEN 0 AND -0.0"], "a = 0"),
        (["a = 1e3", "a = 1000"], "a = 1000"),
        (["a = 1e300"], "a = 1e+300"),
        (["a = 'it''s'"], "a = 'it''s'"),
        (["a LIKE 'x%' AND a LIKE 'xy%'"], "a LIKE 'xy%'"),
        (["a LIKE '%'", "a >= ''"], "a LIKE '%'"),
        (["a > ''", "a <> ''"], "a <> ''"),
        (["a LIKE 'x!%%' ESCAPE '!'"], "a LIKE 'x\\%%' ESCAPE '\\'"),
        (["a LIKE '%b' AND a LIKE 'a%'", "a LIKE 'a%b'"], "a LIKE 'a%' AND a LIKE '%b'"),
        (["\"two words\" = 1 AND \"in\" = 2"], "\"in\" = 2 AND \"two words\" = 1"),
        (["a IS NULL", "NOT EXISTS a"], "a IS NULL"),
        (["ANY"], "ANY"),
    ],
)  # fmt: skip
def test_texts_with_one_meaning_have_one_form(texts, canonical):
    forms = {parse(text) for text in texts}
    assert len(forms) == 1
    assert [str(f) for f in forms] == [canonical]
    assert parse(canonical) in forms


ALTERNATIVES = [
    {"a": equal_to(1)},
    {"a": equal_to(2)},
    {"a": NumberRange(low=1.5)},
    {"a": equal_to(1), "b": EXISTS},
    {"a": number_range(low=2**53, low_open=True)},
    {"a": number_range(low=2**53 + 1)},
]


def test_the_order_of_alternatives_does_not_matter():
    forms = {Filter.of(order) for order in permutations(ALTERNATIVES)}
    assert len(forms) == 1
    assert len({msgspec.msgpack.encode(f) for f in forms}) == 1
    assert str(forms.pop()) == "a = 1 OR a >= 1.5"


def test_two_ways_to_say_the_same_set_leave_the_same_one():
    pair = [{"a": number_range(low=2**53, low_open=True)}, {"a": number_range(low=2**53 + 1)}]
    assert Filter.of(pair) == Filter.of(pair[::-1])
    assert len(Filter.of(pair).conjunctions) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (one_of((1,)), one_of((1.0,))),
        (one_of((0,)), one_of((-0.0,))),
        (one_of((2**53, 5)), one_of((5.0, 2.0**53))),
        (number_range(low=1, high=2), number_range(low=1.0, high=2.0)),
        (number_range(excluded=(3, 1.0, 1)), number_range(excluded=(1, 3))),
        (number_range(low=1, excluded=(1,)), number_range(low=1, low_open=True)),
        (number_range(high=1, excluded=(1, 5)), number_range(high=1, high_open=True)),
        (number_range(low=1, high=1), equal_to(1)),
        (string_pattern(low="a", high="a"), equal_to("a")),
        (string_pattern(low="", low_open=True, high="b"), string_pattern(high="b", excluded=("",))),
        (string_pattern(prefix="ab", contains=("b",)), string_pattern(prefix="ab")),
        (string_pattern(not_prefix=("a", "ab")), string_pattern(not_prefix=("a",))),
    ],
)
def test_equal_constraints_are_equal_objects(one, other):
    assert one == other
    assert hash(one) == hash(other)
    assert msgspec.msgpack.encode(one) == msgspec.msgpack.encode(other)
    f, g = Filter.where({"x": one}), Filter.where({"x": other})
    assert f == g
    assert len({f, g}) == 1


def test_kinds_do_not_mix_in_equality():
    forms = {parse(f"a = {value}") for value in ("1", "'1'", "TRUE")}
    assert len(forms) == 3
    assert parse("a = TRUE") != parse("a = 1")
    assert parse("a = 9007199254740993") != parse("a = 9007199254740992")


def test_ranges_that_hold_nothing_are_none():
    assert number_range(low=2, high=1) is None
    assert number_range(low=1, low_open=True, high=1) is None
    assert number_range(low=1, high=1, excluded=(1,)) is None
    assert string_pattern(low="b", high="a") is None
    assert string_pattern(low="a", high="a", excluded=("a",)) is None
    assert string_pattern(prefix="a", low="b") is None
    assert string_pattern(prefix="ab", low="abc", high="ab") is None
    assert string_pattern(low="ab", high="abz", not_prefix=("a",)) is None
    assert string_pattern(low="ab", high="abz", not_contains=("b",)) is None
    assert string_pattern(prefix="ab", not_contains=("b",)) is None
    assert string_pattern(suffix="ab", not_suffix=("b",)) is None
    assert string_pattern(contains=("ab",), not_contains=("b",)) is None
    assert string_pattern(not_contains=("",)) is None


def test_bounds_that_cannot_be_reached_are_open():
    assert string_pattern(high="abc", not_prefix=("ab",)) == string_pattern(
        high="ab", high_open=True
    )
    assert string_pattern(low="a", suffix="b") == string_pattern(low="a", low_open=True, suffix="b")


def test_constants():
    assert Filter.of([]) == FALSE
    assert Filter.of([{}]) == TRUE == Filter.where({})
    assert Filter.of([{}, {"a": EXISTS}]) == TRUE
    assert ANY != TRUE
    assert [str(f) for f in (TRUE, FALSE, ANY)] == ["TRUE", "FALSE", "ANY"]
    assert Conjunction.of({}) == Conjunction()


def test_repr_tells_the_text():
    f = parse("b = 1 OR a > 2 AND c IS NULL")
    assert repr(f) == "Filter(b = 1 OR a > 2 AND c IS NULL)"
    assert repr(f.conjunctions[1]) == "Conjunction(a > 2 AND c IS NULL)"
    assert repr(TRUE) == "Filter(TRUE)"
    assert f.attributes() == ("a", "b", "c")
    assert TRUE.attributes() == ()


@pytest.mark.parametrize(
    "f",
    [
        *(TRUE, FALSE, ANY),
        parse("a = 1 AND b = 'x' AND c = TRUE AND d > 1.5 AND e < 'y' AND f IS NULL AND g EXISTS"),
        parse("a = 9223372036854775807 OR a = -INFINITY OR a = 1e300 OR a LIKE 'é%'"),
    ],
    ids=str,
)
def test_filters_travel_as_arrays(f):
    data = msgspec.msgpack.encode(f)
    assert isinstance(msgspec.msgpack.decode(data), list)
    assert msgspec.msgpack.decode(data, type=Filter) == f


def test_conjoin_joins_terms():
    assert conjoin([]) == {}
    assert conjoin([{"a": EXISTS}, {"a": equal_to(1), "b": ABSENT}]) == {
        "a": NumberSet((1,)),
        "b": ABSENT,
    }
    assert conjoin([{"a": ABSENT}, {"a": EXISTS}]) is None
    parts = [{"a": StringPattern(prefix=p)} for p in ("", "x", "xy")] + [{"a": equal_to("xyz")}]
    assert conjoin(parts) == {"a": StringSet(("xyz",))}
    first = {"a": EXISTS}
    conjoin([first, {"a": equal_to(1)}])
    assert first == {"a": EXISTS}
