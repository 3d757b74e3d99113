"""Retirement at one broker where much goes on besides, and under every policy that it reaches."""

import pytest

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import NeighbourRemoved, Started
from byway.core.invariants import validate
from byway.model.messages import Subscribe, SubscriptionsSettled, SubscriptionsSynced
from tests.lone_broker import Lone, entry, subscribe
from tests.unit.core.pruning_scenes import (
    SECOND_US,
    S,
    done,
    fed,
    gone,
    preserved,
    retired,
    sends,
    stops_with,
    tick,
    until_retired,
    with_burst,
)


def settle_all(lone: Lone) -> None:
    """C answers all that it was asked."""
    for e in [*lone.broker.subscriptions, *lone.broker.placeholders]:
        if "C" in e.awaiting:
            lone.receive("C", SubscriptionsSettled((e.id,) * e.awaiting["C"]))


def with_crowd(count: int) -> Lone:
    """S is preserved; so many that another one stands for, too, are behind it."""
    lone = fed(stops_with(retire_batch=20, retire_after_us=5 * SECOND_US))
    lone.receive("A", S)
    lone.receive("D", subscribe("low", "p = 3"))
    lone.receive("D", *[subscribe(f"l{n:04}", f"p = 3 AND q = {n}") for n in range(count)])
    settle_all(lone)
    lone.receive("A", gone("S", P=(0, 0)))
    assert preserved(lone) == {"S": "C"}
    return lone


@pytest.mark.parametrize("every_s", [1, 3])
def test_those_that_come_meanwhile_do_not_keep_one_for_ever(every_s):
    """A round takes longer than it takes the next one to come."""
    lone = with_crowd(1_000)
    for second in range(40):
        if second % every_s == 0:
            lone.receive("D", subscribe(f"new{second}", f"p = {second + 100}"))
        settle_all(lone)
        tick(lone)
        assert validate(lone.broker) == []
    assert preserved(lone) == {}


def test_one_with_many_behind_it_does_not_keep_others():
    lone = with_crowd(3_000)
    for second in range(60):
        wide = f"q = 5 AND r = {second}"
        lone.receive("A", subscribe(f"w{second}", wide))
        lone.receive("D", *[subscribe(f"n{second}x{n}", f"{wide} AND s = {n}") for n in range(5)])
        settle_all(lone)
        lone.receive("A", gone(f"w{second}", P=(0, 0)))
        settle_all(lone)
        tick(lone)
        assert len(lone.broker.placeholders) < 12
    for _ in range(30):
        settle_all(lone)
        tick(lone)
    assert preserved(lone) == {}


def test_one_that_needs_all_the_room_for_long_shares_it():
    """At a batch each interval it would have taken a hundred, and nobody else had gone."""
    lone = with_burst(400, stops_with(retire_batch=4))
    lone.receive("A", gone("S", P=(0, 0)))
    for second in range(30):
        wide = f"q = 5 AND r = {second}"
        lone.receive("A", subscribe(f"w{second}", wide))
        lone.receive("D", subscribe(f"n{second}", f"{wide} AND s = 1"))
        settle_all(lone)
        lone.receive("A", gone(f"w{second}", P=(0, 0)))
        tick(lone)
        assert "S" in preserved(lone)
        assert len(lone.broker.placeholders) < 8


def test_what_is_remembered_of_one_goes_with_it():
    """Retirement of each has begun when a broader one takes its place; one stays."""
    lone = fed(stops_with(retire_batch=1))
    policy = lone.broker.policy
    for number in range(20):
        wide = f"p > 1 AND q = {number}"
        lone.receive("A", subscribe(f"w{number}", wide))
        lone.receive("D", *[
            subscribe(f"n{number}x{n}", f"p = {n + 5} AND q = {number}") for n in range(4)
        ])  # fmt: skip
        settle_all(lone)
        lone.receive("A", gone(f"w{number}", P=(0, 0)))
        tick(lone)
        lone.receive("D", subscribe(f"b{number - 1}", f"p > 0 AND q = {number - 1}"))
        settle_all(lone)
    tick(lone)
    assert len(lone.broker.placeholders) == 1
    assert len(policy.snapshot().active.retirement.cursors) == 1


def test_a_clock_that_was_set_back_does_not_stop_it():
    config = stops_with(retire_batch=2, retire_after_us=5 * SECOND_US)
    lone = with_burst(30, config)
    lone.now_us = 10_000 * SECOND_US
    lone.receive("A", gone("S", P=(0, 0)))
    tick(lone)
    links = lone.broker.neighbours
    lone.broker = Broker.restore(lone.broker.snapshot(), config, up=links)
    lone.now_us = 6_400 * SECOND_US
    lone.handle(Started())
    sent = [m for _ in range(10) for a in tick(lone) if isinstance(a, tuple) for m in a[1:]]
    assert any(isinstance(message, Subscribe) for message in sent)


# --- under other policies -----------------------------------------------------------------------


@pytest.mark.parametrize("covering", ["active", "packing", "lazy"])
def test_a_neighbour_that_prunes_sets_off_no_burst_elsewhere(covering):
    config = BrokerConfig(covering=covering, retire_batch=4, retire_after_us=0)
    lone = with_burst(30, config)
    first = [m for a in done(lone.receive("A", retired("S"))) if isinstance(a, tuple) for m in a]
    assert not any(isinstance(message, Subscribe) for message in first)
    steps = until_retired(lone)
    sent = [getattr(m, "subscriptions", (m,)) for step in steps for m in step]
    names = [m.id.name for some in sent for m in some if isinstance(m, Subscribe)]
    assert names == [f"n{number:03}" for number in range(30)]
    assert len(steps) == 8
    assert steps[-1][-1] == retired("S")


@pytest.mark.parametrize("covering", ["active", "packing", "lazy"])
def test_where_nothing_is_retired_it_goes_at_once(covering):
    lone = with_burst(30, BrokerConfig(covering=covering, retire_batch=0))
    lone.receive("A", retired("S"))
    assert preserved(lone) == {}


# --- after a crash ------------------------------------------------------------------------------


def test_a_neighbour_that_forgot_sets_off_no_burst():
    lone = with_burst(30, stops_with(retire_batch=4))
    told = done(lone.receive("A", SubscriptionsSynced(ended=(entry("S"),), partial=True)))
    assert not [m for a in told if isinstance(a, tuple) for m in a if isinstance(m, Subscribe)]
    assert preserved(lone) == {"S": "C"}
    assert sends(until_retired(lone)) == [4] * 7 + [2]


def test_a_neighbour_that_is_removed_sets_off_no_burst():
    lone = with_burst(30, stops_with(retire_batch=4))
    lone.handle(NeighbourRemoved("A"))
    assert preserved(lone) == {"S": "C"}
    assert sends(until_retired(lone)) == [4] * 7 + [2]


def test_with_nothing_behind_it_one_that_is_forgotten_goes_at_once():
    lone = with_burst(0, stops_with())
    lone.receive("A", SubscriptionsSynced(ended=(entry("S"),), partial=True))
    assert preserved(lone) == {}
