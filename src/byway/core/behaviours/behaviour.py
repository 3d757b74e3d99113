"""The narrow interface between the router and what plugs into it.

A behaviour has messages, timers and state of its own. It sees publications pass, the tables and the
links, and acts through `BrokerView` alone. What it does not override costs the router nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self

from byway.core.actions import SetTimer, Timer
from byway.core.broker_config import BrokerConfig
from byway.core.context import Context
from byway.core.inputs import LoadSampled
from byway.core.planning import Planner
from byway.core.tables import LinkNumbers, Table
from byway.model.bounds import REASON_LENGTH_MAX
from byway.model.errors import shortened
from byway.model.messages import LinkKind, Message, Publish


class LinkOpener(Protocol):
    """Opens and closes links; `Neighbours` is the one there is."""

    def open(self, link: str, address: str, kind: LinkKind) -> None:
        """Open a link of a kind to a broker."""

    def disconnect(self, link: str, reason: str, for_good: bool = False) -> None:
        """Close a link and tell the other end why."""


class BrokerView:
    """What a behaviour sees of its broker, and may do there."""

    def __init__(self, context: Context, owner: str, opener: LinkOpener) -> None:
        self._context = context
        self._owner = owner
        self._opener = opener

    @property
    def broker(self) -> str:
        """The name of the broker."""
        return self._context.name

    @property
    def now_us(self) -> int:
        """The time of the input that is handled."""
        return self._context.now_us

    @property
    def links(self) -> list[str]:
        """Neighbours whose link is up, in the order of their names."""
        return [link for link in self._context.tree if self._context.ends[link].up]

    def kind(self, link: str) -> LinkKind | None:
        """What the link to a broker is for; None if there is none."""
        return self._context.kind(link) if link in self._context.ends else None

    def is_up(self, link: str) -> bool:
        """Whether there is a link to a broker, and it is up."""
        end = self._context.ends.get(link)
        return end is not None and end.up

    def takes_data(self, link: str) -> bool:
        """Whether there is a link to a broker, it is up, and the broker takes data."""
        end = self._context.ends.get(link)
        return end is not None and end.up and end.open

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

    @property
    def numbers(self) -> LinkNumbers:
        """Numbers of neighbours, by which matching names them."""
        return self._context.numbers

    @property
    def subscriptions(self) -> Table:
        """The subscription table, to be read."""
        return self._context.routing.subscriptions

    @property
    def advertisements(self) -> Table:
        """The advertisement table, to be read."""
        return self._context.routing.adverts

    def send(self, link: str, message: Message) -> None:
        """Send a message to a neighbour."""
        self._context.out.send(link, message)

    def set_timer(self, at_us: int, detail: str = "") -> None:
        """Have `on_timer` called at a time."""
        self._context.out.do(SetTimer(Timer(self._owner, detail), at_us))


class Behaviour:
    """Does nothing; a behaviour overrides what it needs."""

    name: ClassVar[str]
    """Its name, by which it owns its timers and its part of a snapshot."""
    messages: ClassVar[tuple[type, ...]] = ()
    """The kinds of messages that only this behaviour sends and receives."""
    messages_outside_tree: ClassVar[tuple[type, ...]] = ()
    """Which of them may also come over soft links, and over links that are opening."""

    def __init__(self, view: BrokerView) -> None:
        self.view = view

    @classmethod
    def make(cls, view: BrokerView, config: BrokerConfig) -> Self | None:
        """The behaviour of a broker with this configuration; None if it is off there."""
        return cls(view) if cls.name in config.behaviours else None

    def on_started(self) -> None:
        """The broker begins, or goes on after a restart."""

    def on_link_up(self, link: str) -> None:
        """A link came up, of whatever kind."""

    def on_link_down(self, link: str) -> None:
        """A link went down, or was closed, of whatever kind."""

    def on_message(self, link: str, message: Any) -> None:
        """A neighbour sent one of this behaviour's messages."""

    def on_timer(self, detail: str) -> None:
        """A timer set by `BrokerView.set_timer` fired."""

    def on_load_sampled(self, sample: LoadSampled) -> None:
        """The driver reports what the broker cannot see."""

    def on_publication_received(self, publication: Publish, link: str | None) -> None:
        """A publication came from a neighbour, or from a local client (None)."""

    def on_publication_forwarded(self, publication: Publish, links: Sequence[str]) -> None:
        """A publication goes to these neighbours."""

    def on_publication_delivered(self, publication: Publish, clients: Sequence[str]) -> None:
        """A publication goes to these local clients."""

    def planner(self) -> Planner | None:
        """What decides over which links copies of publications travel; None: the tree does. Asked
        once, when the broker is made. At most one behaviour of a broker has one."""
        return None

    def snapshot(self) -> Any:
        """What must survive a restart, as msgpack can carry it."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` gave."""
