"""Observers: what the engine reports of its clients while a world runs.

The engine tells what happens and judges none of it. Whoever judges, as the oracle does, implements
these interfaces; the engine never imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from byway.model import Filter
from byway.model.messages import Delivery


class ObservedClient(Protocol):
    """What an observer may read of a client at any time."""

    name: str

    @property
    def attached(self) -> bool:
        """Whether the client is attached to its home broker."""

    @property
    def is_behind(self) -> bool:
        """Whether deliveries are under way to the client."""

    @property
    def home_name(self) -> str:
        """The name of the client's home broker."""


class ObservedSubscription(Protocol):
    """What an observer may read of a subscription, which is told from others by its identity."""

    name: str
    filter: Filter


class ClientObserver(Protocol):
    """Is told what one client asks for and what it is answered."""

    # --- subscriptions

    def subscribed(self, subscription: ObservedSubscription) -> None:
        """The client asks for a subscription: deliveries may begin."""

    def withdrawn(self, subscription: ObservedSubscription) -> None:
        """The client no longer wants a subscription; deliveries may go on for a while."""

    def settled(self, subscription: ObservedSubscription) -> None:
        """The client was told that a subscription is settled everywhere."""

    def ended(self, subscription: ObservedSubscription) -> None:
        """The home broker has ended a subscription: no delivery may follow."""

    def registrations_lost(self) -> None:
        """The home broker no longer holds anything for the client."""

    # --- publications

    def publication_read(
        self, incarnation: int, sequence: int, attributes: Mapping[str, Any], *, is_certain: bool
    ) -> None:
        """The home broker reads a publication; `is_certain`: a settled advertisement admits it."""

    def publication_refused(self, sequence: int) -> None:
        """The home broker refused a publication that it had read."""

    def publications_confirmed(self, sequence: int) -> None:
        """The client was told that its publications up to this one are confirmed."""

    def delivered(self, delivery: Delivery) -> bool:
        """The client got a delivery. Returns whether its application is given the publication."""

    # --- sessions

    def session_resumed(self, received: int, lost: int) -> None:
        """The client is back in its session, of which it has `received` deliveries; there was no
        room for `lost` more."""

    def session_lost(self) -> None:
        """The session has ended, and with it the client's incarnation."""

    def home_lost_state(self) -> None:
        """The home broker restarted without what it knew of the client."""


class Observer(Protocol):
    """Is told what happens in one world."""

    def client_joined(self, client: ObservedClient) -> ClientObserver:
        """There is a new client; its reports go to the observer returned."""

    def violated(self, kind: str, sentence: str) -> None:
        """A broker broke the protocol in a way that its client or neighbour noticed itself."""

    def actions_done(self) -> None:
        """All actions that a broker returned at once are done, and their replies delivered."""
