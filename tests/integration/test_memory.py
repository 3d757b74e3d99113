"""What real broker processes weigh after subscriptions have come and gone; `make bench-memory` does
it with 200,000."""

from __future__ import annotations

import asyncio
import resource
from itertools import islice
from pathlib import Path

import pytest

import byway
from benches.memory_sections import distinct, subscriptions
from tests.integration.processes import BrokerProcess

pytestmark = [pytest.mark.integration, pytest.mark.slow]
MANY = 30_000
MEBIBYTE = 1_048_576


def weight(broker: BrokerProcess) -> float:
    pages = int(Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MEBIBYTE


async def lightest(broker: BrokerProcess, enough: float) -> float:
    """The weight of a broker once it is low enough, or does not become so in time."""
    for _ in range(150):
        if weight(broker) <= enough:
            break
        await asyncio.sleep(0.2)
    return weight(broker)


async def come_and_go(address: str, number: int) -> None:
    client = await byway.connect(address, name=f"many{number}")
    own = await subscriptions(client, islice(distinct(f"x{number}_"), MANY))
    for one in own[::2]:
        await one.unsubscribe()
    await client.close()


def test_a_broker_weighs_after_a_storm_what_it_weighed_before():
    async def main(broker: BrokerProcess, address: str) -> None:
        async with byway.connect(address, name="staying") as staying:
            await staying.advertise("ANY")
            await subscriptions(staying, islice(distinct("stays"), 100))
            before = weight(broker)
            for number in range(3):
                await come_and_go(address, number)
                await staying.broker_status(60)  # everything before it has been handled
                assert await lightest(broker, before * 1.2) <= before * 1.2

    broker = BrokerProcess("--id", "A", "--listen", "127.0.0.1:0")
    try:
        broker.ready()
        asyncio.run(main(broker, broker.address))
    finally:
        broker.kill()
