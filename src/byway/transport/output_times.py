"""What was sent over a connection, and how long data frames waited for the peer to read.

The mean wait is the mean number of messages that wait, over the rate at which they are sent
(Little's law), so that nothing has to be kept for each message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class OutputSample(NamedTuple):
    """What was sent since the last sample."""

    bytes: int
    waited_us: int
    """Mean time that a data message waited for the peer to read."""
    service_us: int
    """Mean time between two data messages while the peer did not read all that was due."""


class OutputTimes:
    """What is sent over one connection. `now` is a clock in seconds."""

    __slots__ = ("_area_s", "_blocked_s", "_now", "_since", "_waiting", "bytes", "messages")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.bytes = 0
        """Bytes written since the last sample."""
        self.messages = 0
        """Data messages written since the last sample."""
        self._waiting = 0
        self._since = 0.0
        self._area_s = 0.0
        self._blocked_s = 0.0

    def waits(self, messages: int) -> None:
        """So many data messages wait from now on."""
        now = self._now()
        if self._waiting:
            self._area_s += self._waiting * (now - self._since)
            self._blocked_s += now - self._since
        self._waiting, self._since = messages, now

    def sample(self) -> OutputSample:
        """What was sent since the last sample. Messages that still wait count as sent now, so that
        a peer that does not read at all is seen to be slow."""
        self.waits(self._waiting)
        sent = self.messages + self._waiting
        found = OutputSample(
            self.bytes,
            round(self._area_s / sent * 1e6) if sent else 0,
            round(self._blocked_s / max(self.messages, 1) * 1e6),
        )
        self.bytes = self.messages = 0
        self._area_s = self._blocked_s = 0.0
        return found
