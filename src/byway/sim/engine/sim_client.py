"""Clients of a simulated world: what they say to their broker, and how they come back.

A client does what the client library of the product does: it keeps publications until they are
confirmed, goes on with its session if its broker kept it, and else starts anew under a higher
incarnation, with its advertisements and subscriptions. It judges nothing; it tells the account what
it said and what it was told.
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
from byway.sim.engine.client_outbox import ClientOutbox, Item, Leaving, Unsaid
from byway.sim.engine.client_registrations import (
    AdvertisementState,
    ClientRegistrations,
    is_announced,
)
from byway.sim.engine.clock import Clock
from byway.sim.engine.nodes import Node
from byway.sim.oracle.account import Account
from byway.sim.oracle.account_records import Identity, Record, SubscriptionRecord

RECEIPT_EVERY: Final = 64
RECEIPT_DELAY_US: Final = 50_000
"""A client with a session says what it got after so many deliveries, or so long after one."""

_encode = msgspec.msgpack.Encoder().encode


class SimClient:
    """One client. Made by `World.client`."""

    def __init__(
        self, name: str, home: Node, session_ttl_us: int, clock: Clock, account: Account
    ) -> None:
        self.name = name
        self.home = home
        self.session_ttl_us = session_ttl_us
        self.incarnation = 1
        self.attached = False
        self.here = True
        """Whether it wants to be attached."""
        self.has_left = False
        """Whether it goes, or went, for good."""
        self.has_session = False
        """Whether its broker keeps what it holds, as far as the client can know."""
        self.deliveries = 0
        self.refusals: deque[Refused] = deque(maxlen=16)
        """The last requests that changed nothing."""
        # what the account keeps here
        self.received = 0
        self.last: dict[str, int] = {}
        self.held: dict[int, SubscriptionRecord] = {}
        self.owed: dict[Identity, Record] = {}
        self.forgiven = 0

        self.holdings = ClientRegistrations(self, account)
        self._clock = clock
        self._account = account
        self._outbox = ClientOutbox(name, home)
        self._admitting: dict[int, list[AdvertisementState]] = {}
        """By publication that is being handled, the advertisements in force."""
        self._taken = 0
        """The last sequence that the broker has read."""
        self._receipted = 0
        self._receipt_due = False
        self._absences = 0
        self._state_lost = False
        """Its broker came back without its state, which the client does not know."""
        self._replies: dict[type, Callable[[Any], None]] = {
            Attached: self._on_attached,
            Settled: lambda reply: self.holdings.settled(reply.name),
            Refused: self._on_refused,
            PublicationsAccepted: self._on_accepted,
            PublicationsConfirmed: self._on_confirmed,
        }

    def __repr__(self) -> str:
        state = "attached" if self.attached else "away"
        return (
            f"<SimClient {self.name} of {self.home.name}, {state}: "
            f"{len(self.holdings.subscriptions)} subscriptions, "
            f"{len(self.holdings.advertisements)} advertisements>"
        )

    @property
    def home_name(self) -> str:
        """The name of its broker."""
        return self.home.name

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """Names of the subscriptions it wants, oldest first."""
        return tuple(self.holdings.subscriptions)

    @property
    def advertisements(self) -> tuple[str, ...]:
        """Names of the advertisements it wants, oldest first."""
        return tuple(self.holdings.advertisements)

    @property
    def unconfirmed(self) -> int:
        """Publications that were sent and are not confirmed."""
        return len(self._outbox.unconfirmed)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to say that can be said."""
        return not (self.attached and self._outbox)

    # --- what a client does --------------------------------------------------------------------
    # After `leave` none of it can be done any more: a `ValueError` says so.

    def advertise(self, what: str | Filter, name: str | None = None) -> str:
        """Announce what it will publish; the advertisement's name."""
        self._check_not_left()
        request = self.holdings.advertise(_filter(what), name)
        self._ask(request)
        return request.name

    def unadvertise(self, name: str) -> None:
        """Take an advertisement back."""
        self._check_not_left()
        self._ask(self.holdings.unadvertise(name))

    def subscribe(self, what: str | Filter, name: str | None = None) -> str:
        """Ask for what matches; a name in use gets the new filter. The subscription's name."""
        self._check_not_left()
        request = self.holdings.subscribe(_filter(what), name)
        self._ask(request)
        return request.name

    def unsubscribe(self, *names: str) -> None:
        """Take subscriptions back."""
        self._check_not_left()
        self._ask(self.holdings.unsubscribe(names))

    def publish(self, attributes: Mapping[str, Any], data: bytes = b"") -> None:
        """Publish attributes, with data that nobody looks at."""
        self.publish_body(_encode(Body(dict(attributes), data)), attributes)

    def publish_body(self, body: bytes, attributes: Mapping[str, Any]) -> None:
        """The same, when the body is encoded already; `attributes` are those in it."""
        self._check_not_left()
        self._ask(Unsaid(body, attributes))

    def vanish(self) -> None:
        """Its connection breaks, and it does not come back by itself."""
        self.here = False
        if self.attached:
            del self.home.clients[self.name]
            self.cut_off(self.home.unread(self.name).get(self.name, []))
            self._expect_end(self.session_ttl_us)
            self.home.at_once(ClientDetached(self.name))

    def come_back(self) -> None:
        """Attach again, when its broker is there."""
        self._check_not_left()
        self.here = True
        self.attach()

    def leave(self) -> None:
        """Go for good, after what it asked for before."""
        self._check_not_left()
        self.has_left = True
        self.holdings.drop_all()
        self._ask(Leaving())

    def _check_not_left(self) -> None:
        if self.has_left:
            raise ValueError(f"client {self.name} has left")

    # --- saying it -----------------------------------------------------------------------------

    def _ask(self, item: Item) -> None:
        self._outbox.put(item)
        self._say()

    def _say(self) -> None:
        if self.attached and self.has_session:
            self._outbox.say()

    def taken(self, request: Any) -> None:
        """Its broker is about to handle a request."""
        if type(request) is PublishRequest:
            attributes = self._outbox.unconfirmed[request.sequence]
            self._taken = request.sequence
            own = self._admitting[request.sequence] = self.holdings.advertisements_in_force
            self._account.accept(
                (self.name, self.incarnation, request.sequence),
                attributes,
                is_certain=is_announced(attributes, own, checked=self.home.config.conformance),
            )
        elif type(request) is not DeliveriesReceived:
            self.holdings.taken(request)

    def handled(self, request: Any) -> None:
        """Its broker has handled a request, and all that follows has been told."""
        if type(request) is PublishRequest:
            del self._admitting[request.sequence]
        elif type(request) is not DeliveriesReceived:
            self.holdings.handled()

    # --- what the broker tells -----------------------------------------------------------------

    def told(self, replies: Sequence[Reply]) -> None:
        """Its broker tells it something."""
        account = self._account
        for reply in replies:
            if type(reply) is Delivery:
                self.deliveries += account.delivered(self, reply)
            else:
                self._replies[type(reply)](reply)
        if self.session_ttl_us and not self.has_left and self.received != self._receipted:
            self._plan_receipt()

    def _on_refused(self, reply: Refused) -> None:
        self.refusals.append(reply)
        sequence = int(reply.subject) if reply.subject.isdecimal() else 0
        own = self._admitting.get(sequence)
        if own is None or reply.subject in self.holdings.in_force:
            return
        self._account.refused(self.name, sequence)
        attributes = self._outbox.unconfirmed[sequence]
        if any(conforms(attributes, entry.filter) for entry in own):
            self._account.violations.add(
                "refusals",
                f"{self.home.name} refused publication {sequence} of {self.name}, which conforms "
                f"to an advertisement ({reply.reason}; at {self._clock.now_us} us)",
            )

    def _on_accepted(self, reply: PublicationsAccepted) -> None:
        if reply.sequence != self._taken:
            self._session_fault(f"accepted {reply.sequence} of {self.name}, not {self._taken}")

    def _on_confirmed(self, reply: PublicationsConfirmed) -> None:
        self._account.confirmed(self.name, reply.sequence)
        self._outbox.confirm(reply.sequence)
        self._say()

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
        """Connect to its broker, if it wants to and can."""
        if self.attached or not self.here or self.home.broker is None:
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
        self.home.at_once(
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
            if reply.published != self._taken:
                self._session_fault(
                    f"has {reply.published} publications of {self.name} instead of {self._taken}"
                )
            self._account.returned(self, reply.lost)
        self.has_session = True
        self._say()

    def _session_fault(self, what: str) -> None:
        now_us = self._clock.now_us
        self._account.violations.add("sessions", f"{self.home.name} {what} (at {now_us} us)")

    def _attach_anew(self, _: Any) -> None:
        """Its broker does not know it any more: a higher incarnation takes over."""
        if self.attached:
            self._start_anew()
            self._connect()

    def _start_anew(self) -> None:
        """Ask again for all it wants; what was read and not confirmed is left to its fate."""
        self._lose_session()
        self.incarnation += 1
        self.received = 0
        self._taken = 0
        self._outbox.start_anew(self.holdings.ask_again())

    def cut_off(self, unread: list[Request]) -> None:
        """Its connection is gone; so much of what it said was not read, and is said again."""
        self.attached = False
        self._outbox.take_back(unread, goodbye=self.has_left)

    def home_restarted(self, *, stored: bool) -> None:
        """Its broker is there again, with or without what it knew of the client."""
        if not stored:
            self._state_lost = self.has_session
            self.holdings.lose()
            self._account.publisher_lost(self.name)
        elif self.has_session:
            self._expect_end(max(self.session_ttl_us, self.home.config.restore_grace_us))

    def _expect_end(self, within_us: int) -> None:
        """Its session ends after this time, unless it is back by then."""
        self._absences += 1
        if within_us:
            end_us = self._clock.now_us + within_us
            self._clock.aside_at(end_us, self._session_ends, self._absences)
        else:
            self._lose_session()

    def _session_ends(self, absence: int) -> None:
        if absence == self._absences and self.home.broker is not None:
            self._lose_session()

    def _lose_session(self) -> None:
        self.has_session = self._state_lost = False
        self.holdings.lose()
        self._account.publisher_begins_anew(self.name)

    def gone(self) -> None:
        """Its broker has let it go for good."""
        self.attached = self.here = False
        self._lose_session()


def _filter(what: str | Filter) -> Filter:
    return parse(what) if isinstance(what, str) else what
