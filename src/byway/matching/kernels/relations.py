"""Relation queries: which stored conjunctions cover, are covered by, feed or are fed by a query.

Candidates are found through the index and judged by `verdicts`. Yes is stored in `hits` as the
conjunction's number, ask as its complement (~number).
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.filing import grid_cell
from byway.matching.kernels.lists import find_list, float_bits
from byway.matching.kernels.match import next_epoch, note_waste
from byway.matching.kernels.ordered import (
    FIRST,
    comes_before,
    find_leaf,
    is_text_set,
    order_key,
    position_in_leaf,
)
from byway.matching.kernels.texts import FNV_BASIS, FNV_PRIME, gram_at, starts_with, text_at
from byway.matching.kernels.verdicts import (
    ASK,
    BOX_ABSENT,
    BOX_EXISTS,
    POINT,
    SET,
    YES,
    covers_box,
    fed_by_boxes,
    feeds_boxes,
    inside_boxes,
    make_boxes,
)
from byway.matching.layout import (
    ALWAYS_LIST,
    C_CONJUNCTIONS,
    CONTAINS,
    COVERED,
    COVERING,
    EPOCH,
    EVERY,
    EXT_GRID,
    EXT_PREFIX,
    EXT_SUFFIX,
    FED,
    FEEDING,
    GRID_LEVELS,
    KINDS,
    ORDERED,
    PREFIX,
    STRING,
    SUFFIX,
    T_EQ,
    T_GRAM,
    T_GRID,
    T_GT,
    T_LT,
    T_PREFIX,
    T_REL_EQ,
    T_REL_HIGH,
    T_REL_LOOSE,
    T_REL_LOW,
    T_SUFFIX,
    TEXT_GE,
    TEXT_GT,
    TEXT_KEY_MAX,
)


@kernel
def judge(st, conjunction, mode, boxes, total, found):
    """Give one candidate its verdict."""
    c = st.conjunctions[conjunction]
    if found >= len(st.hits):
        return found  # full: the caller sees it, makes room and asks again
    if mode == COVERING:
        verdict = covers_box(st, c, boxes)
    elif mode == COVERED:
        verdict = inside_boxes(st, c, boxes, total)
    elif mode == FED:
        verdict = fed_by_boxes(st, c, boxes)
    else:
        verdict = feeds_boxes(st, c, boxes, total)
    if verdict == YES:
        if mode != COVERED:
            slot = st.slots[c.slot]
            epoch = np.int32(st.control[EPOCH])
            if slot.stamp == epoch:
                return found
            slot.stamp = epoch
        st.hits[found] = conjunction
        return found + 1
    if verdict == ASK:
        st.hits[found] = ~conjunction
        return found + 1
    return found


@kernel
def judge_list(st, list_id, mode, boxes, total, found):
    """Judge all entries of a list; those that are refused count as its waste."""
    one = st.lists[list_id]
    earlier = found
    for p in range(one.start, one.start + one.size):
        found = judge(st, np.int64(st.post_conjunction[p]), mode, boxes, total, found)
    if one.size > found - earlier and one.field >= 0:
        note_waste(st, list_id, one.size - (found - earlier))
    return found


@kernel
def judge_chain(st, list_id, mode, boxes, total, found):
    """Judge all entries of a list and of those chained behind it."""
    while list_id >= 0:
        found = judge_list(st, list_id, mode, boxes, total, found)
        list_id = np.int64(st.lists[list_id].next)
    return found


@kernel
def judge_key(st, field, tag, payload, res, mode, boxes, total, found):
    """Judge the list with a hash key, if there is one."""
    list_id = find_list(st, field, tag, payload, res)
    if list_id >= 0:
        found = judge_list(st, list_id, mode, boxes, total, found)
    return found


@kernel
def probe_box(st, box, nums, codes, mode, boxes, total, found):
    """Access lists whose atom may contain the whole box."""
    field = np.int64(box.attr) * KINDS + box.kind
    f = st.fields[field]
    if f.points > 0 and (box.shape == POINT or box.shape == SET):
        found = judge_key(
            st, field, T_EQ, float_bits(box.low), np.int64(box.low_res), mode, boxes, total, found
        )
    if box.kind == STRING:
        found = probe_texts(st, field, box, nums, codes, mode, boxes, total, found)
    else:
        if box.low > -np.inf:
            found = walk_set(st, field, T_GT, False, 0.0, True, box.low, False,
                             mode, boxes, total, found, False)  # fmt: skip
        if box.high < np.inf:
            found = walk_set(st, field, T_LT, True, box.high, False, 0.0, False,
                             mode, boxes, total, found, False)  # fmt: skip
        if f.ext >= 0 and abs(box.low) < 1e300:
            mask = st.masks[f.ext, EXT_GRID]
            for level in range(GRID_LEVELS):
                if (mask >> np.uint64(level)) & np.uint64(1):
                    found = judge_key(
                        st, field, T_GRID, float_bits(grid_cell(box.low, level)), level,
                        mode, boxes, total, found,
                    )  # fmt: skip
    if f.any >= 0:
        found = judge_list(st, np.int64(f.any), mode, boxes, total, found)
    if f.other >= 0:
        found = judge_list(st, np.int64(f.other), mode, boxes, total, found)
    return judge_chain(st, np.int64(f.unequal), mode, boxes, total, found)


@kernel
def probe_texts(st, field, box, nums, codes, mode, boxes, total, found):
    """Prefix, suffix and part lists that may contain all strings of the box."""
    if st.fields[field].ext < 0:
        return found
    if box.shape == POINT or box.shape == SET:
        s = np.int64(box.low)  # of a set, any of its strings will do
        found = probe_text(st, field, s, True, True, mode, boxes, total, found)
    for i in range(box.first, box.last):
        op = (codes[i] >> 32) & 0xFF
        s = np.int64(nums[i])
        if op == PREFIX or op == TEXT_GE or op == TEXT_GT:
            found = probe_text(st, field, s, True, False, mode, boxes, total, found)
        elif op == SUFFIX:
            found = probe_text(st, field, s, False, True, mode, boxes, total, found)
        elif op == CONTAINS:
            found = probe_text(st, field, s, False, False, mode, boxes, total, found)
    return found


@kernel
def probe_text(st, field, s, as_prefix, as_suffix, mode, boxes, total, found):
    """Judge prefix, suffix and part lists whose text is in string s of the vocabulary."""
    ext = st.fields[field].ext
    text = text_at(st, s)
    at, end = np.int64(0), len(text)
    if as_prefix:
        mask = st.masks[ext, EXT_PREFIX >> 6]
        h = FNV_BASIS
        for length in range(1, min(end - at, TEXT_KEY_MAX) + 1):
            h = (h ^ np.uint64(text[at + length - 1])) * FNV_PRIME
            if (mask >> np.uint64(length)) & np.uint64(1):
                found = judge_key(
                    st, field, T_PREFIX, np.int64(h), length, mode, boxes, total, found
                )
    if as_suffix:
        mask = st.masks[ext, EXT_SUFFIX >> 6]
        h = FNV_BASIS
        for length in range(1, min(end - at, TEXT_KEY_MAX) + 1):
            h = (h ^ np.uint64(text[end - length])) * FNV_PRIME
            if (mask >> np.uint64(length)) & np.uint64(1):
                found = judge_key(
                    st, field, T_SUFFIX, np.int64(h), length, mode, boxes, total, found
                )
    mask = st.masks[ext, 3]
    for width in range(1, 4):
        if (mask >> np.uint64(width)) & np.uint64(1):
            for i in range(at, end - width + 1):
                found = judge_key(
                    st, field, T_GRAM, gram_at(text, i, width), 0, mode, boxes, total, found
                )
    return found


@kernel
def search_access_lists(st, boxes, total, nums, codes, mode):
    """COVERING and FED: every conjunction stands under one access atom, so look there."""
    found = 0
    if st.control[ALWAYS_LIST] >= 0:
        found = judge_list(st, st.control[ALWAYS_LIST], mode, boxes, total, found)
    for w in range(total):
        box = boxes[w]
        if box.attr < 0 or box.kind == BOX_ABSENT:
            continue
        attribute = np.int64(box.attr)
        every = np.int64(st.fields[attribute * KINDS + EVERY].any)
        if every >= 0:
            found = judge_list(st, every, mode, boxes, total, found)
        if box.kind == BOX_EXISTS:
            if mode == FED:
                for kind in range(EVERY):
                    f = st.fields[attribute * KINDS + kind]
                    found = judge_chain(st, np.int64(f.chain), mode, boxes, total, found)
                    found = judge_chain(st, np.int64(f.unequal), mode, boxes, total, found)
        elif mode == COVERING or box.shape == POINT:
            found = probe_box(st, box, nums, codes, mode, boxes, total, found)
        else:
            f = st.fields[attribute * KINDS + box.kind]
            found = judge_chain(st, np.int64(f.chain), mode, boxes, total, found)
            found = judge_chain(st, np.int64(f.unequal), mode, boxes, total, found)
    return found


@kernel
def bounds_of_box(st, box, codes, nums):
    """(has low, low, has high, high, high is a prefix) in the order of the field's sets."""
    if box.kind != STRING:
        return box.low > -np.inf, box.low, box.high < np.inf, box.high, False
    if box.shape == POINT:
        return True, box.low, True, box.high, False
    for i in range(box.first, box.last):
        if ((codes[i] >> 32) & 0xFF) == PREFIX:
            return True, nums[i], True, nums[i], True
    return False, 0.0, False, 0.0, False


@kernel
def is_beyond(st, is_text, key, high, is_prefix):
    """Whether a key lies after the upper end of the query."""
    if is_prefix:
        value, text = text_at(st, key), text_at(st, high)
        if starts_with(value, np.int64(0), len(value), text, np.int64(0), len(text)):
            return False
    return comes_before(st, is_text, high, 0, key, 0)


@kernel
def walk_set(st, field, tag, use_low, low, use_high, high, is_prefix,
             mode, boxes, total, found, count_only):  # fmt: skip
    """Judge (or roughly count) what an ordered set holds between two keys; ends included."""
    one = st.ordered[field * ORDERED + tag - T_GT]
    if one.size == 0:
        return found
    is_text = is_text_set(field, tag)
    low_key = order_key(field, tag, low)
    high_key = order_key(field, tag, high)
    first = find_leaf(st, one, is_text, low_key, FIRST) if use_low else np.int64(0)
    for i in range(first, one.size):
        fence = st.fences[one.start + i]
        if use_high and i > first and is_beyond(st, is_text, fence.key, high_key, is_prefix):
            break
        leaf = st.lists[fence.list]
        begin = np.int64(0)
        if use_low and i == first:
            begin = position_in_leaf(st, leaf, is_text, low_key, FIRST)
        if count_only and (i != first or not use_high):
            found += leaf.size - begin
            continue
        for p in range(leaf.start + begin, leaf.start + leaf.size):
            if use_high and is_beyond(st, is_text, st.post_key[p], high_key, is_prefix):
                break
            if count_only:
                found += 1
            else:
                conjunction = np.int64(st.post_conjunction[p])
                found = judge(st, conjunction, mode, boxes, total, found)
    return found


@kernel
def walk_field(st, field, box, codes, nums, mode, boxes, total, found, count_only):
    """All constraints of a field that may be inside (COVERED) or meet (FEEDING) the box."""
    has_low, low, has_high, high, is_prefix = bounds_of_box(st, box, codes, nums)
    found = walk_set(st, field, T_REL_EQ, has_low, low, has_high, high, is_prefix,
                     mode, boxes, total, found, count_only)  # fmt: skip
    if mode == COVERED and box.shape == POINT:
        return found
    # ranges inside the box start in it; ranges that meet it start anywhere before its end (strings
    # under a prefix are not ordered by where they end, so all of them are looked at)
    found = walk_set(st, field, T_REL_LOW, has_low and mode == COVERED, low,
                     has_high and (box.kind != STRING or mode == COVERED), high, is_prefix,
                     mode, boxes, total, found, count_only)  # fmt: skip
    if mode == FEEDING or not has_low:
        found = walk_set(st, field, T_REL_HIGH, has_low, low, has_high and mode == COVERED, high,
                         is_prefix, mode, boxes, total, found, count_only)  # fmt: skip
    return walk_set(st, field, T_REL_LOOSE, False, 0.0, False, 0.0, False,
                    mode, boxes, total, found, count_only)  # fmt: skip


@kernel
def walk_attribute(st, box, codes, nums, mode, boxes, total, found, count_only):
    """All constraints of an attribute that may be inside or meet the box."""
    attribute = np.int64(box.attr)
    if box.kind == BOX_ABSENT or box.kind == BOX_EXISTS or mode == FEEDING:
        found = walk_set(st, attribute * KINDS + EVERY, T_REL_LOOSE, False, 0.0, False, 0.0, False,
                         mode, boxes, total, found, count_only)  # fmt: skip
    if box.kind == BOX_ABSENT:
        return found
    if box.kind == BOX_EXISTS:
        for kind in range(EVERY):
            found = walk_field(st, attribute * KINDS + kind, box, codes, nums,
                               mode, boxes, total, found, count_only)  # fmt: skip
        return found
    return walk_field(st, attribute * KINDS + box.kind, box, codes, nums,
                      mode, boxes, total, found, count_only)  # fmt: skip


@kernel
def search_relation_sets(st, boxes, n_boxes, total, codes, nums, mode):
    """COVERED and FEEDING: what is looked for constrains each attribute of the query, so look at
    the attribute with the fewest candidates."""
    best, least = -1, np.int64(1) << 60
    for w in range(n_boxes):
        box = boxes[w]
        if mode == FEEDING and box.kind == BOX_ABSENT:
            continue
        if box.attr < 0:
            return 0
        size = walk_attribute(st, box, codes, nums, mode, boxes, total, np.int64(0), True)
        if size < least:
            best, least = w, size
    if best >= 0:
        return walk_attribute(st, boxes[best], codes, nums, mode, boxes, total, np.int64(0), False)
    found = np.int64(0)
    for conjunction in range(st.control[C_CONJUNCTIONS]):
        if st.conjunctions[conjunction].slot >= 0:
            found = judge(st, conjunction, mode, boxes, total, found)
    return found


@kernel
def relate_query(st, mode, codes, nums, count, set_nums, set_res, boxes):
    """Conjunctions in relation `mode` to a query conjunction, into `hits`; how many."""
    n = make_boxes(codes, nums, count, set_nums, set_res, boxes)
    next_epoch(st)
    wanted = 0
    for w in range(n):
        box = boxes[w]
        if box.attr >= 0:
            st.where[box.attr] = w
        if box.kind != BOX_ABSENT:
            wanted += 1
    if mode == COVERING or mode == FED:
        found = search_access_lists(st, boxes, n, nums, codes, mode)
    else:
        found = search_relation_sets(
            st, boxes, n, n if mode == COVERED else wanted, codes, nums, mode
        )
    for w in range(n):
        if boxes[w].attr >= 0:
            st.where[boxes[w].attr] = -1
    return found
