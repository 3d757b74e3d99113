"""Connections that can be cut: small TCP proxies on loopback, in a thread of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading

BUFFER = 65_536


class Proxies:
    """Proxies by name. A name may have several ports; they are cut together."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._writers: dict[str, set[asyncio.StreamWriter]] = {}
        self._shut: set[str] = set()
        self._servers: list[asyncio.Server] = []

    def open(self, name: str, port: int, target: int) -> None:
        """Listen on a port and pass everything on to another."""
        asyncio.run_coroutine_threadsafe(self._open(name, port, target), self._loop).result(10)

    def cut(self, name: str) -> None:
        """Reset what is connected, and take nothing until `mend`."""
        self._loop.call_soon_threadsafe(self._cut, name)

    def mend(self, name: str) -> None:
        """Take connections again."""
        self._loop.call_soon_threadsafe(self._shut.discard, name)

    def close(self) -> None:
        """End all."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _open(self, name: str, port: int, target: int) -> None:
        self._writers.setdefault(name, set())

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._pass_on(name, target, reader, writer)

        self._servers.append(await asyncio.start_server(accepted, "127.0.0.1", port))

    async def _pass_on(
        self, name: str, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if name in self._shut:
            writer.transport.abort()
            return
        self._writers[name].add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            self._writers[name].discard(writer)
            writer.transport.abort()
            return
        if name in self._shut:
            back.transport.abort()
            writer.transport.abort()
            return
        self._writers[name].add(back)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))
        self._writers[name] -= {back, writer}

    def _cut(self, name: str) -> None:
        self._shut.add(name)
        for writer in self._writers[name]:
            writer.transport.abort()
        self._writers[name].clear()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for name in self._writers:
            self._cut(name)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until either side ends; then the other ends too."""
    with contextlib.suppress(OSError):
        while data := await reader.read(BUFFER):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.transport.abort() if reader.exception() else writer.close()
