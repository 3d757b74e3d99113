"""Change-overs cost nothing but time: no run loses, doubles or reorders, and every hold ends; and
without them a publisher under constant load never leaves its detour."""

import pytest

from tests.models.change_overs import constant_load, trial


@pytest.mark.parametrize("gives_up", [False, True])
@pytest.mark.parametrize("chance", [0.3, 0.6, 1.0])
def test_nothing_goes_wrong_and_every_hold_ends(chance: float, gives_up: bool) -> None:
    runs = [trial(seed, chance, gives_up=gives_up) for seed in range(150)]
    assert [found for _, found in runs] == [[]] * 150
    assert sum(begun for begun, _ in runs) > 100


def test_to_change_over_without_waiting_reorders() -> None:
    found = [trial(seed, hasty=True)[1] for seed in range(150)]
    assert sum("out of order" in faults for faults in found) > 10


def test_under_constant_load_a_publisher_leaves_its_detour_only_by_change_overs() -> None:
    assert constant_load(0) == []
    took = constant_load(0.1)
    assert took == list(range(took[0], took[-1] + 1)), "it stays on the link, in order"
    assert len(took) > 100
