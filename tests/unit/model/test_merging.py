"""Merges, case by case: what comes out, whether it is exact, and how much it lets through."""

import pytest

from byway.model import ANY, FALSE, TRUE, merge, parse
from byway.model.constraints import NumberRange
from byway.model.filter_merging import even_share

PERFECT = [
    # f, g, merged
    ("x > 100", "x > 150", "x > 100"),
    ("x > 100", "x <= 100", "x >= -INFINITY"),
    ("x BETWEEN 1 AND 2", "x BETWEEN 2 AND 3", "x BETWEEN 1 AND 3"),
    ("x < 2", "x = 2", "x <= 2"),
    ("x > 1 AND x < 2", "x IN (1, 2)", "x BETWEEN 1 AND 2"),
    ("x <> 5", "x = 5", "x >= -INFINITY"),
    ("x NOT IN (5, 6)", "x > 5", "x <> 5"),
    ("x = 1", "x = 2", "x IN (1, 2)"),
    ("x = 'a'", "x = 'b'", "x IN ('a', 'b')"),
    ("x = TRUE", "x = FALSE", "x IN (FALSE, TRUE)"),
    ("x <> 'a'", "x = 'a'", "x LIKE '%'"),
    ("x < 5", "x > 5", "x <> 5"),
    ("x > 0 AND x < 5 AND x <> 2", "x > 5 AND x < 9", "x > 0 AND x < 9 AND x NOT IN (2, 5)"),
    ("x < 'm'", "x > 'm'", "x <> 'm'"),
    ("x LIKE 'a%' AND x < 'ab'", "x LIKE 'a%' AND x >= 'ab'", "x LIKE 'a%'"),
    (
        "x >= 'a' AND x < 'c' AND x NOT LIKE 'b%'",
        "x >= 'c' AND x < 'e'",
        "x >= 'a' AND x < 'e' AND x NOT LIKE 'b%'",
    ),
    (
        "x >= 'ab' AND x < 'ac' AND x LIKE '%a%'",
        "x >= 'ac' AND x < 'c' AND x LIKE '%a%'",
        "x >= 'ab' AND x < 'c' AND x LIKE '%a%'",
    ),
    ("x > 'b' AND x NOT LIKE 'a%'", "x <= 'b' AND x NOT LIKE 'a%'", "x NOT LIKE 'a%'"),
    ("x <> 'a'", "x <> 'b'", "x LIKE '%'"),
    ("x > 'a'", "x = 'a'", "x >= 'a'"),
    ("x >= 'a' AND x < 'm'", "x IN ('b', 'm')", "x >= 'a' AND x <= 'm'"),
    ("x >= 'a' AND x < 'm'", "x >= 'm' AND x < 'z'", "x >= 'a' AND x < 'z'"),
    ("x >= 'a' AND x <= 'm'", "x > 'm'", "x >= 'a'"),
    ("x < 'm' AND x <> 'b'", "x >= 'b' AND x <> 'c'", "x LIKE '%'"),
    ("x LIKE '%ing' AND x < 'm'", "x LIKE '%ing' AND x >= 'm'", "x LIKE '%ing'"),
    ("x LIKE 'ab%' AND x <> 'abc'", "x IN ('abc', 'abd')", "x LIKE 'ab%'"),
    ("x IS NOT NULL", "x = 1", "x IS NOT NULL"),
    ("x IS NOT NULL", "x IS NULL", "TRUE"),
    ("x IS NULL AND y = 1", "x IS NOT NULL AND y = 1", "y = 1"),
    ("x LIKE 'a%'", "x IN ('abba', 'acca')", "x LIKE 'a%'"),
    ("x = 1 AND y > 5", "x = 1 AND y <= 5", "x = 1 AND y >= -INFINITY"),
    ("x > 1 OR y > 1", "x > 2", "x > 1 OR y > 1"),
    ("x = 1 OR y = 1", "x = 2 OR y = 2", "x IN (1, 2) OR y IN (1, 2)"),
    ("x = 1", "TRUE", "TRUE"),
    ("x = 1", "FALSE", "x = 1"),
    ("FALSE", "FALSE", "FALSE"),
    ("x = 1", "ANY", "ANY"),
    ("FALSE", "ANY", "ANY"),
    ("ANY", "ANY", "ANY"),
]


@pytest.mark.parametrize(("f", "g", "merged"), PERFECT)
def test_perfect_merges(f, g, merged):
    for pair in ((f, g), (g, f)):
        found = merge(*map(parse, pair))
        assert (str(found.filter), found.perfect, found.volume) == (merged, True, 0.0)


IMPERFECT = [
    # f, g, merged, volume
    ("x BETWEEN 0 AND 2", "x BETWEEN 8 AND 10", "x BETWEEN 0 AND 10", 0.6),
    ("x > 0 AND x < 5 AND y = 1", "x > 5 AND x < 9 AND y = 2",
     "x > 0 AND x < 9 AND x <> 5 AND y IN (1, 2)", 0.5),
    ("x IN (1, 2)", "x BETWEEN 5 AND 9", "x BETWEEN 1 AND 9", 0.5 - 2 / 9),
    ("x < 1", "x > 2", "x >= -INFINITY", 1 / 3),
    ("x = 1 AND y = 1", "x = 2 AND y = 2", "x IN (1, 2) AND y IN (1, 2)", 0.5),
    ("x = 1", "y = 1", "TRUE", 0.81),
    ("x = 1", "x = 'a'", "x IS NOT NULL", 1 / 3),
    ("x LIKE 'abc%'", "x LIKE 'abd%'", "x LIKE 'ab%'", 1 / 3),
    ("x LIKE '%ing'", "x LIKE '%ong'", "x LIKE '%ng'", 1 / 3),
    ("x BETWEEN 'aba' AND 'abb'", "x = 'abs'", "x LIKE 'ab%'", 1 / 3),
    ("x = 1", "x IS NULL", "TRUE", 0.4),
    ("x > 'a' AND x < 'm'", "x > 'n' AND x < 'z'", "x LIKE '%'", 1 / 3),
    ("x LIKE '%ing' AND x < 'm'", "x LIKE '%ong' AND x >= 'm'", "x LIKE '%ng'", 1 / 3),
]  # fmt: skip


@pytest.mark.parametrize(("f", "g", "merged", "volume"), IMPERFECT)
def test_imperfect_merges(f, g, merged, volume):
    for pair in ((f, g), (g, f)):
        found = merge(*map(parse, pair))
        assert str(found.filter) == merged
        assert not found.perfect
        assert found.volume == pytest.approx(volume)


def test_the_cheapest_pair_is_merged_when_room_is_short():
    f = parse("x BETWEEN 0 AND 1 OR y BETWEEN 0 AND 1")
    g = parse("x BETWEEN 2 AND 3 OR y BETWEEN 900 AND 901")
    found = merge(f, g)
    assert len(found.filter.conjunctions) == 2
    assert str(found.filter) == "x BETWEEN 0 AND 3 OR y BETWEEN 0 AND 901"
    assert not found.perfect
    assert 0.4 < found.volume < 0.9


def test_a_caller_with_statistics_decides_what_is_cheap():
    def share(attribute, inner, outer):
        assert attribute == "x"
        if outer is None:
            return 0.5
        return 0.1 if isinstance(inner, NumberRange) and inner.high == 2 else 0.2

    found = merge(parse("x BETWEEN 0 AND 2"), parse("x BETWEEN 8 AND 10"), share)
    assert found.volume == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("inner", "outer", "share"),
    [
        ("x = 1", "x IN (1, 2, 3, 4)", 0.25),
        ("x BETWEEN 0 AND 5", "x BETWEEN 0 AND 10", 0.5),
        ("x IN (1, 2)", "x BETWEEN 0 AND 9", 0.2),
        ("x > 5", "x > 1", 1 / 3),  # nothing is known of unbounded ranges
        ("x BETWEEN 1e308 AND 1.5e308", "x BETWEEN -1.5e308 AND 1.5e308", 1 / 3),
        ("x = 1", "x IS NOT NULL", 1 / 3),
        ("x LIKE 'ab%'", "x LIKE 'a%'", 1 / 3),
        ("x = TRUE", "x IN (TRUE, FALSE)", 0.5),
        ("x > 1", "x > 1", 1.0),
        ("x > 1", None, 0.1),
        ("x IS NULL", None, 0.5),
    ],
)
def test_even_shares(inner, outer, share):
    [(_, narrow)] = parse(inner).conjunctions[0].terms
    wide = None if outer is None else parse(outer).conjunctions[0].terms[0][1]
    assert even_share("x", narrow, wide) == pytest.approx(share)


def test_constants():
    assert merge(TRUE, FALSE).filter == TRUE
    assert merge(FALSE, FALSE).filter == FALSE
    assert merge(ANY, TRUE).filter == ANY
