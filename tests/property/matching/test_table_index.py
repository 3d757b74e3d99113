"""An index that has no kernels yet answers as one that has, before and after it gets them."""

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st

from byway.matching import MatchIndex, TableIndex
from byway.matching.native import KERNELS
from byway.matching.table_index import SimpleIndex, use_kernels
from tests.strategies import filters, publications

LINKS = st.one_of(st.none(), st.integers(0, 70))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), filters(), LINKS),
        st.tuples(st.just("remove"), st.integers(0, 30), st.none()),
        st.tuples(st.just("ask"), filters(), publications()),
    ),
    max_size=40,
)


@contextmanager
def kernels_awaited() -> Iterator[None]:
    KERNELS.are_awaited = True
    try:
        yield
    finally:
        KERNELS.are_awaited = False


def answers(index, query, publication):
    mask, matched, local, several = index.match_routes(publication, 1)
    found = (
        index.match(publication), index.covering(query), index.covered_by(query),
        index.intersecting(query), index.intersecting_advertisements(query),
    )  # fmt: skip
    return mask, matched, sorted(local), several, [sorted(keys.tolist()) for keys in found]


@given(STEPS, st.integers(0, 40), filters(), publications())
def test_answers_do_not_depend_on_kernels(steps, exchange_at, query, publication):
    with kernels_awaited():
        waiting, compiled = TableIndex(), MatchIndex()
    assert isinstance(waiting.in_use, SimpleIndex)
    present: list[int] = []
    for number, (what, subject, more) in enumerate(steps):
        if number == exchange_at:
            assert use_kernels() == len(present)
        if what == "add":
            present.append(number)
            waiting.add(number, subject, more)
            compiled.add(number, subject, more)
        elif what == "remove" and present:
            key = present.pop(subject % len(present))
            waiting.remove(key)
            compiled.remove(key)
        elif what == "ask":
            assert answers(waiting, subject, more) == answers(compiled, subject, more)
        assert len(waiting) == len(compiled) == len(present)
    before = answers(waiting, query, publication)
    use_kernels()
    assert isinstance(waiting.in_use, MatchIndex)
    assert answers(waiting, query, publication) == before == answers(compiled, query, publication)
