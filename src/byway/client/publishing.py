"""A client's own publications: numbered, kept until they are confirmed, sent again after a loss.

A publication has one number for the life of the client. Its sequence on the wire counts within a
session, so a new session changes only an offset. This file decides what is sent, how much may be
unconfirmed and when a publication is dropped from memory; it knows no connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec

from byway.model.errors import (
    ClosedError,
    InvalidValueError,
    NotAcceptedError,
    NotConfirmedError,
    NotInTimeError,
    RefusedError,
    UnroutedError,
    WindowFullError,
)
from byway.model.messages import Body, PublishRequest, RoutesRequest
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
        body = _encode(Body(attributes, data))  # type: ignore[arg-type]
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


class Watermark:
    """A number that only rises, such as that of the last confirmed publication, and its waiters."""

    __slots__ = ("_failure", "_waiters", "value")

    def __init__(self) -> None:
        self.value = 0
        self._failure: Callable[[], Exception] | None = None
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}

    def rise(self, value: int) -> None:
        """Raise the number, and wake those who wait for one up to it."""
        first, self.value = self.value + 1, value
        if self._waiters:
            for number in range(first, value + 1):
                for future in self._waiters.pop(number, ()):
                    if not future.done():
                        future.set_result(None)

    def fail(self, failure: Callable[[], Exception]) -> None:
        """Fail all waiters, present and future: the number rises no more."""
        self._failure = failure
        for futures in self._waiters.values():
            for future in futures:
                if not future.done():
                    future.set_exception(failure())
        self._waiters.clear()

    async def reached(self, value: int) -> None:
        """Wait until the number is at least `value`. Raises what `fail` was given."""
        if value <= self.value:
            return
        if self._failure is not None:
            raise self._failure()
        future = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(value, []).append(future)
        try:
            await future
        except asyncio.CancelledError:
            self._forget(value, future)
            raise

    def _forget(self, value: int, future: asyncio.Future[None]) -> None:
        futures = self._waiters.get(value, [])
        if future in futures:
            futures.remove(future)
            if not futures:
                del self._waiters[value]


class TimedWait(Protocol):
    """Waits with a time limit and raises an error that tells the client's state."""

    async def wait(
        self,
        awaited: Awaitable[None],
        error: type[NotInTimeError],
        subject: str,
        timeout: float | None,
    ) -> None:
        """Wait with a time limit, by default the one of the options; raises `error` beyond."""


class Receipt:
    """The state of one publication: accepted by the broker, confirmed at every receiver."""

    __slots__ = ("_publications", "body", "error", "is_reported", "number")

    def __init__(self, publications: OutgoingPublications, number: int, body: bytes) -> None:
        self.number = number
        """Number of the publication, counted from 1 by its client."""
        self.error: RefusedError | None = None
        self.body = body
        self.is_reported = False
        """Whether the application was told of the error."""
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
        """Whether the broker has accepted the publication."""
        return self.error is None and self.number <= self._publications.accepted.value

    @property
    def is_confirmed(self) -> bool:
        """Whether every copy of the publication has arrived."""
        return self.error is None and self.number <= self._publications.confirmed.value

    @property
    def routes(self) -> Routes | None:
        """Where the publication went when the broker accepted it, if `publish` was asked to find
        out. None until then, and for good if the connection was lost before the answer arrived, or
        if the broker is of a version that does not tell."""
        return None

    async def accepted(self, timeout: float | None = None) -> None:
        """Wait until the broker has accepted it. Raises `RefusedError`, `NotAcceptedError`."""
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
            self.is_reported = True
            raise self.error


class Routes(msgspec.Struct, frozen=True):
    """Where a publication went when the broker accepted it."""

    clients: int
    """Number of clients of that broker that it was delivered to."""
    links: tuple[str, ...]
    """The neighbours of that broker that it was sent to."""
    is_settled: bool
    """Whether an advertisement that it conforms to was settled, so that no subscription to it was
    still under way."""


class RoutedReceipt(Receipt):
    """A receipt that is told where its publication went."""

    __slots__ = ("_routes", "asked")

    is_mandatory = False

    def __init__(self, publications: OutgoingPublications, number: int, body: bytes) -> None:
        super().__init__(publications, number, body)
        self.asked = 0
        """How often the broker was asked."""
        self._routes: Routes | None = None
        publications.to_ask.append(self)

    @property
    def routes(self) -> Routes | None:
        """Where the publication went when the broker accepted it."""
        return self._routes

    @routes.setter
    def routes(self, routes: Routes) -> None:
        self._routes = routes

    @property
    def is_unrouted(self) -> bool:
        """Whether the publication is mandatory, and surely nobody got it."""
        routes = self._routes
        return (
            self.is_mandatory
            and routes is not None
            and routes.is_settled
            and not routes.clients
            and not routes.links
        )


class MandatoryReceipt(RoutedReceipt):
    """The receipt of a publication that fails if surely nobody gets it."""

    __slots__ = ()

    is_mandatory = True


class OutgoingPublications:
    """All publications of one client that are not confirmed, and the window that bounds them."""

    def __init__(
        self,
        client: str,
        window: int,
        window_bytes: int,
        patience: TimedWait,
        has_unsent: Callable[[], None],
    ) -> None:
        self.last = 0
        """Number of the last publication."""
        self.accepted = Watermark()
        self.confirmed = Watermark()
        self.refused = 0
        """Number of publications that the broker refused."""
        self.body_bytes_max = window_bytes
        """The largest body that the broker accepts."""
        self.kept: deque[Receipt] = deque()
        """Receipts of unconfirmed publications, oldest first."""
        self.kept_bytes = 0
        self._client = client
        self._window = window
        self._window_bytes = window_bytes
        self._timed_wait = patience
        self._has_unsent = has_unsent
        self._unsent: list[Receipt] = []
        self._offset = 0
        """Number of a publication minus its sequence in this session."""
        self._refusals: deque[Receipt] = deque(maxlen=REFUSALS_KEPT)
        self.to_ask: list[RoutedReceipt] = []
        """Receipts whose routes the broker is to be asked for, before their publications are
        sent."""
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._closed: str | None = None

    # --- for the application -------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether the window has room for another publication."""
        return len(self.kept) < self._window and self.kept_bytes < self._window_bytes

    def add(self, body: bytes, kind: type[Receipt] = Receipt) -> Receipt:
        """Queue a publication. Raises `WindowFullError`, `ClosedError`, `InvalidValueError`."""
        if self._closed is not None:
            raise ClosedError(f"client {self._client}", self._closed)
        if len(body) > self.body_bytes_max:
            raise InvalidValueError(
                f"a publication of {len(body)} bytes: at most {self.body_bytes_max} are accepted"
            )
        if not self.has_room:
            raise WindowFullError(self._client, len(self.kept), self.kept_bytes)
        self.last += 1
        receipt = kind(self, self.last, body)
        self.kept.append(receipt)
        self.kept_bytes += len(body)
        if not self._unsent:
            self._has_unsent()
        self._unsent.append(receipt)
        return receipt

    async def until_room(self, timeout: float | None = None) -> None:
        """Wait, in order of the calls, until the window has room. Raises `NotConfirmedError`;
        returns at once when the client is closed."""
        if self._room_waiters or not self.has_room:
            subject = "the oldest publication"
            await self._timed_wait.wait(self._room(), NotConfirmedError, subject, timeout)

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
        """Wake the first waiter if there is room; all of them once the client is closed."""
        if self._closed is None and not self.has_room:
            return
        for waiter in self._room_waiters:
            if not waiter.done():
                waiter.set_result(None)
            if self._closed is None:
                return

    async def until_accepted(self, number: int, timeout: float | None) -> None:
        """Wait until the broker has accepted all publications up to a number."""
        reached = self.accepted.reached
        if number > self.accepted.value:
            subject = f"publication {number}"
            await self._timed_wait.wait(reached(number), NotAcceptedError, subject, timeout)

    async def until_confirmed(self, number: int, timeout: float | None) -> None:
        """Wait until all publications up to a number are confirmed."""
        reached = self.confirmed.reached
        if number > self.confirmed.value:
            subject = f"publication {number}"
            await self._timed_wait.wait(reached(number), NotConfirmedError, subject, timeout)

    def raise_refusal(self) -> None:
        """Raise the first `RefusedError` that the application was not told of, if any."""
        untold = [receipt for receipt in self._refusals if not receipt.is_reported]
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
        """Whether a publication waits to be sent."""
        return bool(self._unsent)

    def take(self) -> tuple[PublishRequest, ...]:
        """The publications to send now; they count as sent."""
        unsent, self._unsent = self._unsent, []
        offset = self._offset
        return tuple([PublishRequest(r.number - offset, r.body) for r in unsent])

    def take_to_ask(self) -> tuple[RoutesRequest, ...]:
        """Requests for the routes of publications that `take` gives next."""
        asking, self.to_ask = self.to_ask, []
        for receipt in asking:
            receipt.asked += 1
        return tuple(RoutesRequest(receipt.number - self._offset) for receipt in asking)

    def _ask_again(self) -> None:
        """Ask for the routes of what is sent again. A broker of a version that does not know the
        request closes the connection, so this ends."""
        self.to_ask = [
            receipt
            for receipt in self._unsent
            if isinstance(receipt, RoutedReceipt) and receipt.asked < ASKED_MAX
        ]

    def restart(self) -> None:
        """Begin a new session: send everything unconfirmed again, in order."""
        self._offset = self.confirmed.value
        self._unsent = list(self.kept)
        self._ask_again()

    def resume(self, published: int) -> None:
        """Resume the session: send again what the broker does not have."""
        self.accept(published)
        self._unsent = [r for r in self.kept if r.number > published + self._offset]
        self._ask_again()

    def accept(self, sequence: int) -> None:
        """The broker has accepted all publications up to a sequence."""
        number = min(sequence + self._offset, self.last)
        if number > self.accepted.value:
            self.accepted.rise(number)

    def confirm(self, sequence: int) -> None:
        """All publications up to a sequence are confirmed: drop their bodies."""
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
        """The broker has refused a publication. Its body is dropped; a new session sends it empty,
        and it is refused again."""
        receipt = self._kept(sequence)
        if receipt is not None:
            self._fail(receipt, RefusedError(f"publication {receipt.number}", reason))

    def routed(self, sequence: int, routes: Routes) -> None:
        """The broker tells where a publication went, before it confirms it."""
        receipt = self._kept(sequence)
        if isinstance(receipt, RoutedReceipt):
            receipt.routes = routes
            if receipt.is_unrouted:
                self._fail(receipt, UnroutedError(f"publication {receipt.number}"))

    def _kept(self, sequence: int) -> Receipt | None:
        """The receipt of an unconfirmed publication that has not failed."""
        at = sequence + self._offset - self.confirmed.value - 1  # numbered without a gap
        if not 0 <= at < len(self.kept) or self.kept[at].error is not None:
            return None
        return self.kept[at]

    def _fail(self, receipt: Receipt, error: RefusedError) -> None:
        receipt.error = error
        self.kept_bytes -= len(receipt.body)
        receipt.body = b""
        self.refused += 1
        self._refusals.append(receipt)
        self._give_room()

    def close(self, reason: str) -> None:
        """Accept no more publications, and fail everything that is being waited for."""
        self._closed = self._closed or reason
        for watermark in (self.accepted, self.confirmed):
            watermark.fail(lambda: ClosedError(f"client {self._client}", reason))
        self._give_room()

    def stop(self, reason: str) -> None:
        """Accept no more publications; those made before can still be waited for."""
        self._closed = self._closed or reason
        self._give_room()
