"""The window of what local subscriptions received, and what is read from it: the tables of
the two papers on filter aggregation, and the bounds."""

import pytest

from byway.core.covering.statistics import Statistics, critical_distance

TABLE_I_OF_003 = (1, 5, 1, 1, 7)
TABLE_I_OF_004 = (6, 2, 2, 6, 7)
MINUTE_US = 60_000_000


def window(rows_max: int = 1_000, age_us: int = MINUTE_US) -> Statistics:
    return Statistics(rows_max, age_us)


# --- the tables of the papers --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "hops"), [(0.1, 1), (0.6, 1), (0.61, 5), (0.8, 5), (0.81, 7), (0.9, 7), (1.0, 7)]
)
def test_critical_distances_of_003(wanted, hops):
    """Its text says 10 for 0.9, of which its own table knows nothing."""
    assert critical_distance(TABLE_I_OF_003, wanted) == hops


@pytest.mark.parametrize(("wanted", "hops"), [(0.4, 2), (0.41, 6), (0.8, 6), (0.85, 7), (0.9, 7)])
def test_critical_distances_of_004(wanted, hops):
    assert critical_distance(TABLE_I_OF_004, wanted) == hops


def test_a_share_that_binary_fractions_miss():
    """0.28 of 25 are seven, not eight, though 0.28 · 25 is a little more than 7."""
    assert 0.28 * 25 > 7
    assert critical_distance([1] * 7 + [9] * 18, 0.28) == 1
    assert critical_distance([1] * 6 + [9] * 19, 0.28) == 9


def test_no_similarity_is_reached_at_once():
    assert critical_distance([3, 2], 0.0) == 2


# --- the window ----------------------------------------------------------------------------------


def test_rows_are_taken_once():
    statistics = window()
    statistics.record(7, "pub", 2, 1, 10)
    statistics.record(8, "pub", 3, 1, 11)
    statistics.record(7, "other", 0, 4, 12)
    assert statistics.take(7, 20) == [("pub", 2, 1, 10), ("other", 0, 4, 12)]
    assert statistics.take(7, 20) == []
    assert len(statistics) == 1
    assert statistics.take(8, 20) == [("pub", 3, 1, 11)]


def test_old_rows_do_not_count():
    statistics = window(age_us=100)
    statistics.record(1, "pub", 5, 0, 99)
    statistics.record(1, "pub", 6, 0, 100)
    statistics.record(1, "pub", 7, 0, 200)
    assert [row[1] for row in statistics.take(1, 200)] == [6, 7]


@pytest.mark.parametrize("rows_max", [2, 3, 10, 11])
def test_half_of_the_bound_to_all_of_it_is_kept(rows_max):
    statistics = window(rows_max)
    for number in range(100):
        statistics.record(number % 3, "pub", number, 0, number)
        assert min(number + 1, rows_max // 2) <= len(statistics) <= rows_max
    latest = sorted(row[1] for key in range(3) for row in statistics.take(key, 100))
    assert latest == list(range(100 - len(latest), 100))
    assert len(statistics) == 0


def test_what_is_taken_makes_room():
    """The bound counts rows that are there, not rows that ever were."""
    statistics = window(10)
    for number in range(4):
        statistics.record(1, "pub", 1, 0, number)
    statistics.take(1, 10)
    for number in range(10):
        statistics.record(2, "pub", number, 0, number)
    assert len(statistics) == 10


def test_a_key_that_is_given_again_has_no_past():
    statistics = window()
    statistics.record(1, "pub", 9, 9, 0)
    statistics.take(1, 0)
    statistics.record(1, "pub", 2, 2, 1)
    assert statistics.take(1, 1) == [("pub", 2, 2, 1)]


def test_restored_it_goes_on_where_it_was():
    statistics, other = window(6), window(6)
    for number in range(5):
        statistics.record(number % 2, "pub", number, 0, number)
    young, old = (
        {key: list(rows) for key, rows in part.items()}
        for part in (statistics.young, statistics.old)
    )
    other.restore(young, old)
    for number in range(5, 9):
        for each in (statistics, other):
            each.record(number % 2, "pub", number, 0, number)
    assert other.young == statistics.young
    assert other.old == statistics.old
