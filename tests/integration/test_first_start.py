"""The first start on a machine: byway is installed from a wheel, no kernel is compiled yet, and the
user may be unable to keep any.

Compiling everything takes a minute or two of processor time; of tests that do, two are not slow.
"""

import asyncio
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import byway
from tests.installed import (
    ROOT,
    WRITES,
    WRITES_NOTHING,
    Installed,
    as_a_user,
    build_wheel,
    environment,
)

START_S = 900
pytestmark = [pytest.mark.integration, pytest.mark.timeout(START_S + 100)]

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
BLOCKING = """
import byway
with (
    byway.blocking.LocalOverlay("chain:2") as net,
    net.connect("B1") as publisher,
    net.connect("B2") as subscriber,
    publisher.advertise("ANY"),
    subscriber.subscribe("x > 1") as subscription,
):
    publisher.publish({"x": 2})
    assert subscription.next(timeout=10).attributes == {"x": 2}
"""
LOOP = """
import asyncio, byway

async def tick(ticks):
    while True:
        await asyncio.sleep(0.01)
        ticks.append(1)

async def main():
    ticks = []
    ticking = asyncio.create_task(tick(ticks))
    async with byway.LocalOverlay():
        pass
    print(len(ticks))
    ticking.cancel()

asyncio.run(main())
"""

CANCELLED = """
import asyncio, pathlib, sys, byway

async def main():
    opening = asyncio.create_task(byway.LocalOverlay().__aenter__())
    while not list(pathlib.Path(sys.argv[1]).rglob("*.nbc")):
        await asyncio.sleep(0.01)
    opening.cancel()
    try:
        await opening
    except asyncio.CancelledError:
        print("cancelled")

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("installed")
    found = Installed(directory, build_wheel(directory / "dist"), "broker")
    assert found.compiled() == set()
    return found


def run(command: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=variables,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )


class Broker:
    """A broker whose user is without privileges."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        """What it said on stderr."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert process.stdout is not None
        timer = threading.Timer(START_S, process.kill)
        timer.start()
        first = process.stdout.readline()
        timer.cancel()
        found = re.match(r"ready A (\S+) ", first)
        assert found is not None, "\n".join([first, *self.lines])
        self.url = f"byway://{found[1]}"

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines += (line.rstrip("\n") for line in self.process.stderr)

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        assert self.process.wait(30) == 0
        self._reader.join(30)


@contextmanager
def started(installed: Installed, what: str, variables: dict[str, str]) -> Iterator[Broker]:
    arguments = ("broker", "--id", "A", "--listen", "127.0.0.1:0")
    with subprocess.Popen(
        as_a_user(what, installed.byway, *arguments),
        env=variables,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Broker(process)
        finally:
            process.kill()


async def carries_a_publication(url: str) -> None:
    async with (
        byway.connect(url) as publisher,
        byway.connect(url) as subscriber,
        publisher.advertise("x >= 0", timeout=10),
        subscriber.subscribe("x > 1", timeout=10) as subscription,
    ):
        await publisher.publish({"x": 2}, timeout=10)
        assert (await subscription.next(timeout=10)).attributes == {"x": 2}


def read_only(path: Path) -> Path:
    path.mkdir(mode=0o555)
    return path


# --- the default suite --------------------------------------------------------------------------


def test_the_first_example_of_the_client_guide_works_at_once(
    installed: Installed, tmp_path: Path
) -> None:
    example = BLOCK.findall((ROOT / "docs/guide/client.md").read_text())[0]
    kept = tmp_path / "kernels"
    done = run(
        [str(installed.python), "-c", example], environment(tmp_path, NUMBA_CACHE_DIR=str(kept))
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(kept.rglob("*.nbc"))


def test_a_broker_that_can_write_nothing_works_at_once(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(read_only(tmp_path / "home"))
    with installed.read_only(), started(installed, WRITES_NOTHING, variables) as broker:
        asyncio.run(carries_a_publication(broker.url))
        broker.stop()
        (line,) = (line for line in broker.lines if " info " not in line)
        assert " warning " in line
        assert "set NUMBA_CACHE_DIR to a directory that this user can write" in line


@pytest.mark.slow
def test_a_broker_that_compiles_answers_its_operations_port(
    installed: Installed, tmp_path: Path
) -> None:
    arguments = ("broker", "--id", "A", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    with subprocess.Popen(
        [str(installed.byway), *arguments],
        env=environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels")),
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        timer = threading.Timer(START_S, process.kill)
        timer.start()
        try:
            assert process.stderr is not None
            found = (re.search(r"operations at (http://\S+)", line) for line in process.stderr)
            url = next(match[1] for match in found if match)
            while not list(tmp_path.rglob("*.nbc")):  # until it has begun
                time.sleep(0.01)
            with pytest.raises(urllib.error.HTTPError, match="503") as caught:
                urllib.request.urlopen(f"{url}/readyz", timeout=30)
            with caught.value as answer:
                assert answer.read() == b"starting\n"
        finally:
            timer.cancel()
            process.kill()


# --- slow ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_overlay_that_is_not_wanted_any_more_stops_compiling(
    installed: Installed, tmp_path: Path
) -> None:
    kept = tmp_path / "kernels"
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(kept))
    done = run([str(installed.python), "-c", CANCELLED, str(kept)], variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cancelled\n", "")
    assert not list(kept.rglob("entry.relate_query*.nbc"))  # the last one


@pytest.mark.slow
def test_a_read_only_installation_keeps_kernels_in_the_cache_of_its_user(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(tmp_path)
    kept = []
    for _ in range(2):
        with installed.read_only(), started(installed, WRITES, variables) as broker:
            asyncio.run(carries_a_publication(broker.url))
            broker.stop()
            assert not [line for line in broker.lines if " warning " in line], broker.lines
        files = (tmp_path / ".cache" / "byway").rglob("*.nb*")
        kept.append({file: file.stat().st_mtime_ns for file in files})
    assert kept[0]
    assert kept[0] == kept[1]


@pytest.mark.slow
def test_an_overlay_without_an_event_loop_works_at_once(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    done = run([str(installed.python), "-c", BLOCKING], variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_an_event_loop_goes_on_while_an_overlay_compiles(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    done = run([str(installed.python), "-c", LOOP], variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 100
