"""The inbox: what waits at a broker, control before data.

It decides the order in which inputs are taken, and what is lost or handed back when a connection
breaks. The requests of a client keep their order: what it says after a publication that still
waits, waits behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from byway.core.broker import Broker
from byway.core.inputs import ClientDetached, ClientRequested, FrameReceived, Input
from byway.model.messages import DATA, Batch, Frame, PublishRequest, Request
from byway.sim.engine.network import frame_bytes

BATCH_MESSAGES: Final = 64
"""Taken at a time; a frame is taken whole."""

_Queued = tuple[Input, int]
"""An input and the messages in it."""


class Inbox:
    """Inputs that wait at one broker."""

    __slots__ = ("_behind", "_control", "_data", "peak", "waiting")

    def __init__(self, peak: int = 0) -> None:
        self._control: deque[_Queued] = deque()
        self._data: deque[_Queued] = deque()
        self._behind: dict[str, int] = {}
        """By client, how much of what it said is among the data."""
        self.waiting = 0
        """Messages; acknowledgements are none."""
        self.peak = peak
        """The most that ever waited."""

    def __repr__(self) -> str:
        return f"<Inbox of {self.waiting} messages>"

    def __bool__(self) -> bool:
        return bool(self._control or self._data)

    @property
    def waiting_bytes(self) -> int:
        """Their size."""
        return sum(_size_bytes(event) for event, _ in (*self._control, *self._data))

    # --- putting in ----------------------------------------------------------------------------

    def put_frame(self, link: str, frame: Frame) -> None:
        """A frame from a neighbour."""
        if type(frame) is Batch:
            count = len(frame.messages)
            self.waiting += count
            if self.waiting > self.peak:
                self.peak = self.waiting
            queue = self._data if frame.lane is DATA else self._control
            queue.append((FrameReceived(link, frame), count))
        else:
            self._control.append((FrameReceived(link, frame), 0))

    def put_request(self, client: str, request: Request) -> None:
        """Something that a client asks for. Publications are data."""
        self.waiting += 1
        self.peak = max(self.peak, self.waiting)
        is_data = client in self._behind or type(request) is PublishRequest
        self._put(client, (ClientRequested(client, (request,)), 1), is_data=is_data)

    def put_goodbye(self, client: str) -> None:
        """A client leaves for good."""
        self._put(client, (ClientDetached(client, True), 0), is_data=client in self._behind)

    def _put(self, client: str, item: _Queued, *, is_data: bool) -> None:
        if is_data:
            self._behind[client] = self._behind.get(client, 0) + 1
            self._data.append(item)
        else:
            self._control.append(item)

    # --- taking out ----------------------------------------------------------------------------

    def take(self, broker: Broker) -> list[Input]:
        """A batch of what waits, as far as the broker wants to read it."""
        events: list[Input] = []
        control, data = self._control, self._data
        if not control and not data:
            return events
        room = BATCH_MESSAGES
        while control and room > 0:
            event, count = control.popleft()
            events.append(event)
            room -= count
        if data and room > 0:
            if broker.reads_data_from(None):
                while data and room > 0:
                    event, count = data.popleft()
                    events.append(event)
                    room -= count
                    if type(event) is not FrameReceived:
                        self._left_data(event)
            else:
                room = self._take_wanted_data(broker, events, room)
        self.waiting -= BATCH_MESSAGES - room
        return events

    def _take_wanted_data(self, broker: Broker, events: list[Input], room: int) -> int:
        """Take the data of those neighbours that the broker reads now; the room that is left."""
        kept: list[_Queued] = []
        reads: dict[str, bool] = {}
        while self._data and room > 0:
            event, count = item = self._data.popleft()
            if type(event) is FrameReceived:
                if event.link not in reads:
                    reads[event.link] = broker.reads_data_from(event.link)
                if reads[event.link]:
                    events.append(event)
                    room -= count
                    continue
            kept.append(item)
        self._data.extendleft(reversed(kept))
        return room

    def _left_data(self, event: Any) -> None:
        left = self._behind[event.client] - 1
        if left:
            self._behind[event.client] = left
        else:
            del self._behind[event.client]

    def leave_out(self, leaves: Callable[[Input], bool]) -> None:
        """Remove inputs, in the order in which they would have been taken."""
        for queue in (self._control, self._data):
            kept = [item for item in queue if not leaves(item[0])]
            self.waiting -= sum(count for _, count in queue) - sum(count for _, count in kept)
            queue.clear()
            queue.extend(kept)
        said = (event for event, _ in self._data if type(event) is not FrameReceived)
        self._behind.clear()
        for event in said:
            client: str = event.client  # type: ignore[union-attr]
            self._behind[client] = self._behind.get(client, 0) + 1


def _size_bytes(event: Input) -> int:
    if type(event) is FrameReceived:
        return frame_bytes(event.frame)
    if type(event) is ClientRequested:
        return sum(len(r.body) for r in event.requests if type(r) is PublishRequest)
    return 0
