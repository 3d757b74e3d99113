"""The operations port: metrics, liveness, readiness and commands of a broker process, over HTTP.

One request a connection: GET and HEAD of a few paths, POST of a few others; the number of
connections, their bytes and their time are bounded. h11 parses and writes the messages. This port
has no authentication; bind it to a private interface. Commands change something, or name clients
and what they subscribe to. So they are accepted only where the port listens on loopback alone, and
not from a browser that a foreign page directs: they need a header that such a page cannot send, and
a Host that is this machine. What a path answers, and what a command does, is handed in.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

import h11
import msgspec

from byway.model.addresses import Address
from byway.model.decoding_words import decoding_reason
from byway.runtime.http_answers import (
    COMMAND_HEADER,
    JSON,
    Answer,
    Command,
    Commands,
    Facts,
    Paths,
    text_answer,
)

log = logging.getLogger("byway.operations")

REQUEST_BYTES_MAX: Final = 8_192
"""Request line and headers; a longer request is refused."""
REQUEST_S_MAX: Final = 5.0
"""How long a request may take to arrive."""
GOODBYE_S: Final = 1.0
"""How long an answer may take to be read."""
CONNECTIONS_MAX: Final = 64
"""Beyond, requests are refused; beyond four times as many, connections are dropped."""
COMMAND_BYTES_MAX: Final = 4_096
"""Bytes in the body of a command; more are refused."""


class Operations:
    """The HTTP server of one broker process."""

    def __init__(
        self,
        listen: Address,
        paths: Paths,
        commands: Commands | None = None,
        queries: Commands | None = None,
    ) -> None:
        """`queries` are commands that only read: any number at a time, and not logged."""
        self._listen = listen
        self._paths = paths
        self._queries = queries or {}
        self._commands = {**(commands or {}), **self._queries}
        self._command_lock = asyncio.Lock()
        """Held while a command is performed: one at a time."""
        self._commanding: set[asyncio.Task[None]] = set()
        """Connections that perform a command; `stop` gives them time."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = listen
        self.is_loopback_only = False
        """Whether only this machine reaches the port."""

    async def start(self) -> None:
        """Listen. Raises `OSError`."""
        self._server = await asyncio.start_server(
            self._accept, self._listen.host, self._listen.port, limit=REQUEST_BYTES_MAX
        )
        port = self._server.sockets[0].getsockname()[1]
        self.address = Address(self._listen.host, port)
        hosts = [socket.getsockname()[0] for socket in self._server.sockets]
        self.is_loopback_only = all(ip_address(host).is_loopback for host in hosts)

    async def stop(self) -> None:
        """Stop listening; answer a command under way, if it ends soon, and no other request."""
        if self._server is not None:
            self._server.close()
        if self._commanding:
            await asyncio.wait(self._commanding, timeout=GOODBYE_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # for transports to close

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= 4 * CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        exchange = _Exchange(reader, writer)
        is_crowded = len(self._tasks) > CONNECTIONS_MAX
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                answer = await self._read(exchange, is_crowded)
            if isinstance(answer, Command):
                answer = await self._perform(answer)
            await exchange.send(answer)
        except TimeoutError:
            await exchange.send(text_answer(HTTPStatus.REQUEST_TIMEOUT))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # nobody reads an answer
        finally:
            writer.transport.abort()

    async def _read(self, exchange: _Exchange, is_crowded: bool) -> Answer | Command:
        """The answer to a request, or the command that it is."""
        try:
            request = await exchange.request()
            if is_crowded:
                return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
            return await self._route(exchange, request)
        except h11.RemoteProtocolError as error:
            return text_answer(HTTPStatus(error.error_status_hint), str(error))

    async def _route(self, exchange: _Exchange, request: h11.Request) -> Answer | Command:
        if not request.http_version.startswith(b"1."):
            return text_answer(HTTPStatus.BAD_REQUEST)
        method, path = request.method, request.target.partition(b"?")[0].decode()
        if path in self._commands:
            return await self._command(exchange, path, request)
        if path not in self._paths:
            expected = f"expected one of {', '.join(self._paths)}"
            return text_answer(HTTPStatus.NOT_FOUND, expected)
        if method not in (b"GET", b"HEAD"):
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "", ("Allow", "GET, HEAD"))
        try:
            return self._paths[path]()
        except Exception:
            log.exception("%s cannot be answered", path)
            return text_answer(HTTPStatus.INTERNAL_SERVER_ERROR)

    # --- commands --------------------------------------------------------------------------------

    async def _command(
        self, exchange: _Exchange, path: str, request: h11.Request
    ) -> Answer | Command:
        """The command in a request, or the answer that refuses it."""
        if request.method != b"POST":
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "", ("Allow", "POST"))
        headers = _headers(request)
        if headers is None:
            return text_answer(HTTPStatus.BAD_REQUEST, "a header is there twice")
        refusal = self._refusal(headers)
        if refusal:
            return text_answer(HTTPStatus.FORBIDDEN, refusal)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return text_answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected Content-Type: {JSON}")
        if "content-length" not in headers or "transfer-encoding" in headers:
            return text_answer(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if int(headers["content-length"]) > COMMAND_BYTES_MAX:
            reason = f"a command has at most {COMMAND_BYTES_MAX} bytes"
            return text_answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        try:
            facts = msgspec.json.decode(await exchange.body(), type=Facts)
        except (msgspec.DecodeError, UnicodeError) as error:
            return text_answer(
                HTTPStatus.BAD_REQUEST, f"not a JSON object: {decoding_reason(error)}"
            )
        return Command(path, facts)

    def _refusal(self, headers: dict[str, str]) -> str:
        """Why a command with these headers is refused; empty if it is not."""
        if not self.is_loopback_only:
            return (
                f"commands are accepted on loopback only, and this port listens on {self.address}: "
                "set http to an address such as 127.0.0.1:9001"
            )
        if headers.get(COMMAND_HEADER.lower()) != "1":
            return f"a command needs the header {COMMAND_HEADER}: 1"
        if "origin" in headers:
            return "commands are not accepted from web pages"
        if not _is_this_machine(headers.get("host", "")):
            return f"expected a Host of this machine, found {headers.get('host', '')!r}"
        return ""

    async def _perform(self, command: Command) -> Answer:
        if command.path in self._queries:
            return await self._answer(command)
        if self._command_lock.locked():
            return text_answer(HTTPStatus.CONFLICT, "another command is under way")
        task = asyncio.current_task()
        assert task is not None
        self._commanding.add(task)
        task.add_done_callback(self._commanding.discard)
        async with self._command_lock:
            log.info("command %s %s", command.path, command.facts)
            return await self._answer(command)

    async def _answer(self, command: Command) -> Answer:
        try:
            return await self._commands[command.path](command.facts)
        except Exception:
            log.exception("%s cannot be done", command.path)
            return text_answer(HTTPStatus.INTERNAL_SERVER_ERROR)


class _Exchange:
    """One request and its answer. Raises `h11.RemoteProtocolError` for a request that is malformed
    or too long, `asyncio.IncompleteReadError` for one that ends early."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, REQUEST_BYTES_MAX)
        self._is_head = False

    async def request(self) -> h11.Request:
        """The request line and the headers."""
        event = await self._next(REQUEST_BYTES_MAX + 1)  # one more, for h11 to see that it is long
        assert isinstance(event, h11.Request)
        self._is_head = event.method == b"HEAD"
        return event

    async def body(self) -> bytes:
        """The body, whose length the caller has checked."""
        body = bytearray()
        while isinstance(event := await self._next(COMMAND_BYTES_MAX), h11.Data):
            body += event.data
        return bytes(body)

    async def _next(self, bytes_max: int) -> object:
        """The next event of h11, for which at most so many bytes are read."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(bytes_max)
            if not data:
                raise asyncio.IncompleteReadError(b"", None)
            bytes_max -= len(data)
            self._http.receive_data(data)
        return event

    async def send(self, answer: Answer) -> None:
        """Write the answer and wait until it was read; closing over unread bytes would lose it."""
        headers = [
            ("Content-Type", answer.kind),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
            *answer.headers,
        ]
        response = h11.Response(
            status_code=answer.status.value, reason=answer.status.phrase, headers=headers
        )
        parts = [self._http.send(response)]
        if not self._is_head:
            parts.append(self._http.send(h11.Data(data=answer.body)))
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(GOODBYE_S):
                self._writer.write(b"".join(part for part in parts if part))
                self._writer.write_eof()
                while await self._reader.read(REQUEST_BYTES_MAX):
                    pass


def _headers(request: h11.Request) -> dict[str, str] | None:
    """Headers by their names in lower case; None if one is there twice."""
    headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
    return headers if len(headers) == len(request.headers) else None


def _is_this_machine(host: str) -> bool:
    """Whether a Host header names this machine in a way that no name server can redirect."""
    name = host.partition("]")[0].removeprefix("[") if "]" in host else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
