"""Frames in a stream of bytes: a length of four bytes, then a payload of that length.

This module finds the frames and refuses lengths beyond the limit before a payload is kept. It does
not know what is in them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from byway.model.errors import FrameError

LENGTH: Final = Struct(">I")
HEADER_BYTES: Final = LENGTH.size
FRAME_BYTES_LEAST: Final = 2_097_152
"""The least frame length that a client must read: shorter ones do not hold every publication."""
UNIDENTIFIED_BYTES_MAX: Final = 4_096
"""The longest frame of a peer that has not been accepted: preambles and client hellos are short."""
GREETING_BYTES_MAX: Final = 65_536
"""The longest frame of a peer whose preamble says broker and that has not been accepted."""


class FrameReader:
    """Cuts a stream into payloads. It keeps at most one incomplete frame, and complete ones that
    `next` has not returned yet."""

    __slots__ = ("_at", "_kept", "_view", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """The longest payload that is accepted; it may change between two payloads."""
        self._kept: bytearray | bytes = b""
        self._view: memoryview | None = None
        self._at = 0

    def feed(self, data: bytes | memoryview) -> list[memoryview]:
        """Add bytes, and return all complete payloads. Raises `FrameError` for one that is too long
        or empty; those before it are lost then, as is the connection."""
        self.put(data)
        payloads = []
        while (payload := self.next()) is not None:
            payloads.append(payload)
        return payloads

    def put(self, data: bytes | memoryview) -> None:
        """Add bytes that arrived; `next` returns the payloads that are complete."""
        if self._view is not None:
            self._kept = bytearray(self._view[self._at :])  # not all was returned by `next`
        if self._kept:
            self._kept += data
            if self._view is None and len(self._kept) < self._needed():
                return  # a long frame arrives in many pieces; it is read when it is complete
            self._view, self._kept = memoryview(bytes(self._kept)), b""
        else:
            self._view = memoryview(data)
        self._at = 0

    def next(self) -> memoryview | None:
        """The next complete payload; None if there is none. Raises `FrameError` as `feed` does."""
        view, at = self._view, self._at
        if view is None:
            return None
        left = len(view) - at
        if not left:
            self._view = None
            return None
        if left >= HEADER_BYTES:
            (length,) = LENGTH.unpack_from(view, at)
            if not 0 < length <= self.bytes_max:
                raise FrameError(f"a frame of {length} bytes: expected 1 to {self.bytes_max}")
            start, stop = at + HEADER_BYTES, at + HEADER_BYTES + length
            if stop <= len(view):
                self._at = stop
                return view[start:stop]
        self._kept = bytearray(view[at:])
        self._view = None
        return None

    def _needed(self) -> int:
        """Number of bytes at which the incomplete frame is to be read."""
        if len(self._kept) < HEADER_BYTES:
            return HEADER_BYTES
        length: int = LENGTH.unpack_from(self._kept)[0]
        return HEADER_BYTES + min(length, self.bytes_max)

    def clear(self) -> None:
        """Drop all bytes that were not returned."""
        self._kept, self._view = b"", None

    @property
    def has_more(self) -> bool:
        """Whether `next` may return another payload without more bytes."""
        return self._view is not None

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that were added and not returned."""
        return len(self._kept) if self._view is None else len(self._view) - self._at
