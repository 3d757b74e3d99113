"""What a simulation knows of one client at its broker: what is in force there, which publications
were read, and whether a session is kept.

It reports to the observer of the world, and judges the answers of the broker by what the broker has
read. The client's own core is not asked: what it holds is under test as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from byway.model import Filter, conforms
from byway.model.messages import (
    AdvertiseRequest,
    Attached,
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
    UnsubscribeRequest,
)
from byway.sim.engine.observer import Observer
from byway.sim.engine.sim_clock import Clock

if TYPE_CHECKING:
    from byway.sim.engine.sim_client import SimClient


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
    """One client as its brokers know it."""

    def __init__(self, client: SimClient, clock: Clock, observer: Observer) -> None:
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
        self._clock = clock
        self._observer = observer
        self._observed = observer.client_joined(client)
        self._unwanted: set[str] = set()
        """Wire names of subscriptions that the application has withdrawn, and that have not
        ended."""
        self._ending: deque[list[WatchedRegistration]] = deque()
        """By request that is being handled, the registrations that end with it."""
        self._admitting: dict[int, list[WatchedRegistration]] = {}
        """By publication that is being handled, the advertisements in force."""
        self._read = 0
        """The last sequence that the broker has read."""
        self._absences = 0
        self._is_state_lost = False
        """Whether the broker came back without its state, which the client does not know yet."""
        self._may_resume = False
        """Whether the client attaches with the incarnation that the broker knew."""
        self._received = 0
        """The deliveries that the client said it has."""
        self._replies: dict[type, Callable[[Any], None]] = {
            Attached: self._on_attached,
            Settled: self._on_settled,
            Refused: self._on_refused,
            PublicationsAccepted: self._on_accepted,
            PublicationsConfirmed: self._on_confirmed,
        }

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
        own = self._admitting[sequence] = self.advertisements if request.body else []
        attributes = self._client.attributes_of(request)
        is_certain = is_announced(attributes, own, checked=self._client.home.config.conformance)
        self._observed.publication_read(
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
        self._observed.subscribed(subscription)
        if request.name in self._unwanted:
            self._observed.withdrawn(subscription)
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
            for entry in self._ending.popleft():
                if type(entry) is WatchedSubscription:
                    self._observed.ended(entry)

    def withdraw(self, names: Sequence[str]) -> None:
        """The application no longer wants what goes by these wire names."""
        for name in names:
            self._unwanted.add(name)
            entry = self.in_force.get(name)
            if type(entry) is WatchedSubscription:
                self._observed.withdrawn(entry)

    # --- replies ---------------------------------------------------------------------------------

    def replies_arrived(self, replies: Sequence[Reply]) -> None:
        """The client gets replies of its broker."""
        observed = self._observed
        for reply in replies:
            if type(reply) is Delivery:
                self.given += observed.delivered(reply)
            else:
                handler = self._replies.get(type(reply))
                if handler is not None:
                    handler(reply)

    def _on_settled(self, reply: Settled) -> None:
        entry = self.in_force.get(reply.name)
        if entry is not None:
            entry.is_settled = True
            if type(entry) is WatchedSubscription:
                self._observed.settled(entry)

    def _on_refused(self, reply: Refused) -> None:
        self.refusals.append(reply)
        if not reply.subject.isdecimal():
            self.in_force.pop(reply.subject, None)
            return
        sequence = int(reply.subject)
        self._observed.publication_refused(sequence)
        attributes = self._client.attributes_at(sequence)
        if any(conforms(attributes, entry.filter) for entry in self._admitting.get(sequence, ())):
            self._violated(
                "refusals",
                f"was refused publication {sequence}, which conforms to an advertisement "
                f"({reply.reason})",
            )

    def _on_accepted(self, reply: PublicationsAccepted) -> None:
        is_late = self._client.latency_us > 0  # more may have been read since the reply was sent
        if reply.sequence > self._read or (reply.sequence < self._read and not is_late):
            self._violated("sessions", f"was told of {reply.sequence}, read are {self._read}")

    def _on_confirmed(self, reply: PublicationsConfirmed) -> None:
        self._observed.publications_confirmed(reply.sequence)

    # --- sessions --------------------------------------------------------------------------------

    def on_attaching(self, incarnation: int, received: int) -> None:
        """The client attaches, and says how many deliveries it has received."""
        self._may_resume = self.has_session and incarnation == self.incarnation
        if self.has_session and not self._may_resume:
            self.lose_session()  # the broker ends the session of an earlier incarnation
        if not self._may_resume:
            self._read = 0
        self.incarnation = incarnation
        self._received = received
        self._absences += 1

    def _on_attached(self, reply: Attached) -> None:
        if reply.resumed == (self._is_state_lost or not self._may_resume):
            what = "is in a session that was lost" if reply.resumed else "finds no session"
            self._violated("sessions", what)
        if reply.resumed:
            if reply.published != self._read:
                words = f"is told of {reply.published} publications instead of {self._read}"
                self._violated("sessions", words)
            self._observed.session_resumed(self._received, reply.lost)
        else:
            if self._may_resume:
                self.lose_session()
                self._read = 0
            self._unwanted.clear()  # the client asks for what it wants now
        self.has_session, self._is_state_lost = True, False

    def on_detached(self, ttl_us: int) -> None:
        """The client is gone, and may come back within a time."""
        self._absences += 1
        if ttl_us:
            end_us = self._clock.now_us + ttl_us
            self._clock.background_at(end_us, self._on_session_expired, self._absences)
        else:
            self.lose_session()

    def _on_session_expired(self, absence: int) -> None:
        if absence == self._absences and self._client.home.broker is not None:
            self.lose_session()

    def on_home_restarted(self, *, stored: bool, grace_us: int) -> None:
        """The broker is up again, with what it knew of the client (`stored`) or without."""
        if not stored:
            self._is_state_lost = self.has_session
            self._forget_registrations()
            self._observed.home_lost_state()
        elif self.has_session:
            self.on_detached(max(self._client.session_ttl_us, grace_us))

    def lose_session(self) -> None:
        """The broker has ended the session, or never kept it."""
        self.has_session = self._is_state_lost = False
        self._forget_registrations()
        self._observed.session_lost()

    def _forget_registrations(self) -> None:
        self.in_force.clear()
        self._ending.clear()
        self._admitting.clear()
        self._observed.registrations_lost()

    def _violated(self, kind: str, what: str) -> None:
        client = self._client
        self._observer.violated(
            kind, f"client {client.name} of {client.home_name} {what} (at {self._clock.now_us} us)"
        )


def is_announced(
    attributes: Mapping[str, Any], own: Sequence[WatchedRegistration], *, checked: bool
) -> bool:
    """Whether a settled one of these advertisements admits a publication. `checked`: the broker
    refuses what none admits, so that nothing is to be looked at when all are settled."""
    if checked and all(entry.is_settled for entry in own):
        return bool(own)
    return any(entry.is_settled and conforms(attributes, entry.filter) for entry in own)
