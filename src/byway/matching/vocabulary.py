"""The vocabulary: numbers for names and strings, shared by all indexes of a process.

Append-only: it holds every attribute name and every string that a filter ever mentioned (never
those of publications, which are only looked up). It knows nothing of filters.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import numpy.typing as npt

_WORD_BYTES: Final = 49
"""What Python needs for a string besides its characters."""


class Vocabulary:
    """Names and strings seen in filters, numbered from 0 in the order they came."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.strings: dict[str, int] = {}
        self.text_names: set[int] = set()  # names that some filter tests with a text operator
        self._text: npt.NDArray[np.uint8] = np.zeros(256, np.uint8)
        self._text_start: npt.NDArray[np.int64] = np.zeros(32, np.int64)
        self.directory: npt.NDArray[np.int64] = np.zeros(4, np.int64)  # never moves
        self._enter()

    @property
    def words(self) -> int:
        """Counts up whenever a publication might be encoded otherwise than before."""
        return len(self.names) + len(self.strings) + len(self.text_names)

    @property
    def memory_bytes(self) -> int:
        """Bytes of its arrays and of its words, as Python keeps them."""
        words = len(self.names) + len(self.strings)
        tables = sys.getsizeof(self.names) + sys.getsizeof(self.strings)
        used = int(self._text_start[len(self.strings)])
        return self._text.nbytes + self._text_start.nbytes + tables + used + _WORD_BYTES * words

    def name(self, name: str) -> int:
        """The number of an attribute name, a new one if need be."""
        number = self.names.get(name)
        if number is None:
            number = self.names[name] = len(self.names)
        return number

    def string(self, value: str) -> int:
        """The number of a string, a new one if need be."""
        number = self.strings.get(value)
        if number is None:
            number = self.strings[value] = len(self.strings)
            self._store(number, value.encode())
        return number

    def _store(self, number: int, encoded: bytes) -> None:
        start = int(self._text_start[number])
        end = start + len(encoded)
        if end > len(self._text) or number + 2 > len(self._text_start):
            self._text.resize(max(end + 64, len(self._text) * 5 // 4), refcheck=False)
            self._text_start.resize(
                max(len(self._text_start), (number + 32) * 5 // 4), refcheck=False
            )
            self._enter()
        self._text[start:end] = np.frombuffer(encoded, np.uint8)
        self._text_start[number + 1] = end

    def _enter(self) -> None:
        self.directory[:] = (
            self._text.ctypes.data, len(self._text),
            self._text_start.ctypes.data, len(self._text_start),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Vocabulary {len(self.names)} names, {len(self.strings)} strings>"


SHARED = Vocabulary()
"""The vocabulary that indexes use unless told otherwise."""
