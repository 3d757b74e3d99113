"""Plays scripts against a broker over sockets of their own, and tells what came of each."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from byway.model.errors import FrameError
from byway.model.messages import Acknowledge, Goodbye
from byway.wire import FRAME_BYTES_MAX, FrameReader, encode
from tests.hostile.scripts import Script
from tests.hostile.shapes import PARTING

STAYING_MAX: Final = 600
"""Connections that stay; beyond, the oldest goes."""
ANSWER_S: Final = 5.0
"""How long a connection waits for the broker to take what it says, or to hear it out."""
SAYING_S: Final = 20.0
"""How long one that stays may take to say everything; the broker may read slowly, or no more."""
SHOWN: Final = re.compile(r"-?\d+(\.\d+)?|'[^']*'|\b[hV]\d+\b")

_batch = msgspec.msgpack.Decoder(tuple[str, int, int, list[msgspec.Raw]]).decode
_goodbye = msgspec.msgpack.Decoder(Goodbye).decode
_BATCH: Final = b"\x94\xa5batch"
_GOODBYE: Final = b"\x93\xa3bye"


class BrokerGoneError(Exception):
    """The broker takes no connections any more."""


class Tally:
    """What was sent, and what came of it."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        """Frames by kind."""
        self.scripts = self.accepted = self.refused = self.unfinished = 0
        """Conversations: played, heard out without complaint, closed by the broker with a reason,
        and those that had no answer in time."""
        self.frames_accepted = self.frames_refused = 0
        """Frames of conversations that were heard out, and of those that the broker closed."""
        self.reasons: Counter[str] = Counter()

    @property
    def frames(self) -> int:
        """All frames that were sent."""
        return self.sent.total()

    def add(self, other: Tally) -> None:
        """Count another's too."""
        self.sent += other.sent
        self.reasons += other.reasons
        for name in (
            "scripts", "accepted", "refused", "unfinished", "frames_accepted", "frames_refused",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Connection:
    """One script at work."""

    def __init__(
        self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.script = script
        self.writer = writer
        self.reason: str | None = None
        """Why the broker closed it, if it said so."""
        self.welcome = False
        """Whether the broker said anything after its preamble that was no goodbye."""
        self.sent: Counter[str] = Counter()
        self._reader = reader
        self._received = [0, 0]

    async def play(self) -> None:
        """Say everything, while what the broker says is heard."""
        stays = self.script.ending == "stay"
        listening = None if stays else asyncio.create_task(self._listen())
        try:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(SAYING_S if stays else ANSWER_S):
                    await self._say()
            if listening is not None and self.script.ending == "listen":
                with suppress(OSError, RuntimeError):
                    self.writer.write_eof()
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(listening), ANSWER_S)
        finally:
            if listening is not None and not listening.done():
                listening.cancel()
                with suppress(asyncio.CancelledError):
                    await listening
            if not stays:
                self.writer.transport.abort()

    async def _say(self) -> None:
        script, writer = self.script, self.writer
        if script.writing == "frames" or any(not p.data for p in script.pieces):
            for piece in script.pieces:
                writer.write(piece.data or bytes(encode(Acknowledge(*self._received, 0))))
                self.sent[piece.kind] += 1
                await writer.drain()
                if not piece.data:
                    await asyncio.sleep(0)
            return
        for piece in script.pieces:
            self.sent[piece.kind] += 1
        for part in _parts(b"".join(p.data for p in script.pieces), script.writing):
            writer.write(part)
            await writer.drain()
            if script.writing != "together":
                await asyncio.sleep(0)  # each in a segment of its own

    async def _listen(self) -> None:
        frames = FrameReader(FRAME_BYTES_MAX)
        with suppress(ConnectionError, FrameError):
            while data := await self._reader.read(262_144):
                for payload in frames.feed(data):
                    self._hear(bytes(payload))

    def _hear(self, payload: bytes) -> None:
        if payload.startswith(_BATCH):
            _, lane, first, messages = _batch(payload)
            self._received[lane] = first + len(messages) - 1
        elif payload.startswith(_GOODBYE):
            self.reason = _goodbye(payload).reason
        self.welcome |= not payload.startswith((b"\x97\xa5byway", _GOODBYE))


def _parts(data: bytes, writing: str) -> Iterator[bytes]:
    if writing == "bytes":
        yield from (data[at : at + 1] for at in range(len(data)))
    elif writing == "pieces":
        size = max(len(data) // 7, 1) + len(data) % 3
        yield from (data[at : at + size] for at in range(0, len(data), size))
    else:
        yield data


class Attacker:
    """Hostile connections to one broker."""

    def __init__(self, host: str, port: int, workers: int = 4) -> None:
        self.tally = Tally()
        self._address = host, port
        self._workers = workers
        self._staying: list[asyncio.StreamWriter] = []

    async def play(self, scripts: Iterable[Script]) -> None:
        """Play scripts, a few at a time, begun in their order. Raises `BrokerGoneError`."""
        left = iter(scripts)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work(left))

    async def _work(self, left: Iterator[Script]) -> None:
        for script in left:
            await self.play_one(script)

    async def play_one(self, script: Script) -> str | None:
        """Play one; why the broker closed it, if it did."""
        try:
            reader, writer = await asyncio.open_connection(*self._address)
        except OSError as error:
            raise BrokerGoneError(str(error)) from error
        connection = _Connection(script, reader, writer)
        await connection.play()
        if script.ending == "stay":
            self._staying.append(writer)
            if len(self._staying) > STAYING_MAX:
                self._staying.pop(0).transport.abort()
        self._count(connection)
        return connection.reason

    def _count(self, connection: _Connection) -> None:
        tally, frames = self.tally, connection.sent.total()
        tally.scripts += 1
        tally.sent += connection.sent
        if connection.reason not in (None, PARTING):
            tally.refused += 1
            tally.frames_refused += frames
            tally.reasons[SHOWN.sub("…", connection.reason or "")[:70]] += 1
        elif connection.script.ending == "listen":
            tally.accepted += 1
            tally.frames_accepted += frames
        else:
            tally.unfinished += 1

    def leave(self) -> None:
        """End the connections that stayed."""
        for writer in self._staying:
            writer.transport.abort()
        self._staying.clear()
