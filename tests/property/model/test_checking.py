"""A filter that byway made passes the check; one that was tampered with does not change meaning
unseen."""

import msgspec
import pytest
from hypothesis import given

from byway.model import ANY, FALSE, TRUE, Filter, parse
from byway.model.checking import check_filter
from byway.model.constraints import (
    BoolSet,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
)
from byway.model.errors import InvalidValueError
from byway.model.filters import Conjunction
from tests.strategies import filters


@given(filters())
def test_what_byway_makes_is_canonical(filter):
    check_filter(filter)
    check_filter(msgspec.msgpack.decode(msgspec.msgpack.encode(filter), type=Filter))


@pytest.mark.parametrize("filter", [TRUE, FALSE, ANY])
def test_constants_pass(filter):
    check_filter(filter)


def one(constraint, name="x"):
    return Filter((Conjunction(((name, constraint),)),))


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        (Filter((), open=True), "only ANY is an open filter"),
        (Filter((Conjunction(),) * 65), "at most 64 alternatives"),
        (Filter((Conjunction(), Conjunction())), "not in canonical form"),
        (Filter((parse("x > 1").conjunctions[0], parse("x > 0").conjunctions[0])), "canonical"),
        (one(NumberSet(())), "constraint on 'x' is not in canonical form"),
        (one(NumberSet((2, 1))), "constraint on 'x'"),
        (one(NumberSet((1.0,))), "constraint on 'x'"),
        (one(NumberSet((float("nan"),))), "constraint on 'x'"),
        (one(NumberRange(3, False, 1, False)), "constraint on 'x'"),
        (one(NumberRange(1, False, 1, False)), "constraint on 'x'"),
        (one(NumberRange(float("nan"), False, 1, False)), "constraint on 'x'"),
        (one(NumberSet((2**63,))), "constraint on 'x'"),
        (one(BoolSet((True, False))), "constraint on 'x'"),
        (one(StringSet(("b", "a"))), "constraint on 'x'"),
        (one(StringPattern(prefix="b", high="a")), "constraint on 'x'"),
        (one(StringPattern(contains=("a", "ab"))), "constraint on 'x'"),
        (one(NumberSet((1,)), name=""), "'' is not an attribute name"),
        (
            Filter((Conjunction((("y", NumberSet((1,))), ("x", NumberSet((1,))))),)),
            "attribute 'x' is out of order",
        ),
    ],
)
def test_what_byway_would_not_make_is_named(filter, reason):
    with pytest.raises(InvalidValueError, match=reason):
        check_filter(filter)
