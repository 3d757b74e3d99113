"""Routing: both tables, what was sent of them, the covering policy, and their rules, as one unit.

A broker has one routing in force, and may hold a draft beside it (`Context`). Everything that has
to change together when links are exchanged is here: the links of the tree, the entries, where each
was forwarded to, the placeholders, the index of what was sent, and the policy with its statistics.
Whoever needs a table, a policy or a rule asks for the routing in force at the moment of use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from byway.core.actions import Timer
from byway.core.advertisements import Advertisements
from byway.core.broker_config import BrokerConfig
from byway.core.covering import Covering, make_policy
from byway.core.in_flight import unowned
from byway.core.link_numbers import LinkNumbers
from byway.core.origin import Origin
from byway.core.routing_copy import RoutingCopy
from byway.core.routing_outlet import RoutingOutlet
from byway.core.subscriptions import Subscriptions
from byway.core.tables import Entry, Sent, Table, with_link, without_link
from byway.core.takeover import schedule_pending
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    EntryId,
    Message,
    Retire,
    Subscribe,
    SubscribeAlong,
    SubscribeMany,
    SubscriptionsSettled,
    Unsubscribe,
)


class Routing:
    """The routing of one broker over one set of tree links."""

    def __init__(
        self,
        config: BrokerConfig,
        outlet: RoutingOutlet,
        adverts: Table,
        subscriptions: Table,
        placeholders: Table,
    ) -> None:
        """The tables are empty."""
        self.config = config
        self.outlet = outlet
        self.links: dict[str, None] = {}
        """The links of the tree, in the order of their names."""
        self.adverts = adverts
        self.subscriptions = subscriptions
        self.placeholders = placeholders
        """Subscriptions that ended, and stand for others on links that do not know it."""
        self.sent: Sent | None = None if config.covering == "none" else Sent()
        """Subscriptions of both tables that are forwarded anywhere; None where no policy looks for
        covering."""
        self.advertisement_rules = Advertisements(self)
        self.subscription_rules = Subscriptions(self)
        self.policy: Covering = make_policy(self.subscription_rules, config)
        self.observer = self.policy.observer
        """The object that observes publications for the policy, if there is one."""
        self.handlers = self._message_handlers()
        """By kind, what takes a message of a neighbour that changes a routing. (An `Unadvertise`
        does too, on the data lane.)"""
        self.is_watched = False
        """Whether a draft is being copied from it, and `changed` has to be called."""

    @classmethod
    def empty(cls, config: BrokerConfig, numbers: LinkNumbers, outlet: RoutingOutlet) -> Routing:
        """A routing without links and entries."""
        return cls(config, outlet, Table(numbers), Table(numbers), Table())

    def _message_handlers(self) -> dict[type, Callable[[str, Any], None]]:
        adverts, subscriptions = self.advertisement_rules, self.subscription_rules
        return {
            Advertise: adverts.on_advertise,
            AdvertisementSettled: adverts.on_settled,
            Subscribe: subscriptions.on_subscribe,
            SubscribeAlong: subscriptions.on_subscribe,
            SubscribeMany: subscriptions.on_subscribe_many,
            SubscriptionsSettled: subscriptions.on_settled,
            Unsubscribe: subscriptions.on_unsubscribe,
            Retire: subscriptions.on_retire,
        }

    def on_message(self, link: str, message: Message) -> None:
        """Take a message of one of these kinds from a neighbour."""
        self.handlers[type(message)](link, message)

    def __repr__(self) -> str:
        return (
            f"<Routing over {len(self.links)} links: {len(self.adverts)} advertisements, "
            f"{len(self.subscriptions)} subscriptions, {len(self.placeholders)} placeholders>"
        )

    # --- drafts --------------------------------------------------------------------------------

    def empty_draft(self, outlet: RoutingOutlet) -> Routing:
        """A routing without links and entries. An entry that it will have in common with
        this one will have the same key."""
        tables = (table.draft() for table in (self.adverts, self.subscriptions, self.placeholders))
        draft = Routing(self.config, outlet, *tables)
        if self.sent is not None:
            draft.sent = self.sent.draft()
            draft.subscriptions.index.serve_relations()  # what it leaves out has to be released
        return draft

    def copy(self, outlet: RoutingOutlet) -> Routing:
        """A draft of all of this routing, copied in one go; `RoutingCopy` makes others."""
        copy = RoutingCopy(self, outlet)
        while not copy.step():
            pass
        return copy.draft

    def keep_keys(self) -> None:
        """There is no draft beside this routing any more: keys that it does not use are free."""
        for table in (self.adverts, self.subscriptions, self.placeholders):
            table.keys.keep_only(table)

    def dissolve(self, most: int) -> bool:
        """Forget up to so many entries of this routing, which nobody uses any more; whether it has
        none left. To forget all at once takes time for each."""
        self.sent = None
        for table in (self.adverts, self.subscriptions, self.placeholders):
            most = table.dissolve(most)
            if len(table):
                return False
        vars(self).clear()  # rules and policy refer to it: without this it waits for the collector
        return True

    def put_in_force(self, outlet: RoutingOutlet) -> None:
        """This draft takes the place of the routing in force, and sends what follows from its
        rules where that one did."""
        self.outlet = outlet
        self.keep_keys()
        self.policy.on_put_in_force()
        schedule_pending(self)

    # --- links ---------------------------------------------------------------------------------

    def add_link(self, link: str) -> None:
        """Add a link to the tree."""
        self.links[link] = None
        self.links = dict(sorted(self.links.items()))

    def remove_link(self, link: str) -> None:
        """Take a link out of the tree; `end_link` has ended what came and went over it."""
        self.links.pop(link, None)

    def replace_link(self, old: str, new: str) -> list[tuple[Entry, Origin]]:
        """Give a link of the tree another name. Returns the subscriptions that came over it, with
        the origins that they had."""
        self.remove_link(old)
        self.add_link(new)
        moved = [(entry, entry.origin) for entry in self.subscriptions.came_from(old)]
        for table in (self.adverts, self.subscriptions, self.placeholders):
            table.alternates.replace_link(old, new)
            for entry in table:
                _replace_link(entry, old, new)
                table.changed(entry)
        return moved

    def end_link(self, link: str) -> None:
        """End what came over a link, and note that nothing is forwarded there any more."""
        self.remove_alternates(link)
        self._end_entries_from(link)
        self._withdraw_from(link)

    def remove_alternates(self, link: str) -> None:
        """A neighbour no longer announces anything that has its origin elsewhere."""
        self.adverts.alternates.remove_link(link)
        self.subscriptions.alternates.remove_link(link)

    def _end_entries_from(self, link: str) -> None:
        """End the subscriptions and advertisements that came over a link."""
        ended = self.subscriptions.came_from(link)
        self.subscription_rules.end_lost(ended, lost=True)  # ids may come back another way
        pending = unowned()
        for entry in self.adverts.came_from(link):
            self.advertisement_rules.end(entry, pending, lost=True)

    def _withdraw_from(self, link: str) -> None:
        """Note that nothing is forwarded over a link any more, and that no answer will come."""
        for entry in self.adverts:
            entry.forwarded = without_link(entry.forwarded, link)  # `answered` tells of it
            self.advertisement_rules.answered(entry, link)
        for entry in [*self.subscriptions, *self.placeholders]:
            self.taken_from(entry, link)
            while link in entry.awaiting:
                self.subscription_rules.answered(entry, link)
            if entry.placeholder is not None and not entry.forwarded:
                self.placeholders.remove(entry)

    # --- entries -------------------------------------------------------------------------------

    def subscription(self, id: EntryId) -> Entry | None:
        """The subscription or placeholder with this id."""
        return self.subscriptions.get(id) or self.placeholders.get(id)

    def sent_to(self, entry: Entry, link: str) -> None:
        """Note that a subscription is forwarded to a link."""
        entry.forwarded = with_link(entry.forwarded, link)
        if self.is_watched:
            self.changed(entry)
        if self.sent is not None:
            self.sent.update(entry)

    def taken_from(self, entry: Entry, link: str) -> None:
        """Note that a subscription is no longer forwarded to a link."""
        entry.forwarded = without_link(entry.forwarded, link)
        if self.is_watched:
            self.changed(entry)
        if self.sent is not None:
            self.sent.update(entry)

    def changed(self, entry: Entry) -> None:
        """Note that something of a subscription or placeholder has changed."""
        table = self.subscriptions if entry.placeholder is None else self.placeholders
        for watcher in table.watchers:
            watcher.changed(entry)

    # --- timers --------------------------------------------------------------------------------

    def set_timer(self, timer: Timer, after_us: int) -> None:
        """Have the broker handle a timer after a while."""
        self.outlet.set_timer(timer, self.outlet.now_us + after_us)


def _replace_link(entry: Entry, old: str, new: str) -> None:
    """Give a link another name in all that an entry says of it."""
    if entry.origin.link == old:
        entry.origin = Origin(new, entry.origin.client, entry.origin.behind)
    if old in entry.forwarded:
        entry.forwarded = with_link(without_link(entry.forwarded, old), new)
    for counts in (entry.awaiting, entry.following):
        if old in counts:
            counts[new] = counts.pop(old)
    if old in entry.followers:
        entry.followers[new] = entry.followers.pop(old)
