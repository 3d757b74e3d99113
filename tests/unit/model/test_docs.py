"""The reference states the bounds and the doubtful cases as they are."""

import importlib
import re
from pathlib import Path

import pytest

from byway.model import conforms, covers, intersects, parse

PAGE = (Path(__file__).parents[3] / "docs/reference/filter-semantics.md").read_text()
BOUNDS = re.findall(r"^\| .* \| (\d+) \| `(byway\.[\w.]+)\.(\w+)` \|$", PAGE, re.M)


def test_the_table_of_bounds_was_found():
    assert len(BOUNDS) == 13


@pytest.mark.parametrize(("number", "module", "constant"), BOUNDS, ids=[b[2] for b in BOUNDS])
def test_bounds_are_stated_as_they_are(number, module, constant):
    assert getattr(importlib.import_module(module), constant) == int(number)


UNSURE_COVERS = [
    ("x < 5 OR x >= 5", "x < 9"),
    ("x >= 5e-324", "x > 0"),
    ("x = 9007199254740993", "x > 9007199254740992 AND x < 9007199254740994"),
    ("x LIKE 'a%'", "x >= 'a' AND x < 'b'"),
    ("x IN ('', '\0')", "x <= '\0'"),
    ("x >= 'b'", "x >= 'ab' AND x NOT LIKE 'a%'"),
]
UNSURE_INTERSECTS = [
    ("x > 0", "x < 5e-324"),
    ("x BETWEEN 9007199254740992 AND 9007199254740994",
     "x NOT IN (9007199254740992, 9007199254740993, 9007199254740994)"),
    ("x >= 'a' AND x < 'b'", "x NOT LIKE 'a%'"),
    ("x < '\0'", "x <> ''"),
    ("x >= 'ab' AND x NOT LIKE 'a%'", "x < 'b'"),
    ("x BETWEEN 'a' AND 'a\0'", "x LIKE '%b'"),
]  # fmt: skip


def as_written(text):
    return text.replace("'a\0'", "U+0061 U+0000").replace("'\0'", "U+0000")


@pytest.mark.parametrize(("f", "g"), UNSURE_COVERS)
def test_where_covers_is_unsure(f, g):
    assert not covers(parse(f), parse(g))
    assert f"`{as_written(f)}` and `{as_written(g)}`" in PAGE


@pytest.mark.parametrize(("f", "g"), UNSURE_INTERSECTS)
def test_where_intersects_is_unsure(f, g):
    assert intersects(parse(f), parse(g))
    assert f"`{as_written(f)}` and `{as_written(g)}`" in PAGE


def test_the_guide_s_python_example():
    wanted = parse("price > 18 AND symbol LIKE 'AB%'")
    offered = parse("price BETWEEN 0 AND 1000 AND symbol LIKE 'A%'")
    assert wanted.matches({"price": 20, "symbol": "ABC"})
    assert covers(parse("price > 10"), wanted)
    assert conforms({"price": 20}, offered)
    assert intersects(offered, wanted)
    assert str(wanted) == "price > 18 AND symbol LIKE 'AB%'"
