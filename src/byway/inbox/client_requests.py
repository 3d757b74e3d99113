"""The requests of clients that wait, in two lanes: those that may overtake publications, and all
others.

It decides what of a client may overtake what, and keeps the counts that back-pressure goes by. The
order of what one client sent is kept, except that a frame of subscriptions, unsubscriptions and
receipts alone overtakes frames without any of these. A frame that has some of them among others is
overtaken by nothing, and neither is the beginning or end of an attachment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Input
from byway.inbox.request_lanes import ClientQueue, PublicationRoom, RequestLane
from byway.inbox.request_lots import OVERTAKING, Lot, in_small_parts
from byway.model.messages import PublishRequest, Request
from byway.model.request_costs import BODY_SHIFT, cost_of

_PUBLICATIONS: Final = {PublishRequest}
_NOTHING: Final[dict[str, ClientQueue]] = {}


class ClientRequests:
    """Everything that waits of clients."""

    __slots__ = ("_fixed", "_number", "_others", "_overtaking", "bytes", "count")

    def __init__(self) -> None:
        self._overtaking = RequestLane()
        self._others = RequestLane()
        self._fixed: dict[str, int] = {}
        """By client, the number of its lots that nothing overtakes."""
        self._number = 0
        """Number of the last lot."""
        self.count = 0
        """Number of requests that wait, of all clients."""
        self.bytes = 0
        """Bytes of the frames that they came in."""

    def __repr__(self) -> str:
        return f"<ClientRequests: {self.count}, {self.bytes} bytes>"

    def __iter__(self) -> Iterator[Input]:
        """The inputs that would hand over everything that waits."""
        for lane in (self._overtaking, self._others):
            for lot in lane:
                yield lot.rest

    # --- putting in ------------------------------------------------------------------------------

    def put(self, client: str, requests: tuple[Request, ...], bytes: int) -> int:
        """Append the requests of one frame of a client, of so many bytes. Returns their number,
        after those that withdraw very many subscriptions were split."""
        if len(requests) == 1:
            kind = type(requests[0])
            overtakes = has_overtaking = kind in OVERTAKING
            is_small = kind is PublishRequest and bytes >> BODY_SHIFT == 0
        else:
            kinds = set(map(type, requests))
            overtakes = kinds <= OVERTAKING
            has_overtaking = overtakes or not kinds.isdisjoint(OVERTAKING)
            is_small = kinds == _PUBLICATIONS and bytes // len(requests) >> BODY_SHIFT == 0
        costs: list[int] | None = None
        if not is_small:
            requests = in_small_parts(requests)
            costs = list(map(cost_of, requests))
        if overtakes and client in self._fixed:
            overtakes = False
        is_fixed = has_overtaking and not overtakes
        if is_fixed:
            self._fixed[client] = self._fixed.get(client, 0) + 1
        count = len(requests)
        self._number += 1
        self.count += count
        self.bytes += bytes
        arrival = (ClientRequested(client, requests), self._number, bytes, costs, is_fixed)
        lane = self._overtaking if overtakes else self._others
        lane.put(arrival, count if costs is None else sum(costs))
        return count

    def put_attachment(self, event: ClientAttached | ClientDetached) -> None:
        """Append the beginning or end of an attachment, behind everything that waits of the
        client."""
        self._fixed[event.client] = self._fixed.get(event.client, 0) + 1
        self._number += 1
        self.count += 1
        self._others.put((event, self._number, 0, None, True), 1)

    # --- looking ---------------------------------------------------------------------------------

    def has(self, client: str) -> bool:
        """Whether anything waits of a client."""
        return self.count > 0 and (self._overtaking.has(client) or self._others.has(client))

    def waiting_from(self, client: str) -> tuple[int, int]:
        """Number of requests of a client that wait, and the bytes of their frames."""
        if not self.count:
            return 0, 0
        a, b = self._overtaking.waiting_from(client), self._others.waiting_from(client)
        return a[0] + b[0], a[1] + b[1]

    def has_ready(self, without: Collection[str]) -> bool:
        """Whether something waits, of clients that are not in `without`, that is taken even while
        publications are not."""
        if any(lot.client not in without for lot in self._overtaking):
            return True
        first: dict[str, Lot] = {}
        for lot in self._others:
            first.setdefault(lot.client, lot)
        return any(
            client not in without and not lot.begins_with_publication
            for client, lot in first.items()
        )

    # --- taking out ------------------------------------------------------------------------------

    def take(
        self,
        publications: bool,
        without: Collection[str],
        taken: list[Input],
        room: PublicationRoom | None = None,
    ) -> None:
        """Move the requests for the next turn to `taken`, a share of every client that is not in
        `without`. Of a client no more publications are moved than there is `room` for."""
        overtaking, others = self._overtaking, self._others
        if overtaking.cost:
            self._take_lane(overtaking, True, without, _NOTHING, taken, None)
        if others.cost:
            self._take_lane(others, publications, without, overtaking.queues, taken, room)

    def _take_lane(
        self,
        lane: RequestLane,
        publications: bool,
        without: Collection[str],
        ahead: dict[str, ClientQueue],
        taken: list[Input],
        room: PublicationRoom | None,
    ) -> None:
        start = len(taken)
        if publications and not without and not ahead and not lane.queues and room is None:
            for arrived, _, bytes, _, is_fixed in lane.take_all():
                taken.append(arrived)
                self.bytes -= bytes
                if is_fixed:
                    self._unfix(arrived.client)
        else:
            for lot in lane.take(publications, without, ahead, taken, room):
                self._end(lot)
        for event in taken[start:]:
            self.count -= len(event.requests) if type(event) is ClientRequested else 1

    def _end(self, lot: Lot) -> None:
        """Nothing is left of a lot."""
        self.bytes -= lot.bytes
        if lot.is_fixed:
            self._unfix(lot.client)

    def _unfix(self, client: str) -> None:
        left = self._fixed[client] - 1
        if left:
            self._fixed[client] = left
        else:
            del self._fixed[client]

    def last_goodbye(self, client: str) -> int:
        """The number of the last goodbye of a client that waits; 0 if there is none."""
        if not self.count:
            return 0
        lots = self._others.lots_of(client)
        return max((lot.number for lot in lots if type(lot.event) is ClientDetached), default=0)

    def drop(self, client: str, after: int = 0) -> None:
        """Remove what waits of a client, `after` the lot of this number."""
        for lane in (self._overtaking, self._others):
            for lot in lane.drop(client, after):
                self.count -= lot.count
                self._end(lot)
