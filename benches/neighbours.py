"""A broker with neighbours that are played by the bench: frames by hand, nothing but the broker's
own work in the measurement."""

from __future__ import annotations

from byway.core.actions import Action, Send
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, LinkUp, Started, TimerFired
from byway.core.subscriptions import TIMER as COVERING_TIMER
from byway.model import ANY
from byway.model.messages import (
    Acknowledge,
    Advertise,
    AdvertisementsSynced,
    Batch,
    EntryId,
    Hello,
    Lane,
    Message,
    NeighbourNames,
    Publish,
    Subscribe,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncDigest,
)
from byway.trace import TraceBuffer

LINKS = ("N1", "N2", "N3", "N4")
SOURCE = "N1"
"""Advertisements and publications come from here, subscriptions from the others."""


class Surrounded:
    """One broker whose neighbours, four unless others are given, agree with it."""

    def __init__(
        self,
        covering: str = "none",
        trace: TraceBuffer | None = None,
        merging: bool = False,
        links: tuple[str, ...] = LINKS,
        config: BrokerConfig | None = None,
    ) -> None:
        if config is None:
            config = BrokerConfig(covering=covering, merging=merging)  # type: ignore[arg-type]
        self.broker = Broker("B", links, config, trace=trace)
        self._next = dict.fromkeys(links, 1)
        self.broker.handle(0, Started())
        for link in links:
            self.broker.handle(0, LinkUp(link, Hello(link, 1, 0, 0, 0, 0)))
            self.control(link, SyncDigest((), ()), NeighbourNames(("B",)))
        for message in (AdvertisementsSynced(), SubscriptionsSynced()):
            for link in links:
                self.control(link, message)
        self.control(SOURCE, Advertise(EntryId("publisher", "a", 1), ANY))
        assert all(link.open for link in self.broker.links.values()), "a neighbour takes no data"

    def control(self, link: str, *messages: Message) -> list[Action]:
        """A neighbour sends control messages."""
        frame = Batch(Lane.CONTROL, self._next[link], messages)
        self._next[link] += len(messages)
        return self.broker.handle(0, FrameReceived(link, frame))

    def subscribe(self, link: str, *messages: Subscribe) -> None:
        """A neighbour subscribes; the others acknowledge and settle what they are sent."""
        self._answer(self.control(link, *messages))

    def _answer(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send) and isinstance(action.frame, Batch):
                frame = action.frame
                last = frame.first + len(frame.messages) - 1
                acknowledge = Acknowledge(last, 0, 0)
                self.broker.handle(0, FrameReceived(action.link, acknowledge))
                ids = tuple(m.id for m in frame.messages if isinstance(m, Subscribe))
                if ids:
                    self.control(action.link, SubscriptionsSettled(ids))

    def wait(self, steps: int) -> None:
        """The covering policy has time for so many steps; the neighbours answer."""
        for step in range(1, steps + 1):
            now_us = step * self.broker.config.retire_interval_us
            self._answer(self.broker.handle(now_us, TimerFired(COVERING_TIMER)))

    def publish(self, frames: list[FrameReceived]) -> int:
        """Publications come; each neighbour confirms its copies. How many copies there were."""
        handle, copies = self.broker.handle, 0
        for received in frames:
            for action in handle(0, received):
                frame = action.frame  # type: ignore[union-attr]
                if type(frame) is Batch:
                    copies += len(frame.messages)
                    last = frame.first + len(frame.messages) - 1
                    link = action.link  # type: ignore[union-attr]
                    handle(0, FrameReceived(link, Acknowledge(0, last, last)))
        return copies


def frames_of(bodies: list[bytes], batch: int, after: int = 0) -> list[FrameReceived]:
    """Publications of one publisher, in frames from the source; it has sent so many before."""
    messages = [
        Publish("publisher", 1, n, 0, 1, 1, 0, body) for n, body in enumerate(bodies, after + 1)
    ]
    return [
        FrameReceived(SOURCE, Batch(Lane.DATA, after + at + 1, tuple(messages[at : at + batch])))
        for at in range(0, len(messages), batch)
    ]
