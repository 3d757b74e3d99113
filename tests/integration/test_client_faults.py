"""Clients and brokers that fail at random moments: what was published arrives once and in order.

Publishers and subscribers have sessions, and their home brokers keep their state when they are
killed; inner brokers may lose theirs.
"""

import asyncio
import random

import pytest

import byway
from byway import LocalOverlay
from tests.integration.loops import in_loop, until

pytestmark = pytest.mark.integration

TREE = [("A", "I"), ("I", "J"), ("J", "C"), ("I", "D")]
HOMES, INNER = "ACD", "IJ"
FAULTS_MAX = 40


class Run:
    """One network, its clients, and what they got."""

    def __init__(self, net: LocalOverlay, chance: random.Random) -> None:
        self.net = net
        self.chance = chance
        self.count = chance.randrange(300, 1_500)
        self.publishers: list[byway.Client] = []
        self.subscribers: list[byway.Client] = []
        self.got: dict[str, list[tuple[str, object]]] = {}

    @property
    def clients(self) -> list[byway.Client]:
        return [*self.publishers, *self.subscribers]

    async def open(self) -> None:
        options = {"session_ttl": 60, "retry": 0.01, "retry_max": 0.05}
        for home in HOMES:
            window, pending = self.chance.choice((50, 500)), self.chance.choice((50, 100_000))
            publisher = self.net.connect(home, name=f"p{home}", window=window, **options)
            subscriber = self.net.connect(
                home, name=f"s{home}", pending_messages=pending, **options
            )
            self.publishers.append(await publisher)
            self.subscribers.append(await subscriber)
            await publisher.advertise("ANY")

    async def publish(self, publisher: byway.Client) -> None:
        await publisher.publish_all({"x": x} for x in range(self.count))
        await publisher.confirmed()

    async def take(self, subscriber: byway.Client, subscription: byway.Subscription) -> None:
        got = self.got.setdefault(subscriber.name, [])
        async for event in subscription:
            got.append((event.publisher, event.attributes["x"]))
            if self.chance.random() < 0.001:
                await asyncio.sleep(0.01)

    async def churn(self) -> None:
        """Subscribe, change it, unsubscribe, again and again."""
        while True:
            subscriber = self.chance.choice(self.subscribers)
            async with subscriber.subscribe(f"x = {self.chance.randrange(9)}") as subscription:
                await subscription.update(f"x = {self.chance.randrange(9)}")
                await asyncio.sleep(self.chance.uniform(0, 0.03))

    async def fail(self) -> None:
        """One thing goes wrong, and is put right."""
        kind = self.chance.random()
        if kind < 0.5:
            connection = self.chance.choice(self.clients)._driver._connection
            assert connection is not None
            connection.abort("the test cut it")
            return
        broker = self.chance.choice(INNER if kind < 0.8 else HOMES)
        keeps_state = broker in HOMES or self.chance.random() < 0.5
        await self.net.kill(broker)
        await asyncio.sleep(self.chance.uniform(0, 0.05))
        await self.net.restart(broker, keeps_state=keeps_state)
        await self.net.linked()


async def run(seed: int) -> None:
    chance = random.Random(seed)
    async with LocalOverlay(TREE) as net:
        it = Run(net, chance)
        await it.open()
        takers = [
            asyncio.create_task(it.take(subscriber, await subscriber.subscribe("x >= 0")))
            for subscriber in it.subscribers
        ]
        churning = asyncio.create_task(it.churn())
        publishing = [asyncio.create_task(it.publish(publisher)) for publisher in it.publishers]
        for _ in range(FAULTS_MAX):
            await asyncio.sleep(chance.uniform(0.005, 0.06))
            if not all(task.done() for task in publishing):
                await it.fail()
        await asyncio.gather(*publishing)
        churning.cancel()
        expected = [(p.name, x) for p in it.publishers for x in range(it.count)]
        await until(lambda: all(len(got) >= len(expected) for got in it.got.values()))
        await until(lambda: all(client.is_attached for client in it.clients))
        for task in takers:
            task.cancel()
        for got in it.got.values():  # in each publisher's order: sorting by name changes nothing
            assert sorted(got, key=lambda pair: pair[0]) == expected
        for client in it.clients:
            assert (client.status.sessions, client.status.lost) == (1, 0)
            await client.close()
        brokers = [server.broker for server in net.brokers.values()]
        await until(lambda: not any(len(b.subscriptions) + len(b.advertisements) for b in brokers))


@pytest.mark.parametrize("seed", range(2))
@in_loop
async def test_nothing_is_lost_doubled_or_out_of_order(seed: int) -> None:
    await run(seed)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_nothing_is_lost_doubled_or_out_of_order_often() -> None:
    for seed in range(100, 200):
        asyncio.run(asyncio.wait_for(run(seed), 60))
