"""A number that only rises, such as that of the last confirmed publication, and who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Watermark:
    """A number that only rises, and who waits for it."""

    __slots__ = ("_failure", "_waiters", "value")

    def __init__(self) -> None:
        self.value = 0
        self._failure: Callable[[], Exception] | None = None
        self._waiters: dict[int, list[asyncio.Future[None]]] = {}

    def rise(self, value: int) -> None:
        """It has come so far."""
        first, self.value = self.value + 1, value
        if self._waiters:
            for number in range(first, value + 1):
                for future in self._waiters.pop(number, ()):
                    if not future.done():
                        future.set_result(None)

    def fail(self, failure: Callable[[], Exception]) -> None:
        """It will not rise any more."""
        self._failure = failure
        for futures in self._waiters.values():
            for future in futures:
                if not future.done():
                    future.set_exception(failure())
        self._waiters.clear()

    async def reached(self, value: int) -> None:
        """Wait until it has come so far."""
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
