"""The memory of a broker process: what large tables needed goes back to the operating system.

Indexes shrink, and forget strings, while they change; this goes on with it when nothing changes
them, a millisecond or two at a time. What was freed is then handed on.

Python gives an arena of small objects back once the last object in it has gone. Its cache of
attributes keeps up to 4,096 names that C code looked up by a string of its own (`array.ctypes` does
so), and lists, dicts and tuples that were freed are kept for the next ones: one of them in an arena
holds all of it, and together they held half of a broker's memory. What is left then, objects that
are replaced now and then, moves elsewhere (see `arena_gaps`). The C library keeps freed blocks
in its heap, until it is told to give the memory behind them back.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import mmap
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

from byway.matching import drop_scratch, renew_numbers, tidy
from byway.runtime.arena_gaps import SIZES, ArenaGaps

LOOK_S: Final = 1.0
"""How often there is a look whether something can be given back."""
STEP_S: Final = 0.02
"""Time between two steps while there is."""
TRIM_BYTES: Final = 2 * 1024 * 1024
"""Bytes freed inside the C library's heap for which it is worth the time to give them back."""
MANY_OBJECTS: Final = 50_000
"""Small objects that must have gone for it to be worth the time to look for arenas."""
FEW_OBJECTS: Final = 100_000
"""So many objects more than at first can be visited in a few milliseconds."""
PASSES_MOST: Final = 4
"""How often gaps are filled after many objects have gone, as long as that gives memory back."""
FILLED_S: Final = 6.0
"""How long gaps are filled: longer than timers of a broker run, as a rule (`limits.keepalive`)."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_BLOCK_BYTES: Final = 1024 * 1024


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


@cache
def _libc() -> Any:
    """The C library of this process, or None if it is not glibc from 2.33 on."""
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = _Mallinfo
        library.mallopt, library.malloc_trim  # noqa: B018 - whether they are there
    except (OSError, AttributeError):
        return None
    return library


def keep_large_blocks_apart() -> None:
    """Have the C library map every block of a megabyte or more by itself, so that it is given back
    when it is freed. By default this bound goes up to 32 MiB with the blocks that are freed."""
    library = _libc()
    if library is not None:
        library.mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _BLOCK_BYTES)


class FreedMemory:
    """What Python and the C library keep of the memory that was freed."""

    def __init__(self) -> None:
        self._most_objects = self._first_objects = sys.getallocatedblocks()
        """Most small objects there were since many of them went, and how many at first."""
        self._has_arenas = False
        """Whether many have gone, and there may be arenas with few of them left."""
        self._given_back = 0
        """Bytes of freed blocks in the heap whose memory was given back, or that were too few."""

    async def hand_on(self) -> None:
        """Give back what was freed, if it is much."""
        objects = sys.getallocatedblocks()
        self._most_objects = max(self._most_objects, objects)
        if self._most_objects - objects >= MANY_OBJECTS:
            self._most_objects = objects
            self._has_arenas = True
            self._empty_caches(objects)
        elif self._has_arenas:
            self._has_arenas = False
            for _ in range(PASSES_MOST):
                before = _resident_bytes()
                if not self._empty_caches(sys.getallocatedblocks()):
                    break
                await self._empty_arenas()
                if _resident_bytes() >= before:
                    break
        self._trim()

    def _empty_caches(self, objects: int) -> bool:
        """Free what is kept for the next ones. Whether there are few objects altogether."""
        drop_scratch()
        _clear_attribute_cache()
        are_few = objects - self._first_objects < FEW_OBJECTS
        if are_few:
            gc.collect()  # it also frees lists, dicts and tuples that are kept for the next ones
        self._given_back = 0
        return are_few

    async def _empty_arenas(self) -> None:
        """Let objects that are replaced now and then move out of arenas with few of them."""
        gaps = ArenaGaps()
        for size in SIZES:
            gaps.fill(size)
            await asyncio.sleep(STEP_S)
        renew_numbers()
        for _ in range(round(FILLED_S / LOOK_S)):
            await asyncio.sleep(LOOK_S)
            self._most_objects = max(self._most_objects, sys.getallocatedblocks())
        gaps.release()
        self._empty_caches(sys.getallocatedblocks())

    def _trim(self) -> None:
        """Have the C library give freed blocks back. It takes about 0.3 ms for a mebibyte."""
        library = _libc()
        if library is None:
            return
        freed = library.mallinfo2().fordblks
        self._given_back = min(self._given_back, freed)
        if freed >= self._given_back + TRIM_BYTES:
            library.malloc_trim(0)
            self._given_back = freed


def _resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        with Path("/proc/self/statm").open("rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def _clear_attribute_cache() -> None:
    """Forget the names that Python's cache of attributes holds."""
    clear: Any = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
    clear()


async def give_back() -> None:
    """Give memory back for as long as the broker lives."""
    freed = FreedMemory()
    while True:
        await asyncio.sleep(LOOK_S)
        while tidy():
            await asyncio.sleep(STEP_S)
        await freed.hand_on()
