"""Advertisements and subscriptions as an application sees them.

Both are opened by `await` or `async with`, which waits until they are settled, and are withdrawn
when the block is left. A subscription is also a bounded queue of events that can be iterated over.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Generator, Sequence
from math import inf
from types import TracebackType
from typing import Protocol, Self

from byway.client.publishing import TimedWait
from byway.model import Filter, parse
from byway.model.errors import ClosedError, FilterSyntaxError, NotSettledError, shortened
from byway.model.filters import check_filter_bytes
from byway.model.topic_hints import topic_hint
from byway.session.client_core import ClientCore
from byway.session.client_inputs import (
    ClientInput,
    EventsTaken,
    FiltersReplaced,
    Registered,
    Unregistered,
)
from byway.session.client_options import WhenFull, check_label, check_when_full
from byway.session.event_queue import EventQueue
from byway.session.events import Event
from byway.session.registrations import Registration


class Registrar(TimedWait, Protocol):
    """Makes and withdraws registrations at the broker; `ClientDriver` is the real one."""

    core: ClientCore

    def handle(self, event: ClientInput) -> None:
        """Hand an input to the core, and perform what it asks for."""


class AwaitableRegistration(Registration):
    """A registration that the application opens, waits for and withdraws."""

    def __init__(
        self,
        registrar: Registrar,
        name: str,
        filters: Sequence[str | Filter],
        waits: bool,
        timeout: float | None,
        queue: EventQueue | None = None,
    ) -> None:
        check_label(name)
        super().__init__(name, parsed(filters), queue)
        self._registrar = registrar
        self._waits = waits
        self._timeout = timeout
        self._change = asyncio.Event()

    def __del__(self) -> None:
        made = hasattr(self, "_change")  # else its filters or options are not valid
        if made and not self.key and self._registrar.core.closing_error() is None:
            warnings.warn(
                f"{self._call()} was never opened, so the broker does not know of it: "
                "await it, or use it in `async with`",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )

    def _call(self) -> str:
        """The call that made it, for a person to find it."""
        verb = "subscribe" if self.is_subscription else "advertise"
        more = ", …" if len(self.filters) > 1 else ""
        return f"{verb}({shortened(str(self.filters[0]))!r}{more})"

    def __repr__(self) -> str:
        texts = ", ".join(repr(str(filter)) for filter in self.filters[:3])
        more = f" and {len(self.filters) - 3} more" if len(self.filters) > 3 else ""
        return f"<{type(self).__name__} {self.name} of {texts}{more}: {self._state()}>"

    def _state(self) -> str:
        if not self.is_open:
            return "not open"
        return "settled" if self.is_settled else "not settled yet"

    @property
    def is_settled(self) -> bool:
        """Whether it is in force at every broker that needs it; false while disconnected."""
        return super().is_settled and self._registrar.core.is_ready

    def changed(self) -> None:
        """Wake the waiters: it was settled, refused or closed."""
        self._change.set()

    async def settled(self, timeout: float | None = None) -> None:
        """Wait until it is in force at every broker that needs it. Raises `NotSettledError`,
        `RefusedError`, `ClosedError`."""
        await self._registrar.wait(self._settled(), NotSettledError, self.name, timeout)

    async def _settled(self) -> None:
        while not self.is_settled:
            if self.error is not None:
                raise self.error
            closed = self._registrar.core.closing_error()
            if closed is not None:
                raise closed
            self._change.clear()
            await self._change.wait()

    async def _open(self) -> Self:
        if self.is_open:
            return self
        self._registrar.handle(Registered(self))
        try:
            if self._waits:
                await self.settled(self._timeout)
        except BaseException:
            self._end()
            raise
        return self

    def _end(self) -> None:
        if self.is_open:
            self._registrar.handle(Unregistered((self,)))

    def __await__(self) -> Generator[object, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()


class Advertisement(AwaitableRegistration):
    """The announcement of what a client will publish."""

    async def unadvertise(self) -> None:
        """Withdraw the advertisement; publications made before are not affected."""
        self._end()


class Subscription(AwaitableRegistration):
    """Filters of a client, and the queue of events that match them."""

    def __init__(
        self,
        registrar: Registrar,
        name: str,
        filters: Sequence[str | Filter],
        waits: bool,
        timeout: float | None,
        pending_messages: int,
        pending_bytes: int,
        when_full: WhenFull,
    ) -> None:
        check_when_full(when_full)
        queue = EventQueue(pending_messages, pending_bytes, when_full)
        super().__init__(registrar, name, filters, waits, timeout, queue)
        self._queue = queue
        self._waiters: deque[asyncio.Future[None]] = deque()

    def _state(self) -> str:
        dropped = f", {self.dropped} dropped" if self.dropped else ""
        return f"{super()._state()}, {self.pending} pending{dropped}"

    @property
    def pending(self) -> int:
        """Number of events that the application has not taken."""
        return len(self._queue.events)

    @property
    def pending_bytes(self) -> int:
        """Bytes of the events that the application has not taken."""
        return self._queue.bytes

    @property
    def dropped(self) -> int:
        """Events dropped because the queue was full."""
        return self._queue.dropped

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached its bound in messages or bytes."""
        return self._queue.is_full

    async def unsubscribe(self) -> None:
        """Withdraw the subscription. Events received before can still be taken; then iteration
        ends."""
        self._end()

    async def update(self, *filters: str | Filter, timeout: float | None = None) -> None:
        """Replace the filters, without a gap for events that match both old and new ones."""
        new = parsed(filters)
        closed = self._registrar.core.closing_error()
        if closed is not None:
            raise closed
        if not self.is_open:
            self.filters = new
            return
        self._registrar.handle(FiltersReplaced(self, new))
        if self._waits:
            await self.settled(timeout)

    # --- events in ------------------------------------------------------------------------------

    def wake(self) -> None:
        """Events have arrived: wake a waiter for each, as far as there are any."""
        waiters = self._waiters
        for _ in range(min(len(waiters), len(self._queue.events))):
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def changed(self) -> None:
        """Wake the waiters: it was settled, refused or closed."""
        super().changed()
        if self._has_ended():
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _has_ended(self) -> bool:
        return (
            not self.is_open
            or self.error is not None
            or self._registrar.core.closing_error() is not None
        )

    # --- events out -----------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._queue.events:
            if not await self._wait_for_event():
                raise StopAsyncIteration
        return self._take()

    async def next(self, timeout: float | None = None) -> Event:
        """The next event. Raises `TimeoutError`, or `ClosedError` if none can come any more."""
        async with asyncio.timeout(None if timeout == inf else timeout):
            while not self._queue.events:
                if not await self._wait_for_event():
                    raise ClosedError(f"subscription {self.name}", "it has ended")
        return self._take()

    async def take(self, most: int, timeout: float | None = None) -> list[Event]:
        """One to `most` events; empty if none arrived in time or the subscription has ended."""
        try:
            async with asyncio.timeout(None if timeout == inf else timeout):
                while not self._queue.events and await self._wait_for_event():
                    pass
        except TimeoutError:
            return []
        events = self._queue.take_some(most)
        self._tell_room()
        return events

    def _take(self) -> Event:
        event = self._queue.take()
        self._tell_room()
        return event

    def _tell_room(self) -> None:
        queue = self._queue
        if queue.is_blocking and queue.unblocks():
            self._registrar.handle(EventsTaken(self))

    async def _wait_for_event(self) -> bool:
        """Wait for an event; false if the subscription has ended."""
        if self.error is not None:
            raise self.error
        closed = self._registrar.core.closing_error()
        if not self.key:
            reason = "it was never opened: await it, or use it in `async with`"
            raise ClosedError(f"subscription {self.name}", reason)
        if not self.is_open:
            return False
        if closed is not None:
            raise closed
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:
                self.wake()  # hand the event it was woken for to another waiter
            raise
        return True


def parsed(filters: Sequence[str | Filter]) -> tuple[Filter, ...]:
    """The filters, texts parsed. Raises `FilterError`, or `ValueError` if there are none."""
    if not filters:
        raise ValueError("expected at least one filter")
    found = tuple(_parsed(filter) if isinstance(filter, str) else filter for filter in filters)
    for filter in found:
        check_filter_bytes(filter)
    return found


def _parsed(text: str) -> Filter:
    try:
        return parse(text)
    except FilterSyntaxError as error:
        error.hint = topic_hint(text)
        raise
