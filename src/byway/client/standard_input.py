"""Reads the lines of standard input, or of another file, without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

from byway.client.event_lines import LineError

CHUNK_BYTES: Final = 262_144
LINE_BYTES_MAX: Final = 16_777_216


async def lines_of(descriptor: int) -> AsyncIterator[list[tuple[int, bytes]]]:
    """Numbered lines, in lists of those that arrived together; the last may lack a line feed.

    Raises `LineError` for a line longer than `LINE_BYTES_MAX`, more than any publication needs.
    """
    number, rest = 1, b""
    while chunk := await _read(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise LineError(number + len(lines), f"longer than {LINE_BYTES_MAX} bytes")
        yield list(enumerate(lines, number))
        number += len(lines)
    if rest:
        yield [(number, rest)]


async def _read(descriptor: int) -> bytes:
    """The next bytes, empty at the end of the file. A daemon thread reads them, so that the process
    can end although a terminal sends nothing."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def tell(data: bytes | OSError) -> None:
        if answer.cancelled():
            return
        if isinstance(data, OSError):
            answer.set_exception(data)
        else:
            answer.set_result(data)

    def read() -> None:
        try:
            data: bytes | OSError = os.read(descriptor, CHUNK_BYTES)
        except OSError as error:
            data = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, data)

    threading.Thread(target=read, name="byway input", daemon=True).start()
    return await answer
