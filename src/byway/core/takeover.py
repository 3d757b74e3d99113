"""Takeover: an entry whose origin withdrew it, and which another neighbour still announces, gets
that neighbour as its origin after a while.

The wait gives the other neighbour time to withdraw the entry as well; see `alternates` for why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from byway.core.actions import SetTimer, Timer
from byway.core.context import Context
from byway.core.tables import Entry, Table

if TYPE_CHECKING:
    from byway.core.advertisements import Advertisements
    from byway.core.subscriptions import Subscriptions

TIMER: Final = Timer("takeover")
WAIT_US: Final = 1_000_000
"""How long an alternate origin has to withdraw the entry too."""


def schedule_takeover(context: Context, table: Table, entry: Entry) -> None:
    """An entry ended that another neighbour still announces: look again in a while."""
    table.alternates.pending_takeover[entry.id] = entry.filter
    context.out.do(SetTimer(TIMER, context.now_us + WAIT_US))


class Takeover:
    """Promotes alternate origins when their time has come."""

    def __init__(
        self, context: Context, advertisements: Advertisements, subscriptions: Subscriptions
    ) -> None:
        self._context = context
        self._advertisements = advertisements
        self._subscriptions = subscriptions

    def on_started(self) -> None:
        """The broker begins; what was pending in its snapshot waits once more."""
        context = self._context
        tables = context.adverts, context.subscriptions
        if any(table.alternates.pending_takeover for table in tables):
            context.out.do(SetTimer(TIMER, context.now_us + WAIT_US))

    def on_timer(self) -> None:
        """The wait is over: each pending entry begins again, if somebody still announces it."""
        for table, part in (
            (self._context.adverts, self._advertisements),
            (self._context.subscriptions, self._subscriptions),
        ):
            alternates = table.alternates
            pending, alternates.pending_takeover = alternates.pending_takeover, {}
            for id, filter in pending.items():
                part.promote_alternate(id, filter)
