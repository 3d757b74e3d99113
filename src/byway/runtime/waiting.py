"""What a broker waits for: neighbours whose tables are missing, and brokers that have not settled
the advertisements and subscriptions of local clients. It reports; it changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from byway.clock import now_us
from byway.core.broker import Broker
from byway.core.sync_state import Missing
from byway.core.tables import Entry
from byway.model.messages import EntryId
from byway.model.status import MissingTables, UnsettledEntry

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer

log = logging.getLogger("byway.waiting")

UNSETTLED_MAX: Final = 200
"""Entries that a status lists; all are counted."""
NOT_LISTED: Final = "neighbours that are not listed"
"""In the place of their names, until they connect; see `core.unlisted_wait`."""
NAMES_MAX: Final = 20
"""Brokers that one line of the log names."""


class Waiting:
    """What one broker process waits for, and since when."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server
        self._since_us: dict[str, int] = {}
        """By neighbour whose tables are missing, when that was first observed."""
        self._unsettled: set[EntryId] = set()
        """Entries that were not settled at the last report."""
        self._is_reported = False
        """Whether the last report in the log named something to wait for."""

    def look(self) -> None:
        """Observe whose tables are missing now."""
        missing, at_us = self._server.broker.missing, now_us()
        if missing.keys() != self._since_us.keys():
            self._since_us = {name: self._since_us.get(name, at_us) for name in missing}

    def missing(self) -> list[MissingTables]:
        """The neighbours whose tables are missing, by name."""
        self.look()
        missing = self._server.broker.missing
        return [
            MissingTables(
                broker=name or NOT_LISTED,
                lacks="everything" if missing[name] is Missing.ALL else "subscriptions",
                since=_moment(self._since_us[name]),
            )
            for name in sorted(missing)
        ]

    # --- the log -------------------------------------------------------------------------------

    async def report(self) -> None:
        """Report in the log at intervals what is waited for, and once that nothing is."""
        while True:
            self.look()
            await asyncio.sleep(self._server.settings.limits.report_ms / 1e3)
            self.tell()

    def tell(self) -> None:
        """Report now, without entries that did not exist at the last report."""
        broker = self._server.broker
        missing = self.missing()
        found = {entry.id: entry for entry in broker.unsettled()}
        stuck = [entry for id, entry in found.items() if id in self._unsettled]
        self._unsettled = set(found)
        if missing:
            oldest = min(tables.since for tables in missing)
            why = ": it restarts without its last state" if broker.is_restarting else ""
            names = _named([tables.broker for tables in missing])
            log.warning("waits for the tables of %s (since %s)%s", names, oldest, why)
        if stuck:
            names = _named(sorted({name for e in stuck for name in waited_for(broker, e)}))
            log.warning("%s not settled: waits for %s", _counted(broker, stuck), names)
        if missing or stuck:
            self._is_reported = True
        elif self._is_reported:
            self._is_reported = False
            log.info("waits for nobody any more")


def unsettled_entries(broker: Broker) -> tuple[int, list[UnsettledEntry]]:
    """The number of unsettled entries, and the first of them with the brokers they wait for."""
    entries = list(broker.unsettled())
    told = [
        UnsettledEntry(
            client=entry.id.client,
            name=entry.id.name,
            kind=_kind(broker, entry),
            brokers=waited_for(broker, entry),
        )
        for entry in islice(entries, UNSETTLED_MAX)
    ]
    return len(entries), told


def waited_for(broker: Broker, entry: Entry) -> list[str]:
    """The brokers that have not settled an entry: those that cannot be reached behind its links,
    where they are known, else the neighbours themselves."""
    links = {*entry.awaiting, *entry.following}
    if _kind(broker, entry) == "subscription":
        missing = broker.missing  # nobody knows where it has to go
        links |= {n for n, lacks in missing.items() if lacks is Missing.ALL}
    if entry.origin.link is not None:
        links.discard(entry.origin.link)
    names = {name for link in links for name in broker.unreachable_behind(link) or (link,)}
    return sorted(name or NOT_LISTED for name in names)


def _kind(broker: Broker, entry: Entry) -> str:
    return "advertisement" if broker.advertisements.get(entry.id) is entry else "subscription"


def _counted(broker: Broker, entries: list[Entry]) -> str:
    kinds = Counter(_kind(broker, entry) for entry in entries)
    parts = [f"{count:,} {kind}{'s' * (count > 1)}" for kind, count in sorted(kinds.items())]
    return f"{' and '.join(parts)} of clients {'are' if len(entries) > 1 else 'is'}"


def _named(names: list[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more:,} more" if more > 0 else "")


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
