"""Names and strings are forgotten and their numbers given again, and no answer is ever wrong."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from byway.matching import MatchIndex, NaiveIndex, TableIndex, Vocabulary
from byway.matching.moving_index import MovingIndex
from byway.model import Filter, parse
from byway.model.messages import Body
from tests.strategies import filters, publications
from tests.structure import check, check_words

WORDS = st.sampled_from(["", "a", "ab", "abc", "b", "ü", "zzz", *(f"w{n}" for n in range(12))])
NAMES = st.sampled_from([f"name{n}" for n in range(8)])
SHAPES = st.sampled_from(
    [
        "{0} = '{2}'", "{0} <> '{2}'", "{0} IN ('{2}', '{3}')", "{0} LIKE '{2}%'",
        "{0} LIKE '%{2}'", "{0} LIKE '%{2}%'", "{0} >= '{2}' AND {1} < '{3}'",
        "{0} = '{2}' AND {1} = '{3}'", "{0} = '{2}' OR {1} LIKE '{3}%'", "{0} NOT LIKE '{2}%'",
        "{0} = 3 AND {1} = '{2}'",
    ]
)  # fmt: skip
WORDY = st.builds(
    lambda shape, *words: parse(shape.format(*words)), SHAPES, NAMES, NAMES, WORDS, WORDS
)
ANY_FILTER = st.one_of(WORDY, WORDY, filters())
EVENTS = st.one_of(st.dictionaries(NAMES, WORDS, max_size=5), publications())
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 1), ANY_FILTER),
        st.tuples(st.just("remove"), st.integers(0, 1), st.integers(0, 30)),
        st.tuples(st.just("remove"), st.integers(0, 1), st.integers(0, 30)),
        st.tuples(st.just("match"), st.integers(0, 1), EVENTS),
        st.tuples(st.just("relate"), st.integers(0, 1), ANY_FILTER),
        st.tuples(st.just("forget"), st.integers(0, 1), st.none()),
    ),
    max_size=60,
)


def body_of(event: dict[str, Any]) -> bytes:
    return msgspec.msgpack.encode(Body(event))


def same_answers(fast: Any, naive: NaiveIndex, query: Filter, event: Any) -> None:
    assert sorted(fast.match(event).tolist()) == sorted(naive.match(event))
    assert fast.covering(query).tolist() == sorted(naive.covering(query))
    assert fast.covered_by(query).tolist() == sorted(naive.covered_by(query))
    assert fast.intersecting(query).tolist() == sorted(naive.intersecting(query))
    assert fast.intersecting_advertisements(query).tolist() == sorted(
        naive.intersecting_advertisements(query)
    )


@given(STEPS, ANY_FILTER, EVENTS)
def test_two_indexes_of_one_vocabulary(steps, query, event):
    vocabulary = Vocabulary()
    pairs = [(MatchIndex(vocabulary), NaiveIndex()) for _ in range(2)]
    present: list[list[int]] = [[], []]
    for number, (what, which, subject) in enumerate(steps):
        fast, naive = pairs[which]
        if what == "add":
            fast.add(number, subject)
            naive.add(number, subject)
            present[which].append(number)
        elif what == "remove" and present[which]:
            key = present[which].pop(subject % len(present[which]))
            fast.remove(key)
            naive.remove(key)
        elif what == "match":
            assert sorted(fast.match(subject).tolist()) == sorted(naive.match(subject))
            by_body = fast.match_body(body_of(subject))
            assert by_body is None or sorted(by_body[2]) == sorted(naive.match(subject))
        elif what == "relate":
            same_answers(fast, naive, subject, event)
        elif what == "forget":
            vocabulary.forget_unused(kept=0)
    for fast, naive in pairs:
        check(fast)
        same_answers(fast, naive, query, event)
    check_words(vocabulary, *(fast for fast, _ in pairs))
    for (fast, _), keys in zip(pairs, present, strict=True):
        for key in keys:
            fast.remove(key)
    vocabulary.forget_unused(kept=0)
    assert not vocabulary.names
    assert not vocabulary.strings


@given(STEPS, ANY_FILTER, EVENTS)
def test_an_index_that_moves(steps, query, event):
    table, naive = TableIndex(), NaiveIndex()
    present: list[int] = []
    for number, (what, which, subject) in enumerate(steps):
        if what == "add":
            link = (0, 1, 69)[number % 3] if which else None
            table.add(number, subject, link)
            naive.add(number, subject, link)
            present.append(number)
        elif what == "remove" and present:
            key = present.pop(subject % len(present))
            table.remove(key)
            naive.remove(key)
        elif what == "match":
            mask, matched, local, several = table.match_routes(subject, 1)
            found = mask, matched, sorted(local), several
            assert found == naive.match_routes(subject, 1)
            by_body = table.match_body(body_of(subject), 1)
            if by_body is not None:
                assert (*by_body[:2], sorted(by_body[2]), by_body[3]) == found
        elif what == "relate":
            same_answers(table, naive, subject, event)
        elif which:
            table.shrink()
        else:
            table.move(2)
        assert len(table) == len(naive)
    same_answers(table, naive, query, event)
    table.move(1_000)
    assert not isinstance(table.in_use, MovingIndex)
    same_answers(table, naive, query, event)


@given(st.lists(WORDY, min_size=1, max_size=12), st.lists(WORDY, max_size=12), EVENTS)
def test_a_body_is_read_with_the_numbers_that_words_have_now(earlier, later, event):
    vocabulary = Vocabulary()
    index, naive = MatchIndex(vocabulary), NaiveIndex()
    for key, wanted in enumerate(earlier):
        index.add(key, wanted)
    index.match_body(body_of(event))
    for key in range(len(earlier)):
        index.remove(key)
    vocabulary.forget_unused(kept=0)
    for key, wanted in enumerate(later):
        index.add(key, wanted)
        naive.add(key, wanted)
    by_body = index.match_body(body_of(event))
    assert by_body is None or sorted(by_body[2]) == sorted(naive.match(event))
    assert sorted(index.match_routes(event)[2]) == sorted(naive.match(event))
    check_words(vocabulary, index)


def test_thousands_of_words_come_and_go():
    vocabulary = Vocabulary()
    index = MatchIndex(vocabulary)
    for first in range(0, 6_000, 500):
        for key in range(first, first + 2_000):
            if key not in index:
                index.add(key, parse(f"a{key % 700} = 'w{key}' AND b LIKE 'v{key % 900}%'"))
        for key in range(first, first + 500):
            index.remove(key)
        vocabulary.forget_unused(kept=0)
        check_words(vocabulary, index)
        for key in (first, first + 499, first + 500, first + 1_999):
            event = {f"a{key % 700}": f"w{key}", "b": f"v{key % 900}!"}
            found = index.match_body(body_of(event))
            assert found is not None
            assert list(found[2]) == ([key] if key >= first + 500 else [])
    for key in index.keys().tolist():
        index.remove(key)
    while vocabulary.forget_unused(kept=0):
        pass
    assert not vocabulary._string_table.any()
    assert not vocabulary._name_table.any()
    assert vocabulary.memory_bytes < 64 * 1_024
