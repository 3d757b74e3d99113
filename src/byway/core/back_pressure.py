"""Back-pressure: from whom a broker takes publications now.

Two bounds. The home broker admits at most `publisher_window` unconfirmed publications of one
publisher: a neighbour that is dead or slow stops the publishers that have copies for it, and nobody
else. Beyond that each link, and what is held and parked in each branch, has a hard bound in bytes,
`link_bytes_max`. At that bound data is refused *by branch*: what comes from the full branch is
taken, what comes from elsewhere is not. By link instead, three full brokers could wait for each
other in a ring of links (tests/models). Nothing is dropped; the driver asks before each turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from byway.core.client_session import ClientSession
from byway.core.context import Context
from byway.core.session_deliveries import SessionDeliveries

TIGHT: Final = 1_024
"""A driver must ask for the room of a client only if it hands in more of its publications at a
time, or if the room of some client is smaller."""


class BackPressure:
    """What one broker takes."""

    __slots__ = ("_bytes_max", "_context", "_deliveries", "_sessions", "_tight", "_window")

    def __init__(
        self,
        context: Context,
        deliveries: SessionDeliveries,
        sessions: Mapping[str, ClientSession],
    ) -> None:
        self._context = context
        self._deliveries = deliveries
        self._sessions = sessions
        self._bytes_max = context.config.link_bytes_max
        self._window = context.config.publisher_window
        self._tight: set[str] = set()
        """Clients whose room is below `TIGHT`."""

    @property
    def full_branches(self) -> set[str]:
        """The branches into which a link, or what is held, is at its bound."""
        context, most = self._context, self._bytes_max
        full = {
            context.branch_of(link)
            for link, queue in context.copies.links.items()
            if queue.bytes >= most
        }
        if context.held is not None:
            full.update(branch for branch in context.tree if context.held.size(branch) >= most)
        return full

    def reads_data_from(self, link: str | None) -> bool:
        """Whether publications of a neighbour, or of clients (None), may be handed in."""
        context, most = self._context, self._bytes_max
        if self._deliveries.held_bytes >= most:
            return False
        if context.copies.bytes < most and (context.held is None or context.held.is_empty):
            return True  # mostly: all links together are below the bound of one
        full = self.full_branches
        return not full or (link is not None and full == {context.branch_of(link)})

    # --- publishers ------------------------------------------------------------------------------

    @property
    def limits_publications(self) -> bool:
        """Whether the room of some client may be below `TIGHT`."""
        return self._window < TIGHT or bool(self._tight)

    def publication_room(self, client: str) -> int:
        """How many publications of a client may be handed in. What counts is the span from its
        oldest unconfirmed one, so that a window of so many sequences can tell duplicates."""
        session = self._sessions.get(client)
        if session is None:
            return self._window
        unconfirmed = session.sequence - session.window.finished_up_to
        return max(self._window - unconfirmed, 0)

    def count(self, client: str) -> None:
        """A client has published, its publications were confirmed, or its session has ended."""
        if client in self._sessions and self.publication_room(client) < TIGHT:
            self._tight.add(client)
        elif self._tight:
            self._tight.discard(client)

    def recount(self) -> None:
        """Count everything anew, after clients were restored."""
        for client in self._sessions:
            self.count(client)
