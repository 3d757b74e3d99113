"""The vocabulary: numbers for names and strings, shared by all indexes of a process.

It holds the attribute names and strings of stored filters (never those of publications, which are
only looked up). Uses are counted: names by the indexes that have such an attribute, strings by the
atoms that name them. What nothing uses any more is forgotten, and its number given again. It knows
nothing of filters.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections import deque
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from byway.matching.layout import WORD, Array
from byway.model.fitting import fit

UNUSED_MAX: Final = 256
"""Strings that may wait, unused, to be forgotten together."""
_SPARE: Final = 1_024
"""Numbers for which there is room without a string."""
_STRING_BYTES: Final = 57
"""What Python needs for a string besides its characters, with its place in a list."""

_utf8 = ctypes.pythonapi.PyUnicode_AsUTF8AndSize
_utf8.argtypes = [ctypes.py_object, ctypes.c_void_p]
_utf8.restype = ctypes.c_void_p


class Orphan(Protocol):
    """The arrays of an index that is no longer there."""

    def release_words(self) -> None:
        """Give up all names and strings."""


class Vocabulary:
    """Names and strings of filters, by number.

    A string that is new has no use yet, and is safe until the next call of `forget_unused`, which
    changes `forgotten`: whoever keeps numbers without a use must look them up again then.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.strings: dict[str, int] = {}
        self.text_names: set[int] = set()  # names that some filter tests with a text operator
        self.changes = 0
        """Counts up whenever a publication might be encoded otherwise than before."""
        self.forgotten = 0
        """Counts the strings that were forgotten."""
        self.orphans: deque[Orphan] = deque()
        """Indexes that have gone without giving up their words."""
        self._texts: list[str | None] = []  # by number; they own the bytes that kernels read
        self._free = array("i")  # numbers of strings; those that were cut off do not count
        self._words: Array = np.zeros(32, WORD)
        self._unused: npt.NDArray[np.int32] = np.zeros(32, np.int32)
        self._unused_count = array("q", (0,))
        self._name_uses = array("i")  # by number
        self._free_names = array("i")
        self._size = ctypes.c_ssize_t()
        self._size_address = ctypes.addressof(self._size)
        self.directory: npt.NDArray[np.int64] = np.zeros(6, np.int64)  # never moves
        self._enter()

    @property
    def memory_bytes(self) -> int:
        """Bytes of its arrays and of its words, as Python keeps them."""
        words = len(self.names) + len(self.strings)
        tables = sys.getsizeof(self.names) + sys.getsizeof(self.strings)
        used = int(self._words["length"][: len(self._texts)].sum())
        return self._words.nbytes + self._unused.nbytes + tables + used + _STRING_BYTES * words

    # --- names -------------------------------------------------------------------------------

    def use_name(self, name: str) -> int:
        """The number of an attribute name that one more index uses, a new one if need be."""
        number = self.names.get(name)
        if number is None:
            number = self._free_names.pop() if self._free_names else len(self._name_uses)
            if number == len(self._name_uses):
                self._name_uses.append(0)
            self.names[name] = number
            self.changes += 1
        self._name_uses[number] += 1
        return number

    def release_name(self, name: str) -> int:
        """Forget a name if it was the last index that used it; its number."""
        number = self.names[name]
        self._name_uses[number] -= 1
        if not self._name_uses[number]:
            del self.names[name]
            self.text_names.discard(number)
            self._free_names.append(number)
            fit(self.names)
            if not self.names:
                del self._name_uses[:], self._free_names[:]
        return number

    def read_text_of(self, name: str) -> None:
        """Encode the bytes of strings that publications have under a name, from now on."""
        number = self.names[name]
        if number not in self.text_names:
            self.text_names.add(number)
            self.changes += 1

    # --- strings -----------------------------------------------------------------------------

    def string(self, value: str) -> int:
        """The number of a string, a new one if need be."""
        number = self.strings.get(value)
        return self._new_string(value) if number is None else number

    def _new_string(self, value: str) -> int:
        address = _utf8(value, self._size_address)
        number = self._free_number()
        self._texts[number] = value
        self.strings[value] = number
        self.changes += 1
        self._words[number] = (address, self._size.value, 0, 1)
        count = self._unused_count[0]
        self._unused[count] = number
        self._unused_count[0] = count + 1
        return number

    def _free_number(self) -> int:
        free, texts = self._free, self._texts
        while free:
            number = free.pop()
            if number < len(texts):
                return number
        texts.append(None)
        if len(texts) > len(self._words):
            self._resize(len(texts) * 5 // 4 + 32)
        return len(texts) - 1

    def forget_unused(self, kept: int = UNUSED_MAX) -> bool:
        """Forget strings that nothing uses, if there may be more than `kept`: `2 * UNUSED_MAX` at
        most in one call. Whether there may be more."""
        while self.orphans:
            self.orphans.popleft().release_words()
        count = self._unused_count[0]
        if count <= kept:
            return False
        first = max(0, count - 2 * UNUSED_MAX)
        looked_at = self._unused[first:count].copy()
        self._unused_count[0] = first
        self._words["listed"][looked_at] = 0
        unused = looked_at[self._words["uses"][looked_at] == 0]
        strings, texts = self.strings, self._texts
        for number in unused.tolist():
            text = texts[number]
            assert text is not None
            del strings[text]
            texts[number] = None
        self._free.frombytes(unused.tobytes())
        self.forgotten += len(unused)
        if len(unused):
            self._shrink()
        return first > 0

    def _shrink(self) -> None:
        """Give back room behind the last string, and in the tables."""
        fit(self.strings)
        texts = self._texts
        while texts and texts[-1] is None:
            texts.pop()
        if len(self._words) > 4 * len(texts) + _SPARE:
            self._resize(2 * len(texts) + 32)
        if len(self._free) > 2 * len(texts) + _SPARE:
            free = np.array(self._free, np.int32)
            del self._free[:]
            self._free.frombytes(free[free < len(texts)].tobytes())

    def _resize(self, rows: int) -> None:
        self._words.resize(rows, refcheck=False)
        self._unused.resize(rows, refcheck=False)
        self._enter()

    def _enter(self) -> None:
        self.directory[:] = (
            self._words.ctypes.data, len(self._words),
            self._unused.ctypes.data, len(self._unused),
            self._unused_count.buffer_info()[0], 1,
        )  # fmt: skip

    def load(
        self, names: list[str], strings: list[str], text_names: list[int], text: Array
    ) -> None:
        """Take over words that were stored, with the bytes of all strings one after the other,
        which somebody else keeps. Nothing can be added afterwards."""
        self.names = {name: number for number, name in enumerate(names)}
        self.strings = {string: number for number, string in enumerate(strings)}
        self.text_names = set(text_names)
        self._words = np.zeros(max(len(strings), 1), WORD)
        lengths = np.fromiter((len(string.encode()) for string in strings), np.int64, len(strings))
        self._words["length"][: len(strings)] = lengths
        self._words["address"][: len(strings)] = text.ctypes.data + np.cumsum(lengths) - lengths
        self._enter()

    def __repr__(self) -> str:
        return f"<Vocabulary {len(self.names)} names, {len(self.strings)} strings>"


SHARED = Vocabulary()
"""The vocabulary that indexes use unless told otherwise."""
