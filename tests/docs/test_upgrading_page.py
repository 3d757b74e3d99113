"""The page on upgrading: its table is true, its messages are printed, and its steps work."""

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from byway import __version__
from byway.core import snapshot
from byway.core.snapshot import older_layouts
from byway.model.messages import CLIENT_PROTOCOL_VERSION, PROTOCOL_VERSION
from byway.model.trace_schema import SCHEMA_VERSION
from byway.storage import marker_file, record_files
from tests.docs.test_troubleshooting import all_messages
from tests.integration.processes import brokers

ROOT = Path(__file__).parents[2]
STATE = ROOT / "testdata/state"
PAGE = (ROOT / "docs/guide/upgrading.md").read_text()
SHELL = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
LOGGED = re.findall(r"^(?:warning|critical) (.*)$", PAGE, re.M)
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## Versions")[2].splitlines()
    if re.match(r"\| \d", line)
]


def test_the_last_row_is_the_present_version() -> None:
    numbers = (
        PROTOCOL_VERSION, CLIENT_PROTOCOL_VERSION, snapshot.VERSION, record_files.VERSION,
        marker_file.FORMAT, SCHEMA_VERSION,
    )  # fmt: skip
    assert ROWS[-1] == [__version__, *map(str, numbers)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_what_its_version_left(row: list[str]) -> None:
    version, _, _, layout, files, marker, _ = row
    directory = STATE / f"layout-{layout}"
    assert json.loads((directory / "facts.json").read_text())["version"] == version
    title = (directory / "stopped/state").read_bytes().partition(b"\n")[0]
    assert title == f"byway state {files}".encode()
    network = STATE / f"network-{version}"
    if network.exists():
        found = network / "hub-marked/neighbours.json"
        formats = [str(json.loads(found.read_text())["format"])] if found.exists() else ["–"]
        assert formats == [marker]


def test_every_version_has_a_row() -> None:
    layouts = range(older_layouts.OLDEST, snapshot.VERSION + 1)
    assert [int(row[3]) for row in ROWS] == list(layouts)


@pytest.mark.parametrize("line", LOGGED)
def test_a_quoted_line_is_logged(line: str) -> None:
    """Behind the address or path, it is a message of the program from end to end."""
    reason = line.partition(": ")[2]
    messages = [message for message in all_messages() if "version" in message or "byway" in message]
    patterns = [re.escape(message).replace("…", ".+") for message in messages]
    assert any(re.fullmatch(pattern, reason) for pattern in patterns if pattern != ".+"), line


def test_lines_are_quoted() -> None:
    assert len(LOGGED) == 3


def shell(words: str) -> str:
    """The block of the page that has these words."""
    (found,) = (block for block in SHELL if words in block)
    return found


def run(block: str, directory: Path) -> str:
    done = subprocess.run(
        ["sh", "-euc", block], cwd=directory, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.integration
def test_the_steps_work(tmp_path: Path) -> None:
    data = tmp_path / "state/hub"
    shutil.copytree(STATE / "network-0.3.0/hub", data)
    arguments = (
        "--id", "hub", "--listen", "127.0.0.1:0", "--data", str(data),
        "--set", "core.covering=incremental", "--set", "limits.drain=100ms",
        "--neighbour", "west@127.0.0.1:1", "--neighbour", "east@127.0.0.1:2",
    )  # fmt: skip
    with brokers() as started:
        broker = started.start(*arguments).ready()
        stopping = subprocess.Popen(["sh", "-euc", shell("kill $pid")], cwd=tmp_path)
        assert broker.wait() == 0  # and it is no child any more, which `tail` would wait for
        assert stopping.wait(15) == 0
        assert broker.lines[-1].endswith("stopped")
        assert run(shell("journal-*"), tmp_path) == ""
        run(shell("cp -a state/hub state/hub.before"), tmp_path)
        before = (data / "state").read_bytes()

        broker = started.start(*arguments).ready()
        broker.logged("resumed after a clean stop")
        assert run(shell("journal-*"), tmp_path).startswith("state/hub/journal-")
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
        assert (data / "state").read_bytes() != before
        run(shell("rm -r state/hub"), tmp_path)
        assert (data / "state").read_bytes() == before
        started.start(*arguments).ready().logged("resumed after a clean stop")
