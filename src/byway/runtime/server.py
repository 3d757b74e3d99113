"""A broker process's connections: it listens, tells brokers from clients, and keeps them alive.

A connection is unidentified until its peer has said who it is and what it wants; then it belongs to
`neighbour_links` or `client_connections`. This file decides who may connect at all, when a silent
peer is given up, and how the process stops. It performs what the broker says by handing it to the
connection concerned.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import Final

from byway.clock import now_us
from byway.core.actions import CloseLink, OpenLink
from byway.core.broker import Broker
from byway.core.inputs import NeighbourRemoved, Started
from byway.model.addresses import Address, Listing
from byway.model.bounds import KEEPALIVE_MS_MAX
from byway.model.messages import (
    PROTOCOL_VERSION,
    AnyFrame,
    Frame,
    Goodbye,
    LinkKind,
    Preamble,
    Reply,
)
from byway.runtime.acceptance import Acceptance
from byway.runtime.bypass_log import BypassLog
from byway.runtime.client_connections import ClientConnections
from byway.runtime.dialling import Dialler
from byway.runtime.driver import Driver
from byway.runtime.inspection import StatusReplies
from byway.runtime.kind_hints import KindHints
from byway.runtime.load_sampling import LoadSampler
from byway.runtime.neighbour_links import NeighbourLinks
from byway.runtime.replacing import SuccessionLog
from byway.runtime.settings import BrokerSettings
from byway.runtime.waiting import Waiting
from byway.storage.input_recovery import InputJournal
from byway.transport.connection import Connection
from byway.transport.intake import Intake
from byway.wire import FRAME_BYTES_MAX

log = logging.getLogger("byway.broker")
GOODBYE_S: Final = 0.5
"""How long a broker that stops waits for its last frames to be sent."""


class BrokerServer:
    """One broker, listening and connected."""

    def __init__(
        self,
        settings: BrokerSettings,
        broker: Broker | None = None,
        journal: InputJournal | None = None,
    ) -> None:
        self.settings = settings
        named = [n.id for n in settings.neighbours if n.id]
        broker = broker or Broker(settings.id, named, settings.core, now_us())
        before = broker.listing or Listing(settings.neighbours)
        listing, self._removed = before.followed_by(settings.neighbours)
        self.acceptance = Acceptance(settings, listing)
        self.driver = Driver(broker, self, journal)
        self.address: Address | None = None
        self.stopping = False
        self.unidentified_closed = 0
        """Connections closed because too many peers had not said who they are, or one took too
        long."""
        self.unidentified: dict[Connection, None] = {}
        """Connections whose peer has not said who it is and what it wants, oldest first."""
        self.neighbour_links = NeighbourLinks(
            settings.id, self.driver, self.acceptance, self.unidentified
        )
        self.links = self.neighbour_links.connections
        self.client_connections = ClientConnections(
            settings, self.driver, self.unidentified, StatusReplies(self).request
        )
        self.clients = self.client_connections.connections
        self.dialler = Dialler(
            settings.limits,
            self.neighbour_links,
            self.acceptance,
            self.unidentified,
            lambda: self._new_connection(dialled=True),
        )
        self.waiting = Waiting(self)
        self._kind_hints = KindHints()
        mesh = broker.config.mesh
        if mesh.delta > 1 and mesh.bypass_after_us:
            bypass_log = BypassLog()
            self.driver.after_turn = lambda: bypass_log.tell(self.broker)
        self._succession_log = SuccessionLog(broker)
        self.intake = Intake(settings.limits.partial_bytes)
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def broker(self) -> Broker:
        """The broker; after one that raised, the one in its place."""
        return self.driver.broker

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and dial the neighbours. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        listen = self.settings.listen
        self._server = await loop.create_server(
            self._accept, listen.host, listen.port, reuse_address=True
        )
        port = self._server.sockets[0].getsockname()[1]
        self.address = Address(listen.host, port)
        self.neighbour_links.own_addresses = self._addresses()
        address = next(map(str, self._addresses()), "")
        self.driver.now(Started(secrets.randbits(63), address))
        self._list(self._removed)
        self._tasks.append(asyncio.create_task(self._keep_alive()))
        self._tasks.append(asyncio.create_task(LoadSampler(self).report()))
        self._tasks.append(asyncio.create_task(self.waiting.report()))

    def _addresses(self) -> tuple[Address, ...]:
        """Where this broker can be dialled, what it says to others first. Nobody can dial all
        interfaces, so that is not said."""
        advertised, listening = self.settings.advertise, self.address
        is_specific = listening is not None and not listening.is_unspecified
        found = (advertised, listening if is_specific else None)
        return tuple(address for address in found if address is not None)

    def _list(self, removed: list[str]) -> None:
        """Have the neighbours that the settings list, without these, which they list no more. That
        they are listed is told last: if the process ends before, the next one sees the change."""
        neighbours = self.settings.neighbours
        for id in removed:
            log.info("%s was removed from the list of neighbours", id)
            if self.broker.is_neighbour(id):
                self.driver.now(NeighbourRemoved(id))
        self.neighbour_links.add_listed(neighbours)
        self.neighbour_links.tell_listing()
        self.dialler.dial(neighbours)

    async def stop(self) -> None:
        """Accept no more publications, wait a while for confirmations, say goodbye."""
        self._stop_listening()
        await self.drain(self.settings.limits.drain_ms / 1e3)
        await self._end_tasks()
        self.driver.stop()
        for connection in self._all_connections():
            connection.close("the broker stops")
        deadline = asyncio.get_running_loop().time() + GOODBYE_S
        while self._all_connections() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.002)  # let what was written be sent

    async def drain(self, seconds: float) -> bool:
        """Accept no more publications, and wait for confirmations; whether all came in time."""
        self.driver.inbox.draining = True
        deadline = asyncio.get_running_loop().time() + seconds
        while self._has_work() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        return not self._has_work()

    def undrain(self) -> None:
        """Accept publications again."""
        self.driver.inbox.draining = False
        self.driver.wake()

    async def disconnect_for_good(
        self, leaving: Sequence[NeighbourRemoved], seconds: float
    ) -> list[str]:
        """Tell neighbours that this broker is not their neighbour any more, and if there are two,
        that each takes its place for the other; those that did not confirm in time that they have
        taken note. Nobody is dialled or accepted from now on."""
        self._stop_listening()
        await self._end_tasks()
        connections = {event.neighbour: self.links.get(event.neighbour) for event in leaving}
        loop, waits = asyncio.get_running_loop(), []
        for connection in connections.values():
            if connection is not None:
                self.neighbour_links.leaving[connection] = None
                connection.when_lost = lost = loop.create_future()
                waits.append(lost)
        self.driver.now(*leaving)
        if waits:
            await asyncio.wait(waits, timeout=seconds)
        return [
            name
            for name, connection in connections.items()
            if connection is None or connection.goodbye is None or not connection.goodbye.for_good
        ]

    async def drain_clients(self, seconds: float) -> bool:
        """Accept no more publications, and wait until those of local clients are confirmed, and
        clients and neighbours have read what they were told; whether all that came in time."""
        self.driver.inbox.draining = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._has_work_of_clients() and loop.time() < deadline:
            await asyncio.sleep(0.02)
        return not self._has_work_of_clients()

    def _has_work_of_clients(self) -> bool:
        if any(connection.waiting for connection in self.clients.values()):
            return True
        unheard = any(link.unacknowledged for link in self.broker.links.values())
        return unheard or bool(self.broker.unconfirmed_of_clients())

    def reload(self, settings: BrokerSettings) -> None:
        """Take over limits and neighbours. A neighbour removed from the list is disconnected,
        unless it is still listed by another name or address."""
        removed = self.acceptance.take_over(settings)
        self.settings = settings
        self.client_connections.reload(settings)
        self.dialler.limits = settings.limits
        self.intake.partial_bytes_max = settings.limits.partial_bytes
        self._list(removed)
        self.dialler.follow_all()

    async def kill(self) -> None:
        """End as a crash would: send nothing, wait for nothing. No peer sees what the broker does
        after this is called."""
        self._stop_listening()
        self.driver.stop()
        self._abort_all()
        await self._end_tasks()
        self._abort_all()

    def _stop_listening(self) -> None:
        self.stopping = True
        if self._server is not None:
            self._server.close()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.dialler.stop()

    def _abort_all(self) -> None:
        connections = self._all_connections()
        for known in (self.links, self.clients, self.unidentified):
            known.clear()  # so that the broker is told of nothing that follows
        for connection in connections:
            connection.abort("the broker was killed")

    def _all_connections(self) -> list[Connection]:
        return [*self.links.values(), *self.clients.values(), *self.unidentified]

    def _has_work(self) -> bool:
        connections = [*self.links.values(), *self.clients.values()]
        return (
            self.driver.inbox.has_ready
            or any(connection.waiting for connection in connections)
            or any(self.broker.unconfirmed(link) for link in self.links)
        )

    # --- new connections -----------------------------------------------------------------------

    def _accept(self) -> Connection:
        """A connection for a peer that dials in."""
        connection = self._new_connection(dialled=False)
        if len(self.unidentified) >= self.settings.limits.unidentified:
            self._close_oldest_unidentified()
        self.unidentified[connection] = None
        return connection

    def _close_oldest_unidentified(self) -> None:
        oldest = next((c for c in self.unidentified if c.open and not c.dialled), None)
        if oldest is not None:
            del self.unidentified[oldest]
            self.unidentified_closed += 1
            others = self.settings.limits.unidentified
            oldest.close(f"{others} other connections have not said who they are")

    def _new_connection(self, dialled: bool) -> Connection:
        return Connection(self, self._preamble(), dialled=dialled, intake=self.intake)

    def _preamble(self) -> Preamble:
        return Preamble(
            PROTOCOL_VERSION,
            "broker",
            self.settings.id,
            self.broker.incarnation,
            FRAME_BYTES_MAX,
            self.settings.limits.keepalive_ms,
        )

    # --- keep-alive ----------------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            every_s = self.settings.limits.keepalive_ms / 1e3
            due = loop.time() + every_s
            await asyncio.sleep(every_s)
            if self.driver.broken is not None:
                self._abort_all()  # nobody should wait for it
                return
            self._look_after_connections(every_s, loop.time() - due)

    def _look_after_connections(self, every_s: float, late_s: float) -> None:
        """Do what is due at every keep-alive, of which this one is late."""
        self._check_connections(asyncio.get_running_loop().time(), every_s, late_s)
        self.neighbour_links.forget_again()
        self.waiting.look()
        self._kind_hints.tell(self.broker)
        self._succession_log.look(self.broker)

    def _check_connections(self, now: float, every_s: float, late_s: float) -> None:
        """Send keep-alives, and give up silent peers; `late_s`, in which this process did not read,
        does not count as their silence."""
        for link in list(self.links.values()):
            assert link.peer is not None
            peer_ms = min(link.peer.keepalive_ms, KEEPALIVE_MS_MAX)
            link.keep_alive(now, 2 * max(every_s, peer_ms / 1e3) + late_s)
        patience_s = 2 * every_s + late_s
        for connection in [*self.clients.values(), *self.unidentified]:
            connection.keep_alive(now, patience_s)
        self.client_connections.backpressure.check(now, patience_s)
        for connection in [c for c in self.unidentified if c.open]:
            if now - connection.began > patience_s:
                self.unidentified_closed += 1
                connection.close("it has not said who it is and what it wants")

    # --- called by connections -----------------------------------------------------------------

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """A peer's preamble arrived."""
        self.unidentified[connection] = None
        if self.stopping:
            connection.close("the broker stops")
        elif peer.role == "broker":
            self.neighbour_links.greet(connection, peer)

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """Take a frame that followed the preamble."""
        peer = connection.peer
        assert peer is not None
        if isinstance(frame, Goodbye):
            # a link of the tree that never comes up is the operator's business
            said = connection.said
            in_tree = said is not None and said.kind in (None, LinkKind.PRIMARY)
            level = logging.WARNING if in_tree and not connection.was_up else logging.INFO
            reason = frame.reason or "no reason"
            log.log(level, "%s %s says goodbye: %s", peer.role, peer.name, reason)
            connection.goodbye = frame
            connection.was_cut |= frame.for_good
        elif peer.role == "broker":
            self.neighbour_links.received(connection, peer.name, frame)
        else:
            self.client_connections.received(connection, peer, frame)

    def drained(self, connection: Connection) -> None:
        """A peer has read everything that waited for it."""
        if connection.peer is not None:
            self.client_connections.drained(connection.peer.name)

    def lost(self, connection: Connection, reason: str) -> None:
        """A connection was lost or closed."""
        self.unidentified.pop(connection, None)
        if connection.when_lost is not None and not connection.when_lost.done():
            connection.when_lost.set_result(None)
        peer = connection.peer
        if peer is None:
            level = logging.WARNING if connection.refusal else logging.DEBUG
            log.log(level, "a connection from %s was lost: %s", connection.address, reason)
        elif self.links.get(peer.name) is connection:
            log.info("link to %s is down: %s", peer.name, reason)
            self.neighbour_links.drop(peer.name, reason)
            self.dialler.follow(peer.name)
        elif self.clients.get(peer.name) is connection:
            self.client_connections.lost(peer.name, connection)

    # --- called by the driver ------------------------------------------------------------------

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour, if it is connected."""
        self.neighbour_links.send(link, frame)

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Send replies to a client, if it is connected."""
        self.client_connections.tell(client, replies)

    def requests_taken(self) -> None:
        """Some requests of clients were handed to the broker."""
        self.client_connections.backpressure.on_taken()

    def open_link(self, action: OpenLink) -> None:
        """Dial a broker, until its link is closed; neighbours in the settings are dialled
        anyway."""
        self.dialler.follow(action.link)

    def close_link(self, action: CloseLink) -> None:
        """Close the connection to a broker, and dial it no more unless the link stays."""
        self.neighbour_links.close(action)
        self.dialler.follow(action.link)

    def close_client(self, client: str, reason: str) -> None:
        """Close the connection of a client whose request cannot be handled; it may reconnect."""
        self.client_connections.close(client, reason)
