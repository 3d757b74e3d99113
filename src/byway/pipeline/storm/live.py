"""Runs the script with live brokers: TCP on loopback, real clients, real time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from byway.client.client import Client
from byway.client.subscription import Subscription
from byway.local.overlay import LocalOverlay
from byway.pipeline.storm.script import GAP_S, PUBLISHER, Policy, Script, config

TICK_S: Final = 0.02
REST_S: Final = 10.0


async def run_live(script: Script, policy: Policy, directory: Path) -> dict[str, int]:
    """Run the script, with traces in `directory`; the number of publications that each subscriber
    received whose subscriptions stay."""
    async with AsyncExitStack() as stack:
        overlay = LocalOverlay(
            script.topology, core=config(policy), trace=str(directory), run=f"live {policy}"
        )
        net = await stack.enter_async_context(overlay)
        publisher = net.connect(PUBLISHER, name="publisher")
        await stack.enter_async_context(publisher)
        await publisher.advertise("ANY")
        clients = {}
        for name, home in script.homes.items():
            clients[name] = await stack.enter_async_context(net.connect(home, name=name))
        subscriptions = await _subscribe(script, clients)
        seen: dict[str, set[int]] = {name: set() for name in clients}
        readers = [
            asyncio.create_task(_read(subscription, seen[client]))
            for client, name, subscription in subscriptions
        ]
        storm = asyncio.create_task(_storm(script, subscriptions))
        await _publish(script, publisher)
        await storm
        await publisher.confirmed(REST_S)
        await _rest(script, seen)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for broker in list(net.brokers):  # before clients leave, which is no part of the storm
            await net.kill(broker)
        return {name: len(numbers) for name, numbers in seen.items() if name != "broad"}


async def _subscribe(
    script: Script, clients: dict[str, Client]
) -> list[tuple[str, str, Subscription]]:
    async def one(client: str, name: str, filter: Any) -> tuple[str, str, Subscription]:
        return client, name, await clients[client].subscribe(filter)

    return list(await asyncio.gather(*(one(*given) for given in script.subscriptions)))


async def _read(subscription: Subscription, seen: set[int]) -> None:
    """Collect sequences: a client gets one copy here for each of its subscriptions that match."""
    while True:
        for event in await subscription.take(1_024):
            seen.add(event.sequence)


async def _publish(script: Script, publisher: Client) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    for tick, some in groupby(script.publications(), lambda due: int(due[0] / TICK_S)):
        await asyncio.sleep(max(0.0, start + tick * TICK_S - loop.time()))
        await publisher.send_all([attributes for _, attributes in some])


async def _storm(script: Script, subscriptions: list[tuple[str, str, Subscription]]) -> None:
    by_name = {name: subscription for _, name, subscription in subscriptions}
    await asyncio.sleep(script.storm_at_s)
    for name in script.ending:
        await by_name[name].unsubscribe()
        await asyncio.sleep(GAP_S)


async def _rest(script: Script, seen: dict[str, set[int]]) -> None:
    """Wait, for a bounded time, for the publications that are still on the way to subscribers."""
    expected = script.expected()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + REST_S
    while loop.time() < deadline and any(len(seen[n]) < c for n, c in expected.items()):
        await asyncio.sleep(TICK_S)
