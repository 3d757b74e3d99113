"""Kinds, order and spelling of values, and what may not be one."""

import msgspec
import pytest

from byway.model import InvalidValueError, Kind, check_attributes, kind_of
from byway.model.values import (
    ATTRIBUTES_MAX,
    INT_MAX,
    INT_MIN,
    NAME_LENGTH_MAX,
    STRING_LENGTH_MAX,
    canonical_number,
    check_sizes,
    number_key,
)

INF = float("inf")
NAN = float("nan")
HUGE = pytest.param(10**5000, id="huge")  # Python refuses to write out so many digits


class Celsius(float):
    """Subclasses of the four types are values of that type."""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOLEAN),
        (False, Kind.BOOLEAN),
        (0, Kind.NUMBER),
        (INT_MAX, Kind.NUMBER),
        (0.0, Kind.NUMBER),
        (INF, Kind.NUMBER),
        (Celsius(20), Kind.NUMBER),
        (Kind.STRING, Kind.NUMBER),  # an IntEnum is an int
        (NAN, Kind.NAN),
        ("", Kind.STRING),
        ("1", Kind.STRING),
    ],
)
def test_kinds(value, kind):
    assert kind_of(value) is kind
    assert kind_of(Celsius("nan")) is Kind.NAN


@pytest.mark.parametrize("value", [None, b"bytes", 1j, (1,), [1], {}, object()])
def test_anything_else_is_no_value(value):
    with pytest.raises(InvalidValueError, match="is not a value: expected bool, int, float or str"):
        kind_of(value)


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (1, 1),
        (1.0, 1),
        (-0.0, 0),
        (0.0, 0),
        (1.5, 1.5),
        (2.0**53, 2**53),
        (float(INT_MIN), INT_MIN),
        (2.0**63, 2.0**63),  # does not fit into 64 bits, so it stays a float
        (1e300, 1e300),
        (INF, INF),
        (INT_MAX, INT_MAX),
    ],
)
def test_a_number_has_one_spelling(value, spelled):
    found = canonical_number(value)
    assert found == spelled
    assert type(found) is type(spelled)
    assert str(found) == str(spelled)


@pytest.mark.parametrize("value", [NAN, INT_MAX + 1, INT_MIN - 1, HUGE])
def test_numbers_that_no_filter_may_hold(value):
    with pytest.raises(InvalidValueError):
        canonical_number(value)


def test_number_keys_order_the_whole_line():
    line = [
        *(-INF, -1e300, -(2.0**63) - 2048, INT_MIN, INT_MIN + 1),
        *(-(2**53) - 1, -(2**53), -1.5, -1, -5e-324, 0, 5e-324, 0.5, 1),
        *(2**53 - 1, 2**53, 2**53 + 1, 2.0**53 + 2, 2**53 + 3, 2**53 + 4),
        *(INT_MAX - 1, INT_MAX, 2.0**63, 2.0**63 + 2048, 1e300, INF),
    ]
    keys = [number_key(value) for value in line]
    assert keys == sorted(set(keys))
    assert number_key(2**53 + 1) == (2.0**53, 1)
    assert number_key(INT_MAX) == (2.0**63, -1)
    assert number_key(1) == number_key(1.0)


# --- attributes of a publication -------------------------------------------------------------


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"a": 1, "b": 1.5, "c": "x", "d": True},
        {"a": NAN, "b": INF, "c": -0.0, "d": ""},
        {"a": INT_MAX, "b": INT_MIN},
        {"x" * NAME_LENGTH_MAX: "y" * STRING_LENGTH_MAX},
        {f"a{i}": i for i in range(ATTRIBUTES_MAX)},
        {"a name with spaces, \n and é": 1},
    ],
    ids=lambda attributes: str(attributes)[:40],
)
def test_what_a_publication_may_carry(attributes):
    check_attributes(attributes)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        pytest.param(attributes, message, id=message[:40])
        for attributes, message in [
            ({"a": INT_MAX + 1}, "attribute 'a': an integer of 64 bits does not fit into 64 bits"),
            ({"a": 10**5000}, "attribute 'a': an integer of 16610 bits does not fit into 64 bits"),
            ({"a": None}, "attribute 'a': None (NoneType) is not a value"),
            ({"a": "x" * (STRING_LENGTH_MAX + 1)}, "attribute 'a': a string may have at most"),
            ({"a": "\ud800"}, "attribute 'a': '\\ud800' is not valid Unicode text"),
            ({"a": "x" * 999 + "\ud800"}, "xxx… is not valid Unicode text"),
            ({"a": [1] * 999}, "1, 1, 1,… (list) is not a value: expected bool"),
            ({"": 1}, "'' is not an attribute name: expected 1 to 255 characters"),
            ({"x" * 256: 1}, "xxx… is not an attribute name"),
            ({"\udfff": 1}, "'\\udfff' is not valid Unicode text"),
            ({1: 1}, "1 is not an attribute name"),
            ({f"a{i}": i for i in range(ATTRIBUTES_MAX + 1)}, "at most 256 attributes, got 257"),
        ]
    ],
)
def test_what_it_may_not_carry_is_named(attributes, message):
    with pytest.raises(InvalidValueError) as refusal:
        check_attributes(attributes)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 300


def _verdict(check, *arguments):
    try:
        check(*arguments)
    except InvalidValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", ["", "x", "x" * NAME_LENGTH_MAX, "x" * (NAME_LENGTH_MAX + 1)])
@pytest.mark.parametrize("character", ["x", "é", "€", "\U0001f600"])
@pytest.mark.parametrize("length", [0, 1, 250, STRING_LENGTH_MAX, STRING_LENGTH_MAX + 1])
@pytest.mark.parametrize("others", [0, 80, ATTRIBUTES_MAX - 1, ATTRIBUTES_MAX])
def test_sizes_are_judged_by_the_whole_as_they_are_one_by_one(name, character, length, others):
    attributes = {name.replace("x", character): character * length}
    attributes |= {chr(0x100 + number): number for number in range(others)}
    size = len(msgspec.msgpack.encode(attributes))
    expected = _verdict(check_attributes, attributes)
    for room in (0, 1, 1_000):  # data that comes with them
        assert _verdict(check_sizes, attributes, size + room) == expected
