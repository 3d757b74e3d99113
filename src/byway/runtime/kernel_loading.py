"""Kernels for processes with an event loop: another process compiles them, and the loop goes on.

It is ended when it is not wanted any more. What it reports is read by `byway.matching.building`.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from byway.matching import CompilingError
from byway.matching.building import COMMAND, COMPILING, NICELY, Build, load_kernels
from byway.matching.native import KERNELS
from byway.matching.table_index import use_kernels

log = logging.getLogger("byway.kernels")

_PERCENT_STEP: Final = 25
"""How much more must be done for another line of the log."""


async def kernels_loaded() -> None:
    """Wait until the kernels are loaded; they are compiled if need be. Raises `CompilingError`."""
    if not load_kernels():
        log.warning("%s: this takes about 15 s", COMPILING)
        await _compile(COMMAND)


async def _compile(
    command: tuple[str, ...], progress: Callable[[int, int], None] | None = None
) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=PIPE,
        start_new_session=True,  # a Ctrl-C is for this process, which then ends that one
    )
    assert process.stdout is not None
    build = Build(progress)
    try:
        while (size := build.line(await process.stdout.readline())) is None:
            pass
        build.code(await process.stdout.readexactly(size))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class KernelLoading:
    """The kernels of a broker process: loaded at once, or compiled while the broker works without
    them."""

    def __init__(self) -> None:
        self._compiling: asyncio.Task[None] | None = None
        self._percent = 0

    def start(self) -> None:
        """Load the kernels, or have them compiled."""
        if load_kernels():
            return
        log.info("%s: until that is done, matching is slower", COMPILING)
        KERNELS.are_awaited = True
        self._compiling = asyncio.create_task(self._compile())

    async def wait(self, end: asyncio.Future[None]) -> None:
        """Wait until nothing is compiled any more, or for the end."""
        if self._compiling is not None:
            await asyncio.wait((self._compiling, end), return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        """Stop compiling."""
        if self._compiling is not None:
            self._compiling.cancel()
            with suppress(asyncio.CancelledError):
                await self._compiling

    async def _compile(self) -> None:
        started = asyncio.get_running_loop().time()
        try:
            await _compile((*COMMAND, NICELY), self._tell)
        except (CompilingError, OSError, EOFError) as error:
            log.error("%s: the broker goes on without kernels, and matching stays slower", error)
            return
        filters = use_kernels()
        seconds = asyncio.get_running_loop().time() - started
        log.info("kernels are compiled, after %.1f s, and in use for %d filters", seconds, filters)

    def _tell(self, done: int, total: int) -> None:
        percent = 100 * done // total
        if percent >= self._percent + _PERCENT_STEP and percent < 100:
            self._percent = percent
            log.info("%s: %d %% done", COMPILING, percent)
