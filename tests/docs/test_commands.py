"""What the documentation tells people to type works and prints what the page says.

In a ```console block of README.md or docs/, every `$ byway …` line is run by the shell, all those
of a page in one directory that holds nothing but `examples`, top to bottom. It must exit with 0, or
with what a comment at its end says (`# exit 2`). Lines that follow it are its output (stdout and
stderr), where `...` stands for anything: within a line, or, alone on a line, for any number of
lines. Without such lines the output is not compared. A `$ make …` line must name targets that
exist; other commands are left alone.

While a page is tested whose commands say `127.0.0.1:7001`, a broker `hub` runs, and its address is
put in the place of that one. Where they say `127.0.0.1:9001`, it is the operations port of another
broker `hub`, a process of its own that lists a neighbour `west` which is not there.
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import byway
from tests.integration.processes import brokers

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] if p.is_file())

HUB = "127.0.0.1:7001"
OPERATIONS = "127.0.0.1:9001"

FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<tag>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence) *$",
    re.M | re.S,
)
EXIT = re.compile(r"# exit (\d+)\s*$")
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONUNBUFFERED": "1",  # keeps stdout and stderr in order
    "NO_COLOR": "1",
    "COLUMNS": "100",
}


class Command(NamedTuple):
    line: int
    text: str
    expected: list[str]

    @property
    def exit_code(self) -> int:
        comment = EXIT.search(self.text)
        return int(comment[1]) if comment else 0

    @property
    def program(self) -> str:
        return self.text.split()[0]


def commands_of(page: str) -> Iterator[Command]:
    """The commands of a page's console blocks, each with the output lines that follow it."""
    for block in FENCE.finditer(page):
        first = page.count("\n", 0, block.start()) + 2
        lines = [line.removeprefix(block["indent"]) for line in block["body"].splitlines()]
        starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
        if block["tag"].strip() != "console":
            stray = [lines[i] for i in starts if lines[i].startswith(("$ byway", "$ make"))]
            assert not stray, (
                f"line {first}: tag this block `console`, so that it is tested: {stray}"
            )
            continue
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            body = start
            while lines[body].endswith("\\") and body + 1 < end:
                body += 1
            text = "\n".join(lines[start : body + 1])[2:]
            expected = "\n".join(lines[body + 1 : end]).rstrip()
            yield Command(first + start, text, expected.splitlines())


def agrees(expected: list[str], output: str) -> bool:
    """Whether `output` is what the page shows, `...` standing for anything."""
    pattern = "".join(
        r"(?:.*\n)*?"
        if line.strip() == "..."
        else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + r"[ \t]*\n"
        for line in expected
    )
    return re.fullmatch(pattern, output.rstrip() + "\n") is not None


def fault_of(command: Command, directory: Path) -> str | None:
    """Run a command; what is wrong with it, or None."""
    if command.program == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
        named = [word for word in command.text.split("#")[0].split()[1:] if "=" not in word]
        unknown = sorted(set(named) - targets)
        return f"no such target: {', '.join(unknown)}" if unknown else None
    if command.program != "byway":
        return None
    done = subprocess.run(
        command.text,
        shell=True,
        cwd=directory,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != command.exit_code:
        return f"exit {done.returncode} instead of {command.exit_code}\n{done.stdout}"
    if command.expected and not agrees(command.expected, done.stdout):
        return f"printed\n{done.stdout}instead of\n" + "\n".join(command.expected)
    return None


@contextlib.contextmanager
def hub_for(commands: list[Command]) -> Iterator[list[Command]]:
    """The same commands with the address of a broker that runs, if one of them asks for it."""
    if not any(HUB in command.text for command in commands):
        yield commands
        return
    with byway.blocking.LocalOverlay({"hub": []}) as net:
        yield with_address(commands, HUB, net.url("hub").removeprefix("byway://"))


@contextlib.contextmanager
def operations_for(commands: list[Command]) -> Iterator[list[Command]]:
    """The same with the address of an operations port."""
    if not any(OPERATIONS in command.text for command in commands):
        yield commands
        return
    anywhere = "127.0.0.1:0"
    with brokers() as started:
        hub = started.start(
            "--id", "hub", "--listen", anywhere, "--http", anywhere,
            "--neighbour", "west@127.0.0.1:1",
        ).ready()  # fmt: skip
        yield with_address(commands, OPERATIONS, hub.http.removeprefix("http://"))


def with_address(commands: list[Command], written: str, real: str) -> list[Command]:
    return [
        Command(line, text.replace(written, real), [e.replace(written, real) for e in expected])
        for line, text, expected in commands
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_do_what_the_page_says(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    found = list(commands_of(page.read_text()))
    with hub_for(found) as told, operations_for(told) as commands:
        faults = [
            f"{page.relative_to(ROOT)}:{command.line}: $ {command.text}\n{fault}"
            for command in commands
            if (fault := fault_of(command, tmp_path))
        ]
    assert not faults, "\n\n".join(faults)


# The collector itself.

PAGE = """\
Text with `$ byway nothing`.

```console
$ byway filter check \\
    "a = 1"
filter ...

$ byway filter check "a ="  # exit 2
$ make help
```

1. In a list:

   ```console
   $ byway --version
   byway ...
   ```
"""


def test_commands_are_collected_with_their_output() -> None:
    assert list(commands_of(PAGE)) == [
        Command(4, 'byway filter check \\\n    "a = 1"', ["filter ..."]),
        Command(8, 'byway filter check "a ="  # exit 2', []),
        Command(9, "make help", []),
        Command(15, "byway --version", ["byway ..."]),
    ]


def test_exit_codes_are_read_from_the_comment() -> None:
    assert [command.exit_code for command in commands_of(PAGE)] == [0, 2, 0, 0]


def test_a_block_that_would_escape_the_test_is_refused() -> None:
    with pytest.raises(AssertionError, match="tag this block"):
        list(commands_of("```sh\n$ byway --version\n```\n"))


@pytest.mark.parametrize(
    ("expected", "output", "verdict"),
    [
        (["a", "b"], "a\nb\n", True),
        (["a"], "a\nb\n", False),
        (["took ... ms"], "took 3.5 ms\n", True),
        (["took ... ms"], "took 3\n5 ms\n", False),
        (["a", "...", "d"], "a\nb\nc\nd\n", True),
        (["a", "...", "d"], "a\nd\n", True),
        (["..."], "", True),
        (["1+1"], "11\n", False),
        (["a", "b"], "a\n\nb\n", False),
    ],
)
def test_dots_stand_for_anything(expected: list[str], output: str, verdict: bool) -> None:
    assert agrees(expected, output) is verdict


@pytest.mark.parametrize(
    ("text", "expected", "fault"),
    [
        ("byway --version", ["byway ..."], None),
        ("byway --version", ["bygone ..."], "printed"),
        ("byway --version # exit 1", [], "exit 0 instead of 1"),
        ("byway no-such-verb", [], "exit 2 instead of 0"),
        ("make test lint PYTHON=python3", [], None),
        ("make nonsense", [], "no such target: nonsense"),
        ("anything else", ["is left alone"], None),
    ],
)
def test_a_fault_is_reported(
    text: str, expected: list[str], fault: str | None, tmp_path: Path
) -> None:
    found = fault_of(Command(1, text, expected), tmp_path)
    assert found is None if fault is None else fault in str(found)
