"""The routing tables: advertisements and subscriptions, each with where it came from.

An origin is a link (the neighbour's name) or a local client. Tables answer which links a filter
leads to; what is sent because of it is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from byway.matching import MatchIndex
from byway.model import Filter
from byway.model.messages import EntryId


class Origin(msgspec.Struct, frozen=True):
    """Where an entry came from: a link, or a local client (link is None)."""

    link: str | None = None
    client: str = ""


class Entry(msgspec.Struct):
    """One subscription or advertisement as this broker knows it."""

    id: EntryId
    filter: Filter
    origin: Origin
    key: int
    forwarded: set[str] = msgspec.field(default_factory=set)
    """Links it was sent to."""
    awaiting: dict[str, int] = msgspec.field(default_factory=dict)
    """How often each link has still to say that it is settled there."""
    settled: bool = False
    """Whether its origin was told so. It is told once."""


class LinkNumbers:
    """Small numbers for neighbours, as bit positions of link masks. They are not given back."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        self._masks: dict[int, tuple[str, ...]] = {}

    def number(self, link: str) -> int:
        """The number of a neighbour, a new one if need be."""
        number = self._numbers.get(link)
        if number is None:
            number = self._numbers[link] = len(self.names)
            self.names.append(link)
        return number

    def links(self, mask: int) -> tuple[str, ...]:
        """The neighbours of a mask, in the order of their names."""
        known = self._masks.get(mask)
        if known is None:
            if len(self._masks) >= 4_096:  # a bound; masks seen are few
                self._masks.clear()
            found = [n for i, n in enumerate(self.names) if mask >> i & 1]
            known = self._masks[mask] = tuple(sorted(found))
        return known


class Table:
    """Entries by id, and by content in a matching index."""

    def __init__(self, numbers: LinkNumbers) -> None:
        self.index = MatchIndex()
        self._numbers = numbers
        self._entries: dict[EntryId, Entry] = {}
        self._by_key: dict[int, Entry] = {}
        self._next_key = 0

    def add(self, id: EntryId, filter: Filter, origin: Origin) -> Entry:
        """Store a new entry."""
        key = self._next_key
        self._next_key += 1
        link = None if origin.link is None else self._numbers.number(origin.link)
        self.index.add(key, filter, link)
        entry = self._entries[id] = self._by_key[key] = Entry(id, filter, origin, key)
        return entry

    def remove(self, entry: Entry) -> None:
        """Forget an entry."""
        self.index.remove(entry.key)
        del self._entries[entry.id], self._by_key[entry.key]

    def get(self, id: EntryId) -> Entry | None:
        """The entry of an id."""
        return self._entries.get(id)

    def by_keys(self, keys: Iterable[int]) -> Iterator[Entry]:
        """Entries of index keys, in the order given."""
        return (self._by_key[key] for key in keys)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())
