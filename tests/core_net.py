"""A network of brokers in one place: frames in queues, delivered when a test says so.

Lanes are FIFO, control may overtake data, data never overtakes what was sent before it.
"""

from collections import defaultdict

import msgspec

from byway.core.actions import Send
from byway.core.broker import Broker
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    LinkUp,
)
from byway.model import parse
from byway.model.messages import (
    AdvertiseRequest,
    Batch,
    Body,
    Lane,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)

encode = msgspec.msgpack.encode


class Net:
    """Brokers, the frames under way between them, and what clients were told."""

    def __init__(self, edges: list[tuple[str, str]]) -> None:
        neighbours: dict[str, list[str]] = defaultdict(list)
        for a, b in edges:
            neighbours[a].append(b)
            neighbours[b].append(a)
        self.neighbours = neighbours
        self.brokers = {n: Broker(n, tuple(neighbours[n])) for n in sorted(neighbours)}
        self.flying: dict[tuple[str, str], list[object]] = {}
        self.told: dict[str, list[object]] = defaultdict(list)
        self.home: dict[str, str] = {}
        self.sequence: dict[str, int] = defaultdict(int)
        for a, b in edges:
            self.flying[a, b], self.flying[b, a] = [], []
            hellos = {n: self.brokers[n].ends[m].hello() for n, m in ((a, b), (b, a))}
            self.do(a, LinkUp(b, hellos[b]))
            self.do(b, LinkUp(a, hellos[a]))

    def do(self, broker: str, event: object) -> None:
        for action in self.brokers[broker].handle(0, event):
            if isinstance(action, Send):
                self.flying[broker, action.link].append(action.frame)
            else:
                self.told[action.client].extend(action.replies)

    def step(self, way: tuple[str, str], overtake: bool = False) -> None:
        """Deliver the next frame on a way, or the next one of control."""
        queue = self.flying[way]
        if not queue:
            return
        at = 0
        if overtake:
            at = next((i for i, f in enumerate(queue) if not is_data(f)), 0)
        sender, receiver = way
        self.do(receiver, FrameReceived(sender, queue.pop(at)))

    def settle(self) -> None:
        """Deliver everything."""
        while any(self.flying.values()):
            for way in sorted(self.flying):
                self.step(way)

    # --- clients -------------------------------------------------------------------------------

    def attach(self, client: str, broker: str) -> None:
        self.home[client] = broker
        self.do(broker, ClientAttached(client, 1))

    def detach(self, client: str) -> None:
        self.do(self.home.pop(client), ClientDetached(client))

    def ask(self, client: str, *requests: object) -> None:
        self.do(self.home[client], ClientRequested(client, requests))

    def advertise(self, client: str, text: str, name: str = "a") -> None:
        self.ask(client, AdvertiseRequest(name, parse(text)))

    def unadvertise(self, client: str, name: str = "a") -> None:
        self.ask(client, UnadvertiseRequest(name))

    def subscribe(self, client: str, text: str, name: str = "s") -> None:
        self.ask(client, SubscribeRequest(name, parse(text)))

    def unsubscribe(self, client: str, *names: str) -> None:
        self.ask(client, UnsubscribeRequest(names or ("s",)))

    def publish(self, client: str, **attributes) -> int:
        self.sequence[client] += 1
        body = encode(Body(attributes))
        self.ask(client, PublishRequest(self.sequence[client], body))
        return self.sequence[client]

    # --- looking -------------------------------------------------------------------------------

    def got(self, client: str, kind: type) -> list:
        return [r for r in self.told[client] if isinstance(r, kind)]

    def entries(self, broker: str) -> list[tuple[str, str]]:
        """(client, name) of the subscriptions a broker holds."""
        return sorted((e.id.client, e.id.name) for e in self.brokers[broker].router.subscriptions)


def is_data(frame: object) -> bool:
    return isinstance(frame, Batch) and frame.lane is Lane.DATA
