"""An inner broker of seven is killed while publications run: they go round it, nothing is lost,
doubled or out of order, and only publishers whom a client of the dead broker wants wait for it.

The tree: F – A – X, and behind X the chains B – D and C – E. X is killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import byway
from byway.model.bounds import PUBLISHER_WINDOW
from tests.integration.loops import in_loop, until
from tests.integration.network import ANYWHERE, RETRY, SESSION
from tests.integration.processes import BrokerProcess, Brokers, brokers

pytestmark = pytest.mark.integration

TREE = {"A": "", "X": "A", "B": "X", "C": "X", "D": "B", "E": "C", "F": "A"}
AFTER_S = 1.0
LATE_S = 1.0
"""How much longer than that deliveries may pause."""
MESH = ("delta=3", f"bypass_after={AFTER_S}s", "interval=0s")


class Seven:
    """Seven brokers, of which X keeps its state."""

    def __init__(self, started: Brokers, directory: Path) -> None:
        self._started = started
        self.brokers: dict[str, BrokerProcess] = {}
        settings = [word for option in MESH for word in ("--set", f"mesh.{option}")]
        for name, before in TREE.items():
            kept = ("--data", str(directory)) if name == "X" else ()
            linked = ("--neighbour", f"{before}@{self.brokers[before].address}") if before else ()
            arguments = ("--id", name, *ANYWHERE, *RETRY, *settings, *linked, *kept)
            self.brokers[name] = started.start(*arguments).ready()

    def connect(self, home: str, name: str) -> byway.Client:
        return byway.connect(f"byway://{self.brokers[home].address}", name=name, **SESSION)

    def kill(self, name: str) -> None:
        self.brokers[name].kill()

    def revive(self, name: str) -> None:
        self.brokers[name] = self._started.again(self.brokers[name]).ready()

    def parked(self) -> float:
        """How many publications A has parked for X."""
        return self.brokers["A"].metric("byway_link_parked_messages", link="X")

    def parked_of(self, publisher: str) -> float:
        """How many publications of a publisher A has parked."""
        return self.brokers["A"].metric("byway_publisher_parked_messages", publisher=publisher)


@pytest.fixture
def seven(tmp_path: Path) -> Iterator[Seven]:
    with brokers() as started:
        found = Seven(started, tmp_path / "kept")
        yield found
        for broker in found.brokers.values():
            assert broker.metric("byway_internal_errors_total") == 0, broker


class Taken:
    """What a subscriber gets: sequences by publisher, and the longest time without any."""

    def __init__(self, subscription: byway.client.Subscription) -> None:
        self.sequences: dict[str, list[int]] = {}
        self._pauses_s: dict[str, float] = {}
        self._last_s: dict[str, float] = {}
        self.task = asyncio.create_task(self._take(subscription))

    async def _take(self, subscription: byway.client.Subscription) -> None:
        async for event in subscription:
            self._note(event.publisher)
            self.sequences.setdefault(event.publisher, []).append(event.sequence)

    def _note(self, publisher: str) -> None:
        now_s = time.monotonic()
        pause_s = now_s - self._last_s.get(publisher, now_s)
        self._pauses_s[publisher] = max(self._pauses_s.get(publisher, 0.0), pause_s)
        self._last_s[publisher] = now_s

    def begin(self) -> None:
        """Measure pauses from now on."""
        self._pauses_s.clear()
        self._last_s = dict.fromkeys(self.sequences, time.monotonic())

    def pause_s(self, publisher: str) -> float:
        """The longest time without a publication of one, until now."""
        self._note(publisher)
        return self._pauses_s[publisher]

    def count(self, publisher: str) -> int:
        return len(self.sequences.get(publisher, ()))


class Source:
    """A publisher that goes on and on, at a rate."""

    def __init__(self, client: byway.Client, rate: int, attribute: str) -> None:
        self.published, self._running = 0, True
        self._client, self._rate, self._attribute = client, rate, attribute
        self.task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        begun_s = time.monotonic()
        while self._running:
            await self._client.send_all(self._due((time.monotonic() - begun_s) * self._rate))
            await asyncio.sleep(0.005)

    def _due(self, count: float) -> Iterator[dict[str, int]]:
        while self.published < count and self._running:
            self.published += 1
            yield {self._attribute: self.published}

    def end(self) -> None:
        """Hand over nothing more; what was may still wait for room."""
        self._running = False

    async def stop(self) -> None:
        self.end()
        await self.task


@asynccontextmanager
async def subscribed(seven: Seven, homes: str, text: str) -> AsyncIterator[dict[str, Taken]]:
    """A subscriber at each of these brokers."""
    clients = {home: seven.connect(home, f"at {home}") for home in homes}
    for client in clients.values():
        await client.__aenter__()
    taken = {home: Taken(await client.subscribe(text)) for home, client in clients.items()}
    try:
        yield taken
    finally:
        for home, client in clients.items():
            taken[home].task.cancel()
            await client.close()


async def goes_round(
    seven: Seven, rate: int, away_s: float, late_s: float = LATE_S, share: float = 0.0
) -> None:
    """`share`: how much of the rate must be reached while X is dead."""
    async with (
        seven.connect("A", "publisher") as publisher,
        publisher.advertise("ANY"),
        subscribed(seven, "DEF", "n >= 0") as taken,
    ):
        source = Source(publisher, rate, "n")
        await until(lambda: all(one.count("publisher") > 100 for one in taken.values()))
        for one in taken.values():
            one.begin()
        begun = source.published
        await asyncio.to_thread(seven.kill, "X")
        killed_s = time.monotonic()
        await asyncio.sleep(away_s)
        await until(lambda: taken["D"].count("publisher") > begun + rate // 10)
        away_s = time.monotonic() - killed_s
        meanwhile = source.published - begun
        delivered = taken["D"].count("publisher")
        pauses = {home: round(one.pause_s("publisher"), 2) for home, one in taken.items()}
        print(
            f"X was away for {away_s:.1f} s: {meanwhile / away_s:,.0f} publications/s, "
            f"{delivered:,} delivered at D by then, pauses {pauses} s, parked {seven.parked():.0f}"
        )
        assert delivered > begun + rate // 10  # while X is dead
        assert max(pauses.values()) < AFTER_S + late_s
        assert delivered - begun > share * rate * (away_s - AFTER_S - late_s)
        assert await asyncio.to_thread(seven.parked) == 0
        assert any("publications go round it" in line for line in seven.brokers["A"].lines)
        await asyncio.to_thread(seven.revive, "X")
        await until(lambda: any("round X no more" in line for line in seven.brokers["A"].lines), 60)
        await asyncio.sleep(0.5)
        await source.stop()
        await publisher.flush()
        for one in taken.values():
            await until(lambda one=one: one.count("publisher") >= source.published, 200)
            assert one.sequences["publisher"] == list(range(1, source.published + 1))


@in_loop
async def test_an_inner_broker_without_clients_dies(seven: Seven) -> None:
    await goes_round(seven, 500, 3.0, late_s=5.0)  # other tests run beside it


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_inner_broker_is_dead_for_long_at_5000_publications_a_second(seven: Seven) -> None:
    asyncio.run(asyncio.wait_for(goes_round(seven, 5_000, 30.0, share=0.9), 400))


@in_loop
async def test_only_publishers_whom_clients_of_the_dead_broker_want_wait(seven: Seven) -> None:
    await only_wanted_wait(seven, {"clean": 200, "wanted": 200}, 1.0, late_s=5.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_others_go_on_at_5000_publications_a_second(seven: Seven) -> None:
    rates = {"clean": 4_800, "wanted": 200}
    asyncio.run(asyncio.wait_for(only_wanted_wait(seven, rates, 30.0, share=0.9), 400))


async def only_wanted_wait(
    seven: Seven,
    rates: dict[str, int],
    away_s: float,
    late_s: float = LATE_S,
    share: float = 0.0,
) -> None:
    """Of two publishers, a client of the dead broker wants one. `share`: how much of its rate the
    other one must reach while X is dead; then it is also long enough for a full window."""
    async with (
        seven.connect("A", "clean") as clean,
        seven.connect("A", "wanted") as wanted,
        clean.advertise("ANY"),
        wanted.advertise("ANY"),
        subscribed(seven, "DE", "n >= 0 OR m >= 0") as taken,
        seven.connect("X", "at X") as client,
    ):
        taken["X"] = Taken(await client.subscribe("m >= 0"))
        sources = {
            "clean": Source(clean, rates["clean"], "n"),
            "wanted": Source(wanted, rates["wanted"], "m"),
        }
        await until(lambda: all(taken["D"].count(name) > 50 for name in sources))
        for one in taken.values():
            one.begin()
        await asyncio.to_thread(seven.kill, "X")
        killed_s, begun = time.monotonic(), sources["clean"].published
        await asyncio.sleep(away_s)
        await until(lambda: taken["D"].count("clean") > begun + rates["clean"] // 2, 60)
        pauses = {home: round(taken[home].pause_s("clean"), 2) for home in "DE"}
        away_s = time.monotonic() - killed_s
        rate = (sources["clean"].published - begun) / away_s
        print(f"clean went on with {rate:,.0f} publications/s, pauses {pauses} s")
        assert max(pauses.values()) < AFTER_S + late_s
        delivered = taken["D"].count("clean")
        assert delivered - begun > share * rates["clean"] * (away_s - AFTER_S - late_s)
        await sources["clean"].stop()
        await asyncio.wait_for(clean.flush(), 60)  # all of it is confirmed, though X is dead
        assert seven.parked() > 0
        status = await clean.broker_status()
        links = {link.broker: link for link in status.links}
        assert links["X"].parked > 0
        assert links["X"].bypassed_s > 0
        publishers = {one.publisher: one for one in status.publishers}
        assert "clean" not in publishers
        assert publishers["wanted"].parked.keys() == {"X"}
        assert seven.parked_of("wanted") > 0
        assert {tuple(link.round) for link in status.mesh.links if link.round} == {("X",)}
        before = sources["wanted"].published
        print(f"wanted has published {before:,}, {publishers['wanted'].unconfirmed:,} unconfirmed")
        if share:  # its window is full
            assert before < rates["wanted"] * away_s
            assert publishers["wanted"].unconfirmed == PUBLISHER_WINDOW
            await asyncio.sleep(1.0)
            assert sources["wanted"].published == before
        sources["wanted"].end()
        assert taken["X"].count("wanted") < before
        await asyncio.to_thread(seven.revive, "X")
        await asyncio.wait_for(sources["wanted"].stop(), 60)
        await asyncio.wait_for(wanted.flush(), 60)
        for home, names in (("D", sources), ("E", sources), ("X", ["wanted"])):
            for name in names:
                published = sources[name].published
                await until(lambda h=home, n=name, p=published: taken[h].count(n) >= p, 200)
                assert taken[home].sequences[name] == list(range(1, published + 1)), (home, name)
        taken["X"].task.cancel()
