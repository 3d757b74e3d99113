"""Peers that speak to a broker over a raw socket and say what they like, well-formed or not."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    AnyFrame,
    Goodbye,
    Hello,
    KeepAlive,
    Preamble,
)
from byway.wire import FRAME_BYTES_MAX, FrameReader, decode, encode

WAIT_S = 15.0


def framed(payload: bytes) -> bytes:
    """A frame with any payload."""
    return len(payload).to_bytes(4, "big") + payload


class RawPeer:
    """One connection to a broker."""

    def __init__(self, port: int) -> None:
        self.heard: list[AnyFrame] = []
        """What the broker said, keep-alives apart."""
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Vanish."""
        self._socket.close()

    def say(self, *said: AnyFrame | list[Any] | bytes) -> Self:
        """Send frames, or lists that stand for frames as they are on the wire."""
        for each in said:
            data = each if isinstance(each, bytes) else _encoded(each)
            with contextlib.suppress(OSError):  # it may have closed already
                self._socket.sendall(data)
        return self

    def hear(self, kind: type[AnyFrame]) -> Any:
        """The first frame of a kind that the broker says; fails if it closes before that."""
        deadline = time.monotonic() + WAIT_S
        while not (found := [frame for frame in self.heard if isinstance(frame, kind)]):
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self._socket.recv(65_536)
            assert data, f"no {kind.__name__}, only {self.heard}"
            for payload in self._reader.feed(data):
                frame = decode(payload)
                if not isinstance(frame, KeepAlive):
                    self.heard.append(frame)
        return found[0]

    def reason(self) -> str:
        """Why the broker sends it away."""
        goodbye: Goodbye = self.hear(Goodbye)
        return goodbye.reason

    # --- as a broker, as a client --------------------------------------------------------------

    def as_broker(self, name: str, incarnation: int = 1) -> Self:
        """Say that it is a broker."""
        return self.say(
            Preamble(PROTOCOL_VERSION, "broker", name, incarnation, FRAME_BYTES_MAX, 60_000)
        )

    def greet(self, name: str, incarnation: int = 1, **numbers: int) -> Self:
        """Say that it is a broker, and all that it must, as one that was never here."""
        self.as_broker(name, incarnation)
        return self.say(Hello(name, incarnation, 0, 0, 0, 0, **numbers))

    def as_client(self, name: str, incarnation: int = 1) -> Self:
        """Say that it is a client, whatever the incarnation."""
        head = ["byway", CLIENT_PROTOCOL_VERSION, "client", name, incarnation]
        return self.say([*head, FRAME_BYTES_MAX, 60_000], ["c-hello", 0, 0])


def _encoded(frame: AnyFrame | list[Any]) -> bytes:
    if isinstance(frame, list):
        return framed(msgspec.msgpack.encode(frame))
    return bytes(encode(frame))


def kept(directory: Path) -> bytes:
    """All that a broker keeps."""
    return b"".join(path.read_bytes() for path in sorted(directory.iterdir()))
