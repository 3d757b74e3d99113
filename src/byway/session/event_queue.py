"""The queue of a subscription: events that the application has not taken, within a bound.

At the bound a queue drops its oldest events or asks for deliveries to be held. It knows neither the
application nor the broker.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from byway.session.client_options import WhenFull
from byway.session.events import Event

UNDER_WAY_BYTES: Final = 16_777_216
"""Upper bound for the bytes between broker and client: buffers of both and of their systems."""
NO_EVENTS: Final[deque[Event]] = deque(maxlen=0)
"""Of every empty queue that has been emptied at once: a deque takes 760 bytes, and there may be
very many subscriptions that are waited for."""


class EventQueue:
    """Events of one subscription, oldest first."""

    __slots__ = (
        "_bytes_max", "_drops", "_messages_max", "bytes", "dropped", "events", "is_blocking"
    )  # fmt: skip

    def __init__(self, messages_max: int, bytes_max: int, when_full: WhenFull) -> None:
        self.events: deque[Event] = NO_EVENTS
        self.bytes = 0
        """Bytes of their bodies."""
        self.dropped = 0
        """Number of events dropped because the queue was full."""
        self.is_blocking = False
        """Whether deliveries are to be held until the application has taken events."""
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._drops = when_full == "drop_oldest"

    def __repr__(self) -> str:
        return f"<EventQueue of {len(self.events)} events, {self.dropped} dropped>"

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached its bound in messages or bytes."""
        return len(self.events) >= self._messages_max or self.bytes >= self._bytes_max

    @property
    def is_overfull(self) -> bool:
        """Whether more arrived than was under way when the broker was asked to hold deliveries."""
        return self.bytes >= self._bytes_max + UNDER_WAY_BYTES

    def put(self, event: Event, size_bytes: int) -> None:
        """Append an event, whose body has so many bytes; beyond the bound, drop the oldest ones or
        block."""
        events = self.events
        if events is NO_EVENTS:
            events = self.events = deque()
        events.append(event)
        self.bytes = bytes = self.bytes + size_bytes
        if len(events) >= self._messages_max or bytes >= self._bytes_max:
            self._has_filled()

    def _has_filled(self) -> None:
        """At the bound: drop the oldest events, or block until the application takes some."""
        if not self._drops:
            self.is_blocking = True
            return
        while len(self.events) > self._messages_max or self.bytes > self._bytes_max:
            self.bytes -= self.events.popleft().size_bytes
            self.dropped += 1

    def take(self) -> Event:
        """Remove and return the oldest event; there must be one."""
        event = self.events.popleft()
        self.bytes -= event.size_bytes
        return event

    def take_some(self, most: int) -> list[Event]:
        """Remove and return the oldest events, up to so many."""
        events = self.events
        if most < len(events):
            return [self.take() for _ in range(most)]
        taken = list(events)
        self.clear()
        return taken

    def clear(self) -> None:
        """Remove all events."""
        self.events = NO_EVENTS
        self.bytes = 0

    def unblocks(self) -> bool:
        """Whether the queue blocked, and is half empty now: then it blocks no longer."""
        if not self.is_blocking or (
            2 * len(self.events) > self._messages_max or 2 * self.bytes > self._bytes_max
        ):
            return False
        self.is_blocking = False
        return True
