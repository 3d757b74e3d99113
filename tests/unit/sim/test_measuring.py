"""Measuring: what a meter adds up in a part of a run, and nothing from before."""

from typing import Any

from byway.sim.meters import Measures
from byway.sim.run import run_scenario
from byway.sim.scenario import scenario_of

# s1 is at B3, two hops from the publisher at B1; ann's broad subscription ends at 4 s.
DATA: dict[str, Any] = {
    "name": "x",
    "duration_s": 8,
    "topology": {"kind": "chain", "brokers": 3},
    "network": {"latency_ms": 10},
    "brokers": {"profile": "paper", "covering": "active", "instant_until_s": 2},
    "client": [
        {"name": "ann", "broker": "B3"},
        {"name": "bob", "broker": "B3"},
        {"name": "pub", "broker": "B1"},
    ],
    "step": [
        {"at_s": 0, "client": "pub", "advertise": "EXISTS a"},
        {"at_s": 0.5, "client": "ann", "subscribe": "a > 0"},
        {"at_s": 1, "client": "bob", "subscribe": "a > 5"},
        {"at_s": 3, "client": "pub", "publish": {"a": 9}},
        {"at_s": 4, "client": "ann", "unsubscribe": "s"},
        {"at_s": 5, "client": "pub", "publish": {"a": 9}},
        {"at_s": 6, "client": "pub", "publish": {"a": 9}},
        {"at_s": 7, "client": "pub", "publish": {"a": 9}},
    ],
    "measure": {"from_s": 4, "to_s": 6.5, "at": ["B1", "leaves"]},
}


def measured(**changes: Any) -> Measures:
    result = run_scenario(scenario_of({**DATA, **changes}))
    assert result.ok, result.violations
    assert result.measures is not None
    assert result.facts()["measured"]["groups"].keys() == {"all", "B1", "leaves"}
    return result.measures


def test_only_publications_of_that_time_count_for_delays() -> None:
    delays = measured().delays
    assert delays.deliveries == 2
    assert delays.mean_ms is not None
    assert 20 <= delays.mean_ms < 20.1
    assert delays.p10_ms == delays.p99_ms
    assert delays.max_ms is not None
    assert delays.max_ms >= delays.mean_ms


def test_what_an_unsubscription_brings_is_counted_where_it_arrives() -> None:
    groups = measured().groups
    assert (groups["all"].brokers, groups["leaves"].brokers, groups["B1"].brokers) == (3, 2, 1)
    assert (groups["all"].triggered, groups["all"].subscriptions_arrived) == (2, 2)
    assert (groups["B1"].triggered, groups["B1"].subscriptions_arrived) == (0, 1)
    assert groups["B1"].messages == {"publication": 3, "subscribe": 1, "unsubscribe": 1}
    assert groups["all"].publications == 6  # two hops each, the one after the end too
    assert groups["all"].false_positives == 0


def test_times_are_those_of_one_broker() -> None:
    groups = measured().groups
    covering_us = 2.72  # one subscription comes while one entry is there
    assert abs(groups["B1"].busy_s["covering"] - covering_us / 1e6) < 1e-12
    assert abs(groups["leaves"].busy_s["covering"] - covering_us / 2e6) < 1e-12


def test_tables_before_on_average_and_in_the_end() -> None:
    b1 = measured().groups["B1"]
    assert (b1.table_entries_begin, b1.table_entries_mean, b1.table_entries_end) == (1, 1, 1)
    all_brokers = measured().groups["all"]
    assert all_brokers.table_entries_begin == 4 / 3
    assert all_brokers.table_entries_end == 1


def test_preserved_subscriptions_and_what_they_let_through() -> None:
    """Publications of 3 match nobody once ann has gone; B3 preserved what she had, for B2."""
    steps = [
        *DATA["step"][:3],
        *({"at_s": 2 + n / 10, "client": "pub", "publish": {"a": 9}} for n in range(10)),
        DATA["step"][4],
        *({"at_s": 5 + n / 10, "client": "pub", "publish": {"a": 3}} for n in range(4)),
    ]
    brokers = {
        **DATA["brokers"],
        "covering": "incremental", "incremental_bursts": [1, 100], "retire_batch": 0,
    }  # fmt: skip
    groups = measured(step=steps, brokers=brokers).groups
    leaves = groups["leaves"]
    assert (leaves.preserved, leaves.retired, leaves.preserved_entries) == (1, 0, 1)
    assert (groups["all"].triggered, groups["all"].subscriptions_arrived) == (0, 0)
    assert (leaves.publications, leaves.false_positives) == (4, 4)
    assert (groups["all"].publications, groups["all"].false_positive_share) == (8, 0.5)


def test_probes_are_measured_apart() -> None:
    probe = {"at_s": 5.5, "count": 4, "gap_s": 0.1, "publishers_at": ["B1"]}
    measures = measured(probe=probe)
    assert measures.delays.deliveries == 2
    assert measures.probes is not None
    assert measures.probes.deliveries == 12
    assert measures.probes.mean_ms is not None
    assert 10 <= measures.probes.mean_ms < 10.1  # to B1 itself, one and two hops
    assert measured().probes is None


def test_a_monitor_goes_from_broker_to_broker() -> None:
    monitor = {"filter": "a > 1", "at": ["B3", "B2"], "from_s": 1.5, "stay_s": 2, "away_s": 1}
    without = run_scenario(scenario_of(DATA)).metrics
    result = run_scenario(scenario_of({**DATA, "monitor": [monitor]}))
    assert result.ok, result.violations
    # at B3 until 3.5 s it gets the one of 3 s; at B2 from 4.5 to 6.5 s those of 5 and 6 s
    assert result.metrics.deliveries == without.deliveries + 3
    assert result.metrics.matched_brokers == without.matched_brokers + 2
    assert result.clients == 5


def test_the_run_keeps_its_longest_queue() -> None:
    """Six subscriptions wait at B3 at once, before measuring begins; later never as many."""
    steps = [
        *(
            {"at_s": 2.5, "client": "bob", "subscribe": f"a > {n}", "name": f"n{n}"}
            for n in range(6)
        ),
        *DATA["step"],
    ]
    result = run_scenario(scenario_of({**DATA, "step": sorted(steps, key=lambda s: s["at_s"])}))
    assert result.ok, result.violations
    assert result.measures is not None
    assert result.measures.groups["all"].peak_queue < 6
    assert result.metrics.peak_queue >= 6
