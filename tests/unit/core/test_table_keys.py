"""Keys of entries that have gone: they are given again, and those at the end are cut off."""

import random

import pytest

from byway.core.origin import Origin
from byway.core.tables import Sent, Table, with_link
from byway.matching.vocabulary import Vocabulary
from byway.model import parse
from byway.model.messages import EntryId

FILTER = parse("p > 0")
LINK = Origin("B")
AMOUNT = 5_000  # not a multiple of the keys in a block


def id_of(number):
    return EntryId("c", str(number), 1)


@pytest.mark.parametrize("order", ["first to last", "last to first", "mixed"])
def test_room_behind_the_last_key_is_given_back(order):
    """Whatever is removed last, and however many there were."""
    table, stays = Table(), 3
    entries = [table.add(id_of(n), FILTER, LINK) for n in range(AMOUNT)]
    going = entries[stays:]
    if order == "last to first":
        going.reverse()
    elif order == "mixed":
        random.Random(1).shuffle(going)
    for entry in going:
        table.remove(entry)
    assert table.keys_end < 2_048
    assert len(table.keys.free) + len(table) == table.keys_end
    again = [table.add(id_of(n), FILTER, LINK).key for n in range(AMOUNT, 2 * AMOUNT)]
    assert sorted([*again, *range(stays)]) == list(range(AMOUNT + stays))


def test_a_key_at_the_end_keeps_the_others():
    table = Table()
    entries = [table.add(id_of(n), FILTER, LINK) for n in range(AMOUNT)]
    for entry in entries[1:-1]:
        table.remove(entry)
    assert (table.keys_end, len(table.keys.free)) == (AMOUNT, AMOUNT - 2)
    table.remove(entries[-1])
    assert (table.keys_end, len(table.keys.free)) == (1, 0)


def test_what_was_sent_gives_room_back():
    sent, table = Sent(), Table()
    entries = [table.add(id_of(n), FILTER, LINK) for n in range(AMOUNT)]
    for entry in entries:
        entry.forwarded = with_link(entry.forwarded, "C")
        sent.update(entry)
    for entry in entries[:-1]:
        entry.forwarded = frozenset()
        sent.update(entry)
    assert len(sent._entries) == AMOUNT
    entries[-1].forwarded = frozenset()
    sent.update(entries[-1])
    assert not sent._entries
    assert not sent._free


def test_names_that_nothing_uses_leave_no_room():
    words = Vocabulary()
    names = [f"name{n}" for n in range(AMOUNT)]
    numbers = [words.use_name(name) for name in names]
    for name in names[1:]:
        words.release_name(name)
    assert (len(words._name_texts), len(words._name_uses)) == (1, 1)
    assert len(words._free_names) < 2_048
    assert len(words._names) < 2_048
    again = [words.use_name(f"other{n}") for n in range(AMOUNT)]
    assert sorted([numbers[0], *again]) == list(range(AMOUNT + 1))
