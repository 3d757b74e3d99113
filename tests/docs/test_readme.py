"""The README claims only what runs, and says *soon* for the rest."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ROWS = re.findall(r"^\| (runs|\*soon\*) \| (.*) \|$", README, re.M)
TO_COME = ("mesh", "placement", "topology")
"""Parts of the core that the papers describe, by the names of their packages."""


@pytest.mark.parametrize("part", TO_COME)
def test_what_is_to_come_is_said_to_come(part: str) -> None:
    (state,) = (state for state, text in ROWS if re.search(rf"\b{part}\b", text))
    assert (state == "runs") is is_used(part)


def is_used(part: str) -> bool:
    """Whether a module outside the package of a part imports it: a package alone runs nowhere."""
    package = ROOT / "src/byway/core" / part
    imports = re.compile(rf"^\s*(from|import) byway\.core\.{part}\b", re.M)
    return any(
        imports.search(file.read_text())
        for file in (ROOT / "src").rglob("*.py")
        if package not in file.parents
    )


def test_a_part_that_is_imported_is_used() -> None:
    assert is_used("covering")


@pytest.mark.parametrize("text", [text for state, text in ROWS if state == "runs"])
def test_what_runs_is_told_on_a_page(text: str) -> None:
    pages = re.findall(r"\]\(([\w/-]+\.md)\)", text)
    assert pages
    assert all((ROOT / page).is_file() for page in pages)
