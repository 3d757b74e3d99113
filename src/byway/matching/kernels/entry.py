"""The kernels that Python calls. Each takes the address of an index's directory first (`store`),
and addresses of whatever else it reads or writes: to look at an array costs Python more than a
match may take.
"""

from __future__ import annotations

import numpy as np
from numba.np.numpy_support import from_dtype

from byway.matching.kernels import (
    filing,
    lists,
    match,
    plain_bodies,
    pools,
    relations,
    tally,
    updates,
    words,
)
from byway.matching.kernels.decorator import ENTRIES, entry_kernel, kernel
from byway.matching.kernels.store import array_at, store_at
from byway.matching.layout import BOX, HOT, NAME, PENDING, WORD

__all__ = ["ENTRIES"]

_BOX = from_dtype(BOX)
_WORD = from_dtype(WORD)
_NAME = from_dtype(NAME)


@entry_kernel
def prepare(directory):
    """Set up the arrays of a new index."""
    pools.clear_free(store_at(directory))


@entry_kernel
def rebuild_table(directory):
    """Fill the list table again after it has grown."""
    lists.rebuild_table(store_at(directory))


@entry_kernel
def rebuild_keys(directory):
    """Fill the key table again after it has grown."""
    updates.rebuild_keys(store_at(directory))


@entry_kernel
def find_slot(directory, key):
    """The slot of a key, or -1 if it is not stored."""
    return updates.find_slot(store_at(directory), key)


@entry_kernel
def open_key(directory, key, link):
    """A slot for a new key; -1 when it is there already."""
    return updates.open_key(store_at(directory), key, link)


@entry_kernel
def insert(directory, slot, atoms, ordinal, several):
    """Store one conjunction, whose `encoding.Atoms` list is given; (its number, 1 if filing waits
    for room, atom to go on with)."""
    st = store_at(directory)
    count, codes, nums, set_nums, set_res = unpacked_atoms(atoms)
    number = updates.insert(st, slot, codes, nums, count, set_nums, set_res, ordinal, several)
    unfinished, atom = updates.complete(st, number, 0)
    return np.int64(number), np.int64(unfinished), np.int64(atom)


@entry_kernel
def complete(directory, number, atom):
    """Go on filing a conjunction after the pools have grown."""
    return updates.complete(store_at(directory), number, atom)


@entry_kernel
def remove(directory, key):
    """Remove a key with its conjunctions; see `updates.remove`. Also returns how many bytes of the
    arrays are in use, and how many were."""
    st = store_at(directory)
    slot, unused = updates.remove(st, key)
    live, used = updates.bytes_held(st)
    return np.int64(slot), np.int64(unused), np.int64(live), np.int64(used)


@entry_kernel
def release_words(directory):
    """Give up all strings of an index that is no longer there."""
    updates.release_words(store_at(directory))


@entry_kernel
def forget_attribute(directory, attribute):
    """Clear what an unused attribute has."""
    updates.forget_attribute(store_at(directory), attribute)


@entry_kernel
def relate_all(directory, number, atom, budget):
    """File stored conjunctions in the relation sets, from one on; where to go on."""
    return filing.relate_all(store_at(directory), number, atom, budget)


@entry_kernel
def rechoose(directory, budget):
    """Look again at the access predicates of a wasteful list."""
    updates.rechoose(store_at(directory), budget)


@entry_kernel
def resume(directory):
    """Go on with the conjunction that `rechoose` left pending."""
    st = store_at(directory)
    if not filing.complete_access(st, st.control[PENDING]):
        return
    st.control[PENDING] = -1


@entry_kernel
def match_keys(directory, parcel, answer):
    """Matching keys of one publication into the room of `answer`; how many, and whether the index
    wants to adapt. The arguments are those of `match_link_mask`."""
    st = store_at(directory)
    codes, nums, texts, marks = unpacked(parcel)
    out = listed(answer, 1, np.int64)
    return match.match_keys(st, codes, nums, texts, marks, out), st.control[HOT]


@entry_kernel
def match_keys_batch(directory, first, arrays):
    """Matching keys of many; see `match.match_keys_batch`. `arrays`: addresses and lengths of
    starts, codes, numbers, texts, marks, room for keys, offsets."""
    return match.match_keys_batch(
        store_at(directory), first, listed(arrays, 0, np.int64), listed(arrays, 1, np.int64),
        listed(arrays, 2, np.float64), listed(arrays, 3, np.uint8), listed(arrays, 4, np.int64),
        listed(arrays, 5, np.int64), listed(arrays, 6, np.int64),
    )  # fmt: skip


@entry_kernel
def match_counts(directory, arrays):
    """How many filters match each of many; see `tally.match_counts`. `arrays`: addresses and
    lengths of starts, codes, numbers, texts, marks, counts by publication, counts by key."""
    tally.match_counts(
        store_at(directory), listed(arrays, 0, np.int64), listed(arrays, 1, np.int64),
        listed(arrays, 2, np.float64), listed(arrays, 3, np.uint8), listed(arrays, 4, np.int64),
        listed(arrays, 5, np.int64), listed(arrays, 6, np.int64),
    )  # fmt: skip


@entry_kernel
def match_link_mask(directory, parcel, answer, exclude):
    """Links and local keys of one publication; see `match.match_link_mask`.

    `parcel`: a publication as `encoding.Parcel` holds it. `answer`: addresses and lengths of the
    masks and of the room for keys. Also returns whether the index wants to adapt, and the first
    word of each mask.
    """
    st = store_at(directory)
    codes, nums, texts, marks = unpacked(parcel)
    mask = listed(answer, 0, np.uint64)
    out = listed(answer, 1, np.int64)
    local, matched = match.match_link_mask(st, codes, nums, texts, marks, exclude, mask, out)
    return local, matched, st.control[HOT], mask[0], mask[len(mask) >> 1]


@entry_kernel
def match_body(directory, body, body_size, answer, exclude):
    """`match_link_mask` for a publication as it is on the wire; see `plain_bodies.read_body`.

    `answer` also lists the room for codes, numbers, texts and marks. Local keys are -1 if the body
    is not plain. Returns the first local key besides: often there is no other.
    """
    st = store_at(directory)
    codes, nums = listed(answer, 2, np.int64), listed(answer, 3, np.float64)
    texts, marks = listed(answer, 4, np.uint8), listed(answer, 5, np.int64)
    mask, out = listed(answer, 0, np.uint64), listed(answer, 1, np.int64)
    count = plain_bodies.read_body(
        st, array_at(body, body_size, np.uint8), codes, nums, texts, marks
    )
    if count < 0:
        return count, np.int64(0), np.int64(0), np.uint64(0), np.uint64(0), np.int64(0)
    local, matched = match.match_link_mask(
        st, codes[:count], nums[:count], texts, marks, exclude, mask, out
    )
    several = mask[len(mask) >> 1]
    return np.int64(local), np.int64(matched), st.control[HOT], mask[0], several, out[0]


@entry_kernel
def file_string(vocabulary, number):
    """Let a string of a vocabulary be found by its bytes. `vocabulary`: where its directory is."""
    words.file_word(listed(vocabulary, 3, np.int64), listed(vocabulary, 0, _WORD), number)


@entry_kernel
def drop_string(vocabulary, number):
    """Let a string be found no more; it is still there."""
    words.drop_word(listed(vocabulary, 3, np.int64), listed(vocabulary, 0, _WORD), number)


@entry_kernel
def file_name(vocabulary, number):
    """Let an attribute name of a vocabulary be found by its bytes."""
    words.file_word(listed(vocabulary, 5, np.int64), listed(vocabulary, 4, _NAME), number)


@entry_kernel
def drop_name(vocabulary, number):
    """Let an attribute name be found no more; it is still there."""
    words.drop_word(listed(vocabulary, 5, np.int64), listed(vocabulary, 4, _NAME), number)


@entry_kernel
def move_words(table, rows, other, other_rows):
    """Enter the words of one table into another, which is empty: where each is, and its rows."""
    words.move_words(array_at(table, rows, np.int64), array_at(other, other_rows, np.int64))


@entry_kernel
def relate_query(directory, mode, atoms, boxes, rows):
    """Conjunctions in a relation to a query, whose `encoding.Atoms` list is given; how many.
    `boxes` and `rows`: where there is room for how many boxes. See `relations.relate_query`."""
    count, codes, nums, set_nums, set_res = unpacked_atoms(atoms)
    return relations.relate_query(
        store_at(directory), mode, codes, nums, count, set_nums, set_res,
        array_at(boxes, rows, _BOX),
    )  # fmt: skip


@kernel(inline="always")
def listed(arrays, index, dtype):
    """The array that stands at a position of a list of addresses and lengths."""
    given = array_at(arrays, 2 * index + 2, np.int64)
    return array_at(given[2 * index], given[2 * index + 1], dtype)


@kernel(inline="always")
def unpacked(parcel):
    """The arrays that a parcel lists: codes, numbers, texts, marks."""
    given = array_at(parcel, 6, np.int64)
    count = given[0]
    return (
        array_at(given[1], count, np.int64),
        array_at(given[2], count, np.float64),
        array_at(given[3], given[4], np.uint8),
        array_at(given[5], count + 1, np.int64),
    )


@kernel(inline="always")
def unpacked_atoms(atoms):
    """How many atoms a list has, and its arrays: codes, numbers, numbers and lost roundings of set
    members."""
    given = array_at(atoms, 6, np.int64)
    count, members = given[0], given[3]
    return (
        count,
        array_at(given[1], count, np.int64),
        array_at(given[2], count, np.float64),
        array_at(given[4], members, np.float64),
        array_at(given[5], members, np.int64),
    )
