"""The status of a broker process: how it is collected, and when clients that ask are answered.

Collecting takes time in proportion to the tables, so all requests of a short while share one
answer. Nothing here changes the broker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from byway._version import __version__
from byway.clock import now_us
from byway.core.backlogs import PUBLISHERS_MAX, link_backlogs, publisher_backlogs
from byway.core.broker_status import BrokerFacts, BrokerQueries, LinkFacts
from byway.core.placeholders import by_link, placeholders
from byway.core.tables import Entry, PlaceholderState, Table
from byway.model.errors import shortened
from byway.model.messages import LinkKind, Status
from byway.model.status import (
    BrokerLoad,
    BrokerStatus,
    LinkStatus,
    MeshLinkStatus,
    MeshStatus,
    PlaceholderStatus,
    PublisherStatus,
    SetAsideStatus,
    SlowSubscriberStatus,
    encode_status,
)
from byway.runtime.kind_hints import MISMATCHES_MAX, mismatches
from byway.runtime.replacing import successions
from byway.runtime.waiting import unsettled_entries
from byway.storage.set_aside import SetAsideFiles
from byway.transport.connection import Connection

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer

PLACEHOLDERS_MAX: Final = 200
"""Placeholders that are listed."""
SET_ASIDE_MAX: Final = 100
"""Inputs set aside that a status lists."""
WORST_MAX: Final = 20
"""Publishers with a backlog, links that each waits for, and slow subscribers that a status lists;
all of them are counted."""
FILTER_LENGTH_MAX: Final = 1_000
"""Characters of a filter that a status shows."""
STATUS_DELAY_S: Final = 0.02
"""The shortest time between a request and its answer, for other requests to share it."""
STATUS_SHARE: Final = 20
"""Collecting a status takes at most one part in so many of the time."""


class StatusReplies:
    """Answers status requests, all that came in a short while together."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server
        self._status_waiters: dict[Connection, None] = {}
        """Connections that have asked and are not answered."""
        self._delay_s = STATUS_DELAY_S

    def request(self, connection: Connection) -> None:
        """Answer soon, together with all others that ask until then."""
        if not self._status_waiters:
            asyncio.get_running_loop().call_later(self._delay_s, self._reply)
        self._status_waiters[connection] = None

    def _reply(self) -> None:
        waiters = list(self._status_waiters)
        self._status_waiters.clear()
        loop = asyncio.get_running_loop()
        began = loop.time()
        status = Status(encode_status(status_of(self._server)))
        for connection in waiters:
            if connection.unread_bytes <= self._server.settings.limits.client_answer_bytes:
                connection.send(status)
        self._delay_s = max(STATUS_DELAY_S, STATUS_SHARE * (loop.time() - began))


def status_of(server: BrokerServer) -> BrokerStatus:
    """The present status of a broker process."""
    broker = server.broker
    statistics = broker.policy.statistics
    preserved, merged = placeholders(broker)
    files = server.driver.set_aside
    unsettled, entries = unsettled_entries(broker)
    publishers_waiting, publishers = _publishers(server)
    slow = slow_subscribers(server)
    facts = broker.status()
    return BrokerStatus(
        broker=broker.name,
        version=__version__,
        incarnation=facts.incarnation,
        listen=str(server.address or server.settings.listen),
        clients=len(server.clients),
        sessions_away=facts.sessions.away,
        advertisements=len(broker.advertisements),
        subscriptions=len(broker.subscriptions),
        queued=server.driver.inbox.waiting,
        links=_links(server, facts),
        mesh=_mesh(broker),
        covering=broker.policy.name,
        preserved=len(preserved),
        mergers=len(merged),
        statistics=0 if statistics is None else len(statistics),
        restarting=facts.restarting,
        missing=server.waiting.missing(),
        away=list(facts.unreachable),
        unsettled=unsettled,
        unsettled_entries=entries,
        held=facts.held_deliveries,
        publishers_waiting=publishers_waiting,
        publishers=publishers,
        slow_subscribers=len(slow),
        subscribers=[
            SlowSubscriberStatus(
                client=name,
                waiting=connection.waiting_messages,
                waiting_bytes=connection.waiting_bytes,
                blocked_s=round(connection.blocked_s, 3),
            )
            for name, connection in slow[:WORST_MAX]
        ],
        publications_held=server.driver.inbox.holding,
        placeholders=[
            _placeholder(entry) for entry in islice(broker.placeholders, PLACEHOLDERS_MAX)
        ],
        set_aside=0 if files is None else len(files.waiting),
        inputs_set_aside=[] if files is None else _set_aside(files),
        successions=successions(broker),
        kind_mismatches=list(islice(mismatches(broker), MISMATCHES_MAX)),
    )


def slow_subscribers(server: BrokerServer) -> list[tuple[str, Connection]]:
    """Clients that do not read what they are sent, those with the most bytes waiting first."""
    slow = [(name, connection) for name, connection in server.clients.items() if connection.waiting]
    return sorted(slow, key=lambda item: (-item[1].waiting_bytes, item[0]))


def _publishers(server: BrokerServer) -> tuple[int, list[PublisherStatus]]:
    """How many publishers have a backlog, and the worst of them."""
    count, worst = publisher_backlogs(server.broker, WORST_MAX)
    at_us = now_us()
    return count, [
        PublisherStatus(
            publisher=backlog.publisher,
            local=backlog.is_local,
            unconfirmed=backlog.unconfirmed,
            held=backlog.held,
            oldest_s=age_s(at_us, backlog.oldest_us),
            links=dict(backlog.links[:WORST_MAX]),
            unlisted=backlog.unlisted,
            parked=dict(backlog.parked[:WORST_MAX]),
        )
        for backlog in worst
    ]


def age_s(at_us: int, then_us: int | None) -> float:
    """Seconds since a time, by a clock that may be ahead of this one's; 0 without a time."""
    return 0.0 if then_us is None else max(at_us - then_us, 0) // 1_000 / 1e3


def _set_aside(files: SetAsideFiles) -> list[SetAsideStatus]:
    barred = {entry.digest for entry in files.barred.values()}
    return [
        SetAsideStatus(
            digest=entry.digest,
            origin=str(entry.origin),
            what=entry.what,
            error=entry.error,
            at_us=entry.at_us,
            barred=entry.digest in barred,
        )
        for entry in files.waiting[:SET_ASIDE_MAX]
    ]


def _placeholder(entry: Entry) -> PlaceholderStatus:
    placeholder = entry.placeholder
    assert placeholder is not None
    postponed = placeholder.state is PlaceholderState.POSTPONED
    return PlaceholderStatus(
        client=entry.id.client,
        name=entry.id.name,
        state=placeholder.state.value if postponed else placeholder.kind.value,
        origin=entry.origin.link or "",
        links=sorted(entry.forwarded),
        filter=shortened(str(entry.filter), FILTER_LENGTH_MAX),
    )


def _links(server: BrokerServer, facts: BrokerFacts) -> list[LinkStatus]:
    broker = server.broker
    advertisements, advertisements_sent = _by_link(broker.advertisements)
    subscriptions, subscriptions_sent = _by_link(broker.subscriptions)
    preserved, merged = map(by_link, placeholders(broker))
    backlogs = {backlog.link: backlog for backlog in link_backlogs(broker)}
    at_us = now_us()
    found = []
    for link in facts.links:
        name = link.neighbour
        backlog = backlogs[name]
        connection = server.links.get(name)
        found.append(
            LinkStatus(
                broker=name,
                state=_state(link),
                kind=link.kind.value,
                address="" if connection is None else connection.address,
                listen=link.address,
                missing=link.missing is not None,
                unreachable=list(link.unreachable),
                unconfirmed=backlog.unconfirmed,
                held=backlog.held,
                oldest_s=age_s(at_us, backlog.oldest_us),
                bypassed_s=age_s(at_us, broker.bypassed.get(name)),
                parked=backlog.parked,
                oldest_parked_s=age_s(at_us, backlog.oldest_parked_us),
                waiting=0 if connection is None else connection.waiting_messages,
                waiting_bytes=0 if connection is None else connection.waiting_bytes,
                blocked_s=0.0 if connection is None else round(connection.blocked_s, 3),
                advertisements=advertisements[name],
                subscriptions=subscriptions[name],
                advertisements_sent=advertisements_sent[name],
                subscriptions_sent=subscriptions_sent[name],
                preserved=preserved[name],
                mergers=merged[name],
                behind=_behind(server, name),
            )
        )
    return found


def _state(link: LinkFacts) -> str:
    """A soft link has no tables to compare: what each end does with it the mesh says."""
    if not link.up:
        return "down"
    return "up" if link.open or link.kind is LinkKind.SOFT else "agreeing"


def _mesh(broker: BrokerQueries) -> MeshStatus | None:
    found = broker.mesh()
    if found is None:
        return None
    return MeshStatus(
        delta=broker.config.mesh.delta,
        strategy=found.strategy,
        held=broker.held,
        parked=broker.parked,
        kept_back=list(found.kept_back[:PUBLISHERS_MAX]),
        links=[
            MeshLinkStatus(
                broker=link.broker,
                kind=link.kind,
                use=link.use,
                span=link.span,
                rate=round(link.rate, 3),
                gain=round(link.gain, 3),
                round=list(link.round),
            )
            for link in found.links
        ],
    )


def _by_link(table: Table) -> tuple[Counter[str], Counter[str]]:
    """By link, the number of entries received over it, and of entries sent over it."""
    came = Counter(entry.origin.link for entry in table if entry.origin.link is not None)
    return came, by_link(table)


def _behind(server: BrokerServer, link: str) -> list[BrokerLoad]:
    return [
        BrokerLoad(
            broker=load.broker,
            hops=load.hops,
            publications_in=load.publications_in,
            publications_out=load.publications_out,
            deliveries=load.deliveries,
            queued=load.queued,
        )
        for load in server.broker.loads_behind(link)
    ]
