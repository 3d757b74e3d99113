"""Subscriptions: where they go, when they are settled, and how they end.

A subscription travels towards neighbours that an intersecting advertisement came from, also when
that comes later. Which ones are sent, the covering policy says. Every Subscribe is answered once,
when it is settled or has ended.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final

from byway.core.actions import Timer
from byway.core.covering import Withdrawals
from byway.core.origin import Origin
from byway.core.tables import Entry, Placeholder, PlaceholderKind, PlaceholderState, Withdrawal
from byway.core.takeover import schedule_takeover
from byway.model import Attributes, Filter
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    EntryId,
    Hint,
    Retire,
    Settled,
    Subscribe,
    SubscribeMany,
    SubscriptionsSettled,
    Unsubscribe,
    in_parts,
    path_of,
    subscribe_along,
)

if TYPE_CHECKING:
    from byway.core.routing import Routing

TIMER: Final = Timer("covering")
HINTED_MAX: Final = 8
"""Ids with hints in one message: with the longest of names it still fits a frame."""
_NONE: Final[Withdrawals] = {}


class Subscriptions:
    """The rules of the subscription table of one routing, and the operations of its policy."""

    def __init__(self, routing: Routing) -> None:
        self._routing = routing

    # --- from neighbours -----------------------------------------------------------------------

    def on_subscribe(self, link: str, message: Subscribe) -> None:
        """A neighbour forwards a subscription."""
        known = self._routing.subscriptions.get(message.id)
        origin = Origin(link, behind=path_of(message))
        if known is None:
            self._end_placeholder(message.id)
            self.begin(message.id, message.filter, origin)
        elif known.origin.link != link:  # an operator moves a link, or the overlay has a cycle
            self._routing.subscriptions.alternates.add(message.id, link, origin.behind)
            self._routing.outlet.answer(link, message.id)
        elif known.origin != origin:
            self.move(known, origin)
        else:
            raise RemoteProtocolError(link, f"subscribes {message.id} again")

    def on_subscribe_many(self, link: str, message: SubscribeMany) -> None:
        """A neighbour forwards several subscriptions in one message."""
        for subscription in message.subscriptions:
            self.on_subscribe(link, subscription)

    def _end_placeholder(self, id: EntryId) -> None:
        """End a placeholder with the id of a new subscription. Ids are not used again; a neighbour
        that does so all the same gets what it asks for."""
        entry = self._routing.placeholders.get(id)
        if entry is not None:
            for link in sorted(entry.forwarded):
                self._routing.policy.on_withdrawn([entry], link, _NONE)

    def on_settled(self, link: str, message: SubscriptionsSettled) -> None:
        """A neighbour says that subscriptions are settled there, or have ended."""
        for id in message.ids:
            entry = self._routing.subscription(id)
            if entry is None or link not in entry.awaiting:  # it may have ended meanwhile
                self._routing.outlet.settle_unclaimed(link, id)
            else:
                self.answered(entry, link)

    def on_unsubscribe(self, link: str, message: Unsubscribe) -> None:
        """A neighbour withdraws subscriptions."""
        withdrawals = {
            id: Withdrawal(message.similarities, hints)
            for id, hints in zip(message.ids, message.hints, strict=False)
        }
        self._take_back(link, message.ids, withdrawals)

    def on_retire(self, link: str, message: Retire) -> None:
        """A neighbour withdraws placeholders that it retires."""
        self._take_back(link, message.ids, dict.fromkeys(message.ids, Withdrawal(retired=True)))

    def _take_back(self, link: str, ids: Sequence[EntryId], withdrawals: Withdrawals) -> None:
        entries = []
        for id in dict.fromkeys(ids):
            entry = self._routing.subscriptions.get(id)
            if entry is not None and entry.origin.link == link:
                entries.append(entry)
            else:
                self._routing.subscriptions.alternates.withdraw(id, link)
        self.end(entries, withdrawals)

    def unsubscribe(self, entries: Sequence[Entry]) -> Withdrawals:
        """A local client unsubscribes. Returns how: what was known of these is forgotten now, so a
        draft has to `end` them like that."""
        policy = self._routing.policy
        withdrawals = {entry.id: policy.withdrawal_of(entry) for entry in entries}
        self.end(entries, withdrawals)
        return withdrawals

    # --- coming and going ----------------------------------------------------------------------

    def begin(self, id: EntryId, filter: Filter, origin: Origin) -> None:
        """Store a new subscription, from a neighbour or a local client, and forward it."""
        entry = self._routing.subscriptions.add(id, filter, origin)
        links = [link for link in self._leads(filter) if link != origin.link]
        self._routing.policy.on_subscribed(entry, links)
        self.settle(entry)

    def move(self, entry: Entry, origin: Origin) -> None:
        """Note that a subscription of a neighbour came another way behind it, and tell those who
        were told the way before. The neighbour gets an answer for each time that it told."""
        if not entry.settled:
            self._routing.outlet.answer(origin.link or "", entry.id)
        before, entry.settled = entry.origin, False
        self._routing.subscriptions.move(entry, origin)
        if self.told_path(before) != self.told_path(origin):
            links = [link for link in self._leads(entry.filter) if link != origin.link]
            self._routing.policy.on_moved(entry, before, links)
        self.settle(entry)

    def tell_path(self, entry: Entry, before: Origin) -> None:
        """A subscription has an origin of another name than `before`: tell those who were told the
        name."""
        if self.told_path(before) != self.told_path(entry.origin):
            entry.settled = False
            links = [link for link in self._leads(entry.filter) if link != entry.origin.link]
            self._routing.policy.on_moved(entry, before, links)
            self.settle(entry)

    def end(
        self, entries: Sequence[Entry], withdrawals: Withdrawals = _NONE, lost: bool = False
    ) -> None:
        """Forget entries, which have ended, or whose neighbour is `lost`; each neighbour gets one
        message for all that it was sent."""
        routing, policy, table = self._routing, self._routing.policy, self._routing.subscriptions
        for entry in entries:
            table.remove(entry)
            if entry.origin.link is not None and not entry.settled:
                routing.outlet.answer(entry.origin.link, entry.id)
        for link in sorted(set().union(*(entry.forwarded for entry in entries))):
            policy.on_withdrawn([e for e in entries if link in e.forwarded], link, withdrawals)
        policy.on_ended(entries)
        for entry in entries if table.alternates.links else ():
            if entry.id in table.alternates:
                if lost:
                    self.promote_alternate(entry.id, entry.filter)
                else:
                    schedule_takeover(routing, table, entry)

    def end_lost(self, entries: Sequence[Entry], lost: bool = False) -> None:
        """Forget entries that a neighbour no longer knows of, or whose neighbour is `lost`."""
        self.end(entries, self._routing.policy.on_lost(entries), lost)

    def prefer(self, link: str, missing: Container[str]) -> None:
        """A neighbour has told all its subscriptions. What it announces comes from there, whatever
        an older state of this broker says of neighbours that are still `missing`, and though
        another one has just said that it has ended."""
        table = self._routing.subscriptions
        pending = table.alternates.pending_takeover
        for id in table.alternates.announced_by(link):
            entry = table.get(id)
            if entry is None and id in pending:
                self.promote_alternate(id, pending.pop(id), link)
            elif entry is not None and entry.origin.link in missing:
                self._change_origin(entry, link)

    def _change_origin(self, entry: Entry, link: str) -> None:
        """Let an alternate origin and the origin of a subscription change places. It goes to the
        one that was its origin, and no longer to the other; all others hear of a new path only."""
        table, policy, before = self._routing.subscriptions, self._routing.policy, entry.origin
        promoted, old = table.alternates.promote(entry.id, link), before.link or ""
        assert promoted is not None, "it does not announce it"
        if link in entry.forwarded:
            policy.on_withdrawn([entry], link, _NONE)
        policy.on_ended([entry])  # for what was forwarded in its place
        table.alternates.add(entry.id, old, before.behind)
        table.move(entry, promoted[0])
        if self.told_path(before) != self.told_path(entry.origin):
            self.tell_path(entry, before)
        elif self.concerns(entry, old):
            policy.on_subscribed(entry, [old])
        self.settle(entry)

    def promote_alternate(self, id: EntryId, filter: Filter, link: str = "") -> None:
        """Make another neighbour that announces an ended subscription its origin, if one does."""
        alternate = self._routing.subscriptions.alternates.promote(id, link)
        if alternate is not None and self._routing.subscriptions.get(id) is None:
            self._end_placeholder(id)
            self.begin(id, filter, alternate[0])

    def release(
        self, filter: Filter, origin: Origin, link: str, followers: Sequence[EntryId]
    ) -> None:
        """Forward what a subscription with this filter and origin, which is not in this routing,
        had quenched on a link. Its `followers` there wait for it no longer."""
        self._routing.policy.on_left_out(filter, origin, link)
        for id in followers:
            follower = self._routing.subscriptions.get(id)
            if follower is not None:
                _count_down(follower.following, link)
                self._routing.changed(follower)
                self.settle(follower)

    def advertised(self, link: str, filter: Filter) -> None:
        """An advertisement came from `link`: subscriptions that it may feed go there."""
        table = self._routing.subscriptions
        wanted = table.by_keys(table.index.intersecting(filter))
        self._routing.policy.on_advertised([e for e in wanted if e.origin.link != link], link)

    def unadvertised(self, link: str, filter: Filter) -> None:
        """An advertisement from `link` is gone: what went there for it alone is taken back."""
        table = self._routing.subscriptions
        touched = table.by_keys(table.index.intersecting(filter))
        idle = [e for e in touched if link in e.forwarded and not self.concerns(e, link)]
        if idle:
            self._routing.policy.on_withdrawn(idle, link, _NONE)
        placeholders = self._routing.placeholders
        for entry in placeholders.by_keys(placeholders.index.intersecting(filter)):
            if link in entry.forwarded and not self.concerns(entry, link):
                self.withdraw([entry], link, None, _NONE)

    def _leads(self, filter: Filter) -> list[str]:
        """Neighbours that an advertisement came from which may feed the filter."""
        adverts = self._routing.adverts
        return adverts.origins(adverts.index.intersecting_advertisements(filter))

    # --- settlement ----------------------------------------------------------------------------

    def settle(self, entry: Entry) -> None:
        """Tell where it came from, once, if nothing is waited for any more."""
        if entry.settled or entry.awaiting or entry.following:
            return
        if not self._routing.outlet.knows_adverts_except(entry.origin.link):
            return
        entry.settled = True
        if self._routing.is_watched:
            self._routing.changed(entry)
        if entry.origin.link is not None:
            self._routing.outlet.answer(entry.origin.link, entry.id)
        else:
            self._routing.outlet.tell(entry.origin.client, Settled(entry.id.name))

    def answered(self, entry: Entry, link: str) -> None:
        """A link has one answer less to give; with the last, those that follow are settled too."""
        _count_down(entry.awaiting, link)
        if self._routing.is_watched:
            self._routing.changed(entry)
        self.settle(entry)
        if link not in entry.awaiting:
            self._release_followers(entry, link)

    def _release_followers(self, entry: Entry, link: str) -> None:
        followers = entry.followers.pop(link, None)
        if followers is None:
            return
        self._routing.changed(entry)
        for follower in followers:
            _count_down(follower.following, link)
            self._routing.changed(follower)
            if self._routing.subscriptions.holds(follower):
                self.settle(follower)

    def settle_all(self) -> None:
        """More is known of where subscriptions have to go than before."""
        for entry in list(self._routing.subscriptions):
            self.settle(entry)

    def link_anew(self, link: str) -> None:
        """Answers that were outstanding there are lost: one is due for what was forwarded."""
        for entry in [*self._routing.subscriptions, *self._routing.placeholders]:
            if link in entry.awaiting:
                self._routing.changed(entry)
                if link in entry.forwarded:
                    entry.awaiting[link] = 1
                else:
                    del entry.awaiting[link]
                    self.settle(entry)

    def await_answer(self, id: EntryId, link: str) -> None:
        """An answer is due for an announcement, whatever was answered before."""
        entry = self._routing.subscription(id)
        if entry is not None and link in entry.forwarded:
            entry.awaiting[link] = max(entry.awaiting.get(link, 0), 1)
            self._routing.changed(entry)

    # --- the operations of a policy ------------------------------------------------------------

    def forward(self, entry: Entry, link: str) -> None:
        """Send a subscription over a link."""
        self._routing.sent_to(entry, link)
        entry.awaiting[link] = entry.awaiting.get(link, 0) + 1
        path = self.told_path(entry.origin)
        self._routing.outlet.send(link, subscribe_along(entry.id, entry.filter, path))

    def quench(self, entry: Entry, quencher: Entry, link: str) -> None:
        """It is settled there when its quencher is."""
        if not entry.settled and link in quencher.awaiting:
            entry.following[link] = entry.following.get(link, 0) + 1
            quencher.followers.setdefault(link, []).append(entry)
            self._routing.changed(entry)
            self._routing.changed(quencher)

    def withdraw(
        self, entries: Sequence[Entry], link: str, quencher: Entry | None, withdrawals: Withdrawals
    ) -> None:
        """Take subscriptions back; answers that are outstanding still come, if they were asked."""
        silent = self._routing.outlet.awaits_digest(link)
        for entry in entries:
            self._routing.taken_from(entry, link)
            if quencher is not None:
                self.quench(entry, quencher, link)
                for follower in entry.followers.get(link, ()):
                    self.quench(follower, quencher, link)
            self._release_followers(entry, link)
            if silent and entry.awaiting.pop(link, 0) and self._routing.subscriptions.holds(entry):
                self.settle(entry)
            if entry.placeholder is not None and not entry.forwarded:
                self._routing.placeholders.remove(entry)
        self._tell_ended(sorted(entries, key=_id), link, withdrawals)

    def _tell_ended(self, entries: Sequence[Entry], link: str, withdrawals: Withdrawals) -> None:
        """Tell a neighbour: one message for placeholders, one for each kind of hints, one for the
        rest."""
        retired, plain = [], []
        hinted: dict[tuple[float, ...], list[tuple[EntryId, tuple[Hint, ...]]]] = {}
        for entry in entries:
            withdrawal = withdrawals.get(entry.id)
            was_placeholder = entry.placeholder is not None
            onward = () if withdrawal is None else self._onward(withdrawal, link)
            if withdrawal.retired if withdrawal is not None else was_placeholder:
                retired.append(entry.id)
                self._routing.outlet.counters.retired += was_placeholder
            elif withdrawal is not None and onward:
                hinted.setdefault(withdrawal.similarities, []).append((entry.id, onward))
            else:
                plain.append(entry.id)
        for part in in_parts(retired) if retired else ():
            self._routing.outlet.send(link, Retire(part))
        for similarities, told in hinted.items():
            for start in range(0, len(told), HINTED_MAX):
                ids, hints = zip(*told[start : start + HINTED_MAX], strict=True)
                self._routing.outlet.send(link, Unsubscribe(ids, similarities, hints))
        for part in in_parts(plain) if plain else ():
            self._routing.outlet.send(link, Unsubscribe(part))

    def _onward(self, withdrawal: Withdrawal, link: str) -> tuple[Hint, ...]:
        """The hints about publishers behind a link, from one hop further on."""
        return tuple(
            Hint(hint.publisher, tuple(max(distance - 1, 0) for distance in hint.distances))
            for hint in withdrawal.hints
            if self.feeds(hint.publisher, link)
        )

    def preserve(self, entry: Entry, placeholder: Placeholder) -> None:
        """Keep a subscription that has ended, for the links it is still forwarded to."""
        if entry.placeholder is None:
            entry.settled = True
            entry.following.clear()
            self._routing.placeholders.adopt(entry)
        self.restate(entry, placeholder)
        self._routing.outlet.counters.preserved += 1

    def restate(self, entry: Entry, placeholder: Placeholder) -> None:
        """Change what becomes of a placeholder."""
        entry.placeholder = placeholder
        self._routing.changed(entry)

    def entry(self, id: EntryId) -> Entry | None:
        """The entry with this id, a subscription or a placeholder."""
        return self._routing.subscription(id)

    def add_merged(self, id: EntryId, filter: Filter, path: tuple[str, ...]) -> Entry:
        """Store a new merged placeholder, which is forwarded nowhere yet. Its parts are told with
        this path."""
        entry = self._routing.placeholders.add(id, filter, Origin(behind=path))
        entry.settled, entry.placeholder = True, Placeholder(PlaceholderState.MERGED)
        return entry

    @property
    def placeholder_count(self) -> int:
        """Number of placeholders of both kinds."""
        return len(self._routing.placeholders)

    def placeholders(self) -> list[Entry]:
        """All placeholders of both kinds, the oldest first."""
        return list(self._routing.placeholders)

    def told_path(self, origin: Origin) -> tuple[str, ...]:
        """The path that neighbours are told for an entry of this origin: as long as, with this
        broker before it, this broker's neighbourhood reaches."""
        reach = self._routing.config.mesh.delta - 1
        return origin.path[:reach] if reach else ()

    def may_quench(self, wide: Origin, origin: Origin) -> bool:
        """Whether an entry of the origin `wide` may quench one of another origin that it covers:
        the path that is told for it is the beginning of the other one's."""
        told = self.told_path(wide)
        return not told or origin.path[: len(told)] == told

    def covering(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions that cover a filter and may quench an entry of this origin."""
        table = self._routing.subscriptions
        return self._that_may_quench(table.by_keys(table.index.covering(filter)), origin)

    def covered_by(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions that a filter covers and an entry of this origin may quench."""
        table = self._routing.subscriptions
        return self._that_it_may_quench(table.by_keys(table.index.covered_by(filter)), origin)

    def sent_covering(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions and placeholders forwarded to any link that cover a filter and may quench
        an entry of this origin."""
        assert self._routing.sent is not None
        return self._that_may_quench(self._routing.sent.covering(filter), origin)

    def sent_covered_by(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions and placeholders forwarded to any link that a filter covers and an entry of
        this origin may quench."""
        assert self._routing.sent is not None
        return self._that_it_may_quench(self._routing.sent.covered_by(filter), origin)

    def _that_may_quench(self, wide: list[Entry], origin: Origin) -> list[Entry]:
        if self._routing.config.mesh.delta == 1:
            return wide
        return [entry for entry in wide if self.may_quench(entry.origin, origin)]

    def _that_it_may_quench(self, narrow: list[Entry], origin: Origin) -> list[Entry]:
        told = self.told_path(origin)
        if not told:
            return narrow
        return [entry for entry in narrow if entry.origin.path[: len(told)] == told]

    def wanted(self, attributes: Attributes, link: str) -> bool:
        """Whether any subscription here matches a publication that came from a link."""
        table = self._routing.subscriptions
        _, matched, _, _ = table.index.match_routes(attributes, table.link_number(link))
        return matched > 0

    def merged_matching(self, attributes: Attributes) -> list[Entry]:
        """Merged placeholders that match a publication."""
        table = self._routing.placeholders
        found = ((e, e.placeholder) for e in table.by_keys(table.index.match(attributes)))
        return [e for e, p in found if p is not None and p.kind is PlaceholderKind.MERGED]

    @property
    def broker(self) -> tuple[str, int]:
        """The name and incarnation of the broker."""
        return self._routing.outlet.broker

    def feeds(self, publisher: str, link: str) -> bool:
        """Whether a publisher's advertisements came from a link."""
        return link in self._routing.adverts.links_of(publisher)

    def count_triggered(self, count: int) -> None:
        """Count subscriptions that were forwarded because another one went."""
        self._routing.outlet.counters.triggered += count

    def wake(self, after_us: int) -> None:
        """Set the policy's timer."""
        self._routing.set_timer(TIMER, after_us)

    @property
    def now_us(self) -> int:
        """The time of the input that is handled."""
        return self._routing.outlet.now_us

    def concerns(self, entry: Entry, link: str) -> bool:
        """Whether an advertisement that came from a link may feed an entry from elsewhere."""
        return entry.origin.link != link and link in self._leads(entry.filter)


def _id(entry: Entry) -> EntryId:
    return entry.id


def _count_down(counts: dict[str, int], link: str) -> None:
    left = counts.pop(link, 1) - 1
    if left > 0:
        counts[link] = left
