"""Backpressure on clients: bounds on requests that wait and on answers that are not read.

There are bounds for one client and for all together. Beyond them this module decides from whom
nothing is read for now, whose requests wait, and whose connection is closed. Closing a connection
ends no session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from byway.runtime.driver import Driver
from byway.runtime.settings import Limits
from byway.transport.connection import Connection

log = logging.getLogger("byway.broker")

BUSY: Final = "many of its requests wait"
UNREAD: Final = "it does not read its answers"


class Backpressure:
    """The bounds on all clients of one broker process."""

    def __init__(
        self,
        driver: Driver,
        clients: dict[str, Connection],
        limits: Limits,
        slow: Callable[[str, Connection, int], None],
    ) -> None:
        self.limits = limits
        self.unread_bytes = 0
        """Bytes that clients have not read, each as of the last reply to it."""
        self.disconnected = 0
        """Clients that were disconnected because they did not read their answers."""
        self._driver = driver
        self._clients = clients
        self._slow = slow
        self._busy: dict[str, Connection] = {}
        """Clients from whom nothing is read because many of their requests wait."""
        self._not_reading: dict[str, float] = {}
        """Clients that do not read their answers, and since when each has had too many unread."""
        self._loop = asyncio.get_running_loop()
        driver.inbox.deaf = self._not_reading

    # --- requests ---------------------------------------------------------------------------------

    def on_requests(self, client: str, connection: Connection) -> None:
        """A client sent requests: stop reading from it if too many wait."""
        limits, waiting = self.limits, self._driver.inbox.requests
        size_max = min(limits.client_request_bytes, limits.request_bytes)
        if waiting.count <= limits.client_requests and waiting.bytes <= size_max:
            return  # those of all clients are within the bounds of one
        if self.is_full(client) or waiting.bytes > limits.request_bytes:
            connection.pause_reading(BUSY)
            self._busy[client] = connection

    def is_full(self, client: str) -> bool:
        """Whether as many requests of a client wait as may."""
        count, size = self._driver.inbox.requests.waiting_from(client)
        return count > self.limits.client_requests or size > self.limits.client_request_bytes

    def on_taken(self) -> None:
        """The broker is handed requests: read again from the clients of whom few wait."""
        for client, connection in list(self._busy.items()):
            self._resume(client, connection)

    def _resume(self, client: str, connection: Connection) -> None:
        limits, waiting = self.limits, self._driver.inbox.requests
        count, size = waiting.waiting_from(client)
        if count > limits.client_requests // 2 or size > limits.client_request_bytes // 2:
            return
        if not count or waiting.bytes <= limits.request_bytes:
            del self._busy[client]
            connection.resume_reading(BUSY)

    # --- replies ----------------------------------------------------------------------------------

    def on_replies(self, client: str, connection: Connection) -> None:
        """Replies were sent to a client: check the bounds on unread bytes."""
        unread = connection.unread_bytes
        self._count(connection, unread + connection.waiting_bytes)
        if unread > self.limits.client_answer_bytes:
            self._pause_unread(client, connection, unread)
        if self.unread_bytes > self.limits.unread_bytes:
            self._shed()

    def _count(self, connection: Connection, size: int) -> None:
        self.unread_bytes += size - connection.counted_bytes
        connection.counted_bytes = size

    def _pause_unread(self, client: str, connection: Connection, unread: int) -> None:
        """Handle no more requests of a client until it reads; disconnect one far over the bound."""
        if unread > 2 * self.limits.client_answer_bytes:
            self._disconnect(client, connection, f"{unread} bytes of answers are not read")
        elif client not in self._not_reading:
            self._not_reading[client] = self._loop.time()
            connection.pause_reading(UNREAD)
            connection.when_read = self._on_read

    def _on_read(self, connection: Connection) -> None:
        """A client has read nearly all of its answers: handle its requests again."""
        connection.when_read = None
        assert connection.peer is not None
        if self._clients.get(connection.peer.name) is connection:
            self._not_reading.pop(connection.peer.name, None)
            self._driver.wake()
        connection.resume_reading(UNREAD)

    def check(self, now: float, patience_s: float) -> None:
        """Disconnect clients that have not read their answers for too long."""
        for client, since in list(self._not_reading.items()):
            if now - since > patience_s:
                reason = f"answers are not read for {now - since:.3g} s"
                self._disconnect(client, self._clients[client], reason)

    def _disconnect(self, client: str, connection: Connection, reason: str) -> None:
        log.warning("client %s is disconnected: %s", client, reason)
        self.disconnected += 1
        connection.abort(reason)

    def _shed(self) -> None:
        """Treat the clients with the most unread bytes as slow, until all together are within the
        bound."""
        for connection in self._clients.values():
            self._count(connection, _unread(connection))
        most_bytes = self.limits.unread_bytes
        while self.unread_bytes > most_bytes:
            most = max(
                (c for c in self._clients.items() if c[1].open), key=_most_unread, default=None
            )
            if most is None or not _unread(most[1]):
                return
            client, connection = most
            if connection.waiting_bytes > connection.unread_bytes:
                before, excess = connection.waiting_bytes, self.unread_bytes - most_bytes
                self._slow(client, connection, max(before - excess, 0))
                if connection.open and connection.waiting_bytes == before:
                    return  # publications wait for this client
            else:
                reason = f"{connection.unread_bytes} bytes of answers are not read, the most of all"
                self._disconnect(client, connection, reason)
            self._count(connection, _unread(connection) if connection.open else 0)

    def forget(self, client: str, connection: Connection) -> None:
        """Drop the accounts of a client whose connection was lost."""
        self._busy.pop(client, None)
        self._not_reading.pop(client, None)
        self._count(connection, 0)


def _unread(connection: Connection) -> int:
    return connection.unread_bytes + connection.waiting_bytes


def _most_unread(named: tuple[str, Connection]) -> tuple[int, str]:
    return _unread(named[1]), named[0]
