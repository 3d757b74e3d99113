"""Merging: on a link, one filter in the place of two that differ in a single attribute.

Done in quiet times, a few at a time. The *merger* is an entry that is nobody's: it quenches its
parts as any entry does that covers them, and is merged further like any other. A perfect one lets
through just what its parts do. Another one may let through more, as far as the share that nobody
wants stays within a budget: estimated for values that spread evenly when it is made, and counted on
publications from then on. When a part ends, or too much comes in vain, it is made anew from what is
left, or retired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from byway.core.covering.retirement import Room
from byway.core.tables import Ending, Entry
from byway.model import Attributes, Filter
from byway.model.filters import covers
from byway.model.merging import merge
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.covering.active import Active

PARTS_MAX: Final = 64
"""Entries that one merger may stand for, mergers among them."""
NEW_MAX: Final = 65_536
"""Forwarded entries that wait to be looked at; beyond, the oldest are not."""
PARTNERS_MAX: Final = 8
"""Entries of a kind that are remembered for one to be merged with."""
KINDS_MAX: Final = 65_536
"""Kinds that are remembered; beyond, the one known longest is forgotten."""
REFUSED_MAX: Final = 1_024
"""Mergers that let too much through and are not made again; beyond, the oldest may be."""
OBSERVED_EVERY: Final = 8
"""Publications, of which one is looked at."""
OBSERVED_MIN: Final = 20
"""Publications that a merger must have let through to be judged."""

Kind = tuple[str, str, bytes]
"""A link, an attribute, and all else of a filter."""
_encode = msgspec.msgpack.Encoder().encode


class Score(msgspec.Struct, array_like=True):
    """What a merger let through, of what was looked at."""

    seen: int = 0
    in_vain: int = 0


class MergingState(msgspec.Struct, array_like=True):
    """What survives a restart."""

    made: int
    observed: int
    new: list[tuple[EntryId, str]]
    changed: list[EntryId]
    partners: list[tuple[Kind, list[EntryId]]]
    parts: list[tuple[EntryId, int]]
    scores: list[tuple[EntryId, Score]]
    refused: list[Filter]


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
        self._partners: dict[Kind, list[EntryId]] = {}
        self._parts: dict[EntryId, int] = {}
        self._scores: dict[EntryId, Score] = {}
        self._refused: dict[Filter, None] = {}

    def started(self, mergers: Sequence[Entry]) -> None:
        """The broker begins; those that stand keep their numbers."""
        self._made = max(self._made, *(entry.id.number for entry in mergers), 0)

    # --- what happens --------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether something is to be looked at."""
        return bool(self._new or self._changed)

    def forwarded(self, entry: Entry, link: str) -> None:
        """An entry was sent over a link."""
        if len(entry.filter.conjunctions) == 1:
            self._new.append((entry.id, link))
            self._policy.stay_awake()

    def gone(self, entries: Sequence[Entry]) -> None:
        """Entries ended: mergers that stood for them are looked at."""
        if not self._parts:
            return
        for entry in entries:
            for wide in self._policy.moves.sent_covering(entry.filter):
                if _is_merger(wide):
                    self._changed[wide.id] = None
                    self._policy.stay_awake()

    def observes(self) -> bool:
        """Whether this publication is one to look at."""
        self._observed += 1
        return bool(self._parts) and self._budget > 0 and self._observed % OBSERVED_EVERY == 0

    def observed(self, attributes: Attributes, link: str) -> None:
        """A publication came over a link: count what mergers let through in vain."""
        moves = self._policy.moves
        mergers = [e for e in moves.mergers(attributes) if link in e.forwarded]
        if not mergers:
            return
        in_vain = not moves.wanted(attributes, link)
        for entry in mergers:
            score = self._scores.setdefault(entry.id, Score())
            score.seen += 1
            score.in_vain += in_vain
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

    def step(self, room: Room) -> None:
        """Look after mergers that changed, then merge what is new, as far as there is room."""
        while room and self._changed:
            id = next(iter(self._changed))
            del self._changed[id]
            merger = self._policy.moves.entry(id)
            if merger is not None and not _is_leaving(merger):
                self._look_after(merger, room)
        while room and self._new and self._policy.has_room:
            room.examined -= 1
            id, link = self._new.popleft()
            entry = self._policy.moves.entry(id)
            if entry is not None and _is_there(entry, link):
                self._merge(entry, link, room)
        self._forget_gone()

    def _merge(self, entry: Entry, link: str, room: Room) -> None:
        """Merge it with a partner, or remember it as one."""
        kinds = _kinds(entry, link)
        for kind in kinds:
            for partner in self._candidates(kind, entry, link):
                merged = self._merged(entry.filter, partner.filter)
                if merged is not None and self._weight(entry) + self._weight(partner) <= PARTS_MAX:
                    self._replace([entry, partner], merged, link)
                    room.forwards -= 1
                    return
        for kind in kinds:
            partners = self._partners.setdefault(kind, [])
            partners.append(entry.id)
            del partners[:-PARTNERS_MAX]
            if len(self._partners) > KINDS_MAX:
                del self._partners[next(iter(self._partners))]

    def _candidates(self, kind: Kind, entry: Entry, link: str) -> list[Entry]:
        """Others of a kind that are still forwarded, the latest first."""
        found = []
        for id in reversed(self._partners.get(kind, [])):
            other = self._policy.moves.entry(id)
            if other is not None and other is not entry and _is_there(other, link):
                found.append(other)
        if found:
            self._partners[kind] = [other.id for other in reversed(found)]
        else:
            self._partners.pop(kind, None)
        return found

    def _merged(self, f: Filter, g: Filter) -> Filter | None:
        """What may stand for both."""
        found = merge(f, g)
        if found.filter in self._refused or not (found.perfect or found.volume <= self._budget):
            return None
        return found.filter

    def _weight(self, entry: Entry) -> int:
        return self._parts.get(entry.id, 1)

    def _replace(self, parts: Sequence[Entry], filter: Filter, link: str) -> None:
        """Forward a merger, and withdraw what it stands for."""
        self._made += 1
        broker, incarnation = self._policy.moves.broker
        id = EntryId(f"merge@{broker}", str(self._made), incarnation, self._made)
        merger = self._policy.moves.stand_in(id, filter)
        self._parts[id] = sum(map(self._weight, parts))
        self._policy.forward(merger, link)
        self._policy.replace_covered(merger, [link])

    def _forget_gone(self) -> None:
        """What is known of mergers that are no more."""
        for id in [id for id in self._parts if self._policy.moves.entry(id) is None]:
            del self._parts[id]
            self._scores.pop(id, None)

    def _look_after(self, entry: Entry, room: Room) -> None:
        """Make a merger anew from what it stands for now, or have it retired."""
        policy = self._policy
        for link in sorted(entry.forwarded):
            room.examined -= 1
            parts = policy.release_of(entry, link).forwarded
            filter = self._merged_all([part.filter for part in parts])
            if filter is not None and covers(filter, entry.filter):
                continue
            if filter is not None:
                room.forwards -= 1
                self._replace(parts, filter, link)
                policy.withdraw([entry], link, {})
            else:
                entry.ending = Ending(retired=True, merged=True)

    def _merged_all(self, filters: list[Filter]) -> Filter | None:
        """One filter in place of all, if that may be; tried in every order that helps."""
        if not 1 < len(filters) <= PARTS_MAX:
            return None
        merged, rest = filters[0], filters[1:]
        while rest:
            left = []
            for filter in rest:
                found = self._merged(merged, filter)
                if found is None:
                    left.append(filter)
                else:
                    merged = found
            if len(left) == len(rest):
                return None
            rest = left
        return merged

    # --- restarts ------------------------------------------------------------------------------

    def snapshot(self) -> MergingState:
        """Everything."""
        return MergingState(
            self._made,
            self._observed,
            list(self._new),
            list(self._changed),
            list(self._partners.items()),
            list(self._parts.items()),
            list(self._scores.items()),
            list(self._refused),
        )

    def restore(self, state: MergingState) -> None:
        """Go on."""
        self._made, self._observed = state.made, state.observed
        self._new.extend(state.new)
        self._changed = dict.fromkeys(state.changed)
        self._partners, self._parts = dict(state.partners), dict(state.parts)
        self._scores, self._refused = dict(state.scores), dict.fromkeys(state.refused)


def _is_merger(entry: Entry) -> bool:
    return entry.ending is not None and entry.ending.merged


def _is_leaving(entry: Entry) -> bool:
    """A preserved one, or a merger that is retired: neither is merged any more."""
    return entry.ending is not None and (entry.ending.retired or not entry.ending.merged)


def _is_there(entry: Entry, link: str) -> bool:
    return link in entry.forwarded and not _is_leaving(entry)


def _kinds(entry: Entry, link: str) -> list[Kind]:
    """By each attribute, what else a filter says there."""
    terms = entry.filter.conjunctions[0].terms
    return [(link, name, _encode([term for term in terms if term[0] != name])) for name, _ in terms]
