"""Publishes lines as they arrive: advertises their attributes, and reports which were refused.

Without an advertisement from the caller it makes its own: one for each set of attribute names, and
one for everything when there are too many sets. The caller decides where lines come from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Sequence
from typing import Final

import msgspec

from byway.client.client import Client
from byway.client.event_lines import LineError, read_publication
from byway.client.publishing import Receipt
from byway.model import ANY, Filter
from byway.model.constraints import Exists
from byway.model.errors import InvalidValueError, RefusedError, WindowFullError
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

    def __init__(self, client: Client, advertise: Sequence[str] = ()) -> None:
        self.confirmed = 0
        self.refused = 0
        self.refusals: list[Refusal] = []
        """The first `REFUSALS_KEPT` refusals."""
        self.advertisements = 0
        self._client = client
        self._given = advertise
        self._announced: set[frozenset[str]] = set()
        self._admits_all = False
        self._under_way: deque[tuple[int, Receipt]] = deque()

    async def run(self, lines: AsyncIterable[Sequence[Line]]) -> None:
        """Publish all lines, and wait until all are confirmed or refused. The first line that is
        not a publication raises `LineError`, once those before it are confirmed or refused."""
        if self._given:
            await self._advertise(*self._given)
            self._admits_all = True
        try:
            async for some in lines:
                await self._publish(some)
        finally:
            while self._under_way:
                await self._conclude()

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
        await self._client.advertise(*filters)
        self.advertisements += len(filters)

    async def _send(self, number: int, attributes: dict[str, Value], data: bytes) -> None:
        while True:
            try:
                receipt = self._client.publish_nowait(attributes, data)
            except WindowFullError:
                await self._conclude()
            else:
                self._under_way.append((number, receipt))
                return

    async def _conclude(self) -> None:
        """Wait for the oldest unconfirmed line."""
        number, receipt = self._under_way.popleft()
        try:
            await receipt.confirmed()
            self.confirmed += 1
        except RefusedError as error:
            self.refused += 1
            if len(self.refusals) < REFUSALS_KEPT:
                self.refusals.append(Refusal(number, error.reason))
