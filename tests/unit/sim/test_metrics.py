"""Metrics: folding deliveries, and what follows from what was counted."""

import random

import pytest

from byway.core.counters import Counters
from byway.sim.run_metrics import Tally, Totals, metrics_of


def metrics(tally, totals):
    return metrics_of(
        publications=3,
        tally=tally,
        totals=totals,
        bytes_sent=None,
        peak_queue=4,
        table_entries=5,
        table_entries_peak=2,
        redelivered=0,
        lost_in_sessions=0,
    )


def test_percentiles_are_close_and_memory_is_bounded():
    rng = random.Random(1)
    delays = sorted(int(rng.expovariate(1 / 50_000)) for _ in range(20_000))
    tally = Tally()
    for delay_us in delays:
        tally.add(1, delay_us)
    for share in (0.01, 0.5, 0.95, 0.99, 1.0):
        exact = delays[max(round(share * len(delays)) - 1, 0)]
        assert exact * 63 / 64 - 1 <= tally.delay_us(share) <= exact
    assert tally.delay_us_max == delays[-1]
    assert len(tally._buckets) < 64 * 20


def test_small_delays_are_exact():
    tally = Tally()
    for delay_us in (0, 1, 2, 100):
        tally.add(0, delay_us)
    assert [tally.delay_us(share) for share in (0.25, 0.5, 0.75, 1)] == [0, 1, 2, 100]


def test_what_follows_from_counting():
    tally, totals, counters = Tally(), Totals(), Counters()
    tally.add(2, 1_000)
    tally.add(4, 3_000)
    counters.matched, counters.pure_forwarders, counters.false_positives = 3, 2, 1
    counters.publications_received = 6
    counters.publications_sent = {"B": 3, "C": 4}
    counters.control_sent = {("B", "sub"): 3, ("C", "sub"): 1, ("C", "subs"): 1, ("C", "adv"): 2}
    counters.subscriptions_sent = {"B": 3, "C": 6}
    totals.add(counters)
    totals.add(counters)
    before = totals.copy()
    totals.add(counters)
    found = metrics(tally, before)
    assert (found.deliveries, found.mean_hops, found.mean_delay_ms) == (2, 3.0, 2.0)
    assert (found.matched_brokers, found.pure_forwarders, found.yield_) == (6, 4, 0.6)
    assert (found.false_positives, found.deliveries_by_hops) == (2, {"2": 1, "4": 1})
    assert list(found.messages.items()) == [("adv", 4), ("pub", 14), ("sub", 8), ("subs", 2)]
    assert (found.messages_total, found.publication_hops, found.subscription_hops) == (28, 12, 18)
    assert (found.table_entries, found.table_entries_peak, found.peak_queue) == (5, 5, 4)
    assert found.delay_ms_max == 3.0


def test_nothing_happened():
    found = metrics(Tally(), Totals())
    assert found.deliveries == 0
    for value in (found.yield_, found.mean_hops, found.mean_delay_ms, found.delay_ms_p99):
        assert value is None
    assert found.messages == {}


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_no_delay_without_deliveries(share):
    assert Tally().delay_us(share) == 0
