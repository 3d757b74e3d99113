"""Deliveries of a client: each event once, to every subscription of it that it matches.

It counts what was lost on the way, remembers what the broker may forget, and knows which
subscriptions are full. It knows no connection.
"""

from __future__ import annotations

from typing import Final

from byway.client.events import Event
from byway.client.registrations import Registrations
from byway.client.subscription import Subscription
from byway.model.messages import Delivery, Publish
from byway.model.seen import SeenPublications

PUBLISHERS_MAX: Final = 65_536
"""Publishers whose last event is remembered; beyond, the one idle longest is forgotten."""


class Deliveries:
    """What one client is given."""

    def __init__(self, holdings: Registrations) -> None:
        self.received = 0
        """Number of the last delivery in this session."""
        self.events = 0
        """How many came, whatever the session."""
        self.duplicates = 0
        """How many came though the client had them."""
        self.lost = 0
        """How many are known to be missing."""
        self.full: dict[Subscription, None] = {}
        """Subscriptions whose events the application must take first."""
        self._seen = SeenPublications(PUBLISHERS_MAX)
        self._last: Publish | None = None
        """What was handed out last: more of the client's subscriptions may want it than one
        delivery names, and the next ones name the others."""
        self._holders: dict[Subscription, None] = {}
        """Who has it already."""
        self._holdings = holdings

    @property
    def is_brimming(self) -> bool:
        """Whether more has come than should have."""
        return any(subscription.is_brimming for subscription in self.full)

    def restart(self) -> None:
        """A new session counts from 1."""
        self.received = 0
        self._last = None

    def resume(self, lost: int) -> None:
        """The session goes on, but so many found no room while the client was away."""
        self.lost += lost
        self.received += lost

    def take(self, delivery: Delivery) -> None:
        """A delivery for the client."""
        number, publication = delivery.number, delivery.publication
        if number <= self.received:
            self.duplicates += 1
            return
        self.lost += number - self.received - 1
        self.received = number
        if publication == self._last:
            self._hand_out(publication, delivery.names)
        elif self._seen.is_new(
            publication.publisher, publication.incarnation, publication.sequence
        ):
            self.events += 1
            self._last = publication
            self._holders = {}
            self._hand_out(publication, delivery.names)
        else:
            self._last = None
            self.duplicates += 1

    def _hand_out(self, publication: Publish, names: tuple[str, ...]) -> None:
        holders: dict[Subscription, None] = {}
        for name in names:
            holding = self._holdings.holding_of(name)
            if isinstance(holding, Subscription) and holding not in self._holders:
                holders[holding] = None
        event = Event(publication, tuple([holder.name for holder in holders]))
        self._holders |= holders
        for holder in holders:
            holder.put(event)
            if holder.is_blocking:
                self.full[holder] = None
