"""A broker process's connections: who they are, which one speaks for a neighbour, and dialling.

A neighbour that is listed is dialled until it answers; one that dials us is taken in as well. Of
two connections between the same brokers the one that the smaller id dialled stays. A second broker
with the id of one that is connected is refused, and so is a client whose newer incarnation is here.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

from byway.core.broker import Broker
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    LinkDown,
    LinkUp,
    LoadSampled,
    NeighbourAdded,
    Started,
)
from byway.model.messages import (
    PROTOCOL_VERSION,
    AnyFrame,
    Batch,
    ClientHello,
    Delivery,
    Frame,
    Goodbye,
    Hello,
    Lane,
    Preamble,
    Replies,
    Reply,
    Requests,
    Welcome,
)
from byway.model.messages import Acknowledge as Acknowledgement
from byway.runtime.connection import Connection
from byway.runtime.driver import Driver, Journal, now_us
from byway.runtime.settings import Address, BrokerSettings, Neighbour
from byway.wire import FRAME_BYTES_MAX

log = logging.getLogger("byway.broker")
LOAD_SAMPLE_S: Final = 1.0


class BrokerServer:
    """One broker, listening and connected."""

    def __init__(
        self,
        settings: BrokerSettings,
        broker: Broker | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.settings = settings
        named = [n.id for n in settings.neighbours if n.id]
        self.broker = broker or Broker(settings.id, named, settings.core, now_us())
        self.driver = Driver(self.broker, self, journal)
        self.links: dict[str, Connection] = {}
        """By neighbour, the connection that speaks for it."""
        self.clients: dict[str, Connection] = {}
        self.strangers: dict[Connection, None] = {}
        """Connections whose peer has not said all it must."""
        self.address: Address | None = None
        self.slow_drops: dict[str, int] = {}
        """By client, deliveries that a slow reader lost."""
        self.stopping = False
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._wake_dialler: dict[str, asyncio.Event] = {}
        self._blocked: dict[str, None] = {}

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and dial the neighbours."""
        loop = asyncio.get_running_loop()
        listen = self.settings.listen
        self._server = await loop.create_server(
            lambda: Connection(self, self._preamble(), dialled=False),
            listen.host, listen.port, reuse_address=True,
        )  # fmt: skip
        port = self._server.sockets[0].getsockname()[1]
        self.address = Address(listen.host, port)
        self.driver.now(Started())
        for neighbour in self.settings.neighbours:
            self._tasks.append(asyncio.create_task(self._dial_for_ever(neighbour)))
        self._tasks.append(asyncio.create_task(self._keep_alive()))

    async def stop(self) -> None:
        """Take no more publications, wait a while for confirmations, say goodbye."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        deadline = asyncio.get_running_loop().time() + self.settings.limits.drain_ms / 1e3
        while self._has_work() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.driver.stop()
        everyone = [*self.links.values(), *self.clients.values(), *self.strangers]
        for connection in everyone:
            connection.close("the broker stops")
        await asyncio.sleep(0)

    def _has_work(self) -> bool:
        connections = [*self.links.values(), *self.clients.values()]
        return (
            self.driver.waiting > 0
            or any(connection.waiting for connection in connections)
            or any(
                self.broker.context.unconfirmed[link] for link in self.links
                if link in self.broker.context.unconfirmed
            )
        )  # fmt: skip

    def _preamble(self) -> Preamble:
        return Preamble(
            PROTOCOL_VERSION,
            "broker",
            self.settings.id,
            self.broker.context.incarnation,
            FRAME_BYTES_MAX,
            self.settings.limits.keepalive_ms,
        )

    async def _keep_alive(self) -> None:
        limits = self.settings.limits
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(limits.keepalive_ms / 1e3)
            silence_s = 2 * limits.keepalive_ms / 1e3
            for connection in [*self.links.values(), *self.clients.values(), *self.strangers]:
                connection.keep_alive(loop.time(), silence_s)
            outputs = tuple((n, c.waiting_messages) for n, c in sorted(self.links.items()))
            self.driver.control(LoadSampled(self.driver.waiting, outputs))

    # --- dialling ------------------------------------------------------------------------------

    async def _dial_for_ever(self, neighbour: Neighbour) -> None:
        """Connect whenever the neighbour is not connected."""
        loop = asyncio.get_running_loop()
        limits = self.settings.limits
        delay_s = limits.retry_ms / 1e3
        id, refused = neighbour.id, False
        while True:
            if id not in self.links:
                lost: asyncio.Future[None] = loop.create_future()
                connection = Connection(self, self._preamble(), dialled=True)
                try:
                    await loop.create_connection(
                        lambda c=connection: c,  # type: ignore[misc]
                        neighbour.address.host,
                        neighbour.address.port,
                    )
                    self.strangers[connection] = None
                    connection.when_lost = lost
                    await lost
                    if connection.was_up:
                        delay_s = limits.retry_ms / 1e3
                except OSError as error:
                    log.debug("cannot reach %s: %s", neighbour.address, error)
                id = neighbour.id or (connection.peer.name if connection.peer else "")
                refused = connection.peer is not None and not connection.was_up
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
            longest_ms = limits.refused_ms_max if refused else limits.retry_ms_max
            delay_s = min(2 * delay_s, longest_ms / 1e3)

    # --- what connections tell ------------------------------------------------------------------

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """A broker or client has said who it is."""
        self.strangers[connection] = None
        if self.stopping:
            connection.close("the broker stops")
        elif peer.role == "broker":
            self._greet_broker(connection, peer)

    def _greet_broker(self, connection: Connection, peer: Preamble) -> None:
        name = peer.name
        if name == self.settings.id:
            connection.close(f"this broker is {name} itself")
            return
        old = self.links.get(name)
        if old is not None and old.open:
            reason = self._preferred(old, connection, peer)
            if reason:
                connection.close(reason)
                return
            self._drop_link(name, "another connection took its place")
        self.links[name] = connection
        if name not in self.broker.context.ends:
            self.driver.now(NeighbourAdded(name))
        connection.send(self.broker.hello(name))

    def _preferred(self, old: Connection, new: Connection, peer: Preamble) -> str:
        """Why the old connection stays, if it does."""
        assert old.peer is not None
        if old.peer.incarnation != peer.incarnation:
            return f"a broker {peer.name} is connected already, from {old.address}"
        new_dialler = self.settings.id if new.dialled else peer.name
        old_dialler = self.settings.id if old.dialled else peer.name
        if new_dialler != old_dialler and new_dialler > old_dialler:
            return "there is a connection already"
        return ""

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """A frame of a peer that has said who it is."""
        peer = connection.peer
        assert peer is not None
        if isinstance(frame, Goodbye):
            log.info("%s %s says goodbye: %s", peer.role, peer.name, frame.reason or "no reason")
            connection.goodbye = frame
        elif peer.role == "broker":
            self._from_broker(connection, peer.name, frame)
        else:
            self._from_client(connection, peer, frame)

    def _from_broker(self, connection: Connection, name: str, frame: AnyFrame) -> None:
        if self.links.get(name) is not connection:
            return  # it is being replaced
        if isinstance(frame, Batch):
            event = FrameReceived(name, frame)
            if frame.lane is Lane.DATA:
                self.driver.data(name, event, len(frame.messages))
            else:
                self.driver.control(event)
        elif isinstance(frame, Acknowledgement):
            self.driver.control(FrameReceived(name, frame))
        elif isinstance(frame, Hello):
            self.strangers.pop(connection, None)
            connection.was_up = True
            log.info("link to %s is up (%s)", name, connection.address)
            self.driver.now(LinkUp(name, frame))
        else:
            connection.close(f"a broker does not send {type(frame).__name__}")

    def _from_client(self, connection: Connection, peer: Preamble, frame: AnyFrame) -> None:
        name = peer.name
        if isinstance(frame, Requests):
            if self.clients.get(name) is not connection:
                connection.close("requests before the client was welcome")
            elif frame.requests:
                self.driver.request(name, ClientRequested(name, frame.requests))
                if self.driver.waiting_from(name) > self.settings.limits.client_requests:
                    connection.pause_reading()
        elif isinstance(frame, ClientHello):
            self._welcome(connection, peer, frame)
        else:
            connection.close(f"a client does not send {type(frame).__name__}")

    def _welcome(self, connection: Connection, peer: Preamble, hello: ClientHello) -> None:
        name = peer.name
        known = self.broker.clients.all.get(name)
        if known is not None and known.incarnation > peer.incarnation:
            connection.close(f"a newer incarnation of client {name} was here")
            return
        if len(self.clients) >= self.settings.limits.clients:
            connection.close(f"{len(self.clients)} clients are connected, the most there may be")
            return
        old = self.clients.pop(name, None)
        if old is not None:
            old.close("the client connected again")
            self.driver.forget_client(name)
        self.strangers.pop(connection, None)
        self.clients[name] = connection
        connection.send(Welcome(self.settings.core.body_bytes_max))
        self.driver.now(
            ClientAttached(name, peer.incarnation, hello.session_ttl_us, hello.received)
        )

    def lost(self, connection: Connection, reason: str) -> None:
        """A connection is gone."""
        self.strangers.pop(connection, None)
        if connection.when_lost is not None and not connection.when_lost.done():
            connection.when_lost.set_result(None)
        peer = connection.peer
        if peer is None:
            log.debug("a connection from %s is gone: %s", connection.address, reason)
        elif self.links.get(peer.name) is connection:
            log.info("link to %s is down: %s", peer.name, reason)
            self._drop_link(peer.name, reason)
        elif self.clients.get(peer.name) is connection:
            del self.clients[peer.name]
            self._unblock(peer.name)
            self.driver.forget_client(peer.name)
            for_good = connection.goodbye is not None and connection.goodbye.for_good
            self.driver.now(ClientDetached(peer.name, for_good))

    def _drop_link(self, name: str, reason: str) -> None:
        connection = self.links.pop(name)
        self.driver.forget_link(name)
        self.driver.now(LinkDown(name))
        connection.close(reason)

    # --- what the broker says --------------------------------------------------------------------

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour."""
        connection = self.links.get(link)
        if connection is None:
            return
        if isinstance(frame, Batch):
            if frame.lane is Lane.DATA:
                connection.send_data(frame, len(frame.messages))
            else:
                connection.send_large(frame)
        else:
            connection.send(frame)

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Tell a client: deliveries wait while it does not read, answers do not."""
        connection = self.clients.get(client)
        if connection is None:
            return
        deliveries = tuple(reply for reply in replies if type(reply) is Delivery)
        if len(deliveries) < len(replies):
            answers = tuple(reply for reply in replies if type(reply) is not Delivery)
            connection.send_large(Replies(answers))
        if deliveries:
            connection.send_data(Replies(deliveries), len(deliveries))
        limits = self.settings.limits
        if (
            connection.waiting_messages > limits.client_queue_messages
            or connection.waiting_bytes > limits.client_queue_bytes
        ):
            self._slow(client, connection)
        if self.driver.waiting_from(client) <= limits.client_requests // 2:
            connection.resume_reading()

    def _slow(self, client: str, connection: Connection) -> None:
        """A client does not read what it is sent."""
        limits = self.settings.limits
        if limits.slow_client == "disconnect":
            log.warning("client %s is slow: disconnected", client)
            connection.abort("it did not read what it was sent")
        elif limits.slow_client == "drop_oldest":
            if client not in self.slow_drops:
                log.warning("client %s is slow: it loses the oldest deliveries", client)
            lost = self.slow_drops.get(client, 0)
            while (
                connection.waiting_messages > limits.client_queue_messages
                or connection.waiting_bytes > limits.client_queue_bytes
            ):
                lost += connection.drop_oldest()
            self.slow_drops[client] = lost
        else:
            if not self._blocked:
                log.warning("client %s is slow: publications wait for it", client)
            self._blocked[client] = None
            self.driver.holding = True

    def drained(self, connection: Connection) -> None:
        """A peer has read what waited for it."""
        if connection.peer is not None:
            self._unblock(connection.peer.name)

    def _unblock(self, client: str) -> None:
        if self._blocked.pop(client, "") is None and not self._blocked:
            self.driver.resume()

    def open_link(self, link: str) -> None:
        """Listed neighbours are dialled anyway."""

    def close_link(self, link: str, reason: str) -> None:
        """A neighbour broke the rules, or is none any more."""
        connection = self.links.pop(link, None)
        if connection is not None:
            log.warning("link to %s is closed: %s", link, reason)
            self.driver.forget_link(link)
            connection.close(reason)
