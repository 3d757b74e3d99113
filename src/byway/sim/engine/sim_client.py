"""Clients of a simulated world: what they ask of their broker, and how they come back.

A client does what the client library of the product does: it keeps publications until they are
confirmed, resumes its session if its broker kept it, and else starts anew under a higher
incarnation, with its advertisements and subscriptions. It reports to an observer what it asked for
and what it was answered. What it is owed is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from byway.core.inputs import ClientAttached, ClientDetached
from byway.model import Filter, conforms, parse
from byway.model.messages import (
    Attached,
    Body,
    DeliveriesReceived,
    Delivery,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
    Refused,
    Reply,
    Request,
    Settled,
)
from byway.sim.engine.client_outbox import ClientOutbox, Item, Leaving, QueuedPublication
from byway.sim.engine.client_registrations import (
    AdvertisementState,
    ClientRegistrations,
    is_announced,
)
from byway.sim.engine.nodes import Node
from byway.sim.engine.observer import Observer
from byway.sim.engine.sim_clock import Clock

RECEIPT_EVERY: Final = 64
RECEIPT_DELAY_US: Final = 50_000
"""A client with a session sends a receipt after so many deliveries, or so long after one."""

_encode = msgspec.msgpack.Encoder().encode


class SimClient:
    """One client of a world, made by `World.client`."""

    def __init__(
        self, name: str, home: Node, session_ttl_us: int, clock: Clock, observer: Observer
    ) -> None:
        self.name = name
        self.home = home
        self.session_ttl_us = session_ttl_us
        self.incarnation = 1
        self.attached = False
        self.online = True
        """Whether the client wants to be attached."""
        self.has_left = False
        """Whether the client leaves, or has left, for good."""
        self.has_session = False
        """Whether its broker keeps its session, as far as the client can know."""
        self.received = 0
        """The number of the last delivery of its session."""
        self.deliveries = 0
        """Publications that its application was given."""
        self.refusals: deque[Refused] = deque(maxlen=16)
        """The last requests that changed nothing."""
        self._clock = clock
        self._observer = observer
        self._observed = observer.client_joined(self)
        self.registrations = ClientRegistrations(name, self._observed)
        self._outbox = ClientOutbox(name, home)
        self._admitting: dict[int, list[AdvertisementState]] = {}
        """By publication that is being handled, the advertisements in force."""
        self._read = 0
        """The last sequence that the broker has read."""
        self._receipted = 0
        self._receipt_due = False
        self._absences = 0
        self._state_lost = False
        """Whether its broker came back without its state, which the client does not know yet."""
        self._replies: dict[type, Callable[[Any], None]] = {
            Attached: self._on_attached,
            Settled: lambda reply: self.registrations.settled(reply.name),
            Refused: self._on_refused,
            PublicationsAccepted: self._on_accepted,
            PublicationsConfirmed: self._on_confirmed,
        }

    def __repr__(self) -> str:
        state = "attached" if self.attached else "away"
        return (
            f"<SimClient {self.name} of {self.home.name}, {state}: "
            f"{len(self.registrations.subscriptions)} subscriptions, "
            f"{len(self.registrations.advertisements)} advertisements>"
        )

    @property
    def home_name(self) -> str:
        """The name of its home broker."""
        return self.home.name

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The names of the subscriptions that the client wants, oldest first."""
        return tuple(self.registrations.subscriptions)

    @property
    def advertisements(self) -> tuple[str, ...]:
        """The names of the advertisements that the client wants, oldest first."""
        return tuple(self.registrations.advertisements)

    @property
    def unconfirmed(self) -> int:
        """The number of publications that were sent and are not confirmed."""
        return len(self._outbox.unconfirmed)

    @property
    def is_idle(self) -> bool:
        """Whether the client has no request left that it could send."""
        return not (self.attached and self._outbox)

    # --- what a client does --------------------------------------------------------------------
    # After `leave` none of it can be done any more: a `ValueError` says so.

    def advertise(self, what: str | Filter, name: str | None = None) -> str:
        """Announce what the client will publish. Returns the advertisement's name."""
        self._check_not_left()
        request = self.registrations.advertise(_filter(what), name)
        self._request(request)
        return request.name

    def unadvertise(self, name: str) -> None:
        """Withdraw an advertisement."""
        self._check_not_left()
        self._request(self.registrations.unadvertise(name))

    def subscribe(self, what: str | Filter, name: str | None = None) -> str:
        """Ask for what matches; a name in use gets the new filter. Returns the subscription's
        name."""
        self._check_not_left()
        request = self.registrations.subscribe(_filter(what), name)
        self._request(request)
        return request.name

    def unsubscribe(self, *names: str) -> None:
        """Withdraw subscriptions."""
        self._check_not_left()
        self._request(self.registrations.unsubscribe(names))

    def publish(self, attributes: Mapping[str, Any], data: bytes = b"") -> None:
        """Publish attributes, with data that no broker looks at."""
        self.publish_body(_encode(Body(dict(attributes), data)), attributes)

    def publish_body(self, body: bytes, attributes: Mapping[str, Any]) -> None:
        """Publish a body that is encoded already; `attributes` are those in it."""
        self._check_not_left()
        self._request(QueuedPublication(body, attributes))

    def vanish(self) -> None:
        """The connection breaks, and the client does not come back by itself."""
        self.online = False
        if self.attached:
            del self.home.clients[self.name]
            self.cut_off(self.home.take_unread(self.name).get(self.name, []))
            self._expect_end(self.session_ttl_us)
            self.home.handle_now(ClientDetached(self.name))

    def come_back(self) -> None:
        """Attach again, as soon as the home broker is there."""
        self._check_not_left()
        self.online = True
        self.attach()

    def leave(self) -> None:
        """Leave for good, after all earlier requests."""
        self._check_not_left()
        self.has_left = True
        self.registrations.withdraw_all()
        self._request(Leaving())

    def _check_not_left(self) -> None:
        if self.has_left:
            raise ValueError(f"client {self.name} has left")

    # --- requests ------------------------------------------------------------------------------

    def _request(self, item: Item) -> None:
        self._outbox.put(item)
        self._flush()

    def _flush(self) -> None:
        if self.attached and self.has_session:
            self._outbox.flush()

    def request_read(self, request: Any) -> None:
        """The broker has read a request and is about to handle it."""
        if type(request) is PublishRequest:
            attributes = self._outbox.unconfirmed[request.sequence]
            self._read = request.sequence
            own = self._admitting[request.sequence] = self.registrations.advertisements_in_force
            self._observed.publication_read(
                self.incarnation,
                request.sequence,
                attributes,
                is_certain=is_announced(attributes, own, checked=self.home.config.conformance),
            )
        elif type(request) is not DeliveriesReceived:
            self.registrations.read(request)

    def request_handled(self, request: Any) -> None:
        """The broker has handled a request, and all replies to it are in."""
        if type(request) is PublishRequest:
            del self._admitting[request.sequence]
        elif type(request) is not DeliveriesReceived:
            self.registrations.handled()

    # --- replies -------------------------------------------------------------------------------

    def receive(self, replies: Sequence[Reply]) -> None:
        """Replies and deliveries arrive from the broker."""
        observed = self._observed
        for reply in replies:
            if type(reply) is Delivery:
                self.received = reply.number
                self.deliveries += observed.delivered(reply)
            else:
                self._replies[type(reply)](reply)
        if self.session_ttl_us and not self.has_left and self.received != self._receipted:
            self._plan_receipt()

    def _on_refused(self, reply: Refused) -> None:
        self.refusals.append(reply)
        sequence = int(reply.subject) if reply.subject.isdecimal() else 0
        own = self._admitting.get(sequence)
        if own is None or reply.subject in self.registrations.in_force:
            return
        self._observed.publication_refused(sequence)
        attributes = self._outbox.unconfirmed[sequence]
        if any(conforms(attributes, entry.filter) for entry in own):
            self._observer.violated(
                "refusals",
                f"{self.home.name} refused publication {sequence} of {self.name}, which conforms "
                f"to an advertisement ({reply.reason}; at {self._clock.now_us} us)",
            )

    def _on_accepted(self, reply: PublicationsAccepted) -> None:
        if reply.sequence != self._read:
            self._session_fault(f"accepted {reply.sequence} of {self.name}, not {self._read}")

    def _on_confirmed(self, reply: PublicationsConfirmed) -> None:
        self._observed.publications_confirmed(reply.sequence)
        self._outbox.confirm(reply.sequence)
        self._flush()

    def _plan_receipt(self) -> None:
        if self.received - self._receipted >= RECEIPT_EVERY:
            self._send_receipt()
        elif not self._receipt_due:
            self._receipt_due = True
            self._clock.at(self._clock.now_us + RECEIPT_DELAY_US, self._receipt_is_due)

    def _receipt_is_due(self, _: Any) -> None:
        self._receipt_due = False
        if self.attached and not self.has_left and self.received != self._receipted:
            self._send_receipt()

    def _send_receipt(self) -> None:
        self._receipted = self.received
        self.home.request(self.name, DeliveriesReceived(self.received))

    # --- coming and going ----------------------------------------------------------------------

    def attach(self) -> None:
        """Connect to the home broker, if the client is online and the broker up."""
        if self.attached or not self.online or self.home.broker is None:
            return
        if not self.has_session and self._absences:
            self._start_anew()
        self._connect()

    def _connect(self) -> None:
        self.attached = True
        resumes = self._absences > 0
        self._absences += 1
        self._receipted = self.received
        self.home.clients[self.name] = self
        self.home.handle_now(
            ClientAttached(self.name, self.incarnation, self.session_ttl_us, self.received, resumes)
        )

    def _on_attached(self, reply: Attached) -> None:
        if self.has_session and reply.resumed == self._state_lost:
            what = "kept a session that was lost" if reply.resumed else "forgot the session"
            self._session_fault(f"{what} of {self.name}")
        if self.has_session and not reply.resumed:
            self._clock.at(self._clock.now_us, self._attach_anew)
            self.has_session = False
            return
        if reply.resumed:
            if reply.published != self._read:
                self._session_fault(
                    f"has {reply.published} publications of {self.name} instead of {self._read}"
                )
            self.received += reply.lost
            self._observed.session_resumed(reply.lost)
        self.has_session = True
        self._flush()

    def _session_fault(self, what: str) -> None:
        now_us = self._clock.now_us
        self._observer.violated("sessions", f"{self.home.name} {what} (at {now_us} us)")

    def _attach_anew(self, _: Any) -> None:
        """The broker does not know the client any more: attach under a higher incarnation."""
        if self.attached:
            self._start_anew()
            self._connect()

    def _start_anew(self) -> None:
        """Register all that the client wants again. What was read and not confirmed is not
        published again."""
        self._lose_session()
        self.incarnation += 1
        self.received = 0
        self._read = 0
        self._outbox.start_anew(self.registrations.register_again())

    def cut_off(self, unread: list[Request]) -> None:
        """The connection is gone before the broker read these requests: send them again later."""
        self.attached = False
        self._outbox.take_back(unread, goodbye=self.has_left)

    def home_restarted(self, *, stored: bool) -> None:
        """The home broker is up again, with what it knew of the client (`stored`) or without."""
        if not stored:
            self._state_lost = self.has_session
            self.registrations.lose()
            self._observed.home_lost_state()
        elif self.has_session:
            self._expect_end(max(self.session_ttl_us, self.home.config.restore_grace_us))

    def _expect_end(self, within_us: int) -> None:
        """The session ends after this time, unless the client is back by then."""
        self._absences += 1
        if within_us:
            end_us = self._clock.now_us + within_us
            self._clock.background_at(end_us, self._session_ends, self._absences)
        else:
            self._lose_session()

    def _session_ends(self, absence: int) -> None:
        if absence == self._absences and self.home.broker is not None:
            self._lose_session()

    def _lose_session(self) -> None:
        self.has_session = self._state_lost = False
        self.registrations.lose()
        self._observed.session_lost()

    def gone(self) -> None:
        """The home broker has ended the session for good."""
        self.attached = self.online = False
        self._lose_session()


def _filter(what: str | Filter) -> Filter:
    return parse(what) if isinstance(what, str) else what
