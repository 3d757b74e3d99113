"""Reads the lines of standard input, or of another file, without keeping the event loop waiting."""

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
    """Lines with their numbers, those that are there together; the last one may lack its end.

    Raises `LineError` for one that is longer than any publication.
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
    """What is there, or comes next; nothing at the end. A thread waits for it that nobody has to
    wait for: a terminal may never say anything again."""
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
