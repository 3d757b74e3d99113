"""The clock calls in the order of time, then of scheduling, whichever heap a call waits in."""

import pytest

from byway.sim.engine.sim_clock import Clock


def test_ties_go_by_order_of_scheduling():
    clock, seen = Clock(), []
    clock.at(5, seen.append, "later")
    clock.at(3, seen.append, "first")
    clock.background_at(3, seen.append, "second")
    clock.at(3, seen.append, "third")
    clock.run(4)
    assert (seen, clock.now_us) == (["first", "second", "third"], 4)
    clock.run(5)
    assert (seen[3:], clock.now_us) == (["later"], 5)


def test_what_is_called_can_schedule_for_now():
    clock, seen = Clock(), []
    clock.at(1, lambda _: clock.at(1, seen.append, "same time"))
    clock.run(1)
    assert seen == ["same time"]


def test_the_past_is_refused():
    clock = Clock()
    clock.run(10)
    for schedule in (clock.at, clock.background_at):
        with pytest.raises(AssertionError, match="9 us has passed"):
            schedule(9, print)


def test_the_background_is_served_until_the_foreground_is_empty():
    clock, seen = Clock(), []
    clock.background_at(1, seen.append, "background")
    clock.at(2, seen.append, "under way")
    clock.background_at(3, seen.append, "never")
    assert clock.run_to_rest(100)
    assert (seen, clock.now_us) == (["background", "under way"], 2)
    assert clock.next_us == 3


def test_rest_may_come_after_the_time_that_is_given():
    clock = Clock()
    clock.at(20, print)
    assert not clock.run_to_rest(10)
    assert clock.next_us == 20
