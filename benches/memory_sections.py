"""The figures of the memory bench: what a broker holds after others have come and gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count as count_from
from itertools import islice
from time import monotonic

import numpy as np

import byway
from benches.net_processes import Broker, Net, chain
from benches.report import Figure, Section, Target, at_most
from benches.run import Run

SUBSCRIPTIONS = 200_000
STAYING = 1_000
ROUNDS = 3
PER_CLIENT = 20_000
ADVERTISEMENTS = 30
ALTERNATIVES = 60
NAMES = 13  # in each alternative
CHURN_S = 600.0
SAMPLES = 60
GROWTH_MIB = 2.0
"""Memory of a broker goes up and down by as much from sample to sample."""
PUBLISHERS = 4
NEW_NAMES = 50
"""Names, subscriptions and publications of each newcomer."""
QUIET_S = 15.0
"""A broker whose memory has not become less for so long has given back what it will."""
TIMEOUT_S = 600.0
MEBIBYTE = 1_048_576
WITHIN = 1.2


def storm(run: Run) -> Section:
    """Distinct subscriptions come and go, beside some that stay."""
    amount = run.scaled(SUBSCRIPTIONS)

    async def come_and_go(broker: Broker, number: int, look: Callable[[], None]) -> None:
        clients = []
        for first in range(0, amount, PER_CLIENT):
            client = await connect(broker, f"many-{number}-{first}")
            filters = islice(distinct(f"s{number}_{first}_"), min(PER_CLIENT, amount - first))
            clients.append((client, await subscriptions(client, filters)))
        look()
        for place, (client, own) in enumerate(clients):
            if place % 2 == 0:  # one by one; those of the others end with the connection
                for one in own:
                    await one.unsubscribe()
            await client.close()

    figures, before = asyncio.run(rounds(run, come_and_go))
    sizes = {"subscriptions": amount, "that stay": run.scaled(STAYING), **before}
    return Section("storm", "distinct subscriptions come and go", sizes, figures)


def advertisements(run: Run) -> Section:
    """Large advertisements with many names come and go."""
    amount = max(run.scaled(ADVERTISEMENTS), 2)

    async def come_and_go(broker: Broker, number: int, look: Callable[[], None]) -> None:
        client = await connect(broker, f"advertiser-{number}")
        for one in range(amount):
            await client.advertise(large(f"a{number}_{one}_"), timeout=TIMEOUT_S)
        look()
        await client.close()

    figures, before = asyncio.run(rounds(run, come_and_go))
    sizes = {"advertisements": amount, "alternatives": ALTERNATIVES, "names in each": NAMES}
    return Section("advertisements", "large ones come and go", {**sizes, **before}, figures)


def churn(run: Run) -> Section:
    """Clients, names, strings and publishers that are always new."""
    return _churn(run, "churn", keeps=False)


def stored_churn(run: Run) -> Section:
    """The same at brokers that keep their state in files."""
    return _churn(run, "stored churn", keeps=True)


def _churn(run: Run, name: str, *, keeps: bool) -> Section:
    seconds = CHURN_S / 20 if run.quick else CHURN_S
    samples, came, before, after = asyncio.run(_sampled_churn(run, seconds, keeps=keeps))
    figures = []
    for place, whose in enumerate(WHOSE):
        own = [sample[place] for sample in samples]
        figures += _course(run, whose, own, seconds)
        figures.append(_ratio(run, after[place], before[place]))
    where = "kept in files" if keeps else "in memory only"
    sizes = {"seconds": seconds, "newcomers": came, **_named(before)}
    return Section(name, f"everything is always new, {where}", sizes, figures, [
        "growth: how much more it became over the last eight tenths of the time, along the line",
        "with the least squares through samples taken 60 times",
    ])  # fmt: skip


def _course(run: Run, whose: str, samples: list[float], seconds: float) -> Iterator[Figure]:
    """Memory at twelve moments, and its growth."""
    for number in range(SAMPLES // 12 - 1, SAMPLES, SAMPLES // 12):
        at = seconds * (number + 1) / SAMPLES
        yield Figure(f"{whose} after {at:.0f} s", samples[number], "MiB")
    late = samples[SAMPLES // 5 :]
    slope = np.polyfit(range(len(late)), late, 1)[0]
    growth = float(slope) * (len(late) - 1)
    yield Figure("… growth", growth, "MiB", None if run.quick else at_most(GROWTH_MIB))


async def _sampled_churn(
    run: Run, seconds: float, *, keeps: bool
) -> tuple[list[list[float]], int, list[float], list[float]]:
    """What brokers have during churn, how many came, and what brokers had before and have after."""
    came = count_from()
    with chain(2, keeps) as net:
        async with AsyncExitStack() as stack:
            await staying(stack, net, run.scaled(STAYING))
            before = await all_quiet(net)
            began = monotonic()
            workers = [asyncio.create_task(_newcomers(net, n, came)) for n in range(PUBLISHERS)]
            samples = []
            for number in range(1, SAMPLES + 1):
                await asyncio.sleep(max(0.0, began + seconds * number / SAMPLES - monotonic()))
                samples.append(_now(net))
                for worker in workers:
                    if worker.done():
                        worker.result()  # it does not end by itself
                run.step(f"sample {number} of {SAMPLES}: {samples[-1]} MiB")
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            after = await all_quiet(net)
    return samples, next(came), before, after


async def _newcomers(net: Net, worker: int, came: Iterator[int]) -> None:
    """Pairs of clients come, subscribe, advertise, publish and go, one after the other."""
    for number in count_from():
        prefix = f"c{worker}x{number}x"
        names = [f"{prefix}{n}" for n in range(NEW_NAMES)]
        async with connect(net.brokers[0], f"publisher-{prefix}") as publisher:
            known = " AND ".join(f"{name} EXISTS" for name in names)
            await publisher.advertise(f"{known} AND topic LIKE '{prefix}/%'", timeout=TIMEOUT_S)
            async with connect(net.brokers[1], f"subscriber-{prefix}") as subscriber:
                await subscriptions(subscriber, islice(distinct(prefix), NEW_NAMES))
                for n, name in enumerate(names):
                    content = {name: f"the value {prefix} {n}", "topic": f"{prefix}/{n}"}
                    publisher.publish_nowait(content)
                await publisher.confirmed(TIMEOUT_S)
        next(came)


# --- what sections share --------------------------------------------------------------------------

WHOSE = ("neighbour's broker", "own broker")


async def rounds(
    run: Run, come_and_go: Callable[[Broker, int, Callable[[], None]], Awaitable[None]]
) -> tuple[list[Figure], dict[str, float]]:
    """Let something come to the last of two brokers and go, a few times; what both have then."""
    figures = []
    with chain(2) as net:
        async with AsyncExitStack() as stack:
            await staying(stack, net, run.scaled(STAYING))
            before = await all_quiet(net)
            for number in range(1, ROUNDS + 1):
                run.step(f"round {number} of {ROUNDS}")
                most: list[float] = []
                await come_and_go(net.brokers[-1], number, lambda to=most: to.extend(_now(net)))
                after = await all_quiet(net)
                for name, was, high, now in zip(WHOSE, before, most, after, strict=True):
                    figures.append(Figure(f"{name}, round {number}: with all", high, "MiB"))
                    figures.append(Figure(f"{name}, round {number}: after", now, "MiB"))
                    figures.append(_ratio(run, now, was))
    return figures, _named(before)


def connect(broker: Broker, name: str) -> byway.Client:
    """A client; a broker that ends many subscriptions answers late."""
    return byway.connect(broker.address, name=name, connect_timeout=TIMEOUT_S)


async def staying(stack: AsyncExitStack, net: Net, amount: int) -> None:
    """A client with subscriptions that stay, and one that may publish anything."""
    first, last = net.brokers
    publisher = await stack.enter_async_context(connect(first, "publisher"))
    await publisher.advertise("ANY")
    client = await stack.enter_async_context(connect(last, "staying"))
    await subscriptions(client, islice(distinct("stays"), amount))


async def subscriptions(client: byway.Client, filters: Iterator[str]) -> list[byway.Subscription]:
    """Subscribe to all these, and wait until they are settled."""
    made = [await client.subscribe(text, settled=False) for text in filters]
    for one in made:
        await one.settled(TIMEOUT_S)
    return made


def distinct(prefix: str) -> Iterator[str]:
    """Filters with a name and strings that no other one has."""
    for n in count_from():
        yield f"{prefix}{n} = 'the value {prefix} {n}' AND topic = '{prefix}/{n}'"


def large(prefix: str) -> str:
    """An advertisement with as many names as fit."""
    alternatives = (
        " AND ".join(f"{prefix}{a}_{n}>1" for n in range(NAMES)) for a in range(ALTERNATIVES)
    )
    return " OR ".join(alternatives)


async def all_quiet(net: Net) -> list[float]:
    """Mebibytes of all brokers once they give nothing back any more."""
    for broker in net.brokers:
        async with connect(broker, "asks") as client:
            await client.broker_status(TIMEOUT_S)  # everything before it has been handled
    least, since = _now(net), monotonic()
    while monotonic() - since < QUIET_S:
        await asyncio.sleep(0.2)
        now = _now(net)
        if sum(now) < sum(least) - 0.25:
            least, since = now, monotonic()
    return _now(net)


def _now(net: Net) -> list[float]:
    return [broker.rss_bytes / MEBIBYTE for broker in net.brokers]


def _ratio(run: Run, after: float, before: float) -> Figure:
    target: Target | None = None if run.quick else at_most(WITHIN)
    return Figure("… of what it had before", after / before, "", target)


def _named(before: list[float]) -> dict[str, float]:
    return {f"{name} before, MiB": was for name, was in zip(WHOSE, before, strict=True)}


SECTIONS: dict[str, Callable[[Run], Section]] = {
    "storm": storm,
    "advertisements": advertisements,
    "churn": churn,
    "stored churn": stored_churn,
}
