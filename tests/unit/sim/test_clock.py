"""The clock calls in the order of time, then of scheduling, wherever a call waits."""

from itertools import count
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("in_steps", [False, True])
def test_what_is_scheduled_for_now_comes_after_all_that_was_scheduled_before(in_steps):
    clock, seen = Clock(), []

    def begin(_):
        clock.at(1, seen.append, "fourth")
        clock.background_at(1, seen.append, "fifth")
        clock.at(1, seen.append, "sixth")
        clock.first_at(1, seen.append, "first")
        clock.at(2, seen.append, "seventh")
        assert not clock.is_at_rest

    clock.at(1, begin)
    clock.at(1, seen.append, "second")
    clock.background_at(1, seen.append, "third")
    if in_steps:
        for _ in range(8):
            clock.step()
    else:
        clock.run(2)
    assert seen == ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"]
    assert clock.is_at_rest
    assert clock.next_us is None


@pytest.mark.parametrize("in_steps", [False, True])
def test_the_background_has_its_turn_among_what_is_present(in_steps):
    """Whenever it comes to be due: with the time, from the foreground, from the background."""
    clock, seen = Clock(), []

    def third(_):
        clock.background_at(3, seen.append, "fourth")
        clock.at(3, seen.append, "fifth")

    clock.at(1, seen.append, "zeroth")
    clock.at(2, seen.append, "first")
    clock.background_at(2, seen.append, "second")
    clock.at(2, seen.append, "after it")
    clock.at(3, third)
    clock.background_at(5, lambda _: clock.at(5, seen.append, "last"))
    clock.background_at(5, seen.append, "sixth")
    if in_steps:
        for _ in range(8):
            clock.step()
    clock.run(9)
    assert seen == [
        "zeroth", "first", "second", "after it", "fourth", "fifth", "sixth", "last",
    ]  # fmt: skip


def test_a_run_goes_on_amid_a_time():
    clock, seen = Clock(), []
    clock.at(1, seen.append, "first")
    clock.run(1)
    clock.background_at(2, lambda _: clock.at(2, seen.append, "third"))
    clock.background_at(2, seen.append, "second")
    clock.step()
    clock.run(2)
    assert seen == ["first", "second", "third"]


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


class NaiveClock:
    """Looks for the first of all events each time."""

    def __init__(self):
        self.now_us, self.events, self.order = 0, [], count()

    def at(self, t_us, function, argument):
        self.events.append((t_us, next(self.order), function, argument))

    background_at = at

    def first_at(self, t_us, function, argument):
        self.events.append((t_us, -1 - next(self.order), function, argument))

    def step(self):
        event = min(self.events, key=itemgetter(0, 1))
        self.events.remove(event)
        self.now_us, _, function, argument = event
        function(argument)

    def run(self, until_us):
        while self.events and min(event[0] for event in self.events) <= until_us:
            self.step()
        self.now_us = until_us


def called(clock, plan, lengths_us):
    """What a clock calls and when, where each call schedules those that follow it in the plan."""
    seen = []

    def schedule(number):
        for kind, after_us, following in plan[number % len(plan)]:
            if len(seen) < 200:
                getattr(clock, kind)(clock.now_us + after_us, call, number + following)

    def call(number):
        seen.append((clock.now_us, number))
        schedule(number)

    schedule(0)
    until_us = 0
    for length_us in lengths_us:
        until_us += length_us
        clock.run(until_us)
    return seen


EVENTS = st.tuples(
    st.sampled_from(["at", "first_at", "background_at"]), st.integers(0, 3), st.integers(1, 4)
)


@given(
    st.lists(st.lists(EVENTS, max_size=3), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_events_are_called_as_by_a_naive_clock(plan, lengths_us):
    assert called(Clock(), plan, lengths_us) == called(NaiveClock(), plan, lengths_us)
