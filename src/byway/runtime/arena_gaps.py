"""Objects that move out of nearly empty arenas of Python's allocator, so that these are given back.

Python gives memory for small objects back in arenas of 1 MiB, once the last object in one has gone.
After a storm of subscriptions what is left in most of those arenas is a timer, a counter or the
time of a connection's last byte. Such an object is replaced by another one soon, but Python makes
the new one in the gap that it finds first, which is in one of these arenas again.

An arena has pools, each for objects of one size. Of the pools with a gap, Python takes the one that
was full last; where none has a gap, an empty pool of the fullest arena. So all gaps are filled, and
two pools more for each size. Then fillers are freed: one in each pool that had gaps, and later all
but one in the two new pools, where objects are made for a while now. What is replaced elsewhere
leaves a gap that is not used, since its pool was not full. When all fillers go at last, the arenas
that hold nothing else go with them.

No object but the fillers is touched. If Python's allocator does not work so, nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count, repeat
from typing import Final

SIZES: Final = range(16, 513, 16)
"""The sizes in bytes that Python's allocator tells apart."""
_POOL_BITS: Final = 14
_POOL_BYTES: Final = (1 << _POOL_BITS) - 48
_BYTES_HEAD: Final = 33
_POOLS_MOST: Final = 64
"""Pools that are filled for each size at most."""
_NEW_POOLS: Final = 2


class ArenaGaps:
    """The fillers of gaps between objects of this process."""

    def __init__(self) -> None:
        self._fillers: list[object] = []

    def __len__(self) -> int:
        return len(self._fillers)

    def fill(self, size: int) -> None:
        """Have objects of one size made in new pools from now on. It takes up to a few
        milliseconds."""
        make, room = _maker(size), _POOL_BYTES // size
        pools: dict[int, list[object]] = {}
        new: list[list[object]] = []
        for _ in range(_POOLS_MOST // _NEW_POOLS):
            made = [make() for _ in repeat(None, _NEW_POOLS * room)]  # no other objects between
            for filler in made:
                pools.setdefault(id(filler) >> _POOL_BITS, []).append(filler)
            new = [fillers for fillers in pools.values() if len(fillers) == room]
            if len(new) >= _NEW_POOLS:
                break
        made.clear()
        for fillers in pools.values():
            if len(fillers) < room:
                del fillers[-1]
        for fillers in new:
            del fillers[1:]
        for fillers in pools.values():
            self._fillers += fillers

    def release(self) -> None:
        """Free all fillers."""
        self._fillers.clear()


def _maker(size: int) -> Callable[[], object]:
    """Makes new objects of so many bytes."""
    if size == 16:
        return object
    if size == 32:
        return count(1_000_000).__next__
    return partial(bytes, size - _BYTES_HEAD)
