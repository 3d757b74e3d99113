"""Covering degree: what the docstring guarantees, by brute force with the model's `covers`."""

from typing import Any

import numpy as np
import pytest

from byway.model import Filter, covers
from byway.workload import CoveringDegree, WorkloadError


def covering_matrix(filters: list[Filter]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Entry (i, j): filter i covers filter j, another one."""
    conjunctions = [f.conjunctions[0] for f in filters]
    matrix = np.array([[wide.covers(narrow) for narrow in conjunctions] for wide in conjunctions])
    np.fill_diagonal(matrix, False)
    return matrix


WORKLOADS = [
    CoveringDegree(seed=1, count=310, degree=30),
    CoveringDegree(seed=2, count=300, degree=2.5, ranges=1, overlap=0.9),
    CoveringDegree(seed=3, count=300, degree=4, nested=0.5, ranges=2, width=1.0),
    CoveringDegree(seed=4, count=200, degree=0.3, overlap=0),
    CoveringDegree(seed=5, count=150, degree=149),
    CoveringDegree(seed=6, count=64, degree=0),
    CoveringDegree(seed=7, count=250, degree=0.0016, nested=0.9),
    CoveringDegree(seed=8, count=310, degree=29, ranges=1, spread=0.15),
    CoveringDegree(seed=9, count=310, degree=20, nested=0.3, ranges=2, spread=0.01),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"degree {w.degree}")
def test_removing_a_root_releases_exactly_its_children(workload: CoveringDegree) -> None:
    filters = workload.take_filters(workload.count)
    covering = covering_matrix(filters)
    parents = workload.parents(0)
    roots = np.flatnonzero(~covering.any(axis=0))
    assert roots.tolist() == workload.root_rows().tolist() == np.flatnonzero(parents < 0).tolist()
    coverers = covering.sum(axis=0)
    released = 0
    for root in roots:
        new_roots = np.flatnonzero(covering[root] & (coverers == 1))
        assert new_roots.tolist() == np.flatnonzero(parents == root).tolist()
        released += len(new_roots)
    assert released == workload.children
    assert released / len(roots) == workload.achieved_degree
    assert abs(workload.achieved_degree - workload.degree) <= (workload.degree + 1) / len(roots)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"degree {w.degree}")
def test_every_row_lies_strictly_inside_its_parent(workload: CoveringDegree) -> None:
    filters = workload.take_filters(workload.count)
    for row, parent in enumerate(workload.parents(0).tolist()):
        if parent >= 0:
            assert covers(filters[parent], filters[row])
            assert not covers(filters[row], filters[parent])


@pytest.mark.parametrize("degree", [1.0, 10.0, 30.0, 50.0, 2_100.0])
@pytest.mark.parametrize("nested", [0.0, 0.3])
def test_the_degree_asked_for_is_had(degree: float, nested: float) -> None:
    workload = CoveringDegree(count=80_000, degree=degree, nested=nested)
    assert workload.achieved_degree == pytest.approx(degree, rel=0.01)
    assert workload.roots + workload.children + workload.grandchildren == 80_000
    if nested:
        share = workload.grandchildren / (workload.children + workload.grandchildren)
        assert share == pytest.approx(nested, abs=0.02)


def test_groups_that_span_chunks_are_whole() -> None:
    """Parents computed chunk by chunk agree, and so do the boxes, with those of their chunks."""
    workload = CoveringDegree(seed=8, count=3 * CoveringDegree.ROWS + 100, degree=1_500, nested=0.5)
    chunks = [workload.subscriptions(k) for k in range(4)]
    assert [len(chunk) for chunk in chunks] == [4_096, 4_096, 4_096, 100]
    assert len(workload.subscriptions(4)) == len(workload.parents(4)) == 0
    parents = np.concatenate([workload.parents(k) for k in range(4)])
    lows = np.concatenate([c.numbers for c in chunks]).reshape(workload.count, 5)[:, 2:]
    highs = np.concatenate([c.highs for c in chunks]).reshape(workload.count, 5)[:, 2:]
    inside = np.flatnonzero(parents >= 0)
    assert len(inside) == workload.count - workload.roots
    assert (lows[inside] >= lows[parents[inside]]).all()
    assert (highs[inside] <= highs[parents[inside]]).all()
    assert (parents[inside] // 4_096 < inside // 4_096).any()
    assert (np.flatnonzero(parents < 0) == workload.root_rows()).all()


def test_filters_look_like_this() -> None:
    text = str(CoveringDegree(seed=1).take_filters(1)[0])
    expected = (
        "class = 'c0' AND key = 'k00000' AND price BETWEEN 74693 AND 1181694"
        " AND quantity BETWEEN 1646 AND 6314 AND weight BETWEEN 1991 AND 7766"
    )
    assert text == expected


@pytest.mark.parametrize("ranges", [1, 2, 3])
@pytest.mark.parametrize("hit", [0.0, 0.6, 1.0])
def test_publications_hit_at_the_rate_asked_for(ranges: int, hit: float) -> None:
    workload = CoveringDegree(seed=9, count=200, degree=9, ranges=ranges, hit=hit)
    filters = workload.take_filters(200)
    roots = [filters[row] for row in workload.root_rows()]
    publications = workload.take_publications(400)
    matched = [any(f.matches(p) for f in roots) for p in publications]
    assert abs(np.mean(matched) - hit) < 0.08
    assert all(set(p) == set(publications[0]) for p in publications)
    if hit == 0:
        assert not any(f.matches(p) for f in filters for p in publications[:50])


def test_wider_children_are_more_like_their_root() -> None:
    similarity = []
    for width in (0.3, 0.8):
        workload = CoveringDegree(seed=10, count=310, degree=30, width=width, hit=1.0)
        filters = workload.take_filters(310)
        roots = set(workload.root_rows().tolist())
        children = [f for row, f in enumerate(filters) if row not in roots]
        matched = [any(f.matches(p) for f in children) for p in workload.take_publications(300)]
        similarity.append(np.mean(matched))
    assert similarity[0] < 0.7
    assert similarity[1] > 0.85


def test_popular_groups_are_hit_more_often() -> None:
    chunk = CoveringDegree(seed=11, count=3_100, popularity_exponent=1.0).publications(0)
    keys = [chunk.strings[i] for i in chunk.string_ids.reshape(-1, 5)[:, 1]]
    assert keys.count("k00000") > 0.4 * len(keys)


def test_there_are_no_more_than_there_are() -> None:
    workload = CoveringDegree(count=100, degree=9)
    assert workload.subscription_count() == 100
    with pytest.raises(WorkloadError, match="at most the 100 subscriptions there are"):
        workload.take_filters(101)


def test_with_little_spread_one_child_wants_nearly_all_that_its_root_does() -> None:
    for spread, low, high in ((1.0, 0.35, 0.65), (0.15, 0.88, 0.97)):
        workload = CoveringDegree(seed=11, count=310, degree=30, ranges=1, hit=1, spread=spread)
        filters = workload.take_filters(310)
        wanted = []
        for publication in workload.take_publications(200):
            root = next(r for r in workload.root_rows() if filters[r].matches(publication))
            wanted += [filters[root + n].matches(publication) for n in range(1, 31)]
        assert low < np.mean(wanted) < high


def test_only_hot_roots_are_hit() -> None:
    workload = CoveringDegree(seed=12, count=310, degree=30, hit=1, hot=3, overlap=0)
    filters = workload.take_filters(310)
    publications = workload.take_publications(100)
    hit = [any(filters[row].matches(p) for p in publications) for row in workload.root_rows()]
    assert hit == [True] * 3 + [False] * 7
    with pytest.raises(WorkloadError, match="hot"):
        CoveringDegree(count=310, degree=30, hot=11)


def test_groups_are_those_of_the_roots() -> None:
    workload = CoveringDegree(seed=13, count=9_000, degree=30, nested=0.5)
    for chunk in range(3):
        groups, parents = workload.groups(chunk), workload.parents(chunk)
        start = chunk * workload.ROWS
        assert len(groups) == len(parents)
        assert (workload.root_rows()[groups] <= np.arange(start, start + len(groups))).all()
        roots = np.flatnonzero(parents < 0)
        assert (workload.root_rows()[groups[roots]] == start + roots).all()
        assert (np.diff(groups) >= 0).all()
