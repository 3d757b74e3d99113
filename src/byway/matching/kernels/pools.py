"""Blocks of the pools: how they are sized, taken and given back.

Freed blocks of a size hang in a chain through their first record.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.layout import LIVE, POOL_ATOMS, POOL_FILINGS, SIZE_CLASSES, USED


@kernel
def block_size(size):
    """What is really reserved for a request: exact up to 64, then by 32, then powers of two."""
    if size <= 64:
        return size
    if size <= 512:
        return (size + 31) & ~31
    rounded = 1024
    while rounded < size:
        rounded <<= 1
    return rounded


@kernel
def size_class(size):
    """Which free chain blocks of this (reserved) size are kept in."""
    if size <= 64:
        return size
    if size <= 512:
        return 64 + ((size - 33) >> 5)
    c = 79
    while size > 1024:
        size = (size + 1) >> 1
        c += 1
    return c


@kernel
def more_room(room):
    """The next size of a list that is full: a quarter more."""
    if room < 4:
        return room + 2
    return block_size(room + (room >> 2))


@kernel
def take_block(st, pool, size):
    """Start of a block; the caller made sure of room."""
    st.control[LIVE + pool] += block_size(size)
    c = size_class(size)
    start = np.int64(st.free[pool, c])
    if start >= 0:
        if pool == POOL_ATOMS:
            st.free[pool, c] = st.atoms[start].attr
        elif pool == POOL_FILINGS:
            st.free[pool, c] = st.filings[start].list
        else:
            st.free[pool, c] = np.int64(st.sets[start].num)
        return start
    start = st.control[USED + pool]
    st.control[USED + pool] += block_size(size)
    return start


@kernel
def free_block(st, pool, start, size):
    """Give back a block that `take_block` returned for this size."""
    if size == 0:
        return
    st.control[LIVE + pool] -= block_size(size)
    c = size_class(size)
    if pool == POOL_ATOMS:
        st.atoms[start].attr = st.free[pool, c]
    elif pool == POOL_FILINGS:
        st.filings[start].list = st.free[pool, c]
    else:
        st.sets[start].num = st.free[pool, c]
    st.free[pool, c] = start


@kernel
def clear_free(st):
    """Begin with no free blocks in any pool."""
    for pool in range(st.free.shape[0]):
        for c in range(SIZE_CLASSES):
            st.free[pool, c] = -1
