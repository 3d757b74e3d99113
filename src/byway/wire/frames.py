"""Frames in a stream of bytes: a length of four bytes, then so many bytes.

It finds where frames begin and end, and refuses lengths beyond the limit before anything is kept.
It does not know what is in them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from byway.model.errors import FrameError

LENGTH: Final = Struct(">I")
HEADER_BYTES: Final = LENGTH.size


class FrameReader:
    """Cuts what arrives into payloads; keeps at most one frame that is not complete yet."""

    __slots__ = ("_kept", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._kept = bytearray()

    def feed(self, data: bytes | memoryview) -> list[memoryview]:
        """The payloads that are complete now. Raises `FrameError` for one that is too long or
        empty; what came before it is lost then, as is the connection.
        """
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed():
                return []  # a long frame comes in many pieces; it is looked at when it is there
            view = memoryview(bytes(self._kept))
        else:
            view = memoryview(data)
        payloads = []
        at, end = 0, len(view)
        while end - at >= HEADER_BYTES:
            (length,) = LENGTH.unpack_from(view, at)
            if not 0 < length <= self.bytes_max:
                raise FrameError(f"a frame of {length} bytes: expected 1 to {self.bytes_max}")
            start, stop = at + HEADER_BYTES, at + HEADER_BYTES + length
            if stop > end:
                break
            payloads.append(view[start:stop])
            at = stop
        self._kept = bytearray(view[at:])
        return payloads

    def _needed(self) -> int:
        """Bytes to wait for before there is anything to do."""
        if len(self._kept) < HEADER_BYTES:
            return HEADER_BYTES
        length: int = LENGTH.unpack_from(self._kept)[0]
        return HEADER_BYTES + min(length, self.bytes_max)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._kept)
