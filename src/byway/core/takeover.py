"""Takeover: an entry whose origin withdrew it, and which another neighbour still announces, gets
that neighbour as its origin after a while.

The wait gives the other neighbour time to withdraw the entry as well; see `alternates` for why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from byway.core.actions import Timer
from byway.core.context import Context
from byway.core.tables import Entry, Table

if TYPE_CHECKING:
    from byway.core.routing import Routing

TIMER: Final = Timer("takeover")
WAIT_US: Final = 1_000_000
"""How long an alternate origin has to withdraw the entry too."""


def schedule_takeover(routing: Routing, table: Table, entry: Entry) -> None:
    """An entry of a table of a routing ended that another neighbour still announces: look again in
    a while."""
    table.alternates.pending_takeover[entry.id] = entry.filter
    routing.set_timer(TIMER, WAIT_US)


def schedule_pending(routing: Routing) -> None:
    """Let what is pending in a routing wait once more, if there is anything."""
    if any(table.alternates.pending_takeover for table in (routing.adverts, routing.subscriptions)):
        routing.set_timer(TIMER, WAIT_US)


class Takeover:
    """Promotes alternate origins of the routing in force when their time has come."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def on_started(self) -> None:
        """The broker begins; what was pending in its snapshot waits once more."""
        schedule_pending(self._context.routing)

    def on_timer(self) -> None:
        """The wait is over: each pending entry begins again, if somebody still announces it."""
        routing = self._context.routing
        for table, rules in (
            (routing.adverts, routing.advertisement_rules),
            (routing.subscriptions, routing.subscription_rules),
        ):
            alternates = table.alternates
            pending, alternates.pending_takeover = alternates.pending_takeover, {}
            for id, filter in pending.items():
                rules.promote_alternate(id, filter)
