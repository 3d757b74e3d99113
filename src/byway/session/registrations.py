"""A client's advertisements and subscriptions at its broker, and the requests that make them.

Every request has a wire name, `label.registration.number`, that is never used again, so an answer
belongs to exactly one request. A filter is replaced by registering the new one and then withdrawing
the old one. This file decides which requests are sent and when they are repeated; it knows no
connection and no application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from byway.model import Filter
from byway.model.errors import RefusedError
from byway.model.messages import (
    AdvertiseRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.session.event_queue import EventQueue

NAMES_MAX: Final = 1_024
"""Subscriptions withdrawn by one request."""
UNADVERTISED_KEPT: Final = 1_024
"""Withdrawn advertisements that are withdrawn once more when a session resumes."""

RegistrationRequest = AdvertiseRequest | SubscribeRequest | UnadvertiseRequest | UnsubscribeRequest


class RegisteredFilter(msgspec.Struct, eq=False):
    """One filter of a registration, as it was or will be sent to the broker."""

    registration: Registration
    filter: Filter
    wire_name: str
    """The name of its request in frames."""
    asked_at: int = 0
    """Position of its request among all requests of the client."""
    is_settled: bool = False


class Registration:
    """An advertisement or a subscription: one filter or several under one label. A subscription has
    a queue for its events."""

    __slots__ = (
        "entries", "error", "filters", "is_open", "key", "name", "queue", "unsettled",
    )  # fmt: skip

    def __init__(
        self, name: str, filters: Sequence[Filter], queue: EventQueue | None = None
    ) -> None:
        self.name = name
        self.filters = tuple(filters)
        self.queue = queue
        self.key = 0
        """Its number among the registrations of the client, once it is registered."""
        self.entries: list[RegisteredFilter] = []
        self.unsettled = 0
        """Number of its entries that are not settled."""
        self.is_open = False
        """Whether the application wants it."""
        self.error: RefusedError | None = None
        """Why the broker refused it."""

    @property
    def is_subscription(self) -> bool:
        """Whether it is a subscription, and not an advertisement."""
        return self.queue is not None

    @property
    def is_settled(self) -> bool:
        """Whether every filter of it is in force at every broker that needs it."""
        return bool(self.entries) and not self.unsettled


class Registrations:
    """All registrations of one client."""

    __slots__ = (
        "_by_wire_name", "_keys", "_names", "_requests_made", "_unadvertised", "_unsubscribed",
        "all", "awaited", "changes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.all: dict[int, Registration] = {}
        self.awaited: dict[int, Registration] = {}
        """By key, advertisements that a new session registered again and that are not settled."""
        self.changes = 0
        """Counts up whenever `registration_of` may answer otherwise than before."""
        self._by_wire_name: dict[str, RegisteredFilter] = {}
        self._unsubscribed: deque[tuple[int, str]] = deque()
        """Withdrawn subscriptions that the broker may not have read: the number of requests made
        before the withdrawal, and the wire name."""
        self._unadvertised: deque[str] = deque(maxlen=UNADVERTISED_KEPT)
        self._keys = 0
        self._names = 0
        self._requests_made = 0

    # --- what the application wants -------------------------------------------------------------

    def add(self, registration: Registration) -> list[RegistrationRequest]:
        """Add a registration; the requests to send for it."""
        self._keys += 1
        registration.key = self._keys
        self.all[registration.key] = registration
        return self._request_all(registration)

    def replace(
        self, registration: Registration, filters: Sequence[Filter]
    ) -> list[RegistrationRequest]:
        """Replace the filters of a registration; the requests to send, new filters first."""
        old = registration.entries
        registration.filters = tuple(filters)
        return [*self._request_all(registration), *self._withdraw(registration, old)]

    def remove(self, registration: Registration) -> list[RegistrationRequest]:
        """Remove a registration; the requests to send, none if it was not registered."""
        if self.all.pop(registration.key, None) is None:
            return []
        self.awaited.pop(registration.key, None)
        entries, registration.entries = registration.entries, []
        return self._withdraw(registration, entries)

    # --- what the broker says -------------------------------------------------------------------

    def settled(self, wire_name: str) -> Registration | None:
        """The broker has settled a request, so it has read all requests before it. Returns the
        registration if all of it is settled now."""
        entry = self._by_wire_name.get(wire_name)
        if entry is None or entry.is_settled:
            return None
        while self._unsubscribed and self._unsubscribed[0][0] < entry.asked_at:
            self._unsubscribed.popleft()
        registration = entry.registration
        entry.is_settled = True
        registration.unsettled -= 1
        if registration.unsettled:
            return None
        self.awaited.pop(registration.key, None)
        return registration

    def refused(self, wire_name: str, reason: str) -> Registration | None:
        """The broker has refused a request: a filter, or the withdrawal of an unknown name. Returns
        the registration of the filter."""
        entry = self._by_wire_name.get(wire_name)
        if entry is not None:
            registration = entry.registration
            what = "subscription" if registration.is_subscription else "advertisement"
            registration.error = RefusedError(f"{what} {registration.name}", reason)
            self.awaited.pop(registration.key, None)
            return registration
        if self._unsubscribed and self._unsubscribed[0][1] == wire_name:
            self._unsubscribed.popleft()
        elif wire_name in self._unadvertised:
            self._unadvertised.remove(wire_name)
        return None

    def registration_of(self, wire_name: str) -> Registration | None:
        """The registration that a wire name belongs or belonged to."""
        entry = self._by_wire_name.get(wire_name)
        if entry is not None:
            return entry.registration
        try:  # the name of a filter that was replaced while this was under way
            return self.all.get(int(wire_name.rsplit(".", 2)[1]))
        except (IndexError, ValueError):
            return None

    # --- sessions -------------------------------------------------------------------------------

    def restart(self) -> list[RegistrationRequest]:
        """Begin a new session; the requests for all registrations, advertisements first."""
        self._unsubscribed.clear()
        self._unadvertised.clear()
        self.awaited = {key: h for key, h in self.all.items() if not h.is_subscription}
        requests: list[RegistrationRequest] = []
        for registration in sorted(
            self.all.values(), key=lambda registration: registration.is_subscription
        ):
            registration.unsettled = len(registration.entries)
            for entry in registration.entries:
                entry.is_settled = False
                requests.append(self._request(entry))
        return requests

    def resume(self) -> list[RegistrationRequest]:
        """Resume the session; requests, under new wire names, for what may not have been read."""
        requests: list[RegistrationRequest] = []
        for registration in self.all.values():
            for at, entry in enumerate(registration.entries):
                if not entry.is_settled:
                    new = registration.entries[at] = self._new_entry(registration, entry.filter)
                    requests.append(self._request(new))
                    self._forget(entry)
        names = [wire_name for _, wire_name in self._unsubscribed]
        self._unsubscribed = deque((self._requests_made, wire_name) for wire_name in names)
        return [*requests, *_unadvertise(self._unadvertised), *_unsubscribe(names)]

    # --- requests -------------------------------------------------------------------------------

    def _request_all(self, registration: Registration) -> list[RegistrationRequest]:
        registration.entries = [
            self._new_entry(registration, filter) for filter in registration.filters
        ]
        registration.unsettled = len(registration.entries)
        return [self._request(entry) for entry in registration.entries]

    def _new_entry(self, registration: Registration, filter: Filter) -> RegisteredFilter:
        self.changes += 1
        self._names += 1
        entry = RegisteredFilter(
            registration, filter, f"{registration.name}.{registration.key}.{self._names}"
        )
        self._by_wire_name[entry.wire_name] = entry
        return entry

    def _request(self, entry: RegisteredFilter) -> RegistrationRequest:
        self._requests_made += 1
        entry.asked_at = self._requests_made
        request = SubscribeRequest if entry.registration.is_subscription else AdvertiseRequest
        return request(entry.wire_name, entry.filter)

    def _withdraw(
        self, registration: Registration, entries: list[RegisteredFilter]
    ) -> list[RegistrationRequest]:
        for entry in entries:
            self._forget(entry)
        names = [entry.wire_name for entry in entries]
        return _unsubscribe(names) if registration.is_subscription else _unadvertise(names)

    def _forget(self, entry: RegisteredFilter) -> None:
        """Drop an entry and remember that its wire name is withdrawn."""
        self.changes += 1
        del self._by_wire_name[entry.wire_name]
        if entry.registration.is_subscription:
            self._unsubscribed.append((self._requests_made, entry.wire_name))
        else:
            self._unadvertised.append(entry.wire_name)


def label_of(wire_name: str) -> str:
    """The label of the registration that a wire name belongs to."""
    return wire_name.rsplit(".", 2)[0]


def _unadvertise(names: Sequence[str]) -> list[RegistrationRequest]:
    return [UnadvertiseRequest(wire_name) for wire_name in names]


def _unsubscribe(names: Sequence[str]) -> list[RegistrationRequest]:
    return [
        UnsubscribeRequest(tuple(names[at : at + NAMES_MAX]))
        for at in range(0, len(names), NAMES_MAX)
    ]
