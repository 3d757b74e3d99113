"""The index answers every question exactly as the naive oracle does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from byway.matching import MatchIndex, NaiveIndex, Vocabulary
from tests.strategies import filters, publications

LINKS = st.one_of(st.none(), st.integers(0, 70), st.sampled_from((0, 70)))


@st.composite
def tables(draw, largest=24):
    """An index and its oracle after the same random adds and removes."""
    index, oracle = MatchIndex(Vocabulary()), NaiveIndex()
    keys = iter(range(10_000))
    present: list[int] = []
    relations_first = draw(st.booleans())
    if relations_first:  # the relation sets are then kept up to date from the start
        index.covered_by(draw(filters()))
    for _ in range(draw(st.integers(0, largest))):
        if present and draw(st.integers(0, 3)) == 0:
            key = present.pop(draw(st.integers(0, len(present) - 1)))
            index.remove(key)
            oracle.remove(key)
        else:
            key, f, link = next(keys), draw(filters()), draw(LINKS)
            target = None if link is None else draw(st.sampled_from((None, link + 1)))
            index.add(key, f, link, target)
            oracle.add(key, f, link, target)
            present.append(key)
    return index, oracle


@given(tables(), st.lists(publications(), min_size=1, max_size=6))
def test_match(pair, wanted):
    index, oracle = pair
    for publication in wanted:
        keys = index.match(publication).tolist()
        assert len(keys) == len(set(keys))
        assert sorted(keys) == sorted(oracle.match(publication))


@given(tables(), st.lists(publications(), max_size=8))
def test_match_batch_is_match_of_each(pair, wanted):
    index, oracle = pair
    answers = index.match_batch(wanted)
    assert len(answers) == len(wanted)
    assert [sorted(a.tolist()) for a in answers] == [sorted(oracle.match(p)) for p in wanted]


@given(tables(), publications(), LINKS)
def test_match_links(pair, publication, exclude):
    index, oracle = pair
    assert index.match_links(publication, exclude) == oracle.match_links(publication, exclude)
    found, wanted = (each.match_routes(publication, exclude) for each in (index, oracle))
    assert _sorted(found) == _sorted(wanted)


def _sorted(routes):
    mask, matched, local, several = routes
    return mask, matched, sorted(local), several


@given(tables(), filters())
def test_relations(pair, query):
    index, oracle = pair
    assert index.covering(query).tolist() == sorted(oracle.covering(query))
    assert index.covered_by(query).tolist() == sorted(oracle.covered_by(query))
    assert index.intersecting(query).tolist() == sorted(oracle.intersecting(query))
    assert index.intersecting_advertisements(query).tolist() == sorted(
        oracle.intersecting_advertisements(query)
    )


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), filters(), LINKS),
            st.tuples(st.just("remove"), st.integers(0, 30), st.none()),
            st.tuples(st.just("match"), publications(), st.none()),
            st.tuples(st.just("relate"), filters(), st.none()),
        ),
        max_size=60,
    )
)
def test_interleavings(steps):
    index, oracle = MatchIndex(Vocabulary()), NaiveIndex()
    present: list[int] = []
    for number, (what, subject, link) in enumerate(steps):
        if what == "add":
            index.add(number, subject, link)
            oracle.add(number, subject, link)
            present.append(number)
        elif what == "remove":
            if present:
                key = present.pop(subject % len(present))
                index.remove(key)
                oracle.remove(key)
        elif what == "match":
            assert sorted(index.match(subject).tolist()) == sorted(oracle.match(subject))
        else:
            assert index.covering(subject).tolist() == sorted(oracle.covering(subject))
            assert index.covered_by(subject).tolist() == sorted(oracle.covered_by(subject))
        assert len(index) == len(oracle)
    for key in present:
        index.remove(key)
    assert len(index) == 0
    assert index.match({}).tolist() == []
