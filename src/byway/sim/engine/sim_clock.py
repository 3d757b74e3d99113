"""The clock: simulated time, and the events that are scheduled, in order of time and scheduling.

The *foreground* holds what is under way: when it is empty, the world is at rest. The *background*
holds what nobody waits for: samples, timers, sessions that may end.
Events of the foreground stand in line by their time, so that only times are in a heap: when a time
comes, its line is the *present* one, and what is scheduled for now joins it.
The clock knows nothing of the functions that it calls.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Event = tuple[int, int, Callable[[Any], None], Any]
"""Time, number in the order of scheduling, and the function with its argument."""


class Clock:
    """The time in integer microseconds, and the events to come."""

    __slots__ = ("_may_be_due", "background", "later", "now_us", "order", "present", "times")

    def __init__(self) -> None:
        self.now_us = 0
        self.present: deque[Event] = deque()
        """Events of the foreground for the present time, in order."""
        self.later: dict[int, list[Event]] = {}
        """By later time, events of the foreground, in order."""
        self.times: list[int] = []
        """The times in `later`, a heap."""
        self.background: list[Event] = []
        self._may_be_due = False
        """Whether an event of the background may be one of the present time; mostly none is."""
        self.order = itertools.count().__next__

    def __repr__(self) -> str:
        return (
            f"<Clock at {self.now_us / 1e6:.6f} s: {self.under_way} under way, "
            f"{len(self.background)} in the background>"
        )

    @property
    def under_way(self) -> int:
        """The number of events in the foreground."""
        return len(self.present) + sum(map(len, self.later.values()))

    def at(self, t_us: int, function: Callable[[Any], None], argument: Any = None) -> None:
        """Schedule a call in the foreground, at a time that has not passed."""
        now_us = self.now_us
        assert t_us >= now_us, f"{t_us} us has passed: it is {now_us} us"
        event = t_us, self.order(), function, argument
        if t_us == now_us:
            self.present.append(event)
        elif t_us in self.later:
            self.later[t_us].append(event)
        else:
            self.later[t_us] = [event]
            heappush(self.times, t_us)

    def first_at(self, t_us: int, function: Callable[[Any], None], argument: Any = None) -> None:
        """Schedule a call in the foreground, before all others of that time."""
        assert t_us >= self.now_us, f"{t_us} us has passed: it is {self.now_us} us"
        event = t_us, -1 - self.order(), function, argument
        if t_us == self.now_us:
            self.present.appendleft(event)
        elif t_us in self.later:
            self.later[t_us].insert(0, event)
        else:
            self.later[t_us] = [event]
            heappush(self.times, t_us)

    def background_at(
        self, t_us: int, function: Callable[[Any], None], argument: Any = None
    ) -> None:
        """Schedule a call in the background, at a time that has not passed."""
        assert t_us >= self.now_us, f"{t_us} us has passed: it is {self.now_us} us"
        if t_us == self.now_us:
            self._may_be_due = True
        heappush(self.background, (t_us, self.order(), function, argument))

    @property
    def is_at_rest(self) -> bool:
        """Whether the foreground is empty."""
        return not self.present and not self.times

    @property
    def next_us(self) -> int | None:
        """The time of the next event; None: there is none."""
        heads = self.times[:1]
        heads += [queue[0][0] for queue in (self.present, self.background) if queue]
        return min(heads, default=None)

    def step(self) -> None:
        """Run the next event, of which there must be one."""
        if self.next_us in self.later:
            self._begin_time()
        if self.present and not (self.background and self.background[0] < self.present[0]):
            event = self.present.popleft()
        else:
            event = heappop(self.background)
        self.now_us, _, function, argument = event
        function(argument)

    def run(self, until_us: int) -> None:
        """Run all events up to a time, that time included; then it is that time."""
        self._go(until_us, at_rest=False)
        self.now_us = max(self.now_us, until_us)

    def run_to_rest(self, until_us: int) -> bool:
        """Run events up to a time or until the foreground is empty. Returns whether it is."""
        self._go(until_us, at_rest=True)
        return self.is_at_rest

    def _go(self, until_us: int, *, at_rest: bool) -> None:
        background, times, present = self.background, self.times, self.present
        take, is_over = present.popleft, self.now_us > until_us
        self._may_be_due = True
        while not is_over:
            while present:
                if self._may_be_due and self._background_is_first():
                    _, _, function, argument = heappop(background)
                else:
                    _, _, function, argument = take()
                function(argument)
            if times and not (background and background[0][0] < times[0]):
                is_over = times[0] > until_us
                if not is_over:
                    self._begin_time()
            elif background and (times or not at_rest):
                is_over = background[0][0] > until_us
                if not is_over:
                    self.now_us, _, function, argument = heappop(background)
                    self._may_be_due = True
                    function(argument)
            else:
                return

    def _background_is_first(self) -> bool:
        """Whether an event of the background comes before all that are present."""
        background = self.background
        self._may_be_due = bool(background) and background[0][0] == self.now_us
        return self._may_be_due and background[0] < self.present[0]

    def _begin_time(self) -> None:
        """The next time of the foreground is now: nothing comes before."""
        self.now_us = t_us = heappop(self.times)
        self._may_be_due = True
        self.present.extend(self.later.pop(t_us))
