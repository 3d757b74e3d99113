"""The routing tables: advertisements and subscriptions, each with where it came from.

An origin is a link (the neighbour's name) or a local client. Tables answer which links a filter
leads to; what is sent because of it is decided elsewhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from byway.core.alternates import AlternateOrigins
from byway.core.table_keys import Keys, UsedKeys
from byway.matching import TableIndex
from byway.model import Filter
from byway.model.fitting import fit
from byway.model.messages import EntryId, Hint


class Origin(msgspec.Struct, frozen=True):
    """Where an entry came from: a neighbour, or a local client (then `link` is None)."""

    link: str | None = None
    client: str = ""


class Withdrawal(msgspec.Struct, frozen=True):
    """What came with the message that ended a subscription for good."""

    similarities: tuple[float, ...] = ()
    hints: tuple[Hint, ...] = ()
    """From where on it may be preserved, as far as its home broker could tell."""
    retired: bool = False
    """Another broker had preserved it after its owner took it back, and retires it now."""


class PlaceholderKind(Enum):
    """What an entry was before it became a placeholder."""

    PRESERVED = "preserved"
    """A subscription that has ended; the links it was forwarded to do not know."""
    MERGED = "merged"
    """Nobody's subscription: the broker made it out of several."""


class PlaceholderState(Enum):
    """What becomes of a placeholder."""

    PRESERVED = "preserved"
    """It has ended, and is retired after a while."""
    POSTPONED = "postponed"
    """It has ended; whether it is preserved is decided when the broker has time."""
    MERGED = "merged"
    """It stands for the subscriptions it was merged from."""
    MERGED_RETIRING = "merged, retiring"
    """It was merged, and is retired now."""


class Placeholder(msgspec.Struct, frozen=True):
    """Why an entry is forwarded though nobody subscribes to it as it is."""

    state: PlaceholderState
    withdrawal: Withdrawal | None = None
    """How a postponed one ended; nothing depends on it for the others."""
    since_us: int = 0
    """When it was preserved."""

    @property
    def kind(self) -> PlaceholderKind:
        """Whether it was a subscription, or is a merged filter."""
        merged = self.state in (PlaceholderState.MERGED, PlaceholderState.MERGED_RETIRING)
        return PlaceholderKind.MERGED if merged else PlaceholderKind.PRESERVED

    @property
    def is_retiring(self) -> bool:
        """Whether it is withdrawn step by step, by retirement. With a postponed unsubscription,
        only if another broker retired it before."""
        if self.state is PlaceholderState.POSTPONED:
            return self.withdrawal is not None and self.withdrawal.retired
        return self.state is not PlaceholderState.MERGED


class Entry(msgspec.Struct, eq=False):
    """One subscription or advertisement as this broker knows it."""

    id: EntryId
    filter: Filter
    origin: Origin
    key: int
    forwarded: frozenset[str] = frozenset()
    """Links it was sent to. Entries share these sets: there are few, and many entries."""
    awaiting: dict[str, int] = msgspec.field(default_factory=dict)
    """How often each link has still to say that it is settled there."""
    following: dict[str, int] = msgspec.field(default_factory=dict)
    """Links where it is quenched by one that is not settled there yet; how often."""
    followers: dict[str, list[Entry]] = msgspec.field(default_factory=dict)
    """By link, entries that follow this one there."""
    settled: bool = False
    """Whether its origin was told so. It is told once."""
    announced: int = 1
    """How often its origin announced it, and will take it back. More than once only if it was being
    taken back when a broker on the way lost its state, and was told of it again."""
    placeholder: Placeholder | None = None
    """Set if nobody subscribes to it as it is; None: it is somebody's subscription."""

    def __repr__(self) -> str:
        origin = self.origin.link or f"client {self.origin.client}"
        links = ", ".join(sorted(self.forwarded)) or "nobody"
        state = "settled" if self.settled else "not settled"
        return f"<Entry {self.id.client}/{self.id.name} from {origin} to {links}, {state}>"


@lru_cache(maxsize=4_096)
def with_link(links: frozenset[str], link: str) -> frozenset[str]:
    """These links and one more, as a set that entries share."""
    return links | {link}


@lru_cache(maxsize=4_096)
def without_link(links: frozenset[str], link: str) -> frozenset[str]:
    """These links without one, as a set that entries share."""
    return links - {link}


class LinksByMask(dict[int, tuple[str, ...]]):
    """By mask of link numbers, the neighbours, in the order of their names; each is made out when
    it is first asked for. `names` are theirs, by number: when one goes, clear this."""

    __slots__ = ("_names",)

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, mask: int) -> tuple[str, ...]:
        if len(self) >= 4_096:  # a bound; masks seen are few
            self.clear()
        found = self[mask] = tuple(sorted(n for i, n in enumerate(self._names) if mask >> i & 1))
        return found


class LinkNumbers:
    """Small numbers for neighbours, as bit positions of link masks. The number of one that is
    forgotten is free again, and the smallest free number is given first."""

    __slots__ = ("_free", "_masks", "_numbers", "known", "links", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        """Names by number; a free number has an empty name."""
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []  # a heap
        self._masks = LinksByMask(self.names)
        # looked up for every publication: methods of the dicts themselves cost no further call
        self.known: Callable[[str], int | None] = self._numbers.get
        """The number of a neighbour, if it has one."""
        self.links: Callable[[int], tuple[str, ...]] = self._masks.__getitem__
        """The neighbours of a mask, in the order of their names."""
        self.restore(names)

    def restore(self, names: Iterable[str]) -> None:
        """Take names by number, as `names` had them, in the place of those there are. Whoever has
        these numbers has the new ones."""
        self.names[:] = names
        self._numbers.clear()
        self._numbers.update((name, number) for number, name in enumerate(self.names) if name)
        self._free[:] = [number for number, name in enumerate(self.names) if not name]
        self._masks.clear()

    def number(self, link: str) -> int:
        """The number of a neighbour, a new one if need be."""
        number = self._numbers.get(link)
        if number is None:
            number = heappop(self._free) if self._free else len(self.names)
            if number == len(self.names):
                self.names.append(link)
            self.names[number] = link
            self._numbers[link] = number
        return number

    def release(self, link: str) -> None:
        """Free the number of a removed neighbour; no entry may be from it any more."""
        number = self._numbers.pop(link, None)
        if number is not None:
            self.names[number] = ""
            heappush(self._free, number)
            self._masks.clear()  # they name it


class TableWatcher(Protocol):
    """Is told of what happens to a table, for example while a copy of it is made step by step."""

    def added(self, entry: Entry) -> None:
        """An entry was added, behind all others."""

    def changed(self, entry: Entry) -> None:
        """An entry of the table, or one that was just removed, has changed."""

    def removed(self, entry: Entry) -> None:
        """An entry was removed."""


class Table:
    """Entries by id, and by content in a matching index.

    Without numbers of links it does not tell where matching entries came from: placeholders may
    be from neighbours that are none any more.
    """

    def __init__(self, numbers: LinkNumbers | None = None, keys: Keys | None = None) -> None:
        self.index = TableIndex()
        self._clients: dict[str, dict[EntryId, None]] | None = None
        self._numbers = numbers
        self.keys = Keys() if keys is None else keys
        self.keys.join(self)
        self.watchers: tuple[TableWatcher, ...] = ()
        self._entries: dict[EntryId, Entry] = {}
        self._by_key: list[Entry | None] = []
        self._used = UsedKeys()
        self._links = np.zeros(16, np.int16)  # by key, the number of its link, -1 for a client
        self.alternates = AlternateOrigins()

    def draft(self) -> Table:
        """An empty table whose entries are to have the keys that they have in this one."""
        table = Table(self._numbers, self.keys)
        table.index = self.index.empty_copy()
        if self._clients is not None:
            table._clients = {}
        return table

    def add(
        self,
        id: EntryId,
        filter: Filter,
        origin: Origin,
        key: int | None = None,
        entry: Entry | None = None,
    ) -> Entry:
        """Store a new entry; under a given key when it is stored again after a restart, or in a
        draft. It is a given object if another table has just removed that."""
        if key is None:
            key = self.keys.give(id)
        while key >= len(self._by_key):
            self._by_key.append(None)
        if key >= len(self._links):
            self._links.resize(max(key + 1, 2 * len(self._links)), refcheck=False)
        numbers = self._numbers
        link = None if origin.link is None or numbers is None else numbers.number(origin.link)
        self.index.add(key, filter, link)
        self._links[key] = -1 if link is None else link
        if entry is None:
            entry = Entry(id, filter, origin, key)
        else:
            entry.key = key
        self._entries[id] = self._by_key[key] = entry
        self._used.add(key)
        if self._clients is not None:
            self._clients.setdefault(id.client, {})[id] = None
        for watcher in self.watchers:
            watcher.added(entry)
        return entry

    def adopt(self, entry: Entry) -> None:
        """Store an entry that another table has removed; it gets another key."""
        self.add(entry.id, entry.filter, entry.origin, entry=entry)

    def remove(self, entry: Entry) -> None:
        """Remove an entry; its key is given again."""
        self.index.remove(entry.key)
        del self._entries[entry.id]
        if self._clients is not None:
            own = self._clients[entry.id.client]
            del own[entry.id]
            if not own:
                del self._clients[entry.id.client]
        fit(self._entries)
        self._by_key[entry.key] = None
        keys = self.keys
        keys.release(self, entry.key)
        self._used.remove(entry.key)
        spare = self._used.leave_spare(len(keys.free) + len(self._entries))
        if spare and not keys.is_shared:
            _cut_spare_keys(keys.free, self._by_key)
            self._links.resize(max(len(self._by_key), 16), refcheck=False)
        for watcher in self.watchers:
            watcher.removed(entry)

    def changed(self, entry: Entry) -> None:
        """Note that something of an entry has changed besides where it is stored."""
        for watcher in self.watchers:
            watcher.changed(entry)

    def align_with(self, other: Table) -> None:
        """Make room for keys like the table that this one is a draft of."""
        self._by_key += [None] * (other.keys_end - self.keys_end)
        self._links = other._links.copy()

    def dissolve(self, most: int) -> int:
        """Forget up to so many entries of a table that nobody uses any more; how many more there
        might have been."""
        self._by_key = []
        while self._entries and most:
            self._entries.popitem()
            most -= 1
        return most

    @property
    def keys_end(self) -> int:
        """The first key behind all that are in use."""
        return len(self._by_key)

    def uses_key(self, key: int) -> bool:
        """Whether an entry of the table has a key."""
        return key < len(self._by_key) and self._by_key[key] is not None

    def get(self, id: EntryId) -> Entry | None:
        """The entry with this id, if the table holds one."""
        return self._entries.get(id)

    def holds(self, entry: Entry) -> bool:
        """Whether an entry is still in the table."""
        return self._entries.get(entry.id) is entry

    def by_keys(self, keys: npt.NDArray[Any]) -> list[Entry]:
        """Entries of index keys, in the order of their keys."""
        by_key = self._by_key
        found = [by_key[key] for key in sorted(keys.tolist())]
        return [entry for entry in found if entry is not None]

    def matched(self, keys: Sequence[int]) -> list[Entry]:
        """Entries of the keys that a publication matches, in the order of their keys."""
        by_key = self._by_key
        if len(keys) == 1:
            entry = by_key[keys[0]]
            return [] if entry is None else [entry]
        found = [by_key[key] for key in sorted(keys)]
        return [entry for entry in found if entry is not None]

    def local(self, key: int, most: int) -> tuple[list[Entry], int]:
        """Up to `most` entries of local clients, in the order of their keys from one on; and the
        key to go on with, 0 after the last."""
        keys = (np.flatnonzero(self._links[key : len(self._by_key)] < 0)[:most] + key).tolist()
        found = [self._by_key[key] for key in keys]
        return (
            [entry for entry in found if entry is not None],
            keys[-1] + 1 if len(keys) == most else 0,
        )

    def origins(self, keys: npt.NDArray[Any]) -> list[str]:
        """The neighbours that entries of these keys came from, in the order of their names."""
        assert self._numbers is not None, "this table has no numbers of links"
        numbers = np.unique(self._links[keys]).tolist()
        return sorted(self._numbers.names[number] for number in numbers if number >= 0)

    def link_number(self, link: str) -> int:
        """The number of a neighbour, a new one if need be."""
        assert self._numbers is not None, "this table has no numbers of links"
        return self._numbers.number(link)

    def links_of(self, client: str) -> set[str | None]:
        """The links that entries of a client came from; None: from here. Asked for the first time,
        it goes through all entries, and keeps count from then on."""
        if self._clients is None:
            self._clients = {}
            for id in self._entries:
                self._clients.setdefault(id.client, {})[id] = None
        return {self._entries[id].origin.link for id in self._clients.get(client, ())}

    def came_from(self, link: str) -> list[Entry]:
        """Entries that came over a link, in the order of their ids."""
        return sorted((e for e in self if e.origin.link == link), key=_id)

    def went_to(self, link: str) -> list[Entry]:
        """Entries that were sent to a link, in the order of their ids."""
        return sorted((e for e in self if link in e.forwarded), key=_id)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())


class Sent:
    """Subscriptions that are forwarded anywhere, by content.

    Far fewer than there are in the table, if others stand for most of them: who quenches a new one,
    and what it replaces, is found here.
    """

    def __init__(self) -> None:
        self.index = TableIndex()
        self._keys: dict[EntryId, int] = {}
        self._used = UsedKeys()
        self._entries: list[Entry | None] = []
        self._free = array("q")

    def draft(self) -> Sent:
        """An empty one of the same kind."""
        sent = Sent()
        sent.index = self.index.empty_copy()
        return sent

    def update(self, entry: Entry) -> None:
        """Add or remove an entry, after the set of links it is forwarded to has changed."""
        key = self._keys.get(entry.id)
        if entry.forwarded and key is None:
            key = self._keys[entry.id] = self._free.pop() if self._free else len(self._entries)
            if key == len(self._entries):
                self._entries.append(entry)
            self._entries[key] = entry
            self._used.add(key)
            self.index.add(key, entry.filter)
        elif not entry.forwarded and key is not None:
            del self._keys[entry.id]
            self._entries[key] = None
            fit(self._keys)
            self._free.append(key)
            self.index.remove(key)
            self._used.remove(key)
            if self._used.leave_spare(len(self._entries)):
                _cut_spare_keys(self._free, self._entries)

    def covering(self, filter: Filter) -> list[Entry]:
        """Entries that cover a filter, in the order of their ids."""
        return self._by_keys(self.index.covering(filter)) if self._keys else []

    def covered_by(self, filter: Filter) -> list[Entry]:
        """Entries that a filter covers, in the order of their ids."""
        return self._by_keys(self.index.covered_by(filter)) if self._keys else []

    def _by_keys(self, keys: npt.NDArray[Any]) -> list[Entry]:
        found = (self._entries[key] for key in keys.tolist())
        return sorted((entry for entry in found if entry is not None), key=_id)

    def __len__(self) -> int:
        return len(self._keys)


def _cut_spare_keys(free: array[int], by_key: list[Any]) -> None:
    """Cut off free keys behind the last one in use; those that are left keep their order."""
    while by_key and by_key[-1] is None:
        by_key.pop()
    keys = np.array(free, np.int64)
    del free[:]
    free.frombytes(keys[keys < len(by_key)].tobytes())


def _id(entry: Entry) -> EntryId:
    return entry.id
