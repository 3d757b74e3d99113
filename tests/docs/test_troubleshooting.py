"""Every message that the troubleshooting page quotes is one that byway prints."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guide/troubleshooting.md").read_text()
QUOTED = re.findall(r"^### `(.*)`$", PAGE, re.M)


def messages(source: str) -> Iterator[str]:
    """The strings of a program but docstrings, `…` in the place of what is put in."""
    tree = ast.parse(source)
    others = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            others |= {id(part) for part in node.values}
        elif isinstance(node, ast.Expr):
            others.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = node.values
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in parts)
        elif isinstance(node, ast.Constant) and id(node) not in others:
            yield re.sub(r"%[sdr]", "…", str(node.value))


@cache
def all_messages() -> list[str]:
    files = sorted((ROOT / "src/byway").rglob("*.py"))
    return [message for file in files for message in messages(file.read_text())]


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_message_is_printed(quoted: str) -> None:
    assert any(quoted in message for message in all_messages()), quoted


def test_there_are_some() -> None:
    assert len(QUOTED) > 20
    assert len(QUOTED) == len(set(QUOTED))


def test_what_is_put_in_is_not_compared() -> None:
    source = '"""A docstring."""\na = f"link to {name} is down: " f"{why}"\nb = "%s is full: %d"\n'
    assert list(messages(source)) == ["link to … is down: …", "… is full: …"]


def test_every_section_says_what_to_do() -> None:
    sections = re.split(r"^### ", PAGE, flags=re.M)[1:]
    for section in sections:
        text = section.partition("\n")[2].split("\n## ")[0].strip()
        assert text.endswith((".", ")", "|")), section
