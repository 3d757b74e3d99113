"""The driver of a broker process, without sockets: what of a client overtakes what, and who wakes
the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from byway.core.actions import Action, CloseLink, OpenLink
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkUp,
    NeighbourRemoved,
    Started,
)
from byway.model import ANY, TRUE
from byway.model.messages import (
    AdvertiseRequest,
    Batch,
    DeliveriesReceived,
    Frame,
    Hello,
    Lane,
    Reply,
    SubscribeRequest,
    UnsubscribeRequest,
)
from byway.runtime.driver import Driver
from tests.lone_broker import NAMES, NOTHING, TOLD, publish, subscribe

SUBSCRIBE, UNSUBSCRIBE = SubscribeRequest("s", TRUE), UnsubscribeRequest(("s",))
ADVERTISE = AdvertiseRequest("a", ANY)


class Recorded(Broker):
    """A broker whose neighbour confirms one publication at a time; it writes down its turns."""

    def __init__(self) -> None:
        super().__init__("B", ["C"], BrokerConfig(link_bytes_max=1))
        self.turns: list[list[Input]] = []

    def handle_batch(self, now_us: int, events: Any) -> list[Action]:
        self.turns.append(list(events))
        return super().handle_batch(now_us, self.turns[-1])

    @property
    def requested(self) -> list[ClientRequested]:
        return [e for turn in self.turns for e in turn if isinstance(e, ClientRequested)]


class Nobody:
    """Those the broker is connected to."""

    def send(self, link: str, frame: Frame) -> None: ...
    def tell(self, client: str, replies: tuple[Reply, ...]) -> None: ...
    def open_link(self, action: OpenLink) -> None: ...
    def close_link(self, action: CloseLink) -> None: ...
    def requests_taken(self) -> None: ...
    def close_client(self, client: str, reason: str) -> None: ...


def driven(test: Callable[[Driver, Recorded], Awaitable[None]]) -> Callable[[], None]:
    """Run a test with a broker whose neighbour C wants everything, and a client `c`."""

    @wraps(test)
    def run() -> None:
        async def play() -> None:
            broker = Recorded()
            driver = Driver(broker, Nobody())
            driver.now(Started(), LinkUp("C", Hello("C", 1, 0, 0, 0, 0)))
            told = [(NOTHING, NAMES), TOLD, (subscribe("all"),)]
            for number, messages in zip((1, 3, 5), told, strict=True):
                driver.now(FrameReceived("C", Batch(Lane.CONTROL, number, messages)))
            driver.now(ClientAttached("c", 1), ClientRequested("c", (ADVERTISE,)))
            broker.turns.clear()
            await test(driver, broker)
            driver.stop()

        asyncio.run(play())

    del run.__wrapped__  # type: ignore[attr-defined]  # it takes no arguments
    return run


async def rest() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@driven
async def test_an_unsubscription_does_not_overtake_its_subscription(
    driver: Driver, broker: Recorded
) -> None:
    driver.request("c", (publish(1, p=1),))
    await rest()
    assert not broker.reads_data_from(None)
    driver.request("c", (publish(2, p=1),))
    mixed = (AdvertiseRequest("b", ANY), SUBSCRIBE)
    driver.request("c", mixed)
    driver.request("c", (UNSUBSCRIBE,))
    await rest()
    assert broker.requested == [ClientRequested("c", (publish(1, p=1),))]
    driver.now(NeighbourRemoved("C"))
    await rest()
    assert broker.requested[1:] == [
        ClientRequested("c", (publish(2, p=1),)),
        ClientRequested("c", mixed),
        ClientRequested("c", (UNSUBSCRIBE,)),
    ]
    assert len(broker.subscriptions) == 0


@driven
async def test_a_publication_does_not_overtake_an_earlier_subscription(
    driver: Driver, broker: Recorded
) -> None:
    driver.request("c", (*map(DeliveriesReceived, range(1_024)), SUBSCRIBE))
    driver.request("c", (publish(1, p=1),))
    await rest()
    asked = [request for event in broker.requested for request in event.requests]
    assert asked[-2:] == [SUBSCRIBE, publish(1, p=1)]


@driven
async def test_what_waits_is_handled_as_soon_as_an_input_makes_room(
    driver: Driver, broker: Recorded
) -> None:
    driver.request("c", (publish(1, p=1),))
    await rest()
    driver.request("c", (publish(2, p=1),))
    await rest()
    assert len(broker.requested) == 1  # C has not confirmed the first
    driver.now(NeighbourRemoved("C"))
    await rest()
    assert broker.requested[1:] == [ClientRequested("c", (publish(2, p=1),))]
