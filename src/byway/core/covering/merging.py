"""Merging: on a link, one filter in the place of several that differ in a single attribute.

An add-on of the policies that quench. It merges a few filters at a time, on the policy's timer. A
*merged* placeholder quenches its parts as any entry does that covers them, and is merged further
like any other. A perfect one matches just what its parts match. Another one may match more, as far
as the share of unwanted publications stays within a bound: estimated from what publications are
like when it is made, for all that it was merged from and not only for the two last, and counted on
publications from then on. When a part ends, or too much of what it matches is unwanted, it is made
anew from what is left, or retired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from byway.core.covering.add_on import AddOn
from byway.core.covering.partners import Partners, PartnersState, may_merge
from byway.core.covering.policy import PublicationObserver
from byway.core.covering.retirement import Budget
from byway.core.covering.samples import Samples
from byway.core.origin import Origin
from byway.core.tables import Entry, Placeholder, PlaceholderKind, PlaceholderState
from byway.model import Attributes, Filter, Value
from byway.model.filter_merging import Merge, Share, even_share, merge, merge_exactly, share_of
from byway.model.filters import FILTER_BYTES_MAX, covers
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.covering.active import Active

PARTS_MAX: Final = 64
"""Entries that one placeholder may be merged from. It may come to cover more."""
REMERGED_MAX: Final = 256
"""Entries that a placeholder is made anew from; if it quenches more, it is retired."""
BATCH: Final = 20
"""Placeholders made, and taken back, in one step where nothing is ever retired."""
NEW_MAX: Final = 65_536
"""Forwarded entries that wait to be merged; beyond, the oldest are forgotten."""
TRIES_MAX: Final = 256
"""Filters that one filter is tried with before it is left alone."""
BYTES_MAX: Final = FILTER_BYTES_MAX
"""Encoded size of a merged filter."""
REFUSED_MAX: Final = 1_024
"""Filters that matched too much and are not made again; beyond, the oldest may be."""
OBSERVED_EVERY: Final = 8
"""One publication out of this many is sampled."""
OBSERVED_MIN: Final = 20
"""Publications that a placeholder must have matched to be judged."""
OBSERVED_MAX: Final = 80
"""When a placeholder has matched this many publications, its counts are halved."""

_encode = msgspec.msgpack.Encoder().encode


class Score(msgspec.Struct, array_like=True):
    """How many of the lately sampled publications a placeholder matched."""

    seen: float = 0.0
    unwanted: float = 0.0

    def count(self, unwanted: bool) -> None:
        """Count one more publication that it matched."""
        if self.seen >= OBSERVED_MAX:
            self.seen, self.unwanted = self.seen / 2, self.unwanted / 2
        self.seen += 1
        self.unwanted += unwanted


class MergedPart(msgspec.Struct, frozen=True, eq=False):
    """A filter that may be merged: an entry's, or one that is not sent yet."""

    filter: Filter
    weight: int = 1
    """How many filters it was merged from."""
    unwanted: float = 0.0
    """The share of what it matches that none of these matches."""
    entries: tuple[Entry, ...] = ()
    """The entries in whose place it may be forwarded."""
    path: tuple[str, ...] = ()
    """The path that all of them are told with."""


class MergingState(msgspec.Struct, array_like=True):
    """What of a `Merging` survives a restart."""

    made: int
    observed: int
    new: list[tuple[EntryId, str]]
    changed: list[EntryId]
    partners: PartnersState[EntryId]
    parts: list[tuple[EntryId, int]]
    scores: list[tuple[EntryId, Score]]
    refused: list[Filter]
    unwanted: list[tuple[EntryId, float]]
    samples: list[tuple[str, list[dict[str, Value]]]]


class MergedLeftovers(AddOn):
    """Has the merged placeholders retired that a broker made before merging was switched off."""

    def __init__(self, policy: Active) -> None:
        self._policy = policy

    def on_started(self) -> None:
        """Have all merged placeholders retired."""
        for entry in self._merged():
            self._retire(entry)

    @property
    def has_work(self) -> bool:
        """Whether some are retiring that `step` has to withdraw."""
        return not self._policy.config.retire_batch and bool(self._retiring())

    def step(self, budget: Budget) -> None:
        """Withdraw a few that are retiring at once, where the policy retires nothing."""
        del budget
        if not self._policy.config.retire_batch:
            for entry in self._retiring()[:BATCH]:
                for link in sorted(entry.forwarded):
                    self._policy.on_withdrawn([entry], link, {})

    def _retire(self, entry: Entry) -> None:
        self._policy.ops.restate(entry, Placeholder(PlaceholderState.MERGED_RETIRING))

    def _merged(self) -> list[Entry]:
        """All merged placeholders, the oldest first."""
        return [entry for entry in self._policy.ops.placeholders() if _is_merged(entry)]

    def _retiring(self) -> list[Entry]:
        return [entry for entry in self._merged() if _is_leaving(entry)]


class Merging(MergedLeftovers):
    """Makes the merged placeholders of one broker, and keeps them up to date."""

    makes = frozenset({PlaceholderKind.MERGED})

    def __init__(self, policy: Active) -> None:
        super().__init__(policy)
        self._unwanted_max = policy.config.merging_false_positives
        self._made = 0
        self._observed = 0
        self._new: deque[tuple[EntryId, str]] = deque(maxlen=NEW_MAX)
        """Entries that were forwarded over a link and not yet tried with others there."""
        self._changed: dict[EntryId, None] = {}
        """Placeholders that may have lost a part."""
        self._partners: Partners[EntryId] = Partners(
            self._weight_of, PARTS_MAX, exact=not self._unwanted_max
        )
        self._parts: dict[EntryId, int] = {}
        """By placeholder, how many filters it was merged from."""
        self._unwanted: dict[EntryId, float] = {}
        """By placeholder, the estimated share that none of its parts matches, if there is any."""
        self._samples = Samples()
        self._scores: dict[EntryId, Score] = {}
        self._refused: dict[Filter, None] = {}

    def on_started(self) -> None:
        """Number new placeholders after those that stand."""
        self._made = max(self._made, *(entry.id.number for entry in self._merged()), 0)

    # --- what happens --------------------------------------------------------------------------

    @property
    def observer(self) -> PublicationObserver:
        """The object that counts publications for merged placeholders: this one."""
        return self

    @property
    def has_work(self) -> bool:
        """Whether placeholders have to be updated, or entries may be merged."""
        return self._is_due or super().has_work

    @property
    def _is_due(self) -> bool:
        return bool(self._changed or (self._new and self._policy.has_room))

    def on_forwarded(self, entry: Entry, link: str) -> None:
        """Remember an entry that was sent over a link, to merge it in the next step."""
        if may_merge(entry.filter):
            self._partners.forget(entry.id, link)
            self._new.append((entry.id, link))
            if self._policy.has_room:
                self._policy.stay_awake()

    def on_ended(self, entries: Sequence[Entry]) -> None:
        """Remember placeholders that quenched entries which have ended. On the link that an entry
        came from, none does."""
        if self._is_due:
            self._policy.stay_awake()
        for entry in entries if self._parts else ():
            self._may_have_lost(entry.filter, entry.origin)

    def on_moved(self, entry: Entry, before: Origin) -> None:
        """Remember placeholders that quenched an entry as it came before."""
        if self._parts:
            self._may_have_lost(entry.filter, before)

    def _may_have_lost(self, filter: Filter, origin: Origin) -> None:
        for wide in self._policy.ops.sent_covering(filter, origin):
            if _is_merged(wide) and wide.forwarded - {origin.link}:
                self._changed[wide.id] = None
                self._policy.stay_awake()

    def observes(self) -> bool:
        """Whether to sample this publication; to be called once for each."""
        self._observed += 1
        return self._unwanted_max > 0 and self._observed % OBSERVED_EVERY == 0

    def observe(self, attributes: Attributes, link: str) -> None:
        """Count a publication that came over a link for the placeholders that match it."""
        self._samples.record(link, attributes)
        ops = self._policy.ops
        matching = [e for e in ops.merged_matching(attributes) if _may_merge_at(e, link)]
        if not matching:
            return
        unwanted = not ops.wanted(attributes, link)
        for entry in matching:
            score = self._scores.setdefault(entry.id, Score())
            score.count(unwanted)
            if score.seen >= OBSERVED_MIN and score.unwanted > self._unwanted_max * score.seen:
                self._refuse(entry)

    def _refuse(self, entry: Entry) -> None:
        """Have a placeholder that matches too much withdrawn, and do not make it again."""
        if entry.filter not in self._refused:
            if len(self._refused) >= REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
            self._refused[entry.filter] = None
        self._changed[entry.id] = None
        self._policy.stay_awake()

    # --- on the timer --------------------------------------------------------------------------

    def step(self, budget: Budget) -> None:
        """Update placeholders that changed, then merge what is new, as far as the budget allows."""
        self._merge_within(budget if self._policy.config.retire_batch else Budget(BATCH))
        super().step(budget)

    def _merge_within(self, budget: Budget) -> None:
        ops = self._policy.ops
        while budget and self._changed:
            id = next(iter(self._changed))
            del self._changed[id]
            merged = ops.entry(id)
            if merged is not None and not _is_leaving(merged):
                self._update(merged, budget)
        while budget and self._new and self._policy.has_room:
            id, link = self._new.popleft()
            entry = ops.entry(id)
            if entry is not None and _may_merge_at(entry, link):
                self._merge(entry, link, budget)
        self._forget_gone()

    def _merge(self, entry: Entry, link: str, budget: Budget) -> None:
        """Merge an entry with all that it can be merged with, or remember it for others."""
        grown = self._part(entry)
        while True:
            near = self._partners.near(grown.filter, link, grown.weight, grown.path)
            known = (self._policy.ops.entry(id) for id in near)
            others = (self._part(e) for e in known if e is not None and e not in grown.entries)
            best = self._best(grown, others, link, PARTS_MAX, budget)
            if best is None:
                break
            _, grown = best
        if len(grown.entries) > 1:
            self._replace(grown, link)
            budget.forwards -= 1
        else:
            self._partners.add(entry.id, entry.filter, link, grown.path)

    def _part(self, entry: Entry) -> MergedPart:
        weight, unwanted = self._parts.get(entry.id, 1), self._unwanted.get(entry.id, 0.0)
        path = self._policy.ops.told_path(entry.origin)
        return MergedPart(entry.filter, weight, unwanted, (entry,), path)

    def _weight_of(self, id: EntryId, link: str) -> int | None:
        entry = self._policy.ops.entry(id)
        return self._parts.get(id, 1) if entry is not None and _may_merge_at(entry, link) else None

    def _found_by(self, id: EntryId) -> tuple[Filter, tuple[str, ...]] | None:
        ops = self._policy.ops
        entry = ops.entry(id)
        return None if entry is None else (entry.filter, ops.told_path(entry.origin))

    def _best(
        self, part: MergedPart, others: Iterable[MergedPart], link: str, most: int, budget: Budget
    ) -> tuple[MergedPart, MergedPart] | None:
        """Which of the others to merge a part with, and the part they become: one with which it
        matches no more than before, else the one that adds the smallest unwanted share."""
        best: tuple[float, MergedPart, MergedPart] | None = None
        budget.examined -= len(part.filter.conjunctions)
        for other in islice(others, TRIES_MAX):
            budget.examined -= len(part.filter.conjunctions)
            found = self._joined(part, other, link, most)
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], other, found[1])
                if not found[0]:
                    break
        return None if best is None else best[1:]

    def _joined(
        self, a: MergedPart, b: MergedPart, link: str, most: int
    ) -> tuple[float, MergedPart] | None:
        """The part that two become, and the unwanted share that it adds; None: they may not be
        merged, or one of them covers the other."""
        if a.weight + b.weight > most or a.path != b.path:
            return None
        share: Share = even_share
        exactly = merge_exactly(a.filter, b.filter)
        if exactly is not None:
            found = Merge(exactly, True, 0.0)
        elif self._unwanted_max and _is_one(a, b):
            share = self._samples.share(link, a.filter, b.filter)
            found = merge(a.filter, b.filter, share)
        else:
            return None
        if found.filter in (a.filter, b.filter) or not _may_replace(found.filter, a, b):
            return None
        before = max(a.unwanted, b.unwanted)
        if a.unwanted != b.unwanted and _is_one(a, b):  # else the larger share is an upper bound
            parts = [(share_of(p.filter, found.filter, share), p.unwanted) for p in (a, b)]
            whole = sum(of for of, _ in parts)
            before = min(before, sum(of * v for of, v in parts) / whole) if whole else before
        unwanted = found.volume + (1.0 - found.volume) * before
        if unwanted > self._unwanted_max or (unwanted and found.filter in self._refused):
            return None
        return found.volume, MergedPart(
            found.filter, a.weight + b.weight, unwanted, a.entries + b.entries, a.path
        )

    def _replace(self, part: MergedPart, link: str) -> Entry:
        """Forward a new placeholder, and withdraw what it covers."""
        self._made += 1
        broker, incarnation = self._policy.ops.broker
        id = EntryId(f"merge@{broker}", str(self._made), incarnation, self._made)
        merged = self._policy.ops.add_merged(id, part.filter, part.path)
        self._note(id, part)
        self._policy.forward(merged, link)
        self._policy.replace_covered(merged, [link])
        return merged

    def _note(self, id: EntryId, part: MergedPart) -> None:
        """Remember what a placeholder was merged from; what it matches is counted anew."""
        self._forget(id)
        self._parts[id] = part.weight
        if part.unwanted:
            self._unwanted[id] = part.unwanted

    def _forget(self, id: EntryId) -> None:
        for known in (self._parts, self._unwanted, self._scores):
            known.pop(id, None)

    def _forget_gone(self) -> None:
        """Forget what is known of placeholders that are withdrawn everywhere."""
        for id in [id for id in self._parts if self._policy.ops.entry(id) is None]:
            self._forget(id)

    def _update(self, entry: Entry, budget: Budget) -> None:
        """Make a placeholder anew from what it quenches now, or have it retired."""
        policy = self._policy
        for link in sorted(entry.forwarded):
            release = policy.release_of(entry, link)
            budget.examined -= 1 + len(release.forwarded)
            whole = self._merged_all(entry, release.forwarded, link, budget)
            if whole is not None and covers(whole.filter, entry.filter):
                self._note(entry.id, whole)
                self._new.append((entry.id, link))  # with fewer parts it may be merged again
            elif whole is not None:
                budget.forwards -= 1
                merged = self._replace(whole, link)
                policy.ops.withdraw([entry], link, merged, {})
                release.forwarded = []  # the new placeholder quenches them
                release.quenched = [
                    (e, q) for e, q in release.quenched if q.placeholder is not None
                ]
                policy.carry_out(release, link)
            elif policy.config.retire_batch:
                self._retire(entry)
                self._forget(entry.id)
            else:
                policy.on_withdrawn([entry], link, {})

    def _merged_all(
        self, gone: Entry, entries: Sequence[Entry], link: str, budget: Budget
    ) -> MergedPart | None:
        """One part in place of all entries, which a placeholder had quenched, if that may be.
        Whatever has its path and merges is merged; in the end one must cover the rest."""
        told, path = self._policy.ops.told_path, gone.origin.path
        parts = [e for e in entries if told(e.origin) == path]
        if not 1 < len(parts) <= REMERGED_MAX or len(entries) > REMERGED_MAX:
            return None
        merged: dict[int, MergedPart] = {}
        partners: Partners[int] = Partners(
            lambda number, _: merged[number].weight if number in merged else None,
            REMERGED_MAX,
            exact=not self._unwanted_max,
        )
        waiting = [MergedPart(e.filter, entries=(e,), path=path) for e in reversed(parts)]
        for number in count():
            if not waiting:
                break
            part = waiting.pop()
            near = (merged[n] for n in partners.near(part.filter, link, part.weight))
            best = self._best(part, near, link, REMERGED_MAX, budget)
            if best is None:
                merged[number] = part
                partners.add(number, part.filter, link)
            else:
                other, grown = best
                del merged[next(n for n, known in merged.items() if known is other)]
                waiting.append(grown)
        whole = _covering_all(list(merged.values()))
        others = (e for e in entries if told(e.origin) != path)
        if whole is None or not all(covers(whole.filter, e.filter) for e in others):
            return None
        return whole

    # --- drafts --------------------------------------------------------------------------------

    def copy_from(self, other: Any, without: frozenset[str]) -> None:
        """Go on like another one on all links but those `without`. What is known of placeholders
        that are not here is forgotten in the next step, as of those that have gone."""
        self._made, self._observed = other._made, other._observed
        self._new.extend((id, link) for id, link in other._new if link not in without)
        self._changed = dict(other._changed)
        self._partners.copy_from(other._partners, without)
        self._parts, self._unwanted = dict(other._parts), dict(other._unwanted)
        self._scores = {id: Score(s.seen, s.unwanted) for id, s in other._scores.items()}
        self._refused = dict(other._refused)
        self._samples.copy_from(other._samples, without)

    # --- restarts ------------------------------------------------------------------------------

    def snapshot(self) -> MergingState:
        """What is known of placeholders and of publications, and what is left to do."""
        return MergingState(
            self._made,
            self._observed,
            list(self._new),
            list(self._changed),
            self._partners.snapshot(),
            list(self._parts.items()),
            list(self._scores.items()),
            list(self._refused),
            list(self._unwanted.items()),
            self._samples.snapshot(),
        )

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` returned before a restart."""
        kept = msgspec.convert(state, MergingState)
        self._made, self._observed = kept.made, kept.observed
        self._new.extend(kept.new)
        self._changed = dict.fromkeys(kept.changed)
        self._parts, self._unwanted = dict(kept.parts), dict(kept.unwanted)
        self._partners.restore(kept.partners, self._found_by)
        self._scores, self._refused = dict(kept.scores), dict.fromkeys(kept.refused)
        self._samples.restore(kept.samples)


def add_on_for(policy: Active) -> AddOn:
    """Merging, or what deals with merged placeholders where merging is switched off."""
    return Merging(policy) if policy.config.merging else MergedLeftovers(policy)


def _is_merged(entry: Entry) -> bool:
    return entry.placeholder is not None and entry.placeholder.kind is PlaceholderKind.MERGED


def _is_leaving(entry: Entry) -> bool:
    """Whether it is a preserved placeholder or a retiring one: neither is merged any more."""
    placeholder = entry.placeholder
    return placeholder is not None and placeholder.state is not PlaceholderState.MERGED


def _may_merge_at(entry: Entry, link: str) -> bool:
    """Whether an entry is forwarded to the link, to stay there."""
    return link in entry.forwarded and not _is_leaving(entry)


def _is_one(*parts: MergedPart) -> bool:
    """Whether all parts are filters without OR."""
    return all(len(part.filter.conjunctions) == 1 for part in parts)


def _may_replace(filter: Filter, *parts: MergedPart) -> bool:
    """Whether a filter may be sent in place of parts: it covers each, as far as can be told, and
    fits in a frame with many others."""
    return len(_encode(filter)) <= BYTES_MAX and all(covers(filter, p.filter) for p in parts)


def _covering_all(parts: Sequence[MergedPart]) -> MergedPart | None:
    """The part that covers all others, if there is one."""
    for part in parts:
        if all(covers(part.filter, other.filter) for other in parts):
            return part
    return None
