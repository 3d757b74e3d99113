"""The clock: simulated time, and the events that are scheduled, in order of time and scheduling.

There are two heaps of events. The *foreground* holds what is under way: when it is empty, the world
is at rest. The *background* holds what nobody waits for: samples, timers, sessions that may end.
The clock knows nothing of the functions that it calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Event = tuple[int, int, Callable[[Any], None], Any]
"""Time, number in the order of scheduling, and the function with its argument."""


class Clock:
    """The time in integer microseconds, and the events to come."""

    __slots__ = ("background", "foreground", "now_us", "order")

    def __init__(self) -> None:
        self.now_us = 0
        self.foreground: list[Event] = []
        self.background: list[Event] = []
        self.order = itertools.count().__next__

    def __repr__(self) -> str:
        return (
            f"<Clock at {self.now_us / 1e6:.6f} s: {len(self.foreground)} under way, "
            f"{len(self.background)} in the background>"
        )

    def at(self, t_us: int, function: Callable[[Any], None], argument: Any = None) -> None:
        """Schedule a call in the foreground, at a time that has not passed."""
        assert t_us >= self.now_us, f"{t_us} us has passed: it is {self.now_us} us"
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
    def next_us(self) -> int | None:
        """The time of the next event; None: there is none."""
        heads = [heap[0][0] for heap in (self.foreground, self.background) if heap]
        return min(heads, default=None)

    def step(self) -> None:
        """Run the next event, of which there must be one."""
        foreground, background = self.foreground, self.background
        is_next = foreground and (not background or foreground[0] < background[0])
        self.now_us, _, function, argument = heappop(foreground if is_next else background)
        function(argument)

    def run(self, until_us: int) -> None:
        """Run all events up to a time, that time included; then it is that time."""
        self._go(until_us, at_rest=False)
        self.now_us = max(self.now_us, until_us)

    def run_to_rest(self, until_us: int) -> bool:
        """Run events up to a time or until the foreground is empty. Returns whether it is."""
        self._go(until_us, at_rest=True)
        return not self.foreground

    def _go(self, until_us: int, *, at_rest: bool) -> None:
        foreground, background = self.foreground, self.background
        pop = heappop
        while True:
            if foreground and (not background or foreground[0] < background[0]):
                heap = foreground
            elif background and not (at_rest and not foreground):
                heap = background
            else:
                return
            t_us, _, function, argument = heap[0]
            if t_us > until_us:
                return
            pop(heap)
            self.now_us = t_us
            function(argument)
