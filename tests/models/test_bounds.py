"""A few hundred runs of the model of the bounds; README.md has the results of many more."""

import pytest

from tests.models.bounds import frozen, ring, trial


@pytest.mark.parametrize("soft", [0.0, 0.6])
def test_nobody_waits_for_ever_when_data_is_refused_by_branch(soft):
    assert [trial(seed, soft=soft) for seed in range(150)] == [[]] * 150


def test_refusing_by_link_deadlocks_beside_soft_links():
    found = [trial(seed, "link") for seed in range(100)]
    assert sum("deadlock" in faults for faults in found) > 25


@pytest.mark.parametrize("size", [3, 4])
def test_full_brokers_in_a_ring(size):
    """By branch they go on; by link each of them waits for the next."""
    assert [ring(seed, size, "branch") for seed in range(100)] == [[]] * 100
    found = [ring(seed, size, "link") for seed in range(50)]
    assert sum("deadlock" in faults for faults in found) > 25


def test_a_frozen_broker_stops_only_publishers_that_owe_it_something():
    assert [frozen(seed) for seed in range(60)] == [[]] * 60
