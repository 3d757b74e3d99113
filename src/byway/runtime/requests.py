"""Requests of clients that wait for the broker: how many, how long, and whose turn it is.

It decides how much of what a client asks for is handed to the broker at a time. A frame is handed
in by parts: what a request may cost the broker is estimated before, and a turn takes so much, a
share from every client. It knows no connection and does not look into what is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Final

from byway.core.inputs import ClientRequested, Input
from byway.model.messages import (
    DeliveriesReceived,
    PublishRequest,
    Request,
    SubscribeRequest,
    UnsubscribeRequest,
)
from byway.transport.intake import cost_of

NAMES_MAX: Final = 1_024
"""Subscriptions that are taken back in one go; a request for more is done in parts."""
SHARE_LEAST: Final = 16
"""What a client gets in its turn, however many others wait."""
_BODY_SHIFT: Final = 10  # small: less than a KiB

OVERTAKING: Final = frozenset((SubscribeRequest, UnsubscribeRequest, DeliveriesReceived))
"""What a client may ask for without waiting behind its own publications."""
_PUBLICATIONS: Final = {PublishRequest}


def in_small_parts(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """The same requests, none of which takes back more than `NAMES_MAX` subscriptions."""
    if not any(type(r) is UnsubscribeRequest and len(r.names) > NAMES_MAX for r in requests):
        return requests
    parts: list[Request] = []
    for request in requests:
        if isinstance(request, UnsubscribeRequest):
            names = request.names
            starts = range(0, max(len(names), 1), NAMES_MAX)
            parts += [UnsubscribeRequest(names[at : at + NAMES_MAX]) for at in starts]
        else:
            parts.append(request)
    return tuple(parts)


class _Lot:
    """What is left of one frame."""

    __slots__ = ("at", "bytes", "costs", "requests")

    def __init__(self, requests: tuple[Request, ...], bytes: int, is_small: bool) -> None:
        self.requests = requests
        self.at = 0
        self.bytes = bytes
        self.costs: list[int] | None = None
        """What each request costs; None: all are publications, small ones on average."""
        if not is_small:
            self.costs = [cost_of(request) for request in requests]


class _Waiting:
    """What waits of one client, in order."""

    __slots__ = ("bytes", "count", "lots")

    def __init__(self) -> None:
        self.lots: deque[_Lot] = deque()
        self.count = 0
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self.lots)

    def put(self, lot: _Lot) -> None:
        self.lots.append(lot)
        self.count += len(lot.requests)
        self.bytes += lot.bytes

    def take(self, client: str, room: int, publications: bool, taken: list[Input]) -> int:
        """Hand in what fits into the room, one request at least; what that costs."""
        spent = 0
        while self.lots and spent < room:
            lot = self.lots[0]
            stop, cost = _fitting(lot, room - spent, publications)
            if stop == lot.at:
                break  # a publication, and none is wanted
            whole = lot.at == 0 and stop == len(lot.requests)
            part = lot.requests if whole else lot.requests[lot.at : stop]
            taken.append(ClientRequested(client, part))
            spent += cost
            self.count -= stop - lot.at
            lot.at = stop
            if stop == len(lot.requests):
                self.lots.popleft()
                self.bytes -= lot.bytes
        return spent


def _fitting(lot: _Lot, room: int, publications: bool) -> tuple[int, int]:
    """Where to stop in a frame, and what it costs to go so far."""
    requests, at, costs = lot.requests, lot.at, lot.costs
    if costs is None and publications:
        stop = min(at + room, len(requests))
        return stop, stop - at
    spent = 0
    while at < len(requests) and spent < room:
        if not publications and type(requests[at]) is PublishRequest:
            break
        spent += 1 if costs is None else costs[at]
        at += 1
    return at, spent


class RequestQueues:
    """What waits of all clients. What may overtake publications has a queue of its own."""

    def __init__(self) -> None:
        self._queues: tuple[dict[str, _Waiting], dict[str, _Waiting]] = ({}, {})
        """By client: what overtakes, and all else."""
        self.count = 0
        """Requests that wait, of all clients."""
        self.bytes = 0
        """Bytes of the frames that they came in."""

    def __repr__(self) -> str:
        return f"<RequestQueues {self.count} requests, {self.bytes} bytes>"

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def has_overtaking(self) -> bool:
        """Whether something waits that is no publication and waits for none."""
        return bool(self._queues[0])

    def put(self, client: str, requests: tuple[Request, ...], bytes: int = 0) -> None:
        """Requests of one frame of a client; they keep their order."""
        if not requests:
            return
        kinds = set(map(type, requests))
        queue = self._queues[0 if kinds <= OVERTAKING else 1]
        waiting = queue.get(client)
        if waiting is None:
            waiting = queue[client] = _Waiting()
        is_small = kinds == _PUBLICATIONS and not bytes // len(requests) >> _BODY_SHIFT
        lot = _Lot(requests if is_small else in_small_parts(requests), bytes, is_small)
        waiting.put(lot)
        self.count += len(lot.requests)
        self.bytes += bytes

    def waiting_from(self, client: str) -> tuple[int, int]:
        """Requests of a client that wait, and the bytes of the frames that they came in."""
        count = bytes = 0
        for queue in self._queues:
            waiting = queue.get(client)
            if waiting is not None:
                count += waiting.count
                bytes += waiting.bytes
        return count, bytes

    def take(
        self, room: int, publications: bool, without: Container[str] = ()
    ) -> tuple[list[Input], list[str]]:
        """What is handed in now, for about `room` of each kind, a share of every client but some;
        and the clients it came from."""
        taken: list[Input] = []
        clients: dict[str, None] = {}
        for queue in self._queues:
            if queue:
                self._take_from(queue, room, publications, without, taken, clients)
        return taken, list(clients)

    def _take_from(
        self,
        queue: dict[str, _Waiting],
        room: int,
        publications: bool,
        without: Container[str],
        taken: list[Input],
        clients: dict[str, None],
    ) -> None:
        """A share of each first, then what is left of the room to whoever has more."""
        for share in (max(room // len(queue), SHARE_LEAST), room):
            for client in list(queue):
                if room <= 0:
                    return
                if client in without:
                    continue
                waiting = queue[client]
                count, bytes = waiting.count, waiting.bytes
                room -= waiting.take(client, min(share, room), publications, taken)
                if waiting.count < count:
                    clients[client] = None
                    self.count -= count - waiting.count
                    self.bytes -= bytes - waiting.bytes
                    del queue[client]
                    if waiting:  # its next turn comes after the others'
                        queue[client] = waiting

    def drop(self, client: str) -> None:
        """A client's connection is gone: what it asked for last was not taken."""
        for queue in self._queues:
            waiting = queue.pop(client, None)
            if waiting is not None:
                self.count -= waiting.count
                self.bytes -= waiting.bytes
