"""The client against real brokers over TCP: what it does, and what it says when something fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import byway
from byway import LocalOverlay
from tests.integration.loops import in_loop, soon, until

pytestmark = pytest.mark.integration


@asynccontextmanager
async def network(topology: str = "chain:1") -> AsyncIterator[tuple[LocalOverlay, byway.Client]]:
    """A network, and a client of its first broker that may publish anything."""
    async with LocalOverlay(topology) as net, net.connect() as client, client.advertise("ANY"):
        yield net, client


async def values(subscription: byway.Subscription, count: int) -> list[object]:
    """The attribute `x` of so many events."""
    events = [await subscription.next(10) for _ in range(count)]
    return [event.attributes["x"] for event in events]


# --- publishing and subscribing -------------------------------------------------------------------


@in_loop
async def test_a_publication_crosses_the_network() -> None:
    async with (
        LocalOverlay("chain:3") as net,
        net.connect("B1", name="quotes") as publisher,
        net.connect("B3") as subscriber,
        publisher.advertise("price > 0 AND symbol = 'YHOO'") as advertisement,
        subscriber.subscribe("price > 18", name="dear") as subscription,
    ):
        assert advertisement.is_settled
        assert subscription.is_settled
        receipt = await publisher.publish({"symbol": "YHOO", "price": 19.5}, b"data")
        assert receipt.is_accepted
        await publisher.publish({"symbol": "YHOO", "price": 3.5})
        await publisher.publish({"symbol": "YHOO", "price": 20})
        await receipt.confirmed()
        event = await subscription.next(5)
        assert event.attributes == {"symbol": "YHOO", "price": 19.5}
        assert (event.data, event.publisher, event.sequence) == (b"data", "quotes", 1)
        assert (event.hops, event.subscriptions) == (2, ("dear",))
        assert event.incarnation == publisher.status.incarnation
        assert (await subscription.next(5)).sequence == 3
        await publisher.confirmed()
        assert publisher.status.confirmed == 3
        assert net.brokers["B3"].broker.counters.deliveries == 2


@in_loop
async def test_without_a_block_everything_is_opened_by_await_and_ended_by_name() -> None:
    async with LocalOverlay() as net:
        client = await net.connect()
        advertisement = await client.advertise("ANY")
        subscription = await client.subscribe("x > 0")
        await client.publish({"x": 1})
        assert await values(subscription, 1) == [1]
        await subscription.unsubscribe()
        await advertisement.unadvertise()
        with pytest.raises(byway.RefusedError, match="this client has no advertisement"):
            await client.publish({"x": 2})
        broker = net.brokers["B1"].broker
        assert (len(broker.subscriptions), len(broker.advertisements)) == (0, 0)
        await client.close()
        await client.close()
        await until(lambda: not broker.sessions)


@in_loop
async def test_what_is_open_can_be_used_in_a_block() -> None:
    async with LocalOverlay() as net:
        client = await net.connect()
        subscription = await client.subscribe("TRUE")
        async with client, subscription, client.advertise("ANY"):
            await client.publish({"x": 1})
            assert await values(subscription, 1) == [1]
        assert client.status.attachments == 1
        with pytest.raises(byway.ClosedError, match="the application closed it"):
            await client


@in_loop
async def test_one_event_for_all_subscriptions_of_a_client_that_match() -> None:
    async with (
        network("chain:2") as (_, client),
        client.subscribe("x > 0", name="low") as low,
        client.subscribe("x > 5", "y = 1", name="high") as high,
    ):
        await client.publish({"x": 3})
        await client.publish({"x": 7, "y": 1})
        first, second = await low.next(5), await low.next(5)
        assert first.subscriptions == ("low",)
        assert sorted(second.subscriptions) == ["high", "low"]
        assert await high.next(5) is second
        assert high.pending == 0
        assert client.status.received == 2


@in_loop
async def test_a_filter_is_replaced_without_a_gap() -> None:
    async with network("chain:3") as (net, publisher), net.connect("B3") as subscriber:
        subscription = await subscriber.subscribe("x < 5000")
        # 0 … 2,999 match whichever filter is in force
        publishing = asyncio.create_task(publisher.publish_all({"x": x} for x in range(3_000)))
        for limit in (4_000, 6_000, 3_500):
            await subscription.update(f"x < {limit}")
        assert subscription.is_settled
        assert await values(subscription, 3_000) == list(range(3_000))
        await publishing
        await publisher.publish({"x": 3_600})
        await publisher.publish({"x": 3_400})
        assert await values(subscription, 1) == [3_400]
        assert len(net.brokers["B1"].broker.subscriptions) == 1


@in_loop
async def test_iteration_ends_with_the_subscription() -> None:
    async with network() as (_, client):
        subscription = await client.subscribe("x > 0", name="s")
        await client.publish_all({"x": x} for x in (1, 2))
        await until(lambda: subscription.pending == 2)
        await subscription.unsubscribe()
        assert [event.attributes["x"] async for event in subscription] == [1, 2]
        with pytest.raises(byway.ClosedError, match="subscription s is closed: it has ended"):
            await subscription.next(1)
        assert await subscription.take(5) == []


@in_loop
async def test_events_can_be_waited_for_for_a_while() -> None:
    async with network() as (_, client), client.subscribe("x > 0") as subscription:
        with pytest.raises(TimeoutError):
            await subscription.next(0.01)
        assert await subscription.take(5, timeout=0.01) == []
        await client.publish_all({"x": x} for x in range(1, 8))
        await until(lambda: subscription.pending == 7)
        assert [len(await subscription.take(5)) for _ in range(2)] == [5, 2]


@in_loop
async def test_a_client_may_have_thousands_of_filters() -> None:
    async with network("chain:2") as (net, publisher):
        async with net.connect("B2") as subscriber:
            subscription = await subscriber.subscribe(*(f"x = {x}" for x in range(3_000)))
            await publisher.publish({"x": 2_999})
            assert await values(subscription, 1) == [2_999]
            assert len(net.brokers["B1"].broker.subscriptions) == 3_000
        await until(lambda: len(net.brokers["B1"].broker.subscriptions) == 0)


@in_loop
async def test_large_publications_pass_and_larger_ones_do_not() -> None:
    async with (
        network("chain:2") as (net, publisher),
        net.connect("B2") as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        await publisher.publish_all(({"x": x}, b"z" * 900_000) for x in range(20))
        assert await values(subscription, 20) == list(range(20))
        with pytest.raises(byway.InvalidValueError, match="at most 1048576 are accepted"):
            await publisher.publish({"x": 1}, b"z" * 1_100_000)
        assert subscriber.status.attachments == publisher.status.attachments == 1


# --- windows --------------------------------------------------------------------------------------


@in_loop
async def test_thousands_are_under_way_at_once() -> None:
    async with (
        network("chain:2") as (net, _),
        net.connect("B1", window=1_000) as publisher,
        publisher.advertise("ANY"),
        net.connect("B2") as subscriber,
        subscriber.subscribe("TRUE") as subscription,
    ):
        publishing = [publisher.publish({"x": x}) for x in range(3_000)]
        receipts = await asyncio.gather(*publishing)
        assert [receipt.number for receipt in receipts] == list(range(1, 3_001))
        await receipts[-1].confirmed()
        assert await values(subscription, 3_000) == list(range(3_000))


@in_loop
async def test_a_full_window_is_told_or_waited_for() -> None:
    async with LocalOverlay() as net, net.connect(window=10) as client, client.advertise("ANY"):
        receipts = [client.publish_nowait({"x": x}) for x in range(10)]
        with pytest.raises(byway.WindowFullError, match="10 unconfirmed publications"):
            client.publish_nowait({"x": 10})
        await client.publish({"x": 10})
        await client.confirmed()
        assert all(receipt.is_confirmed for receipt in receipts)


@in_loop
async def test_many_are_published_from_any_iterable() -> None:
    async def source():
        for x in range(600):
            yield {"x": x}, b"data"

    async with LocalOverlay() as net, net.connect(window=100) as client, client.advertise("ANY"):
        subscription = await client.subscribe("TRUE")
        assert await client.publish_all(source()) == 600
        assert await client.publish_all([]) == 0
        assert await values(subscription, 600) == list(range(600))


# --- refusals and errors --------------------------------------------------------------------------


@in_loop
async def test_a_publication_that_nobody_announced_is_refused() -> None:
    async with LocalOverlay() as net, net.connect() as client, client.advertise("x > 0"):
        reason = "publication 1 was refused: it conforms to no .*: x is -1, expected x > 0"
        with pytest.raises(byway.RefusedError, match=reason):
            await client.publish({"x": -1})
        good, bad = client.publish_nowait({"x": 1}), client.publish_nowait({"y": 1})
        with pytest.raises(byway.RefusedError, match="publication 3"):
            await client.flush()
        await client.flush()
        await good.confirmed()
        with pytest.raises(byway.RefusedError):
            await bad.confirmed()
        with pytest.raises(byway.RefusedError, match="publication 5"):
            await client.publish_all([{"x": 1}, {"x": 0}])
        assert client.status.refused == 3


@in_loop
async def test_a_refusal_that_nobody_asked_about_is_told_at_the_end() -> None:
    async with LocalOverlay() as net:
        with pytest.raises(byway.RefusedError):
            async with net.connect() as client:
                client.publish_nowait({"x": 1})
        assert client.status.state == "closed"


@in_loop
async def test_a_filter_text_that_cannot_be_read_costs_nothing() -> None:
    async with LocalOverlay() as net, net.connect() as client:
        with pytest.raises(byway.FilterSyntaxError, match="expected"):
            client.subscribe("price >")
        with pytest.raises(byway.FilterSyntaxError):
            client.advertise("price > > 1")
        async with client.subscribe("x > 0") as subscription:
            with pytest.raises(byway.FilterSyntaxError):
                await subscription.update("x >")
            assert str(subscription.filters[0]) == "x > 0"
        with pytest.raises(byway.ConfigError, match="name"):
            client.subscribe("x > 0", name="")
        assert client.is_attached


@in_loop
async def test_a_broker_that_is_not_there_is_named() -> None:
    async with LocalOverlay() as net:
        url = net.url("B1")
    with pytest.raises(byway.ConnectError, match="Connect") as caught:
        await byway.connect([url, "byway://127.0.0.1:1"], name="alice")
    assert caught.value.client == "alice"
    assert [attempt[0] for attempt in caught.value.attempts] == [url, "byway://127.0.0.1:1"]


@in_loop
async def test_a_host_that_nobody_can_have_is_told() -> None:
    with pytest.raises(byway.ConnectError, match="cannot be the name of a host"):
        await byway.connect(f"byway://{'x' * 100}.example:7001")


@in_loop
async def test_a_server_that_is_no_broker_is_told_from_one() -> None:
    async def chat(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    for server, says in ((chat, "bad frame"), (listen, "no answer within 0.05 s")):
        async with await asyncio.start_server(server, "127.0.0.1", 0) as other:
            host, port = other.sockets[0].getsockname()
            with pytest.raises(byway.ConnectError, match=says):
                await byway.connect(f"byway://{host}:{port}", connect_timeout=0.05)


@in_loop
async def test_a_client_may_be_there_before_its_broker(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "byway.client")
    async with LocalOverlay() as net:
        url = net.url("B1")
        await net.kill("B1")
        connecting = asyncio.ensure_future(byway.connect(url, connect_wait=10, retry=0.01)._open())
        await until(lambda: caplog.text.count("Connection refused") >= 2)
        assert not connecting.done()
        await net.restart("B1")
        client = await connecting
        assert client.is_attached
        await client.close()


# --- names ----------------------------------------------------------------------------------------


@in_loop
async def test_of_two_clients_with_one_name_the_newer_one_stays() -> None:
    async with LocalOverlay() as net:
        older, newer = net.connect(name="alice"), net.connect(name="alice")
        await older
        subscription = await older.subscribe("TRUE")
        waiting = asyncio.ensure_future(subscription.next())
        await newer
        with pytest.raises(byway.ClosedError, match="another client of this name connected"):
            await soon(waiting)
        with pytest.raises(byway.ClosedError):
            await older.publish({"x": 1})
        with pytest.raises(byway.ClosedError):
            await older.subscribe("x > 0")
        async with newer.advertise("ANY"):
            await newer.publish({"x": 1})
        assert newer.status.attachments == 1
        assert repr(older).startswith("<Client alice, closed: another client of this name")
        await newer.close()


@in_loop
async def test_an_older_client_is_not_let_in_after_a_newer_one() -> None:
    async with LocalOverlay() as net:
        older, newer = net.connect(name="alice"), net.connect(name="alice")
        await newer
        with pytest.raises(byway.ConnectError, match="a newer incarnation of client alice"):
            await older
        assert newer.is_attached
        await newer.close()


# --- slow applications ----------------------------------------------------------------------------


@in_loop
async def test_a_slow_application_stops_the_stream_and_loses_nothing() -> None:
    async with network() as (net, publisher), net.connect(pending_messages=100) as subscriber:
        subscription = await subscriber.subscribe("TRUE")
        data = b"x" * 2_000
        await publisher.publish_all(({"x": x}, data) for x in range(20_000))
        await until(lambda: subscription.pending >= 100)
        assert "deliveries are held until events of sub1 are taken" in repr(subscriber)
        held = net.brokers["B1"].clients[subscriber.name]
        await until(lambda: subscription.pending + held.waiting_messages == 20_000)
        assert subscription.pending < 10_000
        assert await values(subscription, 20_000) == list(range(20_000))
        assert subscription.dropped == 0
        assert "deliveries are held" not in repr(subscriber)


@in_loop
async def test_answers_are_read_though_a_subscription_is_full() -> None:
    async with network() as (net, publisher), net.connect(pending_messages=10) as slow:
        await slow.advertise("y = 1")
        subscription = await slow.subscribe("x >= 0")
        publishing = asyncio.create_task(
            publisher.publish_all(({"x": x}, b"x" * 500) for x in range(5_000))
        )
        for x in range(100):
            await slow.publish({"y": 1}, timeout=5)
            assert await values(subscription, 1) == [x]
        assert subscription.pending < 4_000
        await publishing
        assert await values(subscription, 4_900) == list(range(100, 5_000))


@in_loop
async def test_a_wait_that_a_full_subscription_makes_vain_says_so() -> None:
    async with network("chain:2") as (net, publisher), net.connect(pending_messages=5) as slow:
        subscription = await slow.subscribe("x >= 0", name="quotes")
        await publisher.publish_all({"x": x} for x in range(10))
        await until(lambda: subscription.pending >= 5)
        await net.kill("B2")  # so that nothing is settled any more
        with pytest.raises(byway.NotSettledError, match="events of quotes are taken"):
            await slow.advertise("z = 1", timeout=0.05)


@in_loop
async def test_a_slow_application_may_lose_the_oldest() -> None:
    async with network() as (_, client):
        subscription = await client.subscribe("TRUE", pending_messages=50, when_full="drop_oldest")
        await client.publish_all({"x": x} for x in range(1_000))
        await until(lambda: client.status.received == 1_000)
        assert (subscription.pending, subscription.dropped) == (50, 950)
        assert await values(subscription, 50) == list(range(950, 1_000))
        assert "950 dropped" in repr(subscription)


# --- cancellation ---------------------------------------------------------------------------------


@in_loop
async def test_what_is_cancelled_leaves_nothing_behind() -> None:
    async with LocalOverlay("chain:2") as net:
        await net.kill("B2")  # B1 knows of it, and waits for its answer
        async with net.connect("B1") as client:
            opening = asyncio.ensure_future(client.advertise("ANY")._open())
            broker = net.brokers["B1"].broker
            await until(lambda: len(broker.advertisements) == 1)
            opening.cancel()
            await until(lambda: len(broker.advertisements) == 0)
            with pytest.raises(byway.NotSettledError, match="adv2 is not settled within"):
                await client.advertise("ANY", timeout=0.05)
            await until(lambda: len(broker.advertisements) == 0)
            advertisement = await client.advertise("ANY", settled=False)
            assert not advertisement.is_settled
            await net.restart("B2")
            await advertisement.settled()


@in_loop
async def test_connecting_can_be_cancelled() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await byway.connect(f"byway://{host}:{port}")


# --- leaving --------------------------------------------------------------------------------------


@in_loop
async def test_draining_waits_for_every_copy_and_takes_everything_back() -> None:
    async with LocalOverlay("chain:2") as net, net.connect("B2") as subscriber:
        subscription = await subscriber.subscribe("TRUE")
        client = await net.connect("B1")
        await client.advertise("ANY")
        own = await client.subscribe("TRUE")
        client.publish_nowait({"x": -1})
        await until(lambda: own.pending == 1)
        receipts = [client.publish_nowait({"x": x}) for x in range(500)]
        draining = asyncio.create_task(client.drain())
        await asyncio.sleep(0)
        with pytest.raises(byway.ClosedError, match="it is draining"):
            client.publish_nowait({"x": 1})
        await draining
        assert receipts[-1].is_confirmed
        assert await values(subscription, 501) == list(range(-1, 500))
        came = [event.attributes["x"] async for event in own]
        assert came == list(range(-1, len(came) - 1))
        broker = net.brokers["B1"].broker
        await until(lambda: not broker.sessions and len(broker.subscriptions) == 0)
        with pytest.raises(byway.ClosedError):
            await client.publish({"x": 1})


@in_loop
async def test_leaving_a_block_waits_for_the_broker_unless_it_failed() -> None:
    async def fail(net: LocalOverlay) -> None:
        async with net.connect() as client:
            client.publish_nowait({"x": 1})  # nobody announced it, but nobody asks
            raise ZeroDivisionError

    async with LocalOverlay() as net, net.connect() as subscriber:
        subscription = await subscriber.subscribe("TRUE")
        async with net.connect() as client:
            await client.advertise("ANY")
            for x in range(100):
                client.publish_nowait({"x": x})
        assert client.status.accepted == 100
        assert await values(subscription, 100) == list(range(100))
        with pytest.raises(ZeroDivisionError):
            await fail(net)
