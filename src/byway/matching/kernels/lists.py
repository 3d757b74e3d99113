"""Posting lists, the hash table that finds them, and ordered sets of them.

Lists are blocks of a pool with room to grow; an entry is removed by putting the last one in its
place, so both ends know each other: a posting names its conjunction and filing, a filing names its
list and position. Ordered sets are lists too (leaves), sorted, and searched by key instead. Nothing
here knows what a filter is.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from byway.matching.layout import (
    C_LISTS,
    FILING_MASK,
    FIRST_RELATION,
    FREE_LIST,
    GUARD,
    HASHED_LISTS,
    KINDS,
    LEAF_MAX,
    ORDERED,
    POOL_FENCES,
    POOL_POSTS,
    SIZE_CLASSES,
    STRING,
    T_GT,
    T_NE,
    T_REL_LOOSE,
    USED,
    WANT_FENCES,
    WANT_POSTS,
)

# --- blocks of a pool ------------------------------------------------------------------------


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def more_room(room):
    """The next size of a list that is full: a quarter more."""
    if room < 4:
        return room + 2
    return block_size(room + (room >> 2))


@njit(cache=True, nogil=True)
def bits(x):
    """The bits of a float, with one zero."""
    return np.float64(x + 0.0).view(np.int64)


# --- hash table: (field, tag, payload, res) -> list --------------------------------------------


@njit(cache=True, nogil=True)
def mix(field, tag, payload, res):
    h = np.uint64(payload) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h += np.uint64(field) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(tag * 65537 + res)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(32)
    return h


@njit(cache=True, nogil=True)
def find_list(st, field, tag, payload, res):
    """The list with this key, or -1."""
    table = st.table
    last = np.uint64(len(table) - 1)
    h = mix(field, tag, payload, res)
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


@njit(cache=True, nogil=True)
def table_insert(st, list_id):
    one = st.lists[list_id]
    last = np.uint64(len(st.table) - 1)
    h = mix(one.field, one.tag, one.payload, one.res)
    i = h & last
    while st.table[i] != -1:
        i = (i + np.uint64(1)) & last
    st.table[i] = (np.int64(h >> np.uint64(33)) << 32) | list_id


@njit(cache=True, nogil=True)
def table_remove(st, list_id):
    """Backward-shift deletion: no tombstones, nothing decays under churn."""
    table = st.table
    last = np.uint64(len(table) - 1)
    one = st.lists[list_id]
    i = mix(one.field, one.tag, one.payload, one.res) & last
    while (table[i] & 0xFFFFFFFF) != list_id or table[i] == -1:
        i = (i + np.uint64(1)) & last
    hole = i
    while True:
        i = (i + np.uint64(1)) & last
        entry = table[i]
        if entry == -1:
            break
        other = st.lists[entry & 0xFFFFFFFF]
        home = mix(other.field, other.tag, other.payload, other.res) & last
        if ((i - home) & last) >= ((i - hole) & last):
            table[hole] = entry
            hole = i
    table[hole] = -1


@njit(cache=True, nogil=True)
def rebuild_table(st):
    """Fill an emptied (grown) table again."""
    st.table[:] = -1
    for list_id in range(st.control[C_LISTS]):
        one = st.lists[list_id]
        if one.field >= 0 and one.tag < T_GT:
            table_insert(st, list_id)


# --- lists -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def new_list(st, field, tag, payload, res):
    """An empty list; the caller made sure of room in Store.lists."""
    control = st.control
    list_id = control[FREE_LIST]
    if list_id >= 0:
        control[FREE_LIST] = st.lists[list_id].next
    else:
        list_id = control[C_LISTS]
        control[C_LISTS] += 1
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


@njit(cache=True, nogil=True)
def chain_list(st, list_id):
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


@njit(cache=True, nogil=True)
def unchain_list(st, list_id):
    one = st.lists[list_id]
    if one.prev >= 0:
        st.lists[one.prev].next = one.next
    elif one.tag == T_NE:
        st.fields[one.field].unequal = one.next
    else:
        st.fields[one.field].chain = one.next
    if one.next >= 0:
        st.lists[one.next].prev = one.prev


@njit(cache=True, nogil=True)
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
    one.next = st.control[FREE_LIST]
    st.control[FREE_LIST] = list_id


@njit(cache=True, nogil=True)
def free_posts(st, start, room):
    if room > 0:
        c = size_class(room)
        st.post_conjunction[start] = st.free[POOL_POSTS, c]
        st.free[POOL_POSTS, c] = start


@njit(cache=True, nogil=True)
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
    old = np.int64(one.start)
    for i in range(one.size):
        st.post_conjunction[start + i] = st.post_conjunction[old + i]
        st.post_filing[start + i] = st.post_filing[old + i]
        st.post_key[start + i] = st.post_key[old + i]
    free_posts(st, old, one.room)
    one.start = start
    one.room = room
    return True


@njit(cache=True, nogil=True)
def push(st, list_id, conjunction, filing):
    """Append a posting; its position, or -1 when the pool has no room (nothing is changed)."""
    one = st.lists[list_id]
    if one.size == one.room and not move_list(st, list_id, more_room(np.int64(one.room))):
        return -1
    pos = np.int64(one.size)
    st.post_conjunction[one.start + pos] = conjunction
    st.post_filing[one.start + pos] = filing
    one.size = pos + 1
    return pos


@njit(cache=True, nogil=True)
def pull(st, list_id, pos):
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


# --- ordered sets: leaves sorted by (key, conjunction), fences before all but the first -----------
#
# Keys are 32 bits: a number rounded to single precision (rounding keeps the order; what is equal
# after it is verified), or the id of a string, ordered by its text.


@njit(cache=True, nogil=True)
def number_order(num):
    """A 32-bit integer that orders numbers as their nearest single-precision floats."""
    b = np.float32(num + 0.0).view(np.int32)
    return b if b >= 0 else np.int32(b ^ 0x7FFFFFFF)


@njit(cache=True, nogil=True)
def order_key(field, tag, num):
    """The key of an atom in an ordered set of its field."""
    if tag == T_REL_LOOSE:
        return np.int32(0)
    if is_text_set(field, tag):
        return np.int32(num)
    return number_order(num)


@njit(cache=True, nogil=True)
def is_text_set(field, tag):
    """Relation sets of string fields are in text order (bounds of access sets are numbers)."""
    return FIRST_RELATION <= tag < T_REL_LOOSE and field % KINDS == STRING


@njit(cache=True, nogil=True)
def compare_texts(text, a, a_end, b, b_end):
    """Order of two byte strings of the same array; UTF-8 keeps code-point order."""
    while a < a_end and b < b_end:
        if text[a] != text[b]:
            return -1 if text[a] < text[b] else 1
        a += 1
        b += 1
    if a < a_end:
        return 1
    return -1 if b < b_end else 0


@njit(cache=True, nogil=True)
def text_before(st, a, b):
    start = st.text_start
    return compare_texts(st.text, start[a], start[a + 1], start[b], start[b + 1]) < 0


@njit(cache=True, nogil=True, forceinline=True)
def before(st, is_text, key_a, conjunction_a, key_b, conjunction_b):
    """Whether (key, conjunction) a comes before b."""
    if key_a == key_b:
        return conjunction_a < conjunction_b
    if is_text:
        return text_before(st, key_a, key_b)
    return key_a < key_b


@njit(cache=True, nogil=True)
def leaf_of(st, one, is_text, key, conjunction):
    """Index of the fence of the leaf in which (key, conjunction) belongs."""
    low, high = 0, np.int64(one.size)
    while low < high:
        middle = (low + high) >> 1
        fence = st.fences[one.start + middle]
        if before(st, is_text, key, conjunction, fence.key, fence.conjunction):
            high = middle
        else:
            low = middle + 1
    return low - 1 if low > 0 else 0


@njit(cache=True, nogil=True)
def place_in(st, leaf, is_text, key, conjunction):
    """How many entries of a leaf come before (key, conjunction)."""
    low, high = 0, np.int64(leaf.size)
    while low < high:
        middle = (low + high) >> 1
        p = leaf.start + middle
        if before(st, is_text, st.post_key[p], st.post_conjunction[p], key, conjunction):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
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
    for i in range(one.size):
        st.fences[start + i] = st.fences[one.start + i]
    free_fences(st, one)
    one.start = start
    one.room = room
    return True


@njit(cache=True, nogil=True)
def free_fences(st, one):
    if one.room > 0:
        c = size_class(one.room)
        st.fences[one.start].list = st.free[POOL_FENCES, c]
        st.free[POOL_FENCES, c] = one.start


@njit(cache=True, nogil=True)
def insert_fence(st, one, at, key, conjunction, list_id):
    for i in range(one.size, at, -1):
        st.fences[one.start + i] = st.fences[one.start + i - 1]
    fence = st.fences[one.start + at]
    fence.key = key
    fence.conjunction = conjunction
    fence.list = list_id
    one.size += 1


@njit(cache=True, nogil=True)
def ordered_insert(st, field, tag, num, conjunction, filing):
    """File a conjunction by key; False when there was no room (nothing is changed)."""
    one = st.ordered[field * ORDERED + tag - T_GT]
    is_text = is_text_set(field, tag)
    key = order_key(field, tag, num)
    if one.size == 0:
        if not grow_fences(st, one):
            return False
        insert_fence(st, one, 0, key, conjunction, new_list(st, field, tag, 0, 0))
    at = leaf_of(st, one, is_text, key, conjunction)
    list_id = np.int64(st.fences[one.start + at].list)
    leaf = st.lists[list_id]
    place = place_in(st, leaf, is_text, key, conjunction)
    if push(st, list_id, conjunction, filing) < 0:
        return False
    for p in range(leaf.start + leaf.size - 1, leaf.start + place, -1):
        st.post_conjunction[p] = st.post_conjunction[p - 1]
        st.post_filing[p] = st.post_filing[p - 1]
        st.post_key[p] = st.post_key[p - 1]
    st.post_conjunction[leaf.start + place] = conjunction
    st.post_filing[leaf.start + place] = filing
    st.post_key[leaf.start + place] = key
    one.entries += 1
    if leaf.size >= LEAF_MAX:
        split_leaf(st, one, field, tag, at)
    return True


@njit(cache=True, nogil=True)
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
        pos = push(st, upper, st.post_conjunction[p], st.post_filing[p])
        st.post_key[st.lists[upper].start + pos] = st.post_key[p]
    leaf.size = half
    move_list(st, list_id, room)
    first = st.lists[upper].start
    insert_fence(st, one, at + 1, st.post_key[first], st.post_conjunction[first], upper)


@njit(cache=True, nogil=True)
def ordered_remove(st, field, tag, num, conjunction):
    """Take a conjunction out of an ordered set; an emptied leaf goes."""
    one = st.ordered[field * ORDERED + tag - T_GT]
    is_text = is_text_set(field, tag)
    key = order_key(field, tag, num)
    at = leaf_of(st, one, is_text, key, conjunction)
    list_id = np.int64(st.fences[one.start + at].list)
    leaf = st.lists[list_id]
    place = place_in(st, leaf, is_text, key, conjunction)
    for p in range(leaf.start + place, leaf.start + leaf.size - 1):
        st.post_conjunction[p] = st.post_conjunction[p + 1]
        st.post_filing[p] = st.post_filing[p + 1]
        st.post_key[p] = st.post_key[p + 1]
    leaf.size -= 1
    one.entries -= 1
    if leaf.size > 0:
        return
    for i in range(at, one.size - 1):
        st.fences[one.start + i] = st.fences[one.start + i + 1]
    one.size -= 1
    drop_list(st, list_id)
    if one.size == 0:
        free_fences(st, one)
        one.room = 0


@njit(cache=True, nogil=True)
def clear_free(st):
    """No free blocks yet."""
    for pool in range(st.free.shape[0]):
        for c in range(SIZE_CLASSES):
            st.free[pool, c] = -1
