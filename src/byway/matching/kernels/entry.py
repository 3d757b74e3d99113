"""The kernels that Python calls. Each takes the directory of an index first (see `store`)."""

from __future__ import annotations

from numba import njit

from byway.matching.kernels import filing, lists, match, pools, relations, updates
from byway.matching.kernels.store import as_store
from byway.matching.layout import PENDING


@njit(cache=True, nogil=True)
def prepare(directory):
    """Set up the arrays of a new index."""
    pools.clear_free(as_store(directory))


@njit(cache=True, nogil=True)
def rebuild_table(directory):
    """After the list table has grown."""
    lists.rebuild_table(as_store(directory))


@njit(cache=True, nogil=True)
def rebuild_keys(directory):
    """After the key table has grown."""
    updates.rebuild_keys(as_store(directory))


@njit(cache=True, nogil=True)
def find_slot(directory, key):
    """The slot of a key, or -1."""
    return updates.find_slot(as_store(directory), key)


@njit(cache=True, nogil=True)
def open_key(directory, key, link):
    """A slot for a new key; -1 when it is there already."""
    return updates.open_key(as_store(directory), key, link)


@njit(cache=True, nogil=True)
def insert(directory, slot, codes, nums, count, set_nums, set_res, ordinal, several):
    """Store one conjunction; (its number, 1 if filing waits for room, atom to go on with)."""
    st = as_store(directory)
    number = updates.insert(st, slot, codes, nums, count, set_nums, set_res, ordinal, several)
    unfinished, atom = updates.complete(st, number, 0)
    return number, unfinished, atom


@njit(cache=True, nogil=True)
def complete(directory, number, atom):
    """Go on filing a conjunction after the pools have grown."""
    return updates.complete(as_store(directory), number, atom)


@njit(cache=True, nogil=True)
def remove(directory, key):
    """Remove a key; its slot, or -1."""
    return updates.remove(as_store(directory), key)


@njit(cache=True, nogil=True)
def relate_all(directory, number, atom, budget):
    """File stored conjunctions in the relation sets, from one on; where to go on."""
    return filing.relate_all(as_store(directory), number, atom, budget)


@njit(cache=True, nogil=True)
def rechoose(directory, budget):
    """Look again at the access predicates of a wasteful list."""
    updates.rechoose(as_store(directory), budget)


@njit(cache=True, nogil=True)
def resume(directory):
    """Go on with the conjunction that `rechoose` left pending."""
    st = as_store(directory)
    if not filing.complete_access(st, st.control[PENDING]):
        return
    st.control[PENDING] = -1


@njit(cache=True, nogil=True)
def match_keys(directory, count, codes, nums, texts, marks, out):
    """Matching keys of one publication (the first `count` codes) into `out`; how many."""
    return match.match_keys(as_store(directory), codes[:count], nums[:count], texts, marks, out)


@njit(cache=True, nogil=True)
def match_keys_batch(directory, first, starts, codes, nums, texts, marks, out, offsets):
    """Matching keys of many; see `match.match_keys_batch`."""
    return match.match_keys_batch(
        as_store(directory), first, starts, codes, nums, texts, marks, out, offsets
    )


@njit(cache=True, nogil=True)
def match_link_mask(directory, count, codes, nums, texts, marks, exclude, mask, out):
    """Links and local keys of one publication; see `match.match_link_mask`."""
    return match.match_link_mask(
        as_store(directory), codes[:count], nums[:count], texts, marks, exclude, mask, out
    )


@njit(cache=True, nogil=True)
def relate_query(directory, mode, codes, nums, count, set_nums, set_res, boxes):
    """Conjunctions in a relation to a query; see `relations.relate_query`."""
    return relations.relate_query(
        as_store(directory), mode, codes, nums, count, set_nums, set_res, boxes
    )
