"""Names and strings are forgotten and their numbers given again, and no answer is ever wrong."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from byway.matching import MatchIndex, NaiveIndex, TableIndex, Vocabulary
from byway.matching.encoding import Encoded
from byway.matching.moving_index import MovingIndex
from byway.model import Filter, parse
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
            link = number % 70 if which else None
            table.add(number, subject, link)
            naive.add(number, subject, link)
            present.append(number)
        elif what == "remove" and present:
            key = present.pop(subject % len(present))
            table.remove(key)
            naive.remove(key)
        elif what == "match":
            mask, matched, local = table.match_routes(subject, 1)
            assert (mask, matched, sorted(local.tolist())) == naive.match_routes(subject, 1)
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
def test_an_encoded_publication_is_no_longer_used_when_numbers_mean_something_else(
    earlier, later, event
):
    vocabulary = Vocabulary()
    index, naive = MatchIndex(vocabulary), NaiveIndex()
    for key, wanted in enumerate(earlier):
        index.add(key, wanted)
    encoded = Encoded(event, vocabulary)
    for key in range(len(earlier)):
        index.remove(key)
    vocabulary.forget_unused(kept=0)
    for key, wanted in enumerate(later):
        index.add(key, wanted)
        naive.add(key, wanted)
    if encoded.changes == vocabulary.changes:
        assert not later or sorted(index.match_routes(encoded)[2].tolist()) == sorted(
            naive.match(event)
        )
    assert sorted(index.match_routes(event)[2].tolist()) == sorted(naive.match(event))
