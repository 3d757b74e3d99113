"""Updates: keys and their conjunctions come, go, and are filed anew when their list is wasteful."""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.filing import (
    access_filings,
    begin_filing,
    complete_access,
    relate,
    unfile,
    unrelate,
)
from byway.matching.kernels.pools import block_size, free_block, take_block
from byway.matching.kernels.selectivity import (
    choose_access,
    is_first_of_attribute,
    is_pair,
    sample,
    selectivity_of,
    sort_atoms,
)
from byway.matching.layout import (
    ANY,
    ATOM,
    C_ATTRIBUTES,
    C_CONJUNCTIONS,
    C_EXTS,
    C_LISTS,
    C_SLOTS,
    CONJUNCTION,
    CURSOR,
    EQ,
    EXT_WIDTH,
    FENCE,
    FIELD,
    FILING,
    FIRST_RELATION,
    FREE_CONJUNCTION,
    FREE_EXT,
    FREE_SAMPLES,
    FREE_SLOT,
    GE,
    HASHED_LISTS,
    HOT,
    IN,
    KINDS,
    LE,
    LIST,
    LIVE,
    LIVE_ATTRIBUTES,
    LIVE_CONJUNCTIONS,
    LIVE_EXTS,
    LIVE_KEYS,
    LIVE_LISTS,
    MEMBER,
    MOVED,
    ORDERED,
    ORDERED_SET,
    PASS,
    PENDING,
    POOL_ATOMS,
    POOL_FILINGS,
    POOL_POSTS,
    POOL_SETS,
    POOLS,
    RELATIONS,
    SAMPLES,
    SLOT,
    STRING,
    USED,
)

PATIENCE_MAX = 20
KEY_BYTES = SLOT.itemsize + 24  # with its filter, its place in the table of keys and in answers
CONJUNCTION_BYTES = CONJUNCTION.itemsize + 12
LIST_BYTES = LIST.itemsize + 16
ATTRIBUTE_BYTES = KINDS * (FIELD.itemsize + ORDERED * ORDERED_SET.itemsize) + 16 * SAMPLES + 64
EXT_BYTES = 4 * EXT_WIDTH + 32
POOL_BYTES = (ATOM.itemsize, FILING.itemsize, 10, FENCE.itemsize, MEMBER.itemsize)  # by pool


@kernel
def key_home(st, key):
    """Where a key belongs in the key table, if nothing else stands there."""
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return (h ^ (h >> np.uint64(31))) & np.uint64(len(st.keys) - 1)


@kernel
def find_slot(st, key):
    """The slot of a key, or -1 if it is not stored."""
    last = np.uint64(len(st.keys) - 1)
    i = key_home(st, key)
    while st.keys[i] != 0:
        slot = st.keys[i] - 1
        if st.slots[slot].key == key:
            return slot
        i = (i + np.uint64(1)) & last
    return -1


@kernel
def insert_key(st, slot):
    """Enter a slot in the key table, which has room for it."""
    last = np.uint64(len(st.keys) - 1)
    i = key_home(st, st.slots[slot].key)
    while st.keys[i] != 0:
        i = (i + np.uint64(1)) & last
    st.keys[i] = slot + 1


@kernel
def remove_key(st, slot):
    """Remove a slot from the key table, by backward shift as `table_remove` does."""
    last = np.uint64(len(st.keys) - 1)
    i = key_home(st, st.slots[slot].key)
    while st.keys[i] != slot + 1:
        i = (i + np.uint64(1)) & last
    hole = i
    while True:
        i = (i + np.uint64(1)) & last
        if st.keys[i] == 0:
            break
        home = key_home(st, st.slots[st.keys[i] - 1].key)
        if ((i - home) & last) >= ((i - hole) & last):
            st.keys[hole] = st.keys[i]
            hole = i
    st.keys[hole] = 0


@kernel
def rebuild_keys(st):
    """Fill an emptied (grown) key table again."""
    st.keys[:] = 0
    for slot in range(st.control[C_SLOTS]):
        if st.slots[slot].count >= 0:
            insert_key(st, slot)


@kernel
def open_key(st, key, link):
    """A slot for a new key; -1 when the key is there already."""
    if find_slot(st, key) >= 0:
        return -1
    control = st.control
    slot = control[FREE_SLOT]
    if slot >= 0:
        control[FREE_SLOT] = st.slots[slot].head
    else:
        slot = control[C_SLOTS]
        control[C_SLOTS] += 1
    one = st.slots[slot]
    one.key = key
    one.head = -1
    one.stamp = 0
    one.link = link
    one.count = 0
    insert_key(st, slot)
    control[LIVE_KEYS] += 1
    return slot


@kernel
def insert(st, slot, codes, nums, count, set_nums, set_res, ordinal, several):
    """Store a conjunction and begin to file it; returns its number (call `complete` next)."""
    control = st.control
    conjunction = control[FREE_CONJUNCTION]
    if conjunction >= 0:
        control[FREE_CONJUNCTION] = st.conjunctions[conjunction].next
    else:
        conjunction = control[C_CONJUNCTIONS]
        control[C_CONJUNCTIONS] += 1
    c = st.conjunctions[conjunction]
    st.conjunction_key[conjunction] = st.slots[slot].key
    c.slot = slot
    c.link = st.slots[slot].link
    c.next = st.slots[slot].head
    st.slots[slot].head = conjunction
    st.slots[slot].count += 1
    c.ordinal = ordinal
    c.count = count
    c.start = take_block(st, POOL_ATOMS, count) if count > 0 else 0
    members = 0
    for i in range(count):
        atom = st.atoms[c.start + i]
        code = codes[i]
        atom.attr = code & 0xFFFFFFFF
        atom.op = (code >> 32) & 0xFF
        atom.kind = (code >> 40) & 0xFF
        atom.res = code >> 48
        atom.num = nums[i]
        if atom.op == IN:
            size = np.int64(atom.res)
            start = take_block(st, POOL_SETS, size)
            atom.num = start
            for j in range(size):
                st.sets[start + j].num = set_nums[members + j]
                st.sets[start + j].res = set_res[members + j]
            members += size
        use_words(st, atom, 1)
        if is_first_of_attribute(st, c, i):
            st.presence[atom.attr, 1] += 1
        if atom.op == EQ or atom.op == GE or atom.op == LE:
            sample(st, np.int64(atom.attr) * KINDS + atom.kind, atom.num, False)
    control[LIVE_CONJUNCTIONS] += 1
    c.several = several
    begin_filing(st, conjunction, sort_atoms(st, conjunction))
    return conjunction


@kernel
def complete(st, conjunction, relate_from):
    """Go on filing; 0 when done, else 1: grow the pools and call again (with what is returned).

    Returns (state, atom at which relations go on).
    """
    if not complete_access(st, conjunction):
        return 1, relate_from
    if st.control[RELATIONS]:
        relate_from = relate(st, conjunction, relate_from)
        if relate_from < st.conjunctions[conjunction].count:
            return 1, relate_from
    return 0, relate_from


@kernel
def remove(st, key):
    """Remove a key with all its conjunctions; its slot, or -1 when it is not there, and how many
    attributes no conjunction constrains any more."""
    slot = find_slot(st, key)
    unused = 0
    if slot < 0:
        return slot, unused
    one = st.slots[slot]
    conjunction = np.int64(one.head)
    while conjunction >= 0:
        c = st.conjunctions[conjunction]
        unfile(st, conjunction)
        if st.control[RELATIONS]:
            unrelate(st, conjunction)
        for i in range(c.count):
            atom = st.atoms[c.start + i]
            if is_first_of_attribute(st, c, i):
                st.presence[atom.attr, 1] -= 1
                if st.presence[atom.attr, 1] == 0:
                    unused += 1
            use_words(st, atom, -1)
            if atom.op == IN:
                free_block(st, POOL_SETS, np.int64(atom.num), np.int64(atom.res))
        free_block(st, POOL_ATOMS, c.start, np.int64(c.count))
        following = np.int64(c.next)
        c.slot = -1
        c.next = st.control[FREE_CONJUNCTION]
        st.control[FREE_CONJUNCTION] = conjunction
        st.control[LIVE_CONJUNCTIONS] -= 1
        conjunction = following
    remove_key(st, slot)
    one.count = -1
    one.head = st.control[FREE_SLOT]
    st.control[FREE_SLOT] = slot
    st.control[LIVE_KEYS] -= 1
    return slot, unused


@kernel
def use_words(st, atom, change):
    """Count the uses of the strings that an atom names, which is stored or about to go."""
    if atom.kind != STRING or atom.op == ANY:
        return
    if atom.op != IN:
        use_word(st, np.int64(atom.num), change)
        return
    start = np.int64(atom.num)
    for i in range(start, start + atom.res):
        use_word(st, np.int64(st.sets[i].num), change)


@kernel
def use_word(st, s, change):
    """Count one use more or less of a string. One that has none left is put up for the vocabulary
    to look at."""
    word = st.words[s]
    word.uses += change
    if word.uses == 0 and word.listed == 0:
        word.listed = 1
        st.unused[st.unused_count[0]] = s
        st.unused_count[0] += 1


@kernel
def release_words(st):
    """Give up all strings of an index that is no longer there."""
    for conjunction in range(st.control[C_CONJUNCTIONS]):
        c = st.conjunctions[conjunction]
        if c.slot >= 0:
            for i in range(c.start, c.start + c.count):
                use_words(st, st.atoms[i], -1)


@kernel
def forget_attribute(st, attribute):
    """Clear what an attribute has that no conjunction constrains any more; its number is free."""
    st.presence[attribute, 0] = 0
    for field in range(attribute * KINDS, attribute * KINDS + KINDS):
        f = st.fields[field]
        if f.ext >= 0:
            st.ext[f.ext, 0] = st.control[FREE_EXT]
            st.control[FREE_EXT] = f.ext
            st.control[LIVE_EXTS] -= 1
            f.ext = -1
        if f.samples >= 0:
            st.samples[f.samples, 0] = st.control[FREE_SAMPLES]
            st.control[FREE_SAMPLES] = f.samples
            f.samples = -1
        f.seen = 0
        f.repeats = 0.0
        f.observed = 0


@kernel
def bytes_held(st):
    """How many bytes of the arrays are in use, and how many are behind their high-water marks."""
    control = st.control
    live = control[LIVE_KEYS] * KEY_BYTES + control[LIVE_CONJUNCTIONS] * CONJUNCTION_BYTES
    live += control[LIVE_LISTS] * LIST_BYTES + control[LIVE_EXTS] * EXT_BYTES
    live += control[LIVE_ATTRIBUTES] * ATTRIBUTE_BYTES
    used = control[C_SLOTS] * KEY_BYTES + control[C_CONJUNCTIONS] * CONJUNCTION_BYTES
    used += control[C_LISTS] * LIST_BYTES + control[C_EXTS] * EXT_BYTES
    used += control[C_ATTRIBUTES] * ATTRIBUTE_BYTES
    for pool in range(POOLS):
        live += control[LIVE + pool] * POOL_BYTES[pool]
        used += control[USED + pool] * POOL_BYTES[pool]
    return live, used


@kernel
def rechoose(st, budget):
    """Look again at the conjunctions of the list that wasted most recently, `budget` at a time.

    Moves those for which another atom is now at least twice as selective. A pass that moves nothing
    makes the list wait twice as long for its next one. Stops early, with control[PENDING] set, when
    a filing waits for room.
    """
    control = st.control
    list_id = np.int64(st.hot[control[HOT] - 1])
    one = st.lists[list_id]
    field, tag, payload = one.field, one.tag, one.payload
    if field < 0 or tag >= FIRST_RELATION:
        drop_hottest(st)
        return
    if control[CURSOR] < 0:
        control[CURSOR] = one.size
        control[PASS] = control[MOVED]
    at = min(control[CURSOR], np.int64(one.size))
    while at > 0 and budget > 0:
        at -= 1
        budget -= 1
        conjunction = np.int64(st.post_conjunction[one.start + at])
        c = st.conjunctions[conjunction]
        best, share = choose_access(st, conjunction)
        if best < 0 or best == c.access or not has_room_to_move(st, c, best):
            continue
        now = selectivity_of(st, c.start + c.access, is_pair(st, c.start, c.count, c.access))
        if share * 2.0 > now:
            continue
        unfile(st, conjunction)
        begin_filing(st, conjunction, sort_atoms(st, conjunction))
        control[MOVED] += 1
        if not complete_access(st, conjunction):
            control[PENDING] = conjunction
            break
        if one.field != field or one.tag != tag or one.payload != payload or at > one.size:
            at = 0  # the list is gone, its place perhaps taken by another
    control[CURSOR] = at
    if at == 0:
        if control[MOVED] > control[PASS]:
            one.patience = 0
        elif one.patience < PATIENCE_MAX:
            one.patience += 1
        drop_hottest(st)


@kernel
def has_room_to_move(st, c, access):
    """Whether all pools have room for a conjunction's filings under another access atom."""
    need = access_filings(st, c.start, c.count, access)
    return (
        st.control[USED + POOL_FILINGS] + block_size(need) <= len(st.filings)
        and need + 2 <= len(st.lists) - st.control[C_LISTS]
        and 2 * (st.control[HASHED_LISTS] + need) <= len(st.table)
        and st.control[USED + POOL_POSTS] + 4 * need <= len(st.post_conjunction)
        and st.control[USED + POOL_ATOMS] + c.count <= len(st.atoms)
    )


@kernel
def drop_hottest(st):
    """Take the list that wasted most recently off the lists to be looked at."""
    st.control[HOT] -= 1
    st.control[CURSOR] = -1
