"""The connections to other brokers: which one speaks for a link, and the frames of brokers.

The broker that dials says first what for, in its `Hello`, and the other one answers. So a broker
that dials in is accepted or refused at its `Hello`; before, nothing is kept of it. One that dials
for a link of the tree becomes a neighbour then; one that dials for a link outside the tree never
does. Of two connections between the same two brokers, the one that the smaller id dialled stays,
whatever they are for. A second broker with the id of one that is connected is refused. This file
decides which connection is a link, and hands its frames to the driver; it dials nobody.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from byway.core.actions import CloseLink
from byway.core.broker import Broker
from byway.core.inputs import (
    Input,
    LinkDown,
    LinkUp,
    NeighbourAdded,
    NeighbourRemoved,
    NeighboursListed,
)
from byway.model.addresses import Address, Neighbour
from byway.model.errors import RemoteProtocolError, shortened
from byway.model.messages import DATA, AnyFrame, Batch, Frame, Hello, LinkKind, Preamble
from byway.model.messages import Acknowledge as Acknowledgement
from byway.runtime.acceptance import Acceptance
from byway.runtime.dial_rules import heard_address
from byway.runtime.driver import Driver
from byway.runtime.load_sampling import RoundTrip
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
        """By broker, the connection that speaks for it."""
        self.dialled: dict[Connection, Neighbour | None] = {}
        """By connection that was dialled from here, the neighbour in the settings; None for a link
        that was decided on while this broker or the other one ran."""
        self.refused = 0
        """Brokers refused because they may not be neighbours, or there were too many."""
        self.refused_outside_tree = 0
        """Brokers refused because they may not open links outside the tree, or too many did."""
        self.forgotten: set[str] = set()
        """Neighbours that an operator had the broker forget and that have not connected since."""
        self.leaving: dict[Connection, None] = {}
        """To the neighbours that this broker leaves for good; these close them."""
        self.own_addresses: tuple[Address, ...] = ()
        """Where this broker can be dialled; the first one is said to others."""
        self.round_trips: dict[str, RoundTrip] = {}
        """By broker that is linked, how long it takes to answer."""
        self._loop = asyncio.get_running_loop()
        self._id = id
        self._driver = driver
        self._acceptance = acceptance
        self._unidentified = unidentified

    @property
    def broker(self) -> Broker:
        """The broker; after one that raised, the one in its place."""
        return self._driver.broker

    # --- preambles ------------------------------------------------------------------------------

    def greet(self, connection: Connection, peer: Preamble) -> None:
        """A broker's preamble arrived: refuse it, say what it was dialled for, or wait until it has
        said what it dials for."""
        name = peer.name
        if connection.expects not in ("", name):
            log.warning("%s is %s, not %s", connection.address, name, connection.expects)
            connection.close(f"broker {connection.expects} was expected")
            return
        if name == self._id:
            reason = f"this broker is called {name} too: give one of both another id (--id)"
            log.warning("broker %s at %s is refused: %s", name, connection.address, reason)
            connection.close(reason)
            return
        barred = self._driver.bars("link", name)
        if barred:
            connection.was_cut = True
            connection.close(barred, for_good=True)
        elif connection.dialled:
            self._greet_dialled(connection, peer)
        else:
            self._greet_dialler(connection, peer)

    def _greet_dialled(self, connection: Connection, peer: Preamble) -> None:
        """A broker that was dialled from here answers: say what for."""
        name, listed = peer.name, self.dialled[connection]
        if listed is not None:
            self._acceptance.learn(listed, name)
            self.tell_listing()
        reason = self._reason_to_hang_up(name, listed) or self._reason_to_keep(connection, peer)
        if reason:
            connection.close(reason)
            return
        self._speak_for(name, connection)
        hello, added = self._hello(name), self._acceptance.is_added(name)
        kind = hello.kind or LinkKind.PRIMARY
        connection.said = msgspec.structs.replace(hello, kind=kind, added=added)
        connection.send(connection.said)

    def _reason_to_hang_up(self, name: str, listed: Neighbour | None) -> str:
        """Why a broker that answers was dialled in vain; empty if it was not. A neighbour that an
        operator has added, and whose id was not known, becomes one although it is a former one, or
        has another link."""
        broker = self.broker
        if listed is None:
            return "" if broker.dials(name) else "the link was closed meanwhile"
        if listed in self._acceptance.added and name in broker.former:
            self._driver.now(NeighbourAdded(name))
        if name in broker.former:
            return broker.former[name]
        if broker.has_link(name) and not broker.is_neighbour(name):
            self._driver.now(NeighbourAdded(name))
        return ""

    def _greet_dialler(self, connection: Connection, peer: Preamble) -> None:
        """A broker dials in: refuse it if it may have no link whatever for."""
        name = peer.name
        reason = self._reason_to_keep(connection, peer)
        if reason:
            connection.close(reason)
        elif self._refusal(name, LinkKind.SOFT, connection) and (
            refusal := self._refusal(name, LinkKind.PRIMARY, connection)
        ):
            self._refuse(connection, name, LinkKind.PRIMARY, refusal)

    def _refusal(
        self, name: str, kind: LinkKind, connection: Connection, *, added: bool = False
    ) -> str:
        """Why a broker that dials in may have no link of a kind; empty if it may, or if it was a
        neighbour and is not any more, which it is told as one broker tells another. `added`: an
        operator has added this broker there."""
        broker = self.broker
        if kind is LinkKind.PRIMARY:
            if name in broker.former and not added:
                return broker.former[name] if name in broker.succession_of else ""
            return self._acceptance.refusal(name, broker.neighbours)
        if broker.has_link(name):
            return ""
        opened = [link for link in self._opened_here() if not self._is_idle(link)]
        return self._acceptance.refusal_outside_tree(name, connection.host, opened)

    def _refuse(self, connection: Connection, name: str, kind: LinkKind, reason: str) -> None:
        log.info("broker %s at %s is refused: %s", name, connection.address, reason)
        if kind is LinkKind.PRIMARY:
            self.refused += 1
        else:
            self.refused_outside_tree += 1
        connection.close(reason)

    def _reason_to_keep(self, new: Connection, peer: Preamble) -> str:
        """Why an older connection to a broker stays and the new one is refused; empty if there is
        none, or if it is replaced."""
        old = self.connections.get(peer.name)
        if old is None or not old.open:
            return ""
        assert old.peer is not None
        if old.peer.incarnation != peer.incarnation:
            if not old.was_up:
                return ""  # it has sent nothing but a name
            return f"a broker {peer.name} is connected already, from {old.address}"
        new_dialler = self._id if new.dialled else peer.name
        old_dialler = self._id if old.dialled else peer.name
        is_second = new.dialled and old.dialled  # at another address; it answers at both
        if is_second or (new_dialler != old_dialler and new_dialler > old_dialler):
            return "there is a connection already"
        return ""

    def _speak_for(self, name: str, connection: Connection) -> None:
        """From now on this connection speaks for a broker, and no other."""
        if name in self.connections:
            self.drop(name, "replaced by another connection")
        self.connections[name] = connection
        self.forgotten.discard(name)

    def _hello(self, name: str) -> Hello:
        """What to say first to a broker."""
        hello = self.broker.hello(name)
        address = next(map(str, self.own_addresses), "")
        return msgspec.structs.replace(hello, address=address)

    # --- frames in ------------------------------------------------------------------------------

    def received(self, connection: Connection, name: str, frame: AnyFrame) -> None:
        """Take a frame of a broker; one that a broker must not send closes the connection."""
        if isinstance(frame, Hello):
            self._on_hello(connection, name, frame)
        elif not connection.was_up:
            connection.close(f"{type(frame).__name__} before its Hello")
        elif self.connections.get(name) is not connection:
            return  # it is being replaced
        elif isinstance(frame, Batch | Acknowledgement):
            round_trip = self.round_trips.get(name)
            if round_trip is not None and isinstance(frame, Acknowledgement):
                round_trip.acknowledged(frame.control, self._loop.time())
            self._driver.frame(name, frame)
        else:
            connection.close(f"a broker does not send {type(frame).__name__}")

    def _on_hello(self, connection: Connection, name: str, hello: Hello) -> None:
        """The link is up, if it may be; a broker that dials for a link of the tree and was not a
        neighbour becomes one."""
        assert connection.peer is not None
        if connection.was_up:
            connection.close("a second Hello")
            return
        if hello.incarnation != connection.peer.incarnation:
            found = f"{hello.incarnation}, and {connection.peer.incarnation} in its preamble"
            connection.close(f"its Hello has incarnation {found}")
            return
        try:
            self.broker.check_hello(name, hello, None)
        except RemoteProtocolError as error:
            log.warning("broker %s at %s is refused: %s", name, connection.address, error.reason)
            connection.close(f"{name} {error.reason}")
            return
        if connection.dialled:
            if self.connections.get(name) is not connection:
                return  # it is being replaced
        elif not self._admit(connection, name, hello):
            return
        self._come_up(connection, name, self._heard(connection, name, hello))

    def _admit(self, connection: Connection, name: str, hello: Hello) -> bool:
        """A broker that dials in has said what for: answer it, or refuse it."""
        assert connection.peer is not None
        kind = hello.kind or LinkKind.PRIMARY
        refusal = self._refusal(name, kind, connection, added=hello.added)
        if refusal:
            self._refuse(connection, name, kind, refusal)
            return False
        reason = self._reason_to_keep(connection, connection.peer)
        if not reason:
            reason = self._reason_to_keep_kind(name, kind)
        if reason:
            connection.close(reason)
            return False
        if kind is not LinkKind.PRIMARY and not self.broker.has_link(name):
            self._make_room()
        self._speak_for(name, connection)
        connection.said = self._hello(name)
        connection.send(connection.said)
        return True

    def _reason_to_keep_kind(self, name: str, kind: LinkKind) -> str:
        """Why a link that is up is not replaced by one of another kind: it is being closed, and
        what was sent over it is still on its way, or its other end does not know of it."""
        old, link = self.connections.get(name), self.broker.link(name)
        if old is None or not old.was_up or link is None or LinkKind.SOFT not in (kind, link.kind):
            return ""
        return "" if kind is link.kind else f"a {link.kind} link is up"

    def _heard(self, connection: Connection, name: str, hello: Hello) -> Hello:
        """A greeting without an address that this broker cannot believe."""
        address, reason = heard_address(hello.address, connection.host, self.own_addresses)
        if reason:
            said = shortened(repr(hello.address), 100)
            log.info("%s says that it can be dialled at %s: %s", name, said, reason)
        return msgspec.structs.replace(hello, address=address)

    def _come_up(self, connection: Connection, name: str, hello: Hello) -> None:
        broker, link = self.broker, self.broker.link(name)
        link_up = LinkUp(name, hello, connection.said)
        events: tuple[Input, ...] = (link_up,)
        kind = (hello.kind if link is None else link.kind) or LinkKind.PRIMARY
        words = "link" if kind is LinkKind.PRIMARY else f"{kind} link"
        what = f"{words} to {name} is up"
        if link is None and kind is LinkKind.PRIMARY:
            if name in broker.former and not hello.added:
                what = f"{name} connects as a neighbour, and is none any more"
            else:
                connection.is_new = True
                events = NeighbourAdded(name), link_up
        self._unidentified.pop(connection, None)
        connection.trust(is_link=True)
        connection.was_up, connection.heard = True, hello
        self.round_trips[name] = RoundTrip()
        log.info("%s (%s)", what, connection.address)
        if broker.meets_late(name, hello):
            log.warning(
                "%s was a neighbour of %s too, and was not waited for: what was confirmed until "
                "now has not reached it",
                name,
                hello.in_place_of,
            )
        self._driver.now(*events)
        link = self.broker.link(name)
        if link is not None and link.up and link.kind is LinkKind.PRIMARY:
            self._acceptance.linked(name)
            self.tell_listing()

    # --- links that others opened ---------------------------------------------------------------

    def _opened_here(self) -> list[str]:
        """Brokers that have opened a link outside the tree to this one."""
        broker = self.broker
        return [
            name
            for name, link in broker.links.items()
            if link.kind is not LinkKind.PRIMARY and not broker.dials(name)
        ]

    def _is_idle(self, name: str) -> bool:
        """Whether the link to a broker is down and nothing waits for it."""
        link = self.broker.link(name)
        return link is not None and not link.up and not link.unconfirmed

    def _make_room(self) -> None:
        """Forget links outside the tree that others opened and that are down, if there would be
        too many."""
        opened = self._opened_here()
        excess = len(opened) + 1 - self._acceptance.settings.limits.soft_links
        for name in [link for link in opened if self._is_idle(link)][: max(excess, 0)]:
            self._driver.now(NeighbourRemoved(name))

    # --- frames out -----------------------------------------------------------------------------

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a broker, if it is connected."""
        connection = self.connections.get(link)
        if connection is None:
            return
        if isinstance(frame, Batch):
            if frame.lane is DATA:
                connection.send_data(frame)
            else:
                round_trip = self.round_trips.get(link)
                if round_trip is not None:
                    round_trip.sent(frame, self._loop.time())
                connection.send_large(frame)
        else:
            connection.send(frame)

    # --- the end of a link ----------------------------------------------------------------------

    def drop(self, name: str, reason: str) -> None:
        """A broker's connection was lost or replaced: the link is down until it returns. What a
        broker that said goodbye had sent before is handled first."""
        connection = self.connections[name]
        if connection.was_up and connection.goodbye is not None:
            self._driver.now()
            if self.connections.get(name) is not connection:
                return  # that has closed it
        del self.connections[name]
        self.round_trips.pop(name, None)
        if not connection.was_up:
            connection.close(reason)  # the broker never heard of it
            return
        self._driver.inbox.drop_link(name)
        never_synced = self._never_synced(connection, name)
        self._driver.now(LinkDown(name))
        connection.close(reason)
        if never_synced:
            self._driver.now(NeighbourRemoved(name))

    def close(self, action: CloseLink) -> None:
        """Close the connection to a broker that broke the protocol, or to which there is no link
        any more; what was sent to it before arrives."""
        name, reason = action.link, action.reason
        connection = self.connections.pop(name, None)
        self.round_trips.pop(name, None)
        if connection in self.leaving:
            assert connection is not None
            self._unidentified[connection] = None
        elif connection is not None:
            heard, said = connection.heard, connection.said
            kinds = [hello.kind for hello in (heard, said) if hello is not None]
            is_outside = LinkKind.SOFT in kinds or LinkKind.OPENING in kinds
            level = logging.INFO if is_outside and not action.fault else logging.WARNING
            log.log(level, "link to %s is closed: %s", name, reason)
            self._driver.inbox.drop_link(name)
            connection.was_cut = action.fault or not self.broker.has_link(name)
            connection.close(reason, connection.was_cut, heard_out=not action.fault)
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
        """Tell the broker of neighbours that the settings list with their ids. One that it parted
        with for good becomes a neighbour again only if an operator has added it since."""
        added = self._acceptance.added
        for neighbour in neighbours:
            id = neighbour.id
            self.forgotten.discard(id)
            is_kept_out = id in self.broker.former and neighbour not in added
            if id and not self.broker.is_neighbour(id) and not is_kept_out:
                self._driver.now(NeighbourAdded(id))

    def tell_listing(self) -> None:
        """Tell the broker which neighbours the settings list, if more is known of them than it was
        told; it keeps that for its next start."""
        listing = self._acceptance.listing
        if listing != self.broker.listing:
            self._driver.now(NeighboursListed(listing))

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
