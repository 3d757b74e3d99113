"""The blocking façade: the same names, without an event loop."""

import threading
import time

import pytest

import byway
from byway import blocking

pytestmark = pytest.mark.integration


def byway_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("byway")]


def test_everything_the_client_does() -> None:
    with (
        blocking.LocalOverlay("chain:2") as net,
        net.connect("B1", name="quotes") as publisher,
        net.connect("B2") as subscriber,
        publisher.advertise("ANY", name="all") as advertisement,
        subscriber.subscribe("x > 0", name="s") as subscription,
    ):
        assert (publisher.name, advertisement.name, subscription.name) == ("quotes", "all", "s")
        assert publisher.is_attached
        assert advertisement.is_settled
        assert subscription.is_settled
        receipt = publisher.publish({"x": 1}, b"data")
        assert receipt.is_accepted
        receipt.confirmed()
        assert receipt.is_confirmed
        event = subscription.next(5)
        assert (event.attributes, event.data, event.hops) == ({"x": 1}, b"data", 1)
        with pytest.raises(TimeoutError):
            subscription.next(0.01)
        assert subscription.take(3, timeout=0.01) == []

        assert publisher.publish_all({"x": x} for x in range(1, 1_001)) == 1_000
        publisher.confirmed()
        got = []
        for event in subscription:
            got.append(event.attributes["x"])
            if len(got) == 900:
                break
        got += [event.attributes["x"] for _ in range(100) for event in subscription.take(1)]
        assert got == list(range(1, 1_001))
        assert subscription.pending == 0

        subscription.update("x > 10")
        publisher.publish_nowait({"x": 5}).accepted()
        publisher.publish_nowait({"x": 15})
        publisher.flush()
        assert subscription.next(5).attributes == {"x": 15}
        subscription.settled()
        advertisement.settled()
        assert subscription.dropped == 0
        assert publisher.status.published == 1_003
        assert subscriber.status.received == 1_002
        assert repr(publisher).startswith("<Client quotes, attached to B1")
        assert repr(subscription).startswith("<Subscription s of 'x > 10': settled")
        assert repr(advertisement) == "<Advertisement all of 'ANY': settled>"
        assert repr(receipt) == "<Receipt 1: confirmed>"
        assert repr(net) == "<LocalOverlay of 2 brokers, 2 of them run>"

        subscription.unsubscribe()
        assert list(subscription) == []
        advertisement.unadvertise()
        with pytest.raises(byway.RefusedError):
            publisher.publish({"x": 1})
        publisher.drain()
        with pytest.raises(byway.ClosedError):
            publisher.publish({"x": 1})
    assert byway_threads() == []


def test_events_are_taken_while_others_are_published() -> None:
    with blocking.LocalOverlay() as net, net.connect() as client, client.advertise("ANY"):
        subscription = client.subscribe("TRUE")
        got: list[object] = []

        def take() -> None:
            got.extend(event.attributes["x"] for event in subscription)

        taker = threading.Thread(target=take)
        taker.start()
        client.publish_all({"x": x} for x in range(2_000))
        while client.status.received < 2_000:
            time.sleep(0.002)
        client.drain()  # ends the iteration after what came
        taker.join(10)
        assert got == list(range(2_000))


def test_errors_come_through() -> None:
    with blocking.LocalOverlay() as net:
        url = net.url("B1")
        with pytest.raises(byway.FilterSyntaxError), net.connect() as client:
            client.subscribe("x >")
        with pytest.raises(byway.TopologyError, match="there is none; there are B1"):
            net.connect("B7")
    with pytest.raises(byway.ConnectError):
        blocking.connect(url)
    with pytest.raises(byway.ConfigError):
        blocking.connect("http://127.0.0.1")
    with pytest.raises(byway.TopologyError), blocking.LocalOverlay("ring:3"):
        pass
    assert byway_threads() == []


def test_a_client_can_be_closed_twice_and_inside_its_blocks() -> None:
    with blocking.LocalOverlay() as net, net.connect() as client:
        with client.advertise("ANY"), client.subscribe("TRUE") as subscription:
            client.close()
            client.close()
            with pytest.raises(byway.ClosedError, match="its thread has ended"):
                subscription.next(1)
        with pytest.raises(byway.ClosedError):
            client.publish({"x": 1})
