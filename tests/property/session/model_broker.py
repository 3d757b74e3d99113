"""A broker as a client sees it, small enough to be right by reading, and wires that break.

It keeps a session or loses it, answers now or later, and fails if a client breaks a promise: a
publication twice or out of order in a session, a name used again, a receipt of what was never sent.
"""

from collections import deque
from collections.abc import Sequence

from byway.model import Filter
from byway.model.messages import (
    AdvertiseRequest,
    AnyFrame,
    Attached,
    ClientHello,
    DeliveriesReceived,
    Delivery,
    Goodbye,
    HoldDeliveries,
    Preamble,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
    Refused,
    Replies,
    Reply,
    Request,
    Requests,
    Settled,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
)
from byway.session.client_actions import FrameKind

KEPT_MAX = 6
"""Deliveries that a session keeps; beyond, the oldest is lost."""


class Wire:
    """One connection: frames under way in both directions. Data waits while it is blocked, and what
    is not data overtakes it then."""

    def __init__(self, number: int, url: str, incarnation: int) -> None:
        self.number = number
        self.url = url
        self.incarnation = incarnation
        self.is_greeted = False
        self.to_broker: deque[AnyFrame] = deque()
        self.to_client: deque[AnyFrame] = deque()
        self.is_blocked = False
        self.is_held = False
        self._waiting: list[AnyFrame] = []
        self._held: list[AnyFrame] = []

    def write(self, frame: AnyFrame, kind: FrameKind) -> None:
        if kind is FrameKind.DATA and self.is_blocked:
            self._waiting.append(frame)
        else:
            self.to_broker.append(frame)

    def block(self, is_blocked: bool) -> None:
        self.is_blocked = is_blocked
        if not is_blocked:
            self.to_broker += self._waiting
            self._waiting.clear()

    def reply(self, replies: Sequence[Reply]) -> None:
        if replies:
            is_data = type(replies[0]) is Delivery
            (self._held if is_data and self.is_held else self.to_client).append(
                Replies(tuple(replies))
            )

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held
        if not is_held:
            self.to_client += self._held
            self._held.clear()


class BrokerSession:
    """What a broker knows of a client's session."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.published: list[bytes] = []
        self.confirmed = 0
        self.in_force: dict[str, Filter] = {}
        """By wire name, what the client has registered."""
        self.subscribed: dict[str, None] = {}
        self.settled: set[str] = set()
        self.names_used: set[str] = set()
        self.delivered = 0
        self.last_sent = 0
        """Number of the last delivery that was not lost before it was sent."""
        self.kept: deque[Delivery] = deque()

    @property
    def is_blank(self) -> bool:
        """Whether the client has never asked for anything: it may not know of the session, which is
        not resumed then. The broker of `core` resumes it."""
        return not self.published and not self.names_used

    @property
    def first_kept(self) -> int:
        return self.kept[0].number if self.kept else self.delivered + 1


class ModelBroker:
    """One broker and its only client."""

    def __init__(self, name: str) -> None:
        self.preamble = Preamble(1, "broker", name, 1, 4_194_304, 5_000)
        self.session: BrokerSession | None = None
        self.wire: Wire | None = None
        """The connection that the client is attached by, as far as the broker knows."""
        self.is_keeping = False
        """Whether the client asked for its session to be kept."""
        self.confirmed_bodies: set[bytes] = set()

    # --- frames in --------------------------------------------------------------------------------

    def take(self, wire: Wire, frame: AnyFrame) -> None:
        if isinstance(frame, ClientHello):
            self._attach(wire, frame)
            return
        assert wire is self.wire, "a frame before the client was attached"
        if isinstance(frame, Requests):
            assert frame.requests, "an empty frame"
            wire.reply([reply for request in frame.requests for reply in self._answer(request)])
        elif isinstance(frame, HoldDeliveries):
            assert frame.hold != wire.is_held, "it was asked before"
            wire.hold(frame.hold)
        else:
            assert isinstance(frame, Goodbye), frame

    def would_attach(self, wire: Wire, frame: AnyFrame) -> bool:
        """Whether this frame of a connection that is gone attaches the client all the same."""
        session = self.session
        is_old = session is not None and wire.incarnation < session.incarnation
        return isinstance(frame, ClientHello) and self.wire is None and not is_old

    def _attach(self, wire: Wire, hello: ClientHello) -> None:
        session = self.session
        assert session is None or wire.incarnation >= session.incarnation, "it would be refused"
        self.wire = wire
        self.is_keeping = hello.session_ttl_us > 0
        wire.to_client.append(Welcome(1_000))
        if session is None or session.incarnation < wire.incarnation or session.is_blank:
            self.session = BrokerSession(wire.incarnation)
            wire.reply([*_left_of(session), Attached(False, 0)])
            return
        assert hello.received <= session.delivered
        lost = max(session.first_kept - 1 - hello.received, 0)
        replies = [*_left_of(session), Attached(True, len(session.published), lost)]
        replies += map(Settled, sorted(session.settled))
        if session.confirmed:
            replies.append(PublicationsConfirmed(session.confirmed))
        wire.reply(replies)
        self._acknowledge(session, hello.received)
        wire.reply(list(session.kept))
        if not self.is_keeping:
            session.kept.clear()

    def _answer(self, request: Request) -> list[Reply]:
        session = self.session
        assert session is not None
        if isinstance(request, PublishRequest):
            assert request.sequence == len(session.published) + 1, "not the next publication"
            session.published.append(request.body)
            return [PublicationsAccepted(request.sequence)]
        if isinstance(request, AdvertiseRequest | SubscribeRequest):
            assert request.name not in session.names_used, "a name was used again"
            session.names_used.add(request.name)
            session.in_force[request.name] = request.filter
            if isinstance(request, SubscribeRequest):
                session.subscribed[request.name] = None
            return []
        if isinstance(request, UnadvertiseRequest):
            return self._withdraw(session, request.name)
        if isinstance(request, UnsubscribeRequest):
            return [reply for name in request.names for reply in self._withdraw(session, name)]
        assert isinstance(request, DeliveriesReceived)
        assert request.number <= session.delivered, "a receipt of what was not sent"
        self._acknowledge(session, request.number)
        return []

    def _withdraw(self, session: BrokerSession, name: str) -> list[Reply]:
        if session.in_force.pop(name, None) is None:
            return [Refused(name, "nothing has this name")]
        session.subscribed.pop(name, None)
        session.settled.discard(name)
        return []

    def _acknowledge(self, session: BrokerSession, number: int) -> None:
        while session.kept and session.kept[0].number <= number:
            session.kept.popleft()

    # --- what the broker does by itself -----------------------------------------------------------

    def _reply(self, *replies: Reply) -> None:
        if self.wire is not None:
            self.wire.reply(replies)

    def settle_all(self) -> None:
        if self.session is not None:
            unsettled = sorted(self.session.in_force.keys() - self.session.settled)
            self.session.settled.update(unsettled)
            self._reply(*map(Settled, unsettled))

    def confirm(self, most: int) -> None:
        session = self.session
        if session is not None and session.confirmed < len(session.published):
            first = session.confirmed
            session.confirmed = min(first + most, len(session.published))
            self.confirmed_bodies.update(session.published[first : session.confirmed])
            self._reply(PublicationsConfirmed(session.confirmed))

    def send(self, delivery_of: Sequence[Delivery]) -> None:
        """Send deliveries, which are numbered here, and keep them."""
        session = self.session
        assert session is not None
        numbered = []
        for one in delivery_of:
            session.delivered += 1
            numbered.append(Delivery(session.delivered, one.publication, one.names))
        session.last_sent = session.delivered
        if self.is_keeping:
            session.kept += numbered
            while len(session.kept) > KEPT_MAX:
                session.kept.popleft()
        self._reply(*numbered)

    def skip(self) -> None:
        """Lose a delivery before it is sent."""
        assert self.session is not None
        self.session.delivered += 1

    def detach(self) -> None:
        """Notice that the connection is gone; a session that is not kept ends."""
        self.wire = None
        if not self.is_keeping:
            self.session = None

    def crash(self) -> None:
        """Lose the connection and everything known of the client."""
        self.wire = self.session = None


def _left_of(session: BrokerSession | None) -> list[Reply]:
    """Replies of before, which may be sent in one frame with the attachment."""
    if session is None:
        return []
    confirmed = [PublicationsConfirmed(session.confirmed)] if session.confirmed else []
    return [*map(Settled, sorted(session.settled)), *confirmed, *session.kept]
