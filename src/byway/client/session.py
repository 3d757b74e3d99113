"""A client's session with its broker: connecting, going on, and beginning anew.

It dials the brokers in turn, greets, and comes back after a loss: with the same incarnation, so
that the broker goes on with what it kept, else with a higher one. What is said then is not decided
here.
"""

from __future__ import annotations

import asyncio
import logging
import random
from time import time_ns
from typing import Final

from byway.client.conversation import Conversation
from byway.client.options import BrokerUrl, ClientOptions
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
from byway.wire import FRAME_BYTES_MAX

log = logging.getLogger("byway.client")

GOODBYE_S: Final = 1.0
"""How long a goodbye may take; then the connection is dropped."""

_last_incarnation = 0


def new_incarnation() -> int:
    """Microseconds since 1970, and higher than any before in this process."""
    global _last_incarnation
    _last_incarnation = max(_last_incarnation + 1, time_ns() // 1_000)
    return _last_incarnation


def _whole(number: float, least: int = 0) -> int:
    """The number as a message can carry it; one that is larger, infinity too, is cut."""
    return max(least, round(number)) if number < INT64_MAX else INT64_MAX


class Session:
    """One client and its broker."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.conversation = Conversation(options, self.describe)
        self.incarnation = new_incarnation()
        self.state = "new"
        """`new`, `connecting`, `attached`, `away` or `closed`."""
        self.reason = ""
        """Why it is away or closed."""
        self.broker = ""
        """Id of the broker."""
        self.url: BrokerUrl | None = None
        """Where the session is."""
        self.attachments = 0
        """How often a broker took the client in."""
        self.sessions = 0
        """How many sessions were begun."""
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._dialled = options.urls[0]
        self._answer: asyncio.Future[bool] = self._loop.create_future()
        """Whether an attempt leads to a session; false: only a new incarnation can."""
        self._gone = asyncio.Event()
        self._staying: asyncio.Task[None] | None = None
        self._keepalive: asyncio.TimerHandle | None = None
        self._is_sent_away = False
        """A broker said goodbye for good."""

    def __repr__(self) -> str:
        return f"<Session of {self.options.name}, {self.describe()}>"

    def describe(self) -> str:
        """How it stands, in words."""
        if self.state != "attached":
            return f"{self.state}: {self.reason}" if self.reason else self.state
        where = f"attached to {self.broker} at {self.url}"
        if not self.conversation.is_holding:
            return where
        full = ", ".join(holding.name for holding in self.conversation.deliveries.full)
        return f"{where}, gets no deliveries until events of {full} are taken"

    # --- life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect for the first time, if it has not been done. Raises `ConnectError`."""
        error = self.conversation.closing_error()
        if error is not None:
            raise error
        if self.state != "new":
            return
        self.state = "connecting"
        give_up = self._loop.time() + self.options.connect_wait
        delay_s = self.options.retry
        while failures := await self._dial_all():
            if self._is_sent_away or self._loop.time() >= give_up:
                self._end("it could not connect")
                raise ConnectError(self.options.name, tuple(failures))
            delay_s = await self._back_off(delay_s)
        self._staying = asyncio.create_task(self._stay())

    async def _stay(self) -> None:
        """Come back whenever the connection is lost."""
        while True:
            await self._gone.wait()
            delay_s = self.options.retry
            while self.state == "away":
                if self._is_sent_away or not self.options.reconnect:
                    self._end(self.reason)
                    return
                delay_s = await self._back_off(delay_s)
                if failures := await self._dial_all():
                    self.reason = "; ".join(f"{url}: {reason}" for url, reason in failures)

    async def _back_off(self, delay_s: float) -> float:
        """Wait a while; how long to wait the next time."""
        await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
        return min(2 * delay_s, self.options.retry_max)

    async def close(self, reason: str) -> None:
        """Say goodbye for good."""
        for holding in self.conversation.holdings.all.values():
            holding.is_open = False
        connection = self._connection
        self._end(reason)
        if self._staying is not None:
            self._staying.cancel()
            await asyncio.wait([self._staying])
        if connection is not None and connection.open:
            connection.when_lost = self._loop.create_future()
            connection.close(reason, for_good=True)
            await asyncio.wait([connection.when_lost], timeout=GOODBYE_S)
            connection.abort(reason)

    def _end(self, reason: str) -> None:
        """Nothing more comes; tell all who wait."""
        if self.state != "closed":
            self.state, self.reason = "closed", reason
            self._stop_keepalive()
            self.conversation.close(reason)

    # --- connecting -----------------------------------------------------------------------------

    async def _dial_all(self) -> list[tuple[str, str]]:
        """Try every broker in turn, that of the session first; why each failed, if all did."""
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
            if self._is_sent_away:
                break
        return failures

    async def _attach(self, url: BrokerUrl) -> str | None:
        """Try one broker; why it failed, if it did."""
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
                return error.strerror or str(error)
            except ValueError as error:  # a host that no name can be
                return str(error)
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

    # --- what the connection tells ----------------------------------------------------------------

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """The other side has said who it is."""
        if peer.role != "broker":
            connection.close(f"this is a {peer.role}, not a broker")
            return
        received = self.conversation.deliveries.received if self._goes_on(connection) else 0
        resumes = self.sessions > 0 and peer.name == self.broker
        ttl_us = _whole(self.options.session_ttl * 1e6)
        connection.send(ClientHello(ttl_us, received, resumes))

    def _goes_on(self, connection: Connection) -> bool:
        """Whether this connection is to go on with the session."""
        return self.sessions > 0 and connection.own.incarnation == self.incarnation

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """A frame came."""
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
        """Whether replies are of a session; what comes before it goes on is told again then."""
        if not self._answer.done():
            for reply in frame.replies:
                if isinstance(reply, Attached):
                    self._on_attached(connection, reply)
        return self.state == "attached" and connection.open

    def _on_attached(self, connection: Connection, attached: Attached) -> None:
        goes_on = self._goes_on(connection)
        if goes_on and not attached.resumed:
            connection.close("its session was not kept: it begins anew")
            self._answer.set_result(False)
            return
        assert connection.peer is not None
        self.broker, self.url = connection.peer.name, self._dialled
        self.incarnation = connection.own.incarnation
        self.state, self.reason = "attached", ""
        self.attachments += 1
        self._gone.clear()
        self._keep_alive(connection)
        if goes_on:
            self.conversation.go_on(connection, attached)
        else:
            self.sessions += 1
            self.conversation.begin(connection)
        self._answer.set_result(True)

    def drained(self, connection: Connection) -> None:
        """The broker has read what waited for it."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection is gone."""
        if connection.when_lost is not None and not connection.when_lost.done():
            connection.when_lost.set_result(None)
        if connection is not self._connection:
            return
        if connection.goodbye is not None:
            reason = connection.goodbye.reason or "the broker said goodbye"
            self._is_sent_away = connection.goodbye.for_good
        if not self._answer.done():
            self._answer.set_exception(ConnectionError(reason))
        elif self.state == "attached":
            log.info("client %s has lost %s: %s", self.options.name, self.broker, reason)
            self.state, self.reason = "away", reason
            self._stop_keepalive()
            self.conversation.interrupt()
            self._gone.set()

    def _keep_alive(self, connection: Connection) -> None:
        """Say that the client is there, from now on."""
        assert connection.peer is not None
        peer_s = connection.peer.keepalive_ms / 1e3
        connection.keep_alive(self._loop.time(), 2 * peer_s)
        every_s = min(self.options.keepalive, peer_s)
        self._keepalive = self._loop.call_later(every_s, self._keep_alive, connection)

    def _stop_keepalive(self) -> None:
        if self._keepalive is not None:
            self._keepalive.cancel()
            self._keepalive = None
