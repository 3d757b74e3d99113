"""The operations port: metrics, and whether the broker is alive and ready, over HTTP.

As much of HTTP/1.1 as probes and scrapers need: GET and HEAD of a few paths, one request a
connection, everything bounded. It knows nothing of the broker but what it is given to answer with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

from byway.runtime.settings import Address

log = logging.getLogger("byway.operations")

REQUEST_BYTES_MAX: Final = 8_192
REQUEST_S_MAX: Final = 5.0
GOODBYE_S: Final = 1.0
"""How long an answer may take to be read."""
CONNECTIONS_MAX: Final = 64
"""Beyond, requests are refused; beyond four times as many, connections are dropped."""
TEXT: Final = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """What a path gives."""

    status: HTTPStatus
    body: bytes
    kind: str = TEXT
    headers: tuple[str, ...] = ()


Paths = dict[str, Callable[[], Answer]]


def said(status: HTTPStatus, text: str = "", *headers: str) -> Answer:
    """A line of text."""
    return Answer(status, f"{text or status.phrase}\n".encode(), TEXT, headers)


class Operations:
    """A small HTTP server."""

    def __init__(self, listen: Address, paths: Paths) -> None:
        self._listen = listen
        self._paths = paths
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = listen

    async def start(self) -> None:
        """Listen. Raises `OSError`."""
        self._server = await asyncio.start_server(
            self._accept, self._listen.host, self._listen.port, limit=REQUEST_BYTES_MAX
        )
        port = self._server.sockets[0].getsockname()[1]
        self.address = Address(self._listen.host, port)

    async def stop(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # for transports to close

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= 4 * CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        crowded = len(self._tasks) > CONNECTIONS_MAX
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                answer, head_only = await self._answer(reader, crowded)
            await _say(reader, writer, _encoded(answer, head_only))
        except TimeoutError:
            await _say(reader, writer, _encoded(said(HTTPStatus.REQUEST_TIMEOUT), False))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # nobody is there to be answered
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, crowded: bool) -> tuple[Answer, bool]:
        """The answer to one request, and whether its body is not wanted."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return said(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), False
        if crowded:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections"), False
        parts = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return said(HTTPStatus.BAD_REQUEST), False
        method, target, _ = parts
        path = target.partition("?")[0]
        if path not in self._paths:
            return said(HTTPStatus.NOT_FOUND, f"expected one of {', '.join(self._paths)}"), False
        if method not in ("GET", "HEAD"):
            return said(HTTPStatus.METHOD_NOT_ALLOWED, "", "Allow: GET, HEAD"), False
        return self._ask(path), method == "HEAD"

    def _ask(self, path: str) -> Answer:
        try:
            return self._paths[path]()
        except Exception:
            log.exception("%s cannot be answered", path)
            return said(HTTPStatus.INTERNAL_SERVER_ERROR)


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write an answer and wait until it was read; closing over unread bytes would take it back."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(GOODBYE_S):
            writer.write(data)
            writer.write_eof()
            while await reader.read(REQUEST_BYTES_MAX):
                pass


def _encoded(answer: Answer, head_only: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *answer.headers,
        "\r\n",
    ]
    head = "\r\n".join(lines).encode("latin-1")
    return head if head_only else head + answer.body
