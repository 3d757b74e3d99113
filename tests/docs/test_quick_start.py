"""The quick start does what it says: every command of it is run, in the order of the page, by real
processes, and prints what the page shows.

A ```sh block has commands and the ```text block after it their output, where `...` stands for
anything. Ports are free ones instead of the page's; the first broker, whose id is the name of the
machine, is called as on the page.
"""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_commands import ENVIRONMENT, agrees

PAGE = (Path(__file__).parents[2] / "docs/index.md").read_text()
STEP = re.compile(r"^```sh\n(.*?)^```$(?:(?:(?!```).)*?^```text\n(.*?)^```$)?", re.M | re.S)
WITHIN_S = 100
"""The first broker may have to compile its kernels."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def section(name: str) -> str:
    found = re.search(rf"^## .* {{ #{name} }}\n(.*?)(?=^## )", PAGE, re.M | re.S)
    assert found is not None, name
    return found[1]


def steps(name: str) -> list[tuple[list[str], list[str]]]:
    """The commands of a section, and the lines that each block of them prints."""
    return [
        (commands.splitlines(), told.splitlines()) for commands, told in STEP.findall(section(name))
    ]


class Terminal:
    """A process that goes on running, and the lines of it that were read."""

    def __init__(self, command: str) -> None:
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"], env=ENVIRONMENT, text=True, bufsize=1,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def line(self, begin: str = "") -> str:
        """The next line that begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if re.match(begin, line):
                return line
        raise AssertionError(f"it has ended without a line {begin!r}")


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.process.send_signal(signal.SIGINT)
    for terminal in opened:
        terminal.process.communicate(timeout=WITHIN_S)


def free_ports() -> dict[str, str]:
    """For each port of the page, a free one."""
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        return {"7001": str(one.getsockname()[1]), "7002": str(two.getsockname()[1])}


def test_the_quick_start_works(terminals: list[Terminal]) -> None:
    ports = free_ports()

    def here(text: str) -> str:
        return re.sub(r"700[12]", lambda port: ports[port[0]], text)

    def open_terminal(command: str, told: list[str], begin: str) -> Terminal:
        terminals.append(Terminal(command))
        line = terminals[-1].line(begin)
        assert agrees([here(told[0])], line), line
        return terminals[-1]

    def run(command: str) -> str:
        done = subprocess.run(
            command, shell=True, env=ENVIRONMENT, text=True, timeout=WITHIN_S, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    first = f" --broker byway://127.0.0.1:{ports['7001']}"

    ((commands, told),) = steps("broker")
    assert commands == ["byway broker"]
    open_terminal(f"byway broker --id hub --listen 127.0.0.1:{ports['7001']}", told, "ready")

    ((commands, told),) = steps("subscribe")
    subscriber = open_terminal(commands[0] + first, told, "settled")

    ((commands, told),) = steps("publish")
    received = re.findall(r"^```text\n(.*?)^```$", section("publish"), re.M | re.S)[1]
    assert agrees(told, run(commands[0] + first))
    assert agrees(received.splitlines(), subscriber.line())

    (started, looked) = steps("link")
    open_terminal(here(started[0][0]), started[1], "ready")
    output = "".join(
        run(here(command) + ("" if "--broker" in command else first)) for command in looked[0]
    )
    assert agrees([here(line) for line in looked[1]], output), output
    assert "price=21" in subscriber.line(), "and not the publication that does not match"


def test_the_page_installs_what_it_needs() -> None:
    ((commands, _),) = steps("install")
    assert commands[-1] == "pip install '.[broker]'"
    assert sys.version_info[:2] in {(3, 11), (3, 12), (3, 13)}, "the page names these"
