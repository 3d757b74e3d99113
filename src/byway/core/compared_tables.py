"""What follows when two neighbours have compared their tables.

`table_sync` decides what to ask and to tell, and knows when a comparison has ended; this part gives
its results to the rules of the tables and to publications: what has ended, what is settled, which
neighbours a broker had that it does not know, and what was kept for a neighbour in vain. Links are
not its business; what it learns of them it tells `neighbours`.
"""

from __future__ import annotations

from typing import Final

from byway.core.actions import SetTimer, Timer
from byway.core.context import Context
from byway.core.in_flight import unowned
from byway.core.neighbours import Neighbours
from byway.core.publications import Publications
from byway.core.recovery import Recovery
from byway.core.successions import Successions
from byway.core.table_sync import TableSync
from byway.model.messages import (
    Advertise,
    AdvertisementsSynced,
    NeighbourNames,
    SubscriptionsSynced,
    SyncDigest,
)

RECHECKED_MAX: Final = 2_048
"""Publications kept for neighbours whose tables were missing that are rechecked at a time."""
RECHECK_TIMER: Final = Timer("recheck")


class ComparedTables:
    """Results of the comparison of tables, at one broker."""

    def __init__(
        self,
        context: Context,
        recovery: Recovery,
        sync: TableSync,
        publications: Publications,
        successions: Successions,
        neighbours: Neighbours,
    ) -> None:
        self._context = context
        self._recovery = recovery
        self._sync = sync
        self._waiting_copies = publications.waiting_copies
        self._successions = successions
        self._neighbours = neighbours

    def on_digest(self, link: str, message: SyncDigest) -> None:
        """A neighbour says what it holds, and names neighbours that this broker had."""
        self._sync.check_digest(link, message)
        is_first = link not in self._recovery.compared_with
        unknown = self._sync.unknown_neighbours(link, message)
        self._waiting_copies.copy_to_missing_again()
        for name in unknown:
            if name != self._context.name:
                self._neighbours.learn(name)
        if is_first and message.neighbours:
            self._neighbours.on_named()
        self._sync.on_digest(link, message)

    def on_names(self, link: str, message: NeighbourNames) -> None:
        """A neighbour names its own neighbours."""
        self._sync.on_neighbour_names(link, message)
        self._waiting_copies.copy_to_missing_again()

    def on_advertisements_synced(self, link: str, message: AdvertisementsSynced) -> None:
        """A neighbour has sent its advertisements: those that it names have ended."""
        routing, pending = self._context.routing, unowned()
        for id in message.ended:
            entry = routing.adverts.get(id)
            if entry is not None and entry.origin.link == link:
                routing.advertisement_rules.end(entry, pending)
        if not message.partial:
            self._sync.on_advertisements_synced(link, message.provisional)

    def on_subscriptions_synced(self, link: str, message: SubscriptionsSynced) -> None:
        """A neighbour has sent its subscriptions: those that it names have ended, and data may go
        there."""
        table, rules = self._context.routing.subscriptions, self._context.routing.subscription_rules
        entries = [table.get(id) for id in dict.fromkeys(message.ended)]
        rules.end_lost([e for e in entries if e is not None and e.origin.link == link])
        for id in message.ended:
            table.alternates.end(id, link)
        if not message.partial and not message.provisional and self._recovery.missing:
            rules.prefer(link, self._recovery.missing)
        if not message.partial:
            self._sync.on_subscriptions_synced(link, message.provisional)

    def settle(self) -> None:
        """Settle what the comparison of tables showed to be settled."""
        routing = self._context.routing
        if self._recovery.progressed:
            self._recovery.progressed = False
            routing.subscription_rules.settle_all()
        settled = self._sync.settled
        while settled:
            kind, id, link = settled.popleft()
            if kind is Advertise:
                entry, answered = routing.adverts.get(id), routing.advertisement_rules.answered
            else:
                entry, answered = routing.subscription(id), routing.subscription_rules.answered
            if entry is not None and link in entry.awaiting:
                answered(entry, link)

    def recheck(self) -> None:
        """Neighbours are no longer missing: drop what was kept for them in vain, so many
        publications at a time. The recheck timer lets this go on when nothing else happens."""
        rechecking, out, room = self._recovery.rechecking, self._context.out, RECHECKED_MAX
        copies = self._waiting_copies
        for link in sorted(rechecking):
            looked_at, rechecking[link] = copies.recheck(
                link, rechecking[link], room, self._successions.lose
            )
            room -= looked_at
            if rechecking[link] == len(self._context.copies.links[link]):
                self._sync.on_rechecked(link)
            if room <= 0:
                out.do(SetTimer(RECHECK_TIMER, self._context.now_us))
                break
        self._successions.end()
