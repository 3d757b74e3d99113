"""Stored indexes: a `MatchIndex` in a file that many processes map, and share in memory.

A file holds the arrays as they lie, and the vocabulary. What matching writes (counters, samples,
scratch) is private to each process: pages that are written are copied by the operating system. A
stored index neither grows nor adapts, so it should have seen publications before it is stored.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from byway.matching import layout as lay
from byway.matching.answers import Keys
from byway.matching.arrays import Arrays, BatchArrays
from byway.matching.building import ensure_kernels
from byway.matching.columns import EncodedRows
from byway.matching.index import MatchIndex
from byway.matching.layout import Array
from byway.matching.native import KERNELS
from byway.matching.vocabulary import Vocabulary
from byway.model import Attributes, BywayError, Filter

_MAGIC: Final = b"BYWAYIX1"
_ALIGNMENT: Final = 64
_OUT_ROWS: Final = 65_536
"""Keys that are answered at a time, besides one largest answer."""

Counts = np.typing.NDArray[np.int64]


class StoredIndexError(BywayError):
    """A file that is no index, or one of another version."""


class _Place(msgspec.Struct, frozen=True):
    """Where an array is: bytes from the end of the header, and rows."""

    offset: int
    rows: int


class _Header(msgspec.Struct, frozen=True):
    layout: str
    places: dict[str, _Place]
    names: list[str]
    strings: list[str]
    text_names: list[int]


def _layout() -> str:
    """Tells one memory layout from another."""
    told = [(name, repr(dtype), width) for name, (dtype, width) in lay.ARRAYS.items()]
    return sha256(repr((told, lay.CONTROLS, lay.SHARED_ARRAYS)).encode()).hexdigest()[:16]


class IndexBuilder:
    """An index that is to be stored. It keeps no filter objects."""

    def __init__(self) -> None:
        self._index = MatchIndex(Vocabulary())

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"<IndexBuilder {self._index!r}>"

    @property
    def memory_bytes(self) -> int:
        """How large it is by now, with its words."""
        return self._index.memory_bytes + self._index.vocabulary.memory_bytes

    def add(self, filter: Filter) -> None:
        """One filter more; its key is how many there were."""
        self._index.add(len(self._index), filter)
        self._index._filters[-1] = None

    def learn(self, publications: Sequence[Attributes]) -> None:
        """Choose access predicates by these publications from now on, and better ones for filters
        that are there already."""
        self._index.match_batch(publications)

    def store(self, path: Path) -> None:
        """Write the index and its vocabulary to a file."""
        index, vocabulary = self._index, self._index.vocabulary
        arrays: dict[str, Array] = {name: index._arrays[name] for name in lay.ARRAYS}
        arrays["text"] = np.frombuffer("".join(vocabulary.strings).encode() or b"\0", np.uint8)
        places, offset = {}, 0
        for name, array in arrays.items():
            places[name] = _Place(offset, len(array))
            offset += _aligned(array.nbytes)
        words = list(vocabulary.names), list(vocabulary.strings), sorted(vocabulary.text_names)
        header = msgspec.json.encode(_Header(_layout(), places, *words))
        with path.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
            file.write(bytes(_aligned(file.tell()) - file.tell()))
            for array in arrays.values():
                file.write(array.tobytes())
                file.write(bytes(_aligned(array.nbytes) - array.nbytes))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class StoredIndex:
    """An index that is mapped from a file, and answers for many publications at once."""

    def __init__(self, path: Path) -> None:
        """Raises `StoredIndexError` if the file is no index that this version can read."""
        ensure_kernels()
        self.path = path
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        size = int.from_bytes(self._map[len(_MAGIC) : len(_MAGIC) + 8], "little")
        start = len(_MAGIC) + 8
        if self._map[: len(_MAGIC)] != _MAGIC or start + size > len(self._map):
            raise StoredIndexError(f"{path}: this is no index")
        header = msgspec.json.decode(self._map[start : start + size], type=_Header)
        if header.layout != _layout():
            raise StoredIndexError(f"{path}: the index was stored by another version of byway")
        self._first = _aligned(start + size)
        self.vocabulary = self._read_vocabulary(header)
        self._arrays = self._read_arrays(header)
        self._control = self._arrays["control"]
        self._out: Keys = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return int(self._control[lay.LIVE_KEYS])

    def __repr__(self) -> str:
        return f"StoredIndex({str(self.path)!r}, {len(self)} filters)"

    def count(self, rows: EncodedRows, by_key: Counts) -> Counts:
        """How many filters match each publication; to `by_key`, how many match it, is added."""
        counts = np.zeros(len(rows), np.int64)
        arrays = BatchArrays(*rows, counts, by_key)
        KERNELS.match_counts(self._arrays.address, arrays.address)
        self._control[lay.HOT] = 0
        return counts

    def match(self, rows: EncodedRows) -> Iterator[tuple[int, Keys, Counts]]:
        """Keys that match, for some publications at a time: the number of the first one, all their
        keys, and how many are of each. The keys are overwritten by what comes next."""
        if len(self._out) < len(self) + _OUT_ROWS:
            self._out = np.zeros(len(self) + _OUT_ROWS, np.int64)
        offsets = np.zeros(len(rows) + 1, np.int64)
        arrays = BatchArrays(*rows, self._out, offsets)
        first = 0
        while first < len(rows):
            after = KERNELS.match_keys_batch(self._arrays.address, first, arrays.address)
            counts = np.diff(offsets[first : after + 1])
            yield first, self._out[: int(counts.sum())], counts
            first = after
        self._control[lay.HOT] = 0

    def _read_vocabulary(self, header: _Header) -> Vocabulary:
        vocabulary = Vocabulary()
        text = self._mapped(header.places["text"], np.dtype("u1"), 0)
        vocabulary.load(header.names, header.strings, header.text_names, text)
        return vocabulary

    def _read_arrays(self, header: _Header) -> Arrays:
        arrays = Arrays(self.vocabulary, {})
        for name, (dtype, width) in lay.ARRAYS.items():
            arrays.replace(name, self._mapped(header.places[name], dtype, width))
        return arrays

    def _mapped(self, place: _Place, dtype: np.dtype[Any], width: int) -> Array:
        shape = (place.rows, width) if width else (place.rows,)
        if not place.rows:
            return np.zeros(shape, dtype)
        return np.ndarray(shape, dtype, buffer=self._map, offset=self._first + place.offset)
