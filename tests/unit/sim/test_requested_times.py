"""When publications are asked for: that is where measured delays begin."""

from typing import Any

import pytest

from byway.sim.meters import Delays
from byway.sim.run import run_scenario
from byway.sim.scenario import scenario_of

# What is measured is asked for at 3 s, at B1, by more than it can do at once.
DATA: dict[str, Any] = {
    "name": "x",
    "duration_s": 8,
    "warmup_s": 3,
    "topology": {"kind": "chain", "brokers": 2},
    "network": {"latency_ms": 10},
    "brokers": {"profile": "paper", "instant_until_s": 2},
    "measure": {"from_s": 3, "to_s": 3.001},
}
WORKLOAD = {
    "kind": "covering",
    "parameters": {"degree": 9, "ranges": 1, "hit": 1},
    "subscriptions": 2_000,
    "subscribers": 1,
    "subscribers_at": ["B2"],
    "publishers": 2,
    "publishers_at": ["B1"],
    "rate_per_s": 300_000,
    "burst": 3_000,
    "publish_for_s": 0.01,
}


def delays(**changes: Any) -> tuple[Delays, Delays | None]:
    result = run_scenario(scenario_of({**DATA, **changes}))
    assert result.ok, result.violations
    assert result.measures is not None
    return result.measures.delays, result.measures.probes


def test_what_waits_at_the_publishers_broker_is_late() -> None:
    """3,000 publications, 0.68 ms each at both brokers, in turns of 1,024."""
    found, _ = delays(workload=WORKLOAD)
    assert found.deliveries == 3_000
    assert found.max_ms is not None
    assert found.max_ms > 3_000 * 0.68
    assert found.p10_ms is not None
    assert found.p10_ms < 0.6 * found.max_ms


def test_probes_are_asked_for_in_turn() -> None:
    probe = {"at_s": 3, "count": 7, "gap_s": 0.5, "subscribers_at": ["B2"]}
    _, found = delays(workload={**WORKLOAD, "rate_per_s": 0}, probe=probe)
    assert found is not None
    assert found.deliveries == 7
    assert found.max_ms is not None
    assert found.max_ms < 13  # a hop or none, and two brokers that do nothing else


@pytest.mark.parametrize("arrivals", ["regular", "poisson"])
def test_those_who_wait_for_nothing_are_as_late_as_their_brokers_say(arrivals: str) -> None:
    steps = [
        {"at_s": 0, "client": "bob", "advertise": "EXISTS a"},
        {"at_s": 3.0005, "client": "bob", "publish": {"a": 1}},
        {"at_s": 0, "client": "bob", "subscribe": "a > 0"},
    ]
    few = {**WORKLOAD, "rate_per_s": 100, "burst": 1, "publish_for_s": 5, "arrivals": arrivals}
    brokers = {"profile": "instant"}
    client = [{"name": "bob", "broker": "B1"}]
    measure = {"from_s": 3}
    found, _ = delays(workload=few, brokers=brokers, client=client, step=steps, measure=measure)
    assert found.deliveries > 300
    assert found.max_ms is not None
    assert found.max_ms < 11
