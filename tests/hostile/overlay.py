"""The network under attack: three broker processes that keep state, honest clients with an account
of their own, and what must be true of them whatever hostile peers do."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import byway
from byway.model import ANY
from byway.model.errors import BywayError
from byway.model.messages import (
    Advertise,
    AdvertisementsSynced,
    Batch,
    Disconnect,
    EntryId,
    Hello,
    Lane,
    Preamble,
    SyncDigest,
)
from byway.wire import FRAME_BYTES_MAX, FrameReader, decode, encode
from tests.hostile.shapes import HOSTILE_BROKERS, PROTOCOL_VERSION, Facts
from tests.integration.network import Star, rss_bytes
from tests.integration.processes import Brokers

TARGET: Final = Star.MIDDLE
NEIGHBOURS: Final = ("L", "R")
RSS_BYTES_MAX: Final = 768 << 20
"""Memory of one broker; it starts with about 180 MiB."""
WAIT_S: Final = 45.0
"""How long honest traffic may take to arrive, a broker that is busy with hostile peers included."""
CONTENT: Final = "kind = 'honest' AND n >= 0"
LOG_LINES: Final = 25
FAULT_LINES: Final = 130
"""Of a fault; a traceback at the start of a process is long."""
POLICIES: Final = ("none", "active", "lazy", "packing", "incremental", "selective")
_BAD_LINES: Final = re.compile(
    r"Traceback|faults? of this program|set aside|"
    r"link to [LMR] is closed(?!: nobody needs it any more$)|"  # that one went round M
    r"link to [LMR] is down: bad frame|broker [LMR] says goodbye: bad frame|"
    r"client honest-\S+ is slow|AssertionError"
)


class FoundError(Exception):
    """Something that hostile peers must not be able to bring about."""


def settings_of(seed: int) -> tuple[str, ...]:
    """How the brokers of a round work; every policy has its turn."""
    rng = Random(seed)
    words = [f"core.covering={rng.choice(POLICIES)}"]
    words.append(f"core.load_interval_us={rng.choice((0, 200_000))}")
    words.append(f"core.merging={rng.choice(('true', 'false'))}")
    if rng.random() < 0.5:
        words.append("core.retire_interval_us=50000")
    words.append(f"mesh.delta={rng.choice((1, 4))}")  # without a mesh, or with one
    return tuple(part for word in words for part in ("--set", word))


class Honest:
    """A publisher and a subscriber at every broker: who published what, and who got it."""

    def __init__(self) -> None:
        self.publishers: dict[str, byway.Client] = {}
        self.subscribers: dict[str, byway.Client] = {}
        self.published: dict[str, int] = {}
        self.got: dict[str, dict[str, list[int]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._publishing = asyncio.Event()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all clients."""
        return tuple(sorted(c.name for c in self.clients))

    @property
    def clients(self) -> list[byway.Client]:
        """All clients."""
        return [*self.publishers.values(), *self.subscribers.values()]

    async def join(self, star: Star) -> None:
        """Connect, advertise and subscribe, and wait until that is settled."""
        for at in star.brokers:
            subscriber = await star.connect(at, f"honest-sub-{at}")
            self.subscribers[at] = subscriber
            got = self.got[subscriber.name] = {}
            taken = await subscriber.subscribe(CONTENT)
            self._tasks.append(asyncio.create_task(self._take(taken, got)))
        for at in star.brokers:
            publisher = await star.connect(at, f"honest-pub-{at}")
            self.publishers[at] = publisher
            await publisher.advertise(CONTENT)
            self.published[publisher.name] = 0
        for publisher in self.publishers.values():
            self._tasks.append(asyncio.create_task(self._publish_on(publisher)))

    async def _take(self, taken: byway.Subscription, got: dict[str, list[int]]) -> None:
        async for event in taken:
            if event.publisher in self.published:
                n = event.attributes["n"]
                got.setdefault(event.publisher, []).append(n)  # type: ignore[arg-type]

    async def _publish_on(self, client: byway.Client) -> None:
        while True:
            await self._publishing.wait()
            self.publish(client, 1)
            await asyncio.sleep(0.1)

    def publish(self, client: byway.Client, count: int) -> None:
        """Publish some more."""
        for _ in range(count):
            n = self.published[client.name]
            client.publish_nowait({"kind": "honest", "n": n})
            self.published[client.name] = n + 1

    def go_on(self, publishing: bool) -> None:
        """Publish from time to time, or no more."""
        if publishing:
            self._publishing.set()
        else:
            self._publishing.clear()

    def missing(self) -> dict[str, dict[str, str]]:
        """By subscriber and publisher, what it has, where that is not everything once, in order."""
        found: dict[str, dict[str, str]] = {}
        for name, got in self.got.items():
            for publisher, count in self.published.items():
                numbers = got.get(publisher, [])
                if numbers != list(range(count)):
                    found.setdefault(name, {})[publisher] = _difference(numbers, count)
        return found

    async def arrives(self, confirmed: bool, what: str, look: Callable[[], None]) -> None:
        """Everything that was published arrives, once and in order; and is confirmed. `look`
        raises when there is no use in waiting."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while self.missing():
                    await asyncio.sleep(0.05)
                    look()
        if missing := self.missing():
            raise FoundError(
                f"{what}: honest publications did not arrive once and in order: {missing}"
            )
        for client in self.clients:
            if (client.status.sessions, client.status.lost) != (1, 0):
                raise FoundError(f"{what}: {client.name} lost its session or deliveries: {client}")
        if confirmed:
            for publisher in self.publishers.values():
                try:
                    await publisher.confirmed(WAIT_S)
                except BywayError as error:
                    raise FoundError(f"{what}: {publisher.name}: {error}") from None

    async def aclose(self) -> None:
        """Everyone leaves."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError, BywayError, OSError):
            async with asyncio.timeout(5):
                await asyncio.gather(*(c.close() for c in self.clients), return_exceptions=True)


def _short(line: str) -> str:
    """A line without its middle: a traceback in one line ends with what matters."""
    return line if len(line) < 420 else f"{line[:100]} … {line[-300:]}"


def _difference(numbers: list[int], count: int) -> str:
    missing = sorted(set(range(count)) - set(numbers))
    twice = sorted({n for n in numbers if numbers.count(n) > 1})
    order = numbers == sorted(numbers)
    return (
        f"has {len(numbers)} of {count}, missing {missing[:5]}, twice {twice[:5]}"
        f"{'' if order else ', out of order'}"
    )


class Overlay:
    """L – M – R, each with state of its own; M is attacked."""

    def __init__(self, brokers: Brokers, directory: Path, settings: Iterable[str] = ()) -> None:
        self.star = Star(brokers, directory, *settings)
        self.honest = Honest()
        self.restarts = 0
        self._hostile_neighbours = False
        self._looked: dict[int, int] = {}
        """By process, lines of its log that were looked at."""

    @property
    def target(self) -> Any:
        """The process under test."""
        return self.star.brokers[TARGET]

    async def start(self) -> None:
        """Start everything, and see that it works before it is attacked."""
        names = (*NEIGHBOURS, TARGET)
        await asyncio.to_thread(self.star.start, NEIGHBOURS, names)
        await self.honest.join(self.star)
        await self.traffic(confirmed=True, what="before the attack")

    async def facts(self, as_broker: bool) -> Facts:
        """What a hostile peer can know; as a broker it learns ids of honest entries too."""
        incarnation, ids = 1, ()
        if as_broker:
            async with asyncio.timeout(WAIT_S):
                incarnation, ids = await _observe(self.target.port)
        return Facts(TARGET, NEIGHBOURS, self.honest.names, ids, incarnation)

    # --- what must be true -----------------------------------------------------------------------

    def look(self) -> None:
        """Cheap, and often: every process is there, and none has told of a fault."""
        for name, broker in self.star.brokers.items():
            code = broker.process.poll()
            if code is not None:
                raise FoundError(f"broker {name} has ended with code {code}")
            pid = broker.process.pid
            seen, self._looked[pid] = self._looked.get(pid, 0), len(broker.lines)
            for line in broker.lines[seen:]:
                if _BAD_LINES.search(line):
                    raise FoundError(f"broker {name} says: {_short(line)}")
            size = rss_bytes(broker)
            if size > RSS_BYTES_MAX:
                raise FoundError(f"broker {name} takes {size >> 20} MiB")

    async def health(self) -> None:
        """The operations port says that every broker is alive and ready."""
        self.look()
        for name, broker in self.star.brokers.items():
            for path, words in (("/healthz", "alive"), ("/readyz", "ready")):
                try:
                    code, text = await asyncio.to_thread(broker.get, path)
                except OSError as error:
                    raise FoundError(f"{path} of {name}: {error}") from None
                if code != 200 or words not in text:
                    raise FoundError(f"{path} of {name} says {code} {text.strip()!r}")

    async def traffic(self, confirmed: bool | None = None, what: str = "after the attack") -> None:
        """Honest traffic flows between all brokers, and all brokers answer who asks. Confirmations
        are due unless a hostile neighbour was taken in, which may withhold them."""
        links: list[str] = []
        for at, publisher in self.honest.publishers.items():
            self.honest.publish(publisher, 3)
            try:
                status = await publisher.broker_status(WAIT_S)
            except BywayError as error:
                raise FoundError(f"{what}: broker {at} does not say how it is: {error}") from None
            links += [link.broker for link in status.links]
        honest = set(links) <= {*NEIGHBOURS, TARGET}
        self._hostile_neighbours |= not honest
        if confirmed is None:
            confirmed = not self._hostile_neighbours
        await self.honest.arrives(confirmed, what, self.look)
        await self.health()

    async def restart(self, *names: str) -> None:
        """Kill some brokers as a power cut would, and start them again from what they kept."""
        words = " and ".join(names)
        await self.star.kill(*names)
        try:
            await self.star.restart(*names)
        except AssertionError:
            last = [f"{name}: {self._last_line(name)}" for name in names]
            raise FoundError(f"{words} did not start again from --data: {last}") from None
        self.restarts += len(names)
        await self.traffic(what=f"after a restart of {words}")

    def _last_line(self, name: str) -> str:
        """What a broker said last, after a moment for it to be read."""
        broker = self.star.brokers[name]
        with suppress(subprocess.TimeoutExpired):
            broker.process.wait(2)
        return _short(next((line for line in reversed(broker.lines) if line.strip()), ""))

    def logs(self) -> str:
        """The last lines of every broker, and the first fault that it tells of."""
        told = []
        for name, broker in self.star.brokers.items():
            lines = broker.lines
            at = next((i for i, line in enumerate(lines) if _BAD_LINES.search(line)), None)
            if at is not None:
                found = "\n".join(lines[max(at - 3, 0) : at + FAULT_LINES])
                told.append(f"--- {name}, its first fault\n{found}")
            told.append(f"--- {name}, the end of its log\n" + "\n".join(lines[-LOG_LINES:]))
        return "\n".join(told)


async def _observe(port: int) -> tuple[int, tuple[tuple[str, str, int, int], ...]]:
    """Be a neighbour for a moment, and see what is told: the broker's incarnation, and ids."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    name = HOSTILE_BROKERS[0]
    writer.write(encode(Preamble(PROTOCOL_VERSION, "broker", name, 1, FRAME_BYTES_MAX, 5_000)))
    writer.write(encode(Hello(name, 1, 0, 0, 0, 0)))
    advert = Advertise(EntryId(f"c-{name}", "observer", 1, 1), ANY)
    writer.write(
        encode(Batch(Lane.CONTROL, 1, (SyncDigest((), ()), advert, AdvertisementsSynced())))
    )
    frames, incarnation = FrameReader(FRAME_BYTES_MAX), 1
    ids: dict[EntryId, None] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            while data := await reader.read(262_144):
                for frame in map(decode, frames.feed(data)):
                    if isinstance(frame, Preamble):
                        incarnation = frame.incarnation
                    for message in getattr(frame, "messages", ()):
                        if isinstance(getattr(message, "id", None), EntryId):
                            ids[message.id] = None
    writer.write(encode(Batch(Lane.CONTROL, 4, (Disconnect("seen enough"),))))
    writer.close()
    return incarnation, tuple((i.client, i.name, i.incarnation, i.number) for i in sorted(ids))
