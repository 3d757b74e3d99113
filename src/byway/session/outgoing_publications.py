"""A client's own publications: numbered, kept until they are confirmed, sent again after a loss.

A publication has one number for the life of the client. Its sequence on the wire counts within a
session, so a new session changes only an offset. This file decides what is sent, how much may be
unconfirmed and when a publication is dropped from memory; it knows no connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from byway.model.errors import (
    ClosedError,
    InvalidValueError,
    RefusedError,
    UnroutedError,
    WindowFullError,
)
from byway.model.messages import PublishRequest, RoutesRequest
from byway.model.values import Value, check_sizes
from byway.model.values import check_attributes as check

REFUSALS_KEPT: Final = 1_024
"""Refusals kept until the application is told of them; beyond, the oldest is dropped."""

ASKED_MAX: Final = 3
"""How often the broker is asked for the routes of a publication."""

Data = bytes | bytearray | memoryview

_encode: Final = msgspec.msgpack.Encoder().encode
_PLAIN: Final = frozenset((bool, int, float, str))
_TEXT: Final = frozenset((str,))
_DATA: Final = (bytes, bytearray, memoryview)  # a union would be made anew for every publication


def encode_body(attributes: Mapping[str, Value], data: Data = b"") -> bytes:
    """The encoded body of a publication. Raises `InvalidValueError`.

    Plain attributes take a fast path; everything else is checked one by one.
    """
    if (
        type(attributes) is not dict
        or not _TEXT.issuperset(map(type, attributes))
        or not _PLAIN.issuperset(map(type, attributes.values()))
    ):
        attributes = _checked(attributes)
    if not isinstance(data, _DATA):
        raise InvalidValueError(f"data of type {type(data).__name__}: expected bytes")
    try:
        body = _encode((attributes, data))  # the bytes of a `Body`
    except (UnicodeEncodeError, OverflowError):
        check(attributes)
        raise
    check_sizes(attributes, len(body) - len(data))
    return body


def _checked(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """The attributes with plain values, converted from subclasses such as enumerations."""
    check(attributes)
    plain: dict[str, Value] = {}
    for name, value in attributes.items():
        base = next(kind for kind in (bool, int, float, str) if isinstance(value, kind))
        plain[str(name)] = base(value)
    return plain


class Routes(msgspec.Struct, frozen=True):
    """Where a publication went when the broker accepted it."""

    clients: int
    """Number of clients of that broker that it was delivered to."""
    links: tuple[str, ...]
    """The neighbours of that broker that it was sent to."""
    is_settled: bool
    """Whether an advertisement that it conforms to was settled, so that no subscription to it was
    still under way."""


class OutgoingPublication(msgspec.Struct, eq=False):
    """One publication of the application, which may keep it as a receipt."""

    is_routed: ClassVar = False
    """Whether the broker is asked for its routes."""

    body: bytes
    """Attributes and data, encoded; empty once the publication is confirmed or refused."""
    owner: Any = None
    """Whatever its driver wants to find again with it."""
    number: int = 0
    """Number of the publication, counted from 1 by its client."""
    error: RefusedError | None = None
    """Why the broker refused the publication."""
    is_reported: bool = False
    """Whether the application was told of the error."""

    @property
    def routes(self) -> Routes | None:
        """Where the publication went when the broker accepted it, if `publish` was asked to find
        out. None until then, and for good if the connection was lost before the answer arrived, or
        if the broker is of a version that does not tell."""
        return None


class RoutedPublication(OutgoingPublication, eq=False):
    """A publication whose routes the broker is asked for."""

    is_routed: ClassVar = True
    is_mandatory: ClassVar = False
    """Whether the publication fails if surely nobody gets it."""

    asked: int = 0
    """How often the broker was asked."""
    known_routes: Routes | None = None

    @property
    def routes(self) -> Routes | None:
        """Where the publication went when the broker accepted it."""
        return self.known_routes

    @property
    def is_unrouted(self) -> bool:
        """Whether the publication is mandatory, and surely nobody got it."""
        routes = self.known_routes
        return (
            self.is_mandatory
            and routes is not None
            and routes.is_settled
            and not routes.clients
            and not routes.links
        )


class OutgoingPublications:
    """All publications of one client that are not confirmed, and the window that bounds them."""

    __slots__ = (
        "_client", "_offset", "_refusals", "_unsent", "_window", "_window_bytes", "accepted",
        "body_bytes_max", "closed", "confirmed", "kept", "kept_bytes", "last", "refused",
        "to_ask",
    )  # fmt: skip

    def __init__(self, client: str, window: int, window_bytes: int) -> None:
        self.last = 0
        """Number of the last publication."""
        self.accepted = 0
        """Number of the last publication that the broker has accepted, with all before it."""
        self.confirmed = 0
        """Number of the last publication that is confirmed, with all before it."""
        self.refused = 0
        """Number of publications that the broker refused."""
        self.body_bytes_max = window_bytes
        """The largest body that the broker accepts."""
        self.kept: deque[OutgoingPublication] = deque()
        """Unconfirmed publications, oldest first."""
        self.kept_bytes = 0
        self.closed: str | None = None
        """Why no more publications are accepted."""
        self._client = client
        self._window = window
        self._window_bytes = window_bytes
        self._unsent: list[OutgoingPublication] = []
        self._offset = 0
        """Number of a publication minus its sequence in this session."""
        self._refusals: deque[OutgoingPublication] = deque(maxlen=REFUSALS_KEPT)
        self.to_ask: list[RoutedPublication] = []
        """Publications whose routes the broker is to be asked for, before they are sent."""

    # --- for the application -------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether the window has room for another publication."""
        return len(self.kept) < self._window and self.kept_bytes < self._window_bytes

    def add(self, publication: OutgoingPublication) -> bool:
        """Queue a publication; whether it is the first that waits to be sent. Raises
        `WindowFullError`, `ClosedError`, `InvalidValueError`."""
        size, kept, unsent = len(publication.body), self.kept, self._unsent
        if self.closed is not None:
            raise ClosedError(f"client {self._client}", self.closed)
        if size > self.body_bytes_max:
            raise InvalidValueError(
                f"a publication of {size} bytes: at most {self.body_bytes_max} are accepted"
            )
        if len(kept) >= self._window or self.kept_bytes >= self._window_bytes:
            raise WindowFullError(self._client, len(kept), self.kept_bytes)
        self.last = publication.number = self.last + 1
        if publication.is_routed:
            assert isinstance(publication, RoutedPublication)
            self.to_ask.append(publication)
        kept.append(publication)
        self.kept_bytes += size
        unsent.append(publication)
        return len(unsent) == 1

    def raise_refusal(self) -> None:
        """Raise the first `RefusedError` that the application was not told of, if any."""
        untold = [publication for publication in self._refusals if not publication.is_reported]
        self._refusals.clear()
        if untold:
            error = untold[0].error
            assert error is not None
            if len(untold) > 1:
                error.add_note(f"and {len(untold) - 1} more publications were refused")
            raise error

    # --- sending ---------------------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        """Whether a publication waits to be sent."""
        return bool(self._unsent)

    def take(self) -> tuple[PublishRequest, ...]:
        """The publications to send now; they count as sent."""
        unsent, self._unsent = self._unsent, []
        offset = self._offset
        return tuple([PublishRequest(p.number - offset, p.body) for p in unsent])

    def take_to_ask(self) -> tuple[RoutesRequest, ...]:
        """Requests for the routes of publications that `take` gives next."""
        asking, self.to_ask = self.to_ask, []
        for publication in asking:
            publication.asked += 1
        return tuple(RoutesRequest(publication.number - self._offset) for publication in asking)

    def _ask_again(self) -> None:
        """Ask for the routes of what is sent again. A broker of a version that does not know the
        request closes the connection, so this ends."""
        self.to_ask = [
            publication
            for publication in self._unsent
            if isinstance(publication, RoutedPublication) and publication.asked < ASKED_MAX
        ]

    # --- what the broker says ---------------------------------------------------------------------

    def restart(self) -> None:
        """Begin a new session: send everything unconfirmed again, in order."""
        self._offset = self.confirmed
        self._unsent = list(self.kept)
        self._ask_again()

    def resume(self, published: int) -> None:
        """Resume the session: send again what the broker does not have."""
        self.accept(published)
        self._unsent = [p for p in self.kept if p.number > published + self._offset]
        self._ask_again()

    def accept(self, sequence: int) -> None:
        """The broker has accepted all publications up to a sequence."""
        self.accepted = max(self.accepted, min(sequence + self._offset, self.last))

    def confirm(self, sequence: int) -> None:
        """All publications up to a sequence are confirmed: drop their bodies."""
        number = min(sequence + self._offset, self.last)
        kept, confirmed_bytes = self.kept, 0
        for _ in range(min(number - self.confirmed, len(kept))):  # numbered without a gap
            publication = kept.popleft()
            confirmed_bytes += len(publication.body)
            publication.body = b""
        self.kept_bytes -= confirmed_bytes
        if number > self.confirmed:
            self.accept(sequence)
            self.confirmed = number

    def refuse(self, sequence: int, reason: str) -> OutgoingPublication | None:
        """The broker has refused a publication. Its body is dropped; a new session sends it empty,
        and it is refused again. Returns it, unless it had failed before."""
        publication = self._kept(sequence)
        if publication is not None:
            self._fail(publication, RefusedError(f"publication {publication.number}", reason))
        return publication

    def routed(self, sequence: int, routes: Routes) -> OutgoingPublication | None:
        """The broker tells where a publication went, before it confirms it. Returns the publication
        if it fails because it went nowhere."""
        publication = self._kept(sequence)
        if isinstance(publication, RoutedPublication):
            publication.known_routes = routes
            if publication.is_unrouted:
                self._fail(publication, UnroutedError(f"publication {publication.number}"))
                return publication
        return None

    def find(self, sequence: int) -> OutgoingPublication | None:
        """The unconfirmed publication with this sequence in the present session."""
        at = sequence + self._offset - self.confirmed - 1  # numbered without a gap
        return self.kept[at] if 0 <= at < len(self.kept) else None

    def _kept(self, sequence: int) -> OutgoingPublication | None:
        """The unconfirmed publication with this sequence, unless it has failed."""
        found = self.find(sequence)
        return None if found is None or found.error is not None else found

    def _fail(self, publication: OutgoingPublication, error: RefusedError) -> None:
        publication.error = error
        self.kept_bytes -= len(publication.body)
        publication.body = b""
        self.refused += 1
        self._refusals.append(publication)

    def close(self, reason: str) -> None:
        """Accept no more publications; those made before are not affected."""
        self.closed = self.closed or reason
