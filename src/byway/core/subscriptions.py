"""Subscriptions: where they go, when they are settled, and how they end.

A subscription travels towards neighbours that an intersecting advertisement came from, also when
that comes later. Which ones are sent, the covering policy says. Every Subscribe is answered once,
when it is settled or has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.agreement import Agreement
from byway.core.context import Context
from byway.core.covering import POLICIES
from byway.core.tables import Entry, Origin, with_link, without_link
from byway.model import Filter
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    EntryId,
    Settled,
    Subscribe,
    SubscriptionsSettled,
    Unsubscribe,
)


class Subscriptions:
    """The subscription table's rules, and the moves of its covering policy."""

    def __init__(self, context: Context, agreement: Agreement) -> None:
        self._context = context
        self._agreement = agreement
        self.policy = POLICIES[context.config.covering](self)

    # --- from neighbours -----------------------------------------------------------------------

    def on_subscribe(self, link: str, message: Subscribe) -> None:
        """A neighbour subscribes."""
        known = self._context.subscriptions.get(message.id)
        if known is None:
            self.begin(message.id, message.filter, Origin(link))
        elif known.origin.link == link:
            raise RemoteProtocolError(link, f"subscribes {message.id} again")
        else:  # an operator moves a link, or the overlay has a cycle: the first one holds
            self._context.subscriptions.claim(message.id, link)
            self._context.out.answer(link, message.id)

    def on_settled(self, link: str, message: SubscriptionsSettled) -> None:
        """A neighbour answers."""
        for id in message.ids:
            entry = self._context.subscriptions.get(id)
            if entry is None or link not in entry.awaiting:  # it may have ended meanwhile
                self._agreement.settled(link, id)
            else:
                self.answered(entry, link)

    def on_unsubscribe(self, link: str, message: Unsubscribe) -> None:
        """A neighbour takes back what it subscribed."""
        entries = []
        for id in dict.fromkeys(message.ids):
            entry = self._context.subscriptions.get(id)
            if entry is not None and entry.origin.link == link:
                entries.append(entry)
            else:
                self._context.subscriptions.disclaim(id, link)
        self.end(entries)

    # --- coming and going ----------------------------------------------------------------------

    def begin(self, id: EntryId, filter: Filter, origin: Origin) -> None:
        """A new subscription, from a neighbour or a local client."""
        entry = self._context.subscriptions.add(id, filter, origin)
        links = [link for link in self._leads(filter) if link != origin.link]
        self.policy.arrived(entry, links)
        self.settle(entry)

    def end(self, entries: Sequence[Entry], lost: bool = False) -> None:
        """Forget entries, which have ended, or whose neighbour is `lost`; each neighbour gets one
        message for all that it was sent."""
        context = self._context
        for entry in entries:
            context.subscriptions.remove(entry)
            if entry.origin.link is not None and not entry.settled:
                context.out.answer(entry.origin.link, entry.id)
        for link in sorted(set().union(*(entry.forwarded for entry in entries))):
            self.policy.left([e for e in entries if link in e.forwarded], link)
        for entry in entries if context.subscriptions.claims else ():
            if entry.id in context.subscriptions.claims:
                if lost:
                    self.inherit(entry.id, entry.filter)
                else:
                    context.take_back(context.subscriptions, entry)

    def inherit(self, id: EntryId, filter: Filter) -> None:
        """Another neighbour that tells of an ended subscription is its origin now."""
        heir = self._context.subscriptions.heir(id)
        if heir is not None and self._context.subscriptions.get(id) is None:
            self.begin(id, filter, Origin(heir[0]))

    def advertised(self, link: str, filter: Filter) -> None:
        """An advertisement came from `link`: subscriptions that it may feed go there."""
        table = self._context.subscriptions
        wanted = table.by_keys(table.index.intersecting(filter))
        self.policy.concerned([e for e in wanted if e.origin.link != link], link)

    def unadvertised(self, link: str, filter: Filter) -> None:
        """An advertisement from `link` is gone: what went there for it alone is taken back."""
        table = self._context.subscriptions
        touched = table.by_keys(table.index.intersecting(filter))
        idle = [e for e in touched if link in e.forwarded and not self.concerns(e, link)]
        if idle:
            self.policy.left(idle, link)

    def _leads(self, filter: Filter) -> list[str]:
        """Neighbours that an advertisement came from which may feed the filter."""
        adverts = self._context.adverts
        return adverts.origins(adverts.index.intersecting_advertisements(filter))

    # --- settlement ----------------------------------------------------------------------------

    def settle(self, entry: Entry) -> None:
        """Tell where it came from, once, if nothing is waited for any more."""
        if entry.settled or entry.awaiting or entry.following:
            return
        if not self._agreement.knows_adverts_but(entry.origin.link):
            return
        entry.settled = True
        if entry.origin.link is not None:
            self._context.out.answer(entry.origin.link, entry.id)
        else:
            self._context.out.tell(entry.origin.client, Settled(entry.id.name))

    def answered(self, entry: Entry, link: str) -> None:
        """A link has one answer less to give; with the last, those that follow are settled too."""
        _count_down(entry.awaiting, link)
        self.settle(entry)
        if link not in entry.awaiting:
            self._release_followers(entry, link)

    def _release_followers(self, entry: Entry, link: str) -> None:
        for follower in entry.followers.pop(link, ()):
            _count_down(follower.following, link)
            if self._context.subscriptions.holds(follower):
                self.settle(follower)

    def settle_all(self) -> None:
        """More is known of where subscriptions have to go than before."""
        for entry in list(self._context.subscriptions):
            self.settle(entry)

    def link_anew(self, link: str) -> None:
        """Answers that were outstanding there are lost: one is due for what was forwarded."""
        for entry in list(self._context.subscriptions):
            if link in entry.awaiting:
                if link in entry.forwarded:
                    entry.awaiting[link] = 1
                else:
                    del entry.awaiting[link]
                    self.settle(entry)

    # --- the moves of a policy -----------------------------------------------------------------

    def forward(self, entry: Entry, link: str) -> None:
        """Send a subscription over a link."""
        entry.forwarded = with_link(entry.forwarded, link)
        entry.awaiting[link] = entry.awaiting.get(link, 0) + 1
        self._agreement.tell(link, Subscribe(entry.id, entry.filter))

    def quench(self, entry: Entry, quencher: Entry, link: str) -> None:
        """It is settled there when its quencher is."""
        if not entry.settled and link in quencher.awaiting:
            entry.following[link] = entry.following.get(link, 0) + 1
            quencher.followers.setdefault(link, []).append(entry)

    def withdraw(self, entries: Sequence[Entry], link: str, quencher: Entry | None) -> None:
        """Take subscriptions back; answers that are outstanding still come, if they were asked."""
        silent = self._agreement.is_silent(link)
        for entry in entries:
            entry.forwarded = without_link(entry.forwarded, link)
            if quencher is not None:
                self.quench(entry, quencher, link)
                for follower in entry.followers.get(link, ()):
                    self.quench(follower, quencher, link)
            self._release_followers(entry, link)
            if silent and entry.awaiting.pop(link, 0) and self._context.subscriptions.holds(entry):
                self.settle(entry)
        ids = tuple(sorted(entry.id for entry in entries))
        self._agreement.tell(link, Unsubscribe(ids))

    def covering(self, filter: Filter) -> list[Entry]:
        """Entries that cover a filter."""
        table = self._context.subscriptions
        return table.by_keys(table.index.covering(filter))

    def covered_by(self, filter: Filter) -> list[Entry]:
        """Entries that a filter covers."""
        table = self._context.subscriptions
        return table.by_keys(table.index.covered_by(filter))

    def concerns(self, entry: Entry, link: str) -> bool:
        """Whether an entry is wanted beyond a link."""
        return entry.origin.link != link and link in self._leads(entry.filter)


def _count_down(counts: dict[str, int], link: str) -> None:
    left = counts.pop(link, 1) - 1
    if left > 0:
        counts[link] = left
