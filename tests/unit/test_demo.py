"""The demo: what it shows, to a person and to a program."""

import json

import pytest
from typer.testing import CliRunner

from byway.cli import demo
from byway.cli.main import app

pytestmark = pytest.mark.timeout(300)  # the kernels may have to be compiled


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SUBSCRIPTIONS", 1_000)
    monkeypatch.setattr(demo, "PUBLICATIONS", 5_000)


def test_a_person_sees_every_part() -> None:
    result = CliRunner(env={"COLUMNS": "140", "NO_COLOR": "1"}).invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    for words in (
        "symbol <> 'IBM' AND volume > 1000",
        "expected a quoted LIKE pattern",
        "5000/5000",
        "matched",
        "→ subscriber",
        "is covered by",
    ):
        assert words in result.stdout
    caret = next(line for line in result.stdout.splitlines() if line.strip() == "^")
    assert caret.index("^") == len("  ") + demo.WRONG_TEXT.index("OR")


def test_a_program_gets_one_object() -> None:
    result = CliRunner().invoke(app, ["demo", "--json"])
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert [read["text"] for read in shown["filters"]] == list(demo.TEXTS)
    assert shown["error"].endswith("^")
    assert (shown["speed"]["subscriptions"], shown["speed"]["publications"]) == (1_000, 5_000)
    assert shown["speed"]["candidates_per_match"] >= 1
    assert shown["delivery"]["count"] >= len(shown["delivery"]["some"]) > 0
    wide, narrow = shown["coverings"]
    assert wide["covers"] > 0
    assert narrow["covered_by"] > narrow["covers"] == 0
