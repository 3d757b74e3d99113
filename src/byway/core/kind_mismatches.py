"""Comparisons that never hold because the attribute comes as a value of another kind.

`temperature > 20` never matches `temperature = "30"`: a text is no number, and nobody is told. A
few publications are compared with local subscriptions to find such comparisons: the first one after
a subscription began with this subscription, and one in `SAMPLE_EVERY` with some of them in turn.
They are counted, not drawn, so that the same inputs find the same. Nothing is decided by this, and
no snapshot holds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from byway.core.tables import Entry, Table
from byway.model import Filter
from byway.model.constraints import KIND_OF
from byway.model.messages import EntryId
from byway.model.values import Attributes, Kind, kind_of

SAMPLE_EVERY: Final = 1_000
"""One publication in so many is compared with local subscriptions."""
COMPARED_MAX: Final = 256
"""Local subscriptions that one publication is compared with; the next one goes on after them."""
KNOWN_MAX: Final = 4_096
"""Comparisons that are remembered; beyond, the oldest is forgotten."""
MET_MAX: Final = 65_536
"""Subscriptions remembered because all their comparisons have met a value of the right kind;
beyond, all are forgotten, and compared again."""

_Comparison = tuple[EntryId, str]


class KindMismatch(msgspec.Struct, frozen=True):
    """A comparison of a local subscription, and what kind of value its attribute came as."""

    id: EntryId
    attribute: str
    expected: tuple[Kind, ...]
    """The kinds of value that the subscription compares the attribute with."""
    found: Kind
    """The kind that the attribute had when it was last noticed."""
    samples: int
    """Number of sampled publications in which it had another kind than expected."""
    number: int
    """Counts the mismatches of a broker up from 1, in the order in which they were noticed."""


class KindMismatches:
    """What one broker has noticed. A comparison that a sampled publication has met with a value of
    the right kind is none of them, from then on."""

    __slots__ = (
        "_deferred", "_fresh", "_known", "_met", "_next_key", "_subscriptions", "noticed", "until",
    )  # fmt: skip

    def __init__(self, subscriptions: Callable[[], Table]) -> None:
        """`subscriptions` gives the table of the routing in force."""
        self.until = SAMPLE_EVERY
        """Number of publications up to the next one that is sampled."""
        self.noticed = 0
        """Number of mismatches that were noticed since the broker started."""
        self._subscriptions = subscriptions
        self._fresh: list[EntryId] = []
        """Local subscriptions that began after the last publication; not all, if they are many."""
        self._deferred = 0
        """While there are fresh ones, what `until` will be after the next publication."""
        self._next_key = 0
        self._known: OrderedDict[_Comparison, KindMismatch | None] = OrderedDict()
        """The oldest first; None for a comparison that met a value of the right kind. Ordered,
        because to find the first key of a dict takes as long as there were keys before it."""

        self._met: set[EntryId] = set()
        """Subscriptions all of whose comparisons have met a value of the right kind."""

    def subscribed(self, id: EntryId) -> None:
        """A local subscription has begun: the next publication is compared with it."""
        if not self._fresh:
            self._deferred, self.until = self.until - 1, 1
        if len(self._fresh) < COMPARED_MAX:
            self._fresh.append(id)

    def sample(self, attributes: Attributes) -> None:
        """Compare a publication with the subscriptions whose turn it is."""
        fresh, self._fresh = self._fresh, []
        self.until, self._deferred = self._deferred, 0
        self._compare(attributes, filter(None, map(self._subscriptions().get, fresh)))
        if not self.until:
            self.until = SAMPLE_EVERY
            entries, self._next_key = self._subscriptions().local(self._next_key, COMPARED_MAX)
            self._compare(attributes, entries)

    def _compare(self, attributes: Attributes, entries: Iterable[Entry]) -> None:
        found = {name: kind_of(value) for name, value in attributes.items()}
        for name in [name for name, kind in found.items() if kind is Kind.NAN]:
            del found[name]  # which is no kind of its own to compare with
        for entry in entries:
            if entry.id in self._met:
                continue
            are_met = True
            for name, kinds in _compared_kinds(entry.filter).items():
                kind = found.get(name)
                are_met &= kind in kinds
                if kind is not None:
                    self._note(entry.id, name, kinds, kind)
            if are_met:
                if len(self._met) >= MET_MAX:
                    self._met.clear()
                self._met.add(entry.id)

    def _note(self, id: EntryId, name: str, expected: set[Kind], found: Kind) -> None:
        comparison = id, name
        known = self._known.get(comparison)
        if found in expected:
            self._known[comparison] = None
        elif known is not None:
            samples = known.samples + 1
            self._known[comparison] = msgspec.structs.replace(known, found=found, samples=samples)
        elif comparison not in self._known:
            self.noticed += 1
            kinds = tuple(sorted(expected))
            self._known[comparison] = KindMismatch(id, name, kinds, found, 1, self.noticed)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def __iter__(self) -> Iterator[KindMismatch]:
        """The mismatches of subscriptions that still exist, in the order of their numbers."""
        table = self._subscriptions()
        for mismatch in self._known.values():
            if mismatch is not None and table.get(mismatch.id) is not None:
                yield mismatch


def _compared_kinds(wanted: Filter) -> dict[str, set[Kind]]:
    """By attribute, the kinds of value that a filter compares it with; without attributes for which
    some alternative takes every kind."""
    kinds: dict[str, set[Kind]] = {}
    indifferent: set[str] = set()
    for conjunction in wanted.conjunctions:
        for name, constraint in conjunction.terms:
            kind = KIND_OF.get(type(constraint))
            if kind is None:
                indifferent.add(name)
            else:
                kinds.setdefault(name, set()).add(kind)
    return {name: found for name, found in kinds.items() if name not in indifferent}
