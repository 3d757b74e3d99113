"""Publications of a client: numbered, kept until they are confirmed, sent again when needed.

A publication has one number for the life of the client. Its sequence on the wire counts within a
session, so a new session moves an offset and nothing else. This file decides what is sent and what
may be forgotten; it knows no connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec

from byway.client.watermark import Watermark
from byway.model.errors import (
    ClosedError,
    InvalidValueError,
    NotAcceptedError,
    NotConfirmedError,
    NotInTimeError,
    RefusedError,
    WindowFullError,
)
from byway.model.messages import Body, PublishRequest
from byway.model.values import ATTRIBUTES_MAX, NAME_LENGTH_MAX, STRING_LENGTH_MAX, Value
from byway.model.values import check_attributes as check

REFUSALS_KEPT: Final = 1_024
"""Refused publications that nobody asked about; beyond, the oldest is forgotten."""

Data = bytes | bytearray | memoryview

_encode: Final = msgspec.msgpack.Encoder().encode
_PLAIN: Final = frozenset((bool, int, float, str))
_TEXT: Final = frozenset((str,))


def encode_body(attributes: Mapping[str, Value], data: Data = b"") -> bytes:
    """What a publication says, as bytes. Raises `InvalidValueError`.

    What is surely fine costs little; everything else is looked at closely.
    """
    if (
        type(attributes) is not dict
        or not _TEXT.issuperset(map(type, attributes))
        or not _PLAIN.issuperset(map(type, attributes.values()))
        or len(attributes) > ATTRIBUTES_MAX
        or "" in attributes
        or max(map(len, attributes), default=0) > NAME_LENGTH_MAX
    ):
        attributes = _checked(attributes)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidValueError(f"data of type {type(data).__name__}: expected bytes")
    try:
        body = _encode(Body(attributes, data))  # type: ignore[arg-type]
    except (UnicodeEncodeError, OverflowError):
        check(attributes)
        raise
    if len(body) > STRING_LENGTH_MAX + len(data):
        check(attributes)
    return body


def _checked(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """The same with plain values: an enumeration or a number of another library has one."""
    check(attributes)
    plain: dict[str, Value] = {}
    for name, value in attributes.items():
        base = next(kind for kind in (bool, int, float, str) if isinstance(value, kind))
        plain[str(name)] = base(value)
    return plain


class Patience(Protocol):
    """Whoever knows how long to wait, and what to say when it was in vain."""

    async def wait(
        self,
        awaited: Awaitable[None],
        error: type[NotInTimeError],
        subject: str,
        timeout: float | None,
    ) -> None:
        """Wait, but not for ever; None: as long as the client is told to."""


class Receipt:
    """One publication: whether the broker has it, and whether every copy has arrived."""

    __slots__ = ("_publications", "body", "error", "is_told", "number")

    def __init__(self, publications: OutgoingPublications, number: int, body: bytes) -> None:
        self.number = number
        """Of the publication, counted from 1 by its client."""
        self.error: RefusedError | None = None
        self.body = body
        self.is_told = False
        """Whether somebody knows of the error."""
        self._publications = publications

    def __repr__(self) -> str:
        if self.error is not None:
            state = "refused"
        elif self.is_confirmed:
            state = "confirmed"
        else:
            state = "accepted" if self.is_accepted else "not accepted yet"
        return f"<Receipt {self.number}: {state}>"

    @property
    def is_accepted(self) -> bool:
        """Whether the broker has it."""
        return self.error is None and self.number <= self._publications.accepted.value

    @property
    def is_confirmed(self) -> bool:
        """Whether every copy has arrived."""
        return self.error is None and self.number <= self._publications.confirmed.value

    async def accepted(self, timeout: float | None = None) -> None:
        """Wait until the broker has it. Raises `RefusedError`, `NotAcceptedError`."""
        if self.error is None:
            await self._publications.until_accepted(self.number, timeout)
        self._raise_refusal()

    async def confirmed(self, timeout: float | None = None) -> None:
        """Wait until every copy has arrived. Raises `RefusedError`, `NotConfirmedError`."""
        if self.error is None:
            await self._publications.until_confirmed(self.number, timeout)
        self._raise_refusal()

    def _raise_refusal(self) -> None:
        if self.error is not None:
            self.is_told = True
            raise self.error


class OutgoingPublications:
    """All publications of one client that are not confirmed."""

    def __init__(
        self,
        client: str,
        window: int,
        window_bytes: int,
        patience: Patience,
        has_unsent: Callable[[], None],
    ) -> None:
        self.last = 0
        """Number of the last one."""
        self.accepted = Watermark()
        self.confirmed = Watermark()
        self.refused = 0
        """How many were."""
        self.body_bytes_max = window_bytes
        """A larger one is not taken by the broker."""
        self.kept: deque[Receipt] = deque()
        """Those not confirmed, oldest first."""
        self.kept_bytes = 0
        self._client = client
        self._window = window
        self._window_bytes = window_bytes
        self._patience = patience
        self._has_unsent = has_unsent
        self._unsent: list[Receipt] = []
        self._offset = 0
        """Number of a publication minus its sequence in this session."""
        self._refusals: deque[Receipt] = deque(maxlen=REFUSALS_KEPT)
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._closed: str | None = None

    # --- for the application -------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether one more may be published."""
        return len(self.kept) < self._window and self.kept_bytes < self._window_bytes

    def add(self, body: bytes) -> Receipt:
        """Publish. Raises `WindowFullError`, `ClosedError`, `InvalidValueError`."""
        if self._closed is not None:
            raise ClosedError(f"client {self._client}", self._closed)
        if len(body) > self.body_bytes_max:
            raise InvalidValueError(
                f"a publication of {len(body)} bytes: at most {self.body_bytes_max} are taken"
            )
        if not self.has_room:
            raise WindowFullError(self._client, len(self.kept), self.kept_bytes)
        self.last += 1
        receipt = Receipt(self, self.last, body)
        self.kept.append(receipt)
        self.kept_bytes += len(body)
        if not self._unsent:
            self._has_unsent()
        self._unsent.append(receipt)
        return receipt

    async def until_room(self, timeout: float | None = None) -> None:
        """Wait until one more may be published, after those who wait already. Raises
        `NotConfirmedError`; once the client is closed there is nothing to wait for."""
        if self._room_waiters or not self.has_room:
            subject = "the oldest publication"
            await self._patience.wait(self._room(), NotConfirmedError, subject, timeout)

    async def _room(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._room_waiters.append(waiter)
        try:
            await waiter
            while not self.has_room and self._closed is None:  # another took it
                waiter = self._room_waiters[0] = loop.create_future()
                await waiter
        finally:
            self._room_waiters.remove(waiter)
            loop.call_soon(self._give_room)  # to the next, if this one leaves any

    def _give_room(self) -> None:
        """Tell the first who waits for room, or all if there will be none."""
        if self._closed is None and not self.has_room:
            return
        for waiter in self._room_waiters:
            if not waiter.done():
                waiter.set_result(None)
            if self._closed is None:
                return

    async def until_accepted(self, number: int, timeout: float | None) -> None:
        """Wait until the broker has all up to a number."""
        reached = self.accepted.reached
        if number > self.accepted.value:
            subject = f"publication {number}"
            await self._patience.wait(reached(number), NotAcceptedError, subject, timeout)

    async def until_confirmed(self, number: int, timeout: float | None) -> None:
        """Wait until all copies of all up to a number have arrived."""
        reached = self.confirmed.reached
        if number > self.confirmed.value:
            subject = f"publication {number}"
            await self._patience.wait(reached(number), NotConfirmedError, subject, timeout)

    def raise_refusal(self) -> None:
        """Raise the first `RefusedError` that nobody has been told of."""
        untold = [receipt for receipt in self._refusals if not receipt.is_told]
        self._refusals.clear()
        if untold:
            error = untold[0].error
            assert error is not None
            if len(untold) > 1:
                error.add_note(f"and {len(untold) - 1} more publications were refused")
            raise error

    # --- for the session -----------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to send."""
        return bool(self._unsent)

    def take(self) -> tuple[PublishRequest, ...]:
        """What is to be sent now."""
        unsent, self._unsent = self._unsent, []
        offset = self._offset
        return tuple([PublishRequest(r.number - offset, r.body) for r in unsent])

    def restart(self) -> None:
        """A new session: everything that is not confirmed is sent again, in order."""
        self._offset = self.confirmed.value
        self._unsent = list(self.kept)

    def resume(self, published: int) -> None:
        """The session goes on: what the broker does not have is sent again."""
        self.accept(published)
        self._unsent = [r for r in self.kept if r.number > published + self._offset]

    def accept(self, sequence: int) -> None:
        """The broker has all up to a sequence."""
        number = min(sequence + self._offset, self.last)
        if number > self.accepted.value:
            self.accepted.rise(number)

    def confirm(self, sequence: int) -> None:
        """All copies of all up to a sequence have arrived."""
        number = min(sequence + self._offset, self.last)
        kept = self.kept
        while kept and kept[0].number <= number:
            receipt = kept.popleft()
            self.kept_bytes -= len(receipt.body)
            receipt.body = b""
        if number > self.confirmed.value:
            self.accept(sequence)
            self.confirmed.rise(number)
            self._give_room()

    def refuse(self, sequence: int, reason: str) -> None:
        """The broker does not take one. In a new session it is refused again: its body is gone."""
        number = sequence + self._offset
        at = number - self.confirmed.value - 1  # those kept are numbered without a gap
        if not 0 <= at < len(self.kept) or self.kept[at].error is not None:
            return
        receipt = self.kept[at]
        receipt.error = RefusedError(f"publication {number}", reason)
        self.kept_bytes -= len(receipt.body)
        receipt.body = b""
        self.refused += 1
        self._refusals.append(receipt)
        self._give_room()

    def close(self, reason: str) -> None:
        """Take no more, and tell all who wait."""
        self._closed = self._closed or reason
        for watermark in (self.accepted, self.confirmed):
            watermark.fail(lambda: ClosedError(f"client {self._client}", reason))
        self._give_room()

    def stop(self, reason: str) -> None:
        """Take no more."""
        self._closed = self._closed or reason
        self._give_room()
