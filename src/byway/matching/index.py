"""MatchIndex: which stored filters match a publication, and how stored filters relate to another.

This file owns the arrays: it makes room before a kernel needs it, keeps the filter objects beside
them, and asks `byway.model` where a kernel cannot decide. One thread at a time may use an index.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from byway.matching import layout as lay
from byway.matching.arrays import Arrays
from byway.matching.encoding import Atoms, Codes
from byway.matching.kernels import entry, relations
from byway.matching.layout import Array
from byway.matching.vocabulary import SHARED, Vocabulary
from byway.model import Attributes, Conjunction, DuplicateKeyError, Filter, UnknownKeyError

Keys = npt.NDArray[np.int64]

LINKS_MAX: Final = 4_096
_CHUNK: Final = 256  # publications encoded and matched at a time
_OUT_BATCH: Final = 65_536  # keys
_RECHOOSE: Final = 256  # conjunctions looked at again in one go
_RELATE: Final = 1_024  # conjunctions filed for relations in one go
_NO_TEXT: Final = np.zeros(1, np.uint8)
_NO_CODES: Final = np.zeros(0, np.int64)
_NO_NUMS: Final = np.zeros(0, np.float64)


class Routes(NamedTuple):
    """Where a publication must go."""

    mask: int
    """Bit i is set when an entry of link i matches."""
    several: bool
    """Whether two or more entries match (those of the excluded link apart)."""
    local: Keys
    """Matching keys that were added without a link."""


class IndexStatistics(msgspec.Struct, frozen=True):
    """What an index did since it was made."""

    publications: int
    candidates: int
    matches: int
    moved: int
    """Conjunctions that were given another access predicate."""


class Matches(Sequence[Keys]):
    """The answers to a batch: as a sequence of key arrays, or flat in `keys` and `offsets`."""

    def __init__(self, keys: Keys, offsets: Keys) -> None:
        self.keys = keys
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Keys:  # type: ignore[override]
        if not -len(self) <= i < len(self):
            raise IndexError(f"batch of {len(self)} publications has no answer {i}")
        i %= len(self)
        return self.keys[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[Keys]:
        offsets = self.offsets.tolist()
        for start, end in pairwise(offsets):
            yield self.keys[start:end]

    def __repr__(self) -> str:
        return f"<Matches of {len(self)} publications, {len(self.keys)} keys>"


class MatchIndex:
    """Filters by integer key, matched by access predicate and verification.

    Keys come back in an order that depends on the history of calls alone (same calls, same order).
    Relation queries sort their answers.
    """

    def __init__(self, vocabulary: Vocabulary = SHARED) -> None:
        self._vocabulary = vocabulary
        self._atoms = Atoms(vocabulary)
        self._arrays = _new_arrays(vocabulary)
        self._control = self._arrays["control"]
        self._directory = self._arrays.directory
        self._attributes: dict[str, int] = {}
        self._filters: list[Filter | None] = []  # by slot
        self._empty: set[int] = set()  # keys whose filter is FALSE
        self._open: set[int] = set()  # keys whose filter is ANY
        self._out: Keys = np.zeros(16, np.int64)
        self._mask = np.zeros(1, np.uint64)  # one word for 64 links
        self._marks = np.zeros(32, np.int64)
        self._boxes = np.zeros(8, relations.BOX)
        entry.prepare(self._directory)

    # --- storing -----------------------------------------------------------------------------

    def add(self, key: int, filter: Filter, link: int | None = None) -> None:
        """Store a filter. `link` numbers the neighbour it came from (0 …); None: a local client.

        Raises `DuplicateKeyError` when the key is there already; nothing changes then.
        """
        if link is None:
            link = -1
        elif not 0 <= link < LINKS_MAX:
            raise ValueError(f"link {link} is out of range: expected 0 to {LINKS_MAX - 1}")
        elif link >> 6 >= len(self._mask):
            self._mask = np.zeros((link >> 6) + 1, np.uint64)
        self._reserve_keys()
        slot = entry.open_key(self._directory, key, link)
        if slot < 0:
            raise DuplicateKeyError(key)
        if slot == len(self._filters):
            self._filters.append(filter)
        else:
            self._filters[slot] = filter
        conjunctions = filter.conjunctions
        if not conjunctions:
            self._empty.add(key)
        elif filter.open:
            self._open.add(key)
        several = 1 if len(conjunctions) > 1 else 0
        for ordinal, conjunction in enumerate(conjunctions):
            self._insert(slot, conjunction, ordinal, several)

    def remove(self, key: int) -> None:
        """Forget a key. Raises `UnknownKeyError` when it is not there."""
        slot = entry.remove(self._directory, key)
        if slot < 0:
            raise UnknownKeyError(key)
        self._filters[slot] = None
        self._empty.discard(key)
        self._open.discard(key)

    def __len__(self) -> int:
        return int(self._control[lay.LIVE_KEYS])

    def __contains__(self, key: int) -> bool:
        return bool(entry.find_slot(self._directory, key) >= 0)

    def __getitem__(self, key: int) -> Filter:
        slot = entry.find_slot(self._directory, key)
        if slot < 0:
            raise UnknownKeyError(key)
        stored: Filter | None = self._filters[slot]
        assert stored is not None
        return stored

    @property
    def memory_bytes(self) -> int:
        """Bytes of the index's own arrays and tables, the filter objects and vocabulary apart."""
        return (
            self._arrays.nbytes + self._out.nbytes + self._boxes.nbytes + self._marks.nbytes
            + sys.getsizeof(self._filters) + sys.getsizeof(self._attributes)
        )  # fmt: skip

    def statistics(self) -> IndexStatistics:
        """Counters since the index was made."""
        control = self._control
        return IndexStatistics(
            int(control[lay.PUBLICATIONS]),
            int(control[lay.CANDIDATES]),
            int(control[lay.MATCHES]),
            int(control[lay.MOVED]),
        )

    def __repr__(self) -> str:
        return f"<MatchIndex {len(self)} filters, {self.memory_bytes / 1024:.0f} KiB>"

    # --- matching ----------------------------------------------------------------------------

    def match(self, attributes: Attributes) -> Keys:
        """Keys of the filters that match a publication, each once."""
        encoded = Codes()
        encoded.put(attributes, self._vocabulary)
        codes, nums, texts, marks = self._encoded(encoded)
        found = entry.match_keys(self._directory, codes, nums, texts, marks, self._out)
        keys = self._out[:found].copy()
        if self._control[lay.HOT]:
            self._adapt()
        return keys

    def match_batch(self, publications: Sequence[Attributes]) -> Matches:
        """`match` for many publications at once."""
        vocabulary = self._vocabulary
        parts: list[Keys] = []
        all_offsets = [np.zeros(1, np.int64)]
        total = 0
        for first in range(0, len(publications), _CHUNK):
            encoded = Codes()
            for attributes in publications[first : first + _CHUNK]:
                encoded.put(attributes, vocabulary)
            offsets = np.zeros(len(encoded.starts), np.int64)
            self._match_chunk(encoded, offsets, parts)
            all_offsets.append(offsets[1:] + total)
            total += int(offsets[-1])
        keys = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return Matches(keys, np.concatenate(all_offsets))

    def match_links(self, attributes: Attributes, exclude: int | None = None) -> Routes:
        """Links and local keys with a matching entry; entries of link `exclude` do not count."""
        encoded = Codes()
        encoded.put(attributes, self._vocabulary)
        codes, nums, texts, marks = self._encoded(encoded)
        local, several = entry.match_link_mask(
            self._directory, codes, nums, texts, marks, -1 if exclude is None else exclude,
            self._mask, self._out,
        )  # fmt: skip
        routes = Routes(
            int.from_bytes(self._mask.tobytes(), "little"), bool(several), self._out[:local].copy()
        )
        if self._control[lay.HOT]:
            self._adapt()
        return routes

    def _match_chunk(self, encoded: Codes, offsets: Keys, parts: list[Keys]) -> None:
        codes, nums, texts, marks = self._encoded(encoded)
        starts = np.array(encoded.starts, np.int64)
        if len(self._out) < len(self) + _OUT_BATCH:  # answers in flight beside the largest one
            self._out = np.zeros(len(self) + _OUT_BATCH, np.int64)
        out = self._out
        first = 0
        while first < len(starts) - 1:
            after = int(entry.match_keys_batch(
                self._directory, first, starts, codes, nums, texts, marks, out, offsets
            ))  # fmt: skip
            parts.append(out[: offsets[after] - offsets[first]].copy())
            first = after
        if self._control[lay.HOT]:
            self._adapt()

    def _encoded(self, encoded: Codes) -> tuple[Array, Array, Array, Array]:
        codes, nums, marks = encoded.arrays()
        n = len(codes)
        if encoded.texts:
            texts: Array = np.frombuffer(encoded.texts, np.uint8)
            text_marks: Array = np.frombuffer(marks, np.int64)
        else:
            texts = _NO_TEXT
            if n + 1 > len(self._marks):
                self._marks = np.zeros(2 * n + 1, np.int64)
            text_marks = self._marks
        if n == 0:
            return _NO_CODES, _NO_NUMS, texts, text_marks
        return np.frombuffer(codes, np.int64), np.frombuffer(nums), texts, text_marks

    def _adapt(self) -> None:
        """Give a bounded number of conjunctions a better access predicate."""
        self._reserve(0, 0, 64)
        entry.rechoose(self._directory, _RECHOOSE)
        while self._control[lay.PENDING] >= 0:
            self._grow_wanted()
            entry.resume(self._directory)

    # --- relations ---------------------------------------------------------------------------

    def covering(self, filter: Filter) -> Keys:
        """Keys of stored filters that cover the given one, as `byway.covers` says; ascending."""
        answer: set[int] | None = None
        for conjunction in filter.conjunctions:
            keys = set()
            for number, sure in self._related(relations.COVERING, conjunction):
                key, stored = self._conjunction(number)
                if sure or stored.covers(conjunction):
                    keys.add(key)
            answer = keys if answer is None else answer & keys
        return self._all_keys() if answer is None else _sorted(answer)

    def covered_by(self, filter: Filter) -> Keys:
        """Keys of stored filters that the given one covers; ascending."""
        numbers: set[int] = set()
        for conjunction in filter.conjunctions:
            for number, sure in self._related(relations.COVERED, conjunction):
                if sure or conjunction.covers(self._conjunction(number)[1]):
                    numbers.add(number)
        records = self._arrays["conjunctions"][np.fromiter(numbers, np.int64, len(numbers))]
        slots, counts = np.unique(records["slot"], return_counts=True)
        owners = self._arrays["slots"][slots]
        keys = owners["key"][owners["count"] == counts]
        return np.sort(np.concatenate((keys, np.fromiter(self._empty, np.int64))))

    def intersecting(self, advertisement: Filter) -> Keys:
        """Keys of stored filters, read as subscriptions, that `advertisement` may feed; sorted."""
        if advertisement.open:
            return np.setdiff1d(self._all_keys(), _sorted(self._empty))
        keys: set[int] = set()
        for conjunction in advertisement.conjunctions:
            for number, sure in self._related(relations.FED, conjunction):
                key, stored = self._conjunction(number)
                if sure or (key not in keys and conjunction.may_produce(stored)):
                    keys.add(key)
        return _sorted(keys)

    def intersecting_advertisements(self, subscription: Filter) -> Keys:
        """Keys of stored filters, read as advertisements, that may feed `subscription`; sorted."""
        keys: set[int] = set(self._open) if subscription.conjunctions else set()
        for conjunction in subscription.conjunctions:
            for number, sure in self._related(relations.FEEDING, conjunction):
                key, stored = self._conjunction(number)
                if sure or (key not in keys and stored.may_produce(conjunction)):
                    keys.add(key)
        return _sorted(keys)

    def _related(self, mode: int, conjunction: Conjunction) -> list[tuple[int, bool]]:
        """(conjunction number, whether that is sure) of what stands in relation to a query."""
        if mode in (relations.COVERED, relations.FEEDING) and not self._control[lay.RELATIONS]:
            self._switch_relations_on()
        atoms = self._atoms
        attributes = self._attributes
        atoms.fill(conjunction, lambda name: attributes.get(name, -1))
        if len(atoms.codes) > len(self._boxes):
            self._boxes = np.zeros(2 * len(atoms.codes), relations.BOX)
        codes, nums = array("q", atoms.codes or [0]), array("d", atoms.nums or [0.0])
        set_nums, set_res = array("d", atoms.set_nums or [0.0]), array("q", atoms.set_res or [0])
        while True:
            found = entry.relate_query(
                self._directory,
                mode,
                np.frombuffer(codes, np.int64),
                np.frombuffer(nums),
                len(atoms.codes),
                np.frombuffer(set_nums),
                np.frombuffer(set_res, np.int64),
                self._boxes,
            )
            if found < self._arrays.rows("hits"):
                break
            self._arrays.grow("hits", 2 * self._arrays.rows("hits"))
        numbers = self._arrays["hits"][:found].tolist()
        return [(n, True) if n >= 0 else (~n, False) for n in numbers]

    def _conjunction(self, number: int) -> tuple[int, Conjunction]:
        """Key and conjunction object of a conjunction number."""
        record = self._arrays["conjunctions"][number]
        stored = self._filters[record["slot"]]
        assert stored is not None
        return int(self._arrays["conjunction_key"][number]), stored.conjunctions[record["ordinal"]]

    def _all_keys(self) -> Keys:
        slots = self._arrays["slots"][: self._control[lay.C_SLOTS]]
        return np.sort(slots["key"][slots["count"] >= 0])

    def _switch_relations_on(self) -> None:
        """File every constraint in the relation sets; from now on they are kept up to date."""
        number, atom = 0, 0
        while number < self._control[lay.C_CONJUNCTIONS]:
            self._reserve(0, 0, 8 * _RELATE)
            number, atom = entry.relate_all(self._directory, number, atom, _RELATE)
        self._control[lay.RELATIONS] = 1

    # --- room --------------------------------------------------------------------------------

    def _insert(self, slot: int, conjunction: Conjunction, ordinal: int, several: int) -> None:
        atoms = self._atoms
        atoms.fill(conjunction, self._attribute)
        for field in atoms.extended:
            self._extend(field)
        count = len(atoms.codes)
        members = len(atoms.set_nums)
        self._reserve(count, members, max(8, count + members))
        codes, nums = array("q", atoms.codes or [0]), array("d", atoms.nums or [0.0])
        if members:
            set_nums: Array = np.array(atoms.set_nums)
            set_res: Array = np.array(atoms.set_res, np.int64)
        else:
            set_nums, set_res = _NO_NUMS, _NO_CODES
        number, unfinished, atom = entry.insert(
            self._directory, slot, np.frombuffer(codes, np.int64), np.frombuffer(nums), count,
            set_nums, set_res, ordinal, several,
        )  # fmt: skip
        while unfinished:
            self._grow_wanted()
            unfinished, atom = entry.complete(self._directory, number, atom)

    def _attribute(self, name: str) -> int:
        """The attribute's number in this index, a new one if need be."""
        attribute = self._attributes.get(name)
        return self._new_attribute(name) if attribute is None else attribute

    def _new_attribute(self, name: str) -> int:
        arrays = self._arrays
        attribute = self._attributes[name] = len(self._attributes)
        number = self._vocabulary.name(name)
        known = arrays.rows("local")
        if number >= known:
            arrays.grow("local", max(number + 1, known * 5 // 4), -1)
        arrays["local"][number] = attribute
        if attribute >= arrays.rows("where"):
            size = max(attribute + 1, attribute * 3 // 2)
            arrays.grow("where", size, -1)
            arrays.grow("presence", size)
            old = arrays.rows("fields")
            arrays.grow("fields", size * lay.KINDS)
            _clear_fields(arrays["fields"][old:])
            arrays.grow("ordered", size * lay.KINDS * lay.ORDERED)
            arrays.grow("samples", 2 * size)
        self._control[lay.C_ATTRIBUTES] = attribute + 1
        return attribute

    def _extend(self, field: int) -> None:
        """Room to count grid levels and text lengths of a field, and text bytes from now on."""
        fields = self._arrays["fields"]
        if fields[field]["ext"] >= 0:
            return
        row = int(self._control[lay.C_EXTS])
        if row >= self._arrays.rows("ext"):
            self._arrays.grow("ext", row + row // 2 + 2)
            self._arrays.grow("masks", row + row // 2 + 2)
        self._control[lay.C_EXTS] = row + 1
        fields[field]["ext"] = row
        if field % lay.KINDS == lay.STRING:
            name = next(n for n, a in self._attributes.items() if a == field // lay.KINDS)
            self._vocabulary.text_names.add(self._vocabulary.names[name])

    def _reserve_keys(self) -> None:
        """Room for one more key."""
        arrays = self._arrays
        used = int(self._control[lay.C_SLOTS])
        if used >= arrays.rows("slots"):
            arrays.grow("slots", used + used // 8 + 16)
            if len(self._out) <= arrays.rows("slots"):
                self._out = np.zeros(arrays.rows("slots"), np.int64)
        if 3 * (self._control[lay.LIVE_KEYS] + 1) > 2 * arrays.rows("keys"):
            arrays.grow("keys", 2 * arrays.rows("keys"))
            entry.rebuild_keys(self._directory)

    def _reserve(self, atoms: int, members: int, filings: int) -> None:
        """Room for one more conjunction of this size in everything but postings and fences."""
        arrays = self._arrays
        control = self._control.tolist()
        used = control[lay.C_CONJUNCTIONS]
        if used >= arrays.rows("conjunctions"):
            size = used + used // 8 + 16
            arrays.grow("conjunctions", size)
            arrays.grow("conjunction_key", size)
            if arrays.rows("hits") <= size:
                arrays.grow("hits", size + 1)
        for pool, name, more in (
            (lay.POOL_ATOMS, "atoms", 2 * atoms),
            (lay.POOL_FILINGS, "filings", 2 * filings),
            (lay.POOL_SETS, "sets", 2 * members),
        ):
            used = control[lay.USED + pool]
            if used + more > arrays.rows(name):
                arrays.grow(name, used + max(used // 8, more, 16))
        more = 2 * filings + 8
        used = control[lay.C_LISTS]
        if used + more > arrays.rows("lists"):
            arrays.grow("lists", used + used // 8 + more)
        if 2 * (control[lay.HASHED_LISTS] + more) > arrays.rows("table"):
            arrays.grow("table", _power_of_two(2 * (control[lay.HASHED_LISTS] + more)))
            entry.rebuild_table(self._directory)
        if control[lay.WANT_POSTS] or control[lay.WANT_FENCES]:
            self._grow_wanted()

    def _grow_wanted(self) -> None:
        """Give the pools what a kernel asked for."""
        for want, pool, names in (
            (lay.WANT_POSTS, lay.POOL_POSTS, ("post_conjunction", "post_filing", "post_key")),
            (lay.WANT_FENCES, lay.POOL_FENCES, ("fences",)),
        ):
            wanted = int(self._control[want])
            if wanted:
                used = int(self._control[lay.USED + pool])
                for name in names:
                    self._arrays.grow(name, used + max(wanted, used // 8, 64))
                self._control[want] = 0


def _sorted(keys: set[int]) -> Keys:
    return np.array(sorted(keys), np.int64)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _clear_fields(fields: Array) -> None:
    for name in ("any", "other", "chain", "unequal", "ext", "samples"):
        fields[name] = -1


def _new_arrays(vocabulary: Vocabulary) -> Arrays:
    attributes = 4
    rows = {"control": lay.CONTROLS, "free": lay.POOLS, "hot": 64}
    rows |= dict.fromkeys(("atoms", "filings", "fences", "slots", "keys", "hits"), 16)
    rows |= dict.fromkeys(("conjunctions", "conjunction_key", "local"), 8)
    rows |= dict.fromkeys(("post_conjunction", "post_filing", "post_key", "table"), 64)
    rows |= {"lists": 24, "where": attributes, "presence": attributes, "samples": 2 * attributes}
    rows |= {"fields": attributes * lay.KINDS, "ordered": attributes * lay.KINDS * lay.ORDERED}
    arrays = Arrays(vocabulary, rows)
    for counter in (
        lay.FREE_CONJUNCTION, lay.FREE_SLOT, lay.FREE_LIST, lay.ALWAYS_LIST,
        lay.PENDING, lay.CURSOR,
    ):  # fmt: skip
        arrays["control"][counter] = -1
    _clear_fields(arrays["fields"])
    arrays["table"].fill(-1)
    arrays["local"].fill(-1)
    arrays["where"].fill(-1)
    return arrays
