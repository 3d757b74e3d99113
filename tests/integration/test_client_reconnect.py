"""A client whose connection or broker is lost: what goes on, what begins anew, what is told."""

import asyncio
import random

import pytest

import byway
from byway import LocalOverlay
from byway.core.broker_config import BrokerConfig
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    AnyFrame,
    Attached,
    ClientHello,
    Preamble,
    Replies,
    Welcome,
)
from byway.transport.connection import Connection
from tests.integration.loops import in_loop, soon, until

pytestmark = pytest.mark.integration

QUICK = {"retry": 0.01, "retry_max": 0.05}


def cut(client: byway.Client) -> None:
    """Break a client's connection; neither side says a word."""
    connection = client._driver._connection
    assert connection is not None
    connection.abort("the test cut it")


async def values(subscription: byway.Subscription, count: int) -> list[object]:
    """The attribute `x` of so many events."""
    events = [await subscription.next(10) for _ in range(count)]
    return [event.attributes["x"] for event in events]


# --- the connection breaks ------------------------------------------------------------------------


@in_loop
async def test_with_a_session_nothing_is_lost_while_the_client_is_away() -> None:
    async with (
        LocalOverlay("chain:2") as net,
        net.connect("B1") as publisher,
        publisher.advertise("ANY"),
        net.connect("B2", session_ttl=60, retry=0.2) as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        await publisher.publish({"x": 0})
        assert await values(subscription, 1) == [0]
        cut(subscriber)
        await until(lambda: subscriber.status.state == "away")
        assert "the test cut it" in repr(subscriber)
        await publisher.publish_all({"x": x} for x in range(1, 200))
        await publisher.confirmed()
        assert await values(subscription, 199) == list(range(1, 200))
        status = subscriber.status
        assert (status.attachments, status.sessions, status.lost) == (2, 1, 0)
        assert subscription.is_settled
        # what it has is told to the broker, which forgets it
        broker = net.brokers["B2"].broker
        await until(lambda: not broker.kept_deliveries(subscriber.name))


@in_loop
async def test_without_a_session_subscriptions_are_made_again() -> None:
    async with (
        LocalOverlay("chain:2") as net,
        net.connect("B1") as publisher,
        publisher.advertise("ANY"),
        net.connect("B2", **QUICK) as subscriber,
        subscriber.subscribe("x >= 0") as subscription,
    ):
        first = subscriber.status.incarnation
        cut(subscriber)
        await until(lambda: not subscriber.is_attached)
        await subscription.update("x >= 10", timeout=5)
        await publisher.publish_all({"x": x} for x in range(20))
        assert await values(subscription, 10) == list(range(10, 20))
        assert subscriber.status.sessions == 2
        assert subscriber.status.incarnation > first
        assert len(net.brokers["B1"].broker.subscriptions) == 1


@in_loop
async def test_a_session_that_has_no_room_says_how_much_was_lost() -> None:
    core = BrokerConfig(session_messages_max=10)
    async with (
        LocalOverlay(core=core) as net,
        net.connect() as publisher,
        publisher.advertise("ANY"),
        net.connect(session_ttl=60, retry=0.2) as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        cut(subscriber)
        await until(lambda: not subscriber.is_attached)
        await publisher.publish_all({"x": x} for x in range(25))
        assert await values(subscription, 10) == list(range(15, 25))
        assert subscriber.status.lost == 15


@in_loop
async def test_publications_survive_a_broken_connection_in_order_and_once() -> None:
    chance = random.Random(4)
    async with (
        LocalOverlay("chain:2") as net,
        net.connect("B1", session_ttl=60, window=200, **QUICK) as publisher,
        publisher.advertise("ANY"),
        net.connect("B2", session_ttl=60, **QUICK) as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        publishing = asyncio.create_task(publisher.publish_all({"x": x} for x in range(20_000)))
        cuts = 0
        while not publishing.done():
            await asyncio.sleep(chance.uniform(0.0, 0.05))
            cut(chance.choice((publisher, subscriber)))
            cuts += 1
        await publishing
        await publisher.confirmed()
        assert await values(subscription, 20_000) == list(range(20_000))
        assert cuts > 3
        assert publisher.status.sessions == subscriber.status.sessions == 1
        assert subscriber.status.lost == 0


@in_loop
async def test_what_was_asked_for_while_away_is_asked_for_in_the_end() -> None:
    for session_ttl in (0.0, 60.0):
        async with LocalOverlay() as net, net.connect(session_ttl=session_ttl, **QUICK) as client:
            gone = await client.subscribe("x = 1")
            broker = net.brokers["B1"].broker
            cut(client)
            await until(lambda client=client: not client.is_attached)
            await gone.unsubscribe()
            advertisement = await client.advertise("ANY", timeout=5)
            subscription = await client.subscribe("x = 2", timeout=5)
            await client.publish({"x": 2}, timeout=5)
            assert await values(subscription, 1) == [2]
            assert client.status.sessions == (1 if session_ttl else 2)
            assert len(broker.subscriptions) == 1
            await advertisement.unadvertise()


@in_loop
async def test_a_client_that_is_not_to_come_back_is_closed() -> None:
    async with LocalOverlay() as net:
        client = await net.connect(reconnect=False, window=1)
        await client.advertise("ANY")
        subscription = await client.subscribe("TRUE")
        event, settling = (
            asyncio.ensure_future(subscription.next()),
            asyncio.ensure_future(client.advertise("x > 0")._open()),
        )
        client.publish_nowait({"x": 1})
        publishing = asyncio.ensure_future(client.publish({"x": 2}))
        await asyncio.sleep(0)
        cut(client)
        for waiting in (settling, publishing, event):
            with pytest.raises(byway.ClosedError, match="the test cut it"):
                await soon(waiting)
        with pytest.raises(byway.ClosedError):
            async for _ in subscription:
                pass
        with pytest.raises(byway.ClosedError):
            client.publish_nowait({"x": 1})
        await client.close()


# --- the broker is lost ---------------------------------------------------------------------------


@in_loop
async def test_a_broker_that_lost_everything_is_told_everything_again() -> None:
    async with (
        LocalOverlay("chain:2") as net,
        net.connect("B1", **QUICK) as publisher,
        publisher.advertise("ANY"),
        net.connect("B2", session_ttl=60) as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        await publisher.publish_all({"x": x} for x in range(10))
        await publisher.confirmed()
        await net.kill("B1")
        receipts = [publisher.publish_nowait({"x": x}) for x in range(10, 20)]
        with pytest.raises(byway.NotAcceptedError, match="away"):
            await receipts[0].accepted(0.05)
        await net.restart("B1")
        await receipts[-1].confirmed(10)
        assert await values(subscription, 20) == list(range(20))
        assert publisher.status.sessions == 2
        assert subscriber.status.sessions == 1


@in_loop
async def test_publications_wait_until_their_advertisement_is_settled_again() -> None:
    async with (
        LocalOverlay("chain:3") as net,
        net.connect("B1", **QUICK) as publisher,
        publisher.advertise("ANY") as advertisement,
        net.connect("B3") as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        await net.kill("B3")
        await net.kill("B1")
        receipt = publisher.publish_nowait({"x": 1})
        await net.restart("B1")
        await until(lambda: publisher.status.sessions == 2)
        async with asyncio.timeout(10):
            while not (await publisher.broker_status()).unsettled:
                pass  # the advertisement is not there yet
        assert not advertisement.is_settled
        assert not receipt.is_accepted
        await net.restart("B3")
        await receipt.accepted(10)
        assert advertisement.is_settled
        await subscription.settled(10)
        await publisher.publish({"x": 2})
        assert (await values(subscription, 1))[0] in (1, 2)


@in_loop
async def test_publications_do_not_wait_for_ever_for_their_advertisement() -> None:
    async with (
        LocalOverlay("chain:2") as net,
        net.connect("B1", session_ttl=60, settle_wait=0.1, **QUICK) as publisher,
    ):
        await publisher.advertise("ANY")
        for broker in ("B2", "B1"):
            await net.kill(broker)
        await net.restart("B1")  # B2 does not come back: nothing is settled
        await until(lambda: publisher.status.sessions == 2)
        cut(publisher)  # the session goes on, and the wait begins again
        await publisher.publish({"x": 1}, timeout=10)
        assert (publisher.status.sessions, publisher.status.attachments) == (2, 3)


@in_loop
async def test_what_is_settled_is_so_only_while_the_client_is_there() -> None:
    for session_ttl in (0.0, 60.0):
        async with LocalOverlay() as net, net.connect(session_ttl=session_ttl, retry=0.2) as client:
            subscription = await client.subscribe("TRUE")
            cut(client)
            await until(lambda client=client: not client.is_attached)
            assert not subscription.is_settled
            with pytest.raises(byway.NotSettledError, match="away: the test cut it"):
                await subscription.settled(0.01)
            await subscription.settled()


@in_loop
async def test_a_broker_that_kept_everything_goes_on() -> None:
    async with (
        LocalOverlay("chain:2") as net,
        net.connect("B1", **QUICK) as publisher,
        publisher.advertise("ANY"),
        net.connect("B2", **QUICK) as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        publishing = asyncio.create_task(publisher.publish_all({"x": x} for x in range(5_000)))
        for broker in ("B1", "B2", "B1"):
            await progress(publisher, publishing)
            await net.kill(broker)
            await net.restart(broker, keeps_state=True)
            await until(lambda: publisher.is_attached and subscriber.is_attached)
        await publishing
        await publisher.confirmed()
        await until(lambda: subscriber.status.received + subscriber.status.lost == 5_000)
        received = await values(subscription, subscriber.status.received)
        assert received == sorted(set(received))
        assert publisher.status.sessions == subscriber.status.sessions == 1


async def progress(publisher: byway.Client, publishing: asyncio.Task[int]) -> None:
    """Wait until more is confirmed, or everything is published."""
    before = publisher.status.confirmed
    await until(lambda: publisher.status.confirmed > before or publishing.done())


@in_loop
async def test_an_inner_broker_may_die_and_come_back() -> None:
    async with (
        LocalOverlay("chain:3") as net,
        net.connect("B1") as publisher,
        publisher.advertise("ANY"),
        net.connect("B3") as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        publishing = asyncio.create_task(publisher.publish_all({"x": x} for x in range(3_000)))
        for keeps_state in (False, True):
            await progress(publisher, publishing)
            await net.kill("B2")
            await net.restart("B2", keeps_state=keeps_state)
            await net.linked()
        await publishing
        await publisher.confirmed()
        assert await values(subscription, 3_000) == list(range(3_000))


@in_loop
async def test_another_broker_takes_over() -> None:
    async with LocalOverlay("chain:3") as net:
        urls = [net.url("B1"), net.url("B3")]
        async with (
            net.connect("B2") as subscriber,
            subscriber.subscribe("TRUE") as subscription,
            byway.connect(urls, session_ttl=60, settle_wait=0.1, **QUICK) as publisher,
            publisher.advertise("ANY"),
        ):
            await publisher.publish({"x": 1})
            await publisher.confirmed()
            await net.kill("B1")
            await publisher.publish({"x": 2}, timeout=10)
            assert publisher.status.broker == "B3"
            assert await values(subscription, 2) == [1, 2]
            cut(publisher)  # and it goes on where it is
            await publisher.publish({"x": 3}, timeout=10)
            assert (publisher.status.broker, publisher.status.sessions) == ("B3", 2)


@in_loop
async def test_a_hundred_clients_come_back_together() -> None:
    async with LocalOverlay("chain:2") as net, net.connect("B2") as publisher:
        await publisher.advertise("ANY")
        clients = await asyncio.gather(*(net.connect("B1", **QUICK)._open() for _ in range(100)))
        opening = [client.subscribe(f"x = {x}")._open() for x, client in enumerate(clients)]
        subscriptions = await asyncio.gather(*opening)
        await net.kill("B1")
        await until(lambda: not any(client.is_attached for client in clients))
        await net.restart("B1")
        await asyncio.gather(*(subscription.settled() for subscription in subscriptions))
        await publisher.publish_all({"x": x} for x in range(100))
        for x, subscription in enumerate(subscriptions):
            assert await values(subscription, 1) == [x]
        await asyncio.gather(*(client.close() for client in clients))


@in_loop
async def test_brokers_that_stop_are_left_and_found_again() -> None:
    async with LocalOverlay() as net, net.connect(**QUICK) as client:
        server = net.brokers.pop("B1")
        net._kept["B1"] = b""
        await server.stop()
        await until(lambda: not client.is_attached)
        assert "the broker stops" in repr(client) or "refused" in repr(client)
        await net.restart("B1")
        await client.advertise("ANY", timeout=10)


# --- a broker that says nothing -------------------------------------------------------------------


class Mute:
    """Greets a client, and then says nothing more."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []

    def connection(self) -> Connection:
        """One more that is listened to."""
        preamble = Preamble(CLIENT_PROTOCOL_VERSION, "broker", "mute", 1, 4_194_304, 50)
        self.connections.append(Connection(self, preamble, dialled=False))
        return self.connections[-1]

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """A client is there."""

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """Take it in."""
        if isinstance(frame, ClientHello):
            connection.send(Welcome(1_000))
            connection.send(Replies((Attached(False, 0),)))

    def drained(self, connection: Connection) -> None:
        """Nothing waits."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The client is gone."""


@in_loop
async def test_a_silent_broker_is_taken_for_dead() -> None:
    mute = Mute()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(mute.connection, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        client = await byway.connect(f"byway://{host}:{port}", **QUICK)
        # the client says that it is there as often as the broker wants it to
        await until(lambda: mute.connections[0].frames_in > 3)
        await until(lambda: len(mute.connections) > 1)
        await client.close()
        for connection in mute.connections:
            connection.abort("the end")
