"""Seven broker processes with a mesh under load: publications go to one far end after the other, so
that soft links are promoted and dropped while the load goes on; everything arrives once, in order.

    A – B – C – D – E
            └── F – G
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import byway
from tests.integration.loops import until
from tests.integration.network import ANYWHERE, RETRY, SESSION
from tests.integration.processes import BrokerProcess, brokers

pytestmark = pytest.mark.integration

BEFORE = {"A": "", "B": "A", "C": "B", "D": "C", "E": "D", "F": "C", "G": "F"}
FAR = ("E", "G")
MESH = (
    "delta=4", "fanout=2", "interval=200ms", "gain_min=1", "stay=0s", "opening=2s", "backoff=200ms",
    "hysteresis=1.2",
)  # fmt: skip
PER_S = 5_000
BURST = 50
"""Publications that are handed over at once."""
BEHIND_S = 0.5
"""What is made up for when it was slower for a while."""
Processes = dict[str, BrokerProcess]


@pytest.fixture
def seven() -> Iterator[Processes]:
    settings = [word for option in MESH for word in ("--set", f"mesh.{option}")]
    with brokers() as started:
        found: Processes = {}
        for name, before in BEFORE.items():
            dialled = ("--neighbour", f"{before}@{found[before].address}") if before else ()
            arguments = ("--id", name, *ANYWHERE, *RETRY, *settings, *dialled)
            found[name] = started.start(*arguments).ready()
        yield found
        for broker in found.values():
            assert broker.metric("byway_internal_errors_total") == 0, broker


class Taken:
    """What a subscriber gets: numbers, and the hops of the last."""

    def __init__(self, subscription: byway.client.Subscription) -> None:
        self.numbers: list[int] = []
        self.hops = 0
        self._task = asyncio.create_task(self._take(subscription))

    async def _take(self, subscription: byway.client.Subscription) -> None:
        async for event in subscription:
            self.numbers.append(event.attributes["n"])
            self.hops = event.hops


class Load:
    """One publisher, which publishes to one far end until it is told another, and every fourth time
    to F as well; as fast as is wanted, if it can be."""

    def __init__(self, publisher: byway.Client) -> None:
        self.far = FAR[0]
        self.published: dict[str, list[int]] = {far: [] for far in (*FAR, "F")}
        self.count = 0
        self.spent_s = 0.0
        self._publisher = publisher
        self._ends = False
        self._task = asyncio.create_task(self._publish())

    async def end(self) -> None:
        self._ends = True
        await self._task

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        begin_s = due_s = loop.time()
        while not self._ends:
            await self._publisher.send_all(self._burst())
            due_s = max(due_s + BURST / PER_S, loop.time() - BEHIND_S)
            await asyncio.sleep(max(due_s - loop.time(), 0))
        self.spent_s = loop.time() - begin_s

    def _burst(self) -> Iterator[dict[str, int]]:
        for _ in range(BURST):
            self.count += 1
            names = (self.far, "F") if self.count % 4 == 0 else (self.far,)
            for name in names:
                self.published[name].append(self.count)
            yield {"n": self.count} | dict.fromkeys(names, 1)


async def in_use(client: byway.Client) -> list[str]:
    """The ends of the soft links that its broker sends over."""
    status = await client.broker_status()
    assert status.mesh is not None
    return [link.broker for link in status.mesh.links if link.use == "in use"]


async def links_follow(seven: Processes, phases: int, phase_s: float) -> float:
    """In each phase there is load for a while, and until it takes a soft link straight to the far
    end, in the place of the one to the other. Returns the publications a second."""

    def connect(home: str, name: str) -> byway.Client:
        return byway.connect(f"byway://{seven[home].address}", name=name, **SESSION)

    loop, moved = asyncio.get_running_loop(), 0
    async with (
        connect("A", "publisher") as publisher,
        connect("E", "at E") as at_e,
        connect("F", "at F") as at_f,
        connect("G", "at G") as at_g,
        publisher.advertise("ANY"),
        at_e.subscribe("E > 0") as of_e,
        at_f.subscribe("F > 0") as of_f,
        at_g.subscribe("G > 0") as of_g,
    ):
        taken = {"E": Taken(of_e), "F": Taken(of_f), "G": Taken(of_g)}
        load = Load(publisher)
        for phase in range(phases):
            load.far = far = FAR[phase % 2]
            end_s = loop.time() + phase_s
            while not (taken[far].hops == 1 and await in_use(publisher) == [far]):
                await asyncio.sleep(0.1)
            moved += 1
            await asyncio.sleep(max(end_s - loop.time(), 0))
        await load.end()
        await publisher.flush(120)
        for name, numbers in load.published.items():
            await until(lambda n=name, m=numbers: len(taken[n].numbers) >= len(m), 120)
        for name, numbers in load.published.items():
            assert taken[name].numbers == numbers, name
    assert moved == phases
    rate = load.count / load.spent_s
    print(f"{load.count:,} publications, {rate:,.0f}/s; the soft link moved {moved} times")
    return rate


@pytest.mark.timeout(300)
def test_soft_links_follow_the_load(seven: Processes) -> None:
    asyncio.run(asyncio.wait_for(links_follow(seven, phases=3, phase_s=0.5), 280))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_soft_links_follow_the_load_for_long(seven: Processes) -> None:
    """Half a minute and more, at nearly the rate that is wanted."""
    rate = asyncio.run(asyncio.wait_for(links_follow(seven, phases=18, phase_s=2), 580))
    assert rate > 0.9 * PER_S
