"""Networks of broker processes for tests of faults: their shape, their ends, and the accounts of
publishers and subscribers that live through them."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import byway
from tests.integration.processes import BrokerProcess, Brokers, environment

SESSION = {"session_ttl": 60.0, "retry": 0.02, "retry_max": 0.2}
ANYWHERE = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
RETRY = ("--set", "limits.retry_ms=20", "--set", "limits.retry_ms_max=200")


def rss_bytes(broker: BrokerProcess) -> int:
    """Memory of a broker process."""
    pages = int(Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Star:
    """One broker in the middle that dials all the others; with two others it is a chain."""

    MIDDLE = "M"

    def __init__(self, started: Brokers, directory: Path | None, *settings: str) -> None:
        self._started = started
        self._directory = directory
        self._settings = (*ANYWHERE, *RETRY, *settings)
        self.brokers: dict[str, BrokerProcess] = {}

    def start(self, others: Iterable[str], keeping: Iterable[str] = ()) -> Star:
        """Start all, and wait until they are linked; some keep their state."""
        kept = tuple(keeping)
        for name in others:
            self.brokers[name] = self._start(name, name in kept)
        for broker in self.brokers.values():
            broker.ready()
        dialled = [
            word
            for name, broker in self.brokers.items()
            for word in ("--neighbour", f"{name}@{broker.address}")
        ]
        outer = tuple(self.brokers.values())
        self.brokers[self.MIDDLE] = self._start(self.MIDDLE, self.MIDDLE in kept, *dialled).ready()
        for broker in outer:
            broker.is_linked_to(self.MIDDLE)
        return self

    def _start(self, name: str, keeps: bool, *arguments: str) -> BrokerProcess:
        data = ("--data", str(self._directory / name)) if keeps and self._directory else ()
        return self._started.start("--id", name, *self._settings, *data, *arguments)

    def connect(self, at: str, name: str, **options: object) -> byway.Client:
        """A client that comes back within its time."""
        url = f"byway://{self.brokers[at].address}"
        return byway.connect(url, name=name, **(SESSION | options))  # type: ignore[arg-type]

    async def kill(self, *names: str) -> None:
        """Kill some brokers at once, as a power cut would."""
        for name in names:
            self.brokers[name].signal(signal.SIGKILL)
        for name in names:
            await asyncio.to_thread(self.brokers[name].kill)

    async def restart(self, *names: str) -> None:
        """Start them again, where they were."""
        for name in names:
            self.brokers[name] = self._started.again(self.brokers[name])
        for name in names:
            await asyncio.to_thread(self.brokers[name].ready)

    def faults(self) -> dict[str, str]:
        """What went wrong inside the brokers that run."""
        errors = {name: b.metric("byway_internal_errors_total") for name, b in self.brokers.items()}
        return {name: self.brokers[name].log for name, count in errors.items() if count}


class Account:
    """What was published by some clients, and what others got of it."""

    def __init__(self) -> None:
        self.published: dict[str, int] = {}
        self.got: dict[str, dict[str, list[int]]] = {}
        self.clients: list[byway.Client] = []
        self._takers: list[asyncio.Task[None]] = []

    def __repr__(self) -> str:
        got = {name: {p: len(numbers) for p, numbers in g.items()} for name, g in self.got.items()}
        return f"<published {self.published}, got {got}>"

    async def publisher(self, client: byway.Client) -> byway.Client:
        """A client that will publish."""
        self.clients.append(await client)
        await client.advertise("ANY")
        self.published[client.name] = 0
        return client

    async def subscriber(self, client: byway.Client) -> byway.Client:
        """A client that wants everything."""
        self.clients.append(await client)
        got = self.got[client.name] = {}
        subscription = await client.subscribe("n >= 0")
        self._takers.append(asyncio.create_task(self._take(subscription, got)))
        return client

    async def _take(self, subscription: byway.Subscription, got: dict[str, list[int]]) -> None:
        async for event in subscription:
            got.setdefault(event.publisher, []).append(event.attributes["n"])  # type: ignore[arg-type]

    async def publish(self, client: byway.Client, count: int) -> None:
        """Publish some more, until they are confirmed."""
        first = self.published[client.name]
        await client.publish_all({"n": n} for n in range(first, first + count))
        self.published[client.name] = first + count
        await client.confirmed()

    def received(self) -> int:
        """Events that subscribers have, all together."""
        return sum(len(numbers) for got in self.got.values() for numbers in got.values())

    def is_complete(self) -> bool:
        """Whether everyone has at least as much as was published."""
        expected = len(self.got) * sum(self.published.values())
        return self.received() >= expected

    def is_exact(self) -> None:
        """Everyone has everything, once, in each publisher's order, in one session."""
        expected = {name: list(range(count)) for name, count in self.published.items()}
        for name, got in self.got.items():
            assert {publisher: len(numbers) for publisher, numbers in got.items()} == self.published
            assert got == expected, name
        for client in self.clients:
            assert (client.status.sessions, client.status.lost) == (1, 0), client

    async def aclose(self) -> None:
        """Everyone leaves."""
        for taker in self._takers:
            taker.cancel()
        await asyncio.gather(*(client.close() for client in self.clients))


def show(address: str, *arguments: str) -> str:
    """What `byway topology show` prints."""
    command = [sys.executable, "-m", "byway", "topology", "show", "--broker", address, *arguments]
    environ = {**environment(), "COLUMNS": "400"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
