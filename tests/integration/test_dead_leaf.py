"""A dead leaf beside live ones, live: only the publisher that has copies for it stops, at its
window, and goes on when the leaf is back."""

import asyncio

import pytest

from byway import LocalOverlay
from byway.core.broker_config import BrokerConfig
from tests.integration.loops import in_loop, until

pytestmark = pytest.mark.integration

WINDOW = 8
CORE = BrokerConfig(probe_cycles=True, publisher_window=WINDOW)


@in_loop
async def test_a_dead_leaf_stops_only_who_has_copies_for_it() -> None:
    async with (
        LocalOverlay("star:4", core=CORE) as net,
        net.connect("B2", name="clean") as clean,
        net.connect("B2", name="owing") as owing,
        net.connect("B3", name="live") as live,
        net.connect("B4", name="dead", session_ttl=60) as dead,
        clean.advertise("ANY"),
        owing.advertise("ANY"),
        live.subscribe("n > 0") as at_live,
        dead.subscribe("n > 0 AND all = 1"),
    ):
        await net.kill("B4")
        late = [owing.publish_nowait({"n": n, "all": 1}) for n in range(1, 3 * WINDOW + 1)]
        early = [clean.publish_nowait({"n": n, "all": 0}) for n in range(1, 201)]
        async with asyncio.timeout(30):
            await asyncio.gather(*(receipt.confirmed() for receipt in early))
            events = [await at_live.next() for _ in range(200 + WINDOW)]
        assert [e.attributes["n"] for e in events if not e.attributes["all"]] == [*range(1, 201)]
        hub = net.brokers["B1"].broker
        assert hub.unconfirmed("B4") == WINDOW
        await net.restart("B4", keeps_state=True)
        async with asyncio.timeout(30):
            await asyncio.gather(*(receipt.confirmed() for receipt in late))
            more = [(await at_live.next()).attributes["n"] for _ in range(2 * WINDOW)]
        assert more == [*range(WINDOW + 1, 3 * WINDOW + 1)]
        await until(lambda: hub.unconfirmed("B4") == 0)
