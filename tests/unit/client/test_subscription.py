"""Advertisements and subscriptions as an application sees them: filters, states, and waiting."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from byway.client.subscription import AwaitableRegistration, Subscription
from byway.model import parse
from byway.model.errors import ClosedError, FilterSyntaxError, RefusedError
from byway.model.messages import (
    Attached,
    Delivery,
    HoldDeliveries,
    Preamble,
    Publish,
    Refused,
    Replies,
    Reply,
    Settled,
)
from byway.session.client_actions import (
    ClientAction,
    TellEvents,
    TellRegistration,
    WriteFrame,
)
from byway.session.client_core import ClientCore
from byway.session.client_inputs import (
    ClientClosed,
    ClientInput,
    ClientOpened,
    FrameArrived,
    Greeted,
    Registered,
)
from byway.session.client_options import BrokerUrl, ClientOptions, WhenFull
from byway.session.outgoing_publications import encode_body


class Driver:
    """Drives a core that is attached; it keeps what is written, and waits without a limit."""

    def __init__(self) -> None:
        options = ClientOptions(urls=(BrokerUrl.parse("b1"),), name="c")
        self.core = ClientCore(options, 1, lambda: 1.0)
        self.actions: list[ClientAction] = []
        self.handle(ClientOpened())
        self.handle(Greeted(1, Preamble(1, "broker", "B1", 1, 4_194_304, 5_000)))
        self.reply(Attached(False, 0))

    def handle(self, event: ClientInput) -> None:
        for action in self.core.handle(0, event):
            self.actions.append(action)
            if isinstance(action, TellEvents):
                for fed in action.registrations:
                    assert isinstance(fed, Subscription)
                    fed.wake()
            elif isinstance(action, TellRegistration):
                assert isinstance(action.registration, AwaitableRegistration)
                action.registration.changed()

    async def wait(self, awaited: Awaitable[None], *_: object) -> None:
        await awaited

    def reply(self, *replies: Reply) -> None:
        self.handle(FrameArrived(1, Replies(replies)))

    def deliver(self, numbers: Iterable[int], *names: str) -> None:
        self.reply(
            *(
                Delivery(number, Publish("p", 7, number, 5, 2, 0, 0, body), names)
                for number in numbers
                for body in [encode_body({"x": number})]
            )
        )

    def subscription(
        self, *filters: str, messages: int = 100, when_full: WhenFull = "block"
    ) -> Subscription:
        return Subscription(self, "s", filters, False, None, messages, 1_000, when_full)

    def subscribed(self, *filters: str, **bounds: Any) -> Subscription:
        made = self.subscription(*filters, **bounds)
        self.handle(Registered(made))
        return made

    def held(self) -> list[bool]:
        """What the broker was asked, of holding deliveries."""
        written = (action.frame for action in self.actions if isinstance(action, WriteFrame))
        return [frame.hold for frame in written if isinstance(frame, HoldDeliveries)]


# --- what it says ---------------------------------------------------------------------------------


def test_a_subscription_tells_its_state() -> None:
    driver = Driver()
    subscription = driver.subscribed("x > 0", "y > 0", "z > 0", "a > 0", messages=1)
    words = "<Subscription s of 'x > 0', 'y > 0', 'z > 0' and 1 more: "
    assert repr(subscription) == f"{words}not settled yet, 0 pending>"
    driver.reply(*(Settled(f"s.1.{number}") for number in range(1, 5)))
    assert repr(subscription) == f"{words}settled, 0 pending>"
    driver.deliver([1], "s.1.1")
    assert repr(subscription) == f"{words}settled, 1 pending>"
    driver.handle(ClientClosed("the end"))
    assert repr(subscription) == f"{words}not open, 1 pending>"


def test_dropped_events_are_told() -> None:
    driver = Driver()
    subscription = driver.subscribed("x > 0", messages=2, when_full="drop_oldest")
    driver.deliver(range(1, 6), "s.1.1")
    assert (subscription.pending, subscription.dropped, driver.held()) == (2, 3, [])
    assert repr(subscription).endswith("not settled yet, 2 pending, 3 dropped>")
    assert [subscription._take().attributes["x"] for _ in range(2)] == [4, 5]
    assert subscription.pending_bytes == 0


def test_filters_are_read_when_they_are_given() -> None:
    driver = Driver()
    with pytest.raises(FilterSyntaxError):
        driver.subscription("x >")
    with pytest.raises(ValueError, match="at least one filter"):
        driver.subscription()
    assert driver.subscribed("x > 0").filters == (parse("x > 0"),)


# --- events ---------------------------------------------------------------------------------------


def test_a_full_subscription_holds_deliveries_until_half_of_it_is_taken() -> None:
    driver = Driver()
    subscription = driver.subscribed("x > 0", messages=4)
    driver.deliver([1, 2, 3], "s.1.1")
    assert (subscription.is_full, driver.held()) == (False, [])
    driver.deliver([4], "s.1.1")
    assert (subscription.is_full, driver.held()) == (True, [True])
    subscription._take()
    assert driver.held() == [True]
    subscription._take()
    assert driver.held() == [True, False]


def test_an_event_is_not_lost_with_the_task_that_waited_for_it() -> None:
    async def run() -> None:
        driver = Driver()
        subscription = driver.subscribed("x > 0")
        gives_up, waits = (asyncio.create_task(subscription.next(5)) for _ in range(2))
        await asyncio.sleep(0)
        driver.deliver([1], "s.1.1")
        gives_up.cancel()  # it has been woken, and does not know yet
        assert (await waits).attributes == {"x": 1}
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await subscription.next(0.001)
        assert not subscription._waiters

    asyncio.run(run())


def test_as_many_tasks_are_woken_as_there_are_events() -> None:
    async def run() -> None:
        driver = Driver()
        subscription = driver.subscribed("x > 0")
        waiting = [asyncio.create_task(subscription.next(5)) for _ in range(3)]
        await asyncio.sleep(0)
        driver.deliver([1, 2], "s.1.1")
        assert [(await task).attributes["x"] for task in waiting[:2]] == [1, 2]
        assert len(subscription._waiters) == 1
        driver.deliver([3, 4], "s.1.1")
        assert (await waiting[2]).attributes["x"] == 3
        assert [event.attributes["x"] for event in await subscription.take(9)] == [4]

    asyncio.run(run())


def test_what_was_received_can_be_taken_after_the_end_of_a_subscription() -> None:
    async def run() -> None:
        driver = Driver()
        subscription = driver.subscribed("x > 0")
        driver.deliver([1, 2], "s.1.1")
        await subscription.unsubscribe()
        assert [event.attributes["x"] async for event in subscription] == [1, 2]
        assert await subscription.take(1) == []
        with pytest.raises(ClosedError, match="subscription s is closed: it has ended"):
            await subscription.next()

    asyncio.run(run())


def test_whoever_waits_is_told_of_a_refusal() -> None:
    async def run() -> None:
        driver = Driver()
        subscription = driver.subscribed("x > 0")
        waiting = [
            asyncio.create_task(subscription.settled()),
            asyncio.create_task(subscription.next()),
        ]
        await asyncio.sleep(0)
        driver.reply(Refused("s.1.1", "too many"))
        for task in waiting:
            with pytest.raises(RefusedError, match="subscription s was refused: too many"):
                await task

    asyncio.run(run())


def test_a_subscription_is_not_settled_before_its_last_filters_are() -> None:
    async def run() -> None:
        driver = Driver()
        subscription = driver.subscribed("x > 0")
        driver.reply(Settled("s.1.1"))
        await subscription.settled()
        await subscription.update("x > 1")
        waiting = asyncio.create_task(subscription.settled())
        await asyncio.sleep(0)
        assert not waiting.done()
        driver.reply(Settled("s.1.2"))
        await waiting

    asyncio.run(run())
