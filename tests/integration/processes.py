"""Brokers as real processes on free ports of this machine, each ended by its id, and clients that
speak to them in frames. Everything has a time limit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

from prometheus_client.parser import text_string_to_metric_families

from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    AnyFrame,
    Attached,
    ClientHello,
    Delivery,
    Goodbye,
    KeepAlive,
    Preamble,
    Replies,
    Requests,
    Welcome,
)
from byway.wire import FRAME_BYTES_MAX, FrameReader, decode, encode

READY_S = 90.0  # with kernels to compile
WAIT_S = 15.0
PROGRAM = """
import resource, sys
if size := sys.argv.pop(1):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
from byway.cli.main import app
app(prog_name="byway")
"""
TRAPPED = f"from tests.trapped import trap_for_good\ntrap_for_good()\n{PROGRAM}"
"""A broker that cannot bear some inputs."""
READY = re.compile(r"ready (\S+) (\S+):(\d+) (.*)")


def environment() -> dict[str, str]:
    """This one, without settings of brokers."""
    return {k: v for k, v in os.environ.items() if not k.startswith("BYWAY_")}


def impatient() -> dict[str, str]:
    """The environment of brokers that need not wait long for neighbours that are not listed, so
    that tests need not either."""
    return environment() | {"BYWAY_CORE__UNLISTED_WAIT": "16ms"}


def eventually(happened: Callable[[], object], seconds: float = WAIT_S) -> None:
    """Wait until something is so; fail if it never is."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)


class BrokerProcess:
    """`byway broker` with some arguments."""

    def __init__(
        self, *arguments: str, file_bytes_max: int | None = None, program: str = PROGRAM
    ) -> None:
        self.arguments, self.program = arguments, program
        self.lines: list[str] = []
        """What it said on stderr."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(file_bytes_max or ""), "broker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=impatient(),
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.port = 0
        self.promise = ""

    def __repr__(self) -> str:
        return f"<broker {' '.join(self.arguments)}\n{self.log}>"

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    @property
    def log(self) -> str:
        """All it said on stderr."""
        return "\n".join(self.lines)

    def ready(self) -> BrokerProcess:
        """Wait for its line on stdout."""
        assert self.process.stdout is not None
        timer = threading.Timer(READY_S, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        match = READY.fullmatch(line.rstrip("\n"))
        assert match is not None, f"{line!r} {self!r}"
        self.port, self.promise = int(match[3]), match[4]
        return self

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        """Where its operations port is."""
        found = re.search(r"operations at (http://\S+)", self.log)
        assert found is not None, repr(self)
        return found[1]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a path of its operations port."""
        try:
            with urllib.request.urlopen(self.http + path, timeout=WAIT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """A number of its metrics; 0 for labels that nothing was counted under. Fails for a name
        or labels that no metric has: what compares 0 with a bound could never fail."""
        _, text = self.get("/metrics")
        families = list(text_string_to_metric_families(text))
        samples = [s for family in families for s in family.samples if s.name == name]
        is_known = any(family.name == name.removesuffix("_total") for family in families)
        assert samples or is_known, f"no metric is called {name}"
        assert all(s.labels.keys() == labels.keys() for s in samples), f"labels of {samples[0]}"
        return next((s.value for s in samples if s.labels == labels), 0.0)

    def logged(self, words: str) -> None:
        """Wait until its log has these words."""
        eventually(lambda: words in self.log)

    def is_linked_to(self, name: str) -> None:
        """Wait until a broker that dials this one is its neighbour. Before, what a client publishes
        here is for local clients alone, for this broker does not know that there are others."""
        self.logged(f"link to {name} is up")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        code = self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return code

    def kill(self) -> None:
        """End it as a power cut would, and wait for its end."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def rest_of_stdout(self) -> str:
        """What it said on stdout after the line it was ready with; it must have ended."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def again(self) -> BrokerProcess:
        """Another process with the same arguments and port."""
        kept = list(self.arguments)
        if "--listen" in kept:
            kept[kept.index("--listen") + 1] = self.address
        return BrokerProcess(*kept, program=self.program)


class Brokers:
    """Starts brokers and clients, and ends all that are left."""

    def __init__(self) -> None:
        self._started: list[BrokerProcess] = []
        self._clients: list[RawClient] = []

    def start(
        self, *arguments: str, file_bytes_max: int | None = None, program: str = PROGRAM
    ) -> BrokerProcess:
        """Start one; it may not be ready yet."""
        broker = BrokerProcess(*arguments, file_bytes_max=file_bytes_max, program=program)
        self._started.append(broker)
        return self._started[-1]

    def again(self, broker: BrokerProcess) -> BrokerProcess:
        """Start one in the place of another."""
        self._started.append(broker.again())
        return self._started[-1]

    def client(
        self, broker: BrokerProcess, name: str, ttl_us: int = 0, received: int = 0
    ) -> RawClient:
        """A client that the broker has taken in."""
        client = RawClient(broker, name, ttl_us, received)
        self._clients.append(client)
        client.until(lambda: client.attached is not None)
        return client

    def end(self) -> None:
        """Kill what still runs."""
        for client in self._clients:
            client.close()
        for broker in self._started:
            broker.kill()


@contextlib.contextmanager
def brokers() -> Iterator[Brokers]:
    """Brokers that do not outlive the block."""
    found = Brokers()
    try:
        yield found
    finally:
        found.end()


class RawClient:
    """A client over a blocking socket."""

    def __init__(
        self, broker: BrokerProcess, name: str, ttl_us: int = 0, received: int = 0
    ) -> None:
        self.name = name
        self.told: list[object] = []
        """Replies and other frames, in order."""
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._socket = socket.create_connection(("127.0.0.1", broker.port), WAIT_S)
        own = Preamble(CLIENT_PROTOCOL_VERSION, "client", name, 1, FRAME_BYTES_MAX, 5_000)
        self._send(own, ClientHello(ttl_us, received))

    def _send(self, *frames: AnyFrame) -> None:
        for frame in frames:
            self._socket.sendall(encode(frame))

    def ask(self, *requests: object) -> None:
        """Send requests."""
        self._send(Requests(requests))

    def until(self, happened: Callable[[], object], seconds: float = WAIT_S) -> None:
        """Read until something is so."""
        deadline = time.monotonic() + seconds
        while not happened():
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self._socket.recv(65_536)
            assert data, f"{self.name} was left: {self.told[-1:]}"
            for payload in self._reader.feed(data):
                frame = decode(payload)
                if isinstance(frame, Replies):
                    self.told += frame.replies
                elif not isinstance(frame, KeepAlive | Preamble | Welcome):
                    self.told.append(frame)

    def is_told(self, reply: object) -> None:
        """Wait for a reply."""
        self.until(lambda: reply in self.told)

    @property
    def attached(self) -> Attached | None:
        """How it was taken in."""
        return next((t for t in self.told if isinstance(t, Attached)), None)

    @property
    def deliveries(self) -> list[Delivery]:
        """What was delivered."""
        return [t for t in self.told if isinstance(t, Delivery)]

    @property
    def sequences(self) -> list[int]:
        """Sequences of the publications that were delivered."""
        return [delivery.publication.sequence for delivery in self.deliveries]

    def all_there_is(self) -> list[Delivery]:
        """What was delivered before the connection ended, as it has."""
        with contextlib.suppress(AssertionError, ConnectionError):
            self.until(lambda: False)
        return self.deliveries

    def goodbye(self) -> Goodbye:
        """Read to the end; what the broker said last."""
        self.until(lambda: any(isinstance(t, Goodbye) for t in self.told))
        return next(t for t in self.told if isinstance(t, Goodbye))

    def close(self) -> None:
        """Vanish."""
        self._socket.close()
