"""Filing: which atom gives access to a conjunction, and in which lists it therefore stands.

Selectivity is observed: how often publications carry the attribute, and which share of its recent
values satisfies the atom. Lists that waste candidates have their conjunctions chosen anew.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from byway.matching.kernels.lists import (
    bits,
    block_size,
    drop_list,
    find_list,
    mix,
    new_list,
    ordered_insert,
    ordered_remove,
    pull,
    push,
    size_class,
)
from byway.matching.layout import (
    ABSENT,
    ALWAYS_LIST,
    ANY,
    C_CONJUNCTIONS,
    C_LISTS,
    C_SAMPLED,
    C_SLOTS,
    CONTAINS,
    CURSOR,
    EQ,
    EVERY,
    EXISTS,
    EXT_GRAM,
    EXT_GRID,
    EXT_PREFIX,
    EXT_SUFFIX,
    FILING_MASK,
    FIRST_RELATION,
    FREE_CONJUNCTION,
    FREE_SLOT,
    GE,
    GRID_LEVELS,
    GRID_LOWEST,
    GUARD,
    HASHED_LISTS,
    HOT,
    IN,
    KINDS,
    LE,
    LIVE_CONJUNCTIONS,
    LIVE_KEYS,
    LONE,
    MOVED,
    NE,
    PASS,
    PENDING,
    POOL_ATOMS,
    POOL_FILINGS,
    POOL_POSTS,
    POOL_SETS,
    PREFIX,
    PRESENCE_TOTAL,
    RELATIONS,
    SAMPLES,
    SUFFIX,
    T_ALWAYS,
    T_ANY,
    T_EQ,
    T_GRAM,
    T_GRID,
    T_GT,
    T_LT,
    T_NE,
    T_OTHER,
    T_PREFIX,
    T_REL_EQ,
    T_REL_HIGH,
    T_REL_LOOSE,
    T_REL_LOW,
    T_SUFFIX,
    TEXT_GE,
    TEXT_GT,
    TEXT_KEY_MAX,
    USED,
)

PATIENCE_MAX = 20
COMMON = 4  # of the samples: a value that stands there more often is a common one
REPEATS_STEP = 1.0 / 64.0
EQUAL_WEIGHT = 48.0
RANGE_WEIGHT = 4.0
FNV_BASIS = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)

# --- keys --------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def key_home(st, key):
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return (h ^ (h >> np.uint64(31))) & np.uint64(len(st.keys) - 1)


@njit(cache=True, nogil=True)
def find_slot(st, key):
    """The slot of a key, or -1."""
    last = np.uint64(len(st.keys) - 1)
    i = key_home(st, key)
    while st.keys[i] != 0:
        slot = st.keys[i] - 1
        if st.slots[slot].key == key:
            return slot
        i = (i + np.uint64(1)) & last
    return -1


@njit(cache=True, nogil=True)
def insert_key(st, slot):
    last = np.uint64(len(st.keys) - 1)
    i = key_home(st, st.slots[slot].key)
    while st.keys[i] != 0:
        i = (i + np.uint64(1)) & last
    st.keys[i] = slot + 1


@njit(cache=True, nogil=True)
def remove_key(st, slot):
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


@njit(cache=True, nogil=True)
def rebuild_keys(st):
    """Fill an emptied (grown) key table again."""
    st.keys[:] = 0
    for slot in range(st.control[C_SLOTS]):
        if st.slots[slot].count >= 0:
            insert_key(st, slot)


# --- selectivity -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def holds(st, atom, num, res):
    """Whether a number (or string id, or boolean) of the atom's kind satisfies it."""
    op = atom.op
    if op == EQ:
        return num == atom.num and res == atom.res
    if op == NE:
        return num != atom.num or res != atom.res
    if op == GE:
        return num > atom.num or (num == atom.num and res >= atom.res)
    if op == LE:
        return num < atom.num or (num == atom.num and res <= atom.res)
    if op == IN:
        return member(st, atom, num, res)
    return True


@njit(cache=True, nogil=True)
def member(st, atom, num, res):
    """Binary search in the atom's set."""
    low = np.int64(atom.num)
    high = low + atom.res
    end = high
    while low < high:
        middle = (low + high) >> 1
        m = st.sets[middle]
        if m.num < num or (m.num == num and m.res < res):
            low = middle + 1
        else:
            high = middle
    return low < end and st.sets[low].num == num and st.sets[low].res == res


@njit(cache=True, nogil=True)
def chance(st, index, count_pair):
    """Estimated share of publications that satisfy an atom (with its upper half, if paired)."""
    atom = st.atoms[index]
    presence = st.presence[atom.attr]
    prior = presence[1] / max(1.0, np.float64(st.control[LIVE_CONJUNCTIONS]))
    total = st.control[PRESENCE_TOTAL]
    present = (presence[0] + 4.0 * prior) / (total + 4.0)
    op = atom.op
    if op == EXISTS or op == ANY:
        return present
    field = st.fields[atom.attr * KINDS + atom.kind]
    weight = 1.0  # of the guess, in samples
    if op == EQ or op == IN:
        guess = 1.0 / (8.0 + field.points)
        if field.seen > 2 * SAMPLES:
            guess, weight = np.float64(field.repeats), EQUAL_WEIGHT
        if op == IN:
            guess *= atom.res
    elif op == GE or op == LE:
        guess, weight = 0.25 if count_pair else 0.5, RANGE_WEIGHT
    elif op == NE:
        guess = 0.95
    elif op == PREFIX or op == SUFFIX or op == CONTAINS:
        return present * 0.05
    else:
        return present
    n = min(field.seen, SAMPLES)
    if field.samples < 0 or n == 0:
        return present * min(guess, 1.0)
    values = st.samples[field.samples]
    good = 0
    for i in range(n):
        if holds(st, atom, values[i], 0) and (
            not count_pair or holds(st, st.atoms[index + 1], values[i], 0)
        ):
            good += 1
    return present * (good + weight * min(guess, 1.0)) / (n + weight)


@njit(cache=True, nogil=True)
def sample(st, field, num, observed):
    """Keep a value of a field: the most recent ones of publications.

    Until publications are seen, constants of filters stand in: an even sample of all, because
    filters often come sorted.
    """
    f = st.fields[field]
    if observed:
        f.observed = 1
    elif f.observed:
        return
    if f.samples < 0:
        if st.control[C_SAMPLED] >= len(st.samples):
            return
        f.samples = st.control[C_SAMPLED]
        st.control[C_SAMPLED] += 1
    place = np.int64(f.seen) % SAMPLES
    if not observed and f.seen >= SAMPLES:
        place = np.int64(mix(0, 0, np.int64(f.seen), 0) % np.uint64(f.seen))
    if place < SAMPLES:
        values = st.samples[f.samples]
        n = min(np.int64(f.seen), SAMPLES)
        equal = 0
        for i in range(n):
            if values[i] == num:
                equal += 1
        if n == SAMPLES and equal <= COMMON:
            f.repeats += np.float32(REPEATS_STEP) * (np.float32(equal / n) - f.repeats)
        values[place] = num
    f.seen += 1
    if f.seen >= 1 << 30:
        f.seen = SAMPLES


@njit(cache=True, nogil=True)
def is_pair(st, start, count, i):
    """Whether atom i is a lower bound and the next one the upper bound of the same attribute."""
    return (
        st.atoms[start + i].op == GE
        and i + 1 < count
        and st.atoms[start + i + 1].op == LE
        and st.atoms[start + i + 1].attr == st.atoms[start + i].attr
    )


@njit(cache=True, nogil=True)
def choose_access(st, conjunction):
    """(best atom, its chance); -1 when no atom gives access."""
    c = st.conjunctions[conjunction]
    best, best_chance = -1, 1e300
    for i in range(c.count):
        atom = st.atoms[c.start + i]
        if atom.op == ABSENT:
            continue
        share = chance(st, c.start + i, is_pair(st, c.start, c.count, i))
        if share < best_chance:
            best, best_chance = i, share
    return best, best_chance


@njit(cache=True, nogil=True)
def arrange(st, conjunction):
    """Sort a conjunction's atoms, attribute by attribute, most selective first, ABSENT last.

    Returns the access atom: the first, or -1. The pool has room for a copy behind its end.
    """
    c = st.conjunctions[conjunction]
    count = np.int64(c.count)
    if count == 0:
        return -1
    shares = np.empty(count, np.float64)  # of the attribute that starts at each atom, else -1
    groups = 0
    for i in range(count):
        shares[i] = -1.0
        if is_first_of_attribute(st, c, i):
            groups += 1
            shares[i] = 2.0
            if st.atoms[c.start + i].op != ABSENT:
                shares[i] = chance(st, c.start + i, is_pair(st, c.start, count, i))
    spare = st.control[USED + POOL_ATOMS]
    placed = 0
    for _ in range(groups):
        best = -1
        for i in range(count):
            if shares[i] >= 0.0 and (best < 0 or shares[i] < shares[best]):
                best = i
        shares[best] = -1.0
        end = best
        while end == best or (end < count and not is_first_of_attribute(st, c, end)):
            st.atoms[spare + placed] = st.atoms[c.start + end]
            placed += 1
            end += 1
    for i in range(count):
        st.atoms[c.start + i] = st.atoms[spare + i]
    return 0 if st.atoms[c.start].op != ABSENT else -1


# --- the lists of an access atom ---------------------------------------------------------------


@njit(cache=True, nogil=True)
def grid_level(low, high):
    """Level whose cells (4**level wide) the range touches at most five of, or -1: too wide."""
    width = high - low
    if not width < 1e300:
        return -1
    level = 0
    if width > 0.0:
        # frexp is exact, so the level is the same on every machine
        _, exponent = math.frexp(width)
        level = ((exponent - 1) >> 1) - GRID_LOWEST
    if level < 0:
        level = 0
    if level >= GRID_LEVELS:
        return -1
    cell = math.ldexp(1.0, 2 * (level + GRID_LOWEST))
    if abs(low / cell) > 4.5e15 or abs(high / cell) > 4.5e15:
        return -1  # cells narrower than the floats there
    return level


@njit(cache=True, nogil=True)
def grid_cell(num, level):
    return math.floor(num / math.ldexp(1.0, 2 * (level + GRID_LOWEST)))


@njit(cache=True, nogil=True)
def text_hash(text, start, end, backwards):
    h = FNV_BASIS
    for i in range(end - start):
        byte = text[end - 1 - i] if backwards else text[start + i]
        h = (h ^ np.uint64(byte)) * FNV_PRIME
    return np.int64(h)


@njit(cache=True, nogil=True)
def gram_at(text, at, width):
    gram = np.int64(width) << 24
    for i in range(width):
        gram |= np.int64(text[at + i]) << (8 * i)
    return gram


@njit(cache=True, nogil=True)
def rarest_gram(st, field, start, end):
    """The part of up to three bytes whose list is shortest."""
    width = min(3, end - start)
    best, least = gram_at(st.text, start, width), 1 << 60
    for at in range(start, end - width + 1):
        gram = gram_at(st.text, at, width)
        list_id = find_list(st, field, T_GRAM, gram, 0)
        size = 0 if list_id < 0 else np.int64(st.lists[list_id].size)
        if size < least:
            best, least = gram, size
    return best


@njit(cache=True, nogil=True)
def count_ext(st, field, column, change):
    """Keep count of grid levels, prefix lengths … in use, and their bit masks."""
    row = st.fields[field].ext
    st.ext[row, column] += change
    bit = np.uint64(1) << np.uint64(column & 63)
    if st.ext[row, column] > 0:
        st.masks[row, column >> 6] |= bit
    else:
        st.masks[row, column >> 6] &= ~bit


@njit(cache=True, nogil=True)
def access_tag(st, start, count, i):
    """Tag of the lists for access by atom i."""
    atom = st.atoms[start + i]
    op = atom.op
    if op == EQ or op == IN:
        return T_EQ
    if op == NE:
        return T_NE
    if op == GE:
        if is_pair(st, start, count, i):
            if grid_level(atom.num, st.atoms[start + i + 1].num) >= 0:
                return T_GRID
        return T_GT
    if op == LE:
        return T_LT
    if op == ANY or op == EXISTS:
        return T_ANY
    if op == PREFIX:
        return T_PREFIX
    if op == SUFFIX:
        return T_SUFFIX
    if op == CONTAINS:
        return T_GRAM
    return T_OTHER


@njit(cache=True, nogil=True)
def access_filings(st, start, count, i):
    """How many lists access by atom i needs."""
    if i < 0:
        return 1
    atom = st.atoms[start + i]
    if atom.op == IN:
        return np.int64(atom.res)
    if access_tag(st, start, count, i) == T_GRID:
        high = st.atoms[start + i + 1].num
        level = grid_level(atom.num, high)
        return np.int64(grid_cell(high, level) - grid_cell(atom.num, level)) + 1
    return 1


@njit(cache=True, nogil=True)
def field_of(atom):
    if atom.op == EXISTS or atom.op == ABSENT:
        return np.int64(atom.attr) * KINDS + EVERY
    return np.int64(atom.attr) * KINDS + atom.kind


@njit(cache=True, nogil=True)
def hashed_push(st, field, tag, payload, res, conjunction, mark):
    list_id = find_list(st, field, tag, payload, res)
    if list_id < 0:
        list_id = new_list(st, field, tag, payload, res)
        if tag == T_EQ:
            st.fields[field].points += 1
        elif tag == T_ANY:
            st.fields[field].any = list_id
        elif tag == T_OTHER:
            st.fields[field].other = list_id
    return np.int64(list_id), push(st, list_id, conjunction, mark)


@njit(cache=True, nogil=True)
def mark_of(st, c, k):
    """What a posting tells of its conjunction: filing k, and what spares looking at it."""
    if c.count == 1 and not c.stamped:
        return k | LONE
    if c.filings > 1:
        return k
    guard, rarest = np.int64(-1), np.int64(1) << 60
    own = np.int64(st.atoms[c.start + c.access].attr) if c.access >= 0 else np.int64(-1)
    for i in range(c.count):
        atom = st.atoms[c.start + i]
        if atom.op != ABSENT and atom.attr != own and atom.attr < FILING_MASK:
            presence = np.int64(st.presence[atom.attr, 0])
            if presence < rarest:
                guard, rarest = np.int64(atom.attr), presence
    return k if guard < 0 else GUARD | guard


@njit(cache=True, nogil=True)
def file_one(st, conjunction, k):
    """Make filing k of a conjunction under its access atom; False when there was no room."""
    c = st.conjunctions[conjunction]
    mark = mark_of(st, c, k)
    if c.access < 0:
        list_id = st.control[ALWAYS_LIST]
        if list_id < 0:
            list_id = new_list(st, -1, T_ALWAYS, 0, 0)
            st.control[ALWAYS_LIST] = list_id
        pos = push(st, list_id, conjunction, mark)
        return done(st, c, k, list_id, pos)
    atom = st.atoms[c.start + c.access]
    field = field_of(atom)
    tag = access_tag(st, c.start, c.count, c.access)
    if tag == T_GT or tag == T_LT:
        if not ordered_insert(st, field, tag, atom.num, conjunction, mark):
            return False
        st.fields[field].access += 1
        return True
    payload, res = np.int64(0), np.int64(0)
    column = -1
    if tag == T_EQ and atom.op == IN:
        m = st.sets[np.int64(atom.num) + k]
        payload, res = bits(m.num), np.int64(m.res)
    elif tag == T_EQ or tag == T_NE:
        payload, res = bits(atom.num), np.int64(atom.res)
    elif tag == T_GRID:
        level = grid_level(atom.num, st.atoms[c.start + c.access + 1].num)
        payload, res = bits(grid_cell(atom.num, level) + k), np.int64(level)
        column = EXT_GRID + level
    elif tag == T_PREFIX or tag == T_SUFFIX or tag == T_GRAM:
        s = np.int64(atom.num)
        start, end = st.text_start[s], st.text_start[s + 1]
        length = min(end - start, TEXT_KEY_MAX)
        if tag == T_PREFIX:
            payload, column = text_hash(st.text, start, start + length, False), EXT_PREFIX + length
        elif tag == T_SUFFIX:
            payload, column = text_hash(st.text, end - length, end, True), EXT_SUFFIX + length
        else:
            payload, column = rarest_gram(st, field, start, end), EXT_GRAM + min(end - start, 3)
        res = length if tag != T_GRAM else np.int64(0)
    list_id, pos = hashed_push(st, field, tag, payload, res, conjunction, mark)
    if not done(st, c, k, list_id, pos):
        return False
    if column >= 0:
        count_ext(st, field, column, 1)
    st.fields[field].access += 1
    return True


@njit(cache=True, nogil=True)
def done(st, c, k, list_id, pos):
    if pos < 0:
        return False
    place = st.filings[c.filing + k]
    place.list = list_id
    place.pos = pos
    return True


@njit(cache=True, nogil=True)
def unfile_one(st, conjunction, k):
    """Undo filing k."""
    c = st.conjunctions[conjunction]
    place = st.filings[c.filing + k]
    if c.access < 0:
        pull(st, st.control[ALWAYS_LIST], place.pos)
        return
    atom = st.atoms[c.start + c.access]
    field = field_of(atom)
    st.fields[field].access -= 1
    tag = access_tag(st, c.start, c.count, c.access)
    if tag == T_GT or tag == T_LT:
        ordered_remove(st, field, tag, atom.num, conjunction)
        return
    list_id = np.int64(place.list)
    one = st.lists[list_id]
    pull(st, list_id, place.pos)
    if tag == T_GRID:
        count_ext(st, field, EXT_GRID + np.int64(one.res), -1)
    elif tag == T_PREFIX:
        count_ext(st, field, EXT_PREFIX + np.int64(one.res), -1)
    elif tag == T_SUFFIX:
        count_ext(st, field, EXT_SUFFIX + np.int64(one.res), -1)
    elif tag == T_GRAM:
        count_ext(st, field, EXT_GRAM + (np.int64(one.payload) >> 24), -1)
    if one.size == 0:
        if tag == T_EQ:
            st.fields[field].points -= 1
        elif tag == T_ANY:
            st.fields[field].any = -1
        elif tag == T_OTHER:
            st.fields[field].other = -1
        drop_list(st, list_id)


# --- relations: every constraint once, in order of its attribute's values ------------------------


@njit(cache=True, nogil=True)
def is_first_of_attribute(st, c, i):
    return i == 0 or st.atoms[c.start + i - 1].attr != st.atoms[c.start + i].attr


@njit(cache=True, nogil=True)
def relation_tag(atom):
    op = atom.op
    if op == EQ:
        return T_REL_EQ
    if op == GE or op == PREFIX or op == TEXT_GE or op == TEXT_GT:
        return T_REL_LOW
    if op == LE:
        return T_REL_HIGH
    return T_REL_LOOSE


@njit(cache=True, nogil=True)
def unrelate(st, conjunction):
    """Take all constraints of a conjunction out of the relation sets."""
    c = st.conjunctions[conjunction]
    for i in range(c.count):
        if is_first_of_attribute(st, c, i):
            atom = st.atoms[c.start + i]
            ordered_remove(st, field_of(atom), relation_tag(atom), atom.num, conjunction)


@njit(cache=True, nogil=True)
def relate(st, conjunction, progress):
    """File all constraints of a conjunction from atom `progress` on; where it stopped."""
    c = st.conjunctions[conjunction]
    for i in range(progress, c.count):
        if is_first_of_attribute(st, c, i):
            atom = st.atoms[c.start + i]
            tag = relation_tag(atom)
            if not ordered_insert(st, field_of(atom), tag, atom.num, conjunction, 0):
                return i
    return np.int64(c.count)


@njit(cache=True, nogil=True)
def relate_all(st, conjunction, progress, budget):
    """File conjunctions one after the other (relations are being switched on), `budget` at most.

    Returns (conjunction, atom) to go on with; the caller makes sure of room for new lists.
    """
    n = min(st.control[C_CONJUNCTIONS], conjunction + budget)
    while conjunction < n:
        if st.conjunctions[conjunction].slot >= 0:
            progress = relate(st, conjunction, progress)
            if progress < st.conjunctions[conjunction].count:
                return conjunction, progress
        conjunction += 1
        progress = 0
    return n, np.int64(0)


# --- insertion and removal -----------------------------------------------------------------------


@njit(cache=True, nogil=True)
def take_block(st, pool, size):
    """Start of a block; the caller made sure of room."""
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


@njit(cache=True, nogil=True)
def give_block(st, pool, start, size):
    if size == 0:
        return
    c = size_class(size)
    if pool == POOL_ATOMS:
        st.atoms[start].attr = st.free[pool, c]
    elif pool == POOL_FILINGS:
        st.filings[start].list = st.free[pool, c]
    else:
        st.sets[start].num = st.free[pool, c]
    st.free[pool, c] = start


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
        if is_first_of_attribute(st, c, i):
            st.presence[atom.attr, 1] += 1
        if atom.op == EQ or atom.op == GE or atom.op == LE:
            sample(st, np.int64(atom.attr) * KINDS + atom.kind, atom.num, False)
    control[LIVE_CONJUNCTIONS] += 1
    c.several = several
    begin_filing(st, conjunction, arrange(st, conjunction))
    return conjunction


@njit(cache=True, nogil=True)
def begin_filing(st, conjunction, access):
    c = st.conjunctions[conjunction]
    c.access = access
    c.filings = access_filings(st, c.start, c.count, access)
    c.filing = take_block(st, POOL_FILINGS, np.int64(c.filings))
    c.filed = 0
    by_part = access >= 0 and st.atoms[c.start + access].op == CONTAINS
    c.stamped = 1 if by_part or c.several else 0


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def unfile(st, conjunction):
    c = st.conjunctions[conjunction]
    for k in range(c.filings):
        unfile_one(st, conjunction, k)
    give_block(st, POOL_FILINGS, c.filing, np.int64(c.filings))


@njit(cache=True, nogil=True)
def remove(st, key):
    """Remove a key with all its conjunctions; its slot, or -1 when it is not there."""
    slot = find_slot(st, key)
    if slot < 0:
        return -1
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
            if atom.op == IN:
                give_block(st, POOL_SETS, np.int64(atom.num), np.int64(atom.res))
        give_block(st, POOL_ATOMS, c.start, np.int64(c.count))
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
    return slot


# --- drift ---------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
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
        next_hot(st)
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
        if best < 0 or best == c.access or not room_to_move(st, c, best):
            continue
        now = chance(st, c.start + c.access, is_pair(st, c.start, c.count, c.access))
        if share * 2.0 > now:
            continue
        unfile(st, conjunction)
        begin_filing(st, conjunction, arrange(st, conjunction))
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
        next_hot(st)


@njit(cache=True, nogil=True)
def room_to_move(st, c, access):
    need = access_filings(st, c.start, c.count, access)
    return (
        st.control[USED + POOL_FILINGS] + block_size(need) <= len(st.filings)
        and need + 2 <= len(st.lists) - st.control[C_LISTS]
        and 2 * (st.control[HASHED_LISTS] + need) <= len(st.table)
        and st.control[USED + POOL_POSTS] + 4 * need <= len(st.post_conjunction)
        and st.control[USED + POOL_ATOMS] + c.count <= len(st.atoms)
    )


@njit(cache=True, nogil=True)
def complete_access(st, conjunction):
    """Make the filings that are still to be made; False when there was no room."""
    c = st.conjunctions[conjunction]
    while c.filed < c.filings:
        if not file_one(st, conjunction, np.int64(c.filed)):
            return False
        c.filed += 1
    return True


@njit(cache=True, nogil=True)
def next_hot(st):
    st.control[HOT] -= 1
    st.control[CURSOR] = -1
