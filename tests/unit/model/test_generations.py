"""Two generations of what is remembered, and who uses them."""

import pytest

from byway.core.covering.statistics import Statistics
from byway.model.generations import Generations
from byway.model.seen import SeenPublications


def test_what_was_young_is_old_after_a_generation_and_then_forgotten():
    generations: Generations[str, int] = Generations(8)
    generations.young["a"] = 1
    generations.age()
    assert (generations.old, generations.young) == ({"a": 1}, {})
    generations.young["b"] = 2
    generations.age()
    assert (generations.old, generations.young) == ({"b": 2}, {})


@pytest.mark.parametrize(("size_max", "half"), [(8, 4), (9, 4), (1, 1), (0, 1)])
def test_a_generation_is_half_of_the_bound_and_never_nothing(size_max, half):
    assert Generations(size_max).half == half


def test_publishers_are_remembered_for_a_generation():
    seen = SeenPublications(4)
    assert all(seen.is_new(name, 1, 5) for name in "abc")
    assert not seen.is_new("a", 1, 5)  # it is old, and young again from now on
    assert (seen.old, seen.young) == ({("a", 1): 5, ("b", 1): 5}, {("c", 1): 5, ("a", 1): 5})
    assert seen.is_new("d", 1, 5)
    assert seen.is_new("b", 1, 5)  # it was forgotten


def test_statistics_count_rows_not_subscriptions():
    statistics = Statistics(4, window_us=10)
    for _ in range(3):
        statistics.record(7, "p", 1, 1, 0)
    assert (len(statistics.old[7]), len(statistics.young[7])) == (2, 1)
    assert len(statistics.take(7, 0)) == 3
    assert len(statistics) == 0
