"""Broker processes that prune: a broad subscription is taken back, and stays preserved in the
middle of the network through a crash; deliveries are exact before and after.

A publisher at B1; a broad subscriber at B2 and a narrow one at B3 that wants the same in practice,
so that the unsubscription of the broad one stops at M, between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import byway
from byway.model.status import BrokerStatus
from tests.integration.loops import TEST_S
from tests.integration.network import Star
from tests.integration.processes import brokers

pytestmark = pytest.mark.integration

HOMES = ("B1", "B2", "B3")
PRUNING = (
    "--set", "core.covering=incremental",
    "--set", "core.incremental_bursts=[1,5000]",
    "--set", "core.pruning_samples_min=3",
    "--set", "core.retire_interval_us=100000",
)  # fmt: skip
FOR_LONG = ("--set", "core.retire_after_us=3600000000")
AT_ONCE = ("--set", "core.retire_after_us=0")
WAIT_S = 20.0


class Scene:
    """The clients, and what the narrow one must get."""

    def __init__(self, star: Star) -> None:
        self.star = star
        self.publisher = star.connect("B1", "publisher")
        self.broad = star.connect("B2", "broad")
        self.narrow = star.connect("B3", "narrow")
        self.wanted: byway.Subscription
        self.published = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Scene]:
        async with self.publisher, self.broad, self.narrow, self.publisher.advertise("ANY"):
            await self.until_linked()
            self.wanted = await self.narrow.subscribe("n >= 0 AND kind = 'wanted'")
            yield self

    async def publish(self, kind: str, count: int = 5) -> list[int]:
        numbers = list(range(self.published, self.published + count))
        self.published += count
        await self.publisher.publish_all({"n": n, "kind": kind} for n in numbers)
        await self.publisher.confirmed(WAIT_S)
        return numbers

    async def take_back_the_broad_one(self) -> None:
        """It received what the narrow one wants too, and goes."""
        broad = await self.broad.subscribe("n >= 0")
        expected = await self.publish("wanted")
        for subscription in (broad, self.wanted):
            assert await numbers(subscription, 5) == expected
        await broad.unsubscribe()

    async def is_exact(self) -> None:
        """What is wanted comes, once and in order, and nothing else."""
        await self.publish("unwanted")
        expected = await self.publish("wanted")
        await self.publish("unwanted")
        expected += await self.publish("wanted")
        assert await numbers(self.wanted, len(expected)) == expected
        assert self.wanted.pending == 0

    async def status(self, broker: str) -> BrokerStatus:
        """How a broker is, asked by a client that comes for it."""
        async with self.star.connect(broker, f"asker-{broker}", session_ttl=0.0) as asker:
            return await asker.broker_status(WAIT_S)

    async def until_linked(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while {link.state for link in (await self.status("M")).links} != {"up"}:
                await asyncio.sleep(0.02)

    async def until_preserved(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while (await self.status("M")).preserved != count:
                await asyncio.sleep(0.02)

    async def until_held_at_the_publisher(self, *filters: int) -> None:
        """B1 knows so many subscriptions, however it came to know them."""
        async with asyncio.timeout(WAIT_S):
            while (await self.status("B1")).subscriptions not in filters:
                await asyncio.sleep(0.02)


async def numbers(subscription: byway.Subscription, count: int) -> list[object]:
    found: list[object] = []
    while len(found) < count:
        events = await subscription.take(count - len(found), WAIT_S)
        assert events, f"only {found}"
        found += [event.attributes["n"] for event in events]
    return found


async def kill_where_it_is_preserved(star: Star, keeps: bool) -> None:
    async with Scene(star).open() as scene:
        await scene.take_back_the_broad_one()
        await scene.until_preserved(1)
        (stands,) = (await scene.status("M")).placeholders
        assert (stands.client, stands.state, stands.links) == ("broad", "preserved", ["B1"])
        assert star.brokers["M"].metric("byway_preserved_subscriptions", link="B1") == 1
        await scene.is_exact()
        await star.kill("M")
        await star.restart("M")
        await scene.until_preserved(1 if keeps else 0)
        await scene.until_held_at_the_publisher(1)
        await scene.is_exact()
    assert star.faults() == {}


def in_time(coroutine: object) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 2 * TEST_S))  # type: ignore[arg-type]


def test_preserved_through_a_crash(tmp_path: Path) -> None:
    with brokers() as started:
        star = Star(started, tmp_path, *PRUNING, *FOR_LONG).start(HOMES, keeping=("M",))
        in_time(kill_where_it_is_preserved(star, keeps=True))


def test_a_broker_that_kept_nothing_agrees_with_its_neighbours() -> None:
    with brokers() as started:
        star = Star(started, None, *PRUNING, *FOR_LONG).start(HOMES)
        in_time(kill_where_it_is_preserved(star, keeps=False))


def test_retired_when_all_is_quiet() -> None:
    async def retire(star: Star) -> None:
        async with Scene(star).open() as scene:
            await scene.take_back_the_broad_one()
            async with asyncio.timeout(WAIT_S):
                while star.brokers["M"].metric("byway_unsubscriptions_retired_total") < 1:
                    await asyncio.sleep(0.02)
            await scene.until_preserved(0)
            await scene.until_held_at_the_publisher(1)
            await scene.is_exact()
        assert star.brokers["M"].metric("byway_unsubscriptions_preserved_total") == 1
        assert star.faults() == {}

    with brokers() as started:
        in_time(retire(Star(started, None, *PRUNING, *AT_ONCE).start(HOMES)))
