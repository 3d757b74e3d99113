"""Ordered sets: leaves sorted by (key, conjunction), and fences between them.

Leaves are posting lists. Keys are 32 bits: a number rounded to single precision (rounding keeps the
order; what is equal after it is verified), or the id of a string, ordered by its text.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.lists import append_posting, drop_list, move_list, new_list
from byway.matching.kernels.pools import block_size, size_class
from byway.matching.kernels.texts import compare_with, text_at
from byway.matching.layout import (
    C_LISTS,
    FIRST_RELATION,
    KINDS,
    LEAF_MAX,
    LIVE,
    ORDERED,
    POOL_FENCES,
    POOL_POSTS,
    STRING,
    T_GT,
    T_REL_LOOSE,
    USED,
    WANT_FENCES,
    WANT_POSTS,
)


@kernel
def number_order(num):
    """A 32-bit integer that orders numbers as their nearest single-precision floats."""
    b = np.float32(num + 0.0).view(np.int32)
    return b if b >= 0 else np.int32(b ^ 0x7FFFFFFF)


@kernel
def order_key(field, tag, num):
    """The key of an atom in an ordered set of its field."""
    if tag == T_REL_LOOSE:
        return np.int32(0)
    if is_text_set(field, tag):
        return np.int32(num)
    return number_order(num)


@kernel
def is_text_set(field, tag):
    """Relation sets of string fields are in text order (bounds of access sets are numbers)."""
    return FIRST_RELATION <= tag < T_REL_LOOSE and field % KINDS == STRING


@kernel
def text_before(st, a, b):
    """Whether string a of the vocabulary comes before string b; UTF-8 keeps code-point order."""
    one, other = text_at(st, a), text_at(st, b)
    return compare_with(one, np.int64(0), len(one), other, np.int64(0), len(other)) < 0


@kernel(forceinline=True)
def comes_before(st, is_text, key_a, conjunction_a, key_b, conjunction_b):
    """Whether (key, conjunction) a comes before b."""
    if key_a == key_b:
        return conjunction_a < conjunction_b
    if is_text:
        return text_before(st, key_a, key_b)
    return key_a < key_b


@kernel
def find_leaf(st, one, is_text, key, conjunction):
    """Index of the fence of the leaf in which (key, conjunction) belongs."""
    low, high = 0, np.int64(one.size)
    while low < high:
        middle = (low + high) >> 1
        fence = st.fences[one.start + middle]
        if comes_before(st, is_text, key, conjunction, fence.key, fence.conjunction):
            high = middle
        else:
            low = middle + 1
    return low - 1 if low > 0 else 0


@kernel
def position_in_leaf(st, leaf, is_text, key, conjunction):
    """How many entries of a leaf come before (key, conjunction)."""
    low, high = 0, np.int64(leaf.size)
    while low < high:
        middle = (low + high) >> 1
        p = leaf.start + middle
        if comes_before(st, is_text, st.post_key[p], st.post_conjunction[p], key, conjunction):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def grow_fences(st, one):
    """Room for one more fence in an ordered set; False when the pool has none."""
    if one.size < one.room:
        return True
    room = block_size(2 * np.int64(one.room)) if one.room > 0 else 1
    c = size_class(room)
    start = st.free[POOL_FENCES, c]
    if start >= 0:
        st.free[POOL_FENCES, c] = st.fences[start].list
    else:
        start = st.control[USED + POOL_FENCES]
        if start + room > len(st.fences):
            st.control[WANT_FENCES] = room
            return False
        st.control[USED + POOL_FENCES] += room
    st.control[LIVE + POOL_FENCES] += room
    for i in range(one.size):
        st.fences[start + i] = st.fences[one.start + i]
    free_fences(st, one)
    one.start = start
    one.room = room
    return True


@kernel
def free_fences(st, one):
    """Give back the block of an ordered set's fences."""
    if one.room > 0:
        st.control[LIVE + POOL_FENCES] -= one.room
        c = size_class(one.room)
        st.fences[one.start].list = st.free[POOL_FENCES, c]
        st.free[POOL_FENCES, c] = one.start


@kernel
def insert_fence(st, one, at, key, conjunction, list_id):
    """Insert a fence before the one at an index; there is room."""
    for i in range(one.size, at, -1):
        st.fences[one.start + i] = st.fences[one.start + i - 1]
    fence = st.fences[one.start + at]
    fence.key = key
    fence.conjunction = conjunction
    fence.list = list_id
    one.size += 1


@kernel
def set_fence(st, one, at, list_id):
    """Let a fence be the first entry of its leaf: what a fence names is stored, so that numbers of
    strings can be given again."""
    fence = st.fences[one.start + at]
    first = st.lists[list_id].start
    fence.key = st.post_key[first]
    fence.conjunction = st.post_conjunction[first]


@kernel
def ordered_insert(st, field, tag, num, conjunction, filing):
    """File a conjunction by key; False when there was no room (nothing is changed)."""
    one = st.ordered[field * ORDERED + tag - T_GT]
    is_text = is_text_set(field, tag)
    key = order_key(field, tag, num)
    if one.size == 0:
        if not grow_fences(st, one):
            return False
        insert_fence(st, one, 0, key, conjunction, new_list(st, field, tag, 0, 0))
    at = find_leaf(st, one, is_text, key, conjunction)
    list_id = np.int64(st.fences[one.start + at].list)
    leaf = st.lists[list_id]
    place = position_in_leaf(st, leaf, is_text, key, conjunction)
    if append_posting(st, list_id, conjunction, filing) < 0:
        return False
    for p in range(leaf.start + leaf.size - 1, leaf.start + place, -1):
        st.post_conjunction[p] = st.post_conjunction[p - 1]
        st.post_filing[p] = st.post_filing[p - 1]
        st.post_key[p] = st.post_key[p - 1]
    st.post_conjunction[leaf.start + place] = conjunction
    st.post_filing[leaf.start + place] = filing
    st.post_key[leaf.start + place] = key
    if place == 0:
        set_fence(st, one, at, list_id)
    one.entries += 1
    if leaf.size >= LEAF_MAX:
        split_leaf(st, one, field, tag, at)
    return True


@kernel
def split_leaf(st, one, field, tag, at):
    """Move the upper half of a leaf to a new one; left for later when something has no room."""
    list_id = np.int64(st.fences[one.start + at].list)
    half = st.lists[list_id].size >> 1
    moved = np.int64(st.lists[list_id].size) - half
    room = 2
    while room < moved:
        room *= 2
    if st.control[USED + POOL_POSTS] + 2 * room > len(st.post_conjunction):
        st.control[WANT_POSTS] = 2 * room
        return
    if st.control[C_LISTS] >= len(st.lists) or not grow_fences(st, one):
        return
    upper = np.int64(new_list(st, field, tag, 0, 0))
    leaf = st.lists[list_id]
    for p in range(leaf.start + half, leaf.start + leaf.size):
        pos = append_posting(st, upper, st.post_conjunction[p], st.post_filing[p])
        st.post_key[st.lists[upper].start + pos] = st.post_key[p]
    leaf.size = half
    move_list(st, list_id, room)
    first = st.lists[upper].start
    insert_fence(st, one, at + 1, st.post_key[first], st.post_conjunction[first], upper)


@kernel
def ordered_remove(st, field, tag, num, conjunction):
    """Take a conjunction out of an ordered set; an emptied leaf goes."""
    one = st.ordered[field * ORDERED + tag - T_GT]
    is_text = is_text_set(field, tag)
    key = order_key(field, tag, num)
    at = find_leaf(st, one, is_text, key, conjunction)
    list_id = np.int64(st.fences[one.start + at].list)
    leaf = st.lists[list_id]
    place = position_in_leaf(st, leaf, is_text, key, conjunction)
    for p in range(leaf.start + place, leaf.start + leaf.size - 1):
        st.post_conjunction[p] = st.post_conjunction[p + 1]
        st.post_filing[p] = st.post_filing[p + 1]
        st.post_key[p] = st.post_key[p + 1]
    leaf.size -= 1
    one.entries -= 1
    if leaf.size > 0:
        if place == 0:
            set_fence(st, one, at, list_id)
        return
    for i in range(at, one.size - 1):
        st.fences[one.start + i] = st.fences[one.start + i + 1]
    one.size -= 1
    drop_list(st, list_id)
    if one.size == 0:
        free_fences(st, one)
        one.room = 0


FIRST = -1  # before and after every conjunction number
LAST = 2147483647
