"""Clients of a broker: what they hold, and their sessions.

A client that vanishes keeps its subscriptions, advertisements and undelivered publications for the
time it asked for; then they are removed as by unsubscribe. It decides what is kept for a client
and when a client has gone; the tables' rules say what follows.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from byway.core.actions import CancelTimer, SetTimer, Timer
from byway.core.advertisements import Advertisements
from byway.core.context import Context, InFlight
from byway.core.links import Window
from byway.core.subscriptions import Subscriptions
from byway.core.tables import Entry, Origin
from byway.model import Filter
from byway.model.bounds import DELIVERED_NAMES_MAX
from byway.model.messages import (
    SESSION,
    AdvertiseRequest,
    Attached,
    DeliveriesReceived,
    Delivery,
    EntryId,
    PublicationsAccepted,
    PublicationsConfirmed,
    Publish,
    Refused,
    Settled,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.model.trace_schema import DropReason

RESTORE_TIMER: Final = Timer("restore")
DELIVERY_BYTES: Final = 256
"""What keeping a delivery takes, its publication apart."""

_encode = msgspec.msgpack.Encoder().encode


class ClientSession(msgspec.Struct, eq=False):
    """A client of this broker and what it holds, by the names it gave."""

    name: str
    incarnation: int
    ttl_us: int = 0
    attached: bool = True
    adverts: dict[str, EntryId] = msgspec.field(default_factory=dict)
    subscriptions: dict[str, EntryId] = msgspec.field(default_factory=dict)
    counter: int = 0
    """Of the ids given to it; it begins at the time, so that none is used again after a restart."""
    sequence: int = 0
    """Of its last publication."""
    accepted: int = 0
    """The last one that it was told to be here."""
    window: Window = msgspec.field(default_factory=Window)
    deliveries: int = 0
    """Number of the last one."""
    kept: deque[Delivery] = msgspec.field(default_factory=deque)
    """Those that it has not acknowledged, if it may come back."""
    kept_bytes: int = 0
    held: deque[InFlight] = msgspec.field(default_factory=deque)
    """Of the latest deliveries kept, those that had no room while the client had time to come back
    after a restart: what they are copies of is not confirmed."""
    beyond_share: int = 0
    """Of what all sessions together keep beyond their shares, what this one does."""
    filter_bytes: int = 0
    """Of its subscriptions and advertisements."""

    @property
    def entries(self) -> int:
        """Subscriptions and advertisements that it holds."""
        return len(self.adverts) + len(self.subscriptions)

    @property
    def first_kept(self) -> int:
        """Number of the oldest delivery that can be given again."""
        return self.deliveries - len(self.kept) + 1


class Clients:
    """All clients of one broker."""

    def __init__(
        self, context: Context, advertisements: Advertisements, subscriptions: Subscriptions
    ) -> None:
        self._context = context
        self._advertisements = advertisements
        self._subscriptions = subscriptions
        self.all: dict[str, ClientSession] = {}
        self.stale = False
        """What was restored may be older than what clients were told."""
        self.graceful = False
        """Whether clients have time to come back after a restart, and lose nothing meanwhile."""
        self.held = 0
        """Deliveries without room that wait for clients to come back."""
        self.sessions = 0
        """Clients whose session is kept when they vanish."""
        self.beyond_shares = 0
        """What sessions keep beyond their shares, all together."""
        self.entries = 0
        """Subscriptions and advertisements of all clients."""
        self.filter_bytes = 0
        """Of all of them."""
        config = context.config
        self._share = config.sessions_bytes_max // 2 // max(config.sessions_max, 1)
        self._beyond_shares_max = config.sessions_bytes_max // 2

    def recount(self) -> None:
        """Count everything anew, after clients and tables were restored."""
        self.sessions = self.beyond_shares = self.entries = self.filter_bytes = 0
        for client in self.all.values():
            client.filter_bytes = client.beyond_share = 0
            self.sessions += client.ttl_us > 0
            self.entries += client.entries
            for table, held in (
                (self._context.adverts, client.adverts),
                (self._context.subscriptions, client.subscriptions),
            ):
                for id in held.values():
                    entry = table.get(id)
                    self._count_filter(client, 0 if entry is None else _size(entry.filter))
            self._count_kept(client)

    # --- coming and going ----------------------------------------------------------------------

    def started(self) -> None:
        """After a restart with storage clients have some time to come back; with an older state
        they cannot go on, since ids and sequences would be used twice."""
        grace_us = self._context.config.restore_grace_us
        for client in list(self.all.values()):
            client.attached = False
            if self.stale:
                self._end(client)
            else:
                self._expect(client, max(client.ttl_us, grace_us))
        self.stale = False
        self.graceful = bool(self.all)
        if self.graceful:
            self._context.out.do(SetTimer(RESTORE_TIMER, self._context.now_us + grace_us))

    def grace_ended(self) -> None:
        """Clients had time to come back; from now on their sessions are bounded as always."""
        self.graceful = False
        for client in self.all.values():
            self._keep_within_bounds(client)

    def attach(self, name: str, incarnation: int, ttl_us: int, received: int) -> None:
        """A client is here: its session goes on, or a new one begins."""
        ttl_us = min(ttl_us, self._context.config.session_ttl_us_max)
        client = self.all.get(name)
        if client is not None and client.incarnation == incarnation:
            self._resume(client, ttl_us, received)
            return
        if client is not None:
            if client.incarnation > incarnation:
                reason = f"incarnation {client.incarnation} of this client came before"
                self._context.out.tell(name, Refused(str(incarnation), reason))
                return
            self._end(client)
        client = self.all[name] = ClientSession(name, incarnation, counter=self._context.now_us)
        self._context.out.tell(name, Attached(resumed=False, published=0))
        self._give_session(client, ttl_us)

    def _give_session(self, client: ClientSession, ttl_us: int) -> None:
        """Keep a client's session for the time it asks for, if there is room for one more."""
        self.sessions -= client.ttl_us > 0
        most = self._context.config.sessions_max
        if ttl_us and self.sessions >= most:
            reason = f"{self.sessions} sessions are kept here already, the most there may be"
            self._context.out.tell(client.name, Refused(SESSION, reason))
            ttl_us = 0
        client.ttl_us = ttl_us
        self.sessions += ttl_us > 0

    def _resume(self, client: ClientSession, ttl_us: int, received: int) -> None:
        """Everything it may have missed is told again."""
        out = self._context.out
        if not client.attached:
            out.do(CancelTimer(_timer(client)))
        client.attached = True
        lost = max(client.first_kept - 1 - received, 0)
        out.tell(client.name, Attached(True, client.sequence, lost))
        self._give_session(client, ttl_us)
        for table, held in (
            (self._context.adverts, client.adverts),
            (self._context.subscriptions, client.subscriptions),
        ):
            for name, id in held.items():
                entry = table.get(id)
                if entry is not None and entry.settled:
                    out.tell(client.name, Settled(name))
        if client.window.finished_up_to:
            out.tell(client.name, PublicationsConfirmed(client.window.finished_up_to))
        self.received(client, DeliveriesReceived(received))
        for delivery in client.kept:
            out.tell(client.name, delivery)
        if not client.ttl_us:
            client.kept.clear()
            client.kept_bytes = 0
            self._count_kept(client)
            self._confirm_held(client)

    def detach(self, name: str, for_good: bool) -> None:
        """A client is gone; it may come back while its session is kept."""
        client = self.all.get(name)
        if client is None:
            return
        if for_good or not client.ttl_us:
            self._end(client)
        else:
            client.attached = False
            self._expect(client, client.ttl_us)

    def _expect(self, client: ClientSession, within_us: int) -> None:
        self._context.out.do(SetTimer(_timer(client), self._context.now_us + within_us))

    def waited_enough(self, name: str) -> None:
        """A client has not come back in time."""
        client = self.all.get(name)
        if client is not None and not client.attached:
            self._end(client)

    def _end(self, client: ClientSession) -> None:
        """As if it had taken back everything."""
        context = self._context
        if not client.attached:
            context.out.do(CancelTimer(_timer(client)))
        for delivery in client.kept if not client.attached else ():
            self._drop(client, delivery, DropReason.CLIENT_GONE)
        client.kept.clear()
        client.kept_bytes = 0
        self._count_kept(client)
        self._confirm_held(client)
        del self.all[client.name]
        self.sessions -= client.ttl_us > 0
        self.entries -= client.entries
        self.filter_bytes -= client.filter_bytes
        subscriptions = [context.subscriptions.get(id) for id in client.subscriptions.values()]
        self._subscriptions.taken_back([entry for entry in subscriptions if entry is not None])
        pending = context.nobody()
        for id in client.adverts.values():
            entry = context.adverts.get(id)
            if entry is not None:
                self._advertisements.end(entry, pending)

    # --- requests ------------------------------------------------------------------------------

    def _new_id(self, client: ClientSession, name: str) -> EntryId:
        client.counter += 1
        return EntryId(client.name, name, client.incarnation, client.counter)

    def _count_filter(self, client: ClientSession, size: int) -> None:
        client.filter_bytes += size
        self.filter_bytes += size

    def _lets_go(self, client: ClientSession, entry: Entry | None) -> None:
        """A client holds something no longer."""
        self.entries -= 1
        if entry is not None:
            self._count_filter(client, -_size(entry.filter))

    def _holds_more(self, client: ClientSession, name: str, filter: Filter, more: int = 1) -> bool:
        """Whether a client may hold one more, or another in its place; it is told why not."""
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

    def advertise(self, client: ClientSession, request: AdvertiseRequest) -> None:
        """A client will publish."""
        if request.name in client.adverts:
            reason = "this name advertises already"
            self._context.out.tell(client.name, Refused(request.name, reason))
            return
        if not self._holds_more(client, request.name, request.filter):
            return
        id = client.adverts[request.name] = self._new_id(client, request.name)
        self._advertisements.begin(id, request.filter, Origin(client=client.name))

    def unadvertise(self, client: ClientSession, request: UnadvertiseRequest) -> None:
        """A client will no longer publish."""
        id = client.adverts.pop(request.name, None)
        entry = None if id is None else self._context.adverts.get(id)
        if id is not None:
            self._lets_go(client, entry)
        if entry is None:
            reason = "no advertisement has this name"
            self._context.out.tell(client.name, Refused(request.name, reason))
            return
        self._advertisements.end(entry, self._context.nobody())

    def subscribe(self, client: ClientSession, request: SubscribeRequest) -> None:
        """A name in use gets the new filter in place: the new one comes, then the old goes."""
        old = client.subscriptions.get(request.name)
        if not self._holds_more(client, request.name, request.filter, old is None):
            return
        id = client.subscriptions[request.name] = self._new_id(client, request.name)
        self._subscriptions.begin(id, request.filter, Origin(client=client.name))
        entry = None if old is None else self._context.subscriptions.get(old)
        if old is not None:
            self._lets_go(client, entry)
        if entry is not None:
            self._subscriptions.taken_back([entry])

    def unsubscribe(self, client: ClientSession, request: UnsubscribeRequest) -> None:
        """A client no longer wants these."""
        entries = []
        for name in request.names:
            id = client.subscriptions.pop(name, None)
            entry = None if id is None else self._context.subscriptions.get(id)
            if id is not None:
                self._lets_go(client, entry)
            if entry is None:
                reason = "no subscription has this name"
                self._context.out.tell(client.name, Refused(name, reason))
            else:
                entries.append(entry)
        self._subscriptions.taken_back(entries)

    # --- deliveries ----------------------------------------------------------------------------

    def deliver(
        self, name: str, publication: Publish, names: tuple[str, ...], pending: InFlight
    ) -> None:
        """A publication for a client: it is told if it is here, and kept if it may come back. What
        finds no room though the client has time to come back stays unconfirmed. One
        that more subscriptions want than a delivery may name comes in several deliveries."""
        if len(names) > DELIVERED_NAMES_MAX:
            for start in range(0, len(names), DELIVERED_NAMES_MAX):
                part = names[start : start + DELIVERED_NAMES_MAX]
                self.deliver(name, publication, part, pending)
            return
        client = self.all[name]
        client.deliveries += 1
        delivery = Delivery(client.deliveries, publication, names)
        if client.attached:
            self._context.out.tell(name, delivery)
        if client.ttl_us or not client.attached:
            client.kept.append(delivery)
            client.kept_bytes += len(publication.body)
            self._count_kept(client)
            if self.graceful and self._is_over(client):
                pending.left += 1
                client.held.append(pending)
                self.held += 1
            else:
                self._keep_within_bounds(client)

    def _count_kept(self, client: ClientSession) -> None:
        """A client's session keeps more or less than before."""
        size = client.kept_bytes + DELIVERY_BYTES * len(client.kept)
        beyond = max(size - self._share, 0)
        self.beyond_shares += beyond - client.beyond_share
        client.beyond_share = beyond

    def _is_over(self, client: ClientSession) -> bool:
        config = self._context.config
        return (
            len(client.kept) > config.session_messages_max
            or client.kept_bytes > config.session_bytes_max
            or self._is_beyond_all(client)
        )

    def _is_beyond_all(self, client: ClientSession) -> bool:
        """Whether all sessions together keep too much, and this one more than its share."""
        return client.beyond_share > 0 and self.beyond_shares > self._beyond_shares_max

    def _keep_within_bounds(self, client: ClientSession) -> None:
        while self._is_over(client):
            oldest = client.kept.popleft()
            client.kept_bytes -= len(oldest.publication.body)
            self._count_kept(client)
            if not client.attached:
                self._drop(client, oldest, DropReason.QUEUE_FULL)
        self._confirm_held(client)

    def _confirm_held(self, client: ClientSession) -> None:
        """Confirm deliveries that have room now, the oldest first: those that have none are the
        latest ones."""
        if not client.held:
            return
        config = self._context.config
        over = len(client.kept) - config.session_messages_max
        if client.kept_bytes > config.session_bytes_max:
            beyond = client.kept_bytes - config.session_bytes_max
            by_bytes = 0
            for delivery in reversed(client.kept):
                if beyond <= 0:
                    break
                beyond -= len(delivery.publication.body)
                by_bytes += 1
            over = max(over, by_bytes)
        if self._is_beyond_all(client):
            over = len(client.held)
        while len(client.held) > max(over, 0):
            self.held -= 1
            self._context.finish(client.held.popleft())

    def received(self, client: ClientSession, request: DeliveriesReceived) -> None:
        """A client has its deliveries up to a number."""
        while client.kept and client.kept[0].number <= request.number:
            client.kept_bytes -= len(client.kept.popleft().publication.body)
        if client.beyond_share:
            self._count_kept(client)
        self._confirm_held(client)

    def acknowledge(self, name: str) -> None:
        """Tell a client which of its publications are confirmed, and which are here."""
        client = self.all.get(name)
        if client is None:
            return
        due = client.window.due()
        if due is not None:
            self._context.out.tell(name, PublicationsConfirmed(due))
        if client.sequence > max(client.window.finished_up_to, client.accepted):
            self._context.out.tell(name, PublicationsAccepted(client.sequence))
        client.accepted = client.sequence

    def _drop(self, client: ClientSession, delivery: Delivery, reason: DropReason) -> None:
        trace, message = self._context.trace, delivery.publication
        if trace.enabled:
            trace.dropped(
                self._context.now_us, reason, message.publisher, message.incarnation,
                message.sequence, message.published_us, message.hop, message.distance,
                len(message.body), client=client.name,
            )  # fmt: skip


def _timer(client: ClientSession) -> Timer:
    return Timer("session", client.name)


def _size(filter: Filter) -> int:
    return len(_encode(filter))
