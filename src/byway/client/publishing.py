"""Receipts of publications, and waiting for what happens to them.

Which publications are sent, kept and confirmed is decided by `session.outgoing_publications`; this
file lets tasks of an event loop wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import ClassVar, Protocol

from byway.model.errors import ClosedError, NotAcceptedError, NotConfirmedError, NotInTimeError
from byway.session.outgoing_publications import (
    OutgoingPublication,
    OutgoingPublications,
    RoutedPublication,
)


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


class Receipt(OutgoingPublication, eq=False):
    """The state of one publication: accepted by the broker, confirmed at every receiver."""

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
        return self.error is None and self.number <= self.owner.accepted.value

    @property
    def is_confirmed(self) -> bool:
        """Whether every copy of the publication has arrived."""
        return self.error is None and self.number <= self.owner.confirmed.value

    async def accepted(self, timeout: float | None = None) -> None:
        """Wait until the broker has accepted it. Raises `RefusedError`, `NotAcceptedError`."""
        if self.error is None:
            await self.owner.until_accepted(self.number, timeout)
        self._raise_refusal()

    async def confirmed(self, timeout: float | None = None) -> None:
        """Wait until every copy has arrived. Raises `RefusedError`, `NotConfirmedError`."""
        if self.error is None:
            await self.owner.until_confirmed(self.number, timeout)
        self._raise_refusal()

    def _raise_refusal(self) -> None:
        if self.error is not None:
            self.is_reported = True
            raise self.error


class RoutedReceipt(Receipt, RoutedPublication, eq=False):
    """A receipt that is told where its publication went."""


class MandatoryReceipt(RoutedReceipt, eq=False):
    """The receipt of a publication that fails if surely nobody gets it."""

    is_mandatory: ClassVar = True


class PublicationWaits:
    """Those who wait for publications of one client to be accepted or confirmed, and for room."""

    def __init__(self, publications: OutgoingPublications, timed_wait: TimedWait) -> None:
        self.accepted = Watermark()
        self.confirmed = Watermark()
        self._publications = publications
        self._timed_wait = timed_wait
        self._room_waiters: deque[asyncio.Future[None]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether the window has room, and nobody waits for it."""
        return not self._room_waiters and self._publications.has_room

    async def until_room(self, timeout: float | None = None) -> None:
        """Wait, in order of the calls, until the window has room. Raises `NotConfirmedError`;
        returns at once when the client is closed."""
        if not self.has_room:
            subject = "the oldest publication"
            await self._timed_wait.wait(self._room(), NotConfirmedError, subject, timeout)

    async def _room(self) -> None:
        loop, publications = asyncio.get_running_loop(), self._publications
        waiter = loop.create_future()
        self._room_waiters.append(waiter)
        try:
            await waiter
            while not publications.has_room and publications.closed is None:  # another took it
                waiter = self._room_waiters[0] = loop.create_future()
                await waiter
        finally:
            self._room_waiters.remove(waiter)
            loop.call_soon(self.give_room)  # to the next, if this one leaves any

    def give_room(self) -> None:
        """Wake the first waiter if there is room; all of them once the client is closed."""
        is_closed = self._publications.closed is not None
        if not is_closed and not self._publications.has_room:
            return
        for waiter in self._room_waiters:
            if not waiter.done():
                waiter.set_result(None)
            if not is_closed:
                return

    async def until_accepted(self, number: int, timeout: float | None) -> None:
        """Wait until the broker has accepted all publications up to a number."""
        if number > self.accepted.value:
            reached, subject = self.accepted.reached(number), f"publication {number}"
            await self._timed_wait.wait(reached, NotAcceptedError, subject, timeout)

    async def until_confirmed(self, number: int, timeout: float | None) -> None:
        """Wait until all publications up to a number are confirmed."""
        if number > self.confirmed.value:
            reached, subject = self.confirmed.reached(number), f"publication {number}"
            await self._timed_wait.wait(reached, NotConfirmedError, subject, timeout)

    def fail(self, client: str, reason: str) -> None:
        """The client is closed: fail everything that is waited for."""
        for watermark in (self.accepted, self.confirmed):
            watermark.fail(lambda: ClosedError(f"client {client}", reason))
        self.give_room()
