"""Publishes lines as they arrive: advertises their attributes, and reports which were refused.

Without an advertisement from the caller it makes its own: one for each set of attribute names, and
one for everything when there are too many sets. The caller decides where lines come from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from byway.client.client import Client
from byway.client.event_lines import LineError, read_publication
from byway.client.publishing import Receipt
from byway.model import ANY, Filter
from byway.model.constraints import Exists
from byway.model.errors import (
    InvalidValueError,
    NotConfirmedError,
    NotSettledError,
    RefusedError,
    WindowFullError,
)
from byway.model.filters import TERMS_MAX
from byway.model.values import Value, check_attributes

ADVERTISEMENTS_MAX: Final = 64
"""Sets of attribute names that are advertised one by one; beyond, everything is."""
REFUSALS_KEPT: Final = 100
"""Refusals that are kept with line and reason; all are counted."""
TOGETHER: Final = 256
"""Lines that are published before other tasks of the event loop run."""

Line = tuple[int, bytes | str]
"""A line and its number."""


class Refusal(msgspec.Struct, frozen=True):
    """A line that the broker refused."""

    line: int
    reason: str


class Feed:
    """Publishes lines through one client."""

    def __init__(
        self,
        client: Client,
        advertise: Sequence[str] = (),
        *,
        wait: float | None = None,
        mandatory: bool = False,
        on_unsettled: Callable[[NotSettledError], None] | None = None,
    ) -> None:
        """`wait`: how many seconds to wait for each advertisement to be settled, before lines are
        published all the same and `on_unsettled` is called; and how many to wait for confirmations
        at the end. Without it, both are waited for with the client's time limit, and raise."""
        self.confirmed = 0
        self.unconfirmed = 0
        """Lines that the broker has accepted, and that were not confirmed in time."""
        self.unsettled = 0
        """Advertisements that were not settled in time."""
        self.refused = 0
        self.refusals: list[Refusal] = []
        """The first `REFUSALS_KEPT` refusals."""
        self.advertisements = 0
        self._client = client
        self._given = advertise
        self._wait = wait
        self._mandatory = mandatory
        self._on_unsettled = on_unsettled
        self._announced: set[frozenset[str]] = set()
        self._admits_all = False
        self._under_way: deque[tuple[int, Receipt]] = deque()

    async def run(self, lines: AsyncIterable[Sequence[Line]]) -> None:
        """Publish all lines, and wait until all are confirmed or refused, or accepted if the time
        to wait is over. The first line that is not a publication raises `LineError`, once that is
        so for those before it. Raises `NotSettledError`, `NotConfirmedError`."""
        if self._given:
            await self._advertise(*self._given)
            self._admits_all = True
        try:
            async for some in lines:
                await self._publish(some)
        finally:
            while self._under_way:  # they are confirmed in order, so one wait is enough
                await self._conclude(0.0 if self.unconfirmed else self._wait)

    async def _publish(self, lines: Sequence[Line]) -> None:
        for at, (number, text) in enumerate(lines, 1):
            if text and not text.isspace():
                attributes, data = read_publication(text, number)
                try:
                    if not self._admits_all:
                        await self._announce(attributes)
                    await self._send(number, attributes, data)
                except InvalidValueError as error:
                    raise LineError(number, str(error)) from None
            if not at % TOGETHER:
                await asyncio.sleep(0)

    async def _announce(self, attributes: dict[str, Value]) -> None:
        names = frozenset(attributes)
        if names in self._announced:
            return
        check_attributes(attributes)
        if len(self._announced) < ADVERTISEMENTS_MAX and len(names) <= TERMS_MAX:
            await self._advertise(Filter.where({name: Exists() for name in sorted(names)}))
            self._announced.add(names)
        else:
            await self._advertise(ANY)
            self._admits_all = True

    async def _advertise(self, *filters: str | Filter) -> None:
        wait = self._wait
        advertisement = await self._client.advertise(*filters, settled=wait is None)
        self.advertisements += len(filters)
        if wait is None or advertisement.is_settled:
            return
        if wait:
            try:
                await advertisement.settled(wait)
                return
            except NotSettledError as error:
                if self._on_unsettled is not None:
                    self._on_unsettled(error)
        self.unsettled += 1

    async def _send(self, number: int, attributes: dict[str, Value], data: bytes) -> None:
        while True:
            try:
                receipt = self._client.publish_nowait(attributes, data, mandatory=self._mandatory)
            except WindowFullError:
                await self._conclude()
            else:
                self._under_way.append((number, receipt))
                return

    async def _conclude(self, wait: float | None = None) -> None:
        """Wait for the oldest unconfirmed line until it is confirmed; after `wait` seconds, until
        it is accepted."""
        number, receipt = self._under_way.popleft()
        try:
            if wait is None:
                await receipt.confirmed()
            else:
                with suppress(NotConfirmedError):
                    await receipt.confirmed(wait)
                await receipt.accepted()
            if receipt.is_confirmed:
                self.confirmed += 1
            else:
                self.unconfirmed += 1
        except RefusedError as error:
            self.refused += 1
            if len(self.refusals) < REFUSALS_KEPT:
                self.refusals.append(Refusal(number, error.reason))
