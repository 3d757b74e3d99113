"""The clock: simulated time, and the events that are scheduled, in order of time and scheduling.

There are two heaps of events. The *foreground* holds what is under way: when it is empty, the world
is at rest. The *background* holds what nobody waits for: samples, timers, sessions that may end.
What is scheduled in the foreground for the present time, as every turn of a broker is, needs no
heap: it stands in line.
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

    __slots__ = ("background", "foreground", "now_us", "order", "present")

    def __init__(self) -> None:
        self.now_us = 0
        self.foreground: list[Event] = []
        self.background: list[Event] = []
        self.present: deque[Event] = deque()
        """Events of the foreground that were scheduled for the present time, in order."""
        self.order = itertools.count().__next__

    def __repr__(self) -> str:
        return (
            f"<Clock at {self.now_us / 1e6:.6f} s: "
            f"{len(self.foreground) + len(self.present)} under way, "
            f"{len(self.background)} in the background>"
        )

    def at(self, t_us: int, function: Callable[[Any], None], argument: Any = None) -> None:
        """Schedule a call in the foreground, at a time that has not passed."""
        now_us = self.now_us
        assert t_us >= now_us, f"{t_us} us has passed: it is {now_us} us"
        if t_us == now_us:
            self.present.append((t_us, self.order(), function, argument))
        else:
            heappush(self.foreground, (t_us, self.order(), function, argument))

    def first_at(self, t_us: int, function: Callable[[Any], None], argument: Any = None) -> None:
        """Schedule a call in the foreground, before all others of that time."""
        assert t_us >= self.now_us, f"{t_us} us has passed: it is {self.now_us} us"
        heappush(self.foreground, (t_us, -1 - self.order(), function, argument))

    def background_at(
        self, t_us: int, function: Callable[[Any], None], argument: Any = None
    ) -> None:
        """Schedule a call in the background, at a time that has not passed."""
        assert t_us >= self.now_us, f"{t_us} us has passed: it is {self.now_us} us"
        heappush(self.background, (t_us, self.order(), function, argument))

    @property
    def is_at_rest(self) -> bool:
        """Whether the foreground is empty."""
        return not self.foreground and not self.present

    @property
    def next_us(self) -> int | None:
        """The time of the next event; None: there is none."""
        queues = (self.present, self.foreground, self.background)
        heads = [queue[0][0] for queue in queues if queue]
        return min(heads, default=None)

    def step(self) -> None:
        """Run the next event, of which there must be one."""
        queues = (self.present, self.foreground, self.background)
        first = min(queue[0] for queue in queues if queue)
        if self.present and first is self.present[0]:
            self.present.popleft()
        else:
            is_next = self.foreground and first is self.foreground[0]
            heappop(self.foreground if is_next else self.background)
        self.now_us, _, function, argument = first
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
        foreground, background, present = self.foreground, self.background, self.present
        pop, pop_present = heappop, present.popleft
        while True:
            if present and not (foreground and foreground[0] < present[0]):
                event, heap = present[0], None
            elif foreground:
                event, heap = foreground[0], foreground
            elif background and not at_rest:
                event, heap = background[0], background
            else:
                return
            if background and background[0] < event:
                event, heap = background[0], background
            t_us, _, function, argument = event
            if t_us > until_us:
                return
            if heap is None:
                pop_present()
            else:
                pop(heap)
            self.now_us = t_us
            function(argument)
