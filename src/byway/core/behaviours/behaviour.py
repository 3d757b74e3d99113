"""The narrow interface between the router and what plugs into it.

A behaviour has messages, timers and state of its own. It sees publications pass, the tables and the
links, and acts through `BrokerView` alone. What it does not override costs the router nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from byway.core.actions import SetTimer, Timer
from byway.core.context import Context
from byway.core.inputs import LoadSampled
from byway.core.tables import Table
from byway.model.messages import Message, Publish


class BrokerView:
    """What a behaviour sees of its broker, and may do there."""

    def __init__(self, context: Context, owner: str) -> None:
        self._context = context
        self._owner = owner

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
        return [link for link, end in self._context.ends.items() if end.up]

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

    def __init__(self, view: BrokerView) -> None:
        self.view = view

    def on_started(self) -> None:
        """The broker begins, or goes on after a restart."""

    def on_link_up(self, link: str) -> None:
        """The link to a neighbour came up."""

    def on_link_down(self, link: str) -> None:
        """The link to a neighbour went down, or the neighbour was removed."""

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

    def snapshot(self) -> Any:
        """What must survive a restart, as msgpack can carry it."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` gave."""
