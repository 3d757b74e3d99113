"""A client's session with its broker: connecting, resuming, and starting a new one.

It dials the brokers in turn, greets, and reconnects after a loss: with the same incarnation, so
that the broker resumes the session it kept, else with a higher one. `conversation` decides what is
sent then.
"""

from __future__ import annotations

import asyncio
import logging
import random
from time import time_ns
from typing import Final

from byway.client.client_options import BrokerUrl, ClientOptions
from byway.client.conversation import Conversation
from byway.model.bounds import INT64_MAX
from byway.model.errors import ConnectError
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    AnyFrame,
    Attached,
    ClientHello,
    Goodbye,
    Preamble,
    Replies,
    Status,
    Welcome,
)
from byway.model.status import decode_status
from byway.transport.connection import Connection
from byway.transport.os_words import os_reason
from byway.wire import FRAME_BYTES_MAX

log = logging.getLogger("byway.client")

GOODBYE_S: Final = 1.0
"""How long a goodbye may take; then the connection is dropped."""

_last_incarnation = 0


def new_incarnation() -> int:
    """Microseconds since 1970, raised so that it exceeds every earlier one of this process."""
    global _last_incarnation
    _last_incarnation = max(_last_incarnation + 1, time_ns() // 1_000)
    return _last_incarnation


def _whole(number: float, least: int = 0) -> int:
    """The number rounded to an integer that fits a message; larger ones become the largest."""
    return max(least, round(number)) if number < INT64_MAX else INT64_MAX


class Session:
    """The session of one client, over any number of connections."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.conversation = Conversation(options, self.describe)
        self.incarnation = new_incarnation()
        self.state = "new"
        """`new`, `connecting`, `attached`, `away` or `closed`."""
        self.reason = ""
        """Why the session is away or closed."""
        self.broker = ""
        """Id of the broker that the session is with."""
        self.url: BrokerUrl | None = None
        """URL of the broker that the session is with."""
        self.attachments = 0
        """Number of times that a broker has attached the client."""
        self.sessions = 0
        """Number of sessions started; each after the first is a gap in what was received."""
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._dialled = options.urls[0]
        self._answer: asyncio.Future[bool] = self._loop.create_future()
        """Result of an attempt to attach; false: the session was not kept, and only a new
        incarnation can attach."""
        self._gone = asyncio.Event()
        self._reconnecting: asyncio.Task[None] | None = None
        self._keepalive: asyncio.TimerHandle | None = None
        self._is_dismissed = False
        """Whether a broker has closed the connection for good."""

    def __repr__(self) -> str:
        return f"<Session of {self.options.name}, {self.describe()}>"

    def describe(self) -> str:
        """The state in words, for messages and `repr`."""
        if self.state != "attached":
            return f"{self.state}: {self.reason}" if self.reason else self.state
        where = f"attached to {self.broker} at {self.url}"
        if not self.conversation.is_holding:
            return where
        full = ", ".join(registration.name for registration in self.conversation.deliveries.full)
        return f"{where}, deliveries are held until events of {full} are taken"

    # --- life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, unless that was done before. Raises `ConnectError`, `ClosedError`."""
        error = self.conversation.closing_error()
        if error is not None:
            raise error
        if self.state != "new":
            return
        self.state = "connecting"
        give_up = self._loop.time() + self.options.connect_wait
        delay_s = self.options.retry
        while failures := await self._dial_all():
            if self._is_dismissed or self._loop.time() >= give_up:
                self._end("it could not connect")
                raise ConnectError(self.options.name, tuple(failures))
            delay_s = await self._back_off(delay_s)
        self._reconnecting = asyncio.create_task(self._reconnect_forever())

    async def _reconnect_forever(self) -> None:
        """Reconnect whenever the connection is lost."""
        while True:
            await self._gone.wait()
            delay_s = self.options.retry
            while self.state == "away":
                if self._is_dismissed or not self.options.reconnect:
                    self._end(self.reason)
                    return
                delay_s = await self._back_off(delay_s)
                if failures := await self._dial_all():
                    self.reason = "; ".join(f"{url}: {reason}" for url, reason in failures)

    async def _back_off(self, delay_s: float) -> float:
        """Sleep for a random part of the delay; the delay before the next attempt."""
        await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
        return min(2 * delay_s, self.options.retry_max)

    async def close(self, reason: str) -> None:
        """End the session for good, and wait at most `GOODBYE_S` for the goodbye to be sent."""
        for registration in self.conversation.registrations.all.values():
            registration.is_open = False
        connection = self._connection
        self._end(reason)
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.wait([self._reconnecting])
        if connection is not None and connection.open:
            connection.when_lost = self._loop.create_future()
            connection.close(reason, for_good=True)
            await asyncio.wait([connection.when_lost], timeout=GOODBYE_S)
            connection.abort(reason)

    def _end(self, reason: str) -> None:
        """Close the session, and fail everything that is being waited for."""
        if self.state != "closed":
            self.state, self.reason = "closed", reason
            self._stop_keepalive()
            self.conversation.close(reason)

    # --- connecting -----------------------------------------------------------------------------

    async def _dial_all(self) -> list[tuple[str, str]]:
        """Try every broker once, that of the session first; URL and reason of each failure, empty
        if one attached the client."""
        urls = list(self.options.urls)
        if self.url is not None:
            at = urls.index(self.url)
            urls = urls[at:] + urls[:at]
        failures = []
        for url in urls:
            reason = await self._attach(url)
            if reason is None:
                return []
            log.debug("client %s: %s: %s", self.options.name, url, reason)
            failures.append((url.text, reason))
            if self._is_dismissed:
                break
        return failures

    async def _attach(self, url: BrokerUrl) -> str | None:
        """Try one broker; the reason of the failure, None if it attached the client."""
        incarnation = self.incarnation if self.url in (None, url) else new_incarnation()
        while True:
            connection = self._new_connection(url, incarnation)
            try:
                async with asyncio.timeout(self.options.connect_timeout):
                    host, port = url.address.host, url.address.port
                    await self._loop.create_connection(lambda: connection, host, port)  # noqa: B023
                    if await self._answer:
                        return None
            except TimeoutError:
                reason = f"no answer within {self.options.connect_timeout:g} s"
                connection.abort(reason)
                return reason
            except OSError as error:
                return os_reason(error)
            except ValueError:  # not a valid host name
                return f"{host!r} cannot be the name of a host"
            except asyncio.CancelledError:
                connection.abort("the client gave up")
                raise
            incarnation = new_incarnation()  # the broker has not kept the session

    def _new_connection(self, url: BrokerUrl, incarnation: int) -> Connection:
        options = self.options
        preamble = Preamble(
            CLIENT_PROTOCOL_VERSION, "client", options.name, incarnation, FRAME_BYTES_MAX,
            _whole(options.keepalive * 1e3, least=1),
        )  # fmt: skip
        self._dialled = url
        self._answer = self._loop.create_future()
        self._connection = Connection(self, preamble, dialled=True)
        return self._connection

    # --- called by the connection -----------------------------------------------------------------

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """The peer's preamble arrived: answer with the client's hello."""
        if peer.role != "broker":
            connection.close(f"this is a {peer.role}, not a broker")
            return
        received = self.conversation.deliveries.received if self._is_resuming(connection) else 0
        resumes = self.sessions > 0 and peer.name == self.broker
        ttl_us = _whole(self.options.session_ttl * 1e6)
        connection.send(ClientHello(ttl_us, received, resumes))

    def _is_resuming(self, connection: Connection) -> bool:
        """Whether this connection is to resume the session."""
        return self.sessions > 0 and connection.own.incarnation == self.incarnation

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """Take a frame; one that a broker must not send closes the connection."""
        if connection is not self._connection or self.state == "closed":
            return
        if type(frame) is Replies:
            if self._is_attached(connection, frame):
                self.conversation.take(frame.replies)
        elif isinstance(frame, Welcome):
            self.conversation.publications.body_bytes_max = frame.body_bytes_max
        elif isinstance(frame, Status):
            self.conversation.take_status(decode_status(frame.facts))
        elif isinstance(frame, Goodbye):
            connection.goodbye = frame
        else:
            connection.close(f"a broker does not send a client {type(frame).__name__}")

    def _is_attached(self, connection: Connection, frame: Replies) -> bool:
        """Whether the client is attached. Replies before `Attached` are dropped: the broker
        repeats them."""
        if not self._answer.done():
            for reply in frame.replies:
                if isinstance(reply, Attached):
                    self._on_attached(connection, reply)
        return self.state == "attached" and connection.open

    def _on_attached(self, connection: Connection, attached: Attached) -> None:
        is_resuming = self._is_resuming(connection)
        if is_resuming and not attached.resumed:
            connection.close("the session was not kept: a new one is started")
            self._answer.set_result(False)
            return
        assert connection.peer is not None
        self.broker, self.url = connection.peer.name, self._dialled
        self.incarnation = connection.own.incarnation
        self.state, self.reason = "attached", ""
        self.attachments += 1
        self._gone.clear()
        self._keep_alive(connection)
        if is_resuming:
            self.conversation.resume_session(connection, attached)
        else:
            self.sessions += 1
            self.conversation.start_session(connection)
        self._answer.set_result(True)

    def drained(self, connection: Connection) -> None:
        """The broker has read what waited for it; nothing depends on that."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection was lost: fail the attempt, or begin to reconnect."""
        if connection.when_lost is not None and not connection.when_lost.done():
            connection.when_lost.set_result(None)
        if connection is not self._connection:
            return
        if connection.goodbye is not None:
            reason = connection.goodbye.reason or "the broker said goodbye"
            self._is_dismissed = connection.goodbye.for_good
        if not self._answer.done():
            self._answer.set_exception(ConnectionError(reason))
        elif self.state == "attached":
            log.info("client %s has lost %s: %s", self.options.name, self.broker, reason)
            self.state, self.reason = "away", reason
            self._stop_keepalive()
            self.conversation.interrupt()
            self._gone.set()

    def _keep_alive(self, connection: Connection) -> None:
        """Send keep-alives from now on, and give up a broker that sends none."""
        assert connection.peer is not None
        peer_s = connection.peer.keepalive_ms / 1e3
        connection.keep_alive(self._loop.time(), 2 * peer_s)
        every_s = min(self.options.keepalive, peer_s)
        self._keepalive = self._loop.call_later(every_s, self._keep_alive, connection)

    def _stop_keepalive(self) -> None:
        if self._keepalive is not None:
            self._keepalive.cancel()
            self._keepalive = None
