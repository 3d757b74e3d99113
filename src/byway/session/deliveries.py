"""Deliveries to a client: each event once, to each of its subscriptions that the event matches.

This file detects gaps and duplicates and knows which subscriptions are full. It knows no
connection.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from byway.model.messages import Delivery, Publish
from byway.model.seen import SeenPublications
from byway.session.events import Event
from byway.session.registrations import Registration, Registrations

PUBLISHERS_MAX: Final = 65_536
"""Publishers whose last event is remembered; beyond, the one idle longest is forgotten."""
_name_of: Final = attrgetter("name")


class Deliveries:
    """All deliveries to one client, over all its sessions."""

    def __init__(self, registrations: Registrations) -> None:
        self.received = 0
        """Number of the last delivery in this session."""
        self.events = 0
        """Events received, over all sessions."""
        self.duplicates = 0
        """Deliveries dropped because the client had received them before."""
        self.lost = 0
        """Deliveries known to be missing, by gaps in their numbers or by the broker's word."""
        self.full: dict[Registration, None] = {}
        """Subscriptions that block further deliveries until the application takes events."""
        self.fed: dict[Registration, None] = {}
        """Subscriptions that have received events since `take_fed` was called."""
        self._seen = SeenPublications(PUBLISHERS_MAX)
        self._last: Publish | None = None
        """The publication delivered last. If it matches more subscriptions than one delivery can
        name, the next deliveries name the others."""
        self._recipients: dict[Registration, None] = {}
        """Subscriptions that have received it."""
        self._registrations = registrations

    @property
    def is_overfull(self) -> bool:
        """Whether the broker sends although it was asked to hold deliveries."""
        return any(one.queue is not None and one.queue.is_overfull for one in self.full)

    def restart(self) -> None:
        """Begin a new session, whose deliveries are numbered from 1."""
        self.received = 0
        self._last = None

    def resume(self, lost: int) -> None:
        """Resume the session, in which the broker could not keep `lost` deliveries."""
        self.lost += lost
        self.received += lost

    def take(self, delivery: Delivery) -> None:
        """Take a delivery, and put its event into the subscriptions that it names."""
        number, publication = delivery.number, delivery.publication
        if number <= self.received:
            self.duplicates += 1
            return
        self.lost += number - self.received - 1
        self.received = number
        if self._seen.is_new(publication.publisher, publication.incarnation, publication.sequence):
            self.events += 1
            self._last = publication
            recipients = self._recipients = self._named(delivery.names)
        elif publication == self._last:
            named = self._named(delivery.names)
            recipients = {one: None for one in named if one not in self._recipients}
            self._recipients |= recipients
        else:
            self._last = None
            self.duplicates += 1
            return
        event = Event(publication, tuple(map(_name_of, recipients)))
        for recipient in recipients:
            queue = recipient.queue
            assert queue is not None
            queue.put(event)
            self.fed[recipient] = None
            if queue.is_blocking:
                self.full[recipient] = None

    def take_fed(self) -> tuple[Registration, ...]:
        """The subscriptions that have received events since the last call."""
        fed = tuple(self.fed)
        self.fed.clear()
        return fed

    def _named(self, names: tuple[str, ...]) -> dict[Registration, None]:
        """The subscriptions that a delivery names, each once."""
        registration_of = self._registrations.registration_of
        recipients: dict[Registration, None] = {}
        for name in names:
            registration = registration_of(name)
            if registration is not None and registration.is_subscription:
                recipients[registration] = None
        return recipients
