"""Events: publications as an application gets them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from byway.model.messages import Body, Publish
from byway.model.values import Value

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_decode: Final = msgspec.msgpack.Decoder(Body).decode


class Event:
    """A publication that matched. All subscriptions of a client that match get the same one."""

    __slots__ = ("_body", "_publication", "subscriptions")

    def __init__(self, publication: Publish, subscriptions: tuple[str, ...]) -> None:
        self.subscriptions = subscriptions
        """Names of the client's subscriptions that it matches."""
        self._publication = publication
        self._body: Body | None = None

    def __repr__(self) -> str:
        return f"<Event {self.sequence} of {self.publisher}: {self.attributes}>"

    @property
    def attributes(self) -> dict[str, Value]:
        """What it says."""
        return self.body.attributes

    @property
    def data(self) -> bytes:
        """What it carries that nobody looks at."""
        return self.body.data

    @property
    def body(self) -> Body:
        """Attributes and data; they are decoded when they are first looked at."""
        if self._body is None:
            self._body = _decode(self._publication.body)
        return self._body

    @property
    def publisher(self) -> str:
        """Name of the client that published it."""
        return self._publication.publisher

    @property
    def incarnation(self) -> int:
        """Of the publisher: (publisher, incarnation, sequence) names an event."""
        return self._publication.incarnation

    @property
    def sequence(self) -> int:
        """Counts the publisher's publications, those that did not match included."""
        return self._publication.sequence

    @property
    def hops(self) -> int:
        """Links between brokers that it came over."""
        return self._publication.hop

    @property
    def published_us(self) -> int:
        """When the publisher's broker took it, in microseconds since 1970."""
        return self._publication.published_us

    @property
    def published_at(self) -> datetime:
        """The same as a date and time."""
        return _EPOCH + timedelta(microseconds=self._publication.published_us)

    @property
    def size_bytes(self) -> int:
        """Of its body on the wire."""
        return len(self._publication.body)
