"""Neighbours: how a broker gains and loses them, and what follows when a link goes up or down.

It decides what is done with everything that came from a neighbour, or was to go there, when the
neighbour is added, removed, connected or disconnected. How two neighbours compare their tables is
the business of `table_sync`; this part gives its results to the tables' rules and to publications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from byway.core.actions import CloseLink, OpenLink, Send, SetTimer, Timer
from byway.core.behaviours import Behaviour
from byway.core.context import Context
from byway.core.cycles import Cycles
from byway.core.in_flight import unowned
from byway.core.inputs import LinkDown, LinkUp, NeighbourAdded, NeighbourRemoved
from byway.core.links import UNLISTED, LinkEnd
from byway.core.publications import Publications
from byway.core.reachability import Reachability
from byway.core.recovery import Recovery
from byway.core.table_sync import TableSync
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    CONTROL,
    DATA,
    Advertise,
    AdvertisementsSynced,
    Disconnect,
    NeighbourNames,
    Publish,
    SubscriptionsSynced,
    SyncDigest,
)
from byway.model.trace_schema import DropReason, LinkChange

RECHECKED_MAX: Final = 2_048
"""Publications kept for neighbours whose tables were missing that are rechecked at a time."""
RECHECK_TIMER: Final = Timer("recheck")


class Neighbours:
    """The neighbours of one broker."""

    def __init__(
        self,
        context: Context,
        recovery: Recovery,
        sync: TableSync,
        publications: Publications,
        reachability: Reachability,
        behaviours: Mapping[str, Behaviour],
    ) -> None:
        self._context = context
        self._recovery = recovery
        self._sync = sync
        self._publications = publications
        self._reachability = reachability
        self._behaviours = behaviours
        self.cycles = Cycles(context, self.disconnect)

    def end(self, link: str) -> LinkEnd:
        """This broker's end of a link. Raises `RemoteProtocolError` for one that is none."""
        end = self._context.ends.get(link)
        if end is None:
            raise RemoteProtocolError(link, f"is no neighbour of {self._context.name}")
        return end

    # --- gained --------------------------------------------------------------------------------

    def add(self, link: str) -> None:
        """Add a neighbour that the broker was told of when it began."""
        self._context.add_link(link)
        self._sync.add_link(link)

    def on_added(self, event: NeighbourAdded) -> None:
        """An operator adds a neighbour."""
        link = event.neighbour
        if link in self._context.ends or link == self._context.name:
            return
        self._learn(link)
        self._context.out.do(OpenLink(link))

    def _learn(self, link: str) -> None:
        """Add a neighbour that the broker was not told of when it began."""
        self.add(link)
        self._recovery.expect(link)
        if link in self._recovery.missing:
            self._publications.waiting_copies.copy_to(link)
        routing = self._context.routing
        for entry in routing.adverts:
            routing.advertisement_rules.forward(entry, link)
        self._sync.send_names_to_all()

    # --- lost ----------------------------------------------------------------------------------

    def on_removed(self, event: NeighbourRemoved) -> None:
        """An operator removes a neighbour."""
        if event.neighbour in self._context.ends:
            self.disconnect(event.neighbour, "it is no neighbour any more")

    def disconnect(self, link: str, reason: str) -> None:
        """Remove a neighbour and send it the reason."""
        end = self._context.ends[link]
        farewell = end.post(CONTROL, [Disconnect(reason)])
        if farewell is not None:
            self._context.count_sent(link, farewell)
            self._context.out.do(Send(link, farewell))
        self._remove(link, reason)

    def on_disconnect(self, link: str, message: Disconnect) -> None:
        """A neighbour has removed this broker."""
        self._remove(link, message.reason)

    def stop_waiting_for_unlisted(self) -> None:
        """Neighbours that are not listed had their time to connect."""
        if UNLISTED in self._context.ends:
            self._remove(UNLISTED, "")

    def _remove(self, link: str, reason: str) -> None:
        context = self._context
        context.routing.end_link(link)
        for pending in context.unconfirmed.pop(link):
            context.finish(pending)
        end = context.ends.pop(link)
        context.routing.remove_link(link)
        context.numbers.release(link)
        if link != UNLISTED:  # what was kept for that one was kept in case
            for message in end.sent[DATA].kept:
                if isinstance(message, Publish):
                    self._publications.drop(message, DropReason.LINK_LOST, link)
        context.out.forget_link(link)
        if end.up:
            self._link_went_down(link, LinkChange.CLOSED)
        self._sync.remove_link(link)
        self._reachability.on_link_changed(link)
        if link != UNLISTED:
            context.out.do(CloseLink(link, reason))

    # --- connections ---------------------------------------------------------------------------

    def on_link_up(self, event: LinkUp) -> None:
        """A neighbour is connected: both ends resume, or count from 1 and compare tables."""
        link, context = event.link, self._context
        try:
            end = self.end(link)
            meeting = end.meet(event.hello, event.said)
        except RemoteProtocolError as error:
            self.distrust(link, error)
            return
        if event.hello.knows not in (0, context.incarnation):
            self._sync.on_restart_detected()  # it has numbers of an earlier life of this broker
        if meeting.resumed:
            self._publications.confirmed(link, meeting.confirmed)
            for batch in meeting.again:
                context.count_sent(link, batch)
                context.out.do(Send(link, batch))
            context.out.touched[link] = None  # what was confirmed since our greeting is news
            self._sync.on_link_resumed(link)
        else:
            context.out.forget_control(link)  # of earlier inputs of the same batch
            self._sync.on_link_reset(link)
            context.routing.subscription_rules.link_anew(link)
        self.cycles.on_link_up(link)
        self._reachability.on_link_changed(link, reset=not meeting.resumed)
        context.trace.link_changed(
            context.now_us, link, LinkChange.RESUMED if meeting.resumed else LinkChange.OPENED
        )
        for behaviour in self._behaviours.values():
            behaviour.on_link_up(link)

    def on_link_down(self, event: LinkDown) -> None:
        """The connection to a neighbour is gone; nothing is forgotten."""
        end = self._context.ends.get(event.link)
        if end is None or not end.up:
            return
        end.lost()
        self._link_went_down(event.link, LinkChange.LOST)

    def _link_went_down(self, link: str, change: LinkChange) -> None:
        self.cycles.on_link_down(link)
        self._reachability.on_link_changed(link)
        self._context.trace.link_changed(self._context.now_us, link, change)
        for behaviour in self._behaviours.values():
            behaviour.on_link_down(link)

    def distrust(self, link: str, error: RemoteProtocolError) -> None:
        """Close the connection of a peer that broke the rules, and nothing else."""
        end = self._context.ends.get(link)
        if end is not None:
            end.distrusted()
            self._link_went_down(link, LinkChange.CLOSED)
        self._context.out.do(CloseLink(link, error.reason))

    # --- tables --------------------------------------------------------------------------------

    def on_digest(self, link: str, message: SyncDigest) -> None:
        """A neighbour says what it holds, and names neighbours that this broker had."""
        self._sync.check_digest(link, message)
        unknown = self._sync.unknown_neighbours(link, message)
        self.copy_to_missing_again()
        for name in unknown:
            if name != self._context.name:
                self._learn(name)
        self._sync.on_digest(link, message)

    def on_names(self, link: str, message: NeighbourNames) -> None:
        """A neighbour names its own neighbours."""
        self._sync.on_neighbour_names(link, message)
        self.copy_to_missing_again()

    def copy_to_missing_again(self) -> None:
        """Copy what waits for missing neighbours to those that are missing again."""
        links, self._recovery.missing_again = self._recovery.missing_again, []
        for link in links:
            self._publications.waiting_copies.copy_to(link)

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
        routing = self._context.routing
        entries = [routing.subscriptions.get(id) for id in dict.fromkeys(message.ended)]
        ended = [e for e in entries if e is not None and e.origin.link == link]
        routing.subscription_rules.end_lost(ended)
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
        copies = self._publications.waiting_copies
        for link in sorted(rechecking):
            lanes, end = out.messages.get(link), self._context.ends[link]
            if lanes is not None and not end.open:
                end.post(DATA, lanes[DATA])  # of the same call of `handle`; not sent: not open
                lanes[DATA].clear()
            looked_at, rechecking[link] = copies.recheck(link, rechecking[link], room)
            room -= looked_at
            if rechecking[link] == len(self._context.unconfirmed[link]):
                self._sync.on_rechecked(link)
            if room <= 0:
                out.do(SetTimer(RECHECK_TIMER, self._context.now_us))
                return
