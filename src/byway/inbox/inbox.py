"""The inbox of a broker process: the inputs that wait for its broker, and whose turn it is.

It decides what is handed to the broker in the next turn: control before requests before data, a
share of the turn for every client and every neighbour, data only while the broker has room for the
copies, of a client no more publications than the broker has room for, and none while the process
holds or drains them. What of one client may overtake what is decided in `client_requests`. It knows
no connection and no time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Protocol

from byway.core.inputs import ClientAttached, ClientDetached, FrameReceived, Input
from byway.inbox.client_requests import ClientRequests
from byway.inbox.shares import TURN, share_out
from byway.model.messages import DATA, Batch, Frame, Request


class DataReader(Protocol):
    """A broker that says from whom it has room for data."""

    def reads_data_from(self, link: str | None) -> bool:
        """Whether data of a neighbour, or of clients (None), may be handed in. If it may of
        clients, it may of every neighbour."""

    @property
    def limits_publications(self) -> bool:
        """Whether there may be room for less than a turn of some client's publications."""

    def publication_room(self, client: str) -> int:
        """How many publications of a client may be handed in."""


class Inbox:
    """The inputs that wait at one broker.

    A turn has control inputs, then requests of clients, then data frames of neighbours; it has
    control alone while more of it waits than fits into a turn. Frames of neighbours are handed over
    whole. Data stands in the order of arrival while all of it fits into one turn and may be read;
    else by neighbour.
    """

    __slots__ = (
        "_control_messages",
        "_data",
        "_data_messages",
        "_links",
        "control",
        "deaf",
        "draining",
        "holding",
        "peak",
        "requests",
        "waiting",
    )

    def __init__(self, peak: int = 0) -> None:
        self.waiting = 0
        """Number of messages and requests that wait; the beginning or end of a client's attachment
        that waits behind its requests counts as one. Other inputs do not count."""
        self.peak = peak
        """The most that ever waited."""
        self.holding = False
        """Whether publications wait because a client is slow and must lose nothing."""
        self.draining = False
        """Whether publications wait because the broker is about to stop."""
        self.deaf: Collection[str] = ()
        """Clients that do not read their answers; their requests wait."""
        self.requests = ClientRequests()
        """The requests of clients; the inbox puts them in and takes them out."""
        self.control: list[Input] = []
        """The control inputs."""
        self._control_messages = 0
        self._data: list[FrameReceived] = []
        """Data frames in the order of arrival; none while there are some in `_links`."""
        self._links: dict[str, deque[FrameReceived]] = {}
        """Data frames by neighbour."""
        self._data_messages = 0

    def __repr__(self) -> str:
        return (
            f"<Inbox: {self.waiting} messages, {self.requests.count} of them of clients, "
            f"{len(self.control)} control inputs>"
        )

    def __bool__(self) -> bool:
        return bool(self.control or self._data or self._links or self.requests.count)

    def __iter__(self) -> Iterator[Input]:
        """Everything that waits: control, requests, data."""
        yield from self.control
        yield from self.requests
        yield from self._data
        for queue in self._links.values():
            yield from queue

    @property
    def has_ready(self) -> bool:
        """Whether an input waits that is handled even while the broker holds or drains."""
        return bool(self.control) or self.requests.has_ready(self.deaf)

    # --- putting in ------------------------------------------------------------------------------

    def put_control(self, event: Input) -> None:
        """Append an input that never waits behind publications: of a timer, an operator, a
        sample."""
        self.control.append(event)

    def put_frame(self, link: str, frame: Frame) -> None:
        """Append a frame of a neighbour."""
        if type(frame) is not Batch:
            self.control.append(FrameReceived(link, frame))
            return
        count = len(frame.messages)
        self.waiting = waiting = self.waiting + count
        if waiting > self.peak:
            self.peak = waiting
        if frame.lane is not DATA or not count:
            self.control.append(FrameReceived(link, frame))
            self._control_messages += count
        else:
            self._data_messages += count
            if self._links:
                self._put_by_link(FrameReceived(link, frame))
            else:
                self._data.append(FrameReceived(link, frame))

    def _put_by_link(self, event: FrameReceived) -> None:
        queue = self._links.get(event.link)
        if queue is None:
            queue = self._links[event.link] = deque()
        queue.append(event)

    def put_requests(self, client: str, requests: tuple[Request, ...], bytes: int = 0) -> None:
        """Append the requests of one frame of a client, of so many bytes."""
        if requests:
            self.waiting += self.requests.put(client, requests, bytes)
            if self.waiting > self.peak:
                self.peak = self.waiting

    def put_attachment(self, event: ClientAttached | ClientDetached) -> None:
        """Append the beginning or end of a client's attachment, behind all that waits of it."""
        self.requests.put_attachment(event)
        self.waiting += 1
        if self.waiting > self.peak:
            self.peak = self.waiting

    # --- taking out ------------------------------------------------------------------------------

    def take_control(self) -> list[Input]:
        """Remove and return the control inputs."""
        events = self.control
        if not events:
            return []
        self.control = []
        self.waiting -= self._control_messages
        self._control_messages = 0
        return events

    def take(self, broker: DataReader) -> list[Input]:
        """Remove and return what the broker is to handle in the next turn."""
        if self._control_messages > TURN:
            return self._take_some_control()
        events = self.take_control() if self.control else []
        requests, messages = self.requests, self._data_messages
        if not messages and not requests.count:
            return events
        stopped = self.holding or self.draining
        reads_all = not stopped and broker.reads_data_from(None)
        if requests.count:
            before = requests.count
            room = broker.publication_room if broker.limits_publications else None
            requests.take(reads_all, self.deaf, events, room)
            self.waiting -= before - requests.count
        if messages and not stopped:
            if messages <= TURN and reads_all and not self._links:
                data, self._data = self._data, []
                self._data_messages = 0
                self.waiting -= messages
                if not events:
                    return data  # type: ignore[return-value]
                events += data
            else:
                self._take_shares(broker, reads_all, events)
        return events

    def _take_some_control(self) -> list[Input]:
        """Take about a turn of control inputs, and nothing else: data must not overtake control
        that came before it."""
        stop = room = 0
        while room < TURN:
            room += _messages(self.control[stop])
            stop += 1
        events, self.control = self.control[:stop], self.control[stop:]
        self._control_messages -= room
        self.waiting -= room
        return events

    def _take_shares(self, broker: DataReader, reads_all: bool, taken: list[Input]) -> None:
        """Take a share of every neighbour whose data the broker reads now."""
        arrived, self._data = self._data, []
        for event in arrived:
            self._put_by_link(event)
        unread = () if reads_all else [x for x in self._links if not broker.reads_data_from(x)]

        def take(link: str, queue: deque[FrameReceived], room: int) -> int:
            del link
            count = 0
            while queue and count < room:
                event = queue.popleft()
                taken.append(event)
                count += len(event.frame.messages)  # type: ignore[union-attr]
            self._data_messages -= count
            self.waiting -= count
            return count

        share_out(self._links, take, unread)

    # --- dropping --------------------------------------------------------------------------------

    def drop_link(self, link: str) -> None:
        """Remove the frames of a neighbour's lost connection, which must not be handled after those
        of a new one."""
        control = [e for e in self.control if not (type(e) is FrameReceived and e.link == link)]
        if len(control) < len(self.control):
            gone = self._control_messages - sum(map(_messages, control))
            self.control = control
            self._control_messages -= gone
            self.waiting -= gone
        dropped = self._links.pop(link, None)
        if dropped is None:
            dropped = deque(event for event in self._data if event.link == link)
            self._data = [event for event in self._data if event.link != link]
        gone = sum(map(_messages, dropped))
        self._data_messages -= gone
        self.waiting -= gone

    def drop_connection(self, client: str) -> bool:
        """Remove what came over the latest connection of a client, which was lost. Returns whether
        the broker has to be told: it has not, if a goodbye of an earlier connection waits, for then
        the broker never heard of this one."""
        goodbye = self.requests.last_goodbye(client)
        self._drop(client, goodbye)
        return not goodbye

    def drop_client(self, client: str) -> bool:
        """Remove everything that waits of a client. Returns whether a goodbye was among it."""
        goodbye = self.requests.last_goodbye(client)
        self._drop(client, 0)
        return goodbye > 0

    def _drop(self, client: str, after: int) -> None:
        before = self.requests.count
        if before:
            self.requests.drop(client, after)
            self.waiting -= before - self.requests.count


def _messages(event: Input) -> int:
    """Number of messages in a frame, acknowledgements not among them."""
    if type(event) is FrameReceived and type(event.frame) is Batch:
        return len(event.frame.messages)
    return 0
