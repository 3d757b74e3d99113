"""The invariants of an index's arrays, which hold whatever was added and removed."""

import numpy as np

from byway.matching import MatchIndex
from byway.matching import layout as lay


def check(index: MatchIndex) -> None:
    """Assert that postings and filings know each other, leaves are sorted, and counts add up."""
    arrays, control = index._arrays, index._control
    conjunctions = arrays["conjunctions"][: control[lay.C_CONJUNCTIONS]]
    live = np.flatnonzero(conjunctions["slot"] >= 0)
    assert len(live) == control[lay.LIVE_CONJUNCTIONS]
    slots = arrays["slots"][: control[lay.C_SLOTS]]
    assert np.count_nonzero(slots["count"] >= 0) == control[lay.LIVE_KEYS]
    lists = arrays["lists"][: control[lay.C_LISTS]]
    free = _chain(lists, "next", control[lay.FREE_LIST])
    ordered_entries: dict[tuple[int, int], int] = {}
    postings = 0
    for number, one in enumerate(lists):
        if one["field"] == -2:
            assert number in free
            continue
        assert number not in free
        assert 0 <= one["size"] <= one["room"]
        entries = arrays["post_conjunction"][one["start"] : one["start"] + one["size"]]
        assert np.isin(entries, live).all()
        tag = int(one["tag"])
        if lay.T_GT <= tag <= lay.T_REL_LOOSE:
            place = (int(one["field"]), tag)
            ordered_entries[place] = ordered_entries.get(place, 0) + len(entries)
        else:
            _check_filings(arrays, number, one)
            postings += len(entries)
    _check_ordered(arrays, lists, ordered_entries)
    by_bound = sum(n for (_, tag), n in ordered_entries.items() if tag in (lay.T_GT, lay.T_LT))
    assert conjunctions["filings"][live].sum() == postings + by_bound
    if control[lay.RELATIONS]:
        related = sum(n for (_, tag), n in ordered_entries.items() if tag >= lay.FIRST_RELATION)
        assert related == arrays["presence"][:, 1].sum()
    assert (arrays["where"] == -1).all()


def _chain(records, field, head):
    members = set()
    while head >= 0:
        assert head not in members
        members.add(int(head))
        head = records[head][field]
    return members


def _check_filings(arrays, number, one):
    for position in range(one["size"]):
        conjunction = arrays["conjunctions"][arrays["post_conjunction"][one["start"] + position]]
        mark = int(arrays["post_filing"][one["start"] + position])
        k = mark & lay.FILING_MASK if mark < 0 or not mark & lay.GUARD else 0
        filing = arrays["filings"][conjunction["filing"] + k]
        assert (filing["list"], filing["pos"]) == (number, position)


def _check_ordered(arrays, lists, entries):
    for place, one in enumerate(arrays["ordered"]):
        field, tag = place // lay.ORDERED, place % lay.ORDERED + lay.T_GT
        assert one["entries"] == entries.get((field, tag), 0)
        is_text = tag in (lay.T_REL_EQ, lay.T_REL_LOW) and field % lay.KINDS == lay.STRING
        previous = None
        for fence in arrays["fences"][one["start"] : one["start"] + one["size"]]:
            leaf = lists[fence["list"]]
            assert leaf["size"] > 0
            for p in range(leaf["start"], leaf["start"] + leaf["size"]):
                key = (int(arrays["post_key"][p]), int(arrays["post_conjunction"][p]))
                assert is_text or previous is None or previous < key
                previous = key
