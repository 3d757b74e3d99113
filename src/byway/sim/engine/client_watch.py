"""What a simulation knows of one client at one broker: what is in force there, which publications
were read, and whether a session is kept.

It reports to the observer of the world, and judges the answers of the broker by what the broker has
read when they are sent, and what the client knows when they arrive. The client's own core is not
asked: what it holds is under test as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from byway.core.session_deliveries import DELIVERY_BYTES
from byway.model import Filter, conforms
from byway.model.messages import (
    AdvertiseRequest,
    Attached,
    ClientHello,
    DeliveriesReceived,
    Delivery,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
    Refused,
    Reply,
    RoutesRequest,
    Settled,
    SubscribeRequest,
    UnadvertiseRequest,
    UnorderedAttached,
    UnsubscribeRequest,
)
from byway.sim.engine.observer import Observer
from byway.sim.engine.sim_clock import Clock

if TYPE_CHECKING:
    from byway.sim.engine.nodes import Node
    from byway.sim.engine.sim_client import SimClient

Holders = dict[tuple[str, str], "ClientWatch"]
"""By broker and name of a client, whose session the broker keeps; several clients may have the
name."""


class WatchedRegistration:
    """An advertisement or a subscription that a broker holds for its client."""

    __slots__ = ("filter", "is_settled", "name")

    def __init__(self, name: str, filter: Filter) -> None:
        self.name = name
        self.filter = filter
        self.is_settled = False
        """Whether the client was told that it is settled everywhere."""


class WatchedAdvertisement(WatchedRegistration):
    """An advertisement that a broker holds for its client."""

    __slots__ = ()


class WatchedSubscription(WatchedRegistration):
    """A subscription that a broker holds for its client."""

    __slots__ = ()


class ClientWatch:
    """One client as one broker knows it."""

    __slots__ = (
        "_absences", "_admitting", "_client", "_clock", "_ending", "_expires_us", "_hello",
        "_holders", "_known", "_known_incarnation", "_node", "_observer", "_read", "_refused",
        "_session", "_unwanted", "broker_name", "client_name", "given", "has_session",
        "in_force", "incarnation", "observed", "refusals",
    )  # fmt: skip

    def __init__(
        self, client: SimClient, node: Node, clock: Clock, observer: Observer, holders: Holders
    ) -> None:
        self.client_name = client.name
        self.broker_name = node.name
        self.in_force: dict[str, WatchedRegistration] = {}
        """By wire name, what the broker holds."""
        self.has_session = False
        """Whether the broker keeps a session of the client."""
        self.incarnation = 0
        """The incarnation that the broker knows."""
        self.refusals: deque[Refused] = deque(maxlen=16)
        """The last requests that changed nothing."""
        self.given = 0
        """Publications that the application must have been given."""
        self._client = client
        self._node = node
        self._clock = clock
        self._observer = observer
        self.observed = observer.client_joined(client, node.name)
        """Is told what happens between the client and the broker."""
        self._holders = holders
        self._unwanted: set[str] = set()
        """Wire names of subscriptions that the application has withdrawn, and that have not
        ended."""
        self._ending: deque[list[WatchedRegistration]] = deque()
        """By request that is being handled, the registrations that end with it."""
        self._admitting: dict[int, tuple[Mapping[str, Any], list[WatchedRegistration]]] = {}
        """By publication that is being handled, its attributes and the advertisements in force."""
        self._read = 0
        """The last sequence that the broker has read."""
        self._refused: set[int] = set()
        """Publications that the broker has refused, which the client does not know."""
        self._absences = 0
        self._expires_us = 0
        """When the session ends, unless the client comes back."""
        self._session = 0
        """Number of the session that the broker began last."""
        self._known = 0
        """Number of the session that the client has, as far as it knows; 0: none."""
        self._known_incarnation = 0
        self._hello = ClientHello()
        """What the client said when it attached last."""

    def __repr__(self) -> str:
        return (
            f"<ClientWatch of {self.client_name} at {self.broker_name}: session {self._session}, "
            f"kept: {self.has_session}>"
        )

    @property
    def advertisements(self) -> list[WatchedRegistration]:
        """The advertisements that the broker holds."""
        return [entry for entry in self.in_force.values() if type(entry) is WatchedAdvertisement]

    @property
    def subscriptions(self) -> list[WatchedRegistration]:
        """The subscriptions that the broker holds."""
        return [entry for entry in self.in_force.values() if type(entry) is WatchedSubscription]

    # --- requests --------------------------------------------------------------------------------

    def request_read(self, request: Any) -> None:
        """The broker has read a request and is about to handle it."""
        if type(request) is PublishRequest:
            self._on_publication(request)
        elif type(request) is not DeliveriesReceived and type(request) is not RoutesRequest:
            self._ending.append(self._put_in_force(request))

    def _on_publication(self, request: PublishRequest) -> None:
        sequence = request.sequence
        if sequence != self._read + 1:
            self._violated("protocol", f"sent publication {sequence} after {self._read}")
        self._read = sequence
        own = self.advertisements if request.body else []
        attributes = self._client.attributes_of(request)
        self._admitting[sequence] = attributes, own
        # nobody hears of a refusal if the broker ends meanwhile, or the client has left
        is_heard = not self._node.keeps_inputs and not self._client.has_left
        checked = self._node.config.conformance and is_heard
        is_certain = is_announced(attributes, own, checked=checked)
        self.observed.publication_read(
            self.incarnation, sequence, attributes, is_certain=is_certain
        )

    def _put_in_force(self, request: Any) -> list[WatchedRegistration]:
        """Change what is in force. Returns the registrations that end with a request."""
        in_force = self.in_force
        if isinstance(request, UnsubscribeRequest):
            return [in_force.pop(name) for name in request.names if name in in_force]
        if isinstance(request, UnadvertiseRequest):
            found = in_force.pop(request.name, None)
            return [] if found is None else [found]
        if request.name in in_force:
            self._violated("protocol", f"uses the name {request.name} twice")
        if isinstance(request, AdvertiseRequest):
            in_force[request.name] = WatchedAdvertisement(request.name, request.filter)
            return []
        assert isinstance(request, SubscribeRequest)
        subscription = WatchedSubscription(request.name, request.filter)
        in_force[request.name] = subscription
        self.observed.subscribed(subscription)
        if request.name in self._unwanted or self._client.has_left:
            self.observed.withdrawn(subscription)
        return []

    def request_handled(self, request: Any) -> None:
        """The broker has handled a request, and all replies to it are sent."""
        if type(request) is PublishRequest:
            self._admitting.pop(request.sequence, None)
        elif type(request) is not DeliveriesReceived and type(request) is not RoutesRequest:
            if isinstance(request, UnsubscribeRequest):
                self._unwanted.difference_update(request.names)
            elif isinstance(request, UnadvertiseRequest):
                self._unwanted.discard(request.name)
            for entry in self._ending.popleft() if self._ending else ():
                if type(entry) is WatchedSubscription:
                    self.observed.ended(entry)

    def withdraw(self, names: Sequence[str]) -> None:
        """The application no longer wants what goes by these wire names."""
        for name in names:
            self._unwanted.add(name)
            entry = self.in_force.get(name)
            if type(entry) is WatchedSubscription:
                self.observed.withdrawn(entry)

    # --- replies that are sent -------------------------------------------------------------------

    def replies_sent(self, replies: Sequence[Reply]) -> int:
        """The broker sends the client replies. Returns how many of them are deliveries."""
        if isinstance(replies[0], Attached) and replies[0].lost:
            self._check_lost(replies[0].lost, replies[1:])
        observed, deliveries = self.observed, 0
        for reply in replies:
            if type(reply) is Delivery:
                observed.delivery_sent(reply)
                deliveries += 1
            else:
                handler = self._on_sent.get(type(reply))
                if handler is not None:
                    handler(self, reply)
        return deliveries

    def _on_refused_sent(self, reply: Refused) -> None:
        self.refusals.append(reply)
        if not reply.subject.isdecimal():
            self.in_force.pop(reply.subject, None)
            return
        sequence = int(reply.subject)
        self._refused.add(sequence)
        self.observed.publication_refused(self.incarnation, sequence)
        attributes, own = self._admitting.get(sequence, ({}, ()))
        if any(conforms(attributes, entry.filter) for entry in own):
            self._violated(
                "refusals",
                f"was refused publication {sequence}, which conforms to an advertisement "
                f"({reply.reason})",
            )

    def _on_accepted_sent(self, reply: PublicationsAccepted) -> None:
        if reply.sequence != self._read:
            self._violated("sessions", f"was told of {reply.sequence}, read are {self._read}")

    def _on_confirmed_sent(self, reply: PublicationsConfirmed) -> None:
        self.observed.publications_confirmed(self.incarnation, reply.sequence)

    def _on_attached_sent(self, reply: Attached) -> None:
        is_resuming = self._is_resuming
        is_known = self.has_session and (self._known == self._session or not is_resuming)
        if reply.resumed:
            if not is_known:
                self._violated("sessions", "is in a session that was lost")
            if reply.published != self._read:
                words = f"is told of {reply.published} publications instead of {self._read}"
                self._violated("sessions", words)
            self.observed.session_resumed(self._hello.received, reply.lost)
            return
        if is_resuming and is_known and self._has_content:
            self._violated("sessions", "finds no session")
        if self.has_session:
            self.lose_session()
        self._begin_session()

    def _check_lost(self, lost: int, others: Sequence[Reply]) -> None:
        """A session loses deliveries only while it keeps all that it has room for, and the client
        is given that when it is back. One that ends with the connection has no room."""
        config = self._node.config
        kept = [len(reply.publication.body) for reply in others if type(reply) is Delivery]
        share_bytes = config.sessions_bytes_max // 2 // max(config.sessions_max, 1)
        has_room = len(kept) < config.session_messages_max and (
            sum(kept) + DELIVERY_BYTES * (len(kept) + 1) + max(kept, default=0)
            < min(share_bytes, config.session_bytes_max)
        )
        if has_room and self._hello.session_ttl_us:
            self._violated("sessions", f"lost {lost} deliveries though its session had room")

    def _begin_session(self) -> None:
        self._session += 1
        self.has_session = True
        self._read = 0
        self._holders[self.broker_name, self.client_name] = self
        self.observed.session_begun()

    # --- replies that arrive ---------------------------------------------------------------------

    def replies_arrived(self, replies: Sequence[Reply]) -> None:
        """The client gets replies of the broker."""
        observed = self.observed
        for reply in replies:
            if type(reply) is Delivery:
                if observed.delivered(reply):
                    self.given += 1
            else:
                handler = self._on_arrived.get(type(reply))
                if handler is not None:
                    handler(self, reply)

    def _on_settled(self, reply: Settled) -> None:
        entry = self.in_force.get(reply.name)
        if entry is not None:
            entry.is_settled = True
            if type(entry) is WatchedSubscription:
                self.observed.settled(entry)

    def _on_refused(self, reply: Refused) -> None:
        if reply.subject.isdecimal():
            self._refused.discard(int(reply.subject))

    def _on_confirmed(self, reply: PublicationsConfirmed) -> None:
        for sequence in sorted(self._refused):
            if sequence <= reply.sequence:
                words = f"is told that publication {sequence} is confirmed, which was refused"
                self._violated("refusals", words)
                self._refused.remove(sequence)

    def _on_attached(self, reply: Attached) -> None:
        if self._is_resuming and not reply.resumed:
            self._known = 0  # the client comes again under another incarnation
            return
        self.observed.attached(resumed=self._is_resuming, lost=reply.lost)
        if not self._is_resuming:
            self._unwanted.clear()  # the client asks for what it wants now
        self._known, self._known_incarnation = self._session, self.incarnation
        self._client.attached_to(self)

    # --- sessions --------------------------------------------------------------------------------

    @property
    def _is_resuming(self) -> bool:
        """Whether the client attaches to go on with the session that it has."""
        return bool(self._known) and self._known_incarnation == self.incarnation

    @property
    def _has_content(self) -> bool:
        """Whether something would be lost with the session."""
        return bool(self.in_force) or self._read > 0

    def on_attaching(self, incarnation: int, hello: ClientHello) -> None:
        """The client attaches, and says what it has."""
        holder = self._holders.get((self.broker_name, self.client_name))
        if holder is not None and holder is not self:
            holder.lose_session()  # of another client of this name
        if self.has_session:
            self.observed.connection_ended()  # if nobody has noticed
        if self.has_session and incarnation != self.incarnation:
            if self._known == self._session and self._has_content:
                self._violated("sessions", "gives up a session that is kept")
            self.lose_session()  # the broker ends the session of an earlier incarnation
        self.incarnation = incarnation
        self._hello = hello
        self._absences += 1
        if self._is_resuming and hello.received != self.observed.received:
            words = f"says it has {hello.received} deliveries, has {self.observed.received}"
            self._violated("protocol", words)

    def on_attached_unheard(self) -> None:
        """The broker has attached the client, and ended before it could say so."""
        if not self.has_session:
            self._begin_session()

    def on_detached(self, ttl_us: int) -> None:
        """The broker notices that the client is gone; it may come back within a time."""
        self._absences += 1
        if ttl_us:
            self.observed.connection_ended()
            self._expires_us = self._clock.now_us + ttl_us
            self._expire_at(self._expires_us + 1)  # before, the broker reads of it
        else:
            self.lose_session()

    def _expire_at(self, at_us: int) -> None:
        self._clock.background_at(at_us, self._on_session_expired, self._absences)

    def _on_session_expired(self, absence: int) -> None:
        """The time of the session is over, and the broker has read that, unless it is busy."""
        if absence != self._absences or self._node.broker is None:
            return
        if self._node.is_idle:
            self.lose_session()
        else:
            self._expire_at(self._clock.now_us + 1_000)

    def on_session_timer(self) -> None:
        """The broker reads that the time of the session is over."""
        if self._clock.now_us < self._expires_us:
            self._violated("sessions", f"had a session until {self._expires_us} us")
        self.lose_session()

    def on_restarted(self, *, stored: bool) -> None:
        """The broker is up again, with what it knew of the client (`stored`) or without."""
        if not stored:
            self._end_session()
            self.observed.state_lost()
        elif self.has_session:
            self.on_detached(max(self._client.session_ttl_us, self._node.config.restore_grace_us))

    def lose_session(self) -> None:
        """The broker has ended the session, or never kept it."""
        self._end_session()
        self.observed.session_ended(self.incarnation)

    def on_given_up(self) -> None:
        """The client is attached elsewhere, and will not resume the session that is here."""
        self._known = 0
        self.observed.given_up()

    def _end_session(self) -> None:
        if self.has_session:
            del self._holders[self.broker_name, self.client_name]
        self.has_session = False
        self._read = 0
        self._refused.clear()
        self._forget_registrations()

    def _forget_registrations(self) -> None:
        self.in_force.clear()
        self._ending.clear()
        self._admitting.clear()
        self.observed.registrations_lost()

    def breach(self, what: str) -> None:
        """The client, or its broker, sends what must not be sent."""
        self._violated("protocol", what)

    def _violated(self, kind: str, what: str) -> None:
        called = f"client {self.client_name} of {self.broker_name}"
        self._observer.violated(kind, f"{called} {what} (at {self._clock.now_us} us)")

    # --- dispatch: one table for all clients -----------------------------------------------------

    _on_sent: ClassVar[dict[type, Callable[[ClientWatch, Any], None]]] = {
        Attached: _on_attached_sent,
        UnorderedAttached: _on_attached_sent,
        Refused: _on_refused_sent,
        PublicationsAccepted: _on_accepted_sent,
        PublicationsConfirmed: _on_confirmed_sent,
    }
    """By kind of a reply that the broker sends, what is to be noted."""
    _on_arrived: ClassVar[dict[type, Callable[[ClientWatch, Any], None]]] = {
        Attached: _on_attached,
        UnorderedAttached: _on_attached,
        Settled: _on_settled,
        Refused: _on_refused,
        PublicationsConfirmed: _on_confirmed,
    }
    """By kind of a reply that arrives, what is to be noted."""


def is_announced(
    attributes: Mapping[str, Any], own: Sequence[WatchedRegistration], *, checked: bool
) -> bool:
    """Whether a settled one of these advertisements admits a publication. `checked`: the broker
    refuses what none admits, so that nothing is to be looked at when all are settled."""
    if checked and all(entry.is_settled for entry in own):
        return bool(own)
    return any(entry.is_settled and conforms(attributes, entry.filter) for entry in own)
