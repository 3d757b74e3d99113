"""Refused texts: where, what was expected, and a caret under it."""

import pytest

from byway.model import BywayError, FilterError, FilterLimitError, FilterSyntaxError, parse
from byway.model.errors import DuplicateKeyError, UnknownKeyError, shortened

OPERAND = "an attribute name, NOT, TRUE, FALSE, EXISTS or ("
AFTER_NAME = "a comparison operator, IN, LIKE, BETWEEN, IS or NOT after the attribute name"
VALUE = "a number, a quoted string, TRUE or FALSE"
CHARACTER = "a name, a value, an operator or a parenthesis"
NUMBER = "a number such as 18, 18.5 or 1e6"
INT = "an integer of at most 64 bits"
NAME = "a name of 1 to 255 characters"
LIKE_FORM = "a LIKE pattern of the form 'a%', '%a', '%a%' or 'a%b'"
ESCAPED = "%, _ or the escape character after the escape character"
NO_ORDER = "= or <>: booleans have no order"
BRACKET_OPERATOR = "=, <>, <, <=, >, >=, str-prefix, str-suffix, str-contains or isPresent"

# Each text with a caret under the place; what was expected; what was found.
REFUSED = [
    ("", 0, OPERAND, "the end"),
    ("   ", 3, OPERAND, "the end"),
    ("price", 5, AFTER_NAME, "the end"),
    ("price 18", 6, AFTER_NAME, "18"),
    ("price >", 7, VALUE, "the end"),
    ("price > 18 AND", 14, OPERAND, "the end"),
    ("AND a = 1", 0, OPERAND, "'AND'"),
    ("a = 1 AND OR b = 2", 10, OPERAND, "'OR'"),
    ("NOT", 3, OPERAND, "the end"),
    ("()", 1, OPERAND, "')'"),
    ("a = 1)", 5, "AND, OR or the end", "')'"),
    ("(a = 1 b = 2)", 7, "AND, OR or )", "'b'"),
    ("a = 1 b = 2", 6, "AND, OR or the end", "'b'"),
    ("b = 2 AND (a = 1", 10, "a closing ) for this parenthesis", "the end"),
    ("((a = 1)", 0, "a closing ) for this parenthesis", "the end"),
    ("TRUE IN (1)", 5, "AND, OR or the end", "'IN'"),
    ("ANY AND a = 1", 0, "a predicate (ANY stands alone, as an advertisement)", "'ANY'"),
    ("a = 'x", 4, "a closing ' for this string", "the end"),
    ("a = 'it''s", 4, "a closing ' for this string", "the end"),
    ('a = 1 AND "b', 10, 'a closing " for this quoted name', "the end"),
    ("a ~ 1", 2, CHARACTER, "'~'"),
    ("a = 1; DROP TABLE b", 5, CHARACTER, "';'"),
    ("a = 1\u00a0AND b = 2", 5, CHARACTER, "'\\xa0'"),
    ("a = '\ud800'", 5, "valid Unicode text", "the lone surrogate '\\ud800'"),
    ("a = 5x", 4, NUMBER, None),
    ("a = 1..2", 4, NUMBER, None),
    ("a = .", 4, NUMBER, None),
    ("a = 9223372036854775808", 4, INT, "9223372036854775808"),
    ("a = -9223372036854775809", 4, INT, "-9223372036854775809"),
    ("a = " + "1" * 99, 4, INT, "1" * 40),
    ("a = 1e999", 4, "a number below 1.8e308 or INFINITY", "1e999"),
    ("a = - -5", 4, VALUE, "'-'"),
    ("a = - 'x'", 4, VALUE, "'-'"),
    ("a = b", 4, VALUE, "'b'"),
    ("a = NULL", 4, VALUE, "'NULL'"),
    ("a = NaN", 4, VALUE, "'NaN'"),
    ("a < TRUE", 2, NO_ORDER, None),
    ("NOT a >= FALSE", 6, NO_ORDER, None),
    ("5", 1, "a comparison operator", "the end"),
    ("5 = 5", 4, "an attribute name", "5"),
    ("5 LIKE 'a'", 2, "a comparison operator", "'LIKE'"),
    ("'x' = '" + "y" * 99 + "'", 6, "an attribute name", "'" + "y" * 38 + "…"),
    ("EXISTS 5", 7, "an attribute name", "5"),
    ("EXISTS (a", 9, ")", "the end"),
    ("a IS 5", 5, "NULL or EXISTS", "5"),
    ("a NOT = 5", 6, "IN, LIKE or BETWEEN", "'='"),
    ("a IN 1", 5, "(", "1"),
    ("a IN ()", 6, VALUE, "')'"),
    ("a IN (1 2)", 8, "a comma or )", "2"),
    ("a IN (1,", 8, VALUE, "the end"),
    ("a BETWEEN 1 OR 2", 12, "AND", "'OR'"),
    ("a BETWEEN 1 AND 'x'", 2, "two bounds of one kind for BETWEEN", None),
    ("a BETWEEN TRUE AND FALSE", 2, "numbers or strings for BETWEEN: booleans have no order", None),
    ("a LIKE 5", 7, "a quoted LIKE pattern", "5"),
    ("a LIKE 'a_b'", 7, "a LIKE pattern without _ (only % is a wildcard here)", None),
    ("a LIKE 'a%b%c'", 7, LIKE_FORM, None),
    ("a LIKE '%a%b'", 7, LIKE_FORM, None),
    ("a LIKE 'a%b%'", 7, LIKE_FORM, None),
    ("a LIKE 'a!' ESCAPE '!'", 7, ESCAPED, None),
    ("a LIKE 'a!b' ESCAPE '!'", 7, ESCAPED, None),
    ("a LIKE 'a' ESCAPE 'ab'", 18, "a quoted single character after ESCAPE", "'ab'"),
    ("a LIKE 'a' ESCAPE ''", 18, "a quoted single character after ESCAPE", "''"),
    ('"" = 1', 0, NAME, None),
    ("b = 1 AND " + "x" * 256 + " = 1", 10, NAME, None),
    ("[", 1, "an attribute name", "the end"),
    ("[a", 2, "a comma", "the end"),
    ("[a,", 3, "an operator", "the end"),
    ("[a,~,1]", 3, BRACKET_OPERATOR, "'~'"),
    ("[a,=,", 5, "a value", "the end"),
    ("[a,=,]", 5, "a value", "']'"),
    ("[a,=,1", 6, "]", "the end"),
    ("[a,=,1]x", 7, "a comma or the end", "'x'"),
    ("[a,=,1] AND b = 2", 8, "a comma or the end", "'A'"),
    ("[a,=,1],", 8, "[", "the end"),
    ("[,=,1]", 1, "an attribute name", "','"),
    ("[a,=,'x]", 5, "a closing ' for this string", "the end"),
    ("[a,<, true]", 6, NO_ORDER, None),
    ("[a,str-prefix,5]", 14, "a quoted string after str-prefix", None),
    ("[a,str-eq,TRUE]", 10, "a quoted string after str-eq", None),
    ("[b,=,1],[ '',=,1]", 10, NAME, None),
    ("[a,=,9223372036854775808]", 5, INT, "9223372036854775808"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"), REFUSED, ids=[repr(case[0])[:40] for case in REFUSED]
)
def test_a_refusal_tells_where_and_what(text, position, expected, found):
    with pytest.raises(FilterSyntaxError) as refusal:
        parse(text)
    error = refusal.value
    assert (error.position, error.expected, error.found) == (position, expected, found)
    assert error.text == text
    first, shown, caret = str(error).split("\n")
    got = "" if found is None else f", found {found}"
    assert first == f"at character {position + 1}: expected {expected}{got}"
    assert caret.strip() == "^"
    under = shown[len(caret) - 1 :]
    assert under == "" if position == len(text) else under[0] in (text[position], " ")


def test_the_whole_message():
    with pytest.raises(FilterSyntaxError) as refusal:
        parse("price > 18 AND symbol LIKE 5")
    assert str(refusal.value) == (
        "at character 28: expected a quoted LIKE pattern, found 5\n"
        "  price > 18 AND symbol LIKE 5\n"
        "                             ^"
    )


def test_a_long_text_is_shown_around_the_place():
    text = "a = 1 AND " * 20 + "b ~ 1" + " AND a = 1" * 20
    with pytest.raises(FilterSyntaxError) as refusal:
        parse(text)
    _, shown, caret = str(refusal.value).split("\n")
    assert shown.startswith("  …")
    assert shown.endswith("…")
    assert len(shown) < 130
    assert shown[caret.index("^")] == "~"


def test_line_breaks_do_not_move_the_caret():
    with pytest.raises(FilterSyntaxError) as refusal:
        parse("a = 1\nAND\tb ~ 1")
    assert str(refusal.value).split("\n")[1:] == ["  a = 1 AND b ~ 1", "              ^"]


@pytest.mark.parametrize("pattern", ["a%a", "aba%aba", "abc%bcd", "aa%aab", "x" * 99 + "%x"])
def test_patterns_whose_ends_could_overlap_are_refused(pattern):
    with pytest.raises(FilterSyntaxError, match="could share characters") as refusal:
        parse(f"a LIKE '{pattern}'")
    assert refusal.value.position == 7
    assert len(refusal.value.expected) < 160


def test_every_filter_error_is_a_byway_error_and_a_value_error():
    for kind in (FilterSyntaxError, FilterLimitError):
        assert issubclass(kind, FilterError)
    assert issubclass(FilterError, BywayError)
    assert issubclass(FilterError, ValueError)


def test_limit_errors_tell_the_bound_and_what_was_found():
    error = FilterLimitError("tokens", 4096)
    assert (error.what, error.limit, error.actual) == ("tokens", 4096, None)
    assert str(error) == "a filter may have at most 4096 tokens"
    assert str(FilterLimitError("characters", 10, 12)) == (
        "a filter may have at most 10 characters, this one has 12"
    )


def test_key_errors_read_as_sentences():
    assert str(DuplicateKeyError(7)).startswith("key 7 is in the index already")
    assert str(UnknownKeyError(7)) == "key 7 is not in the index"


def test_what_a_message_quotes_is_short():
    assert shortened("x" * 40) == "x" * 40
    assert shortened("x" * 41) == "x" * 39 + "…"
