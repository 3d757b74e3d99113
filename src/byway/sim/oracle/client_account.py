"""The account of one client at one broker: what it asked for, and whether what it is given is
right.

A delivery is judged twice. When the broker sends it, it must match a subscription that is in force
there. When it arrives, it must be the next one of the session, and come once and, where order is
kept, after all earlier publications of its publisher. What is sent must arrive, unless the
connection breaks; then it is in the session and must be sent again when that is resumed, or have
been lost there for want of room. Which publications a client is owed is decided in `account`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from byway.model.messages import Body, Delivery, Publish
from byway.model.seen_sequences import SeenSequences
from byway.sim.engine.observer import ObservedSubscription
from byway.sim.engine.sim_clock import Clock
from byway.sim.oracle.account_records import (
    MUST,
    Identity,
    PublicationRecord,
    SentDelivery,
    SubscriptionRecord,
    described,
    identity_of,
)

if TYPE_CHECKING:
    from byway.sim.oracle.account import Account

INCARNATIONS_KEPT: Final = 8
"""Of each publisher; publications of earlier ones arrived long ago."""

SEQUENCES_KEPT: Final = 65_536
"""Of each incarnation of a publisher, where order is not kept; none comes as late as that."""

_decode = msgspec.msgpack.Decoder(Body).decode


class LatestDelivery:
    """The latest publication of one publisher that a client was given; where order is not kept,
    all that it was given of late."""

    __slots__ = ("earlier", "incarnation", "seen", "sequence")

    def __init__(self, ordered: bool) -> None:
        self.incarnation = 0
        """The incarnation that was delivered last; others are in `earlier`."""
        self.sequence = 0
        self.seen = None if ordered else SeenSequences(SEQUENCES_KEPT)
        """What was delivered, where order is not kept."""
        self.earlier: dict[int, tuple[int, SeenSequences | None]] | None = None
        """By incarnation, of which the last ones are kept, the latest sequence, and what was
        delivered."""

    def turn_to(self, incarnation: int) -> None:
        """Go on with another incarnation than the last one."""
        earlier = self.earlier = self.earlier or {}
        if self.incarnation:
            earlier[self.incarnation] = self.sequence, self.seen
        fresh = None if self.seen is None else SeenSequences(SEQUENCES_KEPT)
        self.incarnation = incarnation
        self.sequence, self.seen = earlier.pop(incarnation, (0, fresh))
        if len(earlier) >= INCARNATIONS_KEPT:
            del earlier[min(earlier)]


class ClientHistory:
    """What one client was given, at all brokers."""

    __slots__ = ("latest", "moved_us", "ordered", "place")

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.latest: dict[str, LatestDelivery] = {}
        """By publisher, what was delivered last."""
        self.moved_us = -1
        """When the client last began a session at another broker than before: that one may deliver
        earlier publications again."""
        self.place: ClientAccount | None = None
        """Where the client was attached last."""

    def turn_to(self, publication: Publish) -> LatestDelivery:
        """The latest delivery of a publisher that goes on with another incarnation, or is new."""
        latest = self.latest.get(publication.publisher)
        if latest is None:
            latest = self.latest[publication.publisher] = LatestDelivery(self.ordered)
        latest.turn_to(publication.incarnation)
        return latest


class ClientAccount:
    """What one client is owed by one broker, and was given; a `ClientObserver`."""

    __slots__ = (
        "_account", "_broker", "_client", "_clock", "_is_attached", "_lost", "_lost_us",
        "_streams", "_tally", "history", "owed", "received", "subscriptions", "under_way",
        "unreceived",
    )  # fmt: skip

    def __init__(
        self, client: str, broker: str, history: ClientHistory, account: Account, clock: Clock
    ) -> None:
        self.subscriptions: dict[ObservedSubscription, SubscriptionRecord] = {}
        """From when the client asks for them until its broker has ended them."""
        self.owed: dict[Identity, PublicationRecord] = {}
        """What was confirmed while the client was away: it must be in its session."""
        self.under_way: dict[int, SentDelivery] = {}
        """By number, deliveries that were sent and have not arrived."""
        self.unreceived: dict[int, SentDelivery] = {}
        """By number, deliveries that were under way when the connection ended: they must be in the
        session too."""
        self.received = 0
        """Number of the last delivery of the session that arrived, or was lost for want of room."""
        self.history = history
        self._client = client
        self._broker = broker
        self._account = account
        self._streams = account.streams
        self._tally = account.tally
        self._clock = clock
        self._is_attached = False
        """Whether the broker sends deliveries to the client."""
        self._lost = 0
        """Deliveries that the session had no room for, and that were not missed yet."""
        self._lost_us = -1
        """When that was found out: what was read later cannot be among them."""

    def __repr__(self) -> str:
        return (
            f"<ClientAccount of {self._client} at {self._broker}: "
            f"{len(self.subscriptions)} subscriptions, {len(self.under_way)} under way>"
        )

    # --- subscriptions -------------------------------------------------------------------------

    def subscribed(self, subscription: ObservedSubscription) -> None:
        """From now on the client may get what matches."""
        self.subscriptions[subscription] = self._account.open(self, subscription.filter)

    def withdrawn(self, subscription: ObservedSubscription) -> None:
        """The client gives up its claims from a subscription."""
        record = self.subscriptions.get(subscription)
        if record is not None:
            self._account.withdraw(record)

    def settled(self, subscription: ObservedSubscription) -> None:
        """From now on the client must get what matches."""
        record = self.subscriptions.get(subscription)
        if record is not None:
            self._account.settle(record)

    def ended(self, subscription: ObservedSubscription) -> None:
        """From now on the client must be sent nothing more for a subscription."""
        record = self.subscriptions.pop(subscription, None)
        if record is not None:
            self._account.close(record)

    def registrations_lost(self) -> None:
        """All subscriptions have ended, and all claims with them."""
        for subscription in list(self.subscriptions):
            self.ended(subscription)
        self.owed.clear()

    def given_up(self) -> None:
        """The client will not come back to this broker, and gives up all claims."""
        for record in self.subscriptions.values():
            self._account.withdraw(record)

    def has_claim(self, record: PublicationRecord) -> bool:
        """Whether the client must get a publication: it wants a matching subscription, and was told
        that it is settled before the publication was read."""
        return any(
            subscription.wanted
            and subscription.settled_at is not None
            and subscription.settled_at < record.read_at
            and subscription.filter.matches(record.attributes)
            for subscription in self.subscriptions.values()
        )

    # --- as a publisher ------------------------------------------------------------------------

    def publication_read(
        self, incarnation: int, sequence: int, attributes: Mapping[str, Any], *, is_certain: bool
    ) -> None:
        """Clients with matching subscriptions are owed the publication, if that `is_certain`."""
        identity = (self._client, incarnation, sequence)
        self._account.read(self, identity, attributes, is_certain=is_certain)

    def publication_refused(self, incarnation: int, sequence: int) -> None:
        """Nobody is owed the publication."""
        self._account.refuse(self._client, incarnation, sequence)

    def publications_confirmed(self, incarnation: int, sequence: int) -> None:
        """Every client that was owed one of these publications must have been sent it."""
        self._account.confirm(self._client, incarnation, sequence)

    # --- sessions ------------------------------------------------------------------------------

    def session_begun(self) -> None:
        """Deliveries are sent from now on."""
        self._is_attached = True

    def session_resumed(self, received: int, lost: int) -> None:
        """The client must be sent what it is owed, except for what was lost in its session."""
        self._is_attached = True
        first = received + lost
        known = [number for number in self.unreceived if received < number <= first]
        for number in known:
            del self.unreceived[number]
        if lost:
            self._lost, self._lost_us = self._lost + lost - len(known), self._clock.now_us
        self._account.lost_in_sessions += lost
        self._account.returned(self)

    def connection_ended(self) -> None:
        """What was under way did not arrive; it must be in the session."""
        self._is_attached = False
        self.unreceived |= self.under_way
        self.under_way.clear()

    def session_ended(self, incarnation: int) -> None:
        """The next session counts deliveries from 1, and publications under a new incarnation."""
        self._forget_session()
        self._account.orphan_publisher(self._client, incarnation)

    def state_lost(self) -> None:
        """What the client published and was not confirmed may be lost."""
        self._forget_session()
        self._account.drop_publisher(self)

    def _forget_session(self) -> None:
        self._is_attached = False
        self.under_way.clear()
        self.unreceived.clear()
        self._lost = 0

    def attached(self, *, resumed: bool, lost: int) -> None:
        """The client counts deliveries on, or from 1."""
        self.received = self.received + lost if resumed else 0
        if self.history.place is not self:
            if self.history.place is not None:
                self.history.moved_us = self._clock.now_us
            self.history.place = self

    # --- deliveries that are sent ----------------------------------------------------------------

    def delivery_sent(self, delivery: Delivery) -> None:
        """Judge whether the client may be sent a delivery, and note that it is under way."""
        publication = delivery.publication
        if self.unreceived:
            sent = self.unreceived.pop(delivery.number, None)
            if sent is not None and sent[0] == identity_of(publication):
                self.under_way[delivery.number] = sent
                return
        stream = self._streams.get((publication.publisher, publication.incarnation))
        record = None if stream is None else stream.records.get(publication.sequence)
        identity = identity_of(publication) if record is None else record.identity
        state = None if record is None else record.waiting.pop(self, None)
        if self.owed and identity in self.owed:
            record, state = self.owed.pop(identity), MUST
        elif state is None:
            self._judge_unexpected(publication, record)
        self.under_way[delivery.number] = identity, record, state

    def _judge_unexpected(self, publication: Publish, record: PublicationRecord | None) -> None:
        """Judge a delivery that nobody waited for: it was not expected when the publication was
        read, or that is forgotten."""
        attributes = _decode(publication.body).attributes if record is None else record.attributes
        if any(held.filter.matches(attributes) for held in self.subscriptions.values()):
            return
        called = described(identity_of(publication))
        self._violated(
            "spurious", f"got publication {called} that none of its subscriptions matches"
        )

    # --- deliveries that arrive ------------------------------------------------------------------

    def delivered(self, delivery: Delivery) -> bool:
        """Judge a delivery. Returns whether the application is given the publication."""
        number, publication = delivery.number, delivery.publication
        if number != self.received + 1:
            kind = "missing" if number > self.received else "duplicates"
            self._violated(kind, f"got delivery {number} after {self.received}")
        self.received = number
        sent = self.under_way.pop(number, None)
        if sent is None and self.unreceived:
            sent = self.unreceived.pop(number, None)
        latest = self.history.latest.get(publication.publisher)
        if latest is None or latest.incarnation != publication.incarnation:
            latest = self.history.turn_to(publication)
        sequence, seen, before = publication.sequence, latest.seen, latest.sequence
        if sequence <= before if seen is None else not seen.add(sequence):
            self._judge_repeated(publication, sent)
            return False
        if sequence > before:
            latest.sequence = sequence
        self._tally.add(publication.hop, self._clock.now_us - publication.published_us)
        return True

    def _judge_repeated(self, publication: Publish, sent: SentDelivery | None) -> None:
        """Judge a delivery not later than the latest of its publisher, which the client drops."""
        if self._missed(sent) is None and self._may_be_repeated(publication):
            self._account.redelivered += 1
            return
        kind, what = ("duplicates", "twice")
        if sent is not None and sent[2] is not None:
            kind, what = ("out_of_order", "after a later one")
        self._violated(kind, f"got publication {described(identity_of(publication))} {what}")

    def _may_be_repeated(self, publication: Publish) -> bool:
        """Whether a broker has lost its state since a publication was published, or the client has
        gone to another one."""
        moved_us = self.history.moved_us
        return moved_us >= publication.published_us or self._account.may_redeliver(publication)

    def _missed(self, sent: SentDelivery | None) -> PublicationRecord | None:
        """The publication of a delivery that was sent, if the client must get it."""
        if sent is None:
            return None
        _, record, state = sent
        is_owed = record is not None and state is MUST and self.has_claim(record)
        return record if is_owed else None

    def _violated(self, kind: str, what: str) -> None:
        self._account.violated(
            kind, f"client {self._client} of {self._broker} {what} (at {self._clock.now_us} us)"
        )

    # --- what is missing -----------------------------------------------------------------------

    def judge_missing(self, record: PublicationRecord, verdict: str) -> None:
        """The client must have been sent a publication and was not: it is away and finds it in its
        session, or it was lost there for want of room, or it is missing."""
        if not self._is_attached:
            self.owed[record.identity] = record
        elif not self._was_lost(record):
            self._missing(record, verdict)

    def _was_lost(self, record: PublicationRecord) -> bool:
        """Count a publication as one that was lost in the session, if there was one too many."""
        if not self._lost or record.read_us > self._lost_us:
            return False
        self._lost -= 1
        return True

    def judge_owed(self) -> None:
        """The client is back and was sent all that its session held."""
        for record in self.owed.values():
            if self.has_claim(record) and not self._was_lost(record):
                self._missing(record, "was not in the session of")
        for sent in self.unreceived.values():  # those that were lost are not among them
            missed = self._missed(sent)
            if missed is not None:
                self._missing(missed, "was not in the session of")
        self.owed.clear()
        self.unreceived.clear()

    def finish(self) -> None:
        """Nothing is under way: whatever was sent must have arrived."""
        for sent in self.under_way.values():
            missed = self._missed(sent)
            if missed is not None:
                self._missing(missed, "was sent, and came to an end without")

    def _missing(self, record: PublicationRecord, verdict: str) -> None:
        self._account.violated(
            "missing",
            f"publication {record} (accepted at {record.read_us} us) {verdict} client "
            f"{self._client} of {self._broker} having it (at {self._clock.now_us} us)",
        )
