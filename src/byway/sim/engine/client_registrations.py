"""Registrations: what a client advertises and subscribes to, and what its broker holds of it.

A request changes what the client wants at once, and what is in force when its broker has read it.
A reply names a registration, not a request: it is for the one in force, unless an earlier one of
that name was never answered and ends only now. Then the reply is ambiguous, and proves nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from byway.model import Filter, conforms
from byway.model.messages import (
    AdvertiseRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.sim.engine.observer import ClientObserver


class SimRegistration:
    """An advertisement or a subscription as its client knows it."""

    __slots__ = ("ambiguous", "filter", "name", "settled")

    def __init__(self, name: str, filter: Filter) -> None:
        self.name = name
        self.filter = filter
        self.ambiguous = False
        """A reply came that may have been for an earlier registration of its name."""
        self.settled = False
        """A reply said that it is settled everywhere."""


class AdvertisementState(SimRegistration):
    """An advertisement as its client knows it."""

    __slots__ = ()


class SubscriptionState(SimRegistration):
    """A subscription as its client knows it."""

    __slots__ = ()


Change = AdvertiseRequest | UnadvertiseRequest | SubscribeRequest | UnsubscribeRequest


class ClientRegistrations:
    """The advertisements and subscriptions of one client."""

    def __init__(self, client: str, observer: ClientObserver) -> None:
        self.advertisements: dict[str, AdvertisementState] = {}
        """By name, those that the client wants."""
        self.subscriptions: dict[str, SubscriptionState] = {}
        """By name, those that the client wants."""
        self.in_force: dict[str, SimRegistration] = {}
        """By name, those that the broker holds."""
        self._client = client
        self._observer = observer
        self._names = 0
        self._unread: deque[SimRegistration] = deque()
        """Registrations whose requests the broker has not read."""
        self._ending: deque[list[SimRegistration]] = deque()
        """By request that is being handled, the registrations that end with it."""
        self._ambiguous_names: set[str] = set()
        """Names with two registrations that a reply may be for."""

    # --- what the client wants -----------------------------------------------------------------

    def advertise(self, filter: Filter, name: str | None) -> AdvertiseRequest:
        """The request for a new advertisement. The broker will refuse a name in use."""
        name = self._named(name, "a", self.subscriptions)
        advertisement = AdvertisementState(name, filter)
        self.advertisements.setdefault(name, advertisement)
        self._unread.append(advertisement)
        return AdvertiseRequest(name, filter)

    def unadvertise(self, name: str) -> UnadvertiseRequest:
        """The request that ends an advertisement."""
        self.advertisements.pop(name, None)
        return UnadvertiseRequest(name)

    def subscribe(self, filter: Filter, name: str | None) -> SubscribeRequest:
        """The request for a new subscription. A name in use gets the new filter."""
        name = self._named(name, "s", self.advertisements)
        earlier = self.subscriptions.get(name)
        if earlier is not None:
            self._observer.withdrawn(earlier)
        subscription = SubscriptionState(name, filter)
        self._observer.subscribed(subscription)
        self.subscriptions[name] = subscription
        self._unread.append(subscription)
        return SubscribeRequest(name, filter)

    def unsubscribe(self, names: tuple[str, ...]) -> UnsubscribeRequest:
        """The request that ends subscriptions."""
        for name in names:
            subscription = self.subscriptions.pop(name, None)
            if subscription is not None:
                self._observer.withdrawn(subscription)
        return UnsubscribeRequest(names)

    def withdraw_all(self) -> None:
        """The client wants nothing any more."""
        for subscription in self.subscriptions.values():
            self._observer.withdrawn(subscription)
        self.subscriptions.clear()
        self.advertisements.clear()

    def register_again(self) -> list[Change]:
        """The requests for all that is wanted, to a broker that knows nothing of it."""
        self._unread.clear()
        wanted = [(e.filter, e.name) for e in self.advertisements.values()]
        self.advertisements.clear()
        requests: list[Change] = [self.advertise(filter, name) for filter, name in wanted]
        wanted = [(e.filter, e.name) for e in self.subscriptions.values()]
        return requests + [self.subscribe(filter, name) for filter, name in wanted]

    def _named(self, name: str | None, letter: str, others: Mapping[str, SimRegistration]) -> str:
        if name is None:
            self._names += 1
            return f"{letter}{self._names}"
        if name in others:
            raise ValueError(f"client {self._client}: {name!r} names something else already")
        return name

    # --- what is in force ----------------------------------------------------------------------

    def read(self, request: Change) -> None:
        """The broker reads a request and is about to handle it."""
        ending = self._put_in_force(request)
        self._ambiguous_names.update(entry.name for entry in ending if not entry.settled)
        self._ending.append(ending)

    def _put_in_force(self, request: Change) -> list[SimRegistration]:
        """Change what is in force. Returns the registrations that end with a request."""
        in_force = self.in_force
        if isinstance(request, UnsubscribeRequest):
            mine = [n for n in request.names if type(in_force.get(n)) is SubscriptionState]
            return [in_force.pop(name) for name in dict.fromkeys(mine)]
        if isinstance(request, UnadvertiseRequest):
            is_mine = type(in_force.get(request.name)) is AdvertisementState
            return [in_force.pop(request.name)] if is_mine else []
        entry = self._unread.popleft()
        earlier = in_force.get(entry.name)
        if type(entry) is AdvertisementState and earlier is not None:
            return []  # will be refused
        in_force[entry.name] = entry
        return [] if earlier is None else [earlier]

    def handled(self) -> None:
        """The broker has handled the oldest request that it read, and its replies are in."""
        ended = self._ending.popleft()
        for entry in ended:
            self._ambiguous_names.discard(entry.name)
            if type(entry) is SubscriptionState:
                self._observer.ended(entry)

    def settled(self, name: str) -> None:
        """A reply said that the registration of this name is settled."""
        entry = self.in_force.get(name)
        if entry is None:
            return
        if name in self._ambiguous_names:
            entry.ambiguous = True
            return
        entry.settled = True
        if type(entry) is SubscriptionState:
            self._observer.settled(entry)

    def lose(self) -> None:
        """The broker holds nothing any more."""
        self.in_force.clear()
        self._observer.registrations_lost()

    @property
    def advertisements_in_force(self) -> list[AdvertisementState]:
        """The advertisements that the broker holds."""
        return [entry for entry in self.in_force.values() if type(entry) is AdvertisementState]

    @property
    def subscriptions_in_force(self) -> list[SubscriptionState]:
        """The subscriptions that the broker holds."""
        return [entry for entry in self.in_force.values() if type(entry) is SubscriptionState]


def is_announced(
    attributes: Mapping[str, Any], own: Sequence[AdvertisementState], *, checked: bool
) -> bool:
    """Whether a settled one of these advertisements admits a publication. `checked`: the broker
    refuses what none admits, so that nothing is to be looked at when all are settled."""
    if checked and all(entry.settled for entry in own):
        return bool(own)
    return any(entry.settled and conforms(attributes, entry.filter) for entry in own)
