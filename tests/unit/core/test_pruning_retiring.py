"""Preserved subscriptions are retired in small steps, here and when another broker retires them."""

import pytest

from byway.core.inputs import LoadSampled
from byway.core.invariants import validate
from byway.model.messages import Subscribe
from tests.lone_broker import Lone, entry, subscribe
from tests.unit.core.pruning_scenes import (
    CONGESTED,
    RELIEVED,
    SECOND_US,
    P,
    S,
    done,
    fed,
    gone,
    narrow,
    preserved,
    preserving,
    retired,
    sends,
    settled,
    stops_with,
    tick,
    unadvertised_by,
    until_retired,
    with_burst,
    woken_at,
)


def test_a_few_at_a_time_then_itself():
    lone = preserving(5, stops_with(retire_batch=2))
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [*(narrow(n) for n in range(5)), retired("S")]
    assert sends(steps)[:3] == [2, 2, 1]
    assert lone.broker.counters.triggered == 5
    assert lone.broker.counters.retired == 1
    assert tick(lone) == []


def test_each_step_is_an_interval_after_the_last():
    lone = preserving(3, stops_with(retire_batch=1, retire_interval_us=700))
    assert tick(lone, 700) == [woken_at(lone, 700), ("C", narrow(0))]


def test_with_nothing_behind_it_goes_at_once():
    lone = preserving()
    lone.receive("D", gone("n000"))
    assert tick(lone) == [("C", retired("S"))]


def test_each_is_preserved_for_a_while():
    """However much is unsubscribed meanwhile."""
    lone = preserving(1, stops_with(retire_after_us=3 * SECOND_US))
    assert tick(lone) == [woken_at(lone)]
    lone.receive("A", subscribe("x", "p < 1"))
    lone.receive("D", subscribe("behind x", "p < 1 AND q = 1"))
    lone.receive("C", settled("x"))
    lone.receive("A", gone("x", P=(0, 0)))
    assert preserved(lone) == {"S": "C", "x": "C"}
    assert tick(lone) == [woken_at(lone)]
    assert tick(lone) == [woken_at(lone), ("C", narrow(0), retired("S"))]
    assert tick(lone) == [("C", subscribe("behind x", "p < 1 AND q = 1"), retired("x"))]


def test_one_whose_retirement_is_stopped_stays_for_a_while_again():
    lone = with_burst(3, stops_with(retire_batch=2, retire_after_us=2 * SECOND_US))
    lone.now_us = 10 * SECOND_US
    lone.receive("A", retired("S"))
    assert tick(lone) == [woken_at(lone)]
    assert tick(lone)[-1] == ("C", narrow(0), narrow(1))


def test_steady_churn_does_not_pile_up():
    """One that is stopped each second, for two minutes: a few are preserved at any time."""
    lone = fed(stops_with(retire_after_us=5 * SECOND_US))
    for number in range(120):
        lone.receive("A", subscribe(f"w{number}", f"p = {number + 1}"))
        lone.receive("D", subscribe(f"n{number}", f"p = {number + 1} AND q = 1"))
        lone.receive("C", settled(f"w{number}"))
        lone.receive("A", gone(f"w{number}", P=(0, 0)))
        tick(lone)
        assert len(lone.broker.placeholders) < 10
    assert lone.broker.counters.retired > 100


@pytest.mark.parametrize("queued", [0, 99])
def test_with_too_many_preserved_nothing_is_stopped_or_postponed(queued):
    lone = preserving(1, stops_with(preserved_max=1, congestion_queue=10))
    lone.receive("A", subscribe("x", "p < 2"))
    lone.receive("D", subscribe("behind x", "p < 1 AND q = 1"))
    lone.receive("C", settled("x"))
    lone.handle(LoadSampled(queued))
    told = done(lone.receive("A", gone("x", P=(0, 0))))
    assert told == [("C", subscribe("behind x", "p < 1 AND q = 1"), gone("x", P=(0, 0)))]
    assert preserved(lone) == {"S": "C"}


def test_never_with_a_batch_of_none():
    lone = preserving(1, stops_with(retire_batch=0))
    assert tick(lone) == []
    assert preserved(lone) == {"S": "C"}


def test_of_equal_ones_one_is_sent():
    lone = preserving()
    lone.receive("D", *[subscribe(f"e{number}", "p = 5") for number in range(9)])
    steps = until_retired(lone)
    assert sends(steps)[0] == sum(sends(steps)) == 1


def test_one_with_the_same_filter_takes_its_place():
    """Nothing else need be sent, and the filter is not taken back for a moment."""
    lone = preserving(3)
    lone.receive("D", subscribe("same", "p > 1"))
    assert tick(lone) == [("C", subscribe("same", "p > 1"), retired("S"))]


def test_what_others_stand_for_is_not_sent():
    lone = preserving()
    half = subscribe("half", "p > 4 AND q = 1")
    lone.receive("D", subscribe("behind", "p > 6 AND q = 1"), half)
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [half, narrow(0), retired("S")]


def test_only_the_broadest_are_sent():
    lone = preserving()
    lone.receive("D", *[subscribe(f"c{n}", f"p > {n}") for n in (9, 3, 7, 2, 5)])
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [subscribe("c2", "p > 2"), retired("S")]


def test_what_does_not_concern_the_link_is_not_sent():
    """It came from there, or nothing there feeds it."""
    lone = preserving()
    lone.receive("C", subscribe("of C", "p > 8"))
    lone.receive("D", subscribe("nothing", "p > 8 AND q = 1"))
    lone.receive("C", unadvertised_by(P))
    assert preserved(lone) == {}
    again = preserving()
    again.receive("C", subscribe("of C", "p > 8"))
    assert [m for step in until_retired(again) for m in step] == [narrow(0), retired("S")]


def test_it_waits_for_the_answer_of_its_own():
    """Until the neighbour has settled S, what follows S would not be told."""
    lone = fed()
    lone.receive("A", S)
    lone.receive("D", narrow(0))
    lone.receive("A", gone("S", P=(0, 0)))
    assert tick(lone) == [woken_at(lone)]
    lone.receive("C", settled("S"))
    assert narrow(0) in tick(lone)[-1]


def test_several_share_one_budget():
    config = stops_with(retire_batch=3)
    lone = fed(config)
    for wide in range(3):
        lone.receive("A", subscribe(f"w{wide}", f"p > 1 AND q = {wide}"))
        lone.receive("D", *[
            subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(4)
        ])  # fmt: skip
    names = [f"w{wide}" for wide in range(3)]
    lone.receive("C", settled(*names))
    lone.receive("A", gone(*names, P=(0, 0)))
    assert preserved(lone) == dict.fromkeys(names, "C")
    steps = until_retired(lone)
    assert sum(sends(steps)) == 12
    assert max(sends(steps)) == 3


def test_one_that_arrives_between_two_steps_is_sent_too():
    lone = preserving(3, stops_with(retire_batch=1))
    tick(lone)
    late = subscribe("late", "p = 4")
    lone.receive("D", late)
    steps = until_retired(lone)
    assert late in [m for step in steps for m in step]


def test_one_that_leaves_between_two_steps_is_not_sent():
    lone = preserving(3, stops_with(retire_batch=1))
    tick(lone)
    lone.receive("D", gone("n002"))
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [narrow(1), retired("S")]


LONG = 300
"""More than are looked at in one step."""


def long_retirement() -> Lone:
    """S is preserved. Behind it are, in this order, one that is free again, many behind `low` and
    many behind `high`, which are sent; the round is half way."""
    lone = fed(stops_with(retire_batch=2))
    lone.receive("D", subscribe("free", "r > 0"))
    lone.receive("A", S)
    lone.receive("D", subscribe("low", "p = 3"), subscribe("high", "p = 4"))
    for name, value in (("l", 3), ("h", 4)):
        lone.receive("D", *[
            subscribe(f"{name}{n:03}", f"p = {value} AND q = {n}") for n in range(LONG)
        ])  # fmt: skip
    lone.receive("C", settled("S", "free"))
    lone.receive("A", gone("S", P=(0, 0)))
    assert tick(lone)[-1] == ("C", subscribe("low", "p = 3"), subscribe("high", "p = 4"))
    lone.receive("C", settled("low", "high"))
    tick(lone)
    tick(lone)
    assert preserved(lone) == {"S": "C"}
    return lone


def test_one_that_stood_for_what_was_looked_at_goes_in_the_middle_of_a_round():
    lone = long_retirement()
    lone.receive("D", gone("low"))
    for _ in range(3):
        tick(lone)
        assert validate(lone.broker) == []


def test_one_that_comes_in_the_middle_of_a_round_is_found():
    """It has a key that was free, below where the round is."""
    lone = long_retirement()
    lone.receive("D", gone("free"))
    lone.receive("D", subscribe("late", "p = 9"))
    for _ in range(6):
        tick(lone)
        assert validate(lone.broker) == []
    assert lone.broker.subscriptions.get(entry("late")).forwarded == {"C"}


@pytest.mark.parametrize("steps", [1, 2])
def test_two_that_stand_for_the_same_do_not_both_go(steps):
    """The round of one is half way, past what the other one stands for too; then that one goes."""
    lone = fed(stops_with((0, 0), retire_batch=2))
    first = subscribe("first", "r > 0")
    both = subscribe("both", "p = 2 AND r = 1")
    lone.receive("A", first, S)
    lone.receive("D", both, subscribe("low", "p = 3"), subscribe("high", "p = 4"))
    for value in (3, 4):
        many = [subscribe(f"n{value}{n:03}", f"p = {value} AND q = {n}") for n in range(LONG)]
        lone.receive("D", *many)
    lone.receive("C", settled("S"))
    lone.receive("A", gone("first", P=(0, 0)))
    lone.receive("A", gone("S", P=(0, 0)))
    tick(lone)
    lone.receive("C", settled("low", "high"))
    for _ in range(steps):
        tick(lone)
    assert preserved(lone) == {"first": "C", "S": "C"}
    lone.receive("C", settled("first"))
    for _ in range(9):
        tick(lone)
        assert validate(lone.broker) == []
    assert preserved(lone) == {}
    assert lone.broker.subscriptions.get(both.id).forwarded == {"C"}


def test_a_round_over_many_that_are_covered_ends():
    lone = long_retirement()
    steps = until_retired(lone, 5)
    assert [m for step in steps for m in step] == [retired("S")]


def test_a_small_burst_lets_retirement_pass():
    lone = with_burst(2, stops_with(retire_batch=2))
    assert done(lone.receive("A", retired("S"))) == [("C", narrow(0), narrow(1), retired("S"))]
    assert preserved(lone) == {}


def test_a_large_burst_stops_retirement():
    lone = with_burst(3, stops_with(retire_batch=2))
    assert done(lone.receive("A", retired("S"))) == [woken_at(lone)]
    assert preserved(lone) == {"S": "C"}
    assert max(sends(until_retired(lone))) == 2


def test_what_a_step_sent_counts_for_what_comes_after_it():
    """One budget an interval, for what is preserved here and what is retired elsewhere."""
    lone = preserving(3, stops_with(retire_batch=2))
    lone.receive("A", subscribe("x", "q > 0"))
    lone.receive("D", subscribe("behind x", "q > 5"))
    lone.receive("C", settled("x"))
    assert tick(lone)[-1] == ("C", narrow(0), narrow(1))
    assert done(lone.receive("A", retired("x"))) == []
    assert preserved(lone) == {"S": "C", "x": "C"}


def test_many_that_are_retired_together_are_no_burst():
    """Each releases little, all together much; in one message or in several."""
    for together in (True, False):
        lone = fed(stops_with(retire_batch=4))
        names = [f"w{wide}" for wide in range(6)]
        for wide, name in enumerate(names):
            lone.receive("A", subscribe(name, f"p > 1 AND q = {wide}"))
            lone.receive("D", *[
                subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(3)
            ])  # fmt: skip
        lone.receive("C", settled(*names))
        messages = [retired(*names)] if together else [retired(name) for name in names]
        told = [m for message in messages for a in done(lone.receive("A", message))
                if isinstance(a, tuple) for m in a[1:]]  # fmt: skip
        assert sum(isinstance(m, Subscribe) for m in told) <= 4
        steps = until_retired(lone)
        assert max(sends(steps)) <= 4
        assert sum(sends([told, *steps])) == 18


def test_unsubscriptions_that_were_postponed_go_on_a_few_at_a_time():
    """As many as make up a batch; the last of them may go beyond it."""
    lone = fed(stops_with(retire_batch=4, congestion_queue=10))
    names = [f"w{wide}" for wide in range(6)]
    for wide, name in enumerate(names):
        lone.receive("A", subscribe(name, f"p > 1 AND q = {wide}"))
        narrower = [subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(3)]
        lone.receive("D", *narrower)
    lone.receive("C", settled(*names))
    lone.handle(CONGESTED)
    lone.receive("A", gone(*names, P=(3, 3)))
    lone.handle(RELIEVED)
    assert sends(until_retired(lone)) == [6, 6, 6]


def test_many_that_were_postponed_are_no_burst():
    lone = fed(stops_with((9, 9), retire_batch=4, congestion_queue=10))
    names = [f"w{wide}" for wide in range(6)]
    for wide, name in enumerate(names):
        lone.receive("A", subscribe(name, f"p > 1 AND q = {wide}"))
        lone.receive("D", *[
            subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(3)
        ])  # fmt: skip
    lone.receive("C", settled(*names))
    lone.handle(CONGESTED)
    lone.receive("A", retired(*names))
    lone.handle(RELIEVED)
    steps = until_retired(lone)
    assert max(sends(steps)) <= 4
    assert sum(sends(steps)) == 18
