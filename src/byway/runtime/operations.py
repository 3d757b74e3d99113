"""The operations port: metrics, whether the broker is alive and ready, and commands, over HTTP.

As much of HTTP/1.1 as probes, scrapers and `byway topology` need: GET and HEAD of a few paths, POST
of a few others, one request a connection, everything bounded. Commands change something, so they
are taken only where the port listens on loopback alone, and from nobody who may be a browser that
a strange page makes ask: they need a header that such a page cannot send, and a Host that is this
machine. It knows nothing of the broker but what it is given to answer with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import msgspec

from byway.model.addresses import Address

log = logging.getLogger("byway.operations")

REQUEST_BYTES_MAX: Final = 8_192
REQUEST_S_MAX: Final = 5.0
GOODBYE_S: Final = 1.0
"""How long an answer may take to be read."""
CONNECTIONS_MAX: Final = 64
"""Beyond, requests are refused; beyond four times as many, connections are dropped."""
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
COMMAND_HEADER: Final = "X-Byway-Command"
COMMAND_BYTES_MAX: Final = 4_096
"""Of what a command is told; more is refused."""


class Answer(NamedTuple):
    """What a path gives."""

    status: HTTPStatus
    body: bytes
    kind: str = TEXT
    headers: tuple[str, ...] = ()


Facts = dict[str, Any]
Paths = Mapping[str, Callable[[], Answer]]
Commands = Mapping[str, Callable[[Facts], Awaitable[Answer]]]
"""By path, what is done with the JSON object that is posted there. A command bounds its own time.
"""


class Order(NamedTuple):
    """A command that may be done."""

    path: str
    facts: Facts


def said(status: HTTPStatus, text: str = "", *headers: str) -> Answer:
    """A line of text."""
    return Answer(status, f"{text or status.phrase}\n".encode(), TEXT, headers)


def told(status: HTTPStatus, facts: object) -> Answer:
    """A JSON object."""
    return Answer(status, msgspec.json.encode(facts) + b"\n", JSON)


class Operations:
    """A small HTTP server."""

    def __init__(self, listen: Address, paths: Paths, commands: Commands | None = None) -> None:
        self._listen = listen
        self._paths = paths
        self._commands = commands or {}
        self._command = asyncio.Lock()
        """One command at a time."""
        self._answering: set[asyncio.Task[None]] = set()
        """Those that answer a command; `stop` gives them time."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = listen
        self.is_local = False
        """Whether only this machine reaches the port."""

    async def start(self) -> None:
        """Listen. Raises `OSError`."""
        self._server = await asyncio.start_server(
            self._accept, self._listen.host, self._listen.port, limit=REQUEST_BYTES_MAX
        )
        port = self._server.sockets[0].getsockname()[1]
        self.address = Address(self._listen.host, port)
        hosts = [socket.getsockname()[0] for socket in self._server.sockets]
        self.is_local = all(ip_address(host).is_loopback for host in hosts)

    async def stop(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()
        if self._answering:
            await asyncio.wait(self._answering, timeout=GOODBYE_S)
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
            if isinstance(answer, Order):
                answer = await self._obey(answer)
            await _say(reader, writer, _encoded(answer, head_only))
        except TimeoutError:
            await _say(reader, writer, _encoded(said(HTTPStatus.REQUEST_TIMEOUT), False))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # nobody is there to be answered
        finally:
            writer.transport.abort()

    async def _answer(
        self, reader: asyncio.StreamReader, crowded: bool
    ) -> tuple[Answer | Order, bool]:
        """The answer to one request, or the command that it is; and whether the answer's body is
        not wanted."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return said(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), False
        if crowded:
            return said(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections"), False
        line, _, rest = head.decode("latin-1").partition("\r\n")
        parts = line.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return said(HTTPStatus.BAD_REQUEST), False
        method, target, _ = parts
        path = target.partition("?")[0]
        if path in self._commands:
            return await self._order(method, path, rest, reader), False
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

    # --- commands --------------------------------------------------------------------------------

    async def _order(
        self, method: str, path: str, head: str, reader: asyncio.StreamReader
    ) -> Answer | Order:
        """What is to be done, or why it is not."""
        if method != "POST":
            return said(HTTPStatus.METHOD_NOT_ALLOWED, "", "Allow: POST")
        headers = _headers(head)
        if headers is None:
            return said(HTTPStatus.BAD_REQUEST, "a header that is none, or is there twice")
        refusal = self._refusal(headers)
        if refusal:
            return said(HTTPStatus.FORBIDDEN, refusal)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return said(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected Content-Type: {JSON}")
        length = headers.get("content-length", "")
        if not length.isascii() or not length.isdecimal() or "transfer-encoding" in headers:
            return said(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if len(length) > 9 or int(length) > COMMAND_BYTES_MAX:
            reason = f"a command has at most {COMMAND_BYTES_MAX} bytes"
            return said(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        try:
            facts = msgspec.json.decode(await reader.readexactly(int(length)), type=Facts)
        except msgspec.DecodeError as error:
            return said(HTTPStatus.BAD_REQUEST, f"not a JSON object: {error}")
        return Order(path, facts)

    def _refusal(self, headers: dict[str, str]) -> str:
        """Why a command is not taken from whoever sent these headers, if it is not."""
        if not self.is_local:
            return (
                f"commands are taken on loopback only, and this port listens on {self.address}: "
                "set http to an address such as 127.0.0.1:9001"
            )
        if headers.get(COMMAND_HEADER.lower()) != "1":
            return f"a command needs the header {COMMAND_HEADER}: 1"
        if "origin" in headers:
            return "commands are not taken from web pages"
        if not _is_here(headers.get("host", "")):
            return f"expected a Host of this machine, found {headers.get('host', '')!r}"
        return ""

    async def _obey(self, order: Order) -> Answer:
        """Do what was ordered."""
        if self._command.locked():
            return said(HTTPStatus.CONFLICT, "another command is under way")
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        async with self._command:
            log.info("command %s %s", order.path, order.facts)
            try:
                return await self._commands[order.path](order.facts)
            except Exception:
                log.exception("%s cannot be done", order.path)
                return said(HTTPStatus.INTERNAL_SERVER_ERROR)


def _headers(head: str) -> dict[str, str] | None:
    """Headers by their names in small letters; None if one is none, or is there twice."""
    found: dict[str, str] = {}
    for line in filter(None, head.split("\r\n")):
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not name or name != name.strip() or key in found:
            return None
        found[key] = value.strip()
    return found


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine by what no name server can tell otherwise."""
    name = host.partition("]")[0].removeprefix("[") if "]" in host else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


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
