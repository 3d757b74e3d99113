"""How a broker is: what it tells of itself and its neighbourhood, to one client or to many."""

import asyncio

import pytest

from byway import BywayError, ClosedError, LocalOverlay, NotToldError
from byway.core.broker_config import BrokerConfig
from byway.model.errors import FrameError
from byway.model.status import BrokerStatus, decode_status, encode_status
from byway.runtime import inspection
from tests.integration.loops import in_loop, until

pytestmark = pytest.mark.integration


@in_loop
async def test_a_broker_tells_of_itself_and_its_links() -> None:
    async with (
        LocalOverlay("chain:3") as net,
        net.connect("B1", session_ttl=60) as publisher,
        net.connect("B2") as asker,
        net.connect("B3") as subscriber,
        publisher.advertise("ANY"),
        subscriber.subscribe("n > 1", "n < -1"),
    ):
        status = await asker.broker_status()
        assert (status.broker, status.clients, status.sessions_away) == ("B2", 1, 0)
        assert (status.advertisements, status.subscriptions) == (1, 2)
        assert status.listen == net.url("B2").removeprefix("byway://")
        one, three = status.links
        assert (one.broker, one.state, three.broker, three.state) == ("B1", "up", "B3", "up")
        assert (one.advertisements, one.advertisements_sent) == (1, 0)
        assert (one.subscriptions, one.subscriptions_sent) == (0, 2)
        assert (three.advertisements, three.advertisements_sent) == (0, 1)
        assert (three.subscriptions, three.subscriptions_sent) == (2, 0)
        assert one.behind == three.behind == []

        await net.kill("B3")
        await publisher.publish({"n": 5})
        await until(lambda: net.brokers["B2"].broker.unconfirmed("B3") > 0)
        down = (await asker.broker_status()).links[1]
        assert (down.state, down.address, down.unconfirmed) == ("down", "", 1)
        await net.restart("B3")
        await net.linked()


@in_loop
async def test_load_exchange_shows_brokers_behind() -> None:
    core = BrokerConfig(probe_cycles=True, load_interval_us=20_000)
    async with LocalOverlay("chain:4", core=core) as net, net.connect("B1") as client:
        behind = []
        async with asyncio.timeout(30):
            while len(behind) < 3:
                behind = (await client.broker_status()).links[0].behind
        assert [(load.broker, load.hops) for load in behind] == [("B2", 1), ("B3", 2), ("B4", 3)]


@in_loop
async def test_many_ask_at_once_and_the_broker_looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LocalOverlay() as net:
        looks, status_of = [], inspection.status_of
        monkeypatch.setattr(
            inspection, "status_of", lambda server: (looks.append(1), status_of(server))[1]
        )
        clients = [await net.connect() for _ in range(5)]
        told = await asyncio.gather(*(c.broker_status() for c in clients for _ in range(20)))
        assert {status.clients for status in told} == {5}
        assert len(looks) <= 2
        for client in clients:
            await client.close()


@in_loop
async def test_who_asks_while_the_broker_is_away_waits() -> None:
    async with LocalOverlay("chain:2") as net, net.connect("B1", retry=0.01) as client:
        await net.kill("B1")
        await until(lambda: not client.is_attached)
        with pytest.raises(NotToldError, match=r"status of the broker is not told within 0\.05 s"):
            await client.broker_status(timeout=0.05)
        asking = asyncio.create_task(client.broker_status())
        await net.restart("B1")
        await net.linked()
        assert (await asking).broker == "B1"

        await net.kill("B1")
        await until(lambda: not client.is_attached)
        asking = asyncio.create_task(client.broker_status())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClosedError):
            await asking
        with pytest.raises(ClosedError):
            await client.broker_status()
        await net.restart("B1")
        await net.linked()


def test_facts_of_another_age_are_understood() -> None:
    status = BrokerStatus(
        broker="B1", version="9", incarnation=1, listen="h:1", clients=0, sessions_away=0,
        advertisements=0, subscriptions=0, queued=0, links=[],
    )  # fmt: skip
    facts = encode_status(status)
    assert decode_status(facts[:-1] + b',"mood":"fine"}') == status
    with pytest.raises(FrameError) as caught:
        decode_status(b"{}")
    assert isinstance(caught.value, BywayError)
