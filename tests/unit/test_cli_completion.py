"""Shell completion: the scripts, what is completed, and that asking is cheap."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from byway.cli.main import VERBS

HEAVY = ("numba", "pyarrow", "pyspark", "prometheus_client")
REPORT = f"""
import atexit, sys
from byway.cli.main import app
heavy = lambda: [name for name in {HEAVY!r} if name in sys.modules]
verbs = lambda: [name for name in sys.modules if name.startswith("byway.cli.")]
atexit.register(lambda: print(heavy(), sorted(verbs()), file=sys.stderr))
app(prog_name="byway")
"""


def ask(instruction: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a shell is answered."""
    return subprocess.run(
        [sys.executable, "-c", REPORT],
        capture_output=True, text=True, timeout=60, check=True,
        env=os.environ | {"_BYWAY_COMPLETE": instruction} | variables,
    )  # fmt: skip


def completed(words: str, number: int) -> tuple[list[str], str]:
    """The words that bash would offer, and what was imported for it."""
    done = ask("complete_bash", COMP_WORDS=words, COMP_CWORD=str(number))
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", "complete -o default -F _byway_completion byway"),
        ("zsh", "compdef _byway_completion byway"),
        ("fish", "complete --command byway"),
    ],
)
def test_there_is_a_script_for_every_shell(shell: str, words: str) -> None:
    script = ask(f"source_{shell}").stdout
    assert words in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    """With the real shell: it reads the script, and calls its function as Tab does."""
    command = tmp_path / "byway"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m byway "$@"\n')
    command.chmod(0o755)
    program = f"""
{ask("source_bash").stdout}
COMP_WORDS=(byway topo) COMP_CWORD=1
_byway_completion {command}
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "topology\n"


def test_zsh_and_fish_are_answered_in_their_form() -> None:
    zsh = ask("complete_zsh", _TYPER_COMPLETE_ARGS="byway client ").stdout
    assert zsh.startswith("_arguments")
    assert '"disconnect":"Disconnect a client' in zsh
    fish = ask(
        "complete_fish",
        _TYPER_COMPLETE_ARGS="byway client d",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    ).stdout
    assert fish.startswith("disconnect\t")


def test_verbs_are_completed_without_importing_one() -> None:
    offered, imported = completed("byway ", 1)
    assert offered == sorted(VERBS)
    assert imported.startswith("[] ")
    assert not [verb for verb in VERBS if f"'byway.cli.{verb}'" in imported]
    assert completed("byway sub", 1)[0] == ["sub", "subscription"]


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [
        ("byway bench --", 2, "--attributes"),
        ("byway broker --", 2, "--listen"),
        ("byway client list --", 3, "--limit"),
        ("byway client ", 2, "disconnect"),
        ("byway config check --", 3, "--set"),
        ("byway demo --", 2, "--brief"),
        ("byway filter ", 2, "match"),
        ("byway pipeline ", 2, "analyse"),
        ("byway pub --", 2, "--advertise"),
        ("byway reproduce --", 2, "--full"),
        ("byway simulate --", 2, "--seed"),
        ("byway sub --", 2, "--count"),
        ("byway subscription list --", 3, "--client"),
        ("byway topology show --", 3, "--broker"),
        ("byway trace story --", 3, "--json"),
    ],
)
def test_options_are_completed_without_importing_a_broker(
    words: str, number: int, expected: str
) -> None:
    offered, imported = completed(words, number)
    assert expected in offered
    assert imported.startswith("[] "), imported
