"""The connections of clients: who is attached, the frames of clients, and clients that read slowly.

A client whose newer incarnation was here is refused; of two connections with the same name the
newer one stays. Answers are sent at once, deliveries while the client reads. This file decides who
is attached and what happens to a slow client; `backpressure` decides from whom to read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from byway.core.inputs import ClientAttached
from byway.model.messages import (
    AnyFrame,
    ClientHello,
    Delivery,
    HoldDeliveries,
    Preamble,
    Replies,
    Reply,
    Requests,
    StatusRequest,
    Welcome,
)
from byway.runtime.backpressure import Backpressure
from byway.runtime.driver import Driver
from byway.runtime.settings import BrokerSettings
from byway.transport.connection import Connection

log = logging.getLogger("byway.broker")

_DELIVERIES: Final = frozenset((Delivery,))
SLOW_DROPS_MAX: Final = 1_024
"""Clients whose dropped deliveries are counted."""


class ClientConnections:
    """The connections of one broker process to its clients."""

    def __init__(
        self,
        settings: BrokerSettings,
        driver: Driver,
        unidentified: dict[Connection, None],
        on_status_request: Callable[[Connection], None],
    ) -> None:
        self.settings = settings
        self.connections: dict[str, Connection] = {}
        """By client, its connection."""
        self.slow_drops: dict[str, int] = {}
        """By client, deliveries dropped because it read slowly; the latest clients of whom that
        is so."""
        self.refused = 0
        """Clients refused because there were too many."""
        self.slow_disconnects = 0
        """Clients disconnected because they did not read their deliveries."""
        self.backpressure = Backpressure(driver, self.connections, settings.limits, self._on_slow)
        self._driver = driver
        self._unidentified = unidentified
        self._on_status_request = on_status_request
        self._blocking: dict[str, None] = {}
        """Slow clients that publications wait for."""

    def reload(self, settings: BrokerSettings) -> None:
        """Take over the limits of new settings."""
        self.settings = settings
        self.backpressure.limits = settings.limits

    # --- frames in ------------------------------------------------------------------------------

    def received(self, connection: Connection, peer: Preamble, frame: AnyFrame) -> None:
        """Take a frame of a client; one that a client must not send closes the connection."""
        name = peer.name
        if isinstance(frame, Requests):
            if self.connections.get(name) is not connection:
                connection.close("requests before the client was attached")
            else:
                self._driver.request(name, frame.requests, connection.frame_bytes)
                self.backpressure.on_requests(name, connection)
        elif isinstance(frame, HoldDeliveries):
            connection.hold(frame.hold)
        elif isinstance(frame, ClientHello):
            self._on_hello(connection, peer, frame)
        elif isinstance(frame, StatusRequest):
            self._on_status_request(connection)
        else:
            connection.close(f"a client does not send {type(frame).__name__}")

    def _on_hello(self, connection: Connection, peer: Preamble, hello: ClientHello) -> None:
        """Attach a client, or refuse it."""
        name = peer.name
        known = self._driver.broker.session(name)
        if known is not None and known.incarnation > peer.incarnation:
            connection.close(f"a newer incarnation of client {name} was here", for_good=True)
            return
        barred = self._driver.bars("client", name)
        if barred:
            connection.close(barred)
            return
        if len(self.connections) >= self.settings.limits.clients:
            reason = f"{len(self.connections)} clients are connected, the most there may be"
            self.refused += 1
            connection.close(reason)
            return
        old = self.connections.pop(name, None)
        if old is not None:
            self._replace(name, old)
        elif self.backpressure.is_full(name):
            connection.close("many requests wait of a client of this name that said goodbye")
            return
        self._unidentified.pop(connection, None)
        self.connections[name] = connection
        connection.trust()
        connection.send(Welcome(self.settings.core.body_bytes_max))
        self._driver.attach(
            ClientAttached(
                name, peer.incarnation, hello.session_ttl_us, hello.received, hello.resumes
            )
        )

    def _replace(self, name: str, old: Connection) -> None:
        """Close the connection of a client in whose place another one comes."""
        old.close("another client of this name connected", for_good=True)
        self.drained(name)
        self.backpressure.forget(name, old)
        self._driver.inbox.drop_connection(name)

    # --- frames out -----------------------------------------------------------------------------

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Send replies to a client, if it is connected: answers at once, deliveries while it
        reads."""
        connection = self.connections.get(client)
        if connection is None:
            return
        deliveries = replies
        if not _DELIVERIES.issuperset(map(type, replies)):
            deliveries = tuple([reply for reply in replies if type(reply) is Delivery])
            answers = tuple([reply for reply in replies if type(reply) is not Delivery])
            connection.send_large(Replies(answers))
        if deliveries:
            connection.send_data(Replies(deliveries))
        limits = self.settings.limits
        if (
            connection.waiting_messages > limits.client_queue_messages
            or connection.waiting_bytes > limits.client_queue_bytes
        ):
            self._on_slow(client, connection, limits.client_queue_bytes)
        self.backpressure.on_replies(client, connection)

    def _on_slow(self, client: str, connection: Connection, bytes_max: int) -> None:
        """Treat a slow client as the limits say; at most `bytes_max` may wait for it afterwards."""
        limits = self.settings.limits
        if limits.slow_client == "disconnect":
            log.warning("client %s is slow: disconnected", client)
            self.slow_disconnects += 1
            connection.abort("it did not read what it was sent")
        elif limits.slow_client == "drop_oldest":
            if client not in self.slow_drops:
                log.warning("client %s is slow: its oldest deliveries are dropped", client)
            dropped = self.slow_drops.get(client, 0)
            while (
                connection.waiting_messages > limits.client_queue_messages
                or connection.waiting_bytes > bytes_max
            ):
                dropped += connection.drop_oldest()
            self.slow_drops[client] = dropped
            if len(self.slow_drops) > SLOW_DROPS_MAX:
                del self.slow_drops[next(iter(self.slow_drops))]
        else:
            if not self._blocking:
                log.warning("client %s is slow: publications wait for it", client)
            self._blocking[client] = None
            self._driver.inbox.holding = True

    def drained(self, client: str) -> None:
        """A client has read everything that waited for it: publications need not wait for it."""
        if self._blocking.pop(client, "") is None and not self._blocking:
            self._driver.inbox.holding = False
            self._driver.wake()

    # --- the end of a connection ----------------------------------------------------------------

    def lost(self, name: str, connection: Connection) -> None:
        """The connection of an attached client was lost."""
        del self.connections[name]
        self.drained(name)
        self.backpressure.forget(name, connection)
        if connection.goodbye is not None and connection.goodbye.for_good:
            self._driver.goodbye(name)
        else:
            self._driver.detach(name)

    def close(self, name: str, reason: str) -> None:
        """Close the connection of a client whose request cannot be handled; it may reconnect."""
        connection = self.connections.pop(name, None)
        if connection is not None:
            log.warning("client %s is closed: %s", name, reason)
            self.drained(name)
            self.backpressure.forget(name, connection)
            connection.close(reason)
        self._driver.expel(name)

    def disconnect(self, name: str, reason: str, for_good: bool) -> None:
        """Close the connection of a client, if it has one. `for_good`: its session ends, and the
        client is told not to come back."""
        connection = self.connections.pop(name, None)
        if connection is not None:
            self.drained(name)
            self.backpressure.forget(name, connection)
            connection.close(reason, for_good=for_good)
        self._driver.detach(name, for_good)
