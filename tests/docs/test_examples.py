"""The Python examples in the documentation run, and say what they claim.

A trailing comment that is a literal, or `keys …`, tells what an expression gives.
"""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()))
]


def test_the_readme_has_an_example():
    assert any(str(param.id).startswith("README") for param in EXAMPLES)


@pytest.mark.parametrize("block", EXAMPLES)
def test_example(block):
    names: dict[str, object] = {}
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        source = ast.get_source_segment(block, statement)
        if not isinstance(statement, ast.Expr):
            exec(source, names)
            continue
        value = eval(source, names)
        claim = lines[statement.end_lineno - 1].partition("  # ")[2]
        if claim in ("True", "False"):
            assert value is (claim == "True"), source
        elif claim.startswith("key"):
            assert isinstance(value, np.ndarray)
            assert sorted(value.tolist()) == [int(n) for n in re.findall(r"\d+", claim)], source
