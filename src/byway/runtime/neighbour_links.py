"""The connections to neighbours: which one speaks for a neighbour, and the frames of brokers.

A broker becomes a neighbour once its `Hello` has arrived; before, nothing is kept of it. Of two
connections between the same two brokers, the one that the smaller id dialled stays. A second broker
with the id of one that is connected is refused. This file decides which connection is a link, and
hands its frames to the driver; it dials nobody.
"""

from __future__ import annotations

import logging

from byway.core.broker import Broker
from byway.core.inputs import (
    Input,
    LinkDown,
    LinkUp,
    NeighbourAdded,
    NeighbourRemoved,
)
from byway.model.addresses import Neighbour
from byway.model.errors import RemoteProtocolError
from byway.model.messages import DATA, AnyFrame, Batch, Frame, Hello, Preamble
from byway.model.messages import Acknowledge as Acknowledgement
from byway.runtime.acceptance import Acceptance
from byway.runtime.driver import Driver
from byway.transport.connection import Connection

log = logging.getLogger("byway.broker")


class NeighbourLinks:
    """The connections of one broker process to other brokers."""

    def __init__(
        self,
        id: str,
        driver: Driver,
        acceptance: Acceptance,
        unidentified: dict[Connection, None],
    ) -> None:
        self.connections: dict[str, Connection] = {}
        """By neighbour, the connection that speaks for it."""
        self.dialled: dict[Connection, Neighbour] = {}
        """By connection that was dialled from here, the neighbour in the settings."""
        self.refused = 0
        """Brokers refused because they may not be neighbours, or there were too many."""
        self.forgotten: set[str] = set()
        """Neighbours that an operator had the broker forget and that have not connected since."""
        self.leaving: Connection | None = None
        """To the neighbour that this broker leaves for good; the neighbour closes it."""
        self._id = id
        self._driver = driver
        self._acceptance = acceptance
        self._unidentified = unidentified

    @property
    def broker(self) -> Broker:
        """The broker; after one that raised, the one in its place."""
        return self._driver.broker

    # --- from the greeting to the link ----------------------------------------------------------

    def greet(self, connection: Connection, peer: Preamble) -> None:
        """A broker's preamble arrived: refuse it, or answer with a `Hello`."""
        name = peer.name
        if name == self._id:
            reason = f"this broker is called {name} too: give one of both another id (--id)"
            log.warning("broker %s at %s is refused: %s", name, connection.address, reason)
            connection.close(reason)
            return
        if connection.expects not in ("", name):
            log.warning("%s is %s, not %s", connection.address, name, connection.expects)
            connection.close(f"broker {connection.expects} was expected")
            return
        barred = self._driver.bars("link", name)
        if barred:
            connection.was_cut = True
            connection.close(barred, for_good=True)
            return
        if connection.dialled:
            self._acceptance.learn(self.dialled[connection], name)
        elif refusal := self._acceptance.refusal(
            name, {*self.broker.neighbours, *self.connections}
        ):
            log.info("broker %s at %s is refused: %s", name, connection.address, refusal)
            self.refused += 1
            connection.close(refusal)
            return
        old = self.connections.get(name)
        if old is not None:
            reason = self._reason_to_keep(old, connection, peer) if old.open else ""
            if reason:
                connection.close(reason)
                return
            self.drop(name, "replaced by another connection")
        self.connections[name] = connection
        self.forgotten.discard(name)
        connection.said = self.broker.hello(name)
        connection.send(connection.said)

    def _reason_to_keep(self, old: Connection, new: Connection, peer: Preamble) -> str:
        """Why the old connection to a neighbour stays and the new one is refused; empty if it is
        replaced."""
        assert old.peer is not None
        if old.peer.incarnation != peer.incarnation:
            if not old.was_up:
                return ""  # it has sent nothing but a name
            return f"a broker {peer.name} is connected already, from {old.address}"
        new_dialler = self._id if new.dialled else peer.name
        old_dialler = self._id if old.dialled else peer.name
        if new_dialler != old_dialler and new_dialler > old_dialler:
            return "there is a connection already"
        return ""

    def received(self, connection: Connection, name: str, frame: AnyFrame) -> None:
        """Take a frame of a broker; one that a broker must not send closes the connection."""
        if self.connections.get(name) is not connection:
            return  # it is being replaced
        if isinstance(frame, Hello):
            self._on_hello(connection, name, frame)
        elif not connection.was_up:
            connection.close(f"{type(frame).__name__} before its Hello")
        elif isinstance(frame, Batch | Acknowledgement):
            self._driver.frame(name, frame)
        else:
            connection.close(f"a broker does not send {type(frame).__name__}")

    def _on_hello(self, connection: Connection, name: str, hello: Hello) -> None:
        """The link is up; a broker that was not a neighbour becomes one."""
        assert connection.peer is not None
        if connection.was_up:
            connection.close("a second Hello")
            return
        if hello.incarnation != connection.peer.incarnation:
            found = f"{hello.incarnation}, and {connection.peer.incarnation} in its preamble"
            connection.close(f"its Hello has incarnation {found}")
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
        self._unidentified.pop(connection, None)
        connection.trust(is_link=True)
        connection.was_up = True
        log.info("link to %s is up (%s)", name, connection.address)
        self._driver.now(*events)

    # --- frames out -----------------------------------------------------------------------------

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour, if it is connected."""
        connection = self.connections.get(link)
        if connection is None:
            return
        if isinstance(frame, Batch):
            if frame.lane is DATA:
                connection.send_data(frame)
            else:
                connection.send_large(frame)
        else:
            connection.send(frame)

    # --- the end of a link ----------------------------------------------------------------------

    def drop(self, name: str, reason: str) -> None:
        """A neighbour's connection was lost or replaced: the link is down until it returns."""
        connection = self.connections.pop(name)
        if not connection.was_up:
            connection.close(reason)  # the broker never heard of it
            return
        self._driver.inbox.drop_link(name)
        never_synced = self._never_synced(connection, name)
        self._driver.now(LinkDown(name))
        connection.close(reason)
        if never_synced:
            self._driver.now(NeighbourRemoved(name))

    def close(self, name: str, reason: str) -> None:
        """Close the connection to a neighbour that broke the protocol or is not one any more."""
        connection = self.connections.pop(name, None)
        if connection is not None and connection is self.leaving:
            self._unidentified[connection] = None
        elif connection is not None:
            log.warning("link to %s is closed: %s", name, reason)
            self._driver.inbox.drop_link(name)
            connection.was_cut = True
            connection.close(reason, for_good=True)
            if self._never_synced(connection, name):
                self._driver.control(NeighbourRemoved(name))

    def _never_synced(self, connection: Connection, name: str) -> bool:
        """Whether a broker that dialled in has not sent all its tables, so that nobody is to wait
        for it. A broker that lost its state, or may have, cannot tell that of one it has compared
        tables with: that may be a neighbour of its previous run."""
        broker, link = self.broker, self.broker.link(name)
        if link is None or not connection.is_new or link.peer_synced:
            return False
        may_be_old = not broker.is_recovered and broker.has_compared_with(name)
        return not (broker.is_restarting or may_be_old)

    # --- neighbours that are added and forgotten --------------------------------------------------

    def add_listed(self, neighbours: tuple[Neighbour, ...]) -> None:
        """Tell the broker of neighbours that the settings list with their ids."""
        for neighbour in neighbours:
            self.forgotten.discard(neighbour.id)
            if neighbour.id and not self.broker.is_neighbour(neighbour.id):
                self._driver.now(NeighbourAdded(neighbour.id))

    def forget(self, neighbour: str) -> None:
        """Forget a neighbour that is not connected; it is accepted if it connects again."""
        self.forgotten.add(neighbour)
        self._driver.now(NeighbourRemoved(neighbour))

    def forget_again(self) -> None:
        """Forget neighbours once more that an operator had forgotten and that another broker has
        named since."""
        for name in sorted(self.forgotten.intersection(self.broker.neighbours)):
            log.info("%s was named by a neighbour: it stays forgotten", name)
            self._driver.now(NeighbourRemoved(name))
