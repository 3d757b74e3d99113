"""Advertisements: they flood the tree, draw subscriptions, and end after their publications.

Each is announced to every neighbour but the one it came from. It is settled when the flood has been
collected; subscriptions that it draws towards a neighbour go there before the answer does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byway.core.in_flight import InFlight
from byway.core.origin import Origin
from byway.core.tables import Entry, with_link
from byway.core.takeover import schedule_takeover
from byway.model import Filter
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    EntryId,
    Settled,
    Unadvertise,
)

if TYPE_CHECKING:
    from byway.core.routing import Routing


class Advertisements:
    """The rules of the advertisement table of one routing."""

    def __init__(self, routing: Routing) -> None:
        self._routing = routing

    # --- from neighbours -----------------------------------------------------------------------

    def on_advertise(self, link: str, message: Advertise) -> None:
        """A neighbour announces an advertisement."""
        known = self._routing.adverts.get(message.id)
        if known is None:
            self.begin(message.id, message.filter, Origin(link))
        elif known.origin.link == link:
            known.announced += 1  # this one overtook the Unadvertise of the last
            self._routing.adverts.changed(known)
            if known.settled:
                self._routing.outlet.send(link, AdvertisementSettled(message.id))
        else:  # an operator moves a link, or the overlay has a cycle: the first one holds
            self._routing.adverts.alternates.add(message.id, link)
            self._routing.outlet.send(link, AdvertisementSettled(message.id))

    def on_settled(self, link: str, message: AdvertisementSettled) -> None:
        """A neighbour answers that an advertisement is settled behind it."""
        entry = self._routing.adverts.get(message.id)
        if entry is None or link not in entry.awaiting:  # it may have ended meanwhile
            self._routing.outlet.settle_unclaimed(link, message.id)
        else:
            self.answered(entry, link)

    def on_unadvertise(self, link: str, message: Unadvertise, pending: InFlight) -> None:
        """A neighbour withdraws an advertisement."""
        entry = self._routing.adverts.get(message.id)
        if entry is not None and entry.origin.link == link:
            entry.announced -= 1
            self._routing.adverts.changed(entry)
            if not entry.announced:
                self.end(entry, pending)
        else:
            self._routing.adverts.alternates.withdraw(message.id, link)

    # --- coming and going ----------------------------------------------------------------------

    def begin(self, id: EntryId, filter: Filter, origin: Origin) -> Entry:
        """Add an advertisement of a neighbour or a local client, and announce it to all others."""
        entry = self._routing.adverts.add(id, filter, origin)
        for link in self._routing.links:
            if link != origin.link:
                self.forward(entry, link)
        if origin.link is not None:
            self._routing.subscription_rules.advertised(origin.link, filter)
        self.settle(entry)
        return entry

    def forward(self, entry: Entry, link: str) -> None:
        """Announce an advertisement to a neighbour."""
        entry.forwarded = with_link(entry.forwarded, link)
        entry.awaiting[link] = 1
        self._routing.adverts.changed(entry)
        self._routing.outlet.send(link, Advertise(entry.id, entry.filter))

    def end(self, entry: Entry, pending: InFlight, lost: bool = False) -> None:
        """Remove an advertisement that was withdrawn, or whose neighbour is `lost`; `pending` is
        finished when all have heard of it."""
        routing = self._routing
        routing.adverts.remove(entry)
        for link in sorted(entry.forwarded):
            message = Unadvertise(entry.id, entry.filter)
            routing.outlet.send_unadvertise(link, message, pending)
        if entry.origin.link is not None:
            routing.subscription_rules.unadvertised(entry.origin.link, entry.filter)
        if entry.id in routing.adverts.alternates:
            if lost:
                self.promote_alternate(entry.id, entry.filter)
            else:
                schedule_takeover(routing, routing.adverts, entry)

    def promote_alternate(self, id: EntryId, filter: Filter) -> None:
        """Make another neighbour that announces an ended advertisement its origin, if one does."""
        alternate = self._routing.adverts.alternates.promote(id)
        if alternate is not None and self._routing.adverts.get(id) is None:
            origin, announced = alternate
            self.begin(id, filter, origin).announced = announced

    def link_anew(self, link: str) -> None:
        """A neighbour announces anew what it has, each once."""
        for entry in self._routing.adverts:
            if entry.origin.link == link:
                entry.announced = 1
                self._routing.adverts.changed(entry)

    # --- settlement ----------------------------------------------------------------------------

    def answered(self, entry: Entry, link: str) -> None:
        """A neighbour has collected the flood behind it."""
        entry.awaiting.pop(link, None)
        self._routing.adverts.changed(entry)
        self.settle(entry)

    def await_answer(self, id: EntryId, link: str) -> None:
        """An answer is due for an announcement, whatever was answered before."""
        entry = self._routing.adverts.get(id)
        if entry is not None and link in entry.forwarded:
            entry.awaiting[link] = 1
            self._routing.adverts.changed(entry)

    def settle(self, entry: Entry) -> None:
        """Answer to the origin of an advertisement, once, when no answer is awaited any more."""
        if entry.settled or entry.awaiting:
            return
        entry.settled = True
        self._routing.adverts.changed(entry)
        if entry.origin.link is not None:
            self._routing.outlet.send(entry.origin.link, AdvertisementSettled(entry.id))
        else:
            self._routing.outlet.tell(entry.origin.client, Settled(entry.id.name))
