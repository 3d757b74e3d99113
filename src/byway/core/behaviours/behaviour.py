"""The narrow interface between the router and what plugs into it.

A behaviour has messages, timers and state of its own. It sees publications pass, confirmations, the
tables and the links, and acts through `BrokerView` alone. What it does not override costs the
router nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from byway.core.behaviours.broker_view import BrokerView
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled
from byway.core.planning import Planner
from byway.core.tables import Entry
from byway.model.messages import Publish
from byway.model.trace_schema import TableKind


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

    def on_link_anew(self, link: str) -> None:
        """A link, of whatever kind, came up, and its ends do not go on where they were: what was on
        its way there is lost. `on_link_up` follows."""

    def on_link_up(self, link: str) -> None:
        """A link came up, of whatever kind."""

    def on_link_down(self, link: str) -> None:
        """A link went down, or was closed, of whatever kind."""

    def on_tree_changed(self) -> None:
        """The broker has a neighbour more or less."""

    def on_neighbour_replaced(self, link: str) -> None:
        """Another broker takes the place of a neighbour, at once: what waits for that one is to
        wait on its link."""

    def on_message(self, link: str, message: Any) -> None:
        """A neighbour sent one of this behaviour's messages."""

    def on_timer(self, detail: str) -> None:
        """A timer set by `BrokerView.set_timer` fired."""

    def on_batch_handled(self) -> None:
        """The inputs of one call were handled: what is told once for all of them goes out with the
        rest."""

    def on_load_sampled(self, sample: LoadSampled) -> None:
        """The driver reports what the broker cannot see."""

    # --- publications --------------------------------------------------------------------------

    def on_published(self, publication: Publish) -> Publish:
        """A local client publishes, and this is its home broker: the publication with the header
        fields that the behaviour wants set. Identity and body are the client's."""
        return publication

    def on_publication_routed(
        self,
        publication: Publish,
        link: str | None,
        links: Sequence[str],
        clients: Sequence[str],
    ) -> None:
        """A publication came over a link, or from a local client (None), and goes to these
        neighbours and local clients. If a planner sends copies over other links, or holds them,
        the neighbours are those in whose branches it is wanted."""

    def on_copies_confirmed(self, link: str, copies: int) -> None:
        """A link has confirmed so many data messages; `BrokerView.unconfirmed` tells what is
        left."""

    def on_publication_finished(self, client: str, sequence: int) -> None:
        """Every copy of a publication of a local client is confirmed, or there were none; its
        client is told at the end of this call. Publications may finish in any order."""

    # --- tables --------------------------------------------------------------------------------

    def on_entry_added(self, kind: TableKind, entry: Entry) -> None:
        """An advertisement or subscription was added to the table in force. Entries that a broker
        has when it goes on from a snapshot are not told."""

    def on_entry_removed(self, kind: TableKind, entry: Entry) -> None:
        """An advertisement or subscription was removed from the table in force."""

    def on_tables_replaced(self) -> None:
        """Other tables are in force from now on, which may hold other entries, or know them from
        other links: nobody is told one by one."""

    # --- what it brings, and keeps -------------------------------------------------------------

    def planner(self) -> Planner | None:
        """What decides over which links copies of publications travel; None: the tree does. Asked
        once, when the broker is made. At most one behaviour of a broker has one."""
        return None

    def snapshot(self) -> Any:
        """What must survive a restart, as msgpack can carry it."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` gave."""
