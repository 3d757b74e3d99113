"""The command line: what it prints where, and its exit codes."""

import json
import subprocess
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner, Result

from byway import __version__
from byway.cli.main import VERBS, app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_version() -> None:
    assert run("--version").stdout == f"byway {__version__}\n"


def test_every_verb_is_listed_and_has_a_file() -> None:
    listing = run("--help").stdout
    for name, line in VERBS.items():
        assert f"{name}  " in listing
        assert line in listing
        assert import_module(f"byway.cli.{name}").app


def test_help_imports_no_verb() -> None:
    program = "import sys, byway.cli.main as m; m.app(['--help'], standalone_mode=False); "
    program += "print([n for n in sys.modules if n in {f'byway.cli.{v}' for v in m.VERBS}])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")


def test_check_prints_the_normal_form() -> None:
    result = run("filter", "check", "b >= 2 AND a < 1 OR a = 7")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == ["alternatives  2", "attributes    a, b"]


def test_check_prints_json() -> None:
    result = run("filter", "check", "--json", "price > 18")
    assert json.loads(result.stdout) == {
        "filter": "price > 18",
        "alternatives": 1,
        "attributes": ["price"],
    }


def test_check_warns_of_a_filter_that_can_never_match() -> None:
    result = run("filter", "check", "a > 3 AND a < 2")
    assert result.exit_code == 0
    assert "never match" in result.stderr


@pytest.mark.parametrize("text", ["a >", "a = 1 OR", "(a = 1"])
@pytest.mark.parametrize("verb", [["check"], ["match"], ["covers", "TRUE"]])
def test_a_syntax_error_points_at_its_place(verb: list[str], text: str) -> None:
    result = run("filter", *verb, text, *(["{}"] if verb == ["match"] else []))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.rstrip().endswith("^")


@pytest.mark.parametrize(
    ("attributes", "code", "word"), [('{"a": 4}', 0, "match\n"), ('{"a": 2}', 1, "no match\n")]
)
def test_match_answers(attributes: str, code: int, word: str) -> None:
    result = run("filter", "match", "a > 3", attributes)
    assert (result.exit_code, result.stdout) == (code, word)


@pytest.mark.parametrize(
    "attributes",
    ["[1]", '{"a": null}', '{"a": [1]}', '{"a": 1e999}', '{"a": 18446744073709551616}'],
)
def test_match_refuses_what_no_publication_carries(attributes: str) -> None:
    result = run("filter", "match", "a > 3", attributes)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("not the attributes of a publication: ")


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"a" 1}', '{"a": 1} x'])
def test_match_refuses_what_is_no_json(text: str) -> None:
    result = run("filter", "match", "a > 3", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("not JSON: ")


def test_covers_answers() -> None:
    assert run("filter", "covers", "a > 3", "a > 4").exit_code == 0
    assert run("filter", "covers", "a > 4", "a > 3").exit_code == 1
