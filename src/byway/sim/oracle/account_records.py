"""Records of the account: who asked for what, and what was published.

They hold what the account needs to judge, and judge nothing themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from byway.model import Filter
from byway.model.messages import Publish

MUST: Final = True
MAY: Final = False

Identity = tuple[str, int, int]
"""Publisher, incarnation, sequence."""


class SubscriptionRecord:
    """One subscription as its client knows it."""

    __slots__ = ("client", "doubtful", "filter", "key", "name", "settled_at", "wanted")

    def __init__(self, client: SubscriberRecord, name: str, filter: Filter, key: int) -> None:
        self.client = client
        self.name = name
        self.filter = filter
        self.key = key
        self.doubtful = False
        """An answer came that may have been for an earlier one of its name."""
        self.settled_at: int | None = None
        """How many publications had been accepted then."""
        self.wanted = True

    @property
    def settled(self) -> bool:
        """Whether its client was told so."""
        return self.settled_at is not None


class SubscriberRecord(Protocol):
    """What the account needs of a client, and keeps for it."""

    name: str
    attached: bool
    received: int
    """Number of the last delivery of its session."""
    last: dict[str, int]
    """By publisher, the incarnation and sequence it saw last, in one number."""
    held: dict[int, SubscriptionRecord]
    """Its subscriptions by key, from when it asks until its broker has ended them."""
    owed: dict[Identity, Record]
    """What was confirmed while it was away: it is in its session."""
    forgiven: int
    """Deliveries that its session had no room for."""

    @property
    def home_name(self) -> str:
        """Its broker."""


class Record:
    """A publication that was accepted and is not confirmed yet."""

    __slots__ = ("accepted_at", "accepted_us", "attributes", "identity", "waiting")

    def __init__(
        self, identity: Identity, attributes: Mapping[str, Any], accepted_at: int, accepted_us: int
    ) -> None:
        self.identity = identity
        self.attributes = attributes
        self.accepted_at = accepted_at
        self.accepted_us = accepted_us
        self.waiting: dict[SubscriberRecord, bool] = {}
        """Who must or may get it, and has not got it yet."""


class Stream:
    """The unconfirmed publications of one incarnation of a publisher."""

    __slots__ = ("confirmed", "incarnation", "records")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.confirmed = 0
        self.records: dict[int, Record] = {}


def identity_of(publication: Publish) -> Identity:
    return publication.publisher, publication.incarnation, publication.sequence


def called(identity: Identity) -> str:
    publisher, incarnation, sequence = identity
    return f"{sequence} of {publisher} (incarnation {incarnation})"
