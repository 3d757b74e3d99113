"""Lots: what waits of a client as one piece, the requests of one frame, or the beginning or end of
an attachment.

A frame that does not fit into a turn is handed over in parts. A lot knows how much of it is left;
when it is taken, and in which order, is decided elsewhere.
"""

from __future__ import annotations

from typing import Final

from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Input
from byway.model.messages import (
    DeliveriesReceived,
    PublishRequest,
    Request,
    SubscribeRequest,
    UnsubscribeRequest,
)

NAMES_MAX: Final = 1_024
"""Subscriptions withdrawn by one request; a larger request is split."""
OVERTAKING: Final = frozenset((SubscribeRequest, UnsubscribeRequest, DeliveriesReceived))
"""Requests that may overtake the client's own publications and advertisements."""


ClientInput = ClientRequested | ClientAttached | ClientDetached
Arrival = tuple[ClientInput, int, int, "list[int] | None", bool]
"""What a lot is made of: the input, its number, the bytes of its frame, the costs of its requests,
and whether nothing overtakes it."""


class Lot:
    """One piece of what waits of a client, or what is left of it."""

    __slots__ = (
        "at",
        "bytes",
        "client",
        "cost",
        "costs",
        "count",
        "event",
        "is_fixed",
        "number",
        "requests",
    )

    def __init__(self, arrival: Arrival) -> None:
        event, number, bytes, costs, is_fixed = arrival
        self.event = event
        """The input that hands over all of it."""
        self.client = event.client
        self.number = number
        """Its place in the order of arrival of everything from clients."""
        self.requests = requests = event.requests if type(event) is ClientRequested else ()
        """Its requests; none: it is the beginning or end of an attachment."""
        self.at = 0
        """Number of requests that were handed over."""
        self.count = len(requests) or 1
        """Number of requests that are left; the beginning or end of an attachment counts as one."""
        self.costs = costs
        """Cost of each request; None: each costs 1."""
        self.cost = self.count if costs is None else sum(costs)
        """Cost of what is left."""
        self.bytes = bytes
        """Length of the frame."""
        self.is_fixed = is_fixed
        """Whether nothing that the client sent later may overtake it."""

    def __repr__(self) -> str:
        return f"<Lot {self.number} of {self.client}: {self.count} left>"

    @property
    def rest(self) -> Input:
        """The input that hands over what is left."""
        if self.at:
            return ClientRequested(self.client, self.requests[self.at :])
        return self.event

    @property
    def begins_with_publication(self) -> bool:
        """Whether the first request that is left is a publication."""
        return bool(self.requests) and type(self.requests[self.at]) is PublishRequest

    def take(self, room: int, publications: int) -> tuple[Input | None, int]:
        """Hand over what fits, at least one request, with its cost. Of publications at most so
        many, and only what stands before the next one; None if that is nothing."""
        stop, spent = self._fitting(room, publications)
        if not spent:
            return None, 0
        at, left = self.at, self.count
        if stop - at == left or not self.requests:
            taken, self.count = self.rest, 0
        else:
            taken = ClientRequested(self.client, self.requests[at:stop])
            self.count = left - (stop - at)
        self.at = stop
        self.cost -= spent
        return taken, spent

    def _fitting(self, room: int, publications: int) -> tuple[int, int]:
        """The end of the requests that fit, and their cost."""
        requests, at, costs = self.requests, self.at, self.costs
        if publications >= min(room, self.count) or not requests:
            if self.cost <= room or not requests:
                return len(requests), self.cost
            if costs is None:
                return at + room, room
        spent = 0
        while at < len(requests) and spent < room:
            if type(requests[at]) is PublishRequest:
                if publications <= 0:
                    break
                publications -= 1
            spent += 1 if costs is None else costs[at]
            at += 1
        return at, spent


def publications_in(event: Input) -> int:
    """Number of publications in an input of a client."""
    requests = event.requests if type(event) is ClientRequested else ()
    return sum(type(request) is PublishRequest for request in requests)


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
