"""Drives one broker: gathers inputs, hands them in together, keeps them if there is a place to, and
has done what the broker says.

It decides when the broker works and on how much at a time: control before data, data only while
there is room for its copies, a turn for everyone. It opens no connection itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import Any, Final, Protocol

from byway.core.actions import (
    Action,
    CancelTimer,
    CloseLink,
    OpenLink,
    Send,
    SetTimer,
    Tell,
    Timer,
)
from byway.core.broker import Broker
from byway.core.inputs import ClientRequested, FrameReceived, Input, TimerFired
from byway.model.messages import Frame, PublishRequest, Reply

TURN_MESSAGES: Final = 1_024
"""Data messages taken in one turn; then connections are served."""

_WALL_NS: Final = time_ns() - monotonic_ns()


def now_us() -> int:
    """Microseconds since 1970; it never goes back while a process lives."""
    return (_WALL_NS + monotonic_ns()) // 1_000


class Hands(Protocol):
    """Whoever has connections and does what the broker says."""

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour, if it is connected."""

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Tell a client, if it is connected."""

    def open_link(self, link: str) -> None:
        """Try to reach a neighbour."""

    def close_link(self, link: str, reason: str) -> None:
        """Drop a neighbour's connection."""


class Journal(Protocol):
    """Where inputs are kept before anything is done about them."""

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Keep inputs that are handed in together."""


class Driver:
    """One broker at work in an event loop."""

    def __init__(self, broker: Broker, hands: Hands, journal: Journal | None = None) -> None:
        self.broker = broker
        self.turns = 0
        self.busy_ns = 0
        """Time spent in the broker."""
        self.holding = False
        """No publications are taken: someone is too slow, and must not lose anything."""
        self.draining = False
        """No publications are taken any more: the broker is about to stop."""
        self.before_acting: Callable[[], None] | None = None
        """Called after the broker has taken inputs, before anything is done about them."""
        self._hands = hands
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._control: list[Input] = []
        self._data: dict[str, deque[FrameReceived]] = {}
        """By neighbour, data frames that wait for their turn."""
        self._requests: dict[str, deque[ClientRequested]] = {}
        """By client, requests in order."""
        self._waiting = 0
        self._scheduled = self._stopped = False
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._doers: dict[type, Callable[[Any], None]] = {
            Send: lambda action: hands.send(action.link, action.frame),
            Tell: lambda action: hands.tell(action.client, action.replies),
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            OpenLink: lambda action: hands.open_link(action.link),
            CloseLink: lambda action: hands.close_link(action.link, action.reason),
        }

    @property
    def waiting(self) -> int:
        """Messages that wait for their turn."""
        return self._waiting + len(self._control)

    @property
    def has_control(self) -> bool:
        """Whether something waits that is taken though the broker is about to stop."""
        return bool(self._control)

    def waiting_from(self, client: str) -> int:
        """Requests of a client that wait for their turn."""
        return sum(len(event.requests) for event in self._requests.get(client, ()))

    # --- inputs --------------------------------------------------------------------------------

    def control(self, event: Input) -> None:
        """Something that never waits behind publications."""
        self._control.append(event)
        self._schedule()

    def now(self, *events: Input) -> None:
        """Something that must have happened when this returns. What came before it goes first."""
        self._handle([*self._take_control(), *events])

    def data(self, link: str, event: FrameReceived, messages: int) -> None:
        """A data frame of a neighbour."""
        self._data.setdefault(link, deque()).append(event)
        self._waiting += messages
        self._schedule()

    def request(self, client: str, event: ClientRequested) -> None:
        """Requests of a client; they keep their order."""
        self._requests.setdefault(client, deque()).append(event)
        self._waiting += len(event.requests)
        self._schedule()

    def forget_link(self, link: str) -> None:
        """A connection is gone: frames of it must not come after a new one has begun."""
        for event in self._data.pop(link, ()):
            self._waiting -= len(event.frame.messages)  # type: ignore[union-attr]
        self._control = [
            e for e in self._control if not (isinstance(e, FrameReceived) and e.link == link)
        ]

    def forget_client(self, client: str) -> None:
        """A client's connection is gone."""
        for event in self._requests.pop(client, ()):
            self._waiting -= len(event.requests)

    # --- work ----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        events = [*self._take_control(), *self._take_data()]
        if events:
            self._handle(events)
            self.turns += 1
            if self._waiting:
                self._schedule()

    def resume(self) -> None:
        """Publications are taken again."""
        self.holding = False
        self._schedule()

    def _take_control(self) -> list[Input]:
        events, self._control = self._control, []
        return events

    def _take_data(self) -> list[Input]:
        """What may be read now, a share from everyone."""
        if not self._waiting:
            return []
        if self.holding or self.draining:
            return self._take_all_requests(False)
        taken = self._take_all_requests(self.broker.reads_data_from(None))
        room = TURN_MESSAGES
        for link in list(self._data):
            if self.broker.reads_data_from(link):
                room -= self._take_frames(link, taken, room)
        return taken

    def _take_all_requests(self, reads: bool) -> list[Input]:
        taken: list[Input] = []
        room = TURN_MESSAGES
        for client in list(self._requests):
            room -= self._take_requests(client, reads, taken, room)
        return taken

    def _take_requests(self, client: str, reads: bool, taken: list[Input], room: int) -> int:
        queue, count = self._requests[client], 0
        while queue and count < room:
            if not reads and isinstance(queue[0].requests[0], PublishRequest):
                break
            event = queue.popleft()
            taken.append(event)
            count += len(event.requests)
        if not queue:
            del self._requests[client]
        else:  # its turn comes after the others'
            self._requests[client] = self._requests.pop(client)
        self._waiting -= count
        return count

    def _take_frames(self, link: str, taken: list[Input], room: int) -> int:
        queue, count = self._data[link], 0
        while queue and count < room:
            event = queue.popleft()
            taken.append(event)
            count += len(event.frame.messages)  # type: ignore[union-attr]
        if not queue:
            del self._data[link]
        else:
            self._data[link] = self._data.pop(link)
        self._waiting -= count
        return count

    def _handle(self, events: list[Input]) -> None:
        if not events or self._stopped:
            return
        at_us = now_us()
        if self._journal is not None:
            self._journal.keep(at_us, events)
        began_ns = monotonic_ns()
        actions = self.broker.handle_batch(at_us, events)
        self.busy_ns += monotonic_ns() - began_ns
        if self.before_acting is not None:
            self.before_acting()
        self.do(actions)

    def do(self, actions: list[Action]) -> None:
        """Have actions done, in their order."""
        doers = self._doers
        for action in actions:
            doers[type(action)](action)

    # --- timers --------------------------------------------------------------------------------

    def _set_timer(self, action: SetTimer) -> None:
        self._cancel_timer(action)
        delay_s = max(action.at_us - now_us(), 0) / 1e6
        timer = action.timer
        self._timers[timer] = self._loop.call_later(delay_s, self._fire, timer)

    def _cancel_timer(self, action: SetTimer | CancelTimer) -> None:
        handle = self._timers.pop(action.timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: Timer) -> None:
        del self._timers[timer]
        self.control(TimerFired(timer))

    def stop(self) -> None:
        """Nothing happens to the broker any more."""
        self._stopped = True
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
