"""The operator's view of a broker's clients: who is there, what they subscribe to, and how one is
disconnected.

This module decides what an answer has, in which order, and where it is cut. Listing changes
nothing. Answers take time in proportion to their rows, not to the tables.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING

from byway.core.broker_status import SessionFacts
from byway.core.tables import Entry
from byway.model.errors import shortened
from byway.runtime.client_reports import (
    FILTER_LENGTH_MAX,
    ROWS_MAX,
    ClientDetail,
    ClientList,
    ClientReport,
    Disconnected,
    EntryReport,
    SubscriptionList,
)
from byway.runtime.commands import CommandError, text_of
from byway.runtime.http_answers import Facts

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer

log = logging.getLogger("byway.commands")


async def list_clients(server: BrokerServer, facts: Facts) -> ClientList:
    """The clients that are connected or whose session is kept, in the order in which their sessions
    began."""
    totals = server.broker.session_totals()
    sessions = islice(server.broker.each_session(), _limit(facts))
    return ClientList(
        broker=server.settings.id,
        total=totals.sessions,
        connected=totals.attached,
        clients=[_client(server, session) for session in sessions],
    )


async def show_client(server: BrokerServer, facts: Facts) -> ClientDetail:
    """One client, with what it advertises and subscribes to."""
    session = _session(server, facts)
    return ClientDetail(
        broker=server.settings.id,
        client=_client(server, session),
        entries=list(islice(_held(server, session.client), _limit(facts))),
    )


async def list_subscriptions(server: BrokerServer, facts: Facts) -> SubscriptionList:
    """The subscriptions of one client, of all clients here, or of the whole table with those that
    neighbours have sent; the oldest first."""
    broker, limit = server.broker, _limit(facts)
    entries: Iterable[Entry]
    if "client" in facts:
        session = _session(server, facts)
        total, entries = session.subscriptions, broker.subscriptions_of(session.client)
    elif facts.get("all") is True:
        total, entries = len(broker.subscriptions), iter(broker.subscriptions)
    else:
        total, entries = broker.local_subscriptions, broker.each_local_subscription()
    found = islice(_entries(entries, "subscription"), limit)
    return SubscriptionList(broker=server.settings.id, total=total, subscriptions=list(found))


async def disconnect(server: BrokerServer, facts: Facts) -> Disconnected:
    """Close the connection of a client. With `end_session` its session ends too, if it has one, and
    the client is told not to come back."""
    session = _session(server, facts)
    name, ends = session.client, facts.get("end_session") is True
    if not session.attached and not ends:
        reason = (
            f"{name} is not connected to {server.settings.id}; its session is kept for it "
            "(--end-session ends it)"
        )
        raise CommandError(HTTPStatus.CONFLICT, reason)
    server.client_connections.disconnect(name, "an operator disconnected this client", ends)
    ended = ends or not session.ttl_us
    report = Disconnected(
        broker=server.settings.id,
        client=name,
        was_connected=session.attached,
        session_ended=ended,
        kept_s=0.0 if ended else session.ttl_us / 1e6,
        may_return=not ends,
        subscriptions=session.subscriptions,
        advertisements=session.entries - session.subscriptions,
        deliveries=session.kept,
    )
    log.warning(
        "client %s is disconnected by an operator; its session %s",
        name,
        "has ended" if ended else "is kept",
    )
    return report


def _session(server: BrokerServer, facts: Facts) -> SessionFacts:
    name = text_of(facts, "client")
    session = server.broker.session(name)
    if session is None:
        reason = f"no client of {server.settings.id} is called {name}"
        raise CommandError(HTTPStatus.NOT_FOUND, reason)
    return session


def _limit(facts: Facts) -> int:
    limit = facts.get("limit", ROWS_MAX)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= ROWS_MAX:
        reason = f"expected a number from 1 to {ROWS_MAX} as 'limit', found {limit!r}"
        raise CommandError(HTTPStatus.BAD_REQUEST, reason)
    return limit


def _client(server: BrokerServer, session: SessionFacts) -> ClientReport:
    name = session.client
    connection = server.clients.get(name)
    requests, _ = server.driver.inbox.requests.waiting_from(name)
    return ClientReport(
        client=name,
        connected=session.attached,
        address="" if connection is None else connection.address,
        incarnation=session.incarnation,
        session_ttl_s=session.ttl_us / 1e6,
        subscriptions=session.subscriptions,
        advertisements=session.entries - session.subscriptions,
        published=session.sequence,
        kept=session.kept,
        kept_bytes=session.kept_bytes,
        waiting=0 if connection is None else connection.waiting_messages,
        waiting_bytes=0 if connection is None else connection.waiting_bytes,
        blocked_s=0.0 if connection is None else round(connection.blocked_s, 3),
        requests=requests,
        dropped=server.client_connections.slow_drops.get(name, 0),
    )


def _held(server: BrokerServer, client: str) -> Iterable[EntryReport]:
    yield from _entries(server.broker.advertisements_of(client), "advertisement")
    yield from _entries(server.broker.subscriptions_of(client), "subscription")


def _entries(entries: Iterable[Entry], kind: str) -> Iterable[EntryReport]:
    for entry in entries:
        yield EntryReport(
            client=entry.id.client,
            name=entry.id.name,
            kind=kind,
            link=entry.origin.link or "",
            settled=entry.settled,
            filter=shortened(str(entry.filter), FILTER_LENGTH_MAX),
        )
