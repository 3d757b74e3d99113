"""One lane of client requests: in the order of arrival while all of it fits into one turn, else by
client, each of whom gets a share of every turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping

from byway.core.inputs import Input
from byway.inbox.request_lots import Arrival, Lot, publications_in
from byway.inbox.shares import TURN, share_out

PublicationRoom = Callable[[str], int]
"""How many publications of a client there is room for."""


class ClientQueue:
    """What waits of one client in one lane, in order."""

    __slots__ = ("bytes", "count", "lots")

    def __init__(self) -> None:
        self.lots: deque[Lot] = deque()
        self.count = 0
        """Number of requests."""
        self.bytes = 0
        """Bytes of the frames that they came in."""

    def __len__(self) -> int:
        return len(self.lots)

    def put(self, lot: Lot) -> None:
        """Append a lot."""
        self.lots.append(lot)
        self.count += lot.count
        self.bytes += lot.bytes


class RequestLane:
    """What waits of all clients in one lane."""

    __slots__ = ("_arrived", "cost", "queues")

    def __init__(self) -> None:
        self._arrived: list[Arrival] = []
        """Everything in the order of arrival, while it fits into one turn."""
        self.queues: dict[str, ClientQueue] = {}
        """Everything by client, while it does not, or while some must wait."""
        self.cost = 0
        """Cost of everything that waits."""

    def __iter__(self) -> Iterator[Lot]:
        yield from map(Lot, self._arrived)
        for queue in self.queues.values():
            yield from queue.lots

    def put(self, arrival: Arrival, cost: int) -> None:
        """Append what arrived from a client, of so much cost in all."""
        self.cost += cost
        self._arrived.append(arrival)
        if self.queues or self.cost > TURN:
            self._sort()

    def _sort(self) -> None:
        """Let what stands in the order of arrival stand by client."""
        arrived, self._arrived = self._arrived, []
        queues = self.queues
        for lot in map(Lot, arrived):
            queue = queues.get(lot.client)
            if queue is None:
                queue = queues[lot.client] = ClientQueue()
            queue.put(lot)

    # --- looking ---------------------------------------------------------------------------------

    def lots_of(self, client: str) -> list[Lot]:
        """What waits of a client, in order."""
        if self._arrived:
            return [Lot(arrival) for arrival in self._arrived if arrival[0].client == client]
        queue = self.queues.get(client)
        return [] if queue is None else list(queue.lots)

    def has(self, client: str) -> bool:
        """Whether anything waits of a client."""
        return client in self.queues or any(event.client == client for event, *_ in self._arrived)

    def waiting_from(self, client: str) -> tuple[int, int]:
        """Number of requests of a client that wait, and the bytes of their frames."""
        queue = self.queues.get(client)
        if queue is not None:
            return queue.count, queue.bytes
        lots = self.lots_of(client)
        return sum(lot.count for lot in lots), sum(lot.bytes for lot in lots)

    # --- taking out ------------------------------------------------------------------------------

    def take_all(self) -> list[Arrival]:
        """Remove and return everything that stands in the order of arrival."""
        arrived, self._arrived = self._arrived, []
        self.cost = 0
        return arrived

    def take(
        self,
        publications: bool,
        without: Container[str],
        ahead: Mapping[str, ClientQueue],
        taken: list[Input],
        publication_room: PublicationRoom | None = None,
    ) -> list[Lot]:
        """Move a share of every client that is not in `without` to `taken`. Returns the lots of
        which nothing is left.

        Without `publications`, or of a client beyond its room for them, these wait, and what stands
        behind them. Nothing is taken that a client sent later than something in its queue `ahead`.
        """
        self._sort()
        done: list[Lot] = []
        handed: dict[str, int] = {}
        """By client, how many of its publications are in this turn."""

        def most_of(client: str) -> int:
            if not publications:
                return 0
            if publication_room is None:
                return TURN
            return publication_room(client) - handed.get(client, 0)

        def take(client: str, queue: ClientQueue, room: int) -> int:
            earlier = ahead.get(client)
            lots, spent = queue.lots, 0
            while lots and spent < room:
                lot = lots[0]
                if earlier is not None and earlier.lots[0].number < lot.number:
                    break
                count = lot.count
                event, cost = lot.take(room - spent, most_of(client))
                if event is None:
                    break
                taken.append(event)
                if publication_room is not None:
                    handed[client] = handed.get(client, 0) + publications_in(event)
                spent += cost
                queue.count -= count - lot.count
                if not lot.count:
                    done.append(lots.popleft())
                    queue.bytes -= lot.bytes
            self.cost -= spent
            return spent

        share_out(self.queues, take, without)
        return done

    def drop(self, client: str, after: int) -> list[Lot]:
        """Remove and return what arrived from a client after the lot of this number."""
        dropped = [lot for lot in self.lots_of(client) if lot.number > after]
        if not dropped:
            return dropped
        self.cost -= sum(lot.cost for lot in dropped)
        self._arrived = [
            arrival
            for arrival in self._arrived
            if arrival[0].client != client or arrival[1] <= after
        ]
        queue = self.queues.get(client)
        if queue is not None:
            for lot in dropped:
                queue.lots.pop()
                queue.count -= lot.count
                queue.bytes -= lot.bytes
            if not queue:
                del self.queues[client]
        return dropped
