"""A network of brokers in one place: frames in queues, delivered when a test says so.

Lanes are FIFO, control may overtake data, data never overtakes what was sent before it.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from byway.core.actions import CancelTimer, CloseLink, Send, SendReply, SetTimer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    LinkDown,
    LinkUp,
    Started,
    TimerFired,
)
from byway.model import parse
from byway.model.messages import (
    AdvertiseRequest,
    Batch,
    Body,
    Lane,
    PublicationsConfirmed,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)

encode = msgspec.msgpack.encode
DEFAULT = BrokerConfig()


class Net:
    """Brokers, the frames under way between them, and what clients were told."""

    def __init__(
        self,
        edges: list[tuple[str, str]],
        config: BrokerConfig | dict[str, BrokerConfig] = DEFAULT,
    ) -> None:
        neighbours: dict[str, list[str]] = defaultdict(list)
        for a, b in edges:
            neighbours[a].append(b)
            neighbours[b].append(a)
        self.neighbours = neighbours
        names = sorted(neighbours)
        self.configs = config if isinstance(config, dict) else dict.fromkeys(names, config)
        self.brokers = {name: self.first(name) for name in names}
        self.timers: dict[tuple[str, object], int] = {}
        self.flying: dict[tuple[str, str], list[object]] = {}
        self.told: dict[str, list[object]] = defaultdict(list)
        self.home: dict[str, str] = {}
        self.sequence: dict[str, int] = defaultdict(int)
        self.now_us = 0
        for name in self.brokers:
            self.do(name, Started())
        for a, b in edges:
            self.flying[a, b], self.flying[b, a] = [], []
            self.connect(a, b)

    def listed(self, broker: str) -> list[str]:
        """The neighbours that a broker lists when it starts."""
        return self.neighbours[broker]

    def first(self, broker: str) -> Broker:
        """A broker that never ran before."""
        return Broker(broker, self.listed(broker), self.configs[broker])

    def connect(self, a: str, b: str) -> None:
        """Bring the link between two brokers up."""
        hello_a, hello_b = self.brokers[a].hello(b), self.brokers[b].hello(a)
        self.do(a, LinkUp(b, hello_b))
        self.do(b, LinkUp(a, hello_a))

    def disconnect(self, a: str, b: str) -> None:
        """Take the link between two brokers down; the frames on it are lost."""
        for here, there in ((a, b), (b, a)):
            self.flying[here, there].clear()
            self.do(here, LinkDown(there))

    def restart(self, broker: str, stored: bool, down: Sequence[tuple[str, str]] = ()) -> None:
        """Restart a broker with its state (`stored`) or without; the links in `down` stay down."""
        old, config, neighbours = (
            self.brokers[broker], self.configs[broker], self.neighbours[broker],
        )  # fmt: skip
        state = old.snapshot()
        up = [n for n in neighbours if (broker, n) not in down and (n, broker) not in down]
        for neighbour in up:
            self.disconnect(broker, neighbour)
        if stored:
            self.brokers[broker] = Broker.restore(state, config)
        else:
            incarnation = old.incarnation + 1
            self.brokers[broker] = Broker(broker, neighbours, config, incarnation)
        self.timers = {key: at_us for key, at_us in self.timers.items() if key[0] != broker}
        self.do(broker, Started())
        for neighbour in up:
            self.connect(broker, neighbour)

    def do(self, broker: str, event: object) -> None:
        """Let a broker handle an input, and perform its actions."""
        for action in self.brokers[broker].handle(self.now_us, event):
            self.perform(broker, action)

    def perform(self, broker: str, action: object) -> None:
        """Put a frame on its link, keep replies for their client, set or cancel a timer."""
        if isinstance(action, Send):
            self.flying[broker, action.link].append(action.frame)
        elif isinstance(action, SendReply):
            self.told[action.client].extend(action.replies)
        elif isinstance(action, CloseLink):
            self.closed(broker, action)
        elif isinstance(action, SetTimer):
            self.timers[broker, action.timer] = action.at_us
        elif isinstance(action, CancelTimer):
            self.timers.pop((broker, action.timer), None)

    def closed(self, broker: str, action: CloseLink) -> None:
        """A broker closes a link, which no test expects unless it says so."""
        raise AssertionError(f"{broker}: {action}")

    def step(self, way: tuple[str, str], overtake: bool = False) -> None:
        """Deliver the next frame in one direction of a link, or the next control frame
        (`overtake`)."""
        queue = self.flying[way]
        if not queue:
            return
        at = 0
        if overtake:
            at = next((i for i, f in enumerate(queue) if not is_data(f)), 0)
        sender, receiver = way
        self.do(receiver, FrameReceived(sender, queue.pop(at)))

    def settle(self) -> None:
        """Deliver frames until none is under way."""
        while any(self.flying.values()):
            for way in sorted(self.flying):
                self.step(way)

    # --- clients -------------------------------------------------------------------------------

    def fire(self, broker: str, timer: object) -> None:
        """Let a timer of a broker fire; time goes on to when it is due."""
        self.now_us = max(self.now_us, self.timers.pop((broker, timer)))
        self.do(broker, TimerFired(timer))

    def attach(
        self,
        client: str,
        broker: str,
        incarnation: int = 1,
        ttl_us: int = 0,
        received: int = 0,
        resumes: bool = False,
    ) -> None:
        self.home[client] = broker
        self.do(broker, ClientAttached(client, incarnation, ttl_us, received, resumes))

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
        """The replies of one type that a client was sent, in order."""
        return [r for r in self.told[client] if isinstance(r, kind)]

    def confirmed(self, client: str) -> int:
        """The last sequence that was confirmed to a client."""
        told = self.got(client, PublicationsConfirmed)
        return told[-1].sequence if told else 0

    def entries(self, broker: str) -> list[tuple[str, str]]:
        """The subscriptions that a broker holds, as sorted pairs of client and name."""
        return sorted((e.id.client, e.id.name) for e in self.brokers[broker].subscriptions)


def is_data(frame: object) -> bool:
    return isinstance(frame, Batch) and frame.lane is Lane.DATA
