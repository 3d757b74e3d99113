"""Looks at a broker process and tells how it is. It changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

from byway._version import __version__
from byway.core.behaviours import LoadExchange
from byway.core.tables import Table
from byway.runtime.status import BrokerLoad, BrokerStatus, LinkStatus

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer


def status_of(server: BrokerServer) -> BrokerStatus:
    """How a broker is now."""
    broker = server.broker
    return BrokerStatus(
        broker=broker.name,
        version=__version__,
        incarnation=broker.context.incarnation,
        listen=str(server.address or server.settings.listen),
        clients=len(server.clients),
        sessions_away=sum(not client.attached for client in broker.clients.all.values()),
        advertisements=len(broker.advertisements),
        subscriptions=len(broker.subscriptions),
        queued=server.driver.waiting,
        links=_links(server),
    )


def _links(server: BrokerServer) -> list[LinkStatus]:
    broker = server.broker
    advertisements, advertisements_sent = _by_link(broker.advertisements)
    subscriptions, subscriptions_sent = _by_link(broker.subscriptions)
    found = []
    for name, end in broker.context.ends.items():
        connection = server.links.get(name)
        found.append(
            LinkStatus(
                broker=name,
                state=("up" if end.open else "agreeing") if end.up else "down",
                address="" if connection is None else connection.address,
                unconfirmed=len(broker.context.unconfirmed[name]),
                waiting=0 if connection is None else connection.waiting_messages,
                waiting_bytes=0 if connection is None else connection.waiting_bytes,
                advertisements=advertisements[name],
                subscriptions=subscriptions[name],
                advertisements_sent=advertisements_sent[name],
                subscriptions_sent=subscriptions_sent[name],
                behind=_behind(server, name),
            )
        )
    return found


def _by_link(table: Table) -> tuple[Counter[str], Counter[str]]:
    """How many entries came over each link, and how many were sent over it."""
    came = Counter(entry.origin.link for entry in table if entry.origin.link is not None)
    went = Counter(link for entry in table for link in entry.forwarded)
    return came, went


def _behind(server: BrokerServer, link: str) -> list[BrokerLoad]:
    exchange = server.broker.behaviours.get(LoadExchange.name)
    if exchange is None:
        return []
    known = cast(LoadExchange, exchange).known.get(link, {})
    loads = sorted(known.values(), key=lambda load: (load.hops, load.broker))
    return [
        BrokerLoad(
            broker=load.broker,
            hops=load.hops,
            publications_in=load.publications_in,
            publications_out=load.publications_out,
            deliveries=load.deliveries,
            queued=load.queued,
        )
        for load in loads
    ]
