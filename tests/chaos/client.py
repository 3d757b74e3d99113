"""A process with some clients of a chaos run, which write down what happens to them.

    python -m tests.chaos.client SPEC     (a pickled `Spec`)

It uses the public client library only. Words on stdin: `traffic T` (it began at T of the monotonic
clock), `stop` (publish no more), `end`; the end of stdin ends it too. It says `ready` when all that
is wanted from the beginning is settled, and `confirmed` when all it published is, after `stop`.

Every client has a log of its own, to which lines are appended by single writes, so that all that
was written before a kill -9 stays. Times are monotonic nanoseconds, the same for all processes.

    S t                   this process begins
    L t life incarnation  a session begins; of a client without one, an attachment
    P t n kind a b        about to be published (written before)
    C t first last        receipts from n = first to last are confirmed
    R t n reason          refused
    Q t name interest     about to subscribe
    T t name life         the subscription is settled
    G t name publisher incarnation sequence n    an event was taken
    U t name              about to unsubscribe
    X t lost              the broker says that it lost so many events, in all
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import random
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import byway
from tests.chaos.plan import SESSION_S, Client, Wanted

TICK_S = 0.02
POLL_S = 0.02
TAKEN = 512


@dataclass(frozen=True)
class Spec:
    """What a process does."""

    clients: tuple[Client, ...]
    urls: dict[str, str]
    """By client."""
    directory: str
    """Of the logs."""


class Log:
    """The account of one client."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *lines: str) -> None:
        """Append lines, by one write."""
        data = "".join(f"{line}\n" for line in lines).encode()
        assert os.write(self._file, data) == len(data)


def now() -> int:
    """Nanoseconds of a clock that all processes of this machine share."""
    return time.monotonic_ns()


class Control:
    """What the process was told."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.traffic: asyncio.Future[float] = self.loop.create_future()
        self.stopped = asyncio.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self.loop.call_soon_threadsafe(self._told, *line.split())
        os._exit(0)

    def _told(self, word: str, *rest: str) -> None:
        if word == "traffic":
            self.traffic.set_result(float(rest[0]))
        elif word == "stop":
            self.stopped.set()
        elif word == "end":
            os._exit(0)

    async def until(self, after_s: float) -> None:
        """Wait until so long after traffic began."""
        began = await asyncio.shield(self.traffic)
        await asyncio.sleep(max(began + after_s - time.monotonic(), 0))


class Member:
    """A client and its log."""

    def __init__(self, spec: Spec, client: Client) -> None:
        self.spec = client
        path = Path(spec.directory) / f"{client.name}.log"
        self.log = Log(path)
        self.log.write(f"S {now()}")
        self.client = byway.connect(
            spec.urls[client.name],
            name=client.name,
            session_ttl=SESSION_S if client.session else 0.0,
            window=client.window,
            timeout=math.inf,
            connect_wait=3_600.0,
            settle_wait=3_600.0,  # else what is published then may be missed, as documented
        )
        self.life = 0
        self._lost = 0

    def look(self) -> None:
        """Write down whether a new life has begun, or something was lost."""
        status = self.client.status
        life = status.sessions if self.spec.session else status.attachments
        if life != self.life:
            self.life = life
            self.log.write(f"L {now()} {life} {status.incarnation}")
        if status.lost != self._lost:
            self._lost = status.lost
            self.log.write(f"X {now()} {status.lost}")


class Publisher(Member):
    """Publishes at a rate, and writes down what is confirmed."""

    def __init__(self, spec: Spec, client: Client) -> None:
        path = Path(spec.directory) / f"{client.name}.log"
        self.last = _last_published(path)
        super().__init__(spec, client)
        self._receipts: deque[tuple[int, byway.Receipt]] = deque()
        self._rng = random.Random(f"{client.name} {self.last}")
        self._arrived = asyncio.Event()

    async def prepare(self) -> None:
        """Say what will be published."""
        assert self.spec.advertises is not None
        await self.client
        self.look()
        await self.client.advertise(self.spec.advertises.advertisement)

    async def run(self, control: Control) -> None:
        """Publish until told to stop, then until all is confirmed."""
        confirming = asyncio.create_task(self._confirm())
        await control.until(0)
        began, made = time.monotonic(), 0
        while not control.stopped.is_set():
            due = int((time.monotonic() - began) * self.spec.rate) - made
            made += due  # what finds no room is not made up for
            self._publish(due)
            await asyncio.sleep(TICK_S)
        while self._receipts:
            await asyncio.sleep(TICK_S)
        confirming.cancel()

    def _publish(self, count: int) -> None:
        """Publish some, if there is room for them."""
        assert self.spec.advertises is not None
        count = min(count, self.spec.window - len(self._receipts))
        if count <= 0:
            return
        drawn = [self.spec.advertises.draw(self._rng) for _ in range(count)]
        numbered = list(enumerate(drawn, self.last + 1))
        self.last += count
        self.look()
        self.log.write(*(f"P {now()} {n} {kind} {a} {b}" for n, (kind, a, b) in numbered))
        for n, (kind, a, b) in numbered:
            receipt = self.client.publish_nowait({"n": n, "k": kind, "a": a, "b": b})
            self._receipts.append((n, receipt))
        self._arrived.set()

    async def _confirm(self) -> None:
        while True:
            while not self._receipts:
                self._arrived.clear()
                await self._arrived.wait()
            first, receipt = self._receipts[0]
            try:
                await receipt.confirmed()
            except byway.RefusedError as error:
                self._receipts.popleft()
                self.log.write(f"R {now()} {first} {error.reason!r}")
                continue
            self.look()
            last = first
            while self._receipts and self._receipts[0][1].is_confirmed:
                last, _ = self._receipts.popleft()
            self.log.write(f"C {now()} {first} {last}")

    async def watch(self) -> None:
        """Write down new sessions as they come."""
        while True:
            self.look()
            await asyncio.sleep(POLL_S)


def _last_published(path: Path) -> int:
    """Where an earlier process stopped."""
    if not path.exists():
        return 0
    lines = path.read_text().splitlines()
    return max((int(line.split()[2]) for line in lines if line.startswith("P ")), default=0)


class Subscriber(Member):
    """Subscribes, and writes down what it gets."""

    def __init__(self, spec: Spec, client: Client) -> None:
        super().__init__(spec, client)
        self._open: dict[str, byway.Subscription] = {}
        self._settled: dict[str, int] = {}
        """By subscription, the life in which it was seen settled."""
        self._takers: set[asyncio.Task[None]] = set()

    async def prepare(self) -> None:
        """Subscribe to what is wanted from the beginning."""
        await self.client
        self.look()
        for wanted in self.spec.wants:
            if wanted.since == 0:
                await self._begin(wanted)

    async def run(self, control: Control) -> None:
        """Subscribe and unsubscribe when it is the time."""
        await asyncio.gather(*(self._live(control, wanted) for wanted in self.spec.wants))

    async def _live(self, control: Control, wanted: Wanted) -> None:
        began = await asyncio.shield(control.traffic)
        if wanted.until is not None and time.monotonic() > began + wanted.until:
            if wanted.name in self._open:
                await self._finish(wanted.name)
            return
        await control.until(wanted.since)
        if wanted.name not in self._open:
            await self._begin(wanted)
        if wanted.until is not None:
            await control.until(wanted.until)
            await self._finish(wanted.name)

    async def _begin(self, wanted: Wanted) -> None:
        self.log.write(f"Q {now()} {wanted.name} {wanted.interest.written()}")
        subscription = self.client.subscribe(wanted.interest.text, name=wanted.name, settled=False)
        await subscription
        self._open[wanted.name] = subscription
        taker = asyncio.create_task(self._take(wanted.name, subscription))
        self._takers.add(taker)
        await subscription.settled()
        self._see_settled()

    async def _finish(self, name: str) -> None:
        subscription = self._open.pop(name)
        self.log.write(f"U {now()} {name}")
        await subscription.unsubscribe()

    async def _take(self, name: str, subscription: byway.Subscription) -> None:
        while events := await subscription.take(TAKEN):
            if self._open.get(name) is not subscription:
                return
            self.look()
            self.log.write(
                *(
                    f"G {now()} {name} {e.publisher} {e.incarnation} {e.sequence} "
                    f"{e.attributes['n']}"
                    for e in events
                )
            )

    async def watch(self) -> None:
        """Write down lives as they begin, and what is settled in them."""
        while True:
            self._see_settled()
            await asyncio.sleep(POLL_S)

    def _see_settled(self) -> None:
        self.look()
        for name, subscription in self._open.items():
            if self._settled.get(name) != self.life and subscription.is_settled:
                self._settled[name] = self.life
                self.log.write(f"T {now()} {name} {self.life}")


async def main(spec: Spec) -> None:
    """Run all clients of this process, each on its own: none waits for another."""
    control = Control()
    publishers = [Publisher(spec, c) for c in spec.clients if c.advertises is not None]
    subscribers = [Subscriber(spec, c) for c in spec.clients if c.advertises is None]
    prepared: set[str] = set()

    async def live(member: Publisher | Subscriber) -> None:
        await member.prepare()
        prepared.add(member.spec.name)
        await member.run(control)

    async with asyncio.TaskGroup() as tasks:
        for member in (*publishers, *subscribers):
            tasks.create_task(member.watch())
        publishing = [tasks.create_task(live(publisher)) for publisher in publishers]
        for subscriber in subscribers:
            tasks.create_task(live(subscriber))
        everyone = {client.name for client in spec.clients}
        while prepared != everyone:
            await asyncio.sleep(POLL_S)
        print("ready", flush=True)
        for task in publishing:
            await task
        print("confirmed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(pickle.loads(Path(sys.argv[1]).read_bytes())))
