"""Huge pages: a large simulation reads its memory all over, and finds it sooner in pages of 2 MiB.

A world with a hundred brokers has hundreds of megabytes of small objects, of which each event
touches a few dozen at places far apart. With pages of 4 KiB the processor looks up, for many of
them, where the page is. Linux gathers memory that is in use into huge pages when asked to; where it
cannot, or there is no such call, everything goes on as before. Results do not depend on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = 2 * 1024 * 1024
WORTHWHILE_BYTES: Final = 64 * PAGE_BYTES
"""Less memory than this is left as it is: the processor remembers where most of its pages are."""
_MAPPINGS: Final = Path("/proc/self/maps")
_COLLAPSE: Final = 25
"""`MADV_COLLAPSE` of Linux 6.1: gather what is there into huge pages, at once."""


def use_huge_pages(mappings: Path = _MAPPINGS) -> int:
    """Gather the memory of this process into huge pages, if it is large and the system can do so:
    that takes about two seconds a gigabyte. Returns the bytes that were offered and taken."""
    advise = _advise()
    if advise is None:
        return 0
    ranges = list(_heap(mappings))
    if sum(size for _, size in ranges) < WORTHWHILE_BYTES:
        return 0
    return sum(size for address, size in ranges if not advise(address, size, _COLLAPSE))


def _advise() -> Callable[[int, int, int], int] | None:
    """The system's `madvise`; None if there is none."""
    try:
        madvise = ctypes.CDLL(None).madvise
    except (AttributeError, OSError, TypeError):
        return None
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    madvise.restype = ctypes.c_int
    return madvise


def _heap(mappings: Path) -> Iterator[tuple[int, int]]:
    """Address and size of each range of whole huge pages that is private, writable and of no
    file."""
    try:
        lines = mappings.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        bounds, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights == "rw-p" and inode == "0" and (not name or name[0] == "[heap]"):
            first, after = (int(bound, 16) for bound in bounds.split("-"))
            start = -(-first // PAGE_BYTES) * PAGE_BYTES
            size = after // PAGE_BYTES * PAGE_BYTES - start
            if size > 0:
                yield start, size
