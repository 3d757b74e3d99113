"""The outbox of a client: what it has to say, in order, and publications until they are confirmed.

Publications get their number when they are said, and no more are said than fit into a window. What
a broker had not read when the connection broke is said again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from byway.model.messages import DeliveriesReceived, PublishRequest, Request
from byway.sim.engine.nodes import Node

WINDOW: Final = 1_024
"""Publications of one client that are not confirmed; more wait in the client."""


class Unsaid(msgspec.Struct, frozen=True):
    """A publication that has no number yet."""

    body: bytes
    attributes: Mapping[str, Any]


class Leaving(msgspec.Struct, frozen=True):
    """The client goes for good."""


Item = Request | Unsaid | Leaving


class ClientOutbox:
    """What one client has to say."""

    def __init__(self, client: str, home: Node) -> None:
        self.unconfirmed: dict[int, Mapping[str, Any]] = {}
        """By sequence, the attributes of what was said."""
        self._client = client
        self._home = home
        self._items: deque[Item] = deque()
        self._sequence = 0

    def __repr__(self) -> str:
        return f"<Outbox of {len(self._items)}, {len(self.unconfirmed)} unconfirmed>"

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        """Something to say."""
        self._items.append(item)

    def say(self) -> None:
        """Say what waits, as far as the window allows."""
        items, home, client = self._items, self._home, self._client
        while items:
            item = items[0]
            if type(item) is Unsaid:
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
        """Publications up to this one are confirmed."""
        unconfirmed = self.unconfirmed
        while unconfirmed and (oldest := next(iter(unconfirmed))) <= sequence:
            del unconfirmed[oldest]

    def take_back(self, unread: Sequence[Request], *, goodbye: bool) -> None:
        """The connection broke: so much was not read. What was received is told when it is back;
        `goodbye`: it has been said, or is to be said."""
        again: list[Item] = [item for item in unread if type(item) is not DeliveriesReceived]
        rest = [item for item in self._items if type(item) is not Leaving]
        self._items = deque([*again, *rest, *([Leaving()] if goodbye else [])])

    def start_anew(self, requests: Sequence[Request]) -> None:
        """First these requests, then the publications that were not read, with new numbers."""
        items: list[Item] = list(requests)
        for item in self._items:
            if type(item) is PublishRequest:
                items.append(Unsaid(item.body, self.unconfirmed[item.sequence]))
            elif type(item) is Unsaid or type(item) is Leaving:
                items.append(item)
        self._items = deque(items)
        self.unconfirmed.clear()
        self._sequence = 0
