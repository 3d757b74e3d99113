"""No text, however hostile, raises anything but FilterError or costs more than its length allows.

Work is counted in calls, not in seconds.
"""

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.model import Filter, FilterError, FilterSyntaxError, parse
from byway.model.filters import ALTERNATIVES_MAX, CANDIDATES_MAX, TERMS_MAX
from byway.model.scanning import KEYWORDS, TEXT_LENGTH_MAX

PIECES = (
    *sorted(KEYWORDS),
    *("(", ")", ",", "[", "]", "+", "-", "=", "<>", "!=", "<", "<=", ">", ">=", "==", "str-prefix"),
    *(
        "x",
        "y",
        "class",
        '"a b"',
        '""',
        '"',
        "'",
        "''",
        "'a'",
        "'%'",
        "'a%'",
        "'%a%'",
        "'_'",
        "'\\'",
    ),
    *("1", "-1", "1.5", "1e5", "1e999", ".", "5x", "9223372036854775808", "9" * 5000, "INFINITY"),
    *("%", "_", "\\", "\n", "\0", "é", "ı", "²", "\ud800", "\U0001d11e", " ", ";", "--", "/*"),
)


def parse_or_refuse(text: str) -> Filter | None:
    try:
        return parse(text)
    except FilterError as error:
        refusal = error
    assert len(str(refusal)) < 500
    if isinstance(refusal, FilterSyntaxError):
        assert 0 <= refusal.position <= len(text)
        assert refusal.expected
        assert "^" in str(refusal)
    return None


@given(st.text(alphabet=st.characters(), max_size=60))
def test_any_text_is_a_filter_or_a_filter_error(text: str) -> None:
    parse_or_refuse(text)


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(("", " ")))
def test_any_tokens_are_a_filter_or_a_filter_error(pieces: list[str], glue: str) -> None:
    f = parse_or_refuse(glue.join(pieces))
    if f is not None:
        assert parse(str(f)) == f


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_any_brackets_are_a_filter_or_a_filter_error(pieces: list[str]) -> None:
    f = parse_or_refuse("[x,=,1],[" + "".join(pieces))
    if f is not None:
        assert parse(str(f)) == f


# --- work grows with the text, never faster ----------------------------------------------------


def work_of(text: str) -> int:
    """How many calls, Python's and C's, one parse makes."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        parse_or_refuse(text)
    finally:
        sys.setprofile(before)
    return calls


def joined(word: str, part: str) -> Callable[[int], str]:
    return lambda n: f" {word} ".join(part.format(i=i, j=i % 7) for i in range(n))


def nested(n: int) -> str:
    return "(" * n + "x > 0" + "".join(f" OR y{i} > 0)" for i in range(n))


def distributed(n: int) -> str:
    """n products of 2**5 alternatives each, all of them the same."""
    product = " AND ".join(f"(a{i} > 1 OR b{i} > 1)" for i in range(5))
    return " OR ".join([f"({product})"] * n)


def absorbing(n: int) -> str:
    return " AND ".join(f"(x > {i} OR y > {i})" for i in range(n))


FAMILIES: dict[str, Callable[[int], str]] = {
    "and": joined("AND", "x > {i}"),
    "and of names": joined("AND", "x{i} > 1"),
    "and of holes": joined("AND", "x <> {i}"),
    "and of text holes": joined("AND", "x <> '{i}'"),
    "and of parts": joined("AND", "x LIKE '%p{i}q%'"),
    "and of forbidden parts": joined("AND", "x NOT LIKE '%p{i}q%'"),
    "and of forbidden prefixes": joined("AND", "x NOT LIKE 'p{i}q%'"),
    "and of forbidden pairs": joined("AND", "x NOT LIKE 'p{i}%s{i}'"),
    "and of equal parts": joined("AND", "x NOT LIKE '%p{j}q%'"),
    "or of ranges": joined("OR", "x > {i}"),
    "or of equals": joined("OR", "x = {i}"),
    "or of names": joined("OR", "x{i} = 1"),
    "or of few names": joined("OR", "x{j} > {i}"),
    "or of texts": joined("OR", "x LIKE 'p{i}%'"),
    "or of equals and ranges": joined("OR", "x = {i} OR x > {i}"),
    "or of conjunctions": joined("OR", "x > {i} AND y{j} < {i}"),
    "not": lambda n: "NOT " * n + "x = 1",
    "not of or": lambda n: "NOT (" + joined("OR", "x = {i}")(n) + ")",
    "not of and": lambda n: "NOT (" + joined("AND", "x > {i}")(n) + ")",
    "not of not": lambda n: "NOT (" * (n // 20) + "x = 1" + ")" * (n // 20),
    "parentheses": lambda n: "(" * n + "x = 1" + ")" * n,
    "open parentheses": lambda n: "(" * n,
    "closed parentheses": lambda n: ")" * n,
    "nested or": lambda n: nested(n // 10),
    "many nested or": lambda n: " AND ".join([nested(20)] * (n // 25)),
    "distributed": lambda n: distributed(n // 30),
    "absorbing": lambda n: absorbing(n // 4),
    "in": lambda n: f"x IN ({', '.join(map(str, range(n)))})",
    "not in": lambda n: f"x NOT IN ({', '.join(map(str, range(n)))})",
    "in many": joined("OR", "x IN ({i}, -{i})"),
    "in and ranges": joined("OR", "x IN ({i}.5, {i}) OR x > {i}1"),
    "long string": lambda n: f"x = '{'a' * 8 * n}'",
    "long pattern": lambda n: f"x LIKE '{'ab' * 4 * n}%{'ab' * 4 * n}c'",
    "long escape": lambda n: "x LIKE '" + "\\%" * 8 * n + "' ESCAPE '\\'",
    "long name": lambda n: f"{'a' * 8 * n} = 1",
    "open string": lambda n: "x = '" + "a''" * 4 * n,
    "open quotes": lambda n: "x = '" + "''" * 4 * n,
    "open name": lambda n: '"' + 'a""' * 4 * n,
    "digits": lambda n: "x = " + "1" * 8 * n + "y",
    "dots": lambda n: "x = " + "1." * 4 * n,
    "exponents": lambda n: "x = " + "1e" * 4 * n,
    "signs": lambda n: "x = " + "-" * 8 * n,
    "blanks": lambda n: "x" + " " * 8 * n + "= 1",
    "brackets": lambda n: ",".join(f"[x{i},>,1]" for i in range(n)),
    "brackets on one name": lambda n: ",".join(f"[x,<>,{i}]" for i in range(n)),
    "bracket parts": lambda n: ",".join(f"[x,str-contains,p{i}q]" for i in range(n)),
    "open brackets": lambda n: "[" * 8 * n,
    "bracket words": lambda n: "[" + "x" * 8 * n,
}

SMALL = 60
LARGE = 480


@pytest.mark.parametrize("family", FAMILIES)
def test_work_grows_no_faster_than_the_text(family: str) -> None:
    small, large = FAMILIES[family](SMALL), FAMILIES[family](LARGE)
    assert len(large) < TEXT_LENGTH_MAX
    growth = len(large) / len(small)
    # What a bounded number of alternatives costs among themselves comes on top, once.
    once = 8 * CANDIDATES_MAX**2
    assert work_of(large) <= 2 * growth * work_of(small) + once
    assert work_of(large) <= 200 * len(large) + once


@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_texts_recurse_nowhere(family: str) -> None:
    text = FAMILIES[family](LARGE)
    limit = sys.getrecursionlimit()
    depth, frame = 0, sys._getframe()
    while frame.f_back:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 40)
    try:
        f = parse_or_refuse(text)
    finally:
        sys.setrecursionlimit(limit)
    assert f is None or len(f.conjunctions) <= ALTERNATIVES_MAX
    assert f is None or all(len(c.terms) <= TERMS_MAX for c in f.conjunctions)
