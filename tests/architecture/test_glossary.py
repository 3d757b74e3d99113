"""Code and pages use the words of the glossary, and none of those that were given up for them.

`testdata/retired_words.csv` has a pattern for each of these, the word in its place, and what may
still be written because users have written it: keys of the configuration, names of metrics.
"""

import csv
import importlib
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs/reference/glossary.md").read_text()
PACKAGES = sorted(path.parent.name for path in (ROOT / "src/byway").glob("*/__init__.py"))
NAMES = sorted(
    {
        name
        for name in re.findall(r"`([\w.]+)`", GLOSSARY)
        if name in PACKAGES or name.split(".")[0] in ("byway", *PACKAGES)
    }
)
WRITTEN = [
    ROOT / "README.md",
    *sorted(ROOT.glob("src/**/*.py")),
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if page.parent.name != "adr"),
]


STORED_NAME = r'\bname="\w+"'
"""The name of a field in bytes that brokers have stored or send: it stays."""


class Retired(NamedTuple):
    pattern: str
    rather: str
    exceptions: str

    def found_in(self, text: str) -> list[int]:
        """The lines that have the word."""
        allowed = rf"{STORED_NAME}|{self.exceptions}" if self.exceptions else STORED_NAME
        word = re.compile(rf"(?P<allowed>{allowed})|(?<!\w)(?:{self.pattern})(?!\w)")
        return [
            text.count("\n", 0, match.start()) + 1
            for match in word.finditer(text)
            if match["allowed"] is None
        ]


with (ROOT / "testdata/retired_words.csv").open() as file:
    RETIRED = [Retired(*row) for row in list(csv.reader(file))[1:]]


@pytest.mark.parametrize("word", RETIRED, ids=lambda word: str(word.pattern))
def test_a_retired_word_is_not_used(word: Retired) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: say {word.rather}"
        for path in WRITTEN
        for line in word.found_in(path.read_text())
    ]
    assert found == []


def test_words_are_found_and_exceptions_are_not() -> None:
    word = Retired("strangers?", "unidentified", "limits.strangers")
    assert word.found_in("a stranger\n`limits.strangers`\nestranged, strangers_of") == [1]
    assert word.found_in('field(name="stranger")\nname="x" stranger') == [2]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_glossary_exists(name: str) -> None:
    parts = name.removeprefix("byway.").split(".")
    found: object = importlib.import_module("byway")
    for number, part in enumerate(parts, 1):
        found = getattr(found, part, None) or importlib.import_module(
            ".".join(("byway", *parts[:number]))
        )


def test_every_word_has_one_place() -> None:
    anchors = re.findall(r'<a id="([\w-]+)"></a>', GLOSSARY)
    assert len(anchors) > 50
    assert len(anchors) == len(set(anchors))
