"""Deliveries of a client: once, to all subscriptions that match, and counted."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime

import pytest

from byway.session.client_options import WhenFull
from byway.client.deliveries import Deliveries
from byway.session.events import Event
from byway.session.outgoing import encode_body
from byway.client.registrations import Registration, Registrations
from byway.client.subscription import UNDER_WAY_BYTES, Subscription
from byway.model import Filter, parse
from byway.model.errors import ClosedError, FilterSyntaxError
from byway.model.messages import Delivery, Publish


class Quiet:
    """Keeps registrations without a broker."""

    is_ready = True

    def __init__(self) -> None:
        self.registrations = Registrations()
        self.deliveries = Deliveries(self.registrations)

    def register(self, registration: Registration) -> None:
        self.registrations.add(registration)

    def replace(self, registration: Registration, filters: Sequence[Filter]) -> None:
        self.registrations.replace(registration, filters)

    def unregister(self, registration: Registration) -> None:
        self.registrations.remove(registration)

    def has_room_again(self, subscription: Subscription) -> None:
        del self.deliveries.full[subscription]

    def closing_error(self) -> ClosedError | None:
        return None

    async def wait(self, awaited: Awaitable[None], *_: object) -> None:
        await awaited

    def subscription(
        self, name: str, *filters: str, messages: int = 100, when_full: WhenFull = "block"
    ) -> Subscription:
        made = Subscription(self, name, filters, False, None, messages, 1_000, when_full)
        self.register(made)
        return made


def delivery(number: int, *names: str, sequence: int | None = None, data: bytes = b"") -> Delivery:
    body = encode_body({"x": number}, data)
    return Delivery(number, Publish("p", 7, sequence or number, 5, 2, 0, 0, body), names)


def taken(subscription: Subscription) -> list[int]:
    return [subscription._take().attributes["x"] for _ in range(subscription.pending)]


def test_an_event_tells_everything_about_a_publication() -> None:
    event = Event(delivery(4, data=b"data").publication, ("s",))
    assert (event.attributes, event.data) == ({"x": 4}, b"data")
    assert (event.publisher, event.incarnation, event.sequence) == ("p", 7, 4)
    assert (event.hops, event.published_us) == (2, 5)
    assert event.published_at == datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    assert event.subscriptions == ("s",)
    assert repr(event) == "<Event 4 of p: {'x': 4}>"


def test_all_subscriptions_that_match_get_the_same_event() -> None:
    quiet = Quiet()
    first, second = quiet.subscription("s", "x > 0", "x > 1"), quiet.subscription("t", "x > 2")
    quiet.deliveries.take(delivery(1, "s.1.1", "s.1.2", "t.2.3"))
    (one,), (other,) = first._pending, second._pending
    assert one is other
    assert one.subscriptions == ("s", "t")


def test_what_nobody_holds_any_more_is_dropped() -> None:
    quiet = Quiet()
    subscription = quiet.subscription("s", "x > 0")
    quiet.unregister(subscription)
    quiet.deliveries.take(delivery(1, "s.1.1"))
    assert subscription.pending == 0


def test_a_delivery_that_comes_again_is_dropped() -> None:
    quiet = Quiet()
    subscription = quiet.subscription("s", "x > 0")
    for given in (delivery(1, "s.1.1"), delivery(1, "s.1.1"), delivery(2, "s.1.1", sequence=1)):
        quiet.deliveries.take(given)
    assert taken(subscription) == [1]
    assert quiet.deliveries.duplicates == 2
    assert quiet.deliveries.received == 2


def test_what_more_subscriptions_want_than_one_delivery_names_comes_to_each_once() -> None:
    quiet = Quiet()
    first, second = quiet.subscription("s", "x > 0", "x > 1"), quiet.subscription("t", "x > 2")
    for number, name in enumerate(("s.1.1", "s.1.2", "t.2.3"), 1):
        given = delivery(1, name)
        quiet.deliveries.take(Delivery(number, given.publication, given.names))
    assert (taken(first), taken(second)) == ([1], [1])
    assert (quiet.deliveries.events, quiet.deliveries.duplicates) == (1, 0)
    quiet.deliveries.restart()  # a broker that lost its state sends it again
    quiet.deliveries.take(delivery(1, "s.1.1"))
    assert (taken(first), quiet.deliveries.duplicates) == ([], 1)


def test_missing_numbers_are_counted_once() -> None:
    quiet = Quiet()
    quiet.subscription("s", "x > 0")
    quiet.deliveries.take(delivery(1, "s.1.1"))
    quiet.deliveries.take(delivery(4, "s.1.1"))
    assert quiet.deliveries.lost == 2
    quiet.deliveries.resume(lost=3)
    quiet.deliveries.take(delivery(8, "s.1.1"))
    assert quiet.deliveries.lost == 5
    quiet.deliveries.restart()
    quiet.deliveries.take(delivery(1, "s.1.1", sequence=9))
    assert quiet.deliveries.lost == 5


def test_a_full_subscription_blocks_until_half_of_it_is_taken() -> None:
    quiet = Quiet()
    subscription = quiet.subscription("s", "x > 0", messages=4)
    for number in range(1, 5):
        assert not quiet.deliveries.full
        quiet.deliveries.take(delivery(number, "s.1.1"))
    assert list(quiet.deliveries.full) == [subscription]
    assert not quiet.deliveries.is_overfull
    subscription._take()
    assert quiet.deliveries.full
    subscription._take()
    assert not quiet.deliveries.full


def test_bytes_fill_a_subscription_too() -> None:
    quiet = Quiet()
    subscription = quiet.subscription("s", "x > 0")
    quiet.deliveries.take(delivery(1, "s.1.1", data=b"x" * 2_000))
    assert quiet.deliveries.full
    assert not quiet.deliveries.is_overfull
    quiet.deliveries.take(delivery(2, "s.1.1", data=b"x" * UNDER_WAY_BYTES))
    assert quiet.deliveries.is_overfull
    taken(subscription)
    assert not quiet.deliveries.full
    assert not quiet.deliveries.is_overfull


def test_an_event_is_not_lost_with_the_task_that_waited_for_it() -> None:
    async def run() -> None:
        quiet = Quiet()
        subscription = quiet.subscription("s", "x > 0")
        subscription.is_open = True
        gives_up, waits = (asyncio.create_task(subscription.next(5)) for _ in range(2))
        await asyncio.sleep(0)
        quiet.deliveries.take(delivery(1, "s.1.1"))
        gives_up.cancel()  # it has been woken, and does not know yet
        assert (await waits).attributes == {"x": 1}
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await subscription.next(0.001)
        assert not subscription._waiters

    asyncio.run(run())


def test_the_oldest_is_dropped_if_that_is_wanted() -> None:
    quiet = Quiet()
    subscription = quiet.subscription("s", "x > 0", messages=2, when_full="drop_oldest")
    for number in range(1, 6):
        quiet.deliveries.take(delivery(number, "s.1.1"))
    assert not quiet.deliveries.full
    assert subscription.dropped == 3
    assert taken(subscription) == [4, 5]
    assert subscription.pending_bytes == 0


def test_a_subscription_tells_its_state() -> None:
    quiet = Quiet()
    subscription = quiet.subscription("s", "x > 0", "y > 0", "z > 0", "a > 0")
    assert repr(subscription) == (
        "<Subscription s of 'x > 0', 'y > 0', 'z > 0' and 1 more: not open, 0 pending>"
    )


def test_filters_are_read_when_they_are_given() -> None:
    quiet = Quiet()
    with pytest.raises(FilterSyntaxError):
        quiet.subscription("s", "x >")
    with pytest.raises(ValueError, match="at least one filter"):
        quiet.subscription("s")
    assert quiet.subscription("s", "x > 0").filters == (parse("x > 0"),)
