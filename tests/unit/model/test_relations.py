"""matches, covers, intersects and conforms, case by case (numbers are those of CASES.md)."""

import pytest

from byway.model import ANY, FALSE, TRUE, InvalidValueError, conforms, covers, intersects, parse

INF = float("inf")
NAN = float("nan")

MATCHES = [
    # text, attributes, whether it matches
    ("price = 100.3", {"price": 100.3}, True),  # case 1
    ("price = 100", {"price": 120}, False),
    ("price > 1 AND amount > 1", {"price": 5}, False),  # case 3
    ("price > 1", {"price": 5, "amount": 1}, True),
    ("sym <> 'ibm'", {"sym": "stockibm"}, True),  # case 5
    ("sym <> 'ibm'", {"sym": "ibm"}, False),
    ("price > 100", {"price": 120.5}, True),  # case 6
    ("price > 100 AND price < 200", {"price": 200}, False),
    ("price > 100 AND price < 200", {"price": 199.5}, True),
    # int and float
    ("x = 1", {"x": 1.0}, True),
    ("x = 1.5", {"x": 1.5}, True),
    ("x = 0.1", {"x": 0.1 + 1e-18}, True),
    ("x = 9007199254740993", {"x": 9007199254740993}, True),
    ("x = 9007199254740993", {"x": 9007199254740992.0}, False),
    ("x > 9007199254740992", {"x": 9007199254740993}, True),
    ("x < 9223372036854775807", {"x": 2.0**63}, False),
    ("x > 9223372036854775807", {"x": 2.0**63}, True),
    ("x <= 9223372036854775807", {"x": 2**63 - 1}, True),
    # -0.0
    ("x = 0", {"x": -0.0}, True),
    ("x >= 0", {"x": -0.0}, True),
    ("x < 0", {"x": -0.0}, False),
    ("x = -0.0", {"x": 0}, True),
    # infinities and NaN
    ("x > 1e308", {"x": INF}, True),
    ("x < INFINITY", {"x": INF}, False),
    ("x <= INFINITY", {"x": INF}, True),
    ("x = -INFINITY", {"x": -INF}, True),
    ("x <> 1", {"x": NAN}, False),
    ("NOT x = 1", {"x": NAN}, False),
    ("x >= -INFINITY", {"x": NAN}, False),
    ("x IS NOT NULL", {"x": NAN}, True),
    ("x IS NULL", {"x": NAN}, False),
    # missing attributes
    ("x <> 1", {}, False),
    ("NOT x = 1", {}, False),
    ("x IS NULL", {}, True),
    ("NOT x IS NULL", {}, False),
    ("x NOT IN (1, 2)", {}, False),
    ("x NOT LIKE 'a%'", {}, False),
    ("TRUE", {}, True),
    ("FALSE", {}, False),
    ("ANY", {"x": 1}, True),
    # kinds that differ
    ("x = 1", {"x": "1"}, False),
    ("x <> 1", {"x": "1"}, False),
    ("x = '1'", {"x": 1}, False),
    ("x < 'b'", {"x": 1}, False),
    ("x NOT LIKE 'a%'", {"x": 1}, False),
    ("x <> 'a'", {"x": True}, False),
    # booleans are not numbers
    ("x = 1", {"x": True}, False),
    ("x = TRUE", {"x": 1}, False),
    ("x >= 0", {"x": True}, False),
    ("x IN (0, 1)", {"x": False}, False),
    ("x <> TRUE", {"x": False}, True),
    ("x <> TRUE", {"x": 0}, False),
    # strings
    ("x = ''", {"x": ""}, True),
    ("x IS NOT NULL", {"x": ""}, True),
    ("x LIKE '%'", {"x": ""}, True),
    ("x LIKE 'a%b'", {"x": "ab"}, True),
    ("x LIKE 'a%b'", {"x": "a\nb"}, True),
    ("x LIKE 'A%'", {"x": "abc"}, False),
    ("x < 'b'", {"x": "a" * 999}, True),
    ("x < 'a'", {"x": "B"}, True),
    ("x > '\uffff'", {"x": "\U0001d11e"}, True),  # code points, not UTF-16
    ("x = 'é'", {"x": "e\u0301"}, False),  # nothing is normalised
    ("x LIKE '%ss'", {"x": "Straß"}, False),
    # mixed
    ("x IN (1, 'a', TRUE)", {"x": "a"}, True),
    ("x IN (1, 'a', TRUE)", {"x": True}, True),
    ("x NOT IN (1, 'a')", {"x": 2}, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "attributes", "matched"), MATCHES, ids=[f"{t} {a}"[:60] for t, a, _ in MATCHES]
)
def test_matches(text, attributes, matched):
    assert parse(text).matches(attributes) is matched


def test_only_attributes_a_filter_names_are_looked_at():
    assert parse("x = 1").matches({"x": 1, "y": None})
    with pytest.raises(InvalidValueError):
        parse("x = 1").matches({"x": None})


COVERS = [
    # wide, narrow, whether wide covers narrow
    ("x > 100", "x > 150", True),  # case 14
    ("x > 150", "x < 160", False),
    ("x > 100", "x > 100", True),
    ("x >= 100", "x > 100", True),
    ("x > 100", "x >= 100", False),
    ("x > 100", "x > 150 AND y = 1", True),
    ("x > 100 AND y = 1", "x > 150", False),
    ("x <> 5", "x > 5", True),
    ("x <> 5", "x > 4", False),
    ("x <> 5", "x IN (4, 6)", True),
    ("x BETWEEN 1 AND 9", "x IN (1, 9)", True),
    ("x > 1 AND x <> 5", "x > 2 AND x <> 5", True),
    ("x > 9007199254740992", "x >= 9007199254740993", True),
    ("x >= 9007199254740993", "x > 9007199254740992", True),
    ("x IS NOT NULL", "x = 1", True),
    ("x IS NOT NULL", "x IS NULL", False),
    ("x IS NULL", "x IS NULL", True),
    ("x IS NULL", "TRUE", False),
    ("TRUE", "x IS NULL", True),
    ("x LIKE '%'", "x = 1", False),
    ("x = TRUE", "x = 1", False),
    ("x IN (TRUE, FALSE)", "x = TRUE", True),
    ("x LIKE 'a%'", "x LIKE 'ab%'", True),
    ("x LIKE '%b%'", "x LIKE 'ab%'", True),
    ("x LIKE '%b%'", "x LIKE '%abc'", True),
    ("x LIKE 'a%'", "x LIKE '%a%'", False),
    ("x >= 'a'", "x LIKE 'ab%'", True),
    ("x < 'b'", "x LIKE 'ab%'", True),
    ("x < 'abc'", "x LIKE 'ab%'", False),
    ("x > 'ab'", "x LIKE 'ab%' AND x <> 'ab'", True),
    ("x LIKE 'ab%'", "x BETWEEN 'aba' AND 'abz'", True),
    ("x LIKE '%b%'", "x BETWEEN 'aba' AND 'abz'", True),
    ("x < 'b'", "x <= 'b'", False),
    ("x <= 'b'", "x < 'b'", True),
    ("x > 'b'", "x >= 'b'", False),
    ("x NOT LIKE 'a%'", "x >= 'ab'", False),
    ("x NOT LIKE 'ab%'", "x <= 'ab'", False),
    ("x NOT LIKE 'ab%'", "x < 'ab'", True),
    ("x NOT LIKE 'a%'", "x LIKE 'b%'", True),
    ("x NOT LIKE 'a%'", "x > 'b'", True),
    ("x NOT LIKE 'a%'", "x NOT LIKE '%a%'", True),
    ("x NOT LIKE '%abc%'", "x NOT LIKE '%b%'", True),
    ("x <> 'ibm'", "x LIKE '%stock'", True),
    ("x <> 'ibm'", "x LIKE '%ibm'", False),
    ("x > 1 OR y > 1", "x > 2 OR y > 2", True),
    ("x > 1 OR y > 1", "x > 2 AND y > 2", True),
    ("x > 1", "x > 2 OR y > 2", False),
    ("FALSE", "x = 1", False),
    ("x = 1", "FALSE", True),
    ("ANY", "TRUE", True),
    ("TRUE", "ANY", True),
    ("ANY", "x = 1", True),
    ("x IS NOT NULL", "ANY", False),
    # Safe, not exact: the docs list these.
    ("x < 5 OR x >= 5", "x < 9", False),
    ("x IN (1, 2)", "x = 1 OR x = 2", True),
    ("x = 9007199254740993", "x > 9007199254740992 AND x < 9007199254740994", False),
    ("x >= 5e-324", "x > 0", False),
    ("x LIKE 'a%'", "x >= 'a' AND x < 'b'", False),
    ("x >= 'b'", "x >= 'ab' AND x NOT LIKE 'a%'", False),
]  # fmt: skip


@pytest.mark.parametrize(("wide", "narrow", "covered"), COVERS)
def test_covers(wide, narrow, covered):
    assert covers(parse(wide), parse(narrow)) is covered


INTERSECTS = [
    # advertisement, subscription, whether some conforming publication matches
    ("price = 100.3", "price = 100.3", True),  # case 1
    ("price > 100", "price = 100", False),
    ("price < 100 AND amount < 100", "price > 100 AND amount < 60", False),  # case 4
    ("price < 100 AND amount < 100", "price > 90 AND amount < 60", True),
    ("sym LIKE '%ibm'", "sym <> 'ibm'", True),  # case 5
    ("price > 100", "price < 200", True),  # case 9
    ("price > 100", "price < 50", False),
    ("price > 100 OR price < 50", "price = 70", False),
    ("price > 100 OR price < 50", "price = 170", True),
    ("x = 1", "y = 1", False),  # an attribute that is not advertised is never there
    ("x = 1", "x = 1 AND y IS NOT NULL", False),
    ("x = 1", "x = 1 AND y IS NULL", True),
    ("x = 1", "x IS NULL", True),  # it may be left out
    ("x IS NULL", "x = 1", False),
    ("x IS NULL", "x IS NOT NULL", False),
    ("x IS NULL", "TRUE", True),
    ("x IS NOT NULL", "x = 'a'", True),
    ("x = 1", "TRUE", True),
    ("x = 1", "FALSE", False),
    ("x = 1", "ANY", True),
    ("TRUE", "x = 1", False),  # TRUE advertises nothing but the empty publication
    ("TRUE", "x IS NULL", True),
    ("TRUE", "TRUE", True),
    ("FALSE", "TRUE", False),
    ("ANY", "x = 1", True),
    ("ANY", "FALSE", False),
    ("x = 1 AND y = 1", "x = 1 OR z = 1", True),
    ("x = 1 OR y = 1", "x = 1 AND y = 1", False),  # never both in one publication
    ("x LIKE 'a%'", "x LIKE '%b'", True),
    ("x LIKE 'a%'", "x LIKE 'b%'", False),
    ("x LIKE 'a%'", "x NOT LIKE '%a%'", False),
    ("x LIKE 'a%'", "x < 'a'", False),
    ("x BETWEEN 'aba' AND 'abz'", "x NOT LIKE 'ab%'", False),
    ("x = TRUE", "x = 1", False),
    ("x > 1", "x < 1", False),
    ("x >= 1", "x <= 1", True),
    ("x <> 1", "x = 1", False),
    ("x > 9007199254740992", "x < 9007199254740993", False),
    # Safe, not exact: the docs list these.
    ("x > 0", "x < 5e-324", True),
    ("x >= 'a' AND x < 'b'", "x NOT LIKE 'a%'", True),
]  # fmt: skip


@pytest.mark.parametrize(("advertisement", "subscription", "meets"), INTERSECTS)
def test_intersects(advertisement, subscription, meets):
    assert intersects(parse(advertisement), parse(subscription)) is meets


CONFORMS = [
    # attributes, advertisement, whether they conform
    ({"price": 120}, "price > 100", True),
    ({"price": 90}, "price > 100", False),
    ({"price": 120}, "price > 100 AND amount > 0", True),  # case 2: fewer attributes
    ({}, "price > 100 AND amount > 0", True),
    ({"price": 120, "amount": 1, "sym": "x"}, "price > 100 AND amount > 0", False),  # an extra one
    ({"price": 120, "amount": 0}, "price > 100 AND amount > 0", False),
    ({"price": "120"}, "price > 100", False),
    ({"price": NAN}, "price > 100", False),
    ({"price": NAN}, "price IS NOT NULL", True),
    ({"price": 1}, "price IS NULL", False),
    ({}, "price IS NULL", True),
    ({"a": 1}, "a = 1 OR b = 2", True),
    ({"a": 1, "b": 2}, "a = 1 OR b = 2", False),
    ({"a": 1, "b": 2}, "a = 1 AND b = 2 OR c = 3", True),
    ({}, "TRUE", True),
    ({"a": 1}, "TRUE", False),
    ({}, "FALSE", False),
    ({}, "ANY", True),
    ({"a": 1, "b": NAN}, "ANY", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "advertisement", "conforming"),
    CONFORMS,
    ids=[f"{attributes} {text}" for attributes, text, _ in CONFORMS],
)
def test_conforms(attributes, advertisement, conforming):
    assert conforms(attributes, parse(advertisement)) is conforming


def test_constants_are_what_their_texts_say():
    assert (parse("TRUE"), parse("FALSE"), parse("ANY")) == (TRUE, FALSE, ANY)
