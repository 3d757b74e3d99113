"""The arrays of an index that grows: room is made before a kernel needs it.

Decides how large arrays are and which attributes have numbers. What is stored in them is the
kernels' business.
"""

from __future__ import annotations

from array import array as machine_array
from collections.abc import Iterable

from byway.matching import layout as lay
from byway.matching.arrays import Arrays
from byway.matching.layout import Array
from byway.matching.native import KERNELS
from byway.matching.vocabulary import Vocabulary


class GrowingArrays(Arrays):
    """Arrays of an index to which filters are added."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary, _first_rows())
        self._vocabulary = vocabulary
        self.attributes: dict[str, int] = {}
        """Numbers of the attributes that filters constrain, by name."""
        self._names: list[str] = []  # by number; empty if it is free
        self._free = machine_array("i")  # numbers of attributes
        self.control = self["control"]
        """The counters that kernels keep; see `layout`."""
        for counter in (
            lay.FREE_CONJUNCTION, lay.FREE_SLOT, lay.FREE_LIST, lay.ALWAYS_LIST,
            lay.PENDING, lay.CURSOR, lay.FREE_EXT, lay.FREE_SAMPLES,
        ):  # fmt: skip
            self.control[counter] = -1
        _clear_fields(self["fields"])
        for name in ("table", "local", "where"):
            self[name].fill(-1)
        KERNELS.prepare(self.address)

    def attribute(self, name: str) -> int:
        """The number of an attribute in this index, a new one if need be."""
        attribute = self.attributes.get(name)
        return self._new_attribute(name) if attribute is None else attribute

    def _new_attribute(self, name: str) -> int:
        attribute = self._free.pop() if self._free else len(self._names)
        if attribute == len(self._names):
            self._names.append(name)
        self._names[attribute] = name
        self.attributes[name] = attribute
        number = self._vocabulary.use_name(name)
        known = self.rows("local")
        if number >= known:
            self.grow("local", max(number + 1, known * 5 // 4), -1)
        self["local"][number] = attribute
        if attribute >= self.rows("where"):
            size = max(attribute + 1, attribute * 3 // 2)
            self.grow("where", size, -1)
            self.grow("presence", size)
            old = self.rows("fields")
            self.grow("fields", size * lay.KINDS)
            _clear_fields(self["fields"][old:])
            self.grow("ordered", size * lay.KINDS * lay.ORDERED)
            self.grow("samples", 2 * size)
        self.control[lay.C_ATTRIBUTES] = len(self._names)
        self.control[lay.LIVE_ATTRIBUTES] += 1
        return attribute

    def release_attributes(self, names: Iterable[str]) -> None:
        """Free the numbers of those attributes that no filter constrains any more."""
        constrained = self["presence"][:, 1]
        for name in names:
            attribute = self.attributes.get(name)
            if attribute is not None and not constrained[attribute]:
                KERNELS.forget_attribute(self.address, attribute)
                del self.attributes[name]
                self._names[attribute] = ""
                self["local"][self._vocabulary.release_name(name)] = -1
                self._free.append(attribute)
                self.control[lay.LIVE_ATTRIBUTES] -= 1

    def take_over(self, other: GrowingArrays) -> None:
        """Go on with the content and the words of other arrays, which are not used any more. Those
        of its own were given up."""
        assert not self.attributes
        self.copy_from(other)
        self.attributes.clear()  # its room, too
        self.attributes.update(other.attributes)
        self._names[:] = other._names
        self._free[:] = other._free
        other.attributes.clear()

    def renew_numbers(self) -> None:
        """Make the objects anew that number attributes: they were made between many others, and may
        hold the memory of those."""
        numbers = machine_array("q", self.attributes.values()).tolist()
        self.attributes.update(zip(list(self.attributes), numbers, strict=True))

    def release_words(self) -> None:
        """Give up all names and strings, once the index is no longer there."""
        KERNELS.release_words(self.address)
        for name in self.attributes:
            self._vocabulary.release_name(name)

    def extend(self, field: int) -> None:
        """Count grid levels and text lengths of a field, and encode its text bytes, from now on."""
        fields = self["fields"]
        if fields[field]["ext"] >= 0:
            return
        row = int(self.control[lay.FREE_EXT])
        if row >= 0:
            self.control[lay.FREE_EXT] = self["ext"][row, 0]
            self["ext"][row, 0] = 0
        else:
            row = int(self.control[lay.C_EXTS])
            if row >= self.rows("ext"):
                self.grow("ext", row + row // 2 + 2)
                self.grow("masks", row + row // 2 + 2)
            self.control[lay.C_EXTS] = row + 1
        self.control[lay.LIVE_EXTS] += 1
        fields[field]["ext"] = row
        if field % lay.KINDS == lay.STRING:
            self._vocabulary.read_text_of(self._names[field // lay.KINDS])

    def reserve_key(self) -> bool:
        """Make room for one more key. Whether there is room for more keys than before."""
        used = int(self.control[lay.C_SLOTS])
        more = used >= self.rows("slots")
        if more:
            self.grow("slots", used + used // 8 + 16)
        if 3 * (self.control[lay.LIVE_KEYS] + 1) > 2 * self.rows("keys"):
            self.grow("keys", 2 * self.rows("keys"))
            KERNELS.rebuild_keys(self.address)
        return more

    def reserve(self, atoms: int, members: int, filings: int) -> None:
        """Make room for one more conjunction of this size in everything but postings and fences."""
        control = self.control.tolist()
        used = control[lay.C_CONJUNCTIONS]
        if used >= self.rows("conjunctions"):
            size = used + used // 8 + 16
            self.grow("conjunctions", size)
            self.grow("conjunction_key", size)
            if self.rows("hits") <= size:
                self.grow("hits", size + 1)
        for pool, name, more in (
            (lay.POOL_ATOMS, "atoms", 3 * atoms),  # a block may be twice as large, and a copy
            (lay.POOL_FILINGS, "filings", 2 * filings),
            (lay.POOL_SETS, "sets", 2 * members),
        ):
            used = control[lay.USED + pool]
            if used + more > self.rows(name):
                self.grow(name, used + max(used // 8, more, 16))
        more = 2 * filings + 8
        used = control[lay.C_LISTS]
        if used + more > self.rows("lists"):
            self.grow("lists", used + used // 8 + more)
        if 2 * (control[lay.HASHED_LISTS] + more) > self.rows("table"):
            self.grow("table", _power_of_two(2 * (control[lay.HASHED_LISTS] + more)))
            KERNELS.rebuild_table(self.address)
        if control[lay.WANT_POSTS] or control[lay.WANT_FENCES]:
            self.grow_wanted()

    def grow_wanted(self) -> None:
        """Give postings and fences the room that a kernel asked for."""
        for want, pool, names in (
            (lay.WANT_POSTS, lay.POOL_POSTS, ("post_conjunction", "post_filing", "post_key")),
            (lay.WANT_FENCES, lay.POOL_FENCES, ("fences",)),
        ):
            wanted = int(self.control[want])
            if wanted:
                used = int(self.control[lay.USED + pool])
                for name in names:
                    self.grow(name, used + max(wanted, used // 8, 64))
                self.control[want] = 0


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _clear_fields(fields: Array) -> None:
    for name in ("any", "other", "chain", "unequal", "ext", "samples"):
        fields[name] = -1


def _first_rows() -> dict[str, int]:
    """Rows of each array at first; arrays that are not named have none."""
    attributes = 4
    rows = {"control": lay.CONTROLS, "free": lay.POOLS, "hot": 64}
    rows |= dict.fromkeys(("deferred", "deferred_lists", "deferred_starts"), lay.DEFERRED_MAX + 1)
    rows |= dict.fromkeys(("atoms", "filings", "fences", "slots", "keys", "hits"), 16)
    rows |= dict.fromkeys(("conjunctions", "conjunction_key", "local"), 8)
    rows |= dict.fromkeys(("post_conjunction", "post_filing", "post_key", "table"), 64)
    rows |= {"lists": 24, "where": attributes, "presence": attributes, "samples": 2 * attributes}
    rows |= {"fields": attributes * lay.KINDS, "ordered": attributes * lay.KINDS * lay.ORDERED}
    return rows
