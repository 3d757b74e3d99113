"""The frames that a client exchanges with its broker while connected, and those it repeats after
the connection was lost.

Frames are collected and sent once per iteration of the event loop: requests first, then
publications, then unadvertisements, which must not overtake publications. While a subscription is
full the broker is asked to hold deliveries back; answers still arrive. `session` connects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final

from byway.client.client_options import ClientOptions
from byway.client.deliveries import Deliveries
from byway.client.publishing import OutgoingPublications, Routes
from byway.client.registrations import Registration, RegistrationRequest, Registrations, label_of
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
    PublicationRouted,
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
"""Deliveries after which a client with a session acknowledges them."""
RECEIPT_DELAY_S: Final = 0.05
"""The longest time a delivery is left unacknowledged."""

STATUS_WAIT_S: Final = 1.0
"""How long to wait for the broker's status when a registration is not settled in time."""


class Conversation:
    """One client's side of the protocol."""

    def __init__(self, options: ClientOptions, describe: Callable[[], str]) -> None:
        self.registrations = Registrations()
        self.deliveries = Deliveries(self.registrations)
        self.publications = OutgoingPublications(
            options.name, options.window, options.window_bytes, self, self._schedule
        )
        self.is_holding = False
        """Whether the broker was asked to hold deliveries because a subscription is full."""
        self._is_paused = False
        """Whether reading is paused because deliveries arrive although the broker should hold
        them."""
        self._options = options
        self._describe = describe
        self._closed: str | None = None
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self.is_ready = False
        """Whether requests may be sent over the connection."""
        self._requests: list[Request] = []
        self._unadvertise_requests: list[Request] = []
        """Sent after the publications made before them."""
        self._is_scheduled = False
        self._receipted = 0
        """Number of the last delivery that was acknowledged."""
        self._receipt_timer: asyncio.TimerHandle | None = None
        self._settle_timer: asyncio.TimerHandle | None = None
        self._status: asyncio.Future[BrokerStatus] | None = None
        """The status that was requested and has not arrived."""

    # --- beginnings and ends ----------------------------------------------------------------------

    def start_session(self, connection: Connection) -> None:
        """Begin a new session: register everything again, send everything unconfirmed again."""
        self._use(connection)
        self.deliveries.restart()
        self._receipted = 0
        self.publications.restart()
        self._start_sending(connection, self.registrations.restart)

    def resume_session(self, connection: Connection, attached: Attached) -> None:
        """Resume the session that the broker kept. The broker first repeats what is settled and
        confirmed; only then are the remaining requests sent again."""
        self._use(connection)
        self.deliveries.resume(attached.lost)
        self._receipted = self.deliveries.received
        self.publications.resume(attached.published)
        self._loop.call_soon(self._start_sending, connection, self.registrations.resume)

    def _use(self, connection: Connection) -> None:
        self._connection, self.is_ready = connection, False
        self._requests.clear()
        self._unadvertise_requests.clear()
        self.is_holding = self._is_paused = False
        self._adjust_flow()

    def _start_sending(
        self, connection: Connection, registration_requests: Callable[[], list[RegistrationRequest]]
    ) -> None:
        if connection is self._connection:
            self.is_ready = True
            self._request(registration_requests())
            if self._status is not None:
                connection.send(StatusRequest())
            for registration in self.registrations.all.values():
                registration.changed()
            if self.registrations.awaited:
                wait_s = self._options.settle_wait
                self._settle_timer = self._loop.call_later(wait_s, self._stop_waiting_to_settle)

    def _stop_waiting_to_settle(self) -> None:
        """Publish although an advertisement is not settled: a broker may be down for long."""
        self.registrations.awaited.clear()
        self._schedule()

    def interrupt(self) -> None:
        """The connection was lost; another may follow."""
        self._connection, self.is_ready = None, False
        for timer in (self._receipt_timer, self._settle_timer):
            if timer is not None:
                timer.cancel()
        self._receipt_timer = self._settle_timer = None

    def close(self, reason: str) -> None:
        """End for good, and fail everything that is being waited for."""
        self.interrupt()
        self._closed = reason
        self.publications.close(reason)
        if self._status is not None:
            self._status.cancel()
        for registration in self.registrations.all.values():
            registration.changed()

    def closing_error(self) -> ClosedError | None:
        """The error that requests fail with once the client is closed."""
        if self._closed is None:
            return None
        return ClosedError(f"client {self._options.name}", self._closed)

    # --- sending ----------------------------------------------------------------------------------

    def register(self, registration: Registration) -> None:
        """Register at the broker, now and in every new session. Raises `ClosedError`."""
        error = self.closing_error()
        if error is not None:
            raise error
        self._request(self.registrations.add(registration))

    def replace(self, registration: Registration, filters: Sequence[Filter]) -> None:
        """Replace the filters of a registration."""
        self._request(self.registrations.replace(registration, filters))

    def unregister(self, registration: Registration) -> None:
        """Withdraw a registration."""
        self._request(self.registrations.remove(registration))
        if isinstance(registration, Subscription):
            self.has_room_again(registration)

    def _request(self, requests: list[RegistrationRequest]) -> None:
        """Send requests soon; while disconnected, the next session makes them."""
        if self.is_ready:
            for request in requests:
                is_unadvertising = isinstance(request, UnadvertiseRequest)
                (self._unadvertise_requests if is_unadvertising else self._requests).append(request)
            if self._unadvertise_requests:
                self._send_pending()  # between what was published before and what will be
            else:
                self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._send_scheduled)

    def _send_scheduled(self) -> None:
        self._is_scheduled = False
        self._send_pending()

    def _send_pending(self) -> None:
        connection = self._connection
        if connection is None or not self.is_ready:
            return
        if self._requests:
            requests, self._requests = self._requests, []
            connection.send_large(Requests(tuple(requests)))
        if self.registrations.awaited:
            return  # publications wait until the advertisements that admit them are settled
        if self.publications.has_unsent:
            if self.publications.to_ask:
                connection.send_large(Requests(self.publications.take_to_ask()))
            publications = self.publications.take()
            connection.send_data(Requests(publications))
        if self._unadvertise_requests:
            unadvertising, self._unadvertise_requests = self._unadvertise_requests, []
            connection.send_data(Requests(tuple(unadvertising)))

    # --- receiving --------------------------------------------------------------------------------

    def take(self, replies: Sequence[Reply]) -> None:
        """Take replies of the broker, in order."""
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
        elif isinstance(reply, PublicationRouted):
            routes = Routes(reply.clients, reply.links, reply.settled)
            self.publications.routed(reply.sequence, routes)
        elif isinstance(reply, Settled):
            self.registrations.settled(reply.name)
            self._schedule()
        elif isinstance(reply, Refused):
            if reply.subject.isdecimal():  # names are not: they have dots
                self.publications.refuse(int(reply.subject), reply.reason)
            elif reply.subject == SESSION:
                name = self._options.name
                log.warning("client %s: no session is kept for it: %s", name, reply.reason)
            else:
                self.registrations.refused(reply.subject, reply.reason)
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

    # --- the broker's status ----------------------------------------------------------------------

    async def broker_status(self, timeout: float | None) -> BrokerStatus:
        """The broker's status; callers that wait at the same time share one answer. Raises
        `NotToldError`, `ClosedError`."""
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
        """Take the status that the broker sent."""
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
        """Wait with a time limit, by default the one of the options; raises `error` beyond."""
        timeout = self._options.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                await awaited
            return
        except TimeoutError:
            state = self._describe()
        if error is NotSettledError:
            raise NotSettledError(
                subject, timeout, state, await self._brokers_not_answering(subject)
            )
        raise error(subject, timeout, state)

    async def _brokers_not_answering(self, label: str) -> tuple[str, ...]:
        """Brokers that have not settled the registration with this label, according to the broker's
        status; empty if that does not arrive within `STATUS_WAIT_S`."""
        if not self.is_ready:
            return ()
        try:
            status = await self.broker_status(STATUS_WAIT_S)
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
        """The application has taken events from a subscription that was full."""
        if self.deliveries.full.pop(subscription, "") is None:
            self._adjust_flow()

    def _adjust_flow(self) -> None:
        connection, deliveries = self._connection, self.deliveries
        if connection is None:
            return
        if bool(deliveries.full) != self.is_holding:
            self.is_holding = not self.is_holding
            connection.send(HoldDeliveries(self.is_holding))
        if deliveries.is_overfull != self._is_paused:
            self._is_paused = not self._is_paused
            if self._is_paused:
                connection.pause_reading()
            else:
                connection.resume_reading()


async def _done(future: asyncio.Future[BrokerStatus]) -> None:
    """Wait until the future is done or cancelled, without cancelling it for other waiters."""
    await asyncio.wait([future])
