"""The demonstration: seven brokers on loopback, exchanges that publish stock quotes, and
subscribers that want some of them.

For every quote it computes which subscribers must receive it, and counts for each subscriber the
events received, their latency and the hops travelled. `cli` decides what is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from itertools import count
from statistics import quantiles
from typing import ClassVar, Final

import msgspec

from byway.client.client import Client
from byway.client.subscription import Subscription
from byway.clock import now_us
from byway.core.broker_config import BrokerConfig
from byway.local.overlay import LocalOverlay
from byway.model import Filter, parse
from byway.model.values import Value
from byway.workload import StockQuotes

SHAPE: Final = "tree:7"
PICTURE: Final = """\
          B1 Cairo
       ┌───┴────┐
       B2       B3
     ┌─┴──┐   ┌─┴──┐
Oslo B4   B5  B6   B7 Rome"""
"""The brokers of `SHAPE`, and where the publishers of `EXCHANGES` are."""
SYMBOLS: Final = 30
TICK_S: Final = 0.01
WATCH_S: Final = 0.25
REST_S: Final = 15.0
"""How long to wait for the last deliveries."""
TOGETHER: Final = 1_024

EXCHANGES: Final = (("Oslo", "B4"), ("Rome", "B7"), ("Cairo", "B1"))
"""Publishers and their brokers."""
ADVERTISED: Final = (
    "class = 'STOCK' AND symbol EXISTS AND open EXISTS AND high EXISTS AND low EXISTS "
    "AND close > 0 AND volume >= 0 AND date EXISTS AND openClose%Diff >= 0 AND highLow%Diff >= 0 "
    "AND closeEqualsLow IN ('true', 'false') AND closeEqualsHigh IN ('true', 'false')"
)
WANTED: Final = (
    ("archive", "B2", "class = 'STOCK'"),
    ("penny", "B3", "close < 10"),
    ("large", "B4", "volume > 3000000"),
    ("alarm", "B5", "highLow%Diff > 0.05"),
    ("fund", "B6", "symbol IN ('BAAA', 'MJWO', 'XTTC')"),
    ("patient", "B7", "symbol LIKE 'G%'"),
    ("idle", "B5", "symbol = 'NONE'"),
)
"""Subscribers, their brokers and their filters."""


class ShowcaseSubscriber:
    """A subscriber of the demonstration: the events it must receive, and those it received."""

    def __init__(self, name: str, broker: str, filter: str) -> None:
        self.name = name
        self.broker = broker
        self.filter = filter
        self.wanted: Filter = parse(filter)
        self.expected = 0
        self.received = 0
        self.unexpected = 0
        """Events received twice or out of order, or not meant for it."""
        self._last: dict[str, int] = {}
        """By publisher, the sequence of the last event."""
        self.missing: set[tuple[str, int]] = set()
        """Publisher and sequence of events that are still to come."""
        self.latencies_us: list[int] = []
        self.hops: list[int] = []
        """By number of hops, the number of events."""

    def expect(self, publisher: str, sequence: int, quote: dict[str, Value]) -> None:
        """Expect a quote that is about to be published, if it matches."""
        if self.wanted.matches(quote):
            self.expected += 1
            self.missing.add((publisher, sequence))

    async def listen(self, subscription: Subscription) -> None:
        """Take and count events until cancelled."""
        while True:
            for event in await subscription.take(TOGETHER):
                self.take(event.publisher, event.sequence, event.published_us, event.hops)

    def take(self, publisher: str, sequence: int, published_us: int, hops: int) -> None:
        """Count an event."""
        name = publisher, sequence
        if name not in self.missing or sequence < self._last.get(publisher, 0):
            self.unexpected += 1
            return
        self._last[publisher] = sequence
        self.missing.remove(name)
        self.received += 1
        self.latencies_us.append(max(now_us() - published_us, 0))
        self.hops += [0] * (hops + 1 - len(self.hops))
        self.hops[hops] += 1


class ShowcasePublisher:
    """An exchange that publishes quotes."""

    def __init__(self, name: str, broker: str) -> None:
        self.name = name
        self.broker = broker
        self.published = 0


class ShowcaseAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one subscriber. Latency runs from when the publisher's broker accepted a
    quote."""

    name: str
    broker: str
    filter: str
    expected: int
    received: int
    unexpected: int
    latency_ms_p50: float
    latency_ms_p99: float
    hops: list[int]
    """By number of hops, from 0 on, the number of events."""

    @property
    def is_exact(self) -> bool:
        """Whether each expected event was received once, and nothing else."""
        return self.received == self.expected and not self.unexpected

    @property
    def hops_text(self) -> str:
        """The range of hops and their mean, such as `1–4 (2.5)`; empty without events."""
        total = sum(self.hops)
        if not total:
            return ""
        mean = sum(number * events for number, events in enumerate(self.hops)) / total
        used = [number for number, events in enumerate(self.hops) if events]
        return f"{used[0]}–{used[-1]} ({mean:.1f})" if len(used) > 1 else f"{used[0]}"


class ShowcaseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a demonstration."""

    seconds: float
    brokers: int
    published: dict[str, int]
    """By publisher, the number of quotes published."""
    subscribers: list[ShowcaseAccount]

    @property
    def is_complete(self) -> bool:
        """Whether every subscriber received each expected event once, and nothing else."""
        return all(subscriber.is_exact for subscriber in self.subscribers)


class Showcase:
    """One run of the demonstration."""

    picture: ClassVar[str] = PICTURE

    def __init__(
        self,
        rate: float,
        exchanges: Iterable[tuple[str, str]] = EXCHANGES,
        wanted: Iterable[tuple[str, str, str]] = WANTED,
        core: BrokerConfig | None = None,
    ) -> None:
        """`rate`: quotes a second, all exchanges together; `core`: of all brokers."""
        self.publishers = [ShowcasePublisher(*exchange) for exchange in exchanges]
        self.subscribers = [ShowcaseSubscriber(*one) for one in wanted]
        self.elapsed_s = 0.0
        self.net = LocalOverlay(SHAPE, core=core)
        self._rate = rate / len(self.publishers)

    async def run(self, seconds: float, watch: Callable[[], None]) -> ShowcaseOutcome:
        """Publish for some seconds, and wait for the last deliveries; `watch` is called at
        intervals of `WATCH_S`."""
        async with AsyncExitStack() as stack:
            net = await stack.enter_async_context(self.net)
            listening = []
            for subscriber in self.subscribers:
                client = net.connect(subscriber.broker, name=subscriber.name)
                await stack.enter_async_context(client)
                subscription = await client.subscribe(subscriber.wanted)
                listening.append(asyncio.create_task(subscriber.listen(subscription)))
            clients = []
            for publisher in self.publishers:
                client = net.connect(publisher.broker, name=publisher.name)
                clients.append(await stack.enter_async_context(client))
                await client.advertise(ADVERTISED)
            await self._publish(clients, seconds, watch)
            await self._rest()
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)
            return self._outcome(len(net.brokers))

    async def _publish(
        self, clients: list[Client], seconds: float, watch: Callable[[], None]
    ) -> None:
        watching = asyncio.create_task(self._watch(watch))
        try:
            async with asyncio.TaskGroup() as group:
                for seed, (who, client) in enumerate(zip(self.publishers, clients, strict=True)):
                    group.create_task(self._quote(who, client, seed, seconds))
        finally:
            watching.cancel()

    async def _watch(self, watch: Callable[[], None]) -> None:
        start = now_us()
        for tick in count(1):
            await asyncio.sleep(max(tick * WATCH_S - self.elapsed_s, 0.0))
            self.elapsed_s = (now_us() - start) / 1e6
            watch()

    async def _quote(
        self, who: ShowcasePublisher, client: Client, seed: int, seconds: float
    ) -> None:
        """Publish quotes at a steady rate, and wait until all are confirmed."""
        workload = StockQuotes(seed=seed + 1, symbols=SYMBOLS)
        quotes = (q for chunk in count() for q in workload.publications(chunk).publications())
        start, now = now_us(), now_us()
        while now - start < seconds * 1e6:
            due = int((now - start) / 1e6 * self._rate) + 1
            some = [next(quotes) for _ in range(due - who.published)]
            for sequence, quote in enumerate(some, who.published + 1):
                for subscriber in self.subscribers:
                    subscriber.expect(who.name, sequence, quote)
            who.published += len(some)
            await client.send_all(some)
            await asyncio.sleep(TICK_S)
            now = now_us()
        await client.confirmed()

    async def _rest(self) -> None:
        """Wait for events that are under way to subscribers, at most `REST_S`."""
        deadline = now_us() + int(REST_S * 1e6)
        while any(who.missing for who in self.subscribers) and now_us() < deadline:
            await asyncio.sleep(TICK_S)

    def _outcome(self, brokers: int) -> ShowcaseOutcome:
        return ShowcaseOutcome(
            seconds=self.elapsed_s,
            brokers=brokers,
            published={who.name: who.published for who in self.publishers},
            subscribers=[_account(who) for who in self.subscribers],
        )


def _account(who: ShowcaseSubscriber) -> ShowcaseAccount:
    p50, p99 = latency_ms(who.latencies_us)
    return ShowcaseAccount(
        name=who.name,
        broker=who.broker,
        filter=who.filter,
        expected=who.expected,
        received=who.received,
        unexpected=who.unexpected,
        latency_ms_p50=p50,
        latency_ms_p99=p99,
        hops=who.hops,
    )


def latency_ms(latencies_us: list[int]) -> tuple[float, float]:
    """The 50th and 99th percentile in milliseconds; 0 if there are no values."""
    if len(latencies_us) < 2:
        only = sum(latencies_us) / 1e3
        return only, only
    parts = quantiles(latencies_us, n=100, method="inclusive")
    return parts[49] / 1e3, parts[98] / 1e3
