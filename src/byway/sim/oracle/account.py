"""The account: which client is owed which publication.

It is the observer of a world, keeps its own index of all subscriptions and never looks into a
broker. When a home broker reads a publication, the account notes who must get it: the clients with
a settled matching subscription, if the publisher's advertisement is settled. A claim ends when its
client unsubscribes, leaves, stays away beyond its session, goes to another broker, or its home
broker restarts without its state. When a home broker confirms the publication, every claim must
have been met: the publication was sent to the client, or is in the session of one that is away. It
is forgotten then, so that nothing here grows with the length of a run. What is sent must arrive,
and what is in a session must be sent when the client is back: `client_account` judges that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from byway.matching import MatchIndex
from byway.model import Filter
from byway.model.messages import Publish
from byway.sim.engine.observer import ObservedClient
from byway.sim.engine.sim_clock import Clock
from byway.sim.oracle.account_records import (
    MAY,
    MUST,
    Identity,
    PublicationRecord,
    PublisherStream,
    SubscriptionRecord,
)
from byway.sim.oracle.client_account import ClientAccount, ClientHistory
from byway.sim.oracle.violations import Violations
from byway.sim.run_metrics import Tally


class Account:
    """The claims of all clients of one world; an `Observer`."""

    def __init__(self, clock: Clock, ordered: bool = True) -> None:
        """`ordered`: whether publications of one publisher must arrive in order."""
        self._ordered = ordered
        self.violations = Violations()
        self.tally = Tally()
        self.redelivered = 0
        """Deliveries that clients dropped, because a broker that lost its state sent them again."""
        self.lost_in_sessions = 0
        self.published = 0
        self.due = 0
        """Pairs of a publication that a home broker has read and a client that must get it."""
        self._clock = clock
        self._state_lost_us = -1
        self._read = 0
        self._clients: list[ClientAccount] = []
        self._index = MatchIndex()
        self._by_key: dict[int, SubscriptionRecord] = {}
        self._owners: dict[int, ClientAccount] = {}
        """By key of a subscription, its client."""
        self._unsure: set[int] = set()
        """Keys of subscriptions that are not settled, or not wanted any more."""
        self._next_key = 0
        self.streams: dict[tuple[str, int], PublisherStream] = {}
        """By publisher and incarnation, what is not confirmed."""
        self._orphans: dict[tuple[str, int], PublisherStream] = {}
        """Of these, the ones whose incarnation is over."""
        self._histories: dict[ObservedClient, ClientHistory] = {}
        self._unjudged: list[tuple[PublisherStream, int] | ClientAccount] = []
        """Publishers with the sequence that was confirmed to them, and clients that are back."""

    def __repr__(self) -> str:
        return (
            f"<Account of {self.published} publications, {self.unconfirmed} unconfirmed, "
            f"{len(self._by_key)} subscriptions>"
        )

    @property
    def unconfirmed(self) -> int:
        """The number of publications that are not confirmed yet."""
        return sum(
            len(stream.records) for key, stream in self.streams.items() if key not in self._orphans
        )

    # --- what the world tells ------------------------------------------------------------------

    def client_joined(self, client: ObservedClient, broker: str) -> ClientAccount:
        """Open the account of a client at a broker that it attaches to for the first time."""
        history = self._histories.setdefault(client, ClientHistory(self._ordered))
        account = ClientAccount(client.name, broker, history, self, self._clock)
        self._clients.append(account)
        return account

    def violated(self, kind: str, sentence: str) -> None:
        """Count a violation that needs no judgement."""
        self.violations.add(kind, sentence)

    def broker_lost_state(self) -> None:
        """A broker came back without its state: earlier publications may be delivered again."""
        self._state_lost_us = self._clock.now_us

    def may_redeliver(self, publication: Publish) -> bool:
        """Whether a broker has lost its state since this publication was published."""
        return self._state_lost_us >= publication.published_us

    # --- subscriptions -------------------------------------------------------------------------

    def open(self, client: ClientAccount, filter: Filter) -> SubscriptionRecord:
        """Record a subscription: from now on its client may get what matches."""
        record = SubscriptionRecord(client, filter, self._next_key)
        self._next_key += 1
        self._by_key[record.key] = record
        self._owners[record.key] = client
        self._unsure.add(record.key)
        self._index.add(record.key, filter)
        return record

    def settle(self, record: SubscriptionRecord) -> None:
        """From now on the client of a subscription must get what matches."""
        if record.settled_at is None:
            record.settled_at = self._read
            if record.wanted:
                self._unsure.discard(record.key)

    def withdraw(self, record: SubscriptionRecord) -> None:
        """The client of a subscription wants nothing more of what matches."""
        record.wanted = False
        self._unsure.add(record.key)

    def close(self, record: SubscriptionRecord) -> None:
        """The home broker has ended a subscription: its client must get nothing more for it."""
        record.wanted = False
        del self._by_key[record.key], self._owners[record.key]
        self._unsure.discard(record.key)
        self._index.remove(record.key)

    # --- publications --------------------------------------------------------------------------

    def read(
        self,
        account: ClientAccount,
        identity: Identity,
        attributes: Mapping[str, Any],
        *,
        is_certain: bool,
    ) -> None:
        """A home broker reads a publication: note who must get it, and who may."""
        publisher, incarnation, sequence = identity
        self.published += 1
        self._read += 1
        record = PublicationRecord(identity, attributes, self._read, self._clock.now_us)
        keys, unsure = self._index.match(attributes).tolist(), self._unsure
        if is_certain and unsure.isdisjoint(keys):  # mostly
            record.waiting = dict.fromkeys(map(self._owners.__getitem__, keys), MUST)
        else:
            waiting, owners = record.waiting, self._owners
            for key in keys:
                if is_certain and key not in unsure:
                    waiting[owners[key]] = MUST
                else:
                    waiting.setdefault(owners[key], MAY)
        self.due += sum(record.waiting.values())
        stream = self.streams.get((publisher, incarnation))
        if stream is None:
            stream = self.streams[publisher, incarnation] = PublisherStream(account)
        stream.records[sequence] = record

    def refuse(self, publisher: str, incarnation: int, sequence: int) -> None:
        """The home broker did not take a publication after all: nobody is owed it."""
        stream = self.streams.get((publisher, incarnation))
        record = None if stream is None else stream.records.pop(sequence, None)
        if record is not None:
            self.published -= 1
            self.due -= sum(record.waiting.values())

    def confirm(self, publisher: str, incarnation: int, sequence: int) -> None:
        """Publications up to this one are confirmed: judge them when `replies_done`."""
        stream = self.streams.get((publisher, incarnation))
        if stream is not None:
            self._unjudged.append((stream, sequence))

    def returned(self, client: ClientAccount) -> None:
        """A client is back in its session: judge what it was owed when `replies_done`."""
        self._unjudged.append(client)

    # --- judging -------------------------------------------------------------------------------

    def replies_done(self) -> None:
        """Judge what the replies of one batch brought to an end, now that all are accounted for."""
        if not self._unjudged:
            return
        unjudged, self._unjudged = self._unjudged, []
        for item in unjudged:
            if isinstance(item, tuple):
                self._judge_confirmed(*item)
            else:
                item.judge_owed()

    def _judge_confirmed(self, stream: PublisherStream, sequence: int) -> None:
        for number in range(stream.confirmed + 1, sequence + 1):
            record = stream.records.pop(number, None)
            if record is not None and record.waiting:
                _judge(record, "was confirmed without")
        stream.confirmed = max(stream.confirmed, sequence)

    def finish(self) -> None:
        """Judge all that is left: nothing is under way, so every claim must have been met."""
        self.replies_done()
        for stream in self.streams.values():
            for record in stream.records.values():
                _judge(record, "came to an end without")
        for client in self._clients:
            client.finish()

    # --- publishers ----------------------------------------------------------------------------

    def drop_publisher(self, publisher: ClientAccount) -> None:
        """A publisher's home broker lost its state: what was not confirmed may be lost."""
        for key, stream in list(self.streams.items()):
            if stream.publisher is publisher:
                del self.streams[key]
                self._orphans.pop(key, None)

    def orphan_publisher(self, publisher: str, incarnation: int) -> None:
        """A publisher's incarnation is over: nobody will be told any more that its publications
        are confirmed, but they must arrive all the same."""
        stream = self.streams.get((publisher, incarnation))
        if stream is not None:
            self._orphans[publisher, incarnation] = stream
            self.sweep()

    def sweep(self) -> None:
        """Forget orphaned publications that no client must get any more."""
        for key, stream in list(self._orphans.items()):
            stream.records = {
                sequence: record
                for sequence, record in stream.records.items()
                if any(
                    state is MUST and client.has_claim(record)
                    for client, state in record.waiting.items()
                )
            }
            if not stream.records:
                del self.streams[key], self._orphans[key]


def _judge(record: PublicationRecord, verdict: str) -> None:
    """Every client that it was not sent to must have lost its claim, or be away."""
    for client, state in record.waiting.items():
        if state is MUST and client.has_claim(record):
            client.judge_missing(record, verdict)
