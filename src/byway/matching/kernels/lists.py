"""Posting lists, and the hash table that finds them.

Lists are blocks of a pool with room to grow; an entry is removed by putting the last one in its
place, so both ends know each other: a posting names its conjunction and filing, a filing names its
list and position. Nothing here knows what a filter is.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.pools import more_room, size_class
from byway.matching.layout import (
    C_LISTS,
    FILING_MASK,
    FIRST_RELATION,
    FREE_LIST,
    GUARD,
    HASHED_LISTS,
    LIVE,
    LIVE_LISTS,
    POOL_POSTS,
    T_GT,
    T_NE,
    USED,
    WANT_POSTS,
)


@kernel
def float_bits(x):
    """The bits of a float, with one zero."""
    return np.float64(x + 0.0).view(np.int64)


@kernel
def list_hash(field, tag, payload, res):
    """The hash of a list's key."""
    h = np.uint64(payload) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h += np.uint64(field) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(tag * 65537 + res)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(32)
    return h


@kernel
def find_list(st, field, tag, payload, res):
    """The list with this field, tag, payload and rounding, or -1."""
    table = st.table
    last = np.uint64(len(table) - 1)
    h = list_hash(field, tag, payload, res)
    mark = np.int64(h >> np.uint64(33))
    i = h & last
    while True:
        entry = table[i]
        if entry == -1:
            return -1
        if (entry >> 32) == mark:
            one = st.lists[entry & 0xFFFFFFFF]
            if one.payload == payload and one.field == field and one.tag == tag and one.res == res:
                return entry & 0xFFFFFFFF
        i = (i + np.uint64(1)) & last


@kernel
def table_insert(st, list_id):
    """Enter a list in the hash table, which has room for it."""
    one = st.lists[list_id]
    last = np.uint64(len(st.table) - 1)
    h = list_hash(one.field, one.tag, one.payload, one.res)
    i = h & last
    while st.table[i] != -1:
        i = (i + np.uint64(1)) & last
    st.table[i] = (np.int64(h >> np.uint64(33)) << 32) | list_id


@kernel
def table_remove(st, list_id):
    """Backward-shift deletion: no tombstones, nothing decays under churn."""
    table = st.table
    last = np.uint64(len(table) - 1)
    one = st.lists[list_id]
    i = list_hash(one.field, one.tag, one.payload, one.res) & last
    while (table[i] & 0xFFFFFFFF) != list_id or table[i] == -1:
        i = (i + np.uint64(1)) & last
    hole = i
    while True:
        i = (i + np.uint64(1)) & last
        entry = table[i]
        if entry == -1:
            break
        other = st.lists[entry & 0xFFFFFFFF]
        home = list_hash(other.field, other.tag, other.payload, other.res) & last
        if ((i - home) & last) >= ((i - hole) & last):
            table[hole] = entry
            hole = i
    table[hole] = -1


@kernel
def rebuild_table(st):
    """Fill an emptied (grown) table again."""
    st.table[:] = -1
    for list_id in range(st.control[C_LISTS]):
        one = st.lists[list_id]
        if one.field >= 0 and one.tag < T_GT:
            table_insert(st, list_id)


@kernel
def new_list(st, field, tag, payload, res):
    """An empty list; the caller made sure of room in Store.lists."""
    control = st.control
    list_id = control[FREE_LIST]
    if list_id >= 0:
        control[FREE_LIST] = st.lists[list_id].next
    else:
        list_id = control[C_LISTS]
        control[C_LISTS] += 1
    control[LIVE_LISTS] += 1
    one = st.lists[list_id]
    one.payload = payload
    one.start = -1
    one.size = 0
    one.room = 0
    one.waste = 0
    one.next = -1
    one.prev = -1
    one.field = field
    one.res = res
    one.tag = tag
    one.patience = 0
    if tag < FIRST_RELATION and field >= 0:
        chain_list(st, list_id)
    if tag < T_GT and field >= 0:
        control[HASHED_LISTS] += 1
        table_insert(st, list_id)
    return list_id


@kernel
def chain_list(st, list_id):
    """Put a list first in the chain of its field's lists."""
    one = st.lists[list_id]
    field = st.fields[one.field]
    if one.tag == T_NE:
        head = field.unequal
        field.unequal = list_id
    else:
        head = field.chain
        field.chain = list_id
    one.next = head
    if head >= 0:
        st.lists[head].prev = list_id


@kernel
def unchain_list(st, list_id):
    """Take a list out of the chain of its field's lists."""
    one = st.lists[list_id]
    if one.prev >= 0:
        st.lists[one.prev].next = one.next
    elif one.tag == T_NE:
        st.fields[one.field].unequal = one.next
    else:
        st.fields[one.field].chain = one.next
    if one.next >= 0:
        st.lists[one.next].prev = one.prev


@kernel
def drop_list(st, list_id):
    """Give back an empty list that nothing refers to any more."""
    one = st.lists[list_id]
    free_posts(st, one.start, one.room)
    if one.field >= 0:
        if one.tag < FIRST_RELATION:
            unchain_list(st, list_id)
        if one.tag < T_GT:
            table_remove(st, list_id)
            st.control[HASHED_LISTS] -= 1
    one.field = -2
    one.start = -1
    one.room = 0
    st.control[LIVE_LISTS] -= 1
    one.next = st.control[FREE_LIST]
    st.control[FREE_LIST] = list_id


@kernel
def free_posts(st, start, room):
    """Give back the block of a list's postings."""
    if room > 0:
        st.control[LIVE + POOL_POSTS] -= room
        c = size_class(room)
        st.post_conjunction[start] = st.free[POOL_POSTS, c]
        st.free[POOL_POSTS, c] = start


@kernel
def move_list(st, list_id, room):
    """Put a list's postings into a block of another size; False when the pool has none."""
    one = st.lists[list_id]
    c = size_class(room)
    start = np.int64(st.free[POOL_POSTS, c])
    if start >= 0:
        st.free[POOL_POSTS, c] = st.post_conjunction[start]
    else:
        start = st.control[USED + POOL_POSTS]
        if start + room > len(st.post_conjunction):
            st.control[WANT_POSTS] = room
            return False
        st.control[USED + POOL_POSTS] += room
    st.control[LIVE + POOL_POSTS] += room
    old = np.int64(one.start)
    for i in range(one.size):
        st.post_conjunction[start + i] = st.post_conjunction[old + i]
        st.post_filing[start + i] = st.post_filing[old + i]
        st.post_key[start + i] = st.post_key[old + i]
    free_posts(st, old, one.room)
    one.start = start
    one.room = room
    return True


@kernel
def append_posting(st, list_id, conjunction, filing):
    """Append a posting; its position, or -1 when the pool has no room (nothing is changed)."""
    one = st.lists[list_id]
    if one.size == one.room and not move_list(st, list_id, more_room(np.int64(one.room))):
        return -1
    pos = np.int64(one.size)
    st.post_conjunction[one.start + pos] = conjunction
    st.post_filing[one.start + pos] = filing
    one.size = pos + 1
    return pos


@kernel
def remove_posting(st, list_id, pos):
    """Remove the posting at `pos`: the last one takes its place."""
    one = st.lists[list_id]
    end = one.size - 1
    one.size = end
    if pos != end:
        conjunction = st.post_conjunction[one.start + end]
        filing = st.post_filing[one.start + end]
        st.post_conjunction[one.start + pos] = conjunction
        st.post_filing[one.start + pos] = filing
        k = filing & FILING_MASK if filing & GUARD == 0 else 0
        st.filings[st.conjunctions[conjunction].filing + k].pos = pos
