"""The account of one client: what it asked for, and whether what it is given is right.

A delivery must be the next one of the session, match a subscription, and come once and after all
earlier publications of its publisher. Which publications a client is owed is decided in `account`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from byway.model.messages import Body, Delivery, Publish
from byway.sim.engine.observer import ObservedClient, ObservedSubscription
from byway.sim.engine.sim_clock import Clock
from byway.sim.oracle.account_records import (
    MUST,
    Identity,
    PublicationRecord,
    SubscriptionRecord,
    described,
    identity_of,
)

if TYPE_CHECKING:
    from byway.sim.oracle.account import Account

_decode = msgspec.msgpack.Decoder(Body).decode


class ClientAccount:
    """What one client is owed and was given; a `ClientObserver`."""

    def __init__(self, client: ObservedClient, account: Account, clock: Clock) -> None:
        self.subscriptions: dict[ObservedSubscription, SubscriptionRecord] = {}
        """From when the client asks for them until its broker has ended them."""
        self.owed: dict[Identity, PublicationRecord] = {}
        """What was confirmed while the client was away: it must be in its session."""
        self.latest: dict[str, int] = {}
        """By publisher, incarnation and sequence of the latest delivery, in one number."""
        self._client = client
        self._account = account
        self._clock = clock
        self._received = 0
        """The number of the last delivery of the session."""
        self._lost = 0
        """Deliveries that the session had no room for, and that were not missed yet."""

    def __repr__(self) -> str:
        return f"<ClientAccount of {self._client.name}: {len(self.subscriptions)} subscriptions>"

    # --- subscriptions -------------------------------------------------------------------------

    def subscribed(self, subscription: ObservedSubscription) -> None:
        """From now on the client may get what matches."""
        self.subscriptions[subscription] = self._account.open(self, subscription.filter)

    def withdrawn(self, subscription: ObservedSubscription) -> None:
        """The client gives up its claims from a subscription."""
        record = self.subscriptions.get(subscription)
        if record is not None:
            record.wanted = False

    def settled(self, subscription: ObservedSubscription) -> None:
        """From now on the client must get what matches."""
        record = self.subscriptions.get(subscription)
        if record is not None:
            self._account.settle(record)

    def ended(self, subscription: ObservedSubscription) -> None:
        """From now on the client must get nothing more for a subscription."""
        record = self.subscriptions.pop(subscription, None)
        if record is not None:
            self._account.close(record)

    def registrations_lost(self) -> None:
        """All subscriptions have ended, and all claims with them."""
        for subscription in list(self.subscriptions):
            self.ended(subscription)
        self.owed.clear()

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
        identity = (self._client.name, incarnation, sequence)
        self._account.read(identity, attributes, is_certain=is_certain)

    def publication_refused(self, sequence: int) -> None:
        """Nobody is owed the publication."""
        self._account.refuse(self._client.name, sequence)

    def publications_confirmed(self, sequence: int) -> None:
        """Every client that was owed one of these publications must have got it."""
        self._account.confirm(self._client.name, sequence)

    # --- sessions ------------------------------------------------------------------------------

    def session_resumed(self, received: int, lost: int) -> None:
        """The client must find in its session what it is owed, except for what was lost there."""
        self._received = received + lost
        self._lost += lost
        self._account.lost_in_sessions += lost
        self._account.returned(self)

    def session_lost(self) -> None:
        """The next session counts deliveries from 1, and publications under a new incarnation."""
        self._received = 0
        self._account.orphan_publisher(self._client.name)

    def home_lost_state(self) -> None:
        """What the client published and was not confirmed may be lost."""
        self._account.drop_publisher(self._client.name)

    # --- deliveries ----------------------------------------------------------------------------

    def delivered(self, delivery: Delivery) -> bool:
        """Judge a delivery. Returns whether the application is given the publication."""
        account, publication = self._account, delivery.publication
        if delivery.number != self._received + 1:
            self._judge_number(delivery)
        self._received = delivery.number
        record = account.record_of(publication)
        latest = (publication.incarnation << 48) + publication.sequence
        if latest > self.latest.get(publication.publisher, 0):
            self.latest[publication.publisher] = latest
        elif self._judge_repeated(publication, record):
            return False
        if record is None or record.waiting.pop(self, None) is None:
            self._judge_unexpected(publication, record)
        account.tally.add(publication.hop, self._clock.now_us - publication.published_us)
        return True

    def _judge_number(self, delivery: Delivery) -> None:
        kind = "missing" if delivery.number > self._received else "duplicates"
        self._violated(kind, f"got delivery {delivery.number} after {self._received}")

    def _judge_repeated(self, publication: Publish, record: PublicationRecord | None) -> bool:
        """Judge a delivery not later than the latest of its publisher. Returns whether the client
        drops it."""
        if self.latest[publication.publisher] >> 48 != publication.incarnation:
            return False  # late, of an earlier incarnation: those are counted apart
        record = self.owed.pop(identity_of(publication), record)
        state = None if record is None else record.waiting.pop(self, None)
        is_owed = record is not None and state is MUST and self.has_claim(record)
        if not is_owed and self._account.may_redeliver(publication):
            self._account.redelivered += 1
            return True
        kind, what = ("duplicates", "twice")
        if state is not None:
            kind, what = ("out_of_order", "after a later one")
        self._violated(kind, f"got publication {described(identity_of(publication))} {what}")
        return True

    def _judge_unexpected(self, publication: Publish, record: PublicationRecord | None) -> None:
        """Judge a delivery that nobody waited for: it was not expected when the publication was
        read, or that is forgotten."""
        if record is None and self.owed.pop(identity_of(publication), None) is not None:
            return
        attributes = _decode(publication.body).attributes if record is None else record.attributes
        if any(held.filter.matches(attributes) for held in self.subscriptions.values()):
            return
        called = described(identity_of(publication))
        self._violated(
            "spurious", f"got publication {called} that none of its subscriptions matches"
        )

    def _violated(self, kind: str, what: str) -> None:
        client, now_us = self._client, self._clock.now_us
        self._account.violated(
            kind, f"client {client.name} of {client.home_name} {what} (at {now_us} us)"
        )

    # --- what is missing -----------------------------------------------------------------------

    def judge_missing(self, record: PublicationRecord, verdict: str) -> None:
        """The client must have got a publication and has not: it is in its session, was lost there
        for want of room, or is missing."""
        if not self._client.attached or self._client.is_behind:
            self.owed[record.identity] = record
        elif self._lost:
            self._lost -= 1
        else:
            self._missing(record, verdict)

    def finish(self) -> None:
        """Nothing is under way: an attached client must have what was confirmed while deliveries
        to it were."""
        if self._client.attached:
            self.judge_owed()

    def judge_owed(self) -> None:
        """The client is back and was given all that its session held."""
        for record in self.owed.values():
            if self._lost:
                self._lost -= 1
            elif self.has_claim(record):
                self._missing(record, "was not in the session of")
        self.owed.clear()

    def _missing(self, record: PublicationRecord, verdict: str) -> None:
        client, now_us = self._client, self._clock.now_us
        self._account.violated(
            "missing",
            f"publication {record} (accepted at {record.read_us} us) {verdict} client "
            f"{client.name} of {client.home_name} having it (at {now_us} us)",
        )
