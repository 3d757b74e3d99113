"""Where the rules of a routing send what follows from a change, and what they ask the broker.

A routing knows neither links nor clients, only their names. Its outlet carries messages to them;
the routing in force has one that does so at once.
"""

from __future__ import annotations

from typing import Protocol

from byway.core.actions import SetTimer, Timer
from byway.core.context import Context
from byway.core.counters import Counters
from byway.core.in_flight import InFlight
from byway.core.recovery import Recovery
from byway.core.sync_state import Change
from byway.core.table_sync import TableSync
from byway.model.messages import EntryId, Reply, Unadvertise


class RoutingOutlet(Protocol):
    """What the rules of one routing may do, and ask about their broker."""

    @property
    def broker(self) -> tuple[str, int]:
        """The name and incarnation of the broker."""

    @property
    def now_us(self) -> int:
        """The time of the input that is handled."""

    @property
    def counters(self) -> Counters:
        """Where the rules count what they do."""

    def send(self, link: str, message: Change) -> None:
        """Send a change to a neighbour, now or when tables have been compared with it."""

    def send_unadvertise(self, link: str, message: Unadvertise, pending: InFlight) -> None:
        """Send the end of an advertisement, behind the publications that it announced. It is one
        more copy that `pending` waits for."""

    def answer(self, link: str, id: EntryId) -> None:
        """Tell a neighbour that a subscription of its is settled, or has ended."""

    def tell(self, client: str, reply: Reply) -> None:
        """Send a local client a reply."""

    def set_timer(self, timer: Timer, at_us: int) -> None:
        """Have the broker handle a timer at a time."""

    def awaits_digest(self, link: str) -> bool:
        """Whether a neighbour is sent nothing yet, and will therefore answer for nothing."""

    def settle_unclaimed(self, link: str, id: EntryId) -> None:
        """A neighbour answers for an entry that it was not sent: it may be unclaimed."""

    def knows_adverts_except(self, link: str | None) -> bool:
        """Whether all neighbours, or all but one, have sent their advertisements."""


class InForceOutlet:
    """The outlet of the routing in force: what it sends goes out with the current input."""

    def __init__(self, context: Context, sync: TableSync, recovery: Recovery) -> None:
        self._context = context
        self.broker = context.name, context.incarnation
        self.send = sync.send
        self.awaits_digest = sync.awaits_digest
        self.settle_unclaimed = sync.settle_unclaimed
        self.knows_adverts_except = recovery.knows_adverts_except

    @property
    def now_us(self) -> int:
        """The time of the input that is handled."""
        return self._context.now_us

    @property
    def counters(self) -> Counters:
        """The counters of the broker."""
        return self._context.counters

    def send_unadvertise(self, link: str, message: Unadvertise, pending: InFlight) -> None:
        """Send the end of an advertisement; the neighbour confirms it like a publication."""
        context = self._context
        if context.held is not None:
            context.held.end_advertisement(link, message, pending)
            return
        context.copies.append(link, message, pending)
        context.out.touched[link] = None
        context.out.has_other_data = True

    def answer(self, link: str, id: EntryId) -> None:
        """Tell a neighbour that a subscription of its is settled, or has ended."""
        self._context.out.answer(link, id)

    def tell(self, client: str, reply: Reply) -> None:
        """Send a local client a reply."""
        self._context.out.tell(client, reply)

    def set_timer(self, timer: Timer, at_us: int) -> None:
        """Set a timer of the broker."""
        self._context.out.do(SetTimer(timer, at_us))
