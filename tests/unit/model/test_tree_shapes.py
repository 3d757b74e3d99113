"""Shapes of trees: names, chains, stars, balanced and random trees."""

import random
from collections import Counter

import pytest

from byway.model.errors import TopologyError
from byway.model.tree_shapes import (
    balanced_parents,
    chain_links,
    chain_parents,
    links_of,
    numbered_names,
    random_parents,
    star_parents,
)


def test_names_keep_their_order_when_they_are_sorted():
    assert numbered_names("B", 3) == ("B1", "B2", "B3")
    assert numbered_names("p", 12)[::11] == ("p01", "p12")
    assert numbered_names("B", 2, digits=3) == ("B001", "B002")
    assert numbered_names("B", 0) == ()


@pytest.mark.parametrize(
    ("shape", "parents"),
    [
        (chain_parents, [0, 1, 2, 3]),
        (star_parents, [0, 0, 0, 0]),
        (lambda count: balanced_parents(count, 2), [0, 0, 1, 1]),
        (lambda count: balanced_parents(count, 3), [0, 0, 0, 1]),
    ],
)
def test_shapes(shape, parents):
    assert list(shape(5)) == parents
    assert list(shape(1)) == []


def test_links_are_those_of_parents_and_children():
    assert links_of("ABC", star_parents(3)) == [("A", "B"), ("A", "C")]
    assert links_of("ABC", chain_parents(3)) == chain_links("ABC") == [("A", "B"), ("B", "C")]


@pytest.mark.parametrize("seed", range(20))
def test_a_random_tree_keeps_to_its_degree_and_is_drawn_as_it_is_read(seed):
    rng = random.Random(seed)
    count, bound = rng.randint(3, 60), rng.randint(2, 4)
    drawn = []
    parents = random_parents(
        count, lambda below: drawn.append(below) or rng.randrange(below), bound
    )
    assert drawn == []
    degrees = Counter()
    for child, parent in enumerate(parents, start=1):
        assert len(drawn) == child
        assert 0 <= parent < child
        degrees.update((parent, child))
    assert max(degrees.values()) <= bound
    assert len(drawn) == count - 1


def test_a_degree_that_no_tree_has_is_refused_at_once():
    rng = random.Random(1)
    with pytest.raises(TopologyError, match="degree_max = 1: expected at least 2 for 3 brokers"):
        random_parents(3, rng.randrange, 1)
    assert list(random_parents(2, rng.randrange, 1)) == [0]
