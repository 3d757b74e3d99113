"""The outbox of a client: its requests in order, and its publications until they are confirmed.

A publication gets its number when it is sent, and no more are sent than fit into a window. Requests
that the broker had not read when the connection broke are sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from byway.model.messages import DeliveriesReceived, PublishRequest, Request
from byway.sim.engine.nodes import Node

WINDOW: Final = 1_024
"""Publications of one client that may be unconfirmed at a time; more wait in its outbox."""


class QueuedPublication(msgspec.Struct, frozen=True):
    """A publication that has no number yet."""

    body: bytes
    attributes: Mapping[str, Any]


class Leaving(msgspec.Struct, frozen=True):
    """The client leaves for good."""


Item = Request | QueuedPublication | Leaving


class ClientOutbox:
    """The requests that one client has to send."""

    def __init__(self, client: str, home: Node) -> None:
        self.unconfirmed: dict[int, Mapping[str, Any]] = {}
        """By sequence, the attributes of publications that were sent."""
        self._client = client
        self._home = home
        self._items: deque[Item] = deque()
        self._sequence = 0

    def __repr__(self) -> str:
        return f"<Outbox of {len(self._items)}, {len(self.unconfirmed)} unconfirmed>"

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        """Append a request; `flush` sends it."""
        self._items.append(item)

    def flush(self) -> None:
        """Send what waits, as far as the window allows."""
        items, home, client = self._items, self._home, self._client
        while items:
            item = items[0]
            if type(item) is QueuedPublication:
                if len(self.unconfirmed) >= WINDOW:
                    return
                self._sequence += 1
                self.unconfirmed[self._sequence] = item.attributes
                home.request(client, PublishRequest(self._sequence, item.body))
            elif type(item) is Leaving:
                home.goodbye(client)
            else:
                home.request(client, item)  # type: ignore[arg-type]
            items.popleft()

    def confirm(self, sequence: int) -> None:
        """Forget the publications up to this one: they are confirmed."""
        unconfirmed = self.unconfirmed
        while unconfirmed and (oldest := next(iter(unconfirmed))) <= sequence:
            del unconfirmed[oldest]

    def take_back(self, unread: Sequence[Request], *, goodbye: bool) -> None:
        """The connection broke before the broker read these requests: put them first again.

        What was received is reported when the client attaches again, so receipts are left out.
        `goodbye`: the client leaves, whether it has said so or not."""
        again: list[Item] = [item for item in unread if type(item) is not DeliveriesReceived]
        rest = [item for item in self._items if type(item) is not Leaving]
        self._items = deque([*again, *rest, *([Leaving()] if goodbye else [])])

    def start_anew(self, requests: Sequence[Request]) -> None:
        """Send these requests first, then the publications that were not read, with new numbers."""
        items: list[Item] = list(requests)
        for item in self._items:
            if type(item) is PublishRequest:
                items.append(QueuedPublication(item.body, self.unconfirmed[item.sequence]))
            elif type(item) is QueuedPublication or type(item) is Leaving:
                items.append(item)
        self._items = deque(items)
        self.unconfirmed.clear()
        self._sequence = 0
