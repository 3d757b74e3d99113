"""The vocabulary: numbers for names and strings, shared by all indexes of a process.

It holds the attribute names and strings of stored filters (never those of publications, which are
only looked up). Uses are counted: names by the indexes that have such an attribute, strings by the
atoms that name them. What nothing uses any more is forgotten, and its number given again. Python
finds words in dicts, kernels by their bytes in tables of their own. It knows nothing of filters.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections import deque
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from byway.matching.building import ensure_kernels
from byway.matching.layout import NAME, WORD, Array
from byway.matching.native import KERNELS
from byway.model.fitting import fit

UNUSED_MAX: Final = 256
"""Strings that may wait, unused, to be forgotten together."""
_SPARE: Final = 1_024
"""Numbers for which there is room without a string."""
_ROWS: Final = 32
"""Words for which there is room at first."""
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
        self.forgotten = 0
        """Counts the strings that were forgotten."""
        self.orphans: deque[Orphan] = deque()
        """Indexes that have gone without giving up their words."""
        self._texts: list[str | None] = []  # by number; they own the bytes that kernels read
        self._free = array("i")  # numbers of strings; those that were cut off do not count
        self._words: Array = np.zeros(_ROWS, WORD)
        self._unused: npt.NDArray[np.int32] = np.zeros(_ROWS, np.int32)
        self._unused_count = array("q", (0,))
        self._string_table: npt.NDArray[np.int64] = np.zeros(2 * _ROWS, np.int64)
        self._name_texts: list[str | None] = []  # by number, as `_texts`
        self._name_uses = array("i")  # by number
        self._free_names = array("i")  # those that were cut off do not count
        self._names: Array = np.zeros(_ROWS, NAME)
        self._name_table: npt.NDArray[np.int64] = np.zeros(2 * _ROWS, np.int64)
        self._size = ctypes.c_ssize_t()
        self._size_address = ctypes.addressof(self._size)
        self.directory: npt.NDArray[np.int64] = np.zeros(12, np.int64)  # never moves
        self._address = int(self.directory.ctypes.data)
        self._enter()

    @property
    def memory_bytes(self) -> int:
        """Bytes of its arrays and of its words, as Python keeps them."""
        words = len(self.names) + len(self.strings)
        tables = sys.getsizeof(self.names) + sys.getsizeof(self.strings)
        used = int(self._words["length"][: len(self._texts)].sum())
        arrays = (self._words, self._unused, self._string_table, self._names, self._name_table)
        return sum(a.nbytes for a in arrays) + tables + used + _STRING_BYTES * words

    # --- names -------------------------------------------------------------------------------

    def use_name(self, name: str) -> int:
        """The number of an attribute name that one more index uses, a new one if need be."""
        number = self.names.get(name)
        if number is None:
            number = self._free_name_number()
            self.names[name] = number
            self._file_name(name, number)
        self._name_uses[number] += 1
        return number

    def _free_name_number(self) -> int:
        free, uses = self._free_names, self._name_uses
        while free:
            number = free.pop()
            if number < len(uses):
                return number
        uses.append(0)
        self._name_texts.append(None)
        return len(uses) - 1

    def _file_name(self, name: str, number: int) -> None:
        """Let kernels find a name."""
        if not KERNELS.are_loaded:
            ensure_kernels()
        if number >= len(self._names):
            self._names.resize(number * 5 // 4 + _ROWS, refcheck=False)
        if 2 * len(self.names) > len(self._name_table):
            _move(self._name_table, len(self.names))
        self._name_texts[number] = name
        self._names[number] = (_utf8(name, self._size_address), self._size.value, 0)
        self._enter()
        KERNELS.file_name(self._address, number)

    def release_name(self, name: str) -> int:
        """Forget a name if it was the last index that used it; its number."""
        number = self.names[name]
        self._name_uses[number] -= 1
        if not self._name_uses[number]:
            KERNELS.drop_name(self._address, number)
            del self.names[name]
            self._name_texts[number] = None
            self.text_names.discard(number)
            self._free_names.append(number)
            fit(self.names)
            if self._name_texts[-1] is None:
                self._shrink_names()
        return number

    def _shrink_names(self) -> None:
        """Give back room behind the last name, and in the tables, as `_shrink` does."""
        texts = self._name_texts
        while texts and texts[-1] is None:
            texts.pop()
        del self._name_uses[len(texts) :]
        if len(self._names) > 4 * len(texts) + _SPARE:
            self._names.resize(2 * len(texts) + _ROWS, refcheck=False)
            self._enter()
        if len(self._name_table) > 16 * len(self.names) + _SPARE:
            _move(self._name_table, len(self.names))
            self._enter()
        if len(self._free_names) > 2 * len(texts) + _SPARE:
            free = np.array(self._free_names, np.int32)
            del self._free_names[:]
            self._free_names.frombytes(free[free < len(texts)].tobytes())

    def read_text_of(self, name: str) -> None:
        """Encode the bytes of strings that publications have under a name, from now on."""
        number = self.names[name]
        if number not in self.text_names:
            self.text_names.add(number)
            self._names["reads_text"][number] = 1

    # --- strings -----------------------------------------------------------------------------

    def string(self, value: str) -> int:
        """The number of a string, a new one if need be."""
        number = self.strings.get(value)
        return self._new_string(value) if number is None else number

    def _new_string(self, value: str) -> int:
        if not KERNELS.are_loaded:
            ensure_kernels()
        address = _utf8(value, self._size_address)
        number = self._free_number()
        self._texts[number] = value
        self.strings[value] = number
        self._words[number] = (address, self._size.value, 0, 1)
        if 2 * len(self.strings) > len(self._string_table):
            self._resize_string_table()
        KERNELS.file_string(self._address, number)
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
            self._resize(len(texts) * 5 // 4 + _ROWS)
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
            KERNELS.drop_string(self._address, number)
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
            self._resize(2 * len(texts) + _ROWS)
        if len(self._string_table) > 16 * len(self.strings) + _SPARE:
            self._resize_string_table()
        if len(self._free) > 2 * len(texts) + _SPARE:
            free = np.array(self._free, np.int32)
            del self._free[:]
            self._free.frombytes(free[free < len(texts)].tobytes())

    def _resize(self, rows: int) -> None:
        self._words.resize(rows, refcheck=False)
        self._unused.resize(rows, refcheck=False)
        self._enter()

    def _resize_string_table(self) -> None:
        _move(self._string_table, len(self.strings))
        self._enter()

    def _enter(self) -> None:
        self.directory[:] = (
            self._words.ctypes.data, len(self._words),
            self._unused.ctypes.data, len(self._unused),
            self._unused_count.buffer_info()[0], 1,
            self._string_table.ctypes.data, len(self._string_table),
            self._names.ctypes.data, len(self._names),
            self._name_table.ctypes.data, len(self._name_table),
        )  # fmt: skip

    def load(
        self, names: list[str], strings: list[str], text_names: list[int], text: Array
    ) -> None:
        """Take over words that were stored, with the bytes of all strings one after the other,
        which somebody else keeps. Nothing can be added afterwards, and kernels do not find words:
        publications must be encoded."""
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


def _move(table: npt.NDArray[np.int64], words: int) -> None:
    """Give a table the size for so many words; it keeps its words."""
    rows = 4 << max(words, _ROWS // 2).bit_length()
    moved = np.zeros(rows, np.int64)
    KERNELS.move_words(table.ctypes.data, len(table), moved.ctypes.data, rows)
    table.resize(rows, refcheck=False)
    table[:] = moved


SHARED = Vocabulary()
"""The vocabulary that indexes use unless told otherwise."""
