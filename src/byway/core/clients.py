"""Clients of a broker: when their sessions begin and end, and what they may hold.

A client that vanishes keeps its subscriptions, advertisements and undelivered publications for the
time it asked for; then they are removed as by unsubscribe. This file decides when a session begins,
goes on and ends, and which requests are refused. What follows for the tables is decided in
`advertisements` and `subscriptions`, what is kept for a client in `session_deliveries`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from byway.core.actions import CancelTimer, SetTimer, Timer
from byway.core.client_session import ClientSession
from byway.core.context import Context
from byway.core.in_flight import unowned
from byway.core.origin import Origin
from byway.core.session_deliveries import SessionDeliveries
from byway.core.tables import Entry
from byway.model import Filter
from byway.model.bounds import CLIENT_WINDOW_MAX
from byway.model.fitting import fit
from byway.model.messages import (
    SESSION,
    AdvertiseRequest,
    Attached,
    DeliveriesReceived,
    EntryId,
    PublicationsAccepted,
    PublicationsConfirmed,
    Refused,
    Settled,
    SubscribeRequest,
    UnadvertiseRequest,
    UnorderedAttached,
    UnsubscribeRequest,
)

RESTORE_TIMER: Final = Timer("restore")
SESSION_TIMER: Final = Timer("session")
"""With the client's name as its detail."""

REFUSED_BEFORE: Final = "it was refused before the connection was lost"
"""The reason of a refusal that is told once more."""

_encode = msgspec.msgpack.Encoder().encode


class Clients:
    """All clients of one broker."""

    __slots__ = (
        "_context", "_deliveries", "durable", "entries", "filter_bytes", "sessions",
        "sessions_stale",
    )  # fmt: skip

    def __init__(self, context: Context, deliveries: SessionDeliveries) -> None:
        self._context = context
        self._deliveries = deliveries
        self.sessions: dict[str, ClientSession] = {}
        """By name, the clients that are connected or whose session is kept."""
        self.sessions_stale = False
        """Whether the sessions of a snapshot may be older than what their clients were told."""
        self.durable = 0
        """Number of sessions that are kept when their client vanishes."""
        self.entries = 0
        """Number of subscriptions and advertisements of all clients."""
        self.filter_bytes = 0
        """Bytes of their filters."""

    def recount(self) -> None:
        """Count everything anew, after clients and tables were restored."""
        self.durable = self.entries = self.filter_bytes = 0
        self._deliveries.beyond_shares = 0
        for client in self.sessions.values():
            client.filter_bytes = client.beyond_share = 0
            self.durable += client.ttl_us > 0
            self.entries += client.entries
            for table, held in (
                (self._context.routing.adverts, client.adverts),
                (self._context.routing.subscriptions, client.subscriptions),
            ):
                for id in held.values():
                    entry = table.get(id)
                    self._count_filter(client, 0 if entry is None else _size(entry.filter))
            self._deliveries.count_kept(client)

    # --- coming and going ----------------------------------------------------------------------

    def on_started(self) -> None:
        """After a restart with storage clients have some time to come back; with an older state
        they cannot go on, since ids and sequences would be used twice."""
        grace_us = self._context.config.restore_grace_us
        for client in list(self.sessions.values()):
            client.attached = False
            if self.sessions_stale:
                self._end(client)
            else:
                self._expect(client, max(client.ttl_us, grace_us))
        self.sessions_stale = False
        self._deliveries.in_grace = bool(self.sessions)
        if self.sessions:
            self._context.out.do(SetTimer(RESTORE_TIMER, self._context.now_us + grace_us))

    def on_grace_ended(self) -> None:
        """Clients had time to come back; from now on their sessions are bounded as always."""
        self._deliveries.in_grace = False
        for client in self.sessions.values():
            self._deliveries.keep_within_bounds(client)

    def attach(self, name: str, incarnation: int, ttl_us: int, received: int) -> None:
        """A client is connected: its session goes on, or a new one begins.

        A blank session is never resumed. It may have begun after the one that the client means was
        lost, and the client not have learnt that; and who begins anew loses nothing by it.
        """
        ttl_us = min(ttl_us, self._context.config.session_ttl_us_max)
        client = self.sessions.get(name)
        if client is not None and client.incarnation == incarnation and not client.is_blank:
            self._resume(client, ttl_us, received)
            return
        if client is not None:
            if client.incarnation > incarnation:
                reason = f"incarnation {client.incarnation} of this client came before"
                self._context.out.tell(name, Refused(str(incarnation), reason))
                return
            self._end(client)
        client = ClientSession(name, incarnation, counter=self._context.now_us)
        self.sessions[name] = client
        self._context.out.tell(name, self._attached(resumed=False))
        self._give_session(client, ttl_us)

    def _attached(self, resumed: bool, published: int = 0, lost: int = 0) -> Attached:
        config = self._context.config
        if config.mesh.order == "publisher":
            return Attached(resumed, published, lost)
        window = min(config.publisher_window, CLIENT_WINDOW_MAX)
        return UnorderedAttached(resumed, published, lost, window)

    def _give_session(self, client: ClientSession, ttl_us: int) -> None:
        """Keep a client's session for the time it asks for, if there is room for one more."""
        self.durable -= client.ttl_us > 0
        most = self._context.config.sessions_max
        if ttl_us and self.durable >= most:
            reason = f"{self.durable} sessions are kept here already, the most there may be"
            self._context.out.tell(client.name, Refused(SESSION, reason))
            ttl_us = 0
        client.ttl_us = ttl_us
        self.durable += ttl_us > 0

    def _resume(self, client: ClientSession, ttl_us: int, received: int) -> None:
        """Go on with a client's session: everything that it may have missed is sent again."""
        out = self._context.out
        if not client.attached:
            out.do(CancelTimer(_timer(client)))
        client.attached = True
        client.reported.clear()
        lost = max(client.first_kept - 1 - received, 0)
        out.tell(client.name, self._attached(True, client.sequence, lost))
        self._give_session(client, ttl_us)
        for table, held in (
            (self._context.routing.adverts, client.adverts),
            (self._context.routing.subscriptions, client.subscriptions),
        ):
            for name, id in held.items():
                entry = table.get(id)
                if entry is not None and entry.settled:
                    out.tell(client.name, Settled(name))
        for sequence in client.refused:
            out.tell(client.name, Refused(str(sequence), REFUSED_BEFORE))
        if client.window.finished_up_to:
            out.tell(client.name, PublicationsConfirmed(client.window.finished_up_to))
        self._deliveries.acknowledge(client, received)
        for delivery in client.kept:
            out.tell(client.name, delivery)
        if not client.ttl_us:
            self._deliveries.clear(client)

    def detach(self, name: str, for_good: bool) -> None:
        """A client is no longer connected; it may come back while its session is kept."""
        client = self.sessions.get(name)
        if client is None:
            return
        if for_good or not client.ttl_us:
            self._end(client)
        else:
            client.attached = False
            self._expect(client, client.ttl_us)

    def _expect(self, client: ClientSession, within_us: int) -> None:
        """End the session of a client that does not come back in time."""
        self._context.out.do(SetTimer(_timer(client), self._context.now_us + within_us))

    def on_session_expired(self, name: str) -> None:
        """A client has not come back in time: its session ends."""
        client = self.sessions.get(name)
        if client is not None and not client.attached:
            self._end(client)

    def _end(self, client: ClientSession) -> None:
        """End a client's session, as if the client had withdrawn everything that it holds."""
        context = self._context
        if not client.attached:
            context.out.do(CancelTimer(_timer(client)))
        self._deliveries.drop_undelivered(client)
        self._deliveries.clear(client)
        del self.sessions[client.name]
        context.out.confirming[client.name] = None  # nothing of it counts any more
        fit(self.sessions)
        self.durable -= client.ttl_us > 0
        self.entries -= client.entries
        self.filter_bytes -= client.filter_bytes
        routing = context.routing
        subscriptions = [routing.subscriptions.get(id) for id in client.subscriptions.values()]
        routing.subscription_rules.unsubscribe([e for e in subscriptions if e is not None])
        pending = unowned()
        for id in client.adverts.values():
            entry = routing.adverts.get(id)
            if entry is not None:
                routing.advertisement_rules.end(entry, pending)

    # --- requests ------------------------------------------------------------------------------

    def _new_id(self, client: ClientSession, name: str) -> EntryId:
        client.counter += 1
        return EntryId(client.name, name, client.incarnation, client.counter)

    def _count_filter(self, client: ClientSession, size: int) -> None:
        client.filter_bytes += size
        self.filter_bytes += size

    def _release(self, client: ClientSession, entry: Entry | None) -> None:
        """Count an entry that a client holds no longer."""
        self.entries -= 1
        if entry is not None:
            self._count_filter(client, -_size(entry.filter))

    def _admit(self, client: ClientSession, name: str, filter: Filter, more: int = 1) -> bool:
        """Count one more entry that a client holds, or one in the place of another (`more` is 0),
        if no bound forbids it; a client that is refused is told why."""
        config, size = self._context.config, _size(filter)
        for what, found, most in (
            ("subscriptions and advertisements of this client", client.entries + more,
             config.client_entries_max),
            ("bytes of filters of this client", client.filter_bytes + size,
             config.client_filter_bytes_max),
            ("subscriptions and advertisements of all clients here", self.entries + more,
             config.local_entries_max),
            ("bytes of filters of all clients here", self.filter_bytes + size,
             config.local_filter_bytes_max),
        ):  # fmt: skip
            if found > most:
                reason = f"{found} {what}: at most {most}"
                self._context.out.tell(client.name, Refused(name, reason))
                return False
        self.entries += 1
        self._count_filter(client, size)
        return True

    def on_advertise(self, client: ClientSession, request: AdvertiseRequest) -> None:
        """A client announces what it will publish."""
        if request.name in client.adverts:
            reason = "this name advertises already"
            self._context.out.tell(client.name, Refused(request.name, reason))
            return
        if not self._admit(client, request.name, request.filter):
            return
        id = client.adverts[request.name] = self._new_id(client, request.name)
        rules = self._context.routing.advertisement_rules
        rules.begin(id, request.filter, Origin(client=client.name))

    def on_unadvertise(self, client: ClientSession, request: UnadvertiseRequest) -> None:
        """A client withdraws an advertisement."""
        id = client.adverts.pop(request.name, None)
        fit(client.adverts)
        entry = None if id is None else self._context.routing.adverts.get(id)
        if id is not None:
            self._release(client, entry)
        if entry is None:
            reason = "no advertisement has this name"
            self._context.out.tell(client.name, Refused(request.name, reason))
            return
        self._context.routing.advertisement_rules.end(entry, unowned())

    def on_subscribe(self, client: ClientSession, request: SubscribeRequest) -> None:
        """A client subscribes. A name in use gets the new filter: the new subscription begins, then
        the old one ends."""
        old = client.subscriptions.get(request.name)
        if not self._admit(client, request.name, request.filter, old is None):
            return
        id = client.subscriptions[request.name] = self._new_id(client, request.name)
        routing = self._context.routing
        routing.subscription_rules.begin(id, request.filter, Origin(client=client.name))
        self._context.kind_mismatches.subscribed(id)
        entry = None if old is None else routing.subscriptions.get(old)
        if old is not None:
            self._release(client, entry)
        if entry is not None:
            routing.subscription_rules.unsubscribe([entry])

    def on_unsubscribe(self, client: ClientSession, request: UnsubscribeRequest) -> None:
        """A client withdraws subscriptions."""
        entries = []
        for name in request.names:
            id = client.subscriptions.pop(name, None)
            entry = None if id is None else self._context.routing.subscriptions.get(id)
            if id is not None:
                self._release(client, entry)
            if entry is None:
                reason = "no subscription has this name"
                self._context.out.tell(client.name, Refused(name, reason))
            else:
                entries.append(entry)
        fit(client.subscriptions)
        self._context.routing.subscription_rules.unsubscribe(entries)

    # --- acknowledgements ----------------------------------------------------------------------

    def on_received(self, client: ClientSession, request: DeliveriesReceived) -> None:
        """A client has its deliveries up to a number."""
        self._deliveries.acknowledge(client, request.number)

    def acknowledge(self, name: str) -> None:
        """Tell a client which of its publications are confirmed, and which are here."""
        client = self.sessions.get(name)
        if client is None:
            return
        due = client.window.due()
        if due is not None:
            self._context.out.tell(name, PublicationsConfirmed(due))
        if client.sequence > max(client.window.finished_up_to, client.accepted):
            self._context.out.tell(name, PublicationsAccepted(client.sequence))
        client.accepted = client.sequence


def _timer(client: ClientSession) -> Timer:
    return Timer(SESSION_TIMER.owner, client.name)


def _size(filter: Filter) -> int:
    return len(_encode(filter))
