"""Drives the core of one client in an event loop: its connection, its timers, and those who wait.

The core (`session.client_core`) decides everything; this file performs its actions over TCP and
lets tasks of the application wait for what it tells.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from math import inf
from time import time_ns
from typing import Any, Final

from byway.client.publishing import PublicationWaits, Receipt
from byway.client.subscription import AwaitableRegistration, Subscription
from byway.clock import now_us
from byway.model.errors import (
    ClientError,
    ConnectError,
    NotInTimeError,
    NotSettledError,
    NotToldError,
)
from byway.model.messages import CLIENT_PROTOCOL_VERSION, AnyFrame, Preamble
from byway.model.status import BrokerStatus
from byway.session.client_actions import (
    ClientTimer,
    CloseConnection,
    Dial,
    DropConnection,
    FrameKind,
    HoldReading,
    KeepConnection,
    StartTimer,
    StopTimer,
    TellAccepted,
    TellClosed,
    TellConfirmed,
    TellEvents,
    TellOpened,
    TellOpenFailed,
    TellRefused,
    TellRegistration,
    TellStatus,
    Warn,
    WriteFrame,
)
from byway.session.client_core import ClientCore, whole
from byway.session.client_inputs import (
    ClientClosed,
    ClientInput,
    ClientOpened,
    ClientTimerFired,
    ConnectionLost,
    FrameArrived,
    Greeted,
    PublicationMade,
    StatusAsked,
)
from byway.session.client_options import BrokerUrl, ClientOptions
from byway.session.registrations import Registration, label_of
from byway.transport.connection import Connection
from byway.transport.os_words import os_reason
from byway.wire import FRAME_BYTES_MAX

log = logging.getLogger("byway.client")

GOODBYE_S: Final = 1.0
"""How long a goodbye may take; then the connection is dropped."""
STATUS_WAIT_S: Final = 1.0
"""How long to wait for the broker's status when a registration is not settled in time."""

_last_incarnation = 0


def new_incarnation() -> int:
    """Microseconds since 1970, raised so that it exceeds every earlier one of this process."""
    global _last_incarnation
    _last_incarnation = max(_last_incarnation + 1, time_ns() // 1_000)
    return _last_incarnation


def _jitter() -> float:
    return random.uniform(0.5, 1.0)


class ClientDriver:
    """One client at work in an event loop."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.core = ClientCore(options, new_incarnation(), _jitter)
        self.publications = PublicationWaits(self.core.publications, self)
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._number = 0
        """The number that the core gave the connection."""
        self._dialling: asyncio.Task[None] | None = None
        self._keepalive: asyncio.TimerHandle | None = None
        self._timers: dict[ClientTimer, asyncio.Handle] = {}
        self._opened: asyncio.Future[None] = self._loop.create_future()
        """Done when the client was attached for the first time, or could not be."""
        self._status: asyncio.Future[BrokerStatus] | None = None
        """The status that was requested and has not arrived."""
        self._performers: dict[type, Callable[[Any], None]] = {
            Dial: self._dial,
            WriteFrame: self._write,
            KeepConnection: self._keep,
            HoldReading: self._hold_reading,
            CloseConnection: self._close_connection,
            DropConnection: self._drop_connection,
            StartTimer: self._start_timer,
            StopTimer: self._stop_timer,
            TellOpened: self._on_opened,
            TellOpenFailed: self._on_open_failed,
            TellClosed: self._on_closed,
            TellAccepted: lambda told: self.publications.accepted.rise(told.number),
            TellConfirmed: self._on_confirmed,
            TellRefused: lambda _: self.publications.give_room(),
            TellRegistration: lambda told: _changed(told.registration),
            TellEvents: self._on_events,
            TellStatus: self._on_status,
            Warn: lambda told: log.warning("client %s: %s", options.name, told.words),
        }

    def __repr__(self) -> str:
        return f"<ClientDriver of {self.options.name}, {self.core.describe()}>"

    def handle(self, event: ClientInput) -> None:
        """Hand an input to the core, and perform what it asks for. Raises as the core does."""
        performers = self._performers
        for action in self.core.handle(now_us(), event):
            performers[type(action)](action)

    # --- life -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, unless that was done before. Raises `ConnectError`, `ClosedError`."""
        self.handle(ClientOpened())
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            self.handle(ClientClosed("opening it was cancelled"))
            raise

    async def close(self, reason: str) -> None:
        """End the session for good, and wait at most `GOODBYE_S` for the goodbye to be sent."""
        connection = self._connection
        self.handle(ClientClosed(reason))
        if connection is not None and connection.when_lost is not None:
            await asyncio.wait([connection.when_lost], timeout=GOODBYE_S)
            connection.abort(reason)

    def _on_opened(self, _: TellOpened) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _on_open_failed(self, told: TellOpenFailed) -> None:
        if not self._opened.done():
            self._opened.set_exception(ConnectError(self.options.name, told.failures))

    def _on_closed(self, told: TellClosed) -> None:
        """Fail everything that is waited for."""
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self._stop_keepalive()
        self.publications.fail(self.options.name, told.reason)
        if not self._opened.done():
            error = self.core.closing_error()
            assert error is not None
            self._opened.set_exception(error)
        self._opened.exception()  # whether or not somebody waits for it
        if self._status is not None:
            self._status.cancel()
        for registration in self.core.registrations.all.values():
            _changed(registration)

    # --- the connection ---------------------------------------------------------------------------

    def _dial(self, action: Dial) -> None:
        own = Preamble(
            CLIENT_PROTOCOL_VERSION, "client", self.options.name, action.incarnation,
            FRAME_BYTES_MAX, whole(self.options.keepalive * 1e3, least=1),
        )  # fmt: skip
        self._connection = connection = Connection(self, own, dialled=True)
        self._number = action.connection
        self._dialling = self._loop.create_task(
            self._connect(connection, action.connection, action.url)
        )

    async def _connect(self, connection: Connection, number: int, url: BrokerUrl) -> None:
        host, port = url.address.host, url.address.port
        try:
            await self._loop.create_connection(lambda: connection, host, port)
        except OSError as error:
            reason = os_reason(error)
        except ValueError:  # not a valid host name
            reason = f"{host!r} cannot be the name of a host"
        else:
            return
        log.debug("client %s: %s: %s", self.options.name, url, reason)
        self.handle(ConnectionLost(number, reason))

    def _write(self, action: WriteFrame) -> None:
        connection = self._connection
        assert connection is not None
        if action.kind is FrameKind.DATA:
            connection.send_data(action.frame)
        elif action.kind is FrameKind.LARGE:
            connection.send_large(action.frame)
        else:
            connection.send(action.frame)

    def _hold_reading(self, action: HoldReading) -> None:
        assert self._connection is not None
        if action.hold:
            self._connection.pause_reading()
        else:
            self._connection.resume_reading()

    def _close_connection(self, action: CloseConnection) -> None:
        connection = self._connection
        assert connection is not None
        if connection.open:
            connection.when_lost = self._loop.create_future()
            connection.close(action.reason, action.for_good)

    def _drop_connection(self, action: DropConnection) -> None:
        assert self._connection is not None
        if self._dialling is not None:
            self._dialling.cancel()
        self._connection.abort(action.reason)

    def _keep(self, action: KeepConnection) -> None:
        assert self._connection is not None
        self._stop_keepalive()
        self._keep_alive(self._connection, action.every_s, action.silence_s)

    def _keep_alive(self, connection: Connection, every_s: float, silence_s: float) -> None:
        """Send keep-alives from now on, and give up a broker that sends none."""
        connection.keep_alive(self._loop.time(), silence_s)
        self._keepalive = self._loop.call_later(
            every_s, self._keep_alive, connection, every_s, silence_s
        )

    def _stop_keepalive(self) -> None:
        if self._keepalive is not None:
            self._keepalive.cancel()
            self._keepalive = None

    # --- called by the connection -----------------------------------------------------------------

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """The peer's preamble arrived."""
        if connection is self._connection:
            self.handle(Greeted(self._number, peer))

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """A frame arrived after the preamble."""
        if connection is self._connection:
            self.handle(FrameArrived(self._number, frame))

    def drained(self, connection: Connection) -> None:
        """The broker has read what waited for it; nothing depends on that."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection was lost or closed."""
        if connection.when_lost is not None and not connection.when_lost.done():
            connection.when_lost.set_result(None)
        if connection is self._connection:
            self._stop_keepalive()
            if self.core.state == "attached":
                broker = self.core.attaching.broker
                log.info("client %s has lost %s: %s", self.options.name, broker, reason)
            self.handle(ConnectionLost(self._number, reason))

    # --- timers -----------------------------------------------------------------------------------

    def _start_timer(self, action: StartTimer) -> None:
        self._stop_timer(action)
        delay_s = (action.at_us - now_us()) / 1e6
        if delay_s > 0:
            self._timers[action.timer] = self._loop.call_later(delay_s, self._fire, action.timer)
        else:
            self._timers[action.timer] = self._loop.call_soon(self._fire, action.timer)

    def _stop_timer(self, action: StartTimer | StopTimer) -> None:
        handle = self._timers.pop(action.timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: ClientTimer) -> None:
        del self._timers[timer]
        self.handle(ClientTimerFired(timer))

    # --- publications and events ------------------------------------------------------------------

    def publish(self, body: bytes, kind: type[Receipt] = Receipt) -> Receipt:
        """Publish an encoded body. Raises `WindowFullError`, `ClosedError`, `InvalidValueError`."""
        receipt = kind(body, self.publications)
        if not self.core.join(receipt):
            self.handle(PublicationMade(receipt))
        return receipt

    def _on_confirmed(self, told: TellConfirmed) -> None:
        self.publications.confirmed.rise(told.number)
        self.publications.give_room()

    def _on_events(self, told: TellEvents) -> None:
        for registration in told.registrations:
            assert isinstance(registration, Subscription)
            registration.wake()

    # --- the broker's status ----------------------------------------------------------------------

    async def broker_status(self, timeout: float | None) -> BrokerStatus:
        """The broker's status; callers that wait at the same time share one answer. Raises
        `NotToldError`, `ClosedError`."""
        self.handle(StatusAsked())
        if self._status is None:
            self._status = self._loop.create_future()
        status = self._status
        await self.wait(_done(status), NotToldError, "the status of the broker", timeout)
        if status.cancelled():
            error = self.core.closing_error()
            assert error is not None
            raise error
        return status.result()

    def _on_status(self, told: TellStatus) -> None:
        if self._status is not None:
            self._status.set_result(told.status)
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
        timeout = self.options.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                await awaited
            return
        except TimeoutError:
            state = self.core.describe()
        if error is NotSettledError:
            raise NotSettledError(
                subject, timeout, state, await self._brokers_not_answering(subject)
            )
        raise error(subject, timeout, state)

    async def _brokers_not_answering(self, label: str) -> tuple[str, ...]:
        """Brokers that have not settled the registration with this label, according to the broker's
        status; empty if that does not arrive within `STATUS_WAIT_S`."""
        if not self.core.is_ready:
            return ()
        try:
            status = await self.broker_status(STATUS_WAIT_S)
        except ClientError:
            return ()
        own = [
            entry
            for entry in status.unsettled_entries
            if entry.client == self.options.name and label_of(entry.name) == label
        ]
        if own or status.unsettled == len(status.unsettled_entries):
            return tuple(sorted({name for entry in own for name in entry.brokers}))
        return tuple(sorted({*status.away, *(tables.broker for tables in status.missing)}))


def _changed(registration: Registration) -> None:
    assert isinstance(registration, AwaitableRegistration)
    registration.changed()


async def _done(future: asyncio.Future[BrokerStatus]) -> None:
    """Wait until the future is done or cancelled, without cancelling it for other waiters."""
    await asyncio.wait([future])
