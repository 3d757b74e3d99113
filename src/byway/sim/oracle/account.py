"""The account: what clients asked for and got, and so who is owed what.

It keeps its own index of all subscriptions and never looks into a broker. When a home broker takes
a publication it notes who must get it: the clients with a settled matching subscription, if the
publisher's advertisement is settled. A claim ends when its client unsubscribes, leaves, stays away
beyond its session, or its home broker restarts without its state. When the publication is
confirmed, every claim must have been met; then it is forgotten, so nothing here grows with the
length of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from byway.matching import MatchIndex
from byway.model import Filter
from byway.model.messages import Body, Delivery, Publish
from byway.sim.engine.clock import Clock
from byway.sim.oracle.account_records import (
    MAY,
    MUST,
    Identity,
    Record,
    Stream,
    SubscriberRecord,
    SubscriptionRecord,
    called,
    identity_of,
)
from byway.sim.oracle.violations import Violations
from byway.sim.run_metrics import Tally

_decode = msgspec.msgpack.Decoder(Body).decode


class Account:
    """Who is owed what in one world."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.violations = Violations()
        self.tally = Tally()
        self.redelivered = 0
        """Deliveries that clients dropped, because a broker that lost its state sent again."""
        self.lost_in_sessions = 0
        self.published = 0
        self.state_lost_us = -1
        """When a broker last came back without its state."""
        self._accepted = 0
        self._index = MatchIndex()
        self._by_key: dict[int, SubscriptionRecord] = {}
        self._next_key = 0
        self._streams: dict[str, Stream] = {}
        self._orphans: dict[tuple[str, int], Stream] = {}
        self.news: list[tuple[str, int] | SubscriberRecord] = []
        """To be concluded: publishers and what was confirmed to them, and clients that are back."""

    def __repr__(self) -> str:
        return (
            f"<Account of {self.published} publications, {self.unconfirmed} unconfirmed, "
            f"{len(self._by_key)} subscriptions>"
        )

    @property
    def unconfirmed(self) -> int:
        """Publications that are not confirmed yet."""
        return sum(len(stream.records) for stream in self._streams.values())

    # --- subscriptions -------------------------------------------------------------------------

    def begin(self, client: SubscriberRecord, name: str, filter: Filter) -> SubscriptionRecord:
        """A client asks for something; from now on it may get it."""
        subscription = SubscriptionRecord(client, name, filter, self._next_key)
        self._next_key += 1
        self._by_key[subscription.key] = client.held[subscription.key] = subscription
        self._index.add(subscription.key, filter)
        return subscription

    def settled(self, subscription: SubscriptionRecord) -> None:
        """From now on it must get it."""
        if subscription.settled_at is None:
            subscription.settled_at = self._accepted

    def end(self, subscription: SubscriptionRecord) -> None:
        """Its broker has ended it: from now on its client must not get it."""
        subscription.wanted = False
        if self._by_key.pop(subscription.key, None) is not None:
            del subscription.client.held[subscription.key]
            self._index.remove(subscription.key)

    def end_all(self, client: SubscriberRecord) -> None:
        """The client's session is gone, and all claims with it."""
        for subscription in list(client.held.values()):
            self.end(subscription)
        client.owed.clear()

    # --- publications --------------------------------------------------------------------------

    def accept(
        self, identity: Identity, attributes: Mapping[str, Any], *, is_certain: bool
    ) -> None:
        """A home broker takes a publication; `is_certain`: its advertisement is settled."""
        publisher, incarnation, sequence = identity
        self.published += 1
        self._accepted += 1
        record = Record(identity, attributes, self._accepted, self._clock.now_us)
        waiting, by_key = record.waiting, self._by_key
        for key in self._index.match(attributes).tolist():
            subscription = by_key[key]
            if is_certain and subscription.settled_at is not None and subscription.wanted:
                waiting[subscription.client] = MUST
            else:
                waiting.setdefault(subscription.client, MAY)
        stream = self._streams.get(publisher)
        if stream is None or stream.incarnation != incarnation:
            stream = self._streams[publisher] = Stream(incarnation)
        stream.records[sequence] = record

    def refused(self, publisher: str, sequence: int) -> None:
        """The home broker did not take it after all."""
        stream = self._streams.get(publisher)
        if stream is not None and stream.records.pop(sequence, None) is not None:
            self.published -= 1

    def confirmed(self, publisher: str, sequence: int) -> None:
        """The publisher was told; judged when all that was told with it is accounted for."""
        self.news.append((publisher, sequence))

    def returned(self, client: SubscriberRecord, lost: int) -> None:
        """A client is back in its session, which lacks so many deliveries."""
        client.received += lost
        client.forgiven += lost
        self.lost_in_sessions += lost
        self.news.append(client)

    def conclude(self) -> None:
        """All that was told at once is accounted for: judge what it brought to an end."""
        news, self.news = self.news, []
        for item in news:
            if isinstance(item, tuple):
                self._judge_confirmed(*item)
            else:
                self._judge_owed(item)

    def _judge_confirmed(self, publisher: str, sequence: int) -> None:
        stream = self._streams.get(publisher)
        if stream is None:
            return
        for number in range(stream.confirmed + 1, sequence + 1):
            record = stream.records.pop(number, None)
            if record is not None and record.waiting:
                self._judge(record, "was confirmed without")
        stream.confirmed = max(stream.confirmed, sequence)

    def _judge(self, record: Record, verdict: str) -> None:
        """Who still waits must have no claim any more, or find it in its session."""
        for client, state in record.waiting.items():
            if state is MUST and self._has_claim(client, record):
                if not client.attached:
                    client.owed[record.identity] = record
                elif client.forgiven:
                    client.forgiven -= 1
                else:
                    self._missing(client, record, verdict)

    def _has_claim(self, client: SubscriberRecord, record: Record) -> bool:
        return any(
            subscription.wanted
            and subscription.settled_at is not None
            and subscription.settled_at < record.accepted_at
            and subscription.filter.matches(record.attributes)
            for subscription in client.held.values()
        )

    def _judge_owed(self, client: SubscriberRecord) -> None:
        """It is back and was told what its session held."""
        for record in client.owed.values():
            if client.forgiven:
                client.forgiven -= 1
            elif self._has_claim(client, record):
                self._missing(client, record, "was not in the session of")
        client.owed.clear()

    def _missing(self, client: SubscriberRecord, record: Record, verdict: str) -> None:
        self.violations.add(
            "missing",
            f"publication {called(record.identity)} (accepted at {record.accepted_us} us) "
            f"{verdict} client {client.name} of {client.home_name} having it "
            f"(at {self._clock.now_us} us)",
        )

    # --- publishers ----------------------------------------------------------------------------

    def publisher_lost(self, publisher: str) -> None:
        """Its home broker lost its state: what was not confirmed may be lost."""
        self._streams.pop(publisher, None)
        for key in [key for key in self._orphans if key[0] == publisher]:
            del self._orphans[key]

    def publisher_begins_anew(self, publisher: str) -> None:
        """Nobody will be told any more that its publications are confirmed. They must arrive all
        the same."""
        stream = self._streams.pop(publisher, None)
        if stream is not None:
            self._orphans[publisher, stream.incarnation] = stream
            self.sweep()

    def sweep(self) -> None:
        """Forget publications that nobody is told of, and nobody waits for."""
        for key, stream in list(self._orphans.items()):
            stream.records = {
                sequence: record
                for sequence, record in stream.records.items()
                if any(
                    state is MUST and self._has_claim(client, record)
                    for client, state in record.waiting.items()
                )
            }
            if not stream.records:
                del self._orphans[key]

    # --- deliveries ----------------------------------------------------------------------------

    def delivered(self, client: SubscriberRecord, delivery: Delivery) -> bool:
        """A client was given a publication; whether it is one for its application."""
        publication = delivery.publication
        if delivery.number != client.received + 1:
            self._misnumbered(client, delivery)
        client.received = delivery.number
        record = self._record(publication)
        last = (publication.incarnation << 48) + publication.sequence
        if last > client.last.get(publication.publisher, 0):
            client.last[publication.publisher] = last
        elif self._repeated(client, publication, record):
            return False
        if record is None or record.waiting.pop(client, None) is None:
            self._unexpected(client, publication, record)
        self.tally.add(publication.hop, self._clock.now_us - publication.published_us)
        return True

    def _record(self, publication: Publish) -> Record | None:
        stream = self._streams.get(publication.publisher)
        if stream is None or stream.incarnation != publication.incarnation:
            stream = self._orphans.get((publication.publisher, publication.incarnation))
            if stream is None:
                return None
        return stream.records.get(publication.sequence)

    def _misnumbered(self, client: SubscriberRecord, delivery: Delivery) -> None:
        kind = "missing" if delivery.number > client.received else "duplicates"
        self.violations.add(
            kind,
            f"client {client.name} of {client.home_name} got delivery {delivery.number} after "
            f"{client.received} (at {self._clock.now_us} us)",
        )

    def _repeated(
        self, client: SubscriberRecord, publication: Publish, record: Record | None
    ) -> bool:
        """A delivery not later than the last of its publisher; whether the client drops it."""
        if client.last[publication.publisher] >> 48 != publication.incarnation:
            return False  # late, of an earlier incarnation: those are counted apart
        record = client.owed.pop(identity_of(publication), record)
        state = None if record is None else record.waiting.pop(client, None)
        is_owed = record is not None and state is MUST and self._has_claim(client, record)
        if not is_owed and self.state_lost_us >= publication.published_us:
            self.redelivered += 1
            return True
        kind, what = ("duplicates", "twice")
        if state is not None:
            kind, what = ("out_of_order", "after a later one")
        self.violations.add(
            kind,
            f"client {client.name} of {client.home_name} got publication "
            f"{called(identity_of(publication))} {what} (at {self._clock.now_us} us)",
        )
        return True

    def _unexpected(
        self, client: SubscriberRecord, publication: Publish, record: Record | None
    ) -> None:
        """It was not expected when the publication was accepted, or that is forgotten."""
        if record is None and client.owed.pop(identity_of(publication), None) is not None:
            return
        attributes = _decode(publication.body).attributes if record is None else record.attributes
        if any(held.filter.matches(attributes) for held in client.held.values()):
            return
        self.violations.add(
            "spurious",
            f"client {client.name} of {client.home_name} got publication "
            f"{called(identity_of(publication))} that none of its subscriptions matches "
            f"(at {self._clock.now_us} us)",
        )

    # --- the end -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Nothing is under way any more: every claim must have been met."""
        self.conclude()
        for streams in (self._streams, self._orphans):
            for stream in streams.values():
                for record in stream.records.values():
                    self._judge(record, "came to an end without")
