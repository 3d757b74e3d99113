"""What each construct of the two grammars means."""

import pytest

from byway.model import ANY, FALSE, TRUE, Filter, parse
from byway.model.constraints import (
    ABSENT,
    ANY_BOOLEAN,
    ANY_NUMBER,
    ANY_STRING,
    EXISTS,
    BoolSet,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
)

INF = float("inf")


def where(**constraints):
    return Filter.where(constraints)


# --- one predicate ---------------------------------------------------------------------------

PREDICATES = [
    ("x = 1", NumberSet((1,))),
    ("x = 1.0", NumberSet((1,))),
    ("x = -0.0", NumberSet((0,))),
    ("x = 1e3", NumberSet((1000,))),
    ("x = .5", NumberSet((0.5,))),
    ("x = 5.", NumberSet((5,))),
    ("x = +5", NumberSet((5,))),
    ("x = - 5", NumberSet((-5,))),
    ("x = 007", NumberSet((7,))),
    ("x = 9223372036854775807", NumberSet((2**63 - 1,))),
    ("x = -9223372036854775808", NumberSet((-(2**63),))),
    ("x = INFINITY", NumberSet((INF,))),
    ("x = -infinity", NumberSet((-INF,))),
    ("x = 'it''s'", StringSet(("it's",))),
    ("x = ''", StringSet(("",))),
    ("x = 'TRUE'", StringSet(("TRUE",))),
    ("x = TRUE", BoolSet((True,))),
    ("x = false", BoolSet((False,))),
    ("x <> 1", NumberRange(excluded=(1,))),
    ("x != 1", NumberRange(excluded=(1,))),
    ("x <> 'a'", StringPattern(excluded=("a",))),
    ("x <> TRUE", BoolSet((False,))),
    ("x < 1", NumberRange(high=1, high_open=True)),
    ("x <= 1", NumberRange(high=1)),
    ("x > 1", NumberRange(low=1, low_open=True)),
    ("x >= 1", NumberRange(low=1)),
    ("1 < x", NumberRange(low=1, low_open=True)),
    ("1 >= x", NumberRange(high=1)),
    ("1 <> x", NumberRange(excluded=(1,))),
    ("TRUE = x", BoolSet((True,))),
    ("- 5 = x", NumberSet((-5,))),
    ("x < 'b'", StringPattern(high="b", high_open=True)),
    ("x <= 'b'", StringPattern(high="b")),
    ("x > 'b'", StringPattern(low="b", low_open=True)),
    ("x >= 'b'", StringPattern(low="b")),
    ("x <= ''", StringSet(("",))),
    ("x >= ''", ANY_STRING),
    ("x > ''", StringPattern(excluded=("",))),
    ("x <= INFINITY", ANY_NUMBER),
    ("x < INFINITY", NumberRange(high=INF, high_open=True)),
    ("x >= INFINITY", NumberSet((INF,))),
    ("x BETWEEN 1 AND 2", NumberRange(low=1, high=2)),
    ("x BETWEEN 2 AND 2", NumberSet((2,))),
    ("x BETWEEN 'a' AND 'b'", StringPattern(low="a", high="b")),
    ("x IN (1)", NumberSet((1,))),
    ("x IN (2, 1, 2.0)", NumberSet((1, 2))),
    ("x IN ('b', 'a')", StringSet(("a", "b"))),
    ("x IN (TRUE, FALSE)", ANY_BOOLEAN),
    ("x NOT IN (1, 2)", NumberRange(excluded=(1, 2))),
    ("x NOT IN ('a')", StringPattern(excluded=("a",))),
    ("x NOT IN (TRUE)", BoolSet((False,))),
    ("x LIKE 'a%'", StringPattern(prefix="a")),
    ("x LIKE '%a'", StringPattern(suffix="a")),
    ("x LIKE '%a%'", StringPattern(contains=("a",))),
    ("x LIKE 'a%b'", StringPattern(prefix="a", suffix="b")),
    ("x LIKE 'a'", StringSet(("a",))),
    ("x LIKE ''", StringSet(("",))),
    ("x LIKE '%'", ANY_STRING),
    ("x LIKE '%%'", ANY_STRING),
    ("x NOT LIKE 'a%'", StringPattern(not_prefix=("a",))),
    ("x NOT LIKE '%a'", StringPattern(not_suffix=("a",))),
    ("x NOT LIKE '%a%'", StringPattern(not_contains=("a",))),
    ("x NOT LIKE 'a'", StringPattern(excluded=("a",))),
    ("x IS NULL", ABSENT),
    ("x IS NOT NULL", EXISTS),
    ("x IS EXISTS", EXISTS),
    ("x IS NOT EXISTS", ABSENT),
    ("x EXISTS", EXISTS),
    ("EXISTS x", EXISTS),
    ("EXISTS(x)", EXISTS),
    ("NOT EXISTS x", ABSENT),
]


@pytest.mark.parametrize(("text", "constraint"), PREDICATES, ids=lambda case: str(case)[:40])
def test_one_predicate(text, constraint):
    assert parse(text) == where(x=constraint)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("TRUE", TRUE),
        ("FALSE", FALSE),
        ("NOT FALSE", TRUE),
        ("ANY", ANY),
        (" any ", ANY),
        ("x < ''", FALSE),
        ("x > INFINITY", FALSE),
        ("x < -INFINITY", FALSE),
        ("x BETWEEN 2 AND 1", FALSE),
        ("x BETWEEN 'b' AND 'a'", FALSE),
        ("x NOT IN (TRUE, FALSE)", FALSE),
        ("x NOT LIKE '%'", FALSE),
        ("x NOT IN (1, 'a')", FALSE),  # no value is both not the number and not the string
    ],
)
def test_constants_and_what_can_never_match(text, meaning):
    assert parse(text) == meaning


# --- NOT: pushed inwards, true of nothing that is missing or of another kind -----------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("NOT x = 1", "x <> 1"),
        ("NOT x <> 1", "x = 1"),
        ("NOT x < 1", "x >= 1"),
        ("NOT x <= 1", "x > 1"),
        ("NOT x > 1", "x <= 1"),
        ("NOT x >= 'a'", "x < 'a'"),
        ("NOT 1 < x", "x <= 1"),
        ("NOT x = TRUE", "x = FALSE"),
        ("NOT x IN (1, 2)", "x NOT IN (1, 2)"),
        ("NOT x NOT IN (1, 2)", "x IN (1, 2)"),
        ("NOT x LIKE 'a%'", "x NOT LIKE 'a%'"),
        ("NOT x NOT LIKE 'a%'", "x LIKE 'a%'"),
        ("x NOT LIKE 'a%b'", "x NOT LIKE 'a%' OR x NOT LIKE '%b'"),
        ("x NOT BETWEEN 1 AND 2", "x < 1 OR x > 2"),
        ("x NOT BETWEEN 2 AND 1", "x < 2 OR x > 1"),
        ("NOT x NOT BETWEEN 1 AND 2", "x BETWEEN 1 AND 2"),
        ("NOT x IS NULL", "x IS NOT NULL"),
        ("NOT x IS NOT NULL", "x IS NULL"),
        ("NOT x EXISTS", "x IS NULL"),
        ("NOT NOT x = 1", "x = 1"),
        ("NOT (x = 1)", "x <> 1"),
        ("NOT (NOT (x = 1))", "x = 1"),
        ("NOT (x = 1 AND y = 2)", "x <> 1 OR y <> 2"),
        ("NOT (x = 1 OR y = 2)", "x <> 1 AND y <> 2"),
        ("NOT (x = 1 AND NOT (y = 2 OR z = 3))", "x <> 1 OR y = 2 OR z = 3"),
        ("NOT (x = 1 OR y = 2 AND z = 3)", "x <> 1 AND (y <> 2 OR z <> 3)"),
        ("NOT x = 1 AND y = 2", "(x <> 1) AND y = 2"),
        ("NOT TRUE OR x = 1", "x = 1"),
    ],
)
def test_not_is_pushed_inwards(text, same):
    assert parse(text) == parse(same)


@pytest.mark.parametrize("value", [None, "a", True, float("nan")])
@pytest.mark.parametrize(
    "text", ["x = 1", "x <> 1", "x < 1", "x >= 1", "x IN (1, 2)", "x BETWEEN 0 AND 5"]
)
def test_neither_a_predicate_nor_its_negation_is_true_of_another_kind(text, value):
    attributes = {} if value is None else {"x": value}
    assert not parse(text).matches(attributes)
    assert not parse(f"NOT ({text})").matches(attributes)


# --- joining ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
        ("a = 1 AND b = 2 OR c = 3", "(a = 1 AND b = 2) OR c = 3"),
        ("a BETWEEN 1 AND 2 AND b = 3", "(a BETWEEN 1 AND 2) AND (b = 3)"),
        ("(a = 1 OR b = 2) AND c = 3", "a = 1 AND c = 3 OR b = 2 AND c = 3"),
        ("(a = 1 OR b = 2) AND (c = 3 OR d = 4)",
         "a=1 AND c=3 OR a=1 AND d=4 OR b=2 AND c=3 OR b=2 AND d=4"),
        ("((a = 1))", "a = 1"),
        ("a = 1 AND TRUE", "a = 1"),
        ("a = 1 AND FALSE", "FALSE"),
        ("a = 1 OR TRUE", "TRUE"),
        ("a = 1 OR FALSE", "a = 1"),
        ("a = 1 AND a = 2", "FALSE"),
        ("a = 1 AND a = '1'", "FALSE"),
        ("a IS NULL AND a = 1", "FALSE"),
        ("a IS NOT NULL AND a = 1", "a = 1"),
        ("a IS NULL AND a IS NOT NULL", "FALSE"),
        ("price > 100 AND price < 200", "200 > price AND 100 < price"),
        ("a > 1 AND a > 2 AND a <= 5 AND a < 9", "a > 2 AND a <= 5"),
        ("a >= 1 AND a <= 1", "a = 1"),
        ("a >= 1 AND a <> 1", "a > 1"),
        ("a >= 'b' AND a <> 'b'", "a > 'b'"),
        ("a <= 'b' AND a <> 'b'", "a < 'b'"),
        ("a IN (1, 2, 3) AND a > 1", "a IN (2, 3)"),
        ("a IN (1, 'x')", "a = 1 OR a = 'x'"),
        ("a LIKE 'ab%' AND a LIKE 'a%'", "a LIKE 'ab%'"),
        ("a LIKE 'ab%' AND a LIKE 'b%'", "FALSE"),
        ("a LIKE 'ab%' AND a >= 'a'", "a LIKE 'ab%'"),
        ("a LIKE 'ab%' AND a < 'b'", "a LIKE 'ab%'"),
        ("a LIKE 'ab%' AND a < 'ab'", "FALSE"),
        ("a LIKE 'ab%' AND a < 'aa'", "FALSE"),
        ("a LIKE 'ab%' AND a <= 'ab'", "a = 'ab'"),
        ("a LIKE 'ab%' AND a >= 'abc' AND a <= 'ab'", "FALSE"),
        ("a LIKE 'ab%' AND a > 'ab'", "a LIKE 'ab%' AND a <> 'ab'"),
        ("a LIKE 'ab%' AND a <= 'abz'", "a BETWEEN 'ab' AND 'abz'"),
        ("a LIKE 'ab%' AND a NOT LIKE 'a%'", "FALSE"),
        ("a LIKE '%xyz%' AND a LIKE '%y%'", "a LIKE '%xyz%'"),
        ("a LIKE '%xyz%' AND a NOT LIKE '%y%'", "FALSE"),
        ("a NOT LIKE '%y%' AND a NOT LIKE '%xyz%'", "a NOT LIKE '%y%'"),
        ("a NOT LIKE 'b%' AND a <= 'bcd'", "a < 'b'"),
        ("a <> 'x' AND a LIKE 'y%'", "a LIKE 'y%'"),
    ],
)  # fmt: skip
def test_joining(text, same):
    assert parse(text) == parse(same)


@pytest.mark.parametrize(
    "text",
    [
        "a=1 and b=2",
        "a\t=\n1\r\n AND\f b\v=2",
        '"a" = 1 AnD ("b"=2)',
        "(a=1)AND(b=2)",
    ],
)
def test_blanks_case_and_quotes_do_not_matter(text):
    assert parse(text) == parse("a = 1 AND b = 2")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("price = 1", "price"),
        ("Price = 1", "Price"),
        ("a.b$c%d_e = 1", "a.b$c%d_e"),
        ("_x = 1", "_x"),
        ("größe = 1", "größe"),
        ("価格 = 1", "価格"),
        ('"two words" = 1', "two words"),
        ('"say ""hi""" = 1', 'say "hi"'),
        ('"and" = 1', "and"),
        ('"NULL" = 1', "NULL"),
        ('"5" = 1', "5"),
        ("ın = 1", "ın"),  # its capitals would be IN, but it is no keyword
        ("nan = 1", "nan"),
    ],
)
def test_names(text, name):
    f = parse(text)
    assert f.attributes() == (name,)
    assert parse(str(f)) == f


# --- LIKE ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "escape", "constraint"),
    [
        ("50!%%", "!", StringPattern(prefix="50%")),
        ("%!_x", "!", StringPattern(suffix="_x")),
        ("%!!%", "!", StringPattern(contains=("!",))),
        ("a!%b", "!", StringSet(("a%b",))),
        ("100%%", "%", StringSet(("100%",))),
        ("a\\%%", "\\", StringPattern(prefix="a%")),
        ("''''%", "''", StringPattern(prefix="'")),
        ("a%%%b", None, StringPattern(prefix="a", suffix="b")),
        ("%%a%%", None, StringPattern(contains=("a",))),
        ("aab%abb", None, None),
        ("aba%aba", None, None),
        ("a%a", None, None),
        ("abc%cab", None, None),
        ("ab%ba", None, None),
        ("ab%ab", None, None),
        ("ab%cd", None, StringPattern(prefix="ab", suffix="cd")),
        ("ba%ab", None, None),
        ("aab%aac", None, StringPattern(prefix="aab", suffix="aac")),
    ],
)
def test_like_reduces_or_is_refused(pattern, escape, constraint):
    text = f"x LIKE '{pattern}'" + (f" ESCAPE '{escape}'" if escape else "")
    if constraint is None:
        with pytest.raises(ValueError, match="could share characters"):
            parse(text)
    else:
        assert parse(text) == where(x=constraint)


# --- brackets --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("[class,=,'STOCK'],[price,>,18]", "class = 'STOCK' AND price > 18"),
        ("[class,eq,STOCK],[price,>,18]", "class = 'STOCK' AND price > 18"),
        (" [ class , = , 'STOCK' ] , [ price , > , 18 ] ", "class = 'STOCK' AND price > 18"),
        ("[x,==,1]", "x = 1"),
        ("[x,eq,1]", "x = 1"),
        ("[x,neq,1]", "x <> 1"),
        ("[x,<>,1]", "x <> 1"),
        ("[x,!=,1]", "x <> 1"),
        ("[x,<,1.5]", "x < 1.5"),
        ("[x,<=,-1]", "x <= -1"),
        ("[x,>=,1e3]", "x >= 1000"),
        ("[x,lt,1]", "x < 1"),
        ("[x,le,1]", "x <= 1"),
        ("[x,gt,1]", "x > 1"),
        ("[x,ge,1]", "x >= 1"),
        ("[x,=,true]", "x = TRUE"),
        ("[x,=,'true']", "x = 'true'"),
        ("[x,<,INFINITY]", "x < INFINITY"),
        ("[x,>,-infinity]", "x > -INFINITY"),
        ("[x,=,12ab]", "x = '12ab'"),
        ("[x,=,2024-01-31]", "x = '2024-01-31'"),
        ("[x,=,\"a\"]", "x = 'a'"),
        ("[\"two words\",=,1]", "\"two words\" = 1"),
        ("[x,=,'it''s']", "x = 'it''s'"),
        ("[x,str-eq,abc]", "x = 'abc'"),
        ("[x,str-neq,abc]", "x <> 'abc'"),
        ("[x,str-lt,abc]", "x < 'abc'"),
        ("[x,str-le,abc]", "x <= 'abc'"),
        ("[x,str-gt,abc]", "x > 'abc'"),
        ("[x,str-ge,abc]", "x >= 'abc'"),
        ("[x,str-prefix,'a%']", "x LIKE 'a!%%' ESCAPE '!'"),
        ("[x,str-suffix,a]", "x LIKE '%a'"),
        ("[x,str-postfix,'ibm']", "x LIKE '%ibm'"),
        ("[x,STR-CONTAINS,a]", "x LIKE '%a%'"),
        ("[x,str-prefix,'']", "x LIKE '%'"),
        ("[x,isPresent]", "x IS NOT NULL"),
        ("[x,isPresent ]", "x IS NOT NULL"),
        ("[x,isPresent,1]", "x IS NOT NULL"),
        ("[x,isPresent , 1]", "x IS NOT NULL"),
        ("[x,>,1],[x,<,2]", "x > 1 AND x < 2"),
        ("[x,>,2],[x,<,1]", "FALSE"),
        ("[x,<,-INFINITY]", "FALSE"),
    ],
)  # fmt: skip
def test_brackets(text, same):
    assert parse(text) == parse(same)
