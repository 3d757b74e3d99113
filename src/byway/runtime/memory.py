"""The memory of a broker process: what large tables needed goes back to the operating system.

Indexes shrink, and forget strings, while they change; this goes on with it when nothing changes
them, a millisecond or two at a time. What Python has freed is then handed on by the C library,
where it is one that can.
"""

from __future__ import annotations

import asyncio
import ctypes
from functools import cache
from typing import Any, Final

from byway.matching import tidy

LOOK_S: Final = 1.0
"""How often there is a look whether something can be given back."""
STEP_S: Final = 0.02
"""Time between two steps while there is."""
TRIM_BYTES: Final = 8 * 1024 * 1024
"""Bytes freed inside the C library's heap for which it is worth the time to give them back."""
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


class Heap:
    """The C library's heap. Blocks that were freed in it stay, with memory behind them or not."""

    def __init__(self) -> None:
        self._given_back = 0
        """Bytes of freed blocks whose memory was given back, or that were too few."""

    def trim(self) -> bool:
        """Give back the memory of freed blocks, if many were freed since the last time; whether
        they were. It takes about 2 ms for 8 MiB."""
        library = _libc()
        if library is None:
            return False
        freed = library.mallinfo2().fordblks
        self._given_back = min(self._given_back, freed)
        if freed < self._given_back + TRIM_BYTES:
            return False
        library.malloc_trim(0)
        self._given_back = freed
        return True


async def give_back() -> None:
    """Give memory back for as long as the broker lives."""
    heap = Heap()
    while True:
        await asyncio.sleep(LOOK_S)
        while tidy():
            await asyncio.sleep(STEP_S)
        heap.trim()
