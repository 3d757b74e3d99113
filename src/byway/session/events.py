"""Events: publications as the application of a subscriber receives them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from byway.model.messages import Body, Publish
from byway.model.values import Value

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_decode: Final = msgspec.msgpack.Decoder(Body).decode


class Event(msgspec.Struct, eq=False, gc=False):
    """A publication that matched. All matching subscriptions of a client share one object."""

    _publication: Publish
    subscriptions: tuple[str, ...]
    """Names of the client's subscriptions that it matches."""
    _body: Body | None = None

    def __repr__(self) -> str:
        return f"<Event {self.sequence} of {self.publisher}: {self.attributes}>"

    @property
    def attributes(self) -> dict[str, Value]:
        """The attributes that filters match."""
        return self.body.attributes

    @property
    def data(self) -> bytes:
        """The opaque payload, which no broker reads."""
        return self.body.data

    @property
    def body(self) -> Body:
        """Attributes and data, decoded at the first access."""
        if self._body is None:
            self._body = _decode(self._publication.body)
        return self._body

    @property
    def publisher(self) -> str:
        """Name of the client that published it."""
        return self._publication.publisher

    @property
    def incarnation(self) -> int:
        """Incarnation of the publisher: (publisher, incarnation, sequence) identifies an event."""
        return self._publication.incarnation

    @property
    def sequence(self) -> int:
        """Counts the publisher's publications, those that did not match included."""
        return self._publication.sequence

    @property
    def hops(self) -> int:
        """Number of links between brokers that it was forwarded over."""
        return self._publication.hop

    @property
    def published_us(self) -> int:
        """When the publisher's broker accepted it, in microseconds since 1970."""
        return self._publication.published_us

    @property
    def published_at(self) -> datetime:
        """When the publisher's broker accepted it, as a date and time in UTC."""
        return _EPOCH + timedelta(microseconds=self._publication.published_us)

    @property
    def size_bytes(self) -> int:
        """Size of its encoded body."""
        return len(self._publication.body)
