"""The inbox of a broker: the inputs that wait, control before data.

It decides the order in which inputs are taken, and which are dropped when a connection breaks. The
requests of a client keep their order: a request after a publication that still waits queues behind
it.
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
"""The messages that are taken at a time; a frame is taken whole."""

_Queued = tuple[Input, int]
"""An input and the number of messages in it."""


class Inbox:
    """The inputs that wait at one broker."""

    __slots__ = ("_behind", "_control", "_data", "peak", "waiting")

    def __init__(self, peak: int = 0) -> None:
        self._control: deque[_Queued] = deque()
        self._data: deque[_Queued] = deque()
        self._behind: dict[str, int] = {}
        """By client, the number of its requests that are among the data."""
        self.waiting = 0
        """The number of messages that wait; acknowledgements do not count."""
        self.peak = peak
        """The most messages that ever waited."""

    def __repr__(self) -> str:
        return f"<Inbox of {self.waiting} messages>"

    def __bool__(self) -> bool:
        return bool(self._control or self._data)

    @property
    def waiting_bytes(self) -> int:
        """The size of the messages that wait."""
        return sum(_size_bytes(event) for event, _ in (*self._control, *self._data))

    # --- putting in ----------------------------------------------------------------------------

    def put_frame(self, link: str, frame: Frame) -> None:
        """Append a frame from a neighbour."""
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
        """Append a request of a client. Publications are data."""
        self.waiting += 1
        self.peak = max(self.peak, self.waiting)
        is_data = client in self._behind or type(request) is PublishRequest
        self._put(client, (ClientRequested(client, (request,)), 1), is_data=is_data)

    def put_goodbye(self, client: str) -> None:
        """Append the end of a client's session, behind its requests."""
        self._put(client, (ClientDetached(client, True), 0), is_data=client in self._behind)

    def _put(self, client: str, item: _Queued, *, is_data: bool) -> None:
        if is_data:
            self._behind[client] = self._behind.get(client, 0) + 1
            self._data.append(item)
        else:
            self._control.append(item)

    # --- taking out ----------------------------------------------------------------------------

    def take(self, broker: Broker) -> list[Input]:
        """Remove and return the next batch, without data that the broker does not read now."""
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
        """Take the data of those neighbours that the broker reads now. Returns the room left."""
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

    def drop(self, dropped: Callable[[Input], bool]) -> None:
        """Remove the inputs for which `dropped` holds; it is asked in the order of the queues."""
        for queue in (self._control, self._data):
            kept = [item for item in queue if not dropped(item[0])]
            self.waiting -= sum(count for _, count in queue) - sum(count for _, count in kept)
            queue.clear()
            queue.extend(kept)
        requests = (event for event, _ in self._data if type(event) is not FrameReceived)
        self._behind.clear()
        for event in requests:
            client: str = event.client  # type: ignore[union-attr]
            self._behind[client] = self._behind.get(client, 0) + 1


def _size_bytes(event: Input) -> int:
    if type(event) is FrameReceived:
        return frame_bytes(event.frame)
    if type(event) is ClientRequested:
        return sum(len(r.body) for r in event.requests if type(r) is PublishRequest)
    return 0
