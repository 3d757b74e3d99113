"""What a behaviour sees of its broker, and may do there: nothing else of it is a behaviour's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from byway.core.actions import CancelTimer, SetTimer, Timer
from byway.core.broker_config import BrokerConfig
from byway.core.client_session import ClientSession
from byway.core.context import Context
from byway.core.inputs import LinkLoad, LoadSampled
from byway.core.link_numbers import LinkNumbers
from byway.core.links import UNLISTED
from byway.core.tables import Table
from byway.model.bounds import REASON_LENGTH_MAX
from byway.model.errors import shortened
from byway.model.messages import LinkKind, Load, Message, Reply
from byway.model.trace_schema import Reconfiguration


class LinkOpener(Protocol):
    """Opens and closes links; `Neighbours` is the one there is."""

    @property
    def missing(self) -> Collection[str]:
        """Neighbours whose tables are missing."""

    def open(self, link: str, address: str, kind: LinkKind) -> None:
        """Open a link of a kind to a broker."""

    def disconnect(self, link: str, reason: str, for_good: bool = False) -> None:
        """Close a link and tell the other end why."""

    def is_known(self, link: str) -> bool:
        """Whether a neighbour's tables are here."""

    def take_back(self, link: str) -> None:
        """Route anew what a link of the tree that is down has not confirmed."""


class BrokerView:
    """One broker, as one behaviour (the owner) sees it."""

    def __init__(
        self,
        context: Context,
        owner: str,
        opener: LinkOpener,
        sessions: Mapping[str, ClientSession],
    ) -> None:
        self._context = context
        self._owner = owner
        self._opener = opener
        self._sessions = sessions

    @property
    def broker(self) -> str:
        """The name of the broker."""
        return self._context.name

    @property
    def incarnation(self) -> int:
        """Its incarnation."""
        return self._context.incarnation

    @property
    def address(self) -> str:
        """Where other brokers can dial it; empty if that is not known."""
        return self._context.address

    @property
    def config(self) -> BrokerConfig:
        """The settings of the broker; a behaviour's own are among them."""
        return self._context.config

    @property
    def now_us(self) -> int:
        """The time of the input that is handled."""
        return self._context.now_us

    # --- links ---------------------------------------------------------------------------------

    @property
    def links(self) -> list[str]:
        """Neighbours whose link is up, in the order of their names."""
        return [link for link in self._context.tree if self._context.ends[link].up]

    @property
    def tree(self) -> list[str]:
        """All neighbours, in the order of their names."""
        return [link for link in self._context.tree if link != UNLISTED]

    @property
    def missing(self) -> set[str]:
        """Neighbours whose tables are missing, or that may be there and are not known."""
        return set(self._opener.missing)

    def kind(self, link: str) -> LinkKind | None:
        """What the link to a broker is for; None if there is none."""
        return self._context.kind(link) if link in self._context.ends else None

    def is_up(self, link: str) -> bool:
        """Whether there is a link to a broker, and it is up."""
        end = self._context.ends.get(link)
        return end is not None and end.up

    def takes_data(self, link: str) -> bool:
        """Whether there is a link to a broker, it is up, and the broker takes data, at the end of
        this call at the latest."""
        end = self._context.ends.get(link)
        return end is not None and end.up and self.is_open(link)

    def is_open(self, link: str) -> bool:
        """Whether a link that there is, be it up or not, has come so far that the broker takes data
        over it, or will at the end of this call."""
        return self._context.ends[link].open or link in self._context.out.opening

    def is_known(self, link: str) -> bool:
        """Whether a neighbour's tables are here, and nothing is kept for it in case it wants it."""
        return self._opener.is_known(link)

    def unconfirmed(self, link: str) -> int:
        """How many data messages a link has not confirmed; 0 if there is no such link."""
        return len(self._context.copies.links.get(link, ()))

    def held_bytes(self, branch: str) -> int:
        """The bytes that what is held and parked in a branch takes, as the bounds count it."""
        held = self._context.held
        return 0 if held is None else held.size(branch)

    def open_link(self, broker: str, address: str, kind: LinkKind) -> None:
        """Open a link to a broker, which is dialled at this address until the link is closed. One
        of the tree makes it a neighbour at once; a link that there is stays, but a soft one that
        is opened for the tree begins anew."""
        self._opener.open(broker, address, kind)

    def close_link(self, broker: str, reason: str, *, for_good: bool = False) -> None:
        """Close the link to a broker, if there is one, and tell it why. `for_good`: neither of both
        dials the other again for a link of the tree before an operator adds it."""
        if broker in self._context.ends:
            self._opener.disconnect(broker, shortened(reason, REASON_LENGTH_MAX), for_good)

    def send_data(self, link: str) -> None:
        """Send publications over a link outside the tree from now on: its peer takes them."""
        self._context.out.opening[link] = None

    def take_back(self, link: str) -> None:
        """Route anew what the link to a neighbour, which is down, has not confirmed. The link will
        begin anew, and tables will be compared."""
        self._opener.take_back(link)

    def routes_changed(self, link: str) -> None:
        """A planner decides otherwise than before about a link: what is held in its branch may
        go."""
        if self._context.held is not None:
            self._context.held.on_link_changed(link)

    def send(self, link: str, message: Message) -> None:
        """Send a control message over a link."""
        self._context.out.send(link, message)

    # --- costs ---------------------------------------------------------------------------------

    @property
    def load(self) -> LoadSampled:
        """The driver's last sample; one of an idle broker without links until the first comes."""
        return self._context.load

    def cost(self, link: str) -> LinkLoad | None:
        """What the last sample says of a link: waits, service times, round trips; None if it was
        not up then."""
        return next((one for one in self._context.load.links if one.link == link), None)

    @property
    def loads(self) -> dict[str, Load]:
        """By broker of the neighbourhood, its last load, as far as brokers exchange them."""
        found: dict[str, Load] = {}
        for _, loads in sorted(self._context.loads.items()):
            found |= loads
        return found

    def share_loads(self, loads: Mapping[str, Mapping[str, Load]]) -> None:
        """Let all behaviours see loads, by link and broker behind it, which the owner keeps."""
        self._context.loads = loads

    # --- clients -------------------------------------------------------------------------------

    @property
    def local_publishers(self) -> list[str]:
        """Clients of this broker that have an advertisement, in the order of their names."""
        return sorted(name for name, session in self._sessions.items() if session.adverts)

    def unfinished(self, client: str) -> int:
        """How many publications of a client of this broker are not finished, from its oldest such
        one on; 0 for one that is not known."""
        session = self._sessions.get(client)
        return 0 if session is None else session.sequence - session.window.finished_up_to

    def tell(self, client: str, reply: Reply) -> bool:
        """Send a reply to a client of this broker, if it is connected; whether it is."""
        session = self._sessions.get(client)
        if session is None or not session.attached:
            return False
        self._context.out.tell(client, reply)
        return True

    # --- tables --------------------------------------------------------------------------------

    @property
    def numbers(self) -> LinkNumbers:
        """Numbers of neighbours, by which matching names them."""
        return self._context.numbers

    @property
    def subscriptions(self) -> Table:
        """The subscription table in force, to be read; to be asked for at the moment of use."""
        return self._context.routing.subscriptions

    @property
    def advertisements(self) -> Table:
        """The advertisement table in force, to be read; to be asked for at the moment of use."""
        return self._context.routing.adverts

    # --- time, chance, trace -------------------------------------------------------------------

    def set_timer(self, at_us: int, detail: str = "") -> None:
        """Have `on_timer` called at a time; setting it again replaces the time."""
        self._context.out.do(SetTimer(Timer(self._owner, detail), at_us))

    def cancel_timer(self, detail: str = "") -> None:
        """Do not have `on_timer` called, if that was set."""
        self._context.out.do(CancelTimer(Timer(self._owner, detail)))

    def random(self) -> float:
        """A random number from 0 up to but not 1; the same if the broker is rebuilt from its
        inputs."""
        return self._context.chance.random(self._owner)

    def draw(self, below: int) -> int:
        """A random whole number from 0 up to but not `below`, which must be small against 2^53."""
        return int(self._context.chance.random(self._owner) * below)

    def trace(
        self,
        kind: Reconfiguration,
        operation: str,
        phase: str,
        *,
        link: str | None = None,
        publisher: str | None = None,
    ) -> None:
        """Write to the trace that this broker has reached a phase of a reconfiguration."""
        context = self._context
        context.trace.reconfigured(context.now_us, kind, operation, phase, link, publisher)
