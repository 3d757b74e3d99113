"""Looks at a broker process and tells how it is. It changes nothing."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from byway._version import __version__
from byway.core.broker_status import BrokerFacts
from byway.core.placeholders import by_link, placeholders
from byway.core.tables import Entry, PlaceholderState, Table
from byway.model.errors import shortened
from byway.model.status import (
    BrokerLoad,
    BrokerStatus,
    LinkStatus,
    PlaceholderStatus,
    SetAsideStatus,
)
from byway.runtime.waiting import unsettled_entries
from byway.storage.set_aside import SetAsideFiles

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer

PLACEHOLDERS_MAX: Final = 200
"""Placeholders that are listed."""
SET_ASIDE_MAX: Final = 100
"""Inputs that were set aside that are listed."""
FILTER_LENGTH_MAX: Final = 1_000
"""Characters of a filter that are told."""


def status_of(server: BrokerServer) -> BrokerStatus:
    """How a broker is now."""
    broker = server.broker
    statistics = broker.policy.statistics
    preserved, mergers = placeholders(broker)
    aside = server.driver.aside
    unsettled, entries = unsettled_entries(broker)
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
        queued=server.driver.waiting,
        links=_links(server, facts),
        covering=broker.policy.name,
        preserved=len(preserved),
        mergers=len(mergers),
        statistics=0 if statistics is None else len(statistics),
        restarting=facts.restarting,
        missing=server.waiting.missing(),
        away=list(facts.unreachable),
        unsettled=unsettled,
        unsettled_entries=entries,
        held=facts.held_deliveries,
        placeholders=[
            _placeholder(entry) for entry in islice(broker.placeholders, PLACEHOLDERS_MAX)
        ],
        set_aside=0 if aside is None else len(aside.waiting),
        inputs_set_aside=[] if aside is None else _set_aside(aside),
    )


def _set_aside(aside: SetAsideFiles) -> list[SetAsideStatus]:
    barred = {entry.digest for entry in aside.barred.values()}
    return [
        SetAsideStatus(
            digest=entry.digest,
            origin=str(entry.origin),
            what=entry.what,
            error=entry.error,
            at_us=entry.at_us,
            barred=entry.digest in barred,
        )
        for entry in aside.waiting[:SET_ASIDE_MAX]
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
    preserved, mergers = map(by_link, placeholders(broker))
    found = []
    for link in facts.links:
        name = link.neighbour
        connection = server.links.get(name)
        found.append(
            LinkStatus(
                broker=name,
                state=("up" if link.open else "agreeing") if link.up else "down",
                address="" if connection is None else connection.address,
                missing=link.missing is not None,
                unreachable=list(link.unreachable),
                unconfirmed=link.unconfirmed,
                waiting=0 if connection is None else connection.waiting_messages,
                waiting_bytes=0 if connection is None else connection.waiting_bytes,
                advertisements=advertisements[name],
                subscriptions=subscriptions[name],
                advertisements_sent=advertisements_sent[name],
                subscriptions_sent=subscriptions_sent[name],
                preserved=preserved[name],
                mergers=mergers[name],
                behind=_behind(server, name),
            )
        )
    return found


def _by_link(table: Table) -> tuple[Counter[str], Counter[str]]:
    """How many entries came over each link, and how many were sent over it."""
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
