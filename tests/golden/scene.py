"""A network that writes down everything that happens in it, as the text of a golden file."""

import textwrap
from collections import defaultdict

from byway.core.actions import CloseLink, Send
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientDetached,
    FrameReceived,
    LinkDown,
    NeighbourAdded,
    NeighbourRemoved,
    NeighbourReplaced,
    Started,
    TimerFired,
)
from byway.model.messages import Acknowledge, DeliveriesReceived, SelectiveAcknowledge
from tests.core_net import DEFAULT, Net
from tests.golden.words import action_line, duration, input_line

CHAIN = [("B1", "B2"), ("B2", "B3")]
STAR = [("B0", "B1"), ("B0", "B2"), ("B0", "B3")]
PAIR = [("B1", "B2")]
ACTIVE = BrokerConfig(covering="active")


class Scene(Net):
    """Brokers that have met in silence; from then on every input and every action is a line.

    Acknowledgements that confirm nothing new are left out, unless they are asked for: there is one
    for every frame, and nothing follows from them.
    """

    def __init__(
        self,
        edges: list[tuple[str, str]],
        config: BrokerConfig | dict[str, BrokerConfig] = DEFAULT,
        *,
        silent: bool = True,
        acknowledgements: bool = False,
    ) -> None:
        self.lines: list[str] = []
        self.acknowledgements = acknowledgements
        self.later: list[tuple[str, FrameReceived | LinkDown]] = []
        self.closed_at: set[tuple[str, str]] = set()
        self.confirmed_up_to: dict[tuple[str, str], int] = defaultdict(int)
        super().__init__(edges, config)
        self.settle()
        if silent:
            self.begins_here()

    # --- writing -------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def begins_here(self) -> None:
        """What happened so far only set the scene."""
        self.lines.clear()

    def says(self, text: str) -> None:
        """What happens next, for the reader."""
        self.lines += ["", *(f"# {line}" for line in textwrap.wrap(text, 98))]

    def sent(self, sender: str, receiver: str) -> list[str]:
        """Messages that one broker sent another, in words and in order."""
        start = f"  {sender} -> {receiver} "
        frames = [line[len(start) :].strip() for line in self.lines if line.startswith(start)]
        batches = [frame for frame in frames if not frame.startswith("acknowledge")]
        return [message for batch in batches for message in batch.partition(": ")[2].split("; ")]

    def do(self, broker: str, event: object) -> None:
        frame = event.frame if isinstance(event, FrameReceived) else None
        bare = self._is_bare(f"{broker} <- {getattr(event, 'link', '')}", frame)
        if not bare:
            self.lines.append(input_line(broker, event))
        before = len(self.lines)
        super().do(broker, event)
        assert not (bare and len(self.lines) > before), "something follows from what was left out"
        while self.later:
            receiver, late = self.later.pop(0)
            if (receiver, late.link) not in self.closed_at:
                self.do(receiver, late)

    def perform(self, broker: str, action: object) -> None:
        frame = action.frame if isinstance(action, Send) else None
        if not self._is_bare(f"{broker} -> {getattr(action, 'link', '')}", frame):
            self.lines.append(action_line(broker, action))
        super().perform(broker, action)

    def _is_bare(self, way: str, frame: object) -> bool:
        if not isinstance(frame, Acknowledge) or self.acknowledgements:
            return False
        selective = isinstance(frame, SelectiveAcknowledge)
        news = frame.confirmed > self.confirmed_up_to[way] or selective
        self.confirmed_up_to[way] = frame.confirmed
        return not news

    # --- time ----------------------------------------------------------------------------------

    def wait(self, time_us: int) -> None:
        """Time passes, and timers that are due fire."""
        end_us = self.now_us + time_us
        while due := sorted((at, who, t) for (who, t), at in self.timers.items() if at <= end_us):
            at_us, broker, timer = due[0]
            self._is_now(at_us)
            del self.timers[broker, timer]
            self.do(broker, TimerFired(timer))
            self.settle()
        self._is_now(end_us)

    def _is_now(self, now_us: int) -> None:
        if now_us != self.now_us:
            self.now_us = now_us
            self.lines.append(f"@ {duration(now_us)}")

    # --- brokers -------------------------------------------------------------------------------

    def connect(self, a: str, b: str) -> None:
        for way in (f"{x} {arrow} {y}" for x, y in ((a, b), (b, a)) for arrow in ("<-", "->")):
            self.confirmed_up_to.pop(way, None)
        self.closed_at -= {(a, b), (b, a)}
        super().connect(a, b)

    def dies(self, broker: str) -> bytes:
        """A broker is gone; its neighbours see it. What it had stored."""
        stored = self.brokers[broker].snapshot()
        for neighbour in self.neighbours[broker]:
            self._drop_connection(broker, neighbour)
            self.do(neighbour, LinkDown(broker))
        for key in [key for key in self.timers if key[0] == broker]:
            del self.timers[key]
        return stored

    def is_back(self, broker: str, stored: bytes | None = None) -> None:
        """It starts again, from what it had stored or without, and meets its neighbours."""
        config = self.configs[broker]
        if stored is None:
            incarnation = self.brokers[broker].incarnation + 1
            neighbours = self.neighbours[broker]
            self.brokers[broker] = Broker(broker, neighbours, config, incarnation)
        else:
            self.brokers[broker] = Broker.restore(stored, config)
        self.do(broker, Started())
        for neighbour in self.neighbours[broker]:
            self.connect(broker, neighbour)

    def is_new(self, broker: str, neighbour: str) -> None:
        """A new broker starts that has a neighbour from the beginning."""
        self.neighbours[broker], self.configs[broker] = [neighbour], DEFAULT
        self.brokers[broker] = Broker(broker, [neighbour])
        self.do(broker, Started())

    def joins(self, broker: str, neighbour: str) -> None:
        """Each of two brokers is told that the other is its neighbour, and they meet."""
        self.flying[broker, neighbour], self.flying[neighbour, broker] = [], []
        for here, there in ((broker, neighbour), (neighbour, broker)):
            if there not in self.neighbours[here]:
                self.neighbours[here].append(there)
                self.do(here, NeighbourAdded(there))
        self.connect(neighbour, broker)

    def removes(self, broker: str, neighbour: str) -> None:
        """An operator tells one of two neighbours that the other is none any more."""
        self.neighbours[broker].remove(neighbour)
        self.neighbours[neighbour].remove(broker)
        self.do(broker, NeighbourRemoved(neighbour))

    def replaces(self, broker: str, old: str, new: str) -> None:
        """An operator has another broker take the place of a neighbour that has died."""
        names = self.neighbours[broker]
        names[names.index(old)] = new
        self.closed_at.add((old, broker))
        self.flying[broker, new], self.flying[new, broker] = [], []
        self.do(broker, NeighbourReplaced(old, new))

    def closed(self, broker: str, action: CloseLink) -> None:
        """What was sent before still arrives, then the other end sees that the connection is gone,
        unless it has closed it too."""
        self.closed_at.add((broker, action.link))
        if (action.link, broker) not in self.closed_at:
            last = [FrameReceived(broker, frame) for frame in self.flying[broker, action.link]]
            self.later += [(action.link, event) for event in (*last, LinkDown(broker))]
        self._drop_connection(broker, action.link)

    def _drop_connection(self, a: str, b: str) -> None:
        self.flying[a, b].clear()
        self.flying[b, a].clear()

    # --- clients -------------------------------------------------------------------------------

    def says_goodbye(self, client: str) -> None:
        self.do(self.home.pop(client), ClientDetached(client, for_good=True))

    def has(self, client: str, number: int) -> None:
        self.ask(client, DeliveriesReceived(number))
