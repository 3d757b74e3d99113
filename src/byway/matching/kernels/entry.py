"""The kernels that Python calls. Each takes the directory of an index first (see `store`)."""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from byway.matching.kernels import filing, lists, match, pools, relations, updates
from byway.matching.kernels.caching import kernel
from byway.matching.kernels.store import as_store, pointer, store_at
from byway.matching.layout import HOT, PENDING


@kernel
def prepare(directory):
    """Set up the arrays of a new index."""
    pools.clear_free(as_store(directory))


@kernel
def rebuild_table(directory):
    """Fill the list table again after it has grown."""
    lists.rebuild_table(as_store(directory))


@kernel
def rebuild_keys(directory):
    """Fill the key table again after it has grown."""
    updates.rebuild_keys(as_store(directory))


@kernel
def find_slot(directory, key):
    """The slot of a key, or -1 if it is not stored."""
    return updates.find_slot(as_store(directory), key)


@kernel
def open_key(directory, key, link):
    """A slot for a new key; -1 when it is there already."""
    return updates.open_key(as_store(directory), key, link)


@kernel
def insert(directory, slot, codes, nums, count, set_nums, set_res, ordinal, several):
    """Store one conjunction; (its number, 1 if filing waits for room, atom to go on with)."""
    st = as_store(directory)
    number = updates.insert(st, slot, codes, nums, count, set_nums, set_res, ordinal, several)
    unfinished, atom = updates.complete(st, number, 0)
    return number, unfinished, atom


@kernel
def complete(directory, number, atom):
    """Go on filing a conjunction after the pools have grown."""
    return updates.complete(as_store(directory), number, atom)


@kernel
def remove(directory, key):
    """Remove a key with its conjunctions; its slot, or -1 if it was not stored."""
    return updates.remove(as_store(directory), key)


@kernel
def relate_all(directory, number, atom, budget):
    """File stored conjunctions in the relation sets, from one on; where to go on."""
    return filing.relate_all(as_store(directory), number, atom, budget)


@kernel
def rechoose(directory, budget):
    """Look again at the access predicates of a wasteful list."""
    updates.rechoose(as_store(directory), budget)


@kernel
def resume(directory):
    """Go on with the conjunction that `rechoose` left pending."""
    st = as_store(directory)
    if not filing.complete_access(st, st.control[PENDING]):
        return
    st.control[PENDING] = -1


@kernel
def match_keys(directory, parcel, answer):
    """Matching keys of one publication into the room of `answer`; how many, and whether the index
    wants to adapt. The arguments are those of `match_link_mask`."""
    st = store_at(directory)
    codes, nums, texts, marks = unpacked(parcel)
    room = carray(pointer(answer), 4, np.int64)
    out = carray(pointer(room[2]), room[3], np.int64)
    return match.match_keys(st, codes, nums, texts, marks, out), st.control[HOT]


@kernel
def match_keys_batch(directory, first, starts, codes, nums, texts, marks, out, offsets):
    """Matching keys of many; see `match.match_keys_batch`."""
    return match.match_keys_batch(
        as_store(directory), first, starts, codes, nums, texts, marks, out, offsets
    )


@kernel
def match_link_mask(directory, parcel, answer, exclude):
    """Links and local keys of one publication; see `match.match_link_mask`. The commonest calls
    take addresses only: to look at an array costs Python more than a match may take.

    `parcel`: a publication as `encoding.Parcel` holds it. `answer`: addresses and lengths of the
    mask and of the room for keys. Also returns whether the index wants to adapt, and the first word
    of the mask.
    """
    st = store_at(directory)
    codes, nums, texts, marks = unpacked(parcel)
    room = carray(pointer(answer), 4, np.int64)
    mask = carray(pointer(room[0]), room[1], np.uint64)
    out = carray(pointer(room[2]), room[3], np.int64)
    local, matched = match.match_link_mask(st, codes, nums, texts, marks, exclude, mask, out)
    return local, matched, st.control[HOT], mask[0]


@kernel
def unpacked(parcel):
    """The arrays that a parcel lists: codes, numbers, texts, marks."""
    given = carray(pointer(parcel), 6, np.int64)
    count = given[0]
    return (
        carray(pointer(given[1]), count, np.int64),
        carray(pointer(given[2]), count, np.float64),
        carray(pointer(given[3]), given[4], np.uint8),
        carray(pointer(given[5]), count + 1, np.int64),
    )


@kernel
def relate_query(directory, mode, codes, nums, count, set_nums, set_res, boxes):
    """Conjunctions in a relation to a query; see `relations.relate_query`."""
    return relations.relate_query(
        as_store(directory), mode, codes, nums, count, set_nums, set_res, boxes
    )
