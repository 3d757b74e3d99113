"""What a client holds at its broker, advertisements and subscriptions, and what to ask for when.

Every request has a name of its own, `label.holding.number`, that is never used again: an answer
belongs to one request whatever happened in between. A filter is replaced by asking for the new one
and then taking the old one back. This file knows no connection and no application.
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

NAMES_MAX: Final = 1_024
"""In one request to take subscriptions back."""
UNADVERTISED_KEPT: Final = 1_024
"""Advertisements taken back that are taken back once more when a session goes on."""

Asking = AdvertiseRequest | SubscribeRequest | UnadvertiseRequest | UnsubscribeRequest


class RegisteredFilter(msgspec.Struct, eq=False):
    """One filter that the broker was asked for, or will be."""

    holding: Registration
    filter: Filter
    wire: str
    """Its name on the wire."""
    asked: int = 0
    """When, among all requests of the client."""
    is_settled: bool = False


class Registration:
    """An advertisement or a subscription: one filter or several under one label."""

    is_subscription = False

    def __init__(self, name: str, filters: Sequence[Filter]) -> None:
        self.name = name
        self.filters = tuple(filters)
        self.key = 0
        """Its number among the holdings of the client, once it is held."""
        self.entries: list[RegisteredFilter] = []
        self.unsettled = 0
        """How many of its entries are not settled."""
        self.is_open = False
        """Whether the application wants it."""
        self.error: RefusedError | None = None
        """Why the broker did not take it."""

    @property
    def is_settled(self) -> bool:
        """Whether all of it is in force everywhere it must be."""
        return bool(self.entries) and not self.unsettled

    def changed(self) -> None:
        """It is settled now, or refused."""


class Registrations:
    """Everything one client holds."""

    def __init__(self) -> None:
        self.all: dict[int, Registration] = {}
        self.awaited: dict[int, Registration] = {}
        """Advertisements that a new session asked for again and that are not settled yet."""
        self._by_wire: dict[str, RegisteredFilter] = {}
        self._unsubscribed: deque[tuple[int, str]] = deque()
        """What was taken back and is not known to have been read, after the request before it."""
        self._unadvertised: deque[str] = deque(maxlen=UNADVERTISED_KEPT)
        self._keys = 0
        self._names = 0
        self._asked = 0

    # --- what the application wants -------------------------------------------------------------

    def add(self, holding: Registration) -> list[Asking]:
        """Hold something; what to ask the broker for."""
        self._keys += 1
        holding.key = self._keys
        self.all[holding.key] = holding
        return self._ask_for(holding)

    def replace(self, holding: Registration, filters: Sequence[Filter]) -> list[Asking]:
        """Hold other filters in the place of a holding's; the new come, then the old go."""
        old = holding.entries
        holding.filters = tuple(filters)
        return [*self._ask_for(holding), *self._withdraw(holding, old)]

    def remove(self, holding: Registration) -> list[Asking]:
        """Hold something no longer."""
        if self.all.pop(holding.key, None) is None:
            return []
        self.awaited.pop(holding.key, None)
        entries, holding.entries = holding.entries, []
        return self._withdraw(holding, entries)

    # --- what the broker says -------------------------------------------------------------------

    def settled(self, wire: str) -> None:
        """A request is in force everywhere; those before it have been read."""
        entry = self._by_wire.get(wire)
        if entry is None or entry.is_settled:
            return
        while self._unsubscribed and self._unsubscribed[0][0] < entry.asked:
            self._unsubscribed.popleft()
        holding = entry.holding
        entry.is_settled = True
        holding.unsettled -= 1
        if not holding.unsettled:
            self.awaited.pop(holding.key, None)
            holding.changed()

    def refused(self, wire: str, reason: str) -> None:
        """A request changed nothing: one of a holding, or it takes back what is not there."""
        entry = self._by_wire.get(wire)
        if entry is not None:
            holding = entry.holding
            what = "subscription" if holding.is_subscription else "advertisement"
            holding.error = RefusedError(f"{what} {holding.name}", reason)
            self.awaited.pop(holding.key, None)
            holding.changed()
        elif self._unsubscribed and self._unsubscribed[0][1] == wire:
            self._unsubscribed.popleft()
        elif wire in self._unadvertised:
            self._unadvertised.remove(wire)

    def holding_of(self, wire: str) -> Registration | None:
        """Whose name this is or was."""
        entry = self._by_wire.get(wire)
        if entry is not None:
            return entry.holding
        try:  # the name of a filter that was replaced while this was under way
            return self.all.get(int(wire.rsplit(".", 2)[1]))
        except (IndexError, ValueError):
            return None

    # --- sessions -------------------------------------------------------------------------------

    def restart(self) -> list[Asking]:
        """A new session: everything is asked for again, advertisements first."""
        self._unsubscribed.clear()
        self._unadvertised.clear()
        self.awaited = {key: h for key, h in self.all.items() if not h.is_subscription}
        requests: list[Asking] = []
        for holding in sorted(self.all.values(), key=lambda holding: holding.is_subscription):
            holding.unsettled = len(holding.entries)
            for entry in holding.entries:
                entry.is_settled = False
                requests.append(self._ask(entry))
        return requests

    def resume(self) -> list[Asking]:
        """The session goes on: what may not have been read is asked for again, by new names."""
        requests: list[Asking] = []
        for holding in self.all.values():
            for at, entry in enumerate(holding.entries):
                if not entry.is_settled:
                    new = holding.entries[at] = self._new_entry(holding, entry.filter)
                    requests.append(self._ask(new))
                    self._forget(entry)
        names = [wire for _, wire in self._unsubscribed]
        self._unsubscribed = deque((self._asked, wire) for wire in names)
        return [*requests, *_unadvertise(self._unadvertised), *_unsubscribe(names)]

    # --- requests -------------------------------------------------------------------------------

    def _ask_for(self, holding: Registration) -> list[Asking]:
        holding.entries = [self._new_entry(holding, filter) for filter in holding.filters]
        holding.unsettled = len(holding.entries)
        return [self._ask(entry) for entry in holding.entries]

    def _new_entry(self, holding: Registration, filter: Filter) -> RegisteredFilter:
        self._names += 1
        entry = RegisteredFilter(holding, filter, f"{holding.name}.{holding.key}.{self._names}")
        self._by_wire[entry.wire] = entry
        return entry

    def _ask(self, entry: RegisteredFilter) -> Asking:
        self._asked += 1
        entry.asked = self._asked
        request = SubscribeRequest if entry.holding.is_subscription else AdvertiseRequest
        return request(entry.wire, entry.filter)

    def _withdraw(self, holding: Registration, entries: list[RegisteredFilter]) -> list[Asking]:
        for entry in entries:
            self._forget(entry)
        names = [entry.wire for entry in entries]
        return _unsubscribe(names) if holding.is_subscription else _unadvertise(names)

    def _forget(self, entry: RegisteredFilter) -> None:
        """It is to be taken back."""
        del self._by_wire[entry.wire]
        if entry.holding.is_subscription:
            self._unsubscribed.append((self._asked, entry.wire))
        else:
            self._unadvertised.append(entry.wire)


def label_of(wire: str) -> str:
    """The label of the holding that a request was for, by its name on the wire."""
    return wire.rsplit(".", 2)[0]


def _unadvertise(names: Sequence[str]) -> list[Asking]:
    return [UnadvertiseRequest(wire) for wire in names]


def _unsubscribe(names: Sequence[str]) -> list[Asking]:
    return [
        UnsubscribeRequest(tuple(names[at : at + NAMES_MAX]))
        for at in range(0, len(names), NAMES_MAX)
    ]
