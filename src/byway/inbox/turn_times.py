"""How long messages wait in an inbox, and how long the broker takes for one, on average.

Measured by Little's law: the mean wait is the mean number that waits, over the rate at which they
are taken. Both drivers say when something comes in while the broker is idle, and at each turn how
many waited and how many are left. Meanwhile the number is taken to grow evenly. It reads no clock.
"""

from __future__ import annotations


class TurnTimes:
    """The turns of one broker since the last sample."""

    __slots__ = ("_area", "_left", "_since_us", "_taken", "_worked_us")

    def __init__(self) -> None:
        self._left = 0
        """Messages that the last turn left."""
        self._since_us = 0
        """When that was, or when the broker was woken since."""
        self._area = 0
        """Twice the sum, over the time, of messages that waited."""
        self._taken = 0
        self._worked_us = 0

    def woken(self, now_us: int) -> None:
        """The broker was idle, and is going to have a turn."""
        self._area += 2 * self._left * (now_us - self._since_us)
        self._since_us = now_us

    def turn(self, now_us: int, waiting: int, left: int) -> None:
        """A turn begins: of the messages that waited so many are left."""
        self._area += (self._left + waiting) * (now_us - self._since_us)
        self._left, self._since_us = left, now_us
        self._taken += waiting - left

    def worked(self, duration_us: int) -> None:
        """The broker has worked, or is going to work, for so long."""
        self._worked_us += duration_us

    def sample(self) -> tuple[int, int]:
        """The mean wait and the mean service time of messages since the last sample; 0 if none was
        taken."""
        taken = self._taken
        means = (self._area // (2 * taken), self._worked_us // taken) if taken else (0, 0)
        self._area = self._taken = self._worked_us = 0
        return means
