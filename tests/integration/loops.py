"""Tests that are coroutines: each in an event loop of its own, and none for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any

TEST_S = 30.0


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a coroutine as a test."""

    @wraps(test)
    def run(*args: Any, **settings: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **settings), TEST_S))

    return run


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.002)


async def soon(awaited: Awaitable[Any], within_s: float = 10.0) -> Any:
    """What is awaited, if it comes in time."""
    return await asyncio.wait_for(awaited, within_s)
