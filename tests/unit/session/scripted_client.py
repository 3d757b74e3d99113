"""A client's core driven by hand: a clock, the timers that run, and words for common inputs."""

from collections.abc import Callable

from byway.model import parse
from byway.model.messages import (
    AnyFrame,
    Attached,
    Delivery,
    Preamble,
    Publish,
    Replies,
    Reply,
    Request,
    Requests,
)
from byway.session.client_actions import (
    ClientAction,
    ClientTimer,
    Dial,
    FrameKind,
    StartTimer,
    StopTimer,
    TellClosed,
    WriteFrame,
)
from byway.session.client_core import ClientCore
from byway.session.client_inputs import (
    ClientInput,
    ClientOpened,
    ClientTimerFired,
    ConnectionLost,
    FrameArrived,
    Greeted,
    PublicationMade,
)
from byway.session.client_options import BrokerUrl, ClientOptions, WhenFull
from byway.session.event_queue import EventQueue
from byway.session.outgoing_publications import OutgoingPublication, encode_body
from byway.session.registrations import Registration

B1, B2, B3 = (BrokerUrl.parse(name) for name in ("b1", "b2", "b3"))
INCARNATION = 7
START_US = 1_000
"""When a scripted client is opened; also the first higher incarnation that it would take."""
TIMEOUT_US = 5_000_000
INTERRUPTED = [
    StopTimer(timer)
    for timer in (ClientTimer.BEGIN, ClientTimer.FLUSH, ClientTimer.RECEIPT, ClientTimer.SETTLE)
]
"""What is stopped when a connection is lost."""
ENDED = [StopTimer(ClientTimer.ATTEMPT), StopTimer(ClientTimer.RETRY)]
"""What is stopped when no connection will follow."""


class ScriptedClient:
    """A core and its driver: it performs nothing but timers, and fails if one is misused."""

    def __init__(
        self, *urls: BrokerUrl, jitter: Callable[[], float] = lambda: 1.0, **options: object
    ) -> None:
        self.options = ClientOptions(urls=urls or (B1,), name="c", **options)  # type: ignore[arg-type]
        self.core = ClientCore(self.options, INCARNATION, jitter)
        self.now_us = START_US
        self.timers: dict[ClientTimer, int] = {}
        self.dialled = 0
        """Number of the connection that was dialled last."""

    def do(self, event: ClientInput) -> list[ClientAction]:
        actions = self.core.handle(self.now_us, event)
        for action in actions:
            if isinstance(action, StartTimer):
                assert action.at_us >= self.now_us
                self.timers[action.timer] = action.at_us
            elif isinstance(action, StopTimer):
                self.timers.pop(action.timer, None)
            elif isinstance(action, TellClosed):
                assert not self.timers
            elif isinstance(action, Dial):
                self.dialled = action.connection
        return actions

    def fire(self, timer: ClientTimer) -> list[ClientAction]:
        """Let the time of a timer that runs come."""
        self.now_us = max(self.now_us, self.timers.pop(timer))
        return self.do(ClientTimerFired(timer))

    # --- the connection that was dialled last -----------------------------------------------------

    def open(self) -> list[ClientAction]:
        return self.do(ClientOpened())

    def greet(self, broker: str = "B1", role: str = "broker") -> list[ClientAction]:
        return self.do(Greeted(self.dialled, preamble(broker, role)))

    def frame(self, frame: AnyFrame) -> list[ClientAction]:
        return self.do(FrameArrived(self.dialled, frame))

    def reply(self, *replies: Reply) -> list[ClientAction]:
        return self.frame(Replies(replies))

    def lose(self, reason: str = "gone") -> list[ClientAction]:
        return self.do(ConnectionLost(self.dialled, reason))

    # --- several inputs ---------------------------------------------------------------------------

    def attach(
        self, resumed: bool = False, published: int = 0, lost: int = 0, broker: str = "B1"
    ) -> list[ClientAction]:
        """Open the client if it is new, and let the broker attach it; what follows from that."""
        if self.core.state == "new":
            self.open()
        self.greet(broker)
        return self.reply(Attached(resumed, published, lost))

    def lose_and_redial(self) -> None:
        self.lose()
        self.fire(ClientTimer.RETRY)

    def start_new_session(self) -> list[ClientAction]:
        """Lose the connection and the session; what follows from the new session."""
        self.lose_and_redial()
        self.attach(resumed=False)
        return self.attach(resumed=False)

    def publish(self, *bodies: bytes) -> list[ClientAction]:
        return [
            action
            for body in bodies
            for action in self.do(PublicationMade(OutgoingPublication(body)))
        ]


def preamble(name: str = "B1", role: str = "broker", keepalive_ms: int = 5_000) -> Preamble:
    return Preamble(1, role, name, 1, 4_194_304, keepalive_ms)


def subscription(
    name: str,
    *filters: str,
    messages: int = 100,
    size: int = 100_000,
    when_full: WhenFull = "block",
) -> Registration:
    parsed = [parse(filter) for filter in filters or ("x > 0",)]
    return Registration(name, parsed, EventQueue(messages, size, when_full))


def advertisement(name: str, *filters: str) -> Registration:
    return Registration(name, [parse(filter) for filter in filters or ("x > 0",)])


def delivery(number: int, *names: str, sequence: int | None = None, data: bytes = b"") -> Delivery:
    body = encode_body({"x": number}, data)
    return Delivery(number, Publish("p", 7, sequence or number, 5, 2, 0, 0, body), names)


def control(*requests: Request) -> WriteFrame:
    """Requests that overtake publications."""
    return WriteFrame(Requests(requests), FrameKind.LARGE)


def data(*requests: Request) -> WriteFrame:
    """Requests in order."""
    return WriteFrame(Requests(requests), FrameKind.DATA)


def soon(client: ScriptedClient, timer: ClientTimer = ClientTimer.FLUSH) -> StartTimer:
    """The timer is started for the present time."""
    return StartTimer(timer, client.now_us)
