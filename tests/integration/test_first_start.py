"""The first start on a machine: byway is installed from a wheel, no kernel is compiled yet, and the
user may be unable to keep any.

Compiling takes a quarter of a minute of processor time; of tests that do, one is not slow.
"""

import asyncio
import os
import re
import signal
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
from byway.matching import kernel_files
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
    while not list(pathlib.Path(sys.argv[1]).rglob("*.lock")):
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


def children_of(process: subprocess.Popen[str]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in found.split()]


def memory_mib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # a child that has ended
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(found[1]) / 1_024 if found else 0.0


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
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def says(self, text: str) -> float:
        """Wait until it has said something; the most memory that was seen meanwhile."""
        deadline = time.monotonic() + START_S
        peak_mib = 0.0
        while not any(text in line for line in self.lines):
            assert self.process.poll() is None, self.lines
            assert time.monotonic() < deadline, self.lines
            peak_mib = max(peak_mib, self.memory_mib())
            time.sleep(0.05)
        return peak_mib

    def memory_mib(self) -> float:
        """What it and its children have in memory."""
        return sum(memory_mib(pid) for pid in (self.process.pid, *children_of(self.process)))

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        assert self.process.wait(30) == 0
        self._reader.join(30)


@contextmanager
def started(
    installed: Installed, what: str, variables: dict[str, str], *more: str
) -> Iterator[Broker]:
    arguments = ("broker", "--id", "A", "--listen", "127.0.0.1:0", *more)
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


COMPILING = "compiling kernels, once"


# --- the default suite --------------------------------------------------------------------------


def test_a_broker_without_kernels_works_at_once_and_goes_over_to_them(
    installed: Installed, tmp_path: Path
) -> None:
    kept = tmp_path / "kernels"
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(kept))
    with started(installed, WRITES, variables) as broker:
        assert not list(kept.rglob("*.o"))
        asyncio.run(carries_a_publication(broker.url))
        peak_mib = broker.says("kernels are compiled, after ")
        assert 100 < peak_mib < 400
        asyncio.run(carries_a_publication(broker.url))
        broker.stop()
        assert broker.lines[0].endswith(f"{COMPILING}: until that is done, matching is slower")
        assert [line for line in broker.lines if re.search(f"{COMPILING}: 5\\d % done", line)]
        assert not [line for line in broker.lines if " info " not in line]
    (file,) = kept.rglob("*.o")
    with started(installed, WRITES_NOTHING, variables) as broker:
        asyncio.run(carries_a_publication(broker.url))
        assert 30 < broker.memory_mib() < 130
        broker.stop()
        assert not [line for line in broker.lines if COMPILING in line]
    warm = run([str(installed.byway), "warm"], variables)
    assert (warm.returncode, warm.stdout) == (0, "kernels are compiled already\n")
    assert list(kept.rglob("*.o")) == [file]


def test_a_broker_that_can_write_nothing_works_at_once(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(read_only(tmp_path / "home"))
    with installed.read_only(), started(installed, WRITES_NOTHING, variables) as broker:
        asyncio.run(carries_a_publication(broker.url))
        broker.says("set NUMBA_CACHE_DIR to a directory that this user can write")
        broker.stop()
        (line,) = (line for line in broker.lines if " info " not in line)
        assert " warning " in line


def test_a_broker_that_compiles_ends_at_a_signal(installed: Installed, tmp_path: Path) -> None:
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    with started(installed, WRITES, variables) as broker:
        (compiler,) = children_of(broker.process)
        broker.stop()
        assert not Path(f"/proc/{compiler}").exists()
    assert not list(tmp_path.rglob("*.o"))


def test_ctrl_c_ends_a_command_that_compiles(installed: Installed, tmp_path: Path) -> None:
    """A terminal sends the signal to all processes of a command."""
    with subprocess.Popen(
        [str(installed.byway), "warm"],
        env=environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # these tests may run in the background of a shell, which makes their processes ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            while not list(tmp_path.rglob("*.lock")):  # until it has begun
                assert process.poll() is None
                time.sleep(0.01)
            (compiler,) = children_of(process)
            os.killpg(process.pid, signal.SIGINT)
            out, error = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in error
    assert not Path(f"/proc/{compiler}").exists()


def test_a_compiler_whose_broker_was_killed_ends_by_itself(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    with started(installed, WRITES, variables) as broker:
        (compiler,) = children_of(broker.process)
        broker.process.kill()
        deadline = time.monotonic() + 60
        while Path(f"/proc/{compiler}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert not list(tmp_path.rglob("*.o"))


def test_a_broker_whose_kernels_cannot_be_compiled_goes_on_without(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('numba is broken')")
    variables = environment(
        tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"), PYTHONPATH=str(tmp_path)
    )
    with started(installed, WRITES, variables) as broker:
        broker.says(
            "the kernels cannot be compiled: ImportError: numba is broken: "
            "the broker goes on without kernels, and matching stays slower"
        )
        asyncio.run(carries_a_publication(broker.url))
        broker.stop()
        assert not [line for line in broker.lines if "Traceback" in line]


async def subscribe_often(url: str) -> None:
    async with byway.connect(url) as client:
        for number in range(600):
            await client.subscribe(f"x = {number} AND name = '{number:0200}'")


def test_a_broker_with_much_state_waits_for_its_kernels(
    installed: Installed, tmp_path: Path
) -> None:
    code = kernel_files.find()
    assert code is not None
    compiled = tmp_path / "compiled"
    (compiled / "byway").mkdir(parents=True)
    kernel_files.write(compiled / "byway" / kernel_files.file_name(), code)
    data = ("--data", str(tmp_path / "data"))
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(compiled))
    with started(installed, WRITES, variables, *data) as broker:
        asyncio.run(subscribe_often(broker.url))
        broker.process.kill()
    arguments = ("broker", "--id", "A", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    with subprocess.Popen(
        [str(installed.byway), *arguments, *data],
        env=environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "empty")),
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
            assert COMPILING in process.stderr.readline()
            with pytest.raises(urllib.error.HTTPError, match="503") as caught:
                urllib.request.urlopen(f"{url}/readyz", timeout=30)
            with caught.value as answer:
                assert answer.read() == b"starting\n"
            process.terminate()
            assert process.wait(30) == 0
            assert process.stdout is not None
            assert process.stdout.read() == ""
        finally:
            timer.cancel()
            process.kill()


# --- slow ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_first_example_of_the_client_guide_works(installed: Installed, tmp_path: Path) -> None:
    example = BLOCK.findall((ROOT / "docs/guide/client.md").read_text())[0]
    kept = tmp_path / "kernels"
    done = run(
        [str(installed.python), "-c", example], environment(tmp_path, NUMBA_CACHE_DIR=str(kept))
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{COMPILING}: this takes about 15 s\n"
    assert list(kept.rglob("*.o"))


@pytest.mark.slow
def test_several_that_start_at_once_compile_once(installed: Installed, tmp_path: Path) -> None:
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    command = [str(installed.python), "-m", "byway.matching.kernels.compiling"]
    programs = [
        subprocess.Popen(command, env=variables, cwd="/", stdout=subprocess.PIPE) for _ in range(3)
    ]
    reports = [one.communicate(timeout=START_S)[0] for one in programs]
    assert sum(report.startswith(b"progress ") for report in reports) == 1
    assert len({report[report.index(b"object ") :] for report in reports}) == 1
    assert len(list(tmp_path.rglob("kernels-*.o"))) == 1


def test_an_overlay_that_is_not_wanted_any_more_stops_compiling(
    installed: Installed, tmp_path: Path
) -> None:
    kept = tmp_path / "kernels"
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(kept))
    done = run([str(installed.python), "-c", CANCELLED, str(kept)], variables)
    assert (done.returncode, done.stdout) == (0, "cancelled\n")
    assert not list(kept.rglob("*.o"))


@pytest.mark.slow
def test_a_read_only_installation_keeps_kernels_in_the_cache_of_its_user(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(tmp_path)
    kept = []
    for _ in range(2):
        with installed.read_only(), started(installed, WRITES, variables) as broker:
            asyncio.run(carries_a_publication(broker.url))
            if not kept:
                broker.says("kernels are compiled, after ")
            broker.stop()
            assert not [line for line in broker.lines if " warning " in line], broker.lines
        files = (tmp_path / ".cache" / "byway").rglob("*.o")
        kept.append({file: file.stat().st_mtime_ns for file in files})
    assert kept[0]
    assert kept[0] == kept[1]


@pytest.mark.slow
def test_an_overlay_without_an_event_loop_works_at_once(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    done = run([str(installed.python), "-c", BLOCKING], variables)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
def test_an_event_loop_goes_on_while_an_overlay_compiles(
    installed: Installed, tmp_path: Path
) -> None:
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    done = run([str(installed.python), "-c", LOOP], variables)
    assert done.returncode == 0
    assert int(done.stdout) > 100
