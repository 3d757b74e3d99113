"""A broker process's connections: who they are, which one speaks for a neighbour, and dialling.

A neighbour that is listed is dialled until it answers; one that dials us is taken in as well, if
`acceptance` lets it. It is a neighbour once it has said all that it must; nothing is kept of it
before. Of two connections between the same brokers the one that the smaller id dialled stays. A
second broker with the id of one that is connected is refused, and so is a client whose newer
incarnation is here.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

from byway.clock import now_us
from byway.core.broker import Broker
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    FrameReceived,
    Input,
    LinkDown,
    LinkUp,
    LoadSampled,
    NeighbourAdded,
    NeighbourRemoved,
    Started,
)
from byway.model.addresses import Address, Neighbour, removed_neighbours
from byway.model.bounds import KEEPALIVE_MS_MAX
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    DATA,
    PROTOCOL_VERSION,
    AnyFrame,
    Batch,
    ClientHello,
    Delivery,
    Frame,
    Goodbye,
    Hello,
    HoldDeliveries,
    Preamble,
    Publish,
    Replies,
    Reply,
    Requests,
    Status,
    StatusRequest,
    Welcome,
)
from byway.model.messages import Acknowledge as Acknowledgement
from byway.model.status import encode_status
from byway.runtime.acceptance import Acceptance
from byway.runtime.backpressure import Backpressure
from byway.runtime.driver import Driver
from byway.runtime.inspection import status_of
from byway.runtime.settings import BrokerSettings
from byway.runtime.waiting import Waiting
from byway.storage.recovery import InputJournal
from byway.transport.connection import Connection
from byway.transport.intake import Intake
from byway.wire import FRAME_BYTES_MAX

log = logging.getLogger("byway.broker")
STATUS_DELAY_S: Final = 0.02
"""How soon a broker tells how it is: looking takes a while, so it is not done for each who asks,"""
STATUS_SHARE: Final = 20
"""and takes at most one part in so many of the time."""
GOODBYE_S: Final = 0.5
"""How long a broker that stops waits for its last words to be sent."""


class BrokerServer:
    """One broker, listening and connected."""

    def __init__(
        self,
        settings: BrokerSettings,
        broker: Broker | None = None,
        journal: InputJournal | None = None,
    ) -> None:
        self.settings = settings
        self.acceptance = Acceptance(settings)
        named = [n.id for n in settings.neighbours if n.id]
        broker = broker or Broker(settings.id, named, settings.core, now_us())
        self.driver = Driver(broker, self, journal)
        self.links: dict[str, Connection] = {}
        """By neighbour, the connection that speaks for it."""
        self.clients: dict[str, Connection] = {}
        self.strangers: dict[Connection, None] = {}
        """Connections whose peer has not said all it must."""
        self.address: Address | None = None
        self.slow_drops: dict[str, int] = {}
        """By client, deliveries that a slow reader lost."""
        self.sent: dict[tuple[str, str], int] = {}
        """By neighbour and kind, messages sent there."""
        self.stopping = False
        self.waiting = Waiting(self)
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._diallers: dict[Neighbour, asyncio.Task[None]] = {}
        self._dialled: dict[Connection, Neighbour] = {}
        """Whom connections were made to, while they are there."""
        self.forgotten: set[str] = set()
        """Neighbours that an operator had forgotten, and that have not come since."""
        self._parting: Connection | None = None
        """To the neighbour that this broker leaves for good, which closes it."""
        self._blocked: dict[str, None] = {}
        self._curious: dict[Connection, None] = {}
        """Those that ask how the broker is."""
        self._status_delay_s = STATUS_DELAY_S
        self.intake = Intake(settings.limits.partial_bytes)
        self.backpressure = Backpressure(self.driver, self.clients, settings.limits, self._slow)

    @property
    def broker(self) -> Broker:
        """The broker; another one takes its place if it raises."""
        return self.driver.broker

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and dial the neighbours."""
        loop = asyncio.get_running_loop()
        listen = self.settings.listen
        self._server = await loop.create_server(
            self._accept, listen.host, listen.port, reuse_address=True
        )
        port = self._server.sockets[0].getsockname()[1]
        self.address = Address(listen.host, port)
        self.driver.now(Started())
        self._dial(self.settings.neighbours)
        self._tasks.append(asyncio.create_task(self._keep_alive()))
        self._tasks.append(asyncio.create_task(self.waiting.report()))

    async def stop(self) -> None:
        """Take no more publications, wait a while for confirmations, say goodbye."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        await self.drain(self.settings.limits.drain_ms / 1e3)
        await self._end_tasks()
        self.driver.stop()
        everyone = [*self.links.values(), *self.clients.values(), *self.strangers]
        for connection in everyone:
            connection.close("the broker stops")
        deadline = asyncio.get_running_loop().time() + GOODBYE_S
        while self._is_connected() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.002)  # what was written goes out

    async def drain(self, seconds: float) -> bool:
        """Take no more publications, and wait for confirmations; whether they all came in time."""
        self.driver.draining = True
        deadline = asyncio.get_running_loop().time() + seconds
        while self._has_work() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        return not self._has_work()

    def undrain(self) -> None:
        """Take publications again."""
        self.driver.draining = False
        if not self.driver.holding:
            self.driver.resume()

    async def part_for_good(self, neighbour: str, seconds: float) -> bool:
        """Tell a neighbour that this broker is none of its neighbours any more; whether it has said
        in time that it has forgotten it. Nobody is dialled or let in from now on."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        await self._end_tasks()
        connection = self._parting = self.links.get(neighbour)
        lost = asyncio.get_running_loop().create_future()
        if connection is None:
            lost.set_result(None)
        else:
            connection.when_lost = lost
        self.driver.now(NeighbourRemoved(neighbour))
        await asyncio.wait([lost], timeout=seconds)
        goodbye = None if connection is None else connection.goodbye
        return goodbye is not None and goodbye.for_good

    def _is_connected(self) -> bool:
        return bool(self.links or self.clients or self.strangers)

    async def _end_tasks(self) -> None:
        tasks = [*self._tasks, *self._diallers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def reload(self, settings: BrokerSettings) -> None:
        """Take over limits and neighbours; a neighbour that is not listed any more is parted with,
        unless it is still there by another name or address."""
        before, after = self.settings.neighbours, settings.neighbours
        self.settings = self.acceptance.settings = settings
        self.backpressure.limits = settings.limits
        self.intake.partial_bytes_max = settings.limits.partial_bytes
        for neighbour in [n for n in self._diallers if n not in after]:
            self._diallers.pop(neighbour).cancel()
        known = [Neighbour(n.address, self.acceptance.known_as(n)) for n in before]
        for id in removed_neighbours(known, after):
            log.info("%s is no neighbour any more", id)
            self.driver.now(NeighbourRemoved(id))
        self._dial(after)

    async def kill(self) -> None:
        """End as a crash would: say nothing, wait for nothing. Nobody sees what the broker
        does after this is called."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        self.driver.stop()
        self._abort_all()
        await self._end_tasks()
        self._abort_all()

    def _abort_all(self) -> None:
        everyone = [*self.links.values(), *self.clients.values(), *self.strangers]
        for known in (self.links, self.clients, self.strangers):
            known.clear()  # nobody is told of what follows
        for connection in everyone:
            connection.abort("the broker was killed")

    def _has_work(self) -> bool:
        connections = [*self.links.values(), *self.clients.values()]
        return (
            self.driver.has_control
            or any(connection.waiting for connection in connections)
            or any(self.broker.unconfirmed(link) for link in self.links)
        )

    def _accept(self) -> Connection:
        """Someone connects."""
        connection = Connection(self, self._preamble(), dialled=False, intake=self.intake)
        if len(self.strangers) >= self.settings.limits.unidentified:
            self._close_a_stranger()
        self.strangers[connection] = None
        return connection

    def _close_a_stranger(self) -> None:
        """There are too many: whoever has taken longest to say who it is has had its time."""
        oldest = next((s for s in self.strangers if s.open and not s.dialled), None)
        if oldest is not None:
            del self.strangers[oldest]
            oldest.close(
                f"{self.settings.limits.unidentified} others have not said who they are yet"
            )

    def _preamble(self) -> Preamble:
        return Preamble(
            PROTOCOL_VERSION,
            "broker",
            self.settings.id,
            self.broker.incarnation,
            FRAME_BYTES_MAX,
            self.settings.limits.keepalive_ms,
        )

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            every_s = self.settings.limits.keepalive_ms / 1e3
            due = loop.time() + every_s
            await asyncio.sleep(every_s)
            if self.driver.broken is not None:
                self._abort_all()  # nobody should wait for it
                return
            now = loop.time()
            self._look_after_connections(now, every_s, now - due)
            self._forget_again()
            self.waiting.look()
            up = [(name, link) for name, link in sorted(self.links.items()) if link.was_up]
            outputs = tuple((name, link.waiting_messages) for name, link in up)
            self.driver.control(LoadSampled(self.driver.waiting, outputs))

    def _forget_again(self) -> None:
        """A neighbour that came back later may still name one that an operator had forgotten."""
        for name in sorted(self.forgotten.intersection(self.broker.neighbours)):
            log.info("%s was named by a neighbour: it stays forgotten", name)
            self.driver.now(NeighbourRemoved(name))

    def forget(self, neighbour: str) -> None:
        """Forget a neighbour that is not connected; it is welcome if it comes itself."""
        self.forgotten.add(neighbour)
        self.driver.now(NeighbourRemoved(neighbour))

    def _look_after_connections(self, now: float, every_s: float, late_s: float) -> None:
        """Give up those that are silent; not for a time in which this process did not listen."""
        for link in list(self.links.values()):
            assert link.peer is not None
            rarely_ms = min(link.peer.keepalive_ms, KEEPALIVE_MS_MAX)
            link_s = max(every_s, rarely_ms / 1e3)  # so rarely may it speak
            link.keep_alive(now, 2 * link_s + late_s)
        for connection in [*self.clients.values(), *self.strangers]:
            connection.keep_alive(now, 2 * every_s + late_s)
        self.backpressure.look_after(now, 2 * every_s + late_s)
        for stranger in [s for s in self.strangers if s.open]:
            if now - stranger.began > 2 * every_s + late_s:
                stranger.close("it has not said all that it must")

    # --- dialling ------------------------------------------------------------------------------

    def _dial(self, neighbours: tuple[Neighbour, ...]) -> None:
        for neighbour in neighbours:
            self.forgotten.discard(neighbour.id)
            if neighbour.id and not self.broker.is_neighbour(neighbour.id):
                self.driver.now(NeighbourAdded(neighbour.id))
            if neighbour not in self._diallers:
                task = asyncio.create_task(self._dial_for_ever(neighbour))
                self._diallers[neighbour] = task

    async def _dial_for_ever(self, neighbour: Neighbour) -> None:
        """Connect whenever the neighbour is not connected."""
        loop = asyncio.get_running_loop()
        delay_s = self.settings.limits.retry_ms / 1e3
        refused = told = False
        while True:
            limits = self.settings.limits
            if self.acceptance.known_as(neighbour) not in self.links:
                lost: asyncio.Future[None] = loop.create_future()
                connection = Connection(self, self._preamble(), dialled=True, intake=self.intake)
                connection.expects = neighbour.id
                connection.when_lost = lost
                self.strangers[connection] = None  # it may be greeted, or lost, before this goes on
                self._dialled[connection] = neighbour
                try:
                    await loop.create_connection(
                        lambda c=connection: c,  # type: ignore[misc]
                        neighbour.address.host,
                        neighbour.address.port,
                    )
                    await lost
                    if connection.was_up and not connection.was_cut:
                        delay_s, told = limits.retry_ms / 1e3, False
                except OSError as error:
                    self.strangers.pop(connection, None)
                    level = logging.DEBUG if told else logging.INFO
                    log.log(level, "cannot reach %s, trying on: %s", neighbour, error)
                    told = True
                del self._dialled[connection]
                is_useless = connection.was_cut or not connection.was_up
                refused = is_useless and bool(connection.peer is not None or connection.refusal)
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
        if connection.expects not in ("", name):
            log.warning("%s is %s, not %s", connection.address, name, connection.expects)
            connection.close(f"broker {connection.expects} was expected")
            return
        barred = self.driver.bars("link", name)
        if barred:
            connection.was_cut = True
            connection.close(barred, for_good=True)
            return
        if connection.dialled:
            self.acceptance.learn(self._dialled[connection], name)
        elif refusal := self.acceptance.refusal(name, {*self.broker.neighbours, *self.links}):
            log.info("broker %s at %s is refused: %s", name, connection.address, refusal)
            connection.close(refusal)
            return
        old = self.links.get(name)
        if old is not None:
            reason = self._preferred(old, connection, peer) if old.open else ""
            if reason:
                connection.close(reason)
                return
            self._drop_link(name, "another connection took its place")
        self.links[name] = connection
        self.forgotten.discard(name)
        connection.said = self.broker.hello(name)
        connection.send(connection.said)

    def _preferred(self, old: Connection, new: Connection, peer: Preamble) -> str:
        """Why the old connection stays, if it does."""
        assert old.peer is not None
        if old.peer.incarnation != peer.incarnation:
            if not old.was_up:
                return ""  # it has said nothing but a name
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
            connection.was_cut |= frame.for_good
        elif peer.role == "broker":
            self._from_broker(connection, peer.name, frame)
        else:
            self._from_client(connection, peer, frame)

    def _from_broker(self, connection: Connection, name: str, frame: AnyFrame) -> None:
        if self.links.get(name) is not connection:
            return  # it is being replaced
        if isinstance(frame, Hello):
            self._take_hello(connection, name, frame)
        elif not connection.was_up:
            connection.close(f"{type(frame).__name__} before its Hello")
        elif isinstance(frame, Batch):
            event = FrameReceived(name, frame)
            if frame.lane is DATA:
                self.driver.data(name, event, len(frame.messages))
            else:
                self.driver.control(event)
        elif isinstance(frame, Acknowledgement):
            self.driver.control(FrameReceived(name, frame))
        else:
            connection.close(f"a broker does not send {type(frame).__name__}")

    def _take_hello(self, connection: Connection, name: str, hello: Hello) -> None:
        """A broker has said all that it must: the link is up. One that was no neighbour is one from
        now on."""
        assert connection.peer is not None
        if connection.was_up:
            connection.close("it greets twice")
            return
        if hello.incarnation != connection.peer.incarnation:
            said = f"{hello.incarnation}, and {connection.peer.incarnation} before"
            connection.close(f"it says that its incarnation is {said}")
            return
        link_up = LinkUp(name, hello, connection.said)
        events: tuple[Input, ...] = (link_up,)
        if not self.broker.is_neighbour(name):
            try:
                self.broker.check_hello(name, hello, connection.said)
            except RemoteProtocolError as error:
                connection.close(error.reason)
                return
            connection.is_new = True
            events = NeighbourAdded(name), link_up
        self.strangers.pop(connection, None)
        connection.trust(is_link=True)
        connection.was_up = True
        log.info("link to %s is up (%s)", name, connection.address)
        self.driver.now(*events)

    def _from_client(self, connection: Connection, peer: Preamble, frame: AnyFrame) -> None:
        name = peer.name
        if isinstance(frame, Requests):
            if self.clients.get(name) is not connection:
                connection.close("requests before the client was welcome")
            else:
                self.driver.request(name, frame.requests, connection.frame_bytes)
                self.backpressure.asked(name, connection)
        elif isinstance(frame, HoldDeliveries):
            connection.hold(frame.hold)
        elif isinstance(frame, ClientHello):
            self._welcome(connection, peer, frame)
        elif isinstance(frame, StatusRequest):
            self._ask_status(connection)
        else:
            connection.close(f"a client does not send {type(frame).__name__}")

    def _welcome(self, connection: Connection, peer: Preamble, hello: ClientHello) -> None:
        name = peer.name
        known = self.broker.session(name)
        if known is not None and known.incarnation > peer.incarnation:
            connection.close(f"a newer incarnation of client {name} was here", for_good=True)
            return
        barred = self.driver.bars("client", name)
        if barred:
            connection.close(barred)
            return
        if len(self.clients) >= self.settings.limits.clients:
            connection.close(f"{len(self.clients)} clients are connected, the most there may be")
            return
        old = self.clients.pop(name, None)
        if old is not None:
            old.close("another client of this name connected", for_good=True)
            self._forget_client(name, old)
        self.strangers.pop(connection, None)
        self.clients[name] = connection
        connection.trust()
        connection.send(Welcome(self.settings.core.body_bytes_max))
        self.driver.now(
            ClientAttached(
                name, peer.incarnation, hello.session_ttl_us, hello.received, hello.resumes
            )
        )

    def _ask_status(self, connection: Connection) -> None:
        """Tell it soon, together with whoever else asks until then."""
        if not self._curious:
            asyncio.get_running_loop().call_later(self._status_delay_s, self._tell_status)
        self._curious[connection] = None

    def _tell_status(self) -> None:
        curious, self._curious = self._curious, {}
        loop = asyncio.get_running_loop()
        began = loop.time()
        status = Status(encode_status(status_of(self)))
        for connection in curious:
            if connection.unread_bytes <= self.settings.limits.client_answer_bytes:
                connection.send(status)
        self._status_delay_s = max(STATUS_DELAY_S, STATUS_SHARE * (loop.time() - began))

    def lost(self, connection: Connection, reason: str) -> None:
        """A connection is gone."""
        self.strangers.pop(connection, None)
        if connection.when_lost is not None and not connection.when_lost.done():
            connection.when_lost.set_result(None)
        peer = connection.peer
        if peer is None:
            level = logging.WARNING if connection.refusal else logging.DEBUG
            log.log(level, "a connection from %s is gone: %s", connection.address, reason)
        elif self.links.get(peer.name) is connection:
            log.info("link to %s is down: %s", peer.name, reason)
            self._drop_link(peer.name, reason)
        elif self.clients.get(peer.name) is connection:
            del self.clients[peer.name]
            self._unblock(peer.name)
            self._forget_client(peer.name, connection)
            for_good = connection.goodbye is not None and connection.goodbye.for_good
            self.driver.now(ClientDetached(peer.name, for_good))

    def _came_to_nothing(self, connection: Connection, name: str) -> bool:
        """Whether a broker that dialled in has not told everything, so that nobody is to wait for
        it. A broker that lost its state, or may have, cannot say so of one that it has compared
        tables with: that may be a neighbour of before."""
        broker, link = self.broker, self.broker.link(name)
        if link is None or not connection.is_new or link.peer_synced:
            return False
        may_be_old = not broker.is_recovered and broker.has_compared_with(name)
        return not (broker.is_restarting or may_be_old)

    def _forget_client(self, name: str, connection: Connection) -> None:
        """What a client asked for over a connection that is gone is not done any more."""
        self.driver.forget_client(name)
        self.backpressure.forget(name, connection)

    def _drop_link(self, name: str, reason: str) -> None:
        connection = self.links.pop(name)
        if not connection.was_up:
            connection.close(reason)  # the broker never heard of it
            return
        self.driver.forget_link(name)
        came_to_nothing = self._came_to_nothing(connection, name)
        self.driver.now(LinkDown(name))
        connection.close(reason)
        if came_to_nothing:  # whoever that was: nobody is to wait for it
            self.driver.now(NeighbourRemoved(name))

    # --- what the broker says --------------------------------------------------------------------

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour."""
        connection = self.links.get(link)
        if connection is None:
            return
        if isinstance(frame, Batch):
            self._count(link, frame)
            if frame.lane is DATA:
                connection.send_data(frame)
            else:
                connection.send_large(frame)
        else:
            connection.send(frame)

    def _count(self, link: str, batch: Batch) -> None:
        sent, publications = self.sent, 0
        for message in batch.messages:
            if type(message) is Publish:
                publications += 1
            else:
                kind = link, str(message.__struct_config__.tag)
                sent[kind] = sent.get(kind, 0) + 1
        if publications:
            sent[link, "pub"] = sent.get((link, "pub"), 0) + publications

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
            connection.send_data(Replies(deliveries))
        limits = self.settings.limits
        if (
            connection.waiting_messages > limits.client_queue_messages
            or connection.waiting_bytes > limits.client_queue_bytes
        ):
            self._slow(client, connection, limits.client_queue_bytes)
        self.backpressure.told(client, connection)

    def taken_from(self, client: str) -> None:
        """The broker has taken some of what a client asked for."""
        connection = self.clients.get(client)
        if connection is not None and connection.is_silenced:
            self.backpressure.taken(client, connection)

    def _slow(self, client: str, connection: Connection, bytes_max: int) -> None:
        """A client does not read what it is sent; so much may still wait for it."""
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
                or connection.waiting_bytes > bytes_max
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
        if connection is not None and connection is self._parting:
            self.strangers[connection] = None
        elif connection is not None:
            log.warning("link to %s is closed: %s", link, reason)
            self.driver.forget_link(link)
            connection.was_cut = True
            connection.close(reason, for_good=True)
            if self._came_to_nothing(connection, link):
                self.driver.control(NeighbourRemoved(link))

    def close_client(self, client: str, reason: str) -> None:
        """A client asked for something that cannot be handled; it may come back."""
        connection = self.clients.pop(client, None)
        if connection is not None:
            log.warning("client %s is closed: %s", client, reason)
            self._unblock(client)
            connection.close(reason)
        self.driver.now(ClientDetached(client))
