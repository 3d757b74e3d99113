"""Why a publication is refused: the attribute, its value, and what the advertisement expects."""

import pytest
from hypothesis import given

from byway.model import conforms, parse
from byway.model.bounds import REASON_LENGTH_MAX
from byway.model.conformance import nonconformance
from byway.model.filters import Filter
from byway.model.values import Attributes
from tests.strategies import filters, publications

NONE = "it conforms to no advertisement of this client: "


def reason(attributes: Attributes, *advertisements: str) -> str:
    return nonconformance(attributes, map(parse, advertisements))


def test_without_an_advertisement_it_says_how_to_advertise() -> None:
    assert reason({"price": 1}) == (
        "this client has no advertisement: advertise what it publishes first, "
        'or everything with advertise("ANY")'
    )


@pytest.mark.parametrize(
    ("attributes", "advertisement", "words"),
    [
        ({"price": -1}, "price > 0", "price is -1, expected price > 0"),
        ({"price": "30"}, "price > 0", "price is the text '30', expected price > 0"),
        ({"on": 1}, "on = TRUE", "on is the number 1, expected on = TRUE"),
        (
            {"price": 1, "size": 3},
            "price > 0 AND symbol EXISTS",
            "size is 3, expected no attributes but price, symbol",
        ),
        ({"price": 1}, "TRUE", "price is 1, expected no attributes"),
        ({"price": 1}, "FALSE", "they admit nothing"),
        (
            {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5},
            "a > 9 AND b > 9 AND c > 9 AND d > 9 AND e > 9",
            "a is 1, expected a > 9; b is 2, expected b > 9; c is 3, expected c > 9; and 2 more",
        ),
    ],
)
def test_it_names_the_attribute_its_value_and_what_is_expected(
    attributes: Attributes, advertisement: str, words: str
) -> None:
    assert reason(attributes, advertisement) == NONE + words


def test_the_alternative_that_comes_closest_is_compared() -> None:
    attributes = {"symbol": "IBM", "price": -1, "volume": 5}
    assert (
        reason(attributes, "x = 1", "symbol = 'YHOO' OR symbol EXISTS AND price > 0 AND volume > 0")
        == NONE + "price is -1, expected price > 0"
    )


@given(publications(), filters())
def test_every_refusal_has_a_short_reason(attributes: Attributes, advertisement: Filter) -> None:
    if not conforms(attributes, advertisement):
        words = nonconformance(attributes, [advertisement])
        assert words.startswith(NONE)
        assert len(words) < REASON_LENGTH_MAX
