"""Merging: on a link, one filter in the place of several that differ in a single attribute.

Done in quiet times, a few at a time. The *merger* is an entry that is nobody's: it quenches its
parts as any entry does that covers them, and is merged further like any other. A perfect one lets
through just what its parts do. Another one may let through more, as far as the share that nobody
wants stays within a budget: estimated from what publications are like when it is made, for all
that it stands for and not only for the two that it joins, and counted on publications from then on.
When a part ends, or too much comes in vain, it is made anew from what is left, or retired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Final

import msgspec

from byway.core.covering.partners import Partners, PartnersState, may_merge
from byway.core.covering.retirement import Budget
from byway.core.covering.samples import Samples
from byway.core.tables import Entry, Withdrawal
from byway.model import Attributes, Filter, Value
from byway.model.filter_merging import Merge, Share, even_share, merge, merge_exactly, share_of
from byway.model.filters import FILTER_BYTES_MAX, covers
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.covering.active import Active

PARTS_MAX: Final = 64
"""Entries that may be joined in one merger. It may come to cover more."""
BEHIND_MAX: Final = 256
"""Entries behind a merger from which it is made anew; with more, it is retired."""
BATCH: Final = 20
"""Mergers made in one step where nothing is ever retired."""
NEW_MAX: Final = 65_536
"""Forwarded entries that wait to be looked at; beyond, the oldest are not."""
TRIES_MAX: Final = 256
"""Filters that one is tried with before it is left alone."""
BYTES_MAX: Final = FILTER_BYTES_MAX
"""Of a merger's filter, encoded."""
REFUSED_MAX: Final = 1_024
"""Mergers that let too much through and are not made again; beyond, the oldest may be."""
OBSERVED_EVERY: Final = 8
"""Publications, of which one is looked at."""
OBSERVED_MIN: Final = 20
"""Publications that a merger must have let through to be judged."""
OBSERVED_MAX: Final = 80
"""When it has let through so many, what was before counts half."""

_encode = msgspec.msgpack.Encoder().encode


class Score(msgspec.Struct, array_like=True):
    """What a merger let through, of what was looked at lately."""

    seen: float = 0.0
    in_vain: float = 0.0

    def count(self, in_vain: bool) -> None:
        """One more."""
        if self.seen >= OBSERVED_MAX:
            self.seen, self.in_vain = self.seen / 2, self.in_vain / 2
        self.seen += 1
        self.in_vain += in_vain


class Part(msgspec.Struct, frozen=True, eq=False):
    """A filter that may be merged: an entry's, or one that is not sent yet."""

    filter: Filter
    weight: int = 1
    """How many were joined in it."""
    in_vain: float = 0.0
    """The share of what it lets through that none of these wants."""
    entries: tuple[Entry, ...] = ()


class MergingState(msgspec.Struct, array_like=True):
    """What survives a restart."""

    made: int
    observed: int
    new: list[tuple[EntryId, str]]
    changed: list[EntryId]
    partners: PartnersState[EntryId]
    parts: list[tuple[EntryId, int]]
    scores: list[tuple[EntryId, Score]]
    refused: list[Filter]
    in_vain: list[tuple[EntryId, float]]
    samples: list[tuple[str, list[dict[str, Value]]]]


class Merging:
    """The mergers of one broker."""

    def __init__(self, policy: Active) -> None:
        self._policy = policy
        self._budget = policy.config.merging_false_positives
        self._made = 0
        self._observed = 0
        self._new: deque[tuple[EntryId, str]] = deque(maxlen=NEW_MAX)
        """Forwarded and not looked at."""
        self._changed: dict[EntryId, None] = {}
        """Mergers that may have lost a part."""
        self._partners: Partners[EntryId] = Partners(
            self._weight_of, PARTS_MAX, exact=not self._budget
        )
        self._parts: dict[EntryId, int] = {}
        """By merger, how many were joined in it,"""
        self._in_vain: dict[EntryId, float] = {}
        """and the share that none of them wants, if there is any."""
        self._samples = Samples()
        self._scores: dict[EntryId, Score] = {}
        self._refused: dict[Filter, None] = {}

    def started(self, mergers: Sequence[Entry]) -> None:
        """The broker begins; those that stand keep their numbers."""
        self._made = max(self._made, *(entry.id.number for entry in mergers), 0)

    # --- what happens --------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether something is to be looked at that can be."""
        return bool(self._changed or (self._new and self._policy.has_room))

    def forwarded(self, entry: Entry, link: str) -> None:
        """An entry was sent over a link."""
        if may_merge(entry.filter):
            self._new.append((entry.id, link))
            if self._policy.has_room:
                self._policy.stay_awake()

    def gone(self, entries: Sequence[Entry]) -> None:
        """Entries ended: mergers that stood for them are looked at. On the link that an entry came
        from no merger stands for it."""
        if self.has_work:
            self._policy.stay_awake()
        for entry in entries if self._parts else ():
            for wide in self._policy.moves.sent_covering(entry.filter):
                if _is_merger(wide) and wide.forwarded - {entry.origin.link}:
                    self._changed[wide.id] = None
                    self._policy.stay_awake()

    def observes(self) -> bool:
        """Whether this publication is one to look at."""
        self._observed += 1
        return self._budget > 0 and self._observed % OBSERVED_EVERY == 0

    def observed(self, attributes: Attributes, link: str) -> None:
        """A publication came over a link: count what mergers let through in vain."""
        self._samples.record(link, attributes)
        moves = self._policy.moves
        mergers = [e for e in moves.mergers(attributes) if _is_there(e, link)]
        if not mergers:
            return
        in_vain = not moves.wanted(attributes, link)
        for entry in mergers:
            score = self._scores.setdefault(entry.id, Score())
            score.count(in_vain)
            if score.seen >= OBSERVED_MIN and score.in_vain > self._budget * score.seen:
                self._refuse(entry)

    def _refuse(self, entry: Entry) -> None:
        """Too much comes in vain: it goes, and is not made again."""
        if entry.filter not in self._refused:
            if len(self._refused) >= REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
            self._refused[entry.filter] = None
        self._changed[entry.id] = None
        self._policy.stay_awake()

    # --- in quiet times ------------------------------------------------------------------------

    def step(self, room: Budget) -> None:
        """Look after mergers that changed, then merge what is new, as far as there is room."""
        if not self._policy.config.retire_batch:
            room = Budget(BATCH)
        while room and self._changed:
            id = next(iter(self._changed))
            del self._changed[id]
            merger = self._policy.moves.entry(id)
            if merger is not None and not _is_leaving(merger):
                self._look_after(merger, room)
        while room and self._new and self._policy.has_room:
            id, link = self._new.popleft()
            entry = self._policy.moves.entry(id)
            if entry is not None and _is_there(entry, link):
                self._merge(entry, link, room)
        self._forget_gone()

    def _merge(self, entry: Entry, link: str, room: Budget) -> None:
        """Merge it with all that it can be merged with, or remember it."""
        grown = self._part(entry)
        while True:
            near = self._partners.near(grown.filter, link, grown.weight)
            known = (self._policy.moves.entry(id) for id in near)
            others = (self._part(e) for e in known if e is not None and e not in grown.entries)
            best = self._best(grown, others, link, PARTS_MAX, room)
            if best is None:
                break
            _, grown = best
        if len(grown.entries) > 1:
            self._replace(grown, link)
            room.forwards -= 1
        else:
            self._partners.add(entry.id, entry.filter, link)

    def _part(self, entry: Entry) -> Part:
        weight, in_vain = self._parts.get(entry.id, 1), self._in_vain.get(entry.id, 0.0)
        return Part(entry.filter, weight, in_vain, (entry,))

    def _weight_of(self, id: EntryId, link: str) -> int | None:
        entry = self._policy.moves.entry(id)
        return self._parts.get(id, 1) if entry is not None and _is_there(entry, link) else None

    def _filter_of(self, id: EntryId) -> Filter | None:
        entry = self._policy.moves.entry(id)
        return None if entry is None else entry.filter

    def _best(
        self, part: Part, others: Iterable[Part], link: str, most: int, room: Budget
    ) -> tuple[Part, Part] | None:
        """Which of the others to merge a part with, and what becomes of it: one with which it lets
        through no more than before, else the one that adds least in vain."""
        best: tuple[float, Part, Part] | None = None
        room.examined -= len(part.filter.conjunctions)
        for other in islice(others, TRIES_MAX):
            room.examined -= len(part.filter.conjunctions)
            found = self._joined(part, other, link, most)
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], other, found[1])
                if not found[0]:
                    break
        return None if best is None else best[1:]

    def _joined(self, a: Part, b: Part, link: str, most: int) -> tuple[float, Part] | None:
        """What may stand for both, and the share that it adds; None: nothing may, or one does."""
        if a.weight + b.weight > most:
            return None
        share: Share = even_share
        exactly = merge_exactly(a.filter, b.filter)
        if exactly is not None:
            found = Merge(exactly, True, 0.0)
        elif self._budget and _is_one(a, b):
            share = self._samples.share(link, a.filter, b.filter)
            found = merge(a.filter, b.filter, share)
        else:
            return None
        if found.filter in (a.filter, b.filter) or not _stands_for(found.filter, a, b):
            return None
        before = max(a.in_vain, b.in_vain)
        if a.in_vain != b.in_vain and _is_one(a, b):  # else the larger share is an upper bound
            parts = [(share_of(p.filter, found.filter, share), p.in_vain) for p in (a, b)]
            whole = sum(of for of, _ in parts)
            before = min(before, sum(of * v for of, v in parts) / whole) if whole else before
        in_vain = found.volume + (1.0 - found.volume) * before
        if in_vain > self._budget or (in_vain and found.filter in self._refused):
            return None
        return found.volume, Part(found.filter, a.weight + b.weight, in_vain, a.entries + b.entries)

    def _replace(self, part: Part, link: str) -> Entry:
        """Forward a merger, and withdraw what it stands for."""
        self._made += 1
        broker, incarnation = self._policy.moves.broker
        id = EntryId(f"merge@{broker}", str(self._made), incarnation, self._made)
        merger = self._policy.moves.stand_in(id, part.filter)
        self._note(id, part)
        self._policy.forward(merger, link)
        self._policy.replace_covered(merger, [link])
        return merger

    def _note(self, id: EntryId, part: Part) -> None:
        """What a merger stands for; what it let through is counted from now on."""
        self._forget(id)
        self._parts[id] = part.weight
        if part.in_vain:
            self._in_vain[id] = part.in_vain

    def _forget(self, id: EntryId) -> None:
        for known in (self._parts, self._in_vain, self._scores):
            known.pop(id, None)

    def _forget_gone(self) -> None:
        """What is known of mergers that are no more."""
        for id in [id for id in self._parts if self._policy.moves.entry(id) is None]:
            self._forget(id)

    def _look_after(self, entry: Entry, room: Budget) -> None:
        """Make a merger anew from what it stands for now, or have it retired."""
        policy = self._policy
        for link in sorted(entry.forwarded):
            release = policy.release_of(entry, link)
            room.examined -= 1 + len(release.forwarded)
            whole = self._merged_all(release.forwarded, link, room)
            if whole is not None and covers(whole.filter, entry.filter):
                self._note(entry.id, whole)
                self._new.append((entry.id, link))  # with fewer parts it may be merged again
            elif whole is not None:
                room.forwards -= 1
                merger = self._replace(whole, link)
                policy.moves.withdraw([entry], link, merger, {})
                release.forwarded = []  # the merger stands for them
                release.quenched = [(e, q) for e, q in release.quenched if q.ending is not None]
                policy.carry_out(release, link)
            elif policy.config.retire_batch:
                entry.ending = Withdrawal(retired=True, merged=True)
                self._forget(entry.id)
            else:
                policy.left([entry], link, {})

    def _merged_all(self, entries: Sequence[Entry], link: str, room: Budget) -> Part | None:
        """One filter in place of all, if that may be. Whatever merges is merged; in the end one
        must cover the rest."""
        if not 1 < len(entries) <= BEHIND_MAX:
            return None
        merged: dict[int, Part] = {}
        partners: Partners[int] = Partners(
            lambda number, _: merged[number].weight if number in merged else None,
            BEHIND_MAX,
            exact=not self._budget,
        )
        waiting = [Part(e.filter, entries=(e,)) for e in reversed(entries)]
        for number in count():
            if not waiting:
                break
            part = waiting.pop()
            near = (merged[n] for n in partners.near(part.filter, link, part.weight))
            best = self._best(part, near, link, BEHIND_MAX, room)
            if best is None:
                merged[number] = part
                partners.add(number, part.filter, link)
            else:
                other, grown = best
                del merged[next(n for n, known in merged.items() if known is other)]
                waiting.append(grown)
        return _covering_all(list(merged.values()))

    # --- restarts ------------------------------------------------------------------------------

    def snapshot(self) -> MergingState:
        """Everything."""
        return MergingState(
            self._made,
            self._observed,
            list(self._new),
            list(self._changed),
            self._partners.snapshot(),
            list(self._parts.items()),
            list(self._scores.items()),
            list(self._refused),
            list(self._in_vain.items()),
            self._samples.snapshot(),
        )

    def restore(self, state: MergingState) -> None:
        """Go on."""
        self._made, self._observed = state.made, state.observed
        self._new.extend(state.new)
        self._changed = dict.fromkeys(state.changed)
        self._parts, self._in_vain = dict(state.parts), dict(state.in_vain)
        self._partners.restore(state.partners, self._filter_of)
        self._scores, self._refused = dict(state.scores), dict.fromkeys(state.refused)
        self._samples.restore(state.samples)


def _is_merger(entry: Entry) -> bool:
    return entry.ending is not None and entry.ending.merged


def _is_leaving(entry: Entry) -> bool:
    """A preserved one, or a merger that is retired: neither is merged any more."""
    return entry.ending is not None and (entry.ending.retired or not entry.ending.merged)


def _is_there(entry: Entry, link: str) -> bool:
    return link in entry.forwarded and not _is_leaving(entry)


def _is_one(*parts: Part) -> bool:
    """Whether all are without OR."""
    return all(len(part.filter.conjunctions) == 1 for part in parts)


def _stands_for(filter: Filter, *parts: Part) -> bool:
    """Whether it may be sent in their place: it covers each, as far as can be told, and fits in a
    frame with many others."""
    return len(_encode(filter)) <= BYTES_MAX and all(covers(filter, p.filter) for p in parts)


def _covering_all(parts: Sequence[Part]) -> Part | None:
    """The one that covers all others, and stands for what they stood for."""
    for part in parts:
        if all(covers(part.filter, other.filter) for other in parts):
            return part
    return None
