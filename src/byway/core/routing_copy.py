"""A draft of a routing, copied from it in steps while the broker goes on.

Entries are copied a few at a time; what has changed of those that were copied before is copied
again, what was removed is removed from the draft at once. When nothing is left to be copied, the
rest follows in the same step, and the draft is what it would be if it had been copied then in one
go. From that moment on the two have nothing to do with each other: whoever holds the draft changes
it by its rules.

What a draft keeps:

- **Entries** that were not learnt over the links that are left out, with their ids, filters,
  origins and keys, in the same order. An entry that only one of the two has never gets the key of
  another: both take them from the same `Keys`.
- **Where each was forwarded to**, which answers are awaited from there, and which entries follow
  which until then; but nothing of that on links that are left out. Whether the origin was told that
  it is settled: nobody is told twice. One that awaited answers of links that are left out, and of
  no others, is not settled by the copy: whoever holds the draft knows where it has to go.
- **Placeholders** that are forwarded to a link which is kept, wherever they came from.
- **The index of what was sent**, alternate origins, and how far the policy is with retiring and
  merging, as far as it concerns links that are kept.
- **Statistics** of the policy are the same object in both: they are about local subscriptions,
  which both have under the same key, and only the routing in force records them.

An entry that is left out may have quenched others on links that are kept. They are neither
forwarded nor quenched in the draft, until `release` has forwarded them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from byway.core.origin import Origin
from byway.core.tables import Entry, Table
from byway.model import Filter
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.routing import Routing
    from byway.core.routing_outlet import RoutingOutlet

STEP: Final = 500
"""Entries that are copied in one step of a draft: some 10 ms."""
RELEASED: Final = 40
"""Entries that were left out whose release is one step."""
FOLLOWERS_A_UNIT: Final = 10
"""Followers of an entry that are copied in the time of one entry."""

_Links = frozenset[str]


class LeftOut(msgspec.Struct, frozen=True):
    """A subscription that is not in the draft, and was forwarded to links that are kept."""

    filter: Filter
    origin: Origin
    followers: dict[str, list[EntryId]]
    """By link, those that wait for it to be settled there."""


class RoutingCopy:
    """The making of one draft. There may be one at a time of each routing."""

    def __init__(
        self,
        original: Routing,
        outlet: RoutingOutlet,
        *,
        without: Iterable[str] = (),
        joining: Iterable[str] = (),
        leaving: Iterable[str] = (),
    ) -> None:
        """What was learnt over links `without`, or sent there, is not copied. They belong to the
        draft's tree all the same, unless they are `leaving`; `joining` are new in it."""
        self.original = original
        self.without = frozenset(without)
        self._joining, self._leaving = frozenset(joining), frozenset(leaving)
        self.draft = original.empty_draft(outlet)
        self.is_done = False
        """Whether the draft is complete, and no longer follows the original."""
        self.left_out: dict[EntryId, LeftOut] = {}
        """Subscriptions that may have quenched others on links that are kept."""
        self._unreleased: deque[LeftOut] = deque()
        """Those of them that `release` has not looked at yet."""
        self._kept_sets: dict[_Links, _Links] = {}
        self._copiers = (
            _TableCopier(self, original.adverts, self.draft.adverts),
            _SubscriptionsCopier(self, original.subscriptions, self.draft.subscriptions),
            _PlaceholdersCopier(self, original.placeholders, self.draft.placeholders),
        )

    def __repr__(self) -> str:
        waiting = sum(len(copier) for copier in self._copiers)
        state = "complete" if self.is_done else f"{waiting} entries wait"
        return f"<RoutingCopy of {self.original!r}, {state}>"

    def step(self, most: int = STEP) -> bool:
        """Copy up to so many entries; whether the draft is complete."""
        for copier in () if self.is_done else self._copiers:
            most = copier.copy_some(most)
            if len(copier):
                return False
        if not self.is_done:
            self._complete()
        return True

    def abandon(self) -> None:
        """Give the draft up, complete or not."""
        self._stop_watching()
        self.original.keep_keys()

    def _stop_watching(self) -> None:
        self.original.is_watched = False
        for copier in self._copiers:
            watchers = copier.original.watchers
            copier.original.watchers = tuple(one for one in watchers if one is not copier)

    def _complete(self) -> None:
        """Copy what is not by entry."""
        self._stop_watching()
        links = (self.original.links.keys() - self._leaving) | self._joining
        self.draft.links = dict.fromkeys(sorted(links))
        for copier in self._copiers:
            copier.draft.align_with(copier.original)
            copier.draft.alternates.copy_from(copier.original.alternates, self.without)
        self.draft.policy.copy_from(self.original.policy, self.without)
        if self.draft.sent is not None:  # else there is no quenching
            self._unreleased.extend(self.left_out.values())
        self.is_done = True

    def release(self, most: int = RELEASED) -> bool:
        """Forward in the draft what entries that were left out had quenched, as if these had ended:
        up to so many. Whether that was all. One of them takes as long as its end would."""
        assert self.is_done
        for _ in range(min(most, len(self._unreleased))):
            gone = self._unreleased.popleft()
            for link, followers in gone.followers.items():
                self.draft.subscription_rules.release(gone.filter, gone.origin, link, followers)
        return not self._unreleased

    # --- for the copiers -----------------------------------------------------------------------

    def kept(self, links: _Links) -> _Links:
        """Those of a set of links that are kept, as a set that entries share."""
        found = self._kept_sets.get(links)
        if found is None:
            found = self._kept_sets[links] = links - self.without if self.without else links
        return found

    def kept_counts(self, counts: dict[str, int]) -> dict[str, int]:
        """Counts by link, of links that are kept."""
        return {link: count for link, count in counts.items() if link not in self.without}


class _TableCopier:
    """Copies one table, and watches it meanwhile."""

    def __init__(self, copy: RoutingCopy, original: Table, draft: Table) -> None:
        others = original.watchers
        assert not any(isinstance(one, _TableCopier) for one in others), "it is being copied"
        self.original = original
        self.draft = draft
        self._copy = copy
        self._waiting = deque(original)
        """Entries to be copied, or copied again; entries that are not `_due` no more."""
        self._due = set(original)
        original.watchers = (*others, self)
        copy.original.is_watched = True

    def __len__(self) -> int:
        return len(self._due)

    # --- what happens to the original ----------------------------------------------------------

    def added(self, entry: Entry) -> None:
        """Copy it after all others: tables have an order."""
        self.changed(entry)

    def changed(self, entry: Entry) -> None:
        """Copy it again."""
        if entry not in self._due:
            self._due.add(entry)
            self._waiting.append(entry)

    def removed(self, entry: Entry) -> None:
        """Remove it from the draft now: its id may come again, behind all others."""
        self._due.discard(entry)
        twin = self.draft.get(entry.id)
        if twin is not None:
            self._remove(twin)

    # --- what is done to the draft -------------------------------------------------------------

    def copy_some(self, most: int) -> int:
        """Copy up to so many entries; how many more there might be."""
        while self._due and most > 0:
            entry = self._waiting.popleft()
            if entry in self._due:
                self._due.remove(entry)
                if self.original.holds(entry):
                    most -= self._copy_entry(entry)
        return most

    def _copy_entry(self, entry: Entry) -> int:
        """Copy an entry, or copy it again; what it cost, in entries."""
        twin = self.draft.get(entry.id)
        if not self._is_kept(entry):
            if twin is not None:
                self._remove(twin)
            return 1
        if twin is None:
            twin = self.draft.add(entry.id, entry.filter, entry.origin, entry.key)
        elif twin.origin != entry.origin:
            self.draft.move(twin, entry.origin)
        twin.forwarded = self._copy.kept(entry.forwarded)
        if entry.awaiting or twin.awaiting:
            twin.awaiting = self._copy.kept_counts(entry.awaiting)
        if entry.following or twin.following:
            twin.following = self._copy.kept_counts(entry.following)
        twin.settled, twin.announced = entry.settled, entry.announced
        twin.placeholder = entry.placeholder
        return 1

    def _is_kept(self, entry: Entry) -> bool:
        return entry.origin.link not in self._copy.without

    def _remove(self, twin: Entry) -> None:
        self.draft.remove(twin)


class _SubscriptionsCopier(_TableCopier):
    """Copies the subscription table, and who follows whom in it."""

    def _copy_entry(self, entry: Entry) -> int:
        cost = super()._copy_entry(entry)
        twin = self.draft.get(entry.id)
        if twin is None:
            self._note_left_out(entry)
            return cost
        sent = self._copy.draft.sent
        if sent is not None:
            sent.update(twin)
        twin.followers = {}
        for link, followers in entry.followers.items():
            if link not in self._copy.without:
                cost += len(followers) // FOLLOWERS_A_UNIT
                twin.followers[link] = self._twins(followers, lambda: self.changed(entry))
        return cost

    def _note_left_out(self, entry: Entry) -> None:
        """Note what has to be known of an entry that is not kept."""
        holds = self.original.holds
        links = sorted(self._copy.kept(entry.forwarded))
        followers = {
            link: [f.id for f in entry.followers.get(link, ()) if holds(f)] for link in links
        }
        if followers:
            self._copy.left_out[entry.id] = LeftOut(entry.filter, entry.origin, followers)
        else:
            self._copy.left_out.pop(entry.id, None)

    def removed(self, entry: Entry) -> None:
        """Remove it from the draft; it quenches nothing any more if it was left out."""
        super().removed(entry)
        self._copy.left_out.pop(entry.id, None)

    def _twins(self, followers: list[Entry], on_missing: Callable[[], None]) -> list[Entry]:
        """Those that follow in the draft. If some are not copied yet, there is another turn."""
        copy = self._copy
        original, draft = copy.original.subscriptions, copy.draft.subscriptions
        found = []
        for follower in followers:
            if original.holds(follower) and follower.origin.link not in copy.without:
                twin = draft.get(follower.id)
                if twin is None:
                    on_missing()
                else:
                    found.append(twin)
        return found

    def _remove(self, twin: Entry) -> None:
        twin.forwarded = frozenset()
        if self._copy.draft.sent is not None:
            self._copy.draft.sent.update(twin)
        super()._remove(twin)


class _PlaceholdersCopier(_SubscriptionsCopier):
    """Copies placeholders, which stay as long as they are forwarded to a link that is kept."""

    def _is_kept(self, entry: Entry) -> bool:
        return bool(self._copy.kept(entry.forwarded))

    def _note_left_out(self, entry: Entry) -> None:
        """Do nothing: those that are not kept are forwarded to no link that is kept."""

    def removed(self, entry: Entry) -> None:
        """Remove it from the draft."""
        _TableCopier.removed(self, entry)
