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
    """What an observer may read of a client, which is told from others by its identity."""

    name: str


class ObservedSubscription(Protocol):
    """What an observer may read of a subscription, which is told from others by its identity."""

    name: str
    filter: Filter


class ClientObserver(Protocol):
    """Is told what one client asks of one broker, and what that broker answers.

    An answer is *sent* when the broker hands it to the connection. It *arrives* later, unless the
    connection breaks.
    """

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

    def publication_refused(self, incarnation: int, sequence: int) -> None:
        """The home broker refuses a publication that it had read."""

    def publications_confirmed(self, incarnation: int, sequence: int) -> None:
        """The home broker confirms publications up to this one; the answer is sent."""

    # --- deliveries

    def delivery_sent(self, delivery: Delivery) -> None:
        """The broker sends a delivery."""

    def delivered(self, delivery: Delivery) -> bool:
        """A delivery arrives. Returns whether the application is given the publication."""

    # --- sessions

    def session_begun(self) -> None:
        """The broker begins a session of the client, and is about to tell it."""

    def session_resumed(self, received: int, lost: int) -> None:
        """The broker resumes the session: the client says that it has `received` deliveries, and
        there was no room for `lost` more. All others follow at once."""

    def connection_ended(self) -> None:
        """The broker notices that the connection is gone, with all that had not arrived. The
        session stays."""

    def session_ended(self, incarnation: int) -> None:
        """The broker has ended the session, and with it the client's incarnation."""

    def state_lost(self) -> None:
        """The broker restarted without what it knew of the client."""

    def attached(self, *, resumed: bool, lost: int) -> None:
        """The client learns that its session is resumed, without `lost` deliveries, or that a new
        one has begun."""

    def given_up(self) -> None:
        """The client has a session at another broker: it will not come back to this one."""

    @property
    def received(self) -> int:
        """Number of the last delivery of the session that arrived, or was lost for want of room."""


class Observer(Protocol):
    """Is told what happens in one world."""

    def client_joined(self, client: ObservedClient, broker: str) -> ClientObserver:
        """A client is about to attach to a broker for the first time; what follows between the two
        is told to the observer returned."""

    def violated(self, kind: str, sentence: str) -> None:
        """A broker broke the protocol in a way that its client or neighbour noticed itself."""

    def replies_done(self) -> None:
        """All replies that a broker returned at once are sent."""
