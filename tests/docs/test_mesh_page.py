"""The page about the mesh does what it says: its brokers run as processes, and print what it shows;
its picture shows the copies that the strategies send.

Ports are free ones instead of the page's.
"""

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from byway.core.mesh import OverlayMaps
from tests.docs.test_commands import ENVIRONMENT, agrees
from tests.docs.test_quick_start import Terminal

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "guide/mesh.md").read_text()
PICTURE = (DOCS / "guide/mesh-strategies.svg").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)

TREE = [("A", "1"), ("1", "2"), ("2", "3"), ("2", "4"), ("4", "5"), ("4", "6")]
SOFT = {"A": ["4", "5", "6"]}
WANTED = ("5", "6")


def free_ports(ports: list[str]) -> dict[str, str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in ports]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {port: str(s.getsockname()[1]) for port, s in zip(ports, sockets, strict=True)}


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.process.terminate()
    for terminal in opened:
        terminal.process.communicate(timeout=60)


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_the_brokers_of_the_page_open_a_soft_link(
    terminals: list[Terminal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE)
    (settings, _) = [text for tag, text in blocks if tag == "toml"]
    (tmp_path / "mesh.toml").write_text(settings)
    (starting, looking) = [text for tag, text in blocks if tag == "sh"]
    shown, _ = [text for tag, text in blocks if tag == "text"]
    found = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", starting)))
    assert len(found) == 8
    ports = free_ports(found)

    def here(text: str) -> str:
        return re.sub(r"(127\.0\.0\.1:)(\d+)", lambda m: m[1] + ports[m[2]], text)

    for command in starting.splitlines():
        terminals.append(Terminal(here(command)))
        terminals[-1].line("ready" if command == starting.splitlines()[0] else ".*link to .* is up")
    output = "".join(
        subprocess.run(
            here(command), shell=True, env=ENVIRONMENT | {"COLUMNS": "200"}, text=True,
            timeout=100, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ).stdout
        for command in looking.splitlines()
    )  # fmt: skip
    assert agrees(here(shown).splitlines(), output), output


def copies(strategy: str) -> list[tuple[str, str, int]]:
    """Sender, receiver and hops so far of each copy of a publication from A to 5 and 6."""
    sent, waiting = [], [("A", WANTED, 0)]
    while waiting:
        broker, anchors, hops = waiting.pop()
        maps = OverlayMaps.build(broker, TREE, 4, soft=SOFT.get(broker, ()))
        others = [anchor for anchor in anchors if anchor != broker]
        for link in maps.forward(others, strategy):
            behind = tuple(a for a in others if maps.substitute(a) in maps.beyond(link))
            sent.append((broker, link, hops + 1))
            waiting.append((link, behind, hops + 1))
    return sent


@pytest.mark.parametrize(("strategy", "hops"), [("S0", 4), ("S1", 2), ("S2", 1)])
def test_the_picture_shows_what_is_sent(strategy: str, hops: int) -> None:
    sent = copies(strategy)
    assert max(number for *_, number in sent) == hops
    forwarders = {to for _, to, _ in sent} - set(WANTED)
    first = sum(sender == "A" for sender, *_ in sent)
    panel = PICTURE.partition(f">{strategy}: ")[2].partition("</g>\n  <g transform")[0]
    assert f"A sends {first} cop{'y' if first == 1 else 'ies'}; {len(sent)} copies in all" in panel
    some = {0: "no broker only forwards", 1: "1 broker only forwards"}
    told = some.get(len(forwarders), f"{len(forwarders)} brokers only forward")
    assert f"{told}; {hops} hop{'s' if hops > 1 else ''}" in panel
    assert panel.count('fill="#fdd9b5" stroke="#a63603" stroke-width="3"/>\n') == len(forwarders)
    assert len(re.findall(r'<path d="M[^"]*"', panel.partition("<circle")[0])) == len(sent)
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{strategy}` |"))
    assert [cell.strip() for cell in row.split("|")][4] == str(len(sent))
