"""A mesh of broker processes: soft links open where publications travel, which then pass by brokers
that have no use for them; everything arrives once and in order, also when the far end is killed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import byway
from tests.integration.loops import in_loop, until
from tests.integration.network import ANYWHERE, RETRY, SESSION, show
from tests.integration.processes import BrokerProcess, Brokers, brokers

pytestmark = pytest.mark.integration

MESH = ("delta=4", "interval=300ms", "gain_min=1", "stay=0s", "opening=2s", "backoff=200ms")
NAMES = ("A", "B", "C", "D")


class Chain:
    """Four brokers in a row; the last one keeps its state."""

    def __init__(self, started: Brokers, directory: Path) -> None:
        self._started = started
        self.brokers: dict[str, BrokerProcess] = {}
        settings = [word for option in MESH for word in ("--set", f"mesh.{option}")]
        before: list[str] = []
        for name in NAMES:
            kept = ("--data", str(directory)) if name == NAMES[-1] else ()
            arguments = ("--id", name, *ANYWHERE, *RETRY, *settings, *before, *kept)
            self.brokers[name] = broker = started.start(*arguments).ready()
            before = ["--neighbour", f"{name}@{broker.address}"]

    def connect(self, home: str, name: str) -> byway.Client:
        return byway.connect(f"byway://{self.brokers[home].address}", name=name, **SESSION)

    def restart(self, name: str) -> None:
        """Kill a broker, and start it again where it was."""
        self.brokers[name].kill()
        self.brokers[name] = self._started.again(self.brokers[name]).ready()

    def copies(self, name: str) -> float:
        """Publications that a broker has taken from others."""
        return self.brokers[name].metric("byway_publications_received_total", **{"from": "link"})


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    with brokers() as started:
        found = Chain(started, tmp_path / "kept")
        yield found
        for broker in found.brokers.values():
            assert broker.metric("byway_internal_errors_total") == 0, broker


class Taken:
    """What a subscriber gets: sequences, and the hops of the last."""

    def __init__(self, subscription: byway.client.Subscription) -> None:
        self.sequences: list[int] = []
        self.hops = 0
        self._task = asyncio.create_task(self._take(subscription))

    async def _take(self, subscription: byway.client.Subscription) -> None:
        async for event in subscription:
            self.sequences.append(event.sequence)
            self.hops = event.hops


@in_loop
async def test_publications_pass_by_brokers_that_have_no_use_for_them(chain: Chain) -> None:
    async with (
        chain.connect("A", "publisher") as publisher,
        chain.connect("D", "subscriber") as subscriber,
        publisher.advertise("ANY"),
        subscriber.subscribe("n >= 0") as subscription,
    ):
        taken, published = Taken(subscription), 0

        async def publish_until(hops: int) -> None:
            await publish_while(lambda: taken.hops != hops)

        async def publish_while(wanted: Callable[[], bool]) -> None:
            nonlocal published
            while wanted():
                for _ in range(20):
                    published += 1
                    await publisher.publish({"n": published})
                await asyncio.sleep(0.01)

        await publish_until(3)  # over the tree
        await publish_until(1)  # straight
        await publisher.flush()
        await until(lambda: len(taken.sequences) == published)
        before = await asyncio.to_thread(chain.copies, "B")
        for _ in range(50):
            published += 1
            await publisher.publish({"n": published})
        await publisher.flush()
        await until(lambda: len(taken.sequences) == published)
        assert await asyncio.to_thread(chain.copies, "B") == before
        status = await publisher.broker_status()
        assert status.mesh is not None
        links = {link.broker: link for link in status.mesh.links}
        assert (links["D"].kind, links["D"].use, links["D"].span) == ("soft", "in use", 3)
        assert links["B"].kind == "primary"
        assert links["B"].gain == 0 < links["D"].gain
        looks = True
        traffic = asyncio.create_task(publish_while(lambda: looks))  # else the link is dropped
        shown = await asyncio.to_thread(show, chain.brokers["A"].address, "--json")
        mesh = json.loads(shown)["mesh"]
        assert (mesh["delta"], mesh["strategy"], mesh["parked"]) == (4, "S2", 0)
        told = {link["broker"]: link for link in mesh["links"]}
        assert told["B"]["kind"] == "primary"
        assert (told["D"]["kind"], told["D"]["use"], told["D"]["span"]) == ("soft", "in use", 3)
        assert told["D"]["rate"] > 0 < told["D"]["gain"]
        shown = await asyncio.to_thread(show, chain.brokers["D"].address)
        assert re.search(r"A  soft link up  \S+, incoming, 3 hops of the tree", shown)
        looks = False
        await traffic
        await asyncio.to_thread(chain.restart, "D")
        taken.hops = 0
        await publish_until(1)  # there is a soft link again
        await publisher.flush()
        await until(lambda: taken.sequences[-1] == published)
        assert taken.sequences == list(range(1, published + 1))


@in_loop
async def test_a_busy_uplink_makes_a_broker_send_fewer_copies() -> None:
    """Strategy SH, the default: S1 while more than 80 % of what the uplink carries is in use."""
    busy = ("mesh.delta=2", "limits.uplink_bytes=20000", "core.load_sample=100ms")
    settings = [word for option in busy for word in ("--set", option)]
    with brokers() as started:
        a = started.start("--id", "A", *ANYWHERE, *RETRY, *settings).ready()
        b = started.start("--id", "B", *ANYWHERE, *RETRY, "--neighbour", f"A@{a.address}").ready()
        async with (
            byway.connect(f"byway://{a.address}", **SESSION) as publisher,
            byway.connect(f"byway://{b.address}", **SESSION) as subscriber,
            publisher.advertise("ANY"),
            subscriber.subscribe("n >= 0"),
        ):

            async def strategy() -> str:
                status = await publisher.broker_status()
                assert status.mesh is not None
                return status.mesh.strategy

            assert await strategy() == "S2"
            published = 0
            while await strategy() == "S2":  # 100 kB and more a second
                published += 1
                await publisher.publish({"n": published}, data=bytes(1_000))
                await asyncio.sleep(0.01)
            while await strategy() == "S1":
                await asyncio.sleep(0.05)


def test_brokers_that_differ_in_order_refuse_each_other_and_both_say_so() -> None:
    with brokers() as started:
        a = started.start("--id", "A", *ANYWHERE, *RETRY, "--set", "mesh.order=none").ready()
        dialled = ("--neighbour", f"A@{a.address}")
        b = started.start("--id", "B", *ANYWHERE, *RETRY, *dialled, "--set", "log_level=warning")
        words = 'has order "publisher" in [mesh], and A has "none": it must be equal in the whole'
        b.logged(f"broker A says goodbye: B {words}")
        a.logged(f" is refused: {words}")
