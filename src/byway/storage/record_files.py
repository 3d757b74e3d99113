"""Files of checksummed records, and the encoding of a broker's inputs in them.

A file begins with a line that names its kind and version; then come records. The header of a record
has its length and two checksums: one of the payload, and one of the header itself, so that a
damaged length is not taken for the end of the file. This module decides the layout and reports
damage; it does not know which files there are, nor when they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final
from zlib import crc32

import msgspec

from byway.core.actions import Timer
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkDown,
    LinkUp,
    LoadSampled,
    MessageDiscarded,
    NeighbourAdded,
    NeighbourRemoved,
    NeighbourReplaced,
    NeighboursListed,
    RequestDiscarded,
    Started,
    TimerFired,
)
from byway.model.errors import StorageError
from byway.storage.file_system import FileSystem

VERSION: Final = 2
_SIZES: Final = Struct(">II")  # length, checksum of the payload
_CHECK: Final = Struct(">I")  # checksum of these; layout 1 had none
_HEADER_BYTES: Final = {1: _SIZES.size, 2: _SIZES.size + _CHECK.size}
_TITLE_LENGTH_MAX: Final = 64

KINDS: Final[dict[str, type]] = {
    "started": Started,
    "frame": FrameReceived,
    "link-up": LinkUp,
    "link-down": LinkDown,
    "attached": ClientAttached,
    "detached": ClientDetached,
    "asked": ClientRequested,
    "timer": TimerFired,
    "load": LoadSampled,
    "added": NeighbourAdded,
    "removed": NeighbourRemoved,
    "replaced": NeighbourReplaced,
    "listed": NeighboursListed,
    "message-discarded": MessageDiscarded,
    "request-discarded": RequestDiscarded,
}
"""By name in a journal, the type of the input. A name is never reused for another type."""
_TIMERS: Final = {"agreement": "table-sync", "heirs": "takeover", "sifting": "recheck"}
"""Owners of timers that had another name when 0.2.0 began to write journals."""

_name_of: Final = {kind: name for name, kind in KINDS.items()}
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_group: Final = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, msgspec.Raw]]]).decode
_decoders: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    name: msgspec.msgpack.Decoder(kind) for name, kind in KINDS.items()
}


class DamagedError(StorageError):
    """Bytes in a file are not those that were written."""


class TornError(DamagedError):
    """A file ends within a record: its writer was stopped, or a part of it was lost."""


# --- inputs ------------------------------------------------------------------------------------


def encode_inputs(at_us: int, inputs: list[Input]) -> bytes:
    """The record of inputs that are handled together at a time."""
    return _encode((at_us, [(_name_of[type(event)], event) for event in inputs]))


def decode_inputs(data: bytes) -> tuple[int, list[Input]]:
    """Time and inputs of a record. Raises `msgspec.DecodeError` or `KeyError`."""
    at_us, named = _decode_group(data)
    return at_us, [_decode_input(name, raw) for name, raw in named]


def _decode_input(name: str, raw: msgspec.Raw) -> Input:
    event: Input = _decoders[name].decode(raw)
    if isinstance(event, TimerFired) and event.timer.owner in _TIMERS:
        timer = Timer(_TIMERS[event.timer.owner], event.timer.detail)
        return msgspec.structs.replace(event, timer=timer)
    return event


def decode_readable(data: bytes) -> tuple[int, list[Input], list[tuple[str, bytes, Exception]]]:
    """Time and readable inputs of a record; and of each other input its name, a record of it alone,
    and the error. Raises `msgspec.DecodeError`."""
    at_us, named = _decode_group(data)
    inputs: list[Input] = []
    unread: list[tuple[str, bytes, Exception]] = []
    for name, raw in named:
        try:
            inputs.append(_decode_input(name, raw))
        except (msgspec.DecodeError, KeyError) as error:
            unread.append((name, _encode((at_us, [(name, raw)])), error))
    return at_us, inputs, unread


# --- files -------------------------------------------------------------------------------------


def title(kind: str) -> bytes:
    """The first line of a file of this kind."""
    return f"byway {kind} {VERSION}\n".encode()


def record(payload: bytes) -> bytes:
    """The record with this payload, to be appended to a file."""
    sizes = _SIZES.pack(len(payload), crc32(payload))
    return b"%b%b%b" % (sizes, _CHECK.pack(crc32(sizes)), payload)


class RecordFile:
    """A file of records, read when this object is made. Raises `StorageError` if it is not of this
    kind, `TornError` if it ends within its first line."""

    def __init__(self, files: FileSystem, path: Path, kind: str) -> None:
        self.path = path
        try:
            self._data = files.read(path)
        except OSError as error:
            raise StorageError(path, f"cannot be read: {error.strerror}") from error
        self.layout, self.whole_bytes = _titled(path, kind, self._data)
        """`whole_bytes`: the end of the last record that was read and found sound."""

    def __iter__(self) -> Iterator[bytes]:
        """The records not read yet, in order. Raises `DamagedError` for a record that was changed,
        `TornError` if the end is missing or was never written."""
        data = self._data
        while self.whole_bytes < len(data):
            payload, self.whole_bytes = self._record(data, self.whole_bytes)
            yield payload

    def _record(self, data: bytes, at: int) -> tuple[bytes, int]:
        start = at + _HEADER_BYTES[self.layout]
        if start > len(data):
            raise TornError(self.path, f"ends within the record at byte {at}")
        length, checksum = _SIZES.unpack_from(data, at)
        if self.layout > 1:
            sizes_end = at + _SIZES.size
            if _CHECK.unpack_from(data, sizes_end) != (crc32(data[at:sizes_end]),):
                if not any(data[at:]):  # the file was made longer, and then nothing was written
                    raise TornError(self.path, f"holds nothing but zeros from byte {at} on")
                reason = f"is damaged: the length at byte {at} does not match its checksum"
                raise DamagedError(self.path, reason)
        if start + length > len(data):
            raise TornError(self.path, f"ends within the record at byte {at}")
        payload = data[start : start + length]
        if not length or crc32(payload) != checksum:
            raise DamagedError(self.path, f"is damaged: the checksum at byte {at} does not match")
        return payload, start + length


def _titled(path: Path, kind: str, data: bytes) -> tuple[int, int]:
    """The layout version in the first line, and the length of that line."""
    line, newline, _ = data[:_TITLE_LENGTH_MAX].partition(b"\n")
    expected = title(kind).rstrip()
    if not newline and (expected.startswith(line) or not any(data)):
        raise TornError(path, "ends within its first line")
    name, _, version = line.rpartition(b" ")
    if not newline or name != expected.rpartition(b" ")[0] or not version.isdigit():
        raise StorageError(path, f"is not a {kind} of a byway broker")
    if int(version) not in _HEADER_BYTES:
        reason = f"has layout version {int(version)}, this byway reads versions 1 to {VERSION}"
        raise StorageError(path, reason)
    return int(version), len(line) + 1


def decode_as(path: Path, decoder: msgspec.msgpack.Decoder[Any], payload: bytes) -> Any:
    """The value in a record. Raises `StorageError`."""
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise StorageError(path, f"cannot be understood: {error}") from error
