"""The rules of the bypass lose, double and reorder nothing; without one of them runs do."""

from collections import Counter

import pytest

from tests.models.dead_brokers import DOUBLE, LOSS, ORDER, Rules, trial


@pytest.mark.parametrize("dead_max", [1, 2, 3])
def test_nothing_goes_wrong(dead_max: int) -> None:
    found = {seed: faults for seed in range(400) if (faults := trial(seed, dead_max=dead_max))}
    assert found == {}


@pytest.mark.parametrize(
    "rules",
    [Rules(parked_goes_round=False), Rules(waits_for_first=False), Rules(holds=False)],
    ids=["parked does not go round", "confirmed at once", "no hold"],
)
def test_each_rule_is_needed(rules: Rules) -> None:
    found = Counter(fault for seed in range(400) for fault in trial(seed, rules))
    assert found[LOSS] + found[DOUBLE] + found[ORDER] > 0
