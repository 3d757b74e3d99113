"""The queues of client requests that wait for the broker, and whose turn it is.

This module decides how many requests of a client are handed to the broker in one turn. A turn has a
budget that is shared among all clients; the cost of each request is estimated, and a frame that
does not fit is handed over in parts. It knows no connection.
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
"""Subscriptions withdrawn by one request; a larger request is split."""
SHARE_LEAST: Final = 16
"""The least share of a turn's budget that a client gets."""
_BODY_SHIFT: Final = 10  # small: less than a KiB

OVERTAKING: Final = frozenset((SubscribeRequest, UnsubscribeRequest, DeliveriesReceived))
"""Requests that may overtake the client's own publications."""
_PUBLICATIONS: Final = {PublishRequest}


def in_small_parts(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """The same requests, none of which withdraws more than `NAMES_MAX` subscriptions."""
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
    """The requests of one frame that are not handed over yet."""

    __slots__ = ("at", "bytes", "costs", "requests")

    def __init__(self, requests: tuple[Request, ...], bytes: int, is_small: bool) -> None:
        self.requests = requests
        self.at = 0
        self.bytes = bytes
        self.costs: list[int] | None = None
        """Cost of each request; None: all are publications, small on average, which cost 1."""
        if not is_small:
            self.costs = [cost_of(request) for request in requests]


class _Waiting:
    """The requests of one client that wait, in order."""

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
        """Move requests that fit the budget, at least one, to `taken`; their cost."""
        spent = 0
        while self.lots and spent < room:
            lot = self.lots[0]
            stop, cost = _fitting(lot, room - spent, publications)
            if stop == lot.at:
                break  # a publication, and those wait
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
    """The end of the requests in a frame that fit the budget, and their cost."""
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
    """The requests of all clients that wait. Those that overtake publications have a queue of
    their own."""

    def __init__(self) -> None:
        self._queues: tuple[dict[str, _Waiting], dict[str, _Waiting]] = ({}, {})
        """By client: requests that overtake publications, and all others."""
        self.count = 0
        """Number of requests that wait, of all clients."""
        self.bytes = 0
        """Bytes of the frames that these requests came in."""

    def __repr__(self) -> str:
        return f"<RequestQueues {self.count} requests, {self.bytes} bytes>"

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def has_overtaking(self) -> bool:
        """Whether a request waits that overtakes publications."""
        return bool(self._queues[0])

    def put(self, client: str, requests: tuple[Request, ...], bytes: int = 0) -> None:
        """Queue the requests of one frame of a client; they keep their order."""
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
        """Number of requests of a client that wait, and the bytes of their frames."""
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
        """The requests for the next turn, about `room` of each queue, a share of every client that
        is not in `without`; and the clients they are from."""
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
        """Take an equal share of each client first, then fill the budget from those with more."""
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
        """Drop the requests of a client whose connection was lost."""
        for queue in self._queues:
            waiting = queue.pop(client, None)
            if waiting is not None:
                self.count -= waiting.count
                self.bytes -= waiting.bytes
