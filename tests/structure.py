"""The invariants of an index's arrays, which hold whatever was added and removed."""

from collections import Counter
from collections.abc import Iterator
from ctypes import string_at
from typing import Any

import numpy as np

from byway.matching import MatchIndex, Vocabulary
from byway.matching import layout as lay
from byway.matching.native import KERNELS


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
    _check_live(index, lists)


def check_words(vocabulary: Vocabulary, *indexes: MatchIndex) -> None:
    """Assert that a vocabulary counts the uses of these indexes, and holds what they use."""
    uses: Counter[int] = Counter()
    for index in indexes:
        for key in index.keys().tolist():
            uses.update(_words_of(index, key))
    words = vocabulary._words
    assert {number: int(words[number]["uses"]) for number in uses} == uses
    assert sum(words["uses"][: len(vocabulary._texts)]) == uses.total()
    waiting = set(vocabulary._unused[: vocabulary._unused_count[0]].tolist())
    assert set(np.flatnonzero(words["listed"]).tolist()) == waiting
    for text, number in vocabulary.strings.items():
        assert vocabulary._texts[number] == text
        assert words[number]["uses"] > 0 or number in waiting
        assert string_at(int(words[number]["address"]), words[number]["length"]) == text.encode()
    assert sum(text is not None for text in vocabulary._texts) == len(vocabulary.strings)
    for table, known in (
        (vocabulary._string_table, vocabulary.strings),
        (vocabulary._name_table, vocabulary.names),
    ):
        filed = table[table != 0]
        plain = [number for word, number in known.items() if word.isascii()]
        assert sorted(((filed & 0xFFFFFFFF) - 1).tolist()) == sorted(plain)
    for name, number in vocabulary.names.items():
        record = vocabulary._names[number]
        assert string_at(int(record["address"]), record["length"]) == name.encode()
        assert record["reads_text"] == (number in vocabulary.text_names)
    assert vocabulary.names.keys() == {n for index in indexes for n in index._arrays.attributes}
    for index in indexes:
        local = index._arrays["local"]
        for name, attribute in index._arrays.attributes.items():
            assert local[vocabulary.names[name]] == attribute
            assert index._arrays["presence"][attribute, 1] > 0
        assert np.count_nonzero(local >= 0) == len(index._arrays.attributes)


def _words_of(index: MatchIndex, key: int) -> Iterator[int]:
    arrays = index._arrays
    number = arrays["slots"][KERNELS.find_slot(arrays.address, key)]["head"]
    while number >= 0:
        record = arrays["conjunctions"][number]
        for atom in arrays["atoms"][record["start"] : record["start"] + record["count"]]:
            if atom["kind"] == lay.STRING and atom["op"] == lay.IN:
                start = int(atom["num"])
                yield from arrays["sets"]["num"][start : start + atom["res"]].astype(int).tolist()
            elif atom["kind"] == lay.STRING and atom["op"] != lay.ANY:
                yield int(atom["num"])
        number = record["next"]


def _check_live(index: MatchIndex, lists: Any) -> None:
    arrays, control = index._arrays, index._control
    live = lists[lists["field"] != -2]
    assert len(live) == control[lay.LIVE_LISTS]
    assert live["room"].sum() == control[lay.LIVE + lay.POOL_POSTS]
    assert arrays["ordered"]["room"].sum() == control[lay.LIVE + lay.POOL_FENCES]
    assert len(arrays.attributes) == control[lay.LIVE_ATTRIBUTES]
    assert np.count_nonzero(arrays["fields"]["ext"] >= 0) == control[lay.LIVE_EXTS]
    for pool in range(lay.POOLS):
        assert 0 <= control[lay.LIVE + pool] <= control[lay.USED + pool]


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
            assert fence["key"] == arrays["post_key"][leaf["start"]]
            assert fence["conjunction"] == arrays["post_conjunction"][leaf["start"]]
            for p in range(leaf["start"], leaf["start"] + leaf["size"]):
                key = (int(arrays["post_key"][p]), int(arrays["post_conjunction"][p]))
                assert is_text or previous is None or previous < key
                previous = key
