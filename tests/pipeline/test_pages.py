"""The pages of the room say what is so.

In the guide, every `byway …` line of a ```sh block is run, top to bottom, in one directory that
holds nothing but `examples`, with the Spark of these tests; a ```text block after it is its output,
where `...` alone on a line stands for any number of lines. ```py blocks are run, too.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from byway.cli.main import app
from byway.pipeline import schemas
from byway.pipeline.schemas import TRACE, TableSchema

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guide/pipeline.md").read_text()
CLAIMS = (ROOT / "docs/guide/reproduce.md").read_text()
REFERENCE = (ROOT / "docs/reference/trace-tables.md").read_text()
BLOCK = re.compile(r"^```(sh|text|py|toml)\n(.*?)^```$", re.M | re.S)
TABLES = [
    table for table in vars(schemas).values() if isinstance(table, TableSchema) and table != TRACE
]


def agrees(expected: str, output: str) -> bool:
    """Whether they are the same, but for the width of columns."""
    told, found = (re.sub(" +", " ", text) for text in (expected, output))
    lines = [
        r"(?:.*\n)*?" if line == "..." else f"{re.escape(line)} ?\n" for line in told.splitlines()
    ]
    return re.fullmatch("".join(lines), found) is not None


def steps(page: str = GUIDE) -> Iterator[tuple[str, str]]:
    return ((block[1], block[2]) for block in BLOCK.finditer(page))


def follow(page: str) -> None:
    """Do what a page says, in the current directory."""
    output = ""
    for tag, text in steps(page):
        if tag == "text":
            assert agrees(text, output), output
        elif tag == "py":
            exec(text, {})
        elif tag == "sh":
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                if program == "byway":
                    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
                    assert done.exit_code == 0, done.output
                    output = done.stdout


@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(300)
def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    follow(GUIDE)
    of_sweeps = {"metrics", "requests", "failures", "measured", "estimates"}
    tables = {table.name for table in TABLES} - of_sweeps
    assert {path.name for path in Path("analysis").iterdir()} == tables


@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(300)
def test_the_guide_to_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of it that is run here stands for all."""
    monkeypatch.chdir(tmp_path)
    follow(CLAIMS)
    page = Path("reproduction/report.html").read_text()
    assert page.count("<svg") == 2
    assert "Reproduced" in page
    links = set(re.findall(r'href="(?!#)([^"]+)"', page))
    assert {"results.csv", "results.json", "estimates", "metrics", "measured"} <= links
    assert all((Path("reproduction") / link).exists() for link in links)


def test_the_sweep_of_the_guide_is_the_example() -> None:
    (sweep,) = (text for tag, text in steps() if tag == "toml")
    assert (ROOT / "examples/sweeps/covering.toml").read_text().endswith(sweep)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_the_reference_has_every_column(table: TableSchema) -> None:
    section = re.search(rf"^## {table.name}\n(.*?)(?=^## |\Z)", REFERENCE, re.M | re.S)
    assert section is not None
    assert f"Version {table.version}." in section[1]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (yes|no) \| (.*) \|$", section[1], re.M)
    assert rows == [
        (column.name, column.type, "yes" if column.nullable else "no", column.meaning)
        for column in table.columns
    ]


def test_the_reference_has_no_other_table() -> None:
    assert set(re.findall(r"^## (\w+)", REFERENCE, re.M)) == {table.name for table in TABLES}


def test_dots_stand_for_lines() -> None:
    assert agrees("a  1\n...\nd\n", "a      1\nb\nc\nd\n")
    assert not agrees("a  1\nd\n", "a      1\nb\nd\n")
