"""Holdings: what a client advertises and subscribes to, and what its broker knows of it.

A request changes what the client wants at once, and what is in force when its broker has read it.
An answer names an entry, not a request: it is for the entry in force, unless an earlier one of that
name was never answered and ends only now; then it is doubtful whose it is, and no claim is made of
it.
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
from byway.sim.oracle.account import Account
from byway.sim.oracle.account_records import SubscriberRecord, SubscriptionRecord


class AdvertisementState:
    """One advertisement as its client knows it."""

    __slots__ = ("doubtful", "filter", "name", "settled")

    def __init__(self, name: str, filter: Filter) -> None:
        self.name = name
        self.filter = filter
        self.doubtful = False
        """An answer came that may have been for an earlier one of its name."""
        self.settled = False


Entry = AdvertisementState | SubscriptionRecord
Change = AdvertiseRequest | UnadvertiseRequest | SubscribeRequest | UnsubscribeRequest


class ClientRegistrations:
    """Advertisements and subscriptions of one client."""

    def __init__(self, client: SubscriberRecord, account: Account) -> None:
        self.advertisements: dict[str, AdvertisementState] = {}
        self.subscriptions: dict[str, SubscriptionRecord] = {}
        self.in_force: dict[str, Entry] = {}
        """By name, what the broker holds."""
        self._client = client
        self._account = account
        self._names = 0
        self._asked: deque[Entry] = deque()
        """Entries whose requests the broker has not read."""
        self._ending: deque[list[Entry]] = deque()
        """By request that is being handled, the entries that end with it."""
        self._murky: set[str] = set()
        """Names with two entries that an answer may be for."""

    # --- what the client wants -----------------------------------------------------------------

    def advertise(self, filter: Filter, name: str | None) -> AdvertiseRequest:
        """A new advertisement. A name in use will be refused."""
        name = self._named(name, "a", self.subscriptions)
        advertisement = AdvertisementState(name, filter)
        self.advertisements.setdefault(name, advertisement)
        self._asked.append(advertisement)
        return AdvertiseRequest(name, filter)

    def unadvertise(self, name: str) -> UnadvertiseRequest:
        """An advertisement ends."""
        self.advertisements.pop(name, None)
        return UnadvertiseRequest(name)

    def subscribe(self, filter: Filter, name: str | None) -> SubscribeRequest:
        """A new subscription. A name in use gets the new filter."""
        name = self._named(name, "s", self.advertisements)
        earlier = self.subscriptions.get(name)
        if earlier is not None:
            earlier.wanted = False
        subscription = self._account.begin(self._client, name, filter)
        self.subscriptions[name] = subscription
        self._asked.append(subscription)
        return SubscribeRequest(name, filter)

    def unsubscribe(self, names: tuple[str, ...]) -> UnsubscribeRequest:
        """Subscriptions end."""
        for name in names:
            subscription = self.subscriptions.pop(name, None)
            if subscription is not None:
                subscription.wanted = False
        return UnsubscribeRequest(names)

    def drop_all(self) -> None:
        """The client wants nothing any more."""
        for subscription in self.subscriptions.values():
            subscription.wanted = False
        self.subscriptions.clear()
        self.advertisements.clear()

    def ask_again(self) -> list[Change]:
        """Requests for all that is wanted, to a broker that knows nothing of it."""
        self._asked.clear()
        wanted = [(e.filter, e.name) for e in self.advertisements.values()]
        self.advertisements.clear()
        requests: list[Change] = [self.advertise(filter, name) for filter, name in wanted]
        wanted = [(e.filter, e.name) for e in self.subscriptions.values()]
        return requests + [self.subscribe(filter, name) for filter, name in wanted]

    def _named(self, name: str | None, letter: str, others: Mapping[str, Entry]) -> str:
        if name is None:
            self._names += 1
            return f"{letter}{self._names}"
        if name in others:
            raise ValueError(f"client {self._client.name}: {name!r} names something else already")
        return name

    # --- what is in force ----------------------------------------------------------------------

    def taken(self, request: Change) -> None:
        """The broker is about to handle a request."""
        ending = self._taken(request)
        self._murky.update(entry.name for entry in ending if not entry.settled)
        self._ending.append(ending)

    def _taken(self, request: Change) -> list[Entry]:
        """The entries that end with a request."""
        in_force = self.in_force
        if isinstance(request, UnsubscribeRequest):
            mine = [n for n in request.names if type(in_force.get(n)) is SubscriptionRecord]
            return [in_force.pop(name) for name in dict.fromkeys(mine)]
        if isinstance(request, UnadvertiseRequest):
            is_mine = type(in_force.get(request.name)) is AdvertisementState
            return [in_force.pop(request.name)] if is_mine else []
        entry = self._asked.popleft()
        earlier = in_force.get(entry.name)
        if type(entry) is AdvertisementState and earlier is not None:
            return []  # will be refused
        in_force[entry.name] = entry
        return [] if earlier is None else [earlier]

    def handled(self) -> None:
        """The broker has handled the oldest request that was taken, and its answers are in."""
        ended = self._ending.popleft()
        for entry in ended:
            self._murky.discard(entry.name)
            if type(entry) is SubscriptionRecord:
                self._account.end(entry)

    def settled(self, name: str) -> None:
        """An answer."""
        entry = self.in_force.get(name)
        if entry is None:
            return
        if name in self._murky:
            entry.doubtful = True
        elif type(entry) is SubscriptionRecord:
            self._account.settled(entry)
        elif type(entry) is AdvertisementState:
            entry.settled = True

    def lose(self) -> None:
        """The broker holds nothing any more."""
        self.in_force.clear()
        self._account.end_all(self._client)

    @property
    def advertisements_in_force(self) -> list[AdvertisementState]:
        """What the broker holds of the advertisements."""
        return [entry for entry in self.in_force.values() if type(entry) is AdvertisementState]

    @property
    def subscriptions_in_force(self) -> list[SubscriptionRecord]:
        """What the broker holds of the subscriptions."""
        return [entry for entry in self.in_force.values() if type(entry) is SubscriptionRecord]


def is_announced(
    attributes: Mapping[str, Any], own: Sequence[AdvertisementState], *, checked: bool
) -> bool:
    """Whether a settled one of these advertisements admits a publication. `checked`: the broker
    refuses what none admits, so that nothing is to be looked at when all are settled."""
    if checked and all(entry.settled for entry in own):
        return bool(own)
    return any(entry.settled and conforms(attributes, entry.filter) for entry in own)
