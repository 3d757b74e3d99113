"""Filing: in which lists a conjunction stands, under its access atom and for relation queries."""

from __future__ import annotations

import math

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.lists import (
    append_posting,
    drop_list,
    find_list,
    float_bits,
    new_list,
    remove_posting,
)
from byway.matching.kernels.ordered import ordered_insert, ordered_remove
from byway.matching.kernels.pools import free_block, take_block
from byway.matching.kernels.selectivity import is_first_of_attribute, is_pair
from byway.matching.kernels.texts import gram_at, text_at, text_hash
from byway.matching.layout import (
    ABSENT,
    ALWAYS_LIST,
    ANY,
    C_CONJUNCTIONS,
    CONTAINS,
    EQ,
    EVERY,
    EXISTS,
    EXT_GRAM,
    EXT_GRID,
    EXT_PREFIX,
    EXT_SUFFIX,
    FILING_MASK,
    GE,
    GRID_LEVELS,
    GRID_LOWEST,
    GUARD,
    IN,
    KINDS,
    LE,
    LONE,
    NE,
    POOL_FILINGS,
    PREFIX,
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
)


@kernel
def binary_exponent(num):
    """The exponent of a positive number, as its bits tell it: exact, so that a grid level is the
    same on every machine."""
    return ((float_bits(num) >> 52) & 0x7FF) - 1023


@kernel
def cell_width(level):
    """Four to the power that a level of the grid stands for."""
    return np.int64((2 * (level + GRID_LOWEST) + 1023) << 52).view(np.float64)


@kernel
def grid_level(low, high):
    """Level whose cells (4**level wide) the range touches at most five of, or -1: too wide."""
    width = high - low
    if not width < 1e300:
        return -1
    level = 0
    if width > 0.0:
        level = (binary_exponent(width) >> 1) - GRID_LOWEST
    if level < 0:
        level = 0
    if level >= GRID_LEVELS:
        return -1
    cell = cell_width(level)
    if abs(low / cell) > 4.5e15 or abs(high / cell) > 4.5e15:
        return -1  # cells narrower than the floats there
    return level


@kernel
def grid_cell(num, level):
    """The cell of a level of the grid in which a number lies."""
    return math.floor(num / cell_width(level))


@kernel
def rarest_gram(st, field, text):
    """The part of up to three bytes whose list is shortest."""
    width = min(3, len(text))
    best, least = gram_at(text, 0, width), 1 << 60
    for at in range(len(text) - width + 1):
        gram = gram_at(text, at, width)
        list_id = find_list(st, field, T_GRAM, gram, 0)
        size = 0 if list_id < 0 else np.int64(st.lists[list_id].size)
        if size < least:
            best, least = gram, size
    return best


@kernel
def count_ext(st, field, column, change):
    """Keep count of grid levels, prefix lengths … in use, and their bit masks."""
    row = st.fields[field].ext
    st.ext[row, column] += change
    bit = np.uint64(1) << np.uint64(column & 63)
    if st.ext[row, column] > 0:
        st.masks[row, column >> 6] |= bit
    else:
        st.masks[row, column >> 6] &= ~bit


@kernel
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


@kernel
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


@kernel
def field_of(atom):
    """The field that an atom is filed under: its attribute and kind, or EVERY."""
    if atom.op == EXISTS or atom.op == ABSENT:
        return np.int64(atom.attr) * KINDS + EVERY
    return np.int64(atom.attr) * KINDS + atom.kind


@kernel
def push_hashed(st, field, tag, payload, res, conjunction, mark):
    """Append a posting to the list with a hash key, which is made if need be; the list, and the
    position or -1."""
    list_id = find_list(st, field, tag, payload, res)
    if list_id < 0:
        list_id = new_list(st, field, tag, payload, res)
        if tag == T_EQ:
            st.fields[field].points += 1
        elif tag == T_ANY:
            st.fields[field].any = list_id
        elif tag == T_OTHER:
            st.fields[field].other = list_id
    return np.int64(list_id), append_posting(st, list_id, conjunction, mark)


@kernel
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


@kernel
def file_one(st, conjunction, k):
    """Make filing k of a conjunction under its access atom; False when there was no room."""
    c = st.conjunctions[conjunction]
    mark = mark_of(st, c, k)
    if c.access < 0:
        list_id = st.control[ALWAYS_LIST]
        if list_id < 0:
            list_id = new_list(st, -1, T_ALWAYS, 0, 0)
            st.control[ALWAYS_LIST] = list_id
        pos = append_posting(st, list_id, conjunction, mark)
        return note_filing(st, c, k, list_id, pos)
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
        payload, res = float_bits(m.num), np.int64(m.res)
    elif tag == T_EQ or tag == T_NE:
        payload, res = float_bits(atom.num), np.int64(atom.res)
    elif tag == T_GRID:
        level = grid_level(atom.num, st.atoms[c.start + c.access + 1].num)
        payload, res = float_bits(grid_cell(atom.num, level) + k), np.int64(level)
        column = EXT_GRID + level
    elif tag == T_PREFIX or tag == T_SUFFIX or tag == T_GRAM:
        text = text_at(st, np.int64(atom.num))
        end = len(text)
        length = min(end, TEXT_KEY_MAX)
        if tag == T_PREFIX:
            payload, column = text_hash(text, 0, length, False), EXT_PREFIX + length
        elif tag == T_SUFFIX:
            payload, column = text_hash(text, end - length, end, True), EXT_SUFFIX + length
        else:
            payload, column = rarest_gram(st, field, text), EXT_GRAM + min(end, 3)
        res = length if tag != T_GRAM else np.int64(0)
    list_id, pos = push_hashed(st, field, tag, payload, res, conjunction, mark)
    if not note_filing(st, c, k, list_id, pos):
        return False
    if column >= 0:
        count_ext(st, field, column, 1)
    st.fields[field].access += 1
    return True


@kernel
def note_filing(st, c, k, list_id, pos):
    """Write down where filing k of a conjunction stands; False when there was no room for it."""
    if pos < 0:
        return False
    place = st.filings[c.filing + k]
    place.list = list_id
    place.pos = pos
    return True


@kernel
def unfile_one(st, conjunction, k):
    """Take filing k of a conjunction out of its list; an emptied list goes."""
    c = st.conjunctions[conjunction]
    place = st.filings[c.filing + k]
    if c.access < 0:
        remove_posting(st, st.control[ALWAYS_LIST], place.pos)
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
    remove_posting(st, list_id, place.pos)
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


@kernel
def begin_filing(st, conjunction, access):
    """Choose the access atom of a conjunction, and reserve its filings; `complete_access` makes
    them."""
    c = st.conjunctions[conjunction]
    c.access = access
    c.filings = access_filings(st, c.start, c.count, access)
    c.filing = take_block(st, POOL_FILINGS, np.int64(c.filings))
    c.filed = 0
    by_part = access >= 0 and st.atoms[c.start + access].op == CONTAINS
    c.stamped = 1 if by_part or c.several else 0


@kernel
def complete_access(st, conjunction):
    """Make the filings that are still to be made; False when there was no room."""
    c = st.conjunctions[conjunction]
    while c.filed < c.filings:
        if not file_one(st, conjunction, np.int64(c.filed)):
            return False
        c.filed += 1
    return True


@kernel
def unfile(st, conjunction):
    """Take a conjunction out of all lists of its access atom."""
    c = st.conjunctions[conjunction]
    for k in range(c.filings):
        unfile_one(st, conjunction, k)
    free_block(st, POOL_FILINGS, c.filing, np.int64(c.filings))


@kernel
def relation_tag(atom):
    """Tag of the relation set that holds a constraint with this first atom."""
    op = atom.op
    if op == EQ:
        return T_REL_EQ
    if op == GE or op == PREFIX or op == TEXT_GE or op == TEXT_GT:
        return T_REL_LOW
    if op == LE:
        return T_REL_HIGH
    return T_REL_LOOSE


@kernel
def unrelate(st, conjunction):
    """Take all constraints of a conjunction out of the relation sets."""
    c = st.conjunctions[conjunction]
    for i in range(c.count):
        if is_first_of_attribute(st, c, i):
            atom = st.atoms[c.start + i]
            ordered_remove(st, field_of(atom), relation_tag(atom), atom.num, conjunction)


@kernel
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


@kernel
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
