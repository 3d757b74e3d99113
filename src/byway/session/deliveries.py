"""Deliveries to a client: each event once, to each of its subscriptions that the event matches.

This file detects gaps and duplicates and knows which subscriptions are full. It knows no
connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from byway.model.messages import Delivery, Publish
from byway.model.seen import SeenOutOfOrder, SeenPublications
from byway.session.events import Event
from byway.session.registrations import Registration, Registrations

PUBLISHERS_MAX: Final = 65_536
"""Publishers whose last event is remembered; beyond, the one idle longest is forgotten."""
KNOWN_MAX: Final = 1_024
"""Combinations of names in deliveries that are remembered; beyond, all are forgotten."""
_name_of: Final = attrgetter("name")

Recipients = tuple[tuple[Registration, ...], tuple[str, ...]]
"""Subscriptions, and the names that their application gave them."""


class Deliveries:
    """All deliveries to one client, over all its sessions."""

    __slots__ = (
        "_alone", "_known", "_known_changes", "_last", "_recipients", "_registrations", "_seen",
        "duplicates", "events", "full", "lost", "received",
    )  # fmt: skip

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
        self._seen: SeenPublications | SeenOutOfOrder = SeenPublications(PUBLISHERS_MAX)
        self._last: Publish | None = None
        """The publication delivered last. If it matches more subscriptions than one delivery can
        name, the next deliveries name the others."""
        self._recipients: tuple[Registration, ...] = ()
        """Subscriptions that have received it."""
        self._registrations = registrations
        self._alone: dict[str, Registration] = {}
        """By name that is alone in a delivery, whose it is, until registrations change."""
        self._known: dict[tuple[str, ...], Recipients] = {}
        """By the names in a delivery, who they are, until registrations change."""
        self._known_changes = 0

    @property
    def is_overfull(self) -> bool:
        """Whether the broker sends although it was asked to hold deliveries."""
        return any(one.queue is not None and one.queue.is_overfull for one in self.full)

    def expect_disorder(self, window: int) -> None:
        """Publications of one publisher may come out of order from now on, each lower than the
        highest one by less than `window`."""
        if isinstance(self._seen, SeenPublications):
            self._seen = SeenOutOfOrder(PUBLISHERS_MAX, self._seen)
        self._seen.window = window

    def restart(self) -> None:
        """Begin a new session, whose deliveries are numbered from 1."""
        self.received = 0
        self._last = None

    def resume(self, lost: int) -> None:
        """Resume the session, in which the broker could not keep `lost` deliveries."""
        self.lost += lost
        self.received += lost

    def take(self, delivery: Delivery) -> tuple[Registration, ...]:
        """Take a delivery, and put its event into the subscriptions that it names: these."""
        return self.take_all((delivery,))

    def take_all(self, deliveries: Sequence[Delivery]) -> tuple[Registration, ...]:
        """Take deliveries, in order; the subscriptions that have received events, each once."""
        is_new, alone, known = self._seen.is_new, self._alone, self._known
        if self._known_changes != self._registrations.changes:
            alone.clear()
            known.clear()
            self._known_changes = self._registrations.changes
        fed: tuple[Registration, ...] = ()
        several: dict[Registration, None] | None = None
        recipients: tuple[Registration, ...]
        labels: tuple[str, ...]
        for delivery in deliveries:
            number, publication, names = delivery.number, delivery.publication, delivery.names
            before = self.received
            if number != before + 1:
                if number <= before:
                    self.duplicates += 1
                    continue
                self.lost += number - before - 1
            self.received = number
            one = alone.get(names[0]) if len(names) == 1 else None
            if one is not None:  # mostly; tuples that are kept would be at many places in memory
                recipients, labels = (one,), (one.name,)
            else:
                recipients, labels = known.get(names) or self._named(names)
            if is_new(publication.publisher, publication.incarnation, publication.sequence):
                self.events += 1
                self._recipients = recipients
            elif publication == self._last:
                had = self._recipients
                recipients = tuple([other for other in recipients if other not in had])
                labels = tuple(map(_name_of, recipients))
                self._recipients += recipients
            else:
                self._last = None
                self.duplicates += 1
                continue
            self._last = publication
            event, size_bytes = Event(publication, labels), len(publication.body)
            for recipient in recipients:
                queue = recipient.queue
                assert queue is not None
                queue.put(event, size_bytes)
                if queue.is_blocking:
                    self.full[recipient] = None
            if recipients != fed:  # mostly all are for the same ones
                if fed:
                    several = dict.fromkeys(fed) if several is None else several
                    several.update(dict.fromkeys(recipients))
                else:
                    fed = recipients
        return fed if several is None else tuple(several)

    def _named(self, names: tuple[str, ...]) -> Recipients:
        """The subscriptions that a delivery names, each once, and their own names."""
        registration_of = self._registrations.registration_of
        found: dict[Registration, None] = {}
        for name in names:
            registration = registration_of(name)
            if registration is not None and registration.is_subscription:
                found[registration] = None
        recipients = tuple(found), tuple(map(_name_of, found))
        if len(names) == 1 and found:
            if len(self._alone) >= KNOWN_MAX:
                self._alone.clear()
            (self._alone[names[0]],) = found
            return recipients
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[names] = recipients
        return recipients
