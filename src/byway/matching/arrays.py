"""The arrays of one index, by name, and the directory through which kernels find them."""

from __future__ import annotations

from array import array as machine_array
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from byway.matching import layout as lay
from byway.matching.layout import Array

if TYPE_CHECKING:
    from byway.matching.vocabulary import Vocabulary


class Arrays:
    """Named arrays that can grow. `directory` holds address and rows of each, always current; it
    stands at `address`."""

    def __init__(self, vocabulary: Vocabulary, rows: dict[str, int]) -> None:
        self.directory: npt.NDArray[np.int64] = np.zeros(2 * len(lay.ARRAYS) + 2, np.int64)
        self.address = int(self.directory.ctypes.data)
        self.directory[-2] = vocabulary.directory.ctypes.data
        self._position = {name: 2 * i for i, name in enumerate(lay.ARRAYS)}
        self._arrays: dict[str, Array] = {}
        for name, (dtype, width) in lay.ARRAYS.items():
            count = rows.get(name, 0)
            self._arrays[name] = np.zeros((count, width) if width else count, dtype)
            self._enter(name)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def rows(self, name: str) -> int:
        """How many rows an array has room for."""
        return len(self._arrays[name])

    def grow(self, name: str, rows: int, fill: int | None = None) -> None:
        """Make room; new rows are zero, or `fill`."""
        array = self._arrays[name]
        old = len(array)
        # a realloc: large blocks are moved by the kernel's page tables, not copied
        array.resize((rows, *array.shape[1:]), refcheck=False)
        if fill is not None:
            array[old:] = fill
        self._enter(name)

    def copy_from(self, other: Arrays) -> None:
        """Have the size and the content of other arrays. The objects stay: new ones, made between
        many that go, would keep Python from giving the memory of those back."""
        for name, array in self._arrays.items():
            array.resize(other[name].shape, refcheck=False)
            array[...] = other[name]
            self._enter(name)

    def replace(self, name: str, array: Array) -> None:
        """Let another array, of the same type, be this one; it does not grow."""
        assert array.dtype == lay.ARRAYS[name][0]
        self._arrays[name] = array
        self._enter(name)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return self.directory.nbytes + sum(a.nbytes for a in self._arrays.values())

    def _enter(self, name: str) -> None:
        array = self._arrays[name]
        at = self._position[name]
        self.directory[at] = array.ctypes.data
        self.directory[at + 1] = len(array)


_BATCH: Final = [np.dtype(kind) for kind in ("i8", "i8", "f8", "u1", "i8", "i8", "i8")]


class BatchArrays:
    """The arrays of a call for many publications: starts, codes, numbers, texts, marks, and two
    that the kernel writes. A list of their addresses and lengths stands at `address`."""

    def __init__(self, *arrays: Array) -> None:
        assert [one.dtype for one in arrays] == _BATCH, "a kernel takes them as they are"
        assert all(one.flags.c_contiguous for one in arrays)
        self._arrays = arrays  # kept alive
        pairs = [number for one in arrays for number in (one.ctypes.data, len(one))]
        self._list = machine_array("q", pairs)
        self.address = self._list.buffer_info()[0]
