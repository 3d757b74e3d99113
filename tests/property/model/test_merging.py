"""Merges accept what either filter accepts, and say truly when they accept no more."""

from hypothesis import given
from hypothesis import strategies as st

from byway.model import Filter, Value, covers, merge
from byway.model.filter_merging import merge_exactly
from tests.property.model.worlds import publications_telling_apart
from tests.strategies import filters, publications, publications_near


@given(filters(), filters(), publications())
def test_a_merge_accepts_what_either_accepts(
    f: Filter, g: Filter, attributes: dict[str, Value]
) -> None:
    merged = merge(f, g).filter
    assert merged.matches(attributes) or not (f.matches(attributes) or g.matches(attributes))


@given(st.data(), filters(3, 2), filters(3, 2))
def test_also_near_the_bounds(data: st.DataObject, f: Filter, g: Filter) -> None:
    merged = merge(f, g)
    for part in (f, g):
        attributes = data.draw(publications_near(part))
        wanted = f.matches(attributes) or g.matches(attributes)
        assert merged.filter.matches(attributes) or not wanted
        if merged.perfect:
            assert merged.filter.matches(attributes) is wanted


@given(filters(2, 2), filters(2, 2))
def test_a_perfect_merge_is_exact(f: Filter, g: Filter) -> None:
    merged = merge(f, g)
    if merged.perfect:
        for attributes in publications_telling_apart(f, g, merged.filter):
            wanted = f.matches(attributes) or g.matches(attributes)
            assert merged.filter.matches(attributes) is wanted


@given(filters(3, 2), filters(3, 2))
def test_an_exact_merge_is_the_perfect_one(f: Filter, g: Filter) -> None:
    merged = merge(f, g)
    assert merge_exactly(f, g) == (merged.filter if merged.perfect else None)


@given(filters(), filters())
def test_volume_and_size_stay_within_bounds(f: Filter, g: Filter) -> None:
    merged = merge(f, g)
    assert 0.0 <= merged.volume <= 1.0
    assert (merged.volume == 0.0) is merged.perfect
    most = max(len(f.conjunctions), len(g.conjunctions), 1)
    assert len(merged.filter.conjunctions) <= most


@given(filters(), filters())
def test_merging_is_symmetric(f: Filter, g: Filter) -> None:
    assert merge(f, g) == merge(g, f)


@given(filters(), filters())
def test_a_covered_filter_adds_nothing(f: Filter, g: Filter) -> None:
    assert merge(f, f).perfect
    if covers(f, g):
        merged = merge(f, g)
        assert merged.perfect
        assert covers(merged.filter, f)
