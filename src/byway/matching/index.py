"""MatchIndex: which stored filters match a publication, and how stored filters relate to another.

This file asks the kernels, keeps the filter objects beside the arrays (which `growth` makes room
in), and asks `byway.model` where a kernel cannot decide. One thread at a time may use an index.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from byway.matching import layout as lay
from byway.matching.answers import NO_KEYS, IndexStatistics, Keys, Links, Matches, Routes
from byway.matching.arrays import BatchArrays
from byway.matching.building import ensure_kernels
from byway.matching.encoding import Atoms, Codes, Parcel
from byway.matching.growth import GrowingArrays
from byway.matching.layout import Array
from byway.matching.native import KERNELS
from byway.matching.vocabulary import SHARED, Vocabulary
from byway.model import Attributes, Conjunction, DuplicateKeyError, Filter, UnknownKeyError

LINKS_MAX: Final = 4_096
"""Numbers of links, and of targets."""
_CHUNK: Final = 256  # publications encoded and matched at a time
_BUFFER: Final = 64  # attributes of one publication that need no allocation
_TEXT_BUFFER: Final = 4_096  # bytes of its texts
_OUT_BATCH: Final = 65_536  # keys
_RECHOOSE: Final = 256  # conjunctions looked at again in one go
_ROUNDS: Final = 16  # of that after a chunk
_RELATE: Final = 1_024  # conjunctions filed for relations in one go
_SPARE: Final = 262_144  # bytes of its arrays that an index may always leave unused
_NO_TEXT: Final = np.zeros(1, np.uint8)
_NO_CODES: Final = np.zeros(0, np.int64)
_NO_NUMS: Final = np.zeros(0, np.float64)


class MatchIndex:
    """Filters by integer key, matched by access predicate and verification.

    Keys come back in an order that depends on the history of calls alone (same calls, same order).
    Relation queries sort their answers.
    """

    __slots__ = (
        "__weakref__", "_address", "_answer", "_answer_address", "_arrays", "_atoms", "_atoms_most",
        "_boxes", "_boxes_address", "_control", "_empty", "_filters", "_is_wide", "_marks", "_mask",
        "_open", "_out", "_parcel", "_single", "_texts", "is_sparse", "vocabulary",
    )  # fmt: skip

    def __init__(self, vocabulary: Vocabulary = SHARED) -> None:
        ensure_kernels()
        self.vocabulary = vocabulary
        self._atoms = Atoms(vocabulary)
        self._atoms_most = 64  # of one conjunction
        self._arrays = GrowingArrays(vocabulary)
        self._control = self._arrays.control
        self._filters: list[Filter | None] = []  # by slot
        self._empty: set[int] = set()  # keys whose filter is FALSE
        self._open: set[int] = set()  # keys whose filter is ANY
        self._answer = array("q", bytes(8 * 12))  # where mask, keys and buffers of a match are
        self._set_mask(1)
        self._out: Keys = np.zeros(0, np.int64)
        self._set_out(16)
        self._marks = np.zeros(_BUFFER + 1, np.int64)
        self._single = Codes()
        self._parcel = Parcel(
            array("q", bytes(8 * _BUFFER)), array("d", bytes(8 * _BUFFER)), array("B"),
            array("q", bytes(8 * (_BUFFER + 1))),
        )  # fmt: skip
        self._texts = bytearray(_TEXT_BUFFER)
        self._set_buffers()
        self._address = self._arrays.address
        self._answer_address = self._answer.buffer_info()[0]
        self._set_boxes(8)
        self.is_sparse = False
        """Whether most of the room in its arrays is unused since the last key was removed."""
        giving_up = weakref.finalize(self, _give_up, self._arrays, vocabulary)
        giving_up.atexit = False

    def _set_mask(self, words: int) -> None:
        """Make room for two masks of so many words of 64 targets: those with a matching entry, and
        those with several."""
        self._mask = np.zeros(2 * words, np.uint64)
        self._is_wide = words > 1
        self._answer[0], self._answer[1] = self._mask.ctypes.data, 2 * words

    def _set_out(self, rows: int) -> None:
        """Make room for so many keys in one answer. Nobody may have a memoryview of the array:
        numpy keeps the shape of each until the array goes."""
        self._out.resize(rows, refcheck=False)
        self._answer[2], self._answer[3] = self._out.ctypes.data, rows

    def _set_buffers(self) -> None:
        """Let kernels that read bodies use the buffers of `match`, and one for texts."""
        codes, nums, _, marks = self._parcel.arrays
        texts = np.frombuffer(self._texts, np.uint8)
        self._answer[4:] = array("q", (
            *codes.buffer_info(), *nums.buffer_info(), texts.ctypes.data, len(texts),
            *marks.buffer_info(),
        ))  # fmt: skip

    def _set_boxes(self, rows: int) -> None:
        """Make room for so many constrained attributes of a relation query."""
        self._boxes = np.zeros(rows, lay.BOX)
        self._boxes_address = int(self._boxes.ctypes.data)

    # --- storing -----------------------------------------------------------------------------

    def add(
        self, key: int, filter: Filter, link: int | None = None, target: int | None = None
    ) -> None:
        """Store a filter. `link` numbers the neighbour it came from (0 …); None: a local client.
        `target` is the bit that it sets in the masks of `match_links`, the link's own by default.

        Raises `DuplicateKeyError` when the key is there already; nothing changes then.
        """
        place = place_of(link, target)
        if place >= 0 and (place & 0xFFFF) >> 6 >= len(self._mask) >> 1:
            self._set_mask(((place & 0xFFFF) >> 6) + 1)
        arrays = self._arrays
        if arrays.reserve_key() and len(self._out) <= arrays.rows("slots"):
            self._set_out(arrays.rows("slots"))  # an answer may have all keys
        slot = KERNELS.open_key(self._address, key, place)
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

    def _insert(self, slot: int, conjunction: Conjunction, ordinal: int, several: int) -> None:
        atoms = self._atoms
        atoms.fill(conjunction, self._arrays.attribute)
        for field in atoms.extended:
            self._arrays.extend(field)
        count = len(atoms.codes)
        members = len(atoms.set_nums)
        self._atoms_most = max(self._atoms_most, count)
        self._arrays.reserve(count, members, max(8, count + members))
        number, unfinished, atom = KERNELS.insert(
            self._address, slot, atoms.address(), ordinal, several
        )
        while unfinished:
            self._arrays.grow_wanted()
            unfinished, atom = KERNELS.complete(self._address, number, atom)

    def remove(self, key: int) -> None:
        """Forget a key. Raises `UnknownKeyError` when it is not there."""
        slot, unused, live, used = KERNELS.remove(self._address, key)
        if slot < 0:
            raise UnknownKeyError(key)
        filter, self._filters[slot] = self._filters[slot], None
        self.is_sparse = used > 4 * live + _SPARE
        if unused:
            assert filter is not None
            self._atoms.forget()
            for conjunction in filter.conjunctions:
                self._arrays.release_attributes(name for name, _ in conjunction.terms)
        self._empty.discard(key)
        self._open.discard(key)

    def drop_scratch(self) -> None:
        """Free what the last calls left to be used by the next ones."""
        self._atoms.clear()
        self._single.clear()

    def renew_numbers(self) -> None:
        """Make objects anew that may hold the memory of many others which have gone."""
        self._arrays.renew_numbers()

    def take_over(self, other: MatchIndex) -> None:
        """Go on with the content of another index of the same vocabulary, which is not used any
        more; this one is empty."""
        assert not len(self)
        self._arrays.take_over(other._arrays)
        self._atoms.forget()
        self._atoms_most = other._atoms_most
        self._filters[:] = other._filters
        for own, others in ((self._empty, other._empty), (self._open, other._open)):
            own.clear()
            own.update(others)
        self._set_out(len(other._out))
        if len(other._mask) > len(self._mask):
            self._set_mask(len(other._mask) >> 1)
        self.is_sparse = False

    def __len__(self) -> int:
        return int(self._control[lay.LIVE_KEYS])

    def __contains__(self, key: int) -> bool:
        return bool(KERNELS.find_slot(self._address, key) >= 0)

    def route_of(self, key: int) -> tuple[int | None, int | None]:
        """Link and target that a key was added with. Raises `UnknownKeyError` when it is not
        there."""
        slot = KERNELS.find_slot(self._address, key)
        if slot < 0:
            raise UnknownKeyError(key)
        place = int(self._arrays["slots"][slot]["link"])
        return (None, None) if place < 0 else (place >> 16, place & 0xFFFF)

    def keys(self) -> Keys:
        """All keys, ascending."""
        slots = self._arrays["slots"][: self._control[lay.C_SLOTS]]
        return np.sort(slots["key"][slots["count"] >= 0])

    def __getitem__(self, key: int) -> Filter:
        slot = KERNELS.find_slot(self._address, key)
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
            + sys.getsizeof(self._filters) + sys.getsizeof(self._arrays.attributes)
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
        parcel = self._parcel_of(attributes)
        found, hot = KERNELS.match_keys(self._address, parcel.address, self._answer_address)
        keys = self._out[:found].copy()
        if hot:
            self._adapt()
        return keys

    def match_batch(self, publications: Sequence[Attributes]) -> Matches:
        """`match` for many publications at once."""
        vocabulary = self.vocabulary
        parts: list[tuple[Keys, Keys]] = []
        for first in range(0, len(publications), _CHUNK):
            encoded = Codes()
            for attributes in publications[first : first + _CHUNK]:
                encoded.put(attributes, vocabulary)
            self._match_chunk(encoded, parts)
        return Matches(parts)

    def match_links(self, attributes: Attributes, exclude: int | None = None) -> Links:
        """Targets with a matching entry; entries of link `exclude` do not count."""
        mask, matched, _, _ = self._match_mask(attributes, exclude)
        return Links(mask, matched > 1)

    def match_routes(self, attributes: Attributes, exclude: int | None = None) -> Routes:
        """`match_links`, the keys of matching entries without a link, and the targets with two or
        more."""
        mask, matched, local, several = self._match_mask(attributes, exclude)
        return mask, matched, self._out[:local].tolist() if local else (), several

    def match_body(self, body: bytes, exclude: int | None = None) -> Routes | None:
        """`match_routes` for the body of a publication as it is on the wire, without decoding it;
        None for one that is not plain (`kernels.plain_bodies`), which may be no publication."""
        local, matched, hot, mask, several, key = KERNELS.match_body(
            self._address, body, self._answer_address, -1 if exclude is None else exclude
        )
        if local < 0:
            return None
        if self._is_wide:
            mask, several = self._wide_masks()
        keys = (key,) if local == 1 else self._out[:local].tolist() if local else ()
        if hot:
            self._adapt()
        return mask, matched, keys, several

    def _wide_masks(self) -> tuple[int, int]:
        """Both masks of the last match, of more than 64 targets."""
        both = self._mask.tobytes()
        half = len(both) >> 1
        return int.from_bytes(both[:half], "little"), int.from_bytes(both[half:], "little")

    def _match_mask(self, attributes: Attributes, exclude: int | None) -> tuple[int, int, int, int]:
        """(mask, entries that match, how many local keys stand in the buffer, targets with several
        entries)."""
        parcel = self._parcel_of(attributes)
        local, matched, hot, mask, several = KERNELS.match_link_mask(
            self._address, parcel.address, self._answer_address, -1 if exclude is None else exclude
        )
        if self._is_wide:
            mask, several = self._wide_masks()
        if hot:
            self._adapt()
        return mask, matched, local, several

    def _match_chunk(self, encoded: Codes, parts: list[tuple[Keys, Keys]]) -> None:
        codes, nums, texts, marks = self._encoded(encoded)
        starts = np.array(encoded.starts, np.int64)
        offsets = np.zeros(len(starts), np.int64)
        if len(self._out) < len(self) + _OUT_BATCH:  # room for the largest answer behind the rest
            self._set_out(len(self) + _OUT_BATCH)
        arrays = BatchArrays(starts, codes, nums, texts, marks, self._out, offsets)
        first = 0
        while first < len(starts) - 1:
            after = KERNELS.match_keys_batch(self._address, first, arrays.address)
            done = offsets[first : after + 1] - offsets[first]
            parts.append((self._out[: done[-1]].copy(), done))
            first = after
        if self._control[lay.HOT]:
            self._adapt(_ROUNDS)

    def _parcel_of(self, attributes: Attributes) -> Parcel:
        """One publication, as a rule in buffers that are used again and again."""
        encoded = self._single
        encoded.clear()
        encoded.put(attributes, self.vocabulary)
        if encoded.texts or len(encoded.codes) > _BUFFER:
            return encoded.parcel()
        self._parcel.put(encoded.codes, encoded.nums)
        return self._parcel

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

    def _adapt(self, rounds: int = 1) -> None:
        """Give a bounded number of conjunctions a better access predicate."""
        while rounds > 0 and self._control[lay.HOT]:
            rounds -= 1
            self._arrays.reserve(self._atoms_most, 0, 64)
            KERNELS.rechoose(self._address, _RECHOOSE)
            while self._control[lay.PENDING] >= 0:
                self._arrays.grow_wanted()
                KERNELS.resume(self._address)

    # --- relations ---------------------------------------------------------------------------

    def covering(self, filter: Filter) -> Keys:
        """Keys of stored filters that cover the given one, as `byway.covers` says; ascending."""
        answer: Keys | None = None
        for conjunction in filter.conjunctions:
            sure, asked = self._related(lay.COVERING, conjunction)
            asked = [n for n in asked if self._stored(n).covers(conjunction)]
            keys = self._keys(sure, asked)
            answer = keys if answer is None else np.intersect1d(answer, keys, assume_unique=True)
        return self.keys() if answer is None else answer

    def covered_by(self, filter: Filter) -> Keys:
        """Keys of stored filters that the given one covers; ascending."""
        parts: list[Keys] = []
        for conjunction in filter.conjunctions:
            sure, asked = self._related(lay.COVERED, conjunction)
            asked = [n for n in asked if conjunction.covers(self._stored(n))]
            parts += [sure, np.array(asked, np.int64)] if asked else [sure]
        found = np.concatenate(parts) if parts else NO_KEYS
        records = self._arrays["conjunctions"][found]
        if len(filter.conjunctions) == 1 and not (self._empty or records["several"].any()):
            return np.sort(self._arrays["conjunction_key"][found])
        # a key counts when each of its conjunctions is covered
        records = self._arrays["conjunctions"][np.unique(found)]
        slots, counts = np.unique(records["slot"], return_counts=True)
        owners = self._arrays["slots"][slots]
        keys = owners["key"][owners["count"] == counts]
        return np.sort(np.concatenate((keys, np.fromiter(self._empty, np.int64))))

    def intersecting(self, advertisement: Filter) -> Keys:
        """Keys of stored filters, read as subscriptions, that `advertisement` may feed; sorted."""
        if advertisement.open:
            return np.setdiff1d(self.keys(), np.fromiter(self._empty, np.int64))
        parts = [NO_KEYS]
        found: set[int] = set()
        for conjunction in advertisement.conjunctions:
            sure, asked = self._related(lay.FED, conjunction)
            asked = self._one_of_each(sure, asked, found, conjunction.may_produce)
            parts.append(self._keys(sure, asked))
        return parts[1] if len(parts) == 2 else np.unique(np.concatenate(parts))

    def intersecting_advertisements(self, subscription: Filter) -> Keys:
        """Keys of stored filters, read as advertisements, that may feed `subscription`; sorted."""
        parts = [NO_KEYS]
        found: set[int] = set()
        for conjunction in subscription.conjunctions:
            sure, asked = self._related(lay.FEEDING, conjunction)
            feeds = partial(_may_feed, conjunction)
            asked = self._one_of_each(sure, asked, found, feeds)
            parts.append(self._keys(sure, asked))
        if self._open and subscription.conjunctions:
            parts.append(np.fromiter(self._open, np.int64))
        return parts[1] if len(parts) == 2 else np.unique(np.concatenate(parts))

    def _related(self, mode: int, conjunction: Conjunction) -> tuple[Keys, list[int]]:
        """Numbers of the conjunctions in a relation to a query: those that are sure, and those for
        which `byway.model` must be asked."""
        if mode in (lay.COVERED, lay.FEEDING) and not self.serves_relations:
            self.serve_relations()
        atoms = self._atoms
        attributes = self._arrays.attributes
        atoms.fill(conjunction, lambda name: attributes.get(name, -1))
        if len(atoms.codes) > len(self._boxes):
            self._set_boxes(2 * len(atoms.codes))
        address = atoms.address()
        while True:
            found = KERNELS.relate_query(
                self._address, mode, address, self._boxes_address, len(self._boxes)
            )
            if found < self._arrays.rows("hits"):
                break
            self._arrays.grow("hits", 2 * self._arrays.rows("hits"))
        numbers = self._arrays["hits"][:found].astype(np.int64)
        if self._control[lay.HOT]:
            self._adapt()
        if found == 0 or numbers.min() >= 0:
            return numbers, []
        return numbers[numbers >= 0], sorted(set((~numbers[numbers < 0]).tolist()))

    def _one_of_each(
        self, sure: Keys, asked: list[int], found: set[int], holds: Callable[[Conjunction], bool]
    ) -> list[int]:
        """Of those that must be asked for, one that holds for each filter that is not among those
        found yet: one alternative is enough, and two long filters have thousands of pairs."""
        if not asked:
            return asked
        slots = self._arrays["conjunctions"]["slot"]
        found.update(slots[sure].tolist())
        first = []
        for number, slot in zip(asked, slots[asked].tolist(), strict=True):
            if slot not in found and holds(self._stored(number)):
                found.add(slot)
                first.append(number)
        return first

    def _keys(self, sure: Keys, asked: list[int]) -> Keys:
        """Keys of conjunctions, each once, ascending."""
        keys = self._arrays["conjunction_key"]
        if asked:
            return np.unique(np.concatenate((keys[sure], keys[asked])))
        return np.sort(keys[sure])

    def _stored(self, number: int) -> Conjunction:
        """The conjunction object of a conjunction number."""
        record = self._arrays["conjunctions"][number]
        stored: Filter | None = self._filters[record["slot"]]
        assert stored is not None
        conjunction: Conjunction = stored.conjunctions[record["ordinal"]]
        return conjunction

    @property
    def serves_relations(self) -> bool:
        """Whether constraints are filed for `covered_by` and `intersecting_advertisements`."""
        return bool(self._control[lay.RELATIONS])

    def serve_relations(self) -> None:
        """File every constraint in the relation sets; from now on they are kept up to date."""
        number, atom = 0, 0
        while number < self._control[lay.C_CONJUNCTIONS]:
            self._arrays.reserve(0, 0, 8 * _RELATE)
            number, atom = KERNELS.relate_all(self._address, number, atom, _RELATE)
        self._control[lay.RELATIONS] = 1


def _give_up(arrays: GrowingArrays, vocabulary: Vocabulary) -> None:
    """An index is no longer there: the vocabulary takes its words back when it has time, since
    this may happen at any moment."""
    if arrays.attributes:
        vocabulary.orphans.append(arrays)


def _may_feed(subscription: Conjunction, advertisement: Conjunction) -> bool:
    return advertisement.may_produce(subscription)


def place_of(link: int | None, target: int | None) -> int:
    """Link and target as the one number that is stored with a filter; -1 for a local client's.
    Raises `ValueError` for a number out of range."""
    if link is None:
        return -1
    if target is None:
        target = link
    for number in (link, target):
        if not 0 <= number < LINKS_MAX:
            raise ValueError(f"link {number} is out of range: expected 0 to {LINKS_MAX - 1}")
    return link << 16 | target
