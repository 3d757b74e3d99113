"""Records of the account: subscriptions asked for, publications read, and deliveries sent.

They hold what the account needs to judge, and judge nothing themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from byway.model import Filter
from byway.model.messages import Publish

if TYPE_CHECKING:
    from byway.sim.oracle.client_account import ClientAccount

MUST: Final = True
MAY: Final = False

Identity = tuple[str, int, int]
"""Publisher, incarnation and sequence of a publication."""


class SubscriptionRecord:
    """One subscription, from when its client asks for it until the home broker has ended it."""

    __slots__ = ("client", "filter", "key", "settled_at", "wanted")

    def __init__(self, client: ClientAccount, filter: Filter, key: int) -> None:
        self.client = client
        self.filter = filter
        self.key = key
        self.settled_at: int | None = None
        """How many publications had been read when the client was told that it is settled."""
        self.wanted = True
        """Whether the client has not withdrawn it."""


class PublicationRecord:
    """A publication that its home broker has read and that is not confirmed yet."""

    __slots__ = ("attributes", "identity", "read_at", "read_us", "waiting")

    def __init__(
        self, identity: Identity, attributes: Mapping[str, Any], read_at: int, read_us: int
    ) -> None:
        self.identity = identity
        self.attributes = attributes
        self.read_at = read_at
        """Its number among all publications of the world."""
        self.read_us = read_us
        self.waiting: dict[ClientAccount, bool] = {}
        """The clients that MUST or MAY get it, and that it was not sent to yet."""

    def __str__(self) -> str:
        return described(self.identity)


class PublisherStream:
    """The unconfirmed publications of one incarnation of a publisher."""

    __slots__ = ("confirmed", "publisher", "records")

    def __init__(self, publisher: ClientAccount) -> None:
        self.publisher = publisher
        self.confirmed = 0
        self.records: dict[int, PublicationRecord] = {}


SentDelivery = tuple[Identity, PublicationRecord | None, bool | None]
"""A delivery that has not arrived. Its publication; the record of that, unless it is confirmed and
nobody waited for it; whether the client MUST or MAY get it, None if it was not expected."""


def identity_of(publication: Publish) -> Identity:
    """The identity of a publication, the same at every broker."""
    return publication.publisher, publication.incarnation, publication.sequence


def described(identity: Identity) -> str:
    """A publication in the words of a report."""
    publisher, incarnation, sequence = identity
    return f"{sequence} of {publisher} (incarnation {incarnation})"
