"""Matching: visit the lists a publication leads to, verify what stands there.

A publication comes as parallel arrays: `codes` (name id, kind, lost rounding) and `nums` (the
number, string id or boolean); the bytes of its i-th value, where a text operator may want them, are
texts[marks[i] : marks[i + 1]]. Kernels write conjunction numbers to `hits` and turn them into keys
or link masks at the end.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.filing import grid_cell
from byway.matching.kernels.lists import find_list, float_bits
from byway.matching.kernels.ordered import FIRST, LAST, find_leaf, number_order, position_in_leaf
from byway.matching.kernels.selectivity import is_member, kind_at, observe
from byway.matching.kernels.texts import FNV_BASIS, FNV_PRIME, gram_at, text_holds
from byway.matching.layout import (
    ABSENT,
    ALWAYS_LIST,
    ANY,
    C_SLOTS,
    CANDIDATES,
    DEFERRED,
    DEFERRED_MAX,
    EPOCH,
    EQ,
    EVERY,
    EXISTS,
    EXT_GRID,
    EXT_PREFIX,
    EXT_SUFFIX,
    FILING_MASK,
    GE,
    GRID_LEVELS,
    GUARD,
    HOT,
    IN,
    KINDS,
    LE,
    LIVE_KEYS,
    MATCHES,
    NAN,
    NE,
    ORDERED,
    STRING,
    T_EQ,
    T_GRAM,
    T_GRID,
    T_GT,
    T_LT,
    T_PREFIX,
    T_SUFFIX,
    TEXT_KEY_MAX,
)

CACHED = 32768  # keys


@kernel
def res_at(codes, i):
    """The lost rounding of the i-th value of a publication."""
    return ((codes[i] >> 40) & 0xFFFF) - 32768


@kernel(forceinline=True)
def verify(st, atoms, where, start, count, skip, codes, nums, texts, marks):
    """Whether the publication satisfies all atoms but `skip`."""
    for i in range(start, start + count):
        if i == skip:
            continue
        atom = atoms[np.uint64(i)]  # unsigned: no wrap-around to provide for
        w = where[np.uint64(atom.attr)]
        op = atom.op
        if w < 0:
            if op == ABSENT:
                continue
            return False
        code = codes[np.uint64(w)]
        if ((code >> 32) & 0xFF) != atom.kind:
            if op == EXISTS:
                continue
            return False
        num = nums[np.uint64(w)]
        if op == EQ:
            if num != atom.num or ((code >> 40) & 0xFFFF) - 32768 != atom.res:
                return False
        elif op == GE:  # one branch: which way it goes cannot be foretold
            lost = ((code >> 40) & 0xFFFF) - 32768
            if (num < atom.num) | ((num == atom.num) & (lost < atom.res)):
                return False
        elif op == LE:
            lost = ((code >> 40) & 0xFFFF) - 32768
            if (num > atom.num) | ((num == atom.num) & (lost > atom.res)):
                return False
        elif not rare_operator_holds(st, atom, num, w, codes, texts, marks):
            return False
    return True


@kernel
def rare_operator_holds(st, atom, num, w, codes, texts, marks):
    """The operators that a typical filter has few of; the kinds agree."""
    op = atom.op
    if op == NE:
        return num != atom.num or res_at(codes, w) != atom.res
    if op == IN:
        return is_member(st, atom, num, res_at(codes, w))
    if op == ANY:
        return True
    return text_holds(st, atom, texts, marks[w], marks[w + 1])


@kernel
def visit(st, list_id, first, last, trusted, codes, nums, texts, marks, found):
    """Look at entries first … last of a list; `trusted`: the list vouches for the access atom.

    What a posting's mark decides is decided here; the rest is put aside for `verify_deferred`.
    """
    start = np.int64(st.lists[list_id].start)
    posts, marked = st.post_conjunction, st.post_filing
    hits, where, deferred, deferred_lists = st.hits, st.where, st.deferred, st.deferred_lists
    waiting = st.control[DEFERRED]
    refused = 0
    for p in range(start + first, start + last):
        mark = marked[p]
        if mark < 0:  # LONE
            if trusted:
                hits[found] = posts[p]
                found += 1
                continue
        elif mark & GUARD and where[mark & FILING_MASK] < 0:
            refused += 1
            continue
        deferred[waiting] = posts[p]
        deferred_lists[waiting] = list_id << 1 | trusted
        waiting += 1
        if waiting == DEFERRED_MAX:
            st.control[DEFERRED] = waiting
            found = verify_deferred(st, codes, nums, texts, marks, found)
            waiting = 0
    st.control[DEFERRED] = waiting
    st.control[CANDIDATES] += last - first
    if refused > 0:
        note_waste(st, list_id, refused)
    return found


@kernel
def verify_deferred(st, codes, nums, texts, marks, found):
    """Verify what was put aside. First the records are only touched, so that memory answers many
    at once; a mispredicted branch would make it answer one by one."""
    n = st.control[DEFERRED]
    st.control[DEFERRED] = 0
    deferred, deferred_lists, starts = st.deferred, st.deferred_lists, st.deferred_starts
    conjunctions, atoms, where, hits = st.conjunctions, st.atoms, st.where, st.hits
    for i in range(n):
        starts[i] = conjunctions[deferred[i]].start
    touched = 0
    for i in range(n):
        touched += atoms[starts[i]].op
    starts[n] = touched
    epoch = np.int32(st.control[EPOCH])
    refused = 0
    for i in range(n):
        if i > 0 and refused > 0 and deferred_lists[i] != deferred_lists[i - 1]:
            note_waste(st, deferred_lists[i - 1] >> 1, refused)
            refused = 0
        c = conjunctions[np.uint64(deferred[i])]
        skip = c.start + c.access if deferred_lists[i] & 1 else -1
        if not verify(st, atoms, where, c.start, c.count, skip, codes, nums, texts, marks):
            refused += 1
            continue
        if c.stamped:
            slot = st.slots[c.slot]
            if slot.stamp == epoch:
                continue
            slot.stamp = epoch
        hits[found] = deferred[i]
        found += 1
    if refused > 0:
        note_waste(st, deferred_lists[n - 1] >> 1, refused)
    return found


@kernel
def note_waste(st, list_id, refused):
    """A list that keeps leading to conjunctions that do not match is put up for `rechoose`."""
    one = st.lists[list_id]
    one.waste += refused
    if one.waste > (16 * one.size + 64) << one.patience and st.control[HOT] < len(st.hot):
        st.hot[st.control[HOT]] = list_id
        st.control[HOT] += 1
        one.waste = 0


@kernel
def visit_all(st, list_id, trusted, codes, nums, texts, marks, found):
    """Look at all entries of a list, as `visit` does."""
    size = np.int64(st.lists[list_id].size)
    return visit(st, list_id, np.int64(0), size, trusted, codes, nums, texts, marks, found)


@kernel
def visit_bounds(st, field, num, codes, nums, texts, marks, found):
    """One-sided ranges: lower bounds up to the number, upper bounds from it on.

    Keys are rounded: bounds that round to the same key as the number are verified.
    """
    key = number_order(num)
    above = st.ordered[field * ORDERED]
    if above.size > 0:
        at = find_leaf(st, above, False, key, LAST)
        for i in range(at + 1):
            list_id = np.int64(st.fences[above.start + i].list)
            leaf = st.lists[list_id]
            sure = end = np.int64(leaf.size)
            if st.post_key[leaf.start + sure - 1] >= key:
                sure = position_in_leaf(st, leaf, False, key, FIRST)
                end = position_in_leaf(st, leaf, False, key, LAST)
            found = visit(st, list_id, np.int64(0), sure, True, codes, nums, texts, marks, found)
            if end > sure:
                found = visit(st, list_id, sure, end, False, codes, nums, texts, marks, found)
    below = st.ordered[field * ORDERED + T_LT - T_GT]
    if below.size > 0:
        at = find_leaf(st, below, False, key, FIRST)
        for i in range(at, below.size):
            list_id = np.int64(st.fences[below.start + i].list)
            leaf = st.lists[list_id]
            sure = begin = np.int64(0)
            if st.post_key[leaf.start] <= key:
                begin = position_in_leaf(st, leaf, False, key, FIRST)
                sure = position_in_leaf(st, leaf, False, key, LAST)
            size = np.int64(leaf.size)
            if sure > begin:
                found = visit(st, list_id, begin, sure, False, codes, nums, texts, marks, found)
            found = visit(st, list_id, sure, size, True, codes, nums, texts, marks, found)
    return found


@kernel
def visit_number(st, field, num, res, codes, nums, texts, marks, found):
    """Ordered and grid lists of a number."""
    found = visit_bounds(st, field, num, codes, nums, texts, marks, found)
    ext = st.fields[field].ext
    if ext >= 0 and st.masks[ext, EXT_GRID] != 0 and abs(num) < 1e300:
        mask = st.masks[ext, EXT_GRID]
        for level in range(GRID_LEVELS):
            if (mask >> np.uint64(level)) & np.uint64(1):
                list_id = find_list(st, field, T_GRID, float_bits(grid_cell(num, level)), level)
                if list_id >= 0:
                    found = visit_all(st, list_id, False, codes, nums, texts, marks, found)
    return found


@kernel
def visit_text(st, field, at, end, codes, nums, texts, marks, found):
    """Prefix, suffix and part lists of a string."""
    ext = st.fields[field].ext
    if ext < 0:
        return found
    mask = st.masks[ext, EXT_PREFIX >> 6]
    if mask != 0:
        h = FNV_BASIS
        for length in range(1, min(end - at, TEXT_KEY_MAX) + 1):
            h = (h ^ np.uint64(texts[at + length - 1])) * FNV_PRIME
            if (mask >> np.uint64(length)) & np.uint64(1):
                list_id = find_list(st, field, T_PREFIX, np.int64(h), length)
                if list_id >= 0:
                    found = visit_all(st, list_id, False, codes, nums, texts, marks, found)
    mask = st.masks[ext, EXT_SUFFIX >> 6]
    if mask != 0:
        h = FNV_BASIS
        for length in range(1, min(end - at, TEXT_KEY_MAX) + 1):
            h = (h ^ np.uint64(texts[end - length])) * FNV_PRIME
            if (mask >> np.uint64(length)) & np.uint64(1):
                list_id = find_list(st, field, T_SUFFIX, np.int64(h), length)
                if list_id >= 0:
                    found = visit_all(st, list_id, False, codes, nums, texts, marks, found)
    mask = st.masks[ext, 3]
    for width in range(1, 4):
        if (mask >> np.uint64(width)) & np.uint64(1):
            for i in range(at, end - width + 1):
                list_id = find_list(st, field, T_GRAM, gram_at(texts, i, width), 0)
                if list_id >= 0:
                    found = visit_all(st, list_id, False, codes, nums, texts, marks, found)
    return found


@kernel
def visit_unequal(st, field, num, res, codes, nums, texts, marks, found):
    """All lists of `<> value` but the one of this value."""
    list_id = np.int64(st.fields[field].unequal)
    payload = float_bits(num)
    while list_id >= 0:
        one = st.lists[list_id]
        following = np.int64(one.next)
        if one.payload != payload or one.res != res:
            found = visit_all(st, list_id, True, codes, nums, texts, marks, found)
        list_id = following
    return found


@kernel
def match_one(st, codes, nums, texts, marks):
    """Numbers of the matching conjunctions into `hits`; how many. One per key at most if its
    conjunctions are stamped."""
    control = st.control
    n = len(codes)
    next_epoch(st)
    known = len(st.local)
    for i in range(n):
        name = codes[i] & 0xFFFFFFFF
        if name < known and st.local[name] >= 0:
            st.where[st.local[name]] = i
    observe(st, codes, nums)
    found = 0
    if control[ALWAYS_LIST] >= 0:
        found = visit_all(st, control[ALWAYS_LIST], False, codes, nums, texts, marks, found)
    for i in range(n):
        name = codes[i] & 0xFFFFFFFF
        if name >= known or st.local[name] < 0:
            continue
        attribute = np.int64(st.local[name])
        every = st.fields[attribute * KINDS + EVERY].any
        if every >= 0:
            found = visit_all(st, every, True, codes, nums, texts, marks, found)
        kind = kind_at(codes, i)
        if kind == NAN:
            continue
        field = attribute * KINDS + kind
        f = st.fields[field]
        if f.access == 0:
            continue
        num = nums[i]
        res = res_at(codes, i)
        if f.points > 0:
            list_id = find_list(st, field, T_EQ, float_bits(num), res)
            if list_id >= 0:
                found = visit_all(st, list_id, True, codes, nums, texts, marks, found)
        if kind == STRING:
            found = visit_text(st, field, marks[i], marks[i + 1], codes, nums, texts, marks, found)
        else:
            found = visit_number(st, field, num, res, codes, nums, texts, marks, found)
        if f.any >= 0:
            found = visit_all(st, np.int64(f.any), True, codes, nums, texts, marks, found)
        if f.other >= 0:
            found = visit_all(st, np.int64(f.other), False, codes, nums, texts, marks, found)
        if f.unequal >= 0:
            found = visit_unequal(st, field, num, res, codes, nums, texts, marks, found)
    found = verify_deferred(st, codes, nums, texts, marks, found)
    for i in range(n):
        name = codes[i] & 0xFFFFFFFF
        if name < known and st.local[name] >= 0:
            st.where[st.local[name]] = -1
    control[MATCHES] += found
    return found


@kernel
def next_epoch(st):
    """Begin another query: stamps of earlier ones no longer count."""
    st.control[EPOCH] += 1
    if st.control[EPOCH] >= 2147483647:
        st.control[EPOCH] = 1
        for slot in range(st.control[C_SLOTS]):
            st.slots[slot].stamp = 0


@kernel
def match_keys(st, codes, nums, texts, marks, out):
    """Matching keys into `out`; how many."""
    found = match_one(st, codes, nums, texts, marks)
    for i in range(found):
        out[i] = st.conjunction_key[st.hits[i]]
    return found


@kernel
def match_keys_batch(st, first, starts, codes, nums, texts, marks, out, offsets):
    """From publication `first` on, until all are done, the answers outgrow the processor's cache or
    `out` might not hold one more.

    Returns the number of the first publication not done. offsets[i + 1] is set for each done.
    """
    most = st.control[LIVE_KEYS]
    keys, hits = st.conjunction_key, st.hits
    o = offsets[first]
    for p in range(first, len(starts) - 1):
        if o - offsets[first] + most > len(out):
            return p
        a, b = starts[p], starts[p + 1]
        found = match_one(st, codes[a:b], nums[a:b], texts, marks[a : b + 1])
        base = o - offsets[first]
        for i in range(found):
            out[base + i] = keys[hits[i]]
        o += found
        offsets[p + 1] = o
        if o - offsets[first] >= CACHED:
            return p + 1
    return len(starts) - 1


@kernel
def match_link_mask(st, codes, nums, texts, marks, exclude, mask, out):
    """Targets of matching entries as bits of the first half of `mask`, those with two or more as
    bits of the second half, keys of local ones into `out`.

    Entries from link `exclude` do not count. Returns (local keys, entries that match).
    """
    words = len(mask) >> 1
    found = match_one(st, codes, nums, texts, marks)
    for w in range(len(mask)):
        mask[w] = 0
    local = 0
    entries = 0
    for i in range(found):
        c = st.conjunctions[st.hits[i]]
        link = np.int64(c.link)  # and target, see `index.place_of`
        if link < 0:
            out[local] = st.conjunction_key[st.hits[i]]
            local += 1
        elif link >> 16 == exclude:
            continue
        else:
            target = link & 0xFFFF
            word, bit = target >> 6, np.uint64(1) << np.uint64(target & 63)
            mask[words + word] |= mask[word] & bit
            mask[word] |= bit
        entries += 1
    return local, entries
