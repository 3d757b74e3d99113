"""Selectivity, as observed: how often publications carry an attribute, and which share of its
recent values satisfies an atom. It decides which atom gives access to a conjunction.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.lists import list_hash
from byway.matching.kernels.store import array_at, give_memory, take_memory
from byway.matching.layout import (
    ABSENT,
    ANY,
    C_ATTRIBUTES,
    C_SAMPLED,
    CONTAINS,
    EQ,
    EXISTS,
    FREE_SAMPLES,
    GE,
    IN,
    KINDS,
    LE,
    LIVE_CONJUNCTIONS,
    NAN,
    NE,
    POOL_ATOMS,
    PREFIX,
    PRESENCE_TOTAL,
    PUBLICATIONS,
    SAMPLES,
    SUFFIX,
    USED,
)

COMMON = 4  # of the samples: a value that stands there more often is a common one
REPEATS_STEP = 1.0 / 64.0
EQUAL_WEIGHT = 48.0
RANGE_WEIGHT = 4.0
HALVE_AT = 4096
SAMPLE_ALL = 512  # publications; later every eighth is sampled


@kernel
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
        return is_member(st, atom, num, res)
    return True


@kernel
def is_member(st, atom, num, res):
    """Whether the set of an IN atom has a number; a binary search."""
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


@kernel
def is_first_of_attribute(st, c, i):
    """Whether atom i is the first of a conjunction about its attribute."""
    return i == 0 or st.atoms[c.start + i - 1].attr != st.atoms[c.start + i].attr


@kernel
def is_pair(st, start, count, i):
    """Whether atom i is a lower bound and the next one the upper bound of the same attribute."""
    return (
        st.atoms[start + i].op == GE
        and i + 1 < count
        and st.atoms[start + i + 1].op == LE
        and st.atoms[start + i + 1].attr == st.atoms[start + i].attr
    )


@kernel
def selectivity_of(st, index, count_pair):
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


@kernel
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
        row = st.control[FREE_SAMPLES]
        if row >= 0:
            st.control[FREE_SAMPLES] = np.int64(st.samples[row, 0])
        elif st.control[C_SAMPLED] < len(st.samples):
            row = st.control[C_SAMPLED]
            st.control[C_SAMPLED] += 1
        else:
            return
        f.samples = row
    place = np.int64(f.seen) % SAMPLES
    if not observed and f.seen >= SAMPLES:
        place = np.int64(list_hash(0, 0, np.int64(f.seen), 0) % np.uint64(f.seen))
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


@kernel
def choose_access(st, conjunction):
    """(best atom, its chance); -1 when no atom gives access."""
    c = st.conjunctions[conjunction]
    best, best_chance = -1, 1e300
    for i in range(c.count):
        atom = st.atoms[c.start + i]
        if atom.op == ABSENT:
            continue
        share = selectivity_of(st, c.start + i, is_pair(st, c.start, c.count, i))
        if share < best_chance:
            best, best_chance = i, share
    return best, best_chance


@kernel
def sort_atoms(st, conjunction):
    """Sort a conjunction's atoms, attribute by attribute, most selective first, ABSENT last.

    Returns the access atom: the first, or -1. The pool has room for a copy behind its end.
    """
    c = st.conjunctions[conjunction]
    count = np.int64(c.count)
    if count == 0:
        return -1
    memory = take_memory(8 * count)
    shares = array_at(memory, count, np.float64)  # of the attribute that starts there, else -1
    groups = 0
    for i in range(count):
        shares[i] = -1.0
        if is_first_of_attribute(st, c, i):
            groups += 1
            shares[i] = 2.0
            if st.atoms[c.start + i].op != ABSENT:
                shares[i] = selectivity_of(st, c.start + i, is_pair(st, c.start, count, i))
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
    give_memory(memory)
    for i in range(count):
        st.atoms[c.start + i] = st.atoms[spare + i]
    return 0 if st.atoms[c.start].op != ABSENT else -1


@kernel
def kind_at(codes, i):
    """The kind of the i-th value of a publication."""
    return (codes[i] >> 32) & 0xFF


@kernel
def observe(st, codes, nums):
    """Take note of which attributes and values publications carry."""
    control = st.control
    control[PUBLICATIONS] += 1
    if control[PUBLICATIONS] > SAMPLE_ALL and control[PUBLICATIONS] & 7:
        return
    control[PRESENCE_TOTAL] += 1
    for i in range(len(codes)):
        name = codes[i] & 0xFFFFFFFF
        if name >= len(st.local) or st.local[name] < 0:
            continue
        attribute = st.local[name]
        st.presence[attribute, 0] += 1
        kind = kind_at(codes, i)
        if kind == NAN:
            continue
        sample(st, np.int64(attribute) * KINDS + kind, nums[i], True)
    if control[PRESENCE_TOTAL] >= HALVE_AT:
        control[PRESENCE_TOTAL] >>= 1
        for a in range(control[C_ATTRIBUTES]):
            st.presence[a, 0] >>= 1
