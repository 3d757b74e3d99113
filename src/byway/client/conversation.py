"""What a client and its broker say to each other while they are connected, and what is said again
after a loss.

What is to be said is collected and said once an iteration of the event loop: requests first, then
publications, then what must not overtake them. While a subscription is full the broker is asked to
hold deliveries back; answers still come. Connecting is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final

from byway.client.deliveries import Deliveries
from byway.client.options import ClientOptions
from byway.client.publishing import OutgoingPublications
from byway.client.registrations import Asking, Registration, Registrations, label_of
from byway.client.subscription import Subscription
from byway.model import Filter
from byway.model.errors import (
    ClientError,
    ClosedError,
    NotInTimeError,
    NotSettledError,
    NotToldError,
)
from byway.model.messages import (
    SESSION,
    Attached,
    DeliveriesReceived,
    Delivery,
    HoldDeliveries,
    PublicationsAccepted,
    PublicationsConfirmed,
    Refused,
    Reply,
    Request,
    Requests,
    Settled,
    StatusRequest,
    UnadvertiseRequest,
)
from byway.model.status import BrokerStatus
from byway.transport.connection import Connection

log = logging.getLogger("byway.client")

RECEIPT_EVERY: Final = 64
RECEIPT_DELAY_S: Final = 0.05
"""A client with a session says what it got after so many deliveries, or so long after one."""

UNANSWERING_S: Final = 1.0
"""How long the broker may take to say for whom something waits that is not settled in time."""


class Conversation:
    """One client's side of what is said."""

    def __init__(self, options: ClientOptions, describe: Callable[[], str]) -> None:
        self.holdings = Registrations()
        self.deliveries = Deliveries(self.holdings)
        self.publications = OutgoingPublications(
            options.name, options.window, options.window_bytes, self, self._schedule
        )
        self.is_holding = False
        """Whether the broker is to hold deliveries back because a subscription is full."""
        self._is_paused = False
        """Whether nothing is read because the broker does not do so."""
        self._options = options
        self._describe = describe
        self._closed: str | None = None
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self.is_ready = False
        """Whether it may be spoken over."""
        self._asking: list[Request] = []
        self._parting: list[Request] = []
        """What must not overtake publications."""
        self._is_scheduled = False
        self._receipted = 0
        """The last delivery that the broker knows to be here."""
        self._receipt_timer: asyncio.TimerHandle | None = None
        self._patience_timer: asyncio.TimerHandle | None = None
        self._status: asyncio.Future[BrokerStatus] | None = None
        """What the broker was asked for and has not told."""

    # --- beginnings and ends ----------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        """A new session: everything held is asked for, everything unconfirmed is sent again."""
        self._listen(connection)
        self.deliveries.restart()
        self._receipted = 0
        self.publications.restart()
        self._speak(connection, self.holdings.restart)

    def go_on(self, connection: Connection, attached: Attached) -> None:
        """The session was kept. What is settled or confirmed is told next; only then what is not
        is asked for again."""
        self._listen(connection)
        self.deliveries.resume(attached.lost)
        self._receipted = self.deliveries.received
        self.publications.resume(attached.published)
        self._loop.call_soon(self._speak, connection, self.holdings.resume)

    def _listen(self, connection: Connection) -> None:
        self._connection, self.is_ready = connection, False
        self._asking.clear()
        self._parting.clear()
        self.is_holding = self._is_paused = False
        self._adjust_flow()

    def _speak(self, connection: Connection, ask: Callable[[], list[Asking]]) -> None:
        if connection is self._connection:
            self.is_ready = True
            self._ask(ask())
            if self._status is not None:
                connection.send(StatusRequest())
            for holding in self.holdings.all.values():
                holding.changed()
            if self.holdings.awaited:
                wait_s = self._options.settle_wait
                self._patience_timer = self._loop.call_later(wait_s, self._await_no_more)

    def _await_no_more(self) -> None:
        """Publish though an advertisement is not settled: a broker may be away for long."""
        self.holdings.awaited.clear()
        self._schedule()

    def interrupt(self) -> None:
        """The connection is gone; another may come."""
        self._connection, self.is_ready = None, False
        for timer in (self._receipt_timer, self._patience_timer):
            if timer is not None:
                timer.cancel()
        self._receipt_timer = self._patience_timer = None

    def close(self, reason: str) -> None:
        """Nothing more comes; tell all who wait."""
        self.interrupt()
        self._closed = reason
        self.publications.close(reason)
        if self._status is not None:
            self._status.cancel()
        for holding in self.holdings.all.values():
            holding.changed()

    def closing_error(self) -> ClosedError | None:
        """Why nothing can be asked for any more."""
        if self._closed is None:
            return None
        return ClosedError(f"client {self._options.name}", self._closed)

    # --- saying -----------------------------------------------------------------------------------

    def hold(self, holding: Registration) -> None:
        """Ask for it, now and whenever a session begins anew."""
        error = self.closing_error()
        if error is not None:
            raise error
        self._ask(self.holdings.add(holding))

    def replace(self, holding: Registration, filters: Sequence[Filter]) -> None:
        """Ask for other filters instead."""
        self._ask(self.holdings.replace(holding, filters))

    def let_go(self, holding: Registration) -> None:
        """Take it back."""
        self._ask(self.holdings.remove(holding))
        if isinstance(holding, Subscription):
            self.has_room_again(holding)

    def _ask(self, requests: list[Asking]) -> None:
        """Say it soon; while away it is left to the next session."""
        if self.is_ready:
            for request in requests:
                is_parting = isinstance(request, UnadvertiseRequest)
                (self._parting if is_parting else self._asking).append(request)
            if self._parting:
                self._say()  # between what was published before and what will be
            else:
                self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._say_scheduled)

    def _say_scheduled(self) -> None:
        self._is_scheduled = False
        self._say()

    def _say(self) -> None:
        connection = self._connection
        if connection is None or not self.is_ready:
            return
        if self._asking:
            asking, self._asking = self._asking, []
            connection.send_large(Requests(tuple(asking)))
        if self.holdings.awaited:
            return  # what they announce must not be published before they are settled
        if self.publications.has_unsent:
            publications = self.publications.take()
            connection.send_data(Requests(publications))
        if self._parting:
            parting, self._parting = self._parting, []
            connection.send_data(Requests(tuple(parting)))

    # --- hearing ----------------------------------------------------------------------------------

    def take(self, replies: Sequence[Reply]) -> None:
        """The broker tells something."""
        take_delivery = self.deliveries.take
        for reply in replies:
            if type(reply) is Delivery:
                take_delivery(reply)
            else:
                self._take_answer(reply)
        if self.deliveries.full:
            self._adjust_flow()
        if self._options.session_ttl and self.deliveries.received > self._receipted:
            self._plan_receipt()

    def _take_answer(self, reply: Reply) -> None:
        if isinstance(reply, PublicationsConfirmed):
            self.publications.confirm(reply.sequence)
        elif isinstance(reply, PublicationsAccepted):
            self.publications.accept(reply.sequence)
        elif isinstance(reply, Settled):
            self.holdings.settled(reply.name)
            self._schedule()
        elif isinstance(reply, Refused):
            if reply.subject.isdecimal():  # names are not: they have dots
                self.publications.refuse(int(reply.subject), reply.reason)
            elif reply.subject == SESSION:
                name = self._options.name
                log.warning("client %s: no session is kept for it: %s", name, reply.reason)
            else:
                self.holdings.refused(reply.subject, reply.reason)
                self._schedule()

    def _plan_receipt(self) -> None:
        if self.deliveries.received - self._receipted >= RECEIPT_EVERY:
            self._send_receipt()
        elif self._receipt_timer is None:
            self._receipt_timer = self._loop.call_later(RECEIPT_DELAY_S, self._send_receipt)

    def _send_receipt(self) -> None:
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
            self._receipt_timer = None
        received = self.deliveries.received
        if self._connection is not None and received > self._receipted:
            self._receipted = received
            self._connection.send(Requests((DeliveriesReceived(received),)))

    # --- how the broker is ------------------------------------------------------------------------

    async def broker_status(self, timeout: float | None) -> BrokerStatus:
        """Ask the broker how it is; all who ask until it answers get the same answer."""
        error = self.closing_error()
        if error is not None:
            raise error
        if self._status is None:
            self._status = self._loop.create_future()
            if self._connection is not None and self.is_ready:
                self._connection.send(StatusRequest())
        status = self._status
        await self.wait(_done(status), NotToldError, "the status of the broker", timeout)
        if status.cancelled():
            error = self.closing_error()
            assert error is not None
            raise error
        return status.result()

    def take_status(self, status: BrokerStatus) -> None:
        """The broker tells how it is."""
        if self._status is not None:
            self._status.set_result(status)
            self._status = None

    # --- waiting ----------------------------------------------------------------------------------

    async def wait(
        self,
        awaited: Awaitable[None],
        error: type[NotInTimeError],
        subject: str,
        timeout: float | None,
    ) -> None:
        """Wait for an answer, but not for ever; None: as long as the options say."""
        timeout = self._options.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                await awaited
            return
        except TimeoutError:
            state = self._describe()
        if error is NotSettledError:
            raise NotSettledError(subject, timeout, state, await self._unanswering(subject))
        raise error(subject, timeout, state)

    async def _unanswering(self, label: str) -> tuple[str, ...]:
        """Brokers that have not answered for what is held under a label, as the broker tells within
        a second; nobody, if it does not."""
        if not self.is_ready:
            return ()
        try:
            status = await self.broker_status(UNANSWERING_S)
        except ClientError:
            return ()
        own = [
            entry
            for entry in status.unsettled_entries
            if entry.client == self._options.name and label_of(entry.name) == label
        ]
        if own or status.unsettled == len(status.unsettled_entries):
            return tuple(sorted({name for entry in own for name in entry.brokers}))
        return tuple(sorted({*status.away, *(tables.broker for tables in status.missing)}))

    def has_room_again(self, subscription: Subscription) -> None:
        """The application has taken what had filled a subscription."""
        if self.deliveries.full.pop(subscription, "") is None:
            self._adjust_flow()

    def _adjust_flow(self) -> None:
        connection, deliveries = self._connection, self.deliveries
        if connection is None:
            return
        if bool(deliveries.full) != self.is_holding:
            self.is_holding = not self.is_holding
            connection.send(HoldDeliveries(self.is_holding))
        if deliveries.is_brimming != self._is_paused:
            self._is_paused = not self._is_paused
            if self._is_paused:
                connection.pause_reading()
            else:
                connection.resume_reading()


async def _done(future: asyncio.Future[BrokerStatus]) -> None:
    """Wait until it is done, whatever comes of it; who gives up leaves it to others."""
    await asyncio.wait([future])
