"""Scenarios with feeds: who subscribes and publishes where, and what is measured in an interval."""

from pathlib import Path

import numpy as np
import pytest

from byway.sim.run import RunResult, run_scenario
from byway.sim.scenario import ScenarioError, read_scenario
from byway.sim.scenario.build import build, plan_of
from byway.sim.scenario.resolve import homes_of

FILE = Path(__file__).parents[2] / "examples/scenarios/mesh/000-feeds.toml"
SMALL = (
    "topology.brokers=13", "workload.parameters={ brokers = 13, feeds = 6, subscribers = 5 }",
    "workload.subscribe_for_s=1", "warmup_s=2", "workload.rate_per_s=20", "duration_s=12",
    "measure.from_s=4", "brokers.mesh_delta=1",
)  # fmt: skip


def run(*settings: str) -> RunResult:
    return run_scenario(read_scenario(FILE, [*SMALL, *settings]), 1)


def test_each_subscriber_is_at_another_leaf_and_each_feed_at_another_broker() -> None:
    world, _ = build(plan_of(read_scenario(FILE, list(SMALL)), 1))
    homes = {name: client.home_name for name, client in world.clients.items()}
    subscribing = [home for name, home in homes.items() if name.startswith("s")]
    publishing = [home for name, home in homes.items() if name.startswith("p")]
    assert len(subscribing) == len(set(subscribing)) == 5
    assert set(subscribing) <= set(world.topology.leaves)
    assert len(publishing) == len(set(publishing)) == 6


def test_apart_is_another_order_of_the_same_brokers() -> None:
    topology = plan_of(read_scenario(FILE, list(SMALL)), 1).topology
    first, second = (
        homes_of("k", "leaves", 9, topology, np.random.default_rng(seed), apart=True)
        for seed in (1, 2)
    )
    assert first != second
    assert sorted(first) == sorted(second) == sorted(topology.leaves)


def test_only_feeds_can_be_advertised_by_feed() -> None:
    with pytest.raises(ScenarioError, match="'feeds' is for kind 'feeds'"):
        read_scenario(FILE, [*SMALL, 'workload.kind="zipf"', "workload.parameters={}"])


def test_an_interval_that_is_the_whole_run_has_the_numbers_of_the_run() -> None:
    result = run("measure.from_s=0", "drain=true", "duration_s=20", "workload.publish_for_s=10")
    assert result.ok
    assert result.measures is not None
    interval, metrics = result.measures.interval, result.metrics
    assert interval.deliveries == metrics.deliveries > 0
    assert interval.publications == metrics.publications == 200
    assert interval.due == interval.deliveries, "nothing is under way at the end"
    assert interval.matched_brokers == metrics.matched_brokers
    assert interval.pure_forwarders == metrics.pure_forwarders > 0
    assert interval.publication_hops == metrics.publication_hops
    assert interval.deliveries_by_hops == metrics.deliveries_by_hops
    assert interval.messages["pub"] == metrics.messages["pub"]
    assert interval.bytes_total == sum(interval.bytes.values()) > 240 * interval.messages["pub"]


def test_an_interval_has_what_happened_within_it() -> None:
    whole, part = run("measure.from_s=0").measures, run("measure.to_s=8").measures
    assert whole is not None
    assert part is not None
    assert part.interval.publications == 4 * 20
    assert 0 < part.interval.deliveries < whole.interval.deliveries
    assert 0 < part.interval.due < whole.interval.due
    assert sum(part.interval.deliveries_by_hops.values()) == part.interval.deliveries
    assert 0 < part.interval.bytes["pub"] < whole.interval.bytes["pub"]


def test_a_run_that_does_not_drain_ends_with_publications_under_way() -> None:
    slow = ("network.uplink_messages_per_s=5", "workload.rate_per_s=60")
    ended = run(*slow)
    assert ended.ok
    assert ended.simulated_s == 12
    assert ended.measures is not None
    assert 0 < ended.measures.interval.deliveries < ended.measures.interval.due
    drained = run(*slow, "drain=true")
    assert drained.ok
    assert drained.simulated_s > 12
    assert drained.metrics.deliveries > ended.metrics.deliveries


def test_uplinks_may_be_limited_from_a_time_on() -> None:
    slow = ("network.uplink_messages_per_s=5", "workload.rate_per_s=60")
    free = run("workload.rate_per_s=60", "measure.to_s=8").measures
    later = run(*slow, "network.uplink_from_s=8", "measure.to_s=8").measures
    after = run(*slow, "network.uplink_from_s=8", "measure.from_s=8").measures
    assert free is not None
    assert later is not None
    assert after is not None
    assert later.interval == free.interval, "there is no limit before"
    assert after.interval.deliveries < 0.8 * after.interval.due
