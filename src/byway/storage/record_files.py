"""Files of checked records, and inputs of a broker as bytes that outlive its process.

A file begins with a line that names its kind and version; then come records, each with its length
and two checksums in front: one of the payload, and one of what stands in front of it, so that a
length that was spoilt is not taken for the end of the file. It decides the layout and tells what is
wrong with bytes; it does not know which files there are, nor when they are written.
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
    RequestDiscarded,
    Started,
    TimerFired,
)
from byway.model.errors import StorageError

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
    "message-discarded": MessageDiscarded,
    "request-discarded": RequestDiscarded,
}
"""What an input is called in a journal. A name is never used for something else."""
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
    """A file ends within a record: whoever wrote it was stopped, or a part of it is lost."""


# --- inputs ------------------------------------------------------------------------------------


def encode_inputs(at_us: int, inputs: list[Input]) -> bytes:
    """Inputs that are handed in together, and when."""
    return _encode((at_us, [(_name_of[type(event)], event) for event in inputs]))


def decode_inputs(data: bytes) -> tuple[int, list[Input]]:
    """What `encode_inputs` was given. Raises `msgspec.DecodeError` or `KeyError`."""
    at_us, named = _decode_group(data)
    return at_us, [_decode_input(name, raw) for name, raw in named]


def _decode_input(name: str, raw: msgspec.Raw) -> Input:
    event: Input = _decoders[name].decode(raw)
    if isinstance(event, TimerFired) and event.timer.owner in _TIMERS:
        timer = Timer(_TIMERS[event.timer.owner], event.timer.detail)
        return msgspec.structs.replace(event, timer=timer)
    return event


def decode_readable(data: bytes) -> tuple[int, list[Input], list[tuple[str, bytes, Exception]]]:
    """The same as far as it can be read; and what cannot, by its name, as it is kept, and why not.
    Raises `msgspec.DecodeError`."""
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
    """The first line of a file."""
    return f"byway {kind} {VERSION}\n".encode()


def record(payload: bytes) -> bytes:
    """A record, ready to be written at the end of a file."""
    sizes = _SIZES.pack(len(payload), crc32(payload))
    return b"%b%b%b" % (sizes, _CHECK.pack(crc32(sizes)), payload)


class RecordFile:
    """A file of records, as it was when this was made. Raises `StorageError` if it is no such file:
    `TornError` if it ends within its first line."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        try:
            self._data = path.read_bytes()
        except OSError as error:
            raise StorageError(path, f"cannot be read: {error.strerror}") from error
        self.layout, self.whole_bytes = _titled(path, kind, self._data)
        """`whole_bytes`: up to here it is sound, as far as it was read."""

    def __iter__(self) -> Iterator[bytes]:
        """The records that are left, in order. Raises `DamagedError` for bytes that nobody wrote,
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
                reason = f"is damaged: the length at byte {at} does not fit its checksum"
                raise DamagedError(self.path, reason)
        if start + length > len(data):
            raise TornError(self.path, f"ends within the record at byte {at}")
        payload = data[start : start + length]
        if not length or crc32(payload) != checksum:
            raise DamagedError(self.path, f"is damaged: the checksum at byte {at} does not fit")
        return payload, start + length


def read_records(path: Path, kind: str) -> Iterator[bytes]:
    """The records of a file, in order. Raises what `RecordFile` does."""
    yield from RecordFile(path, kind)


def _titled(path: Path, kind: str, data: bytes) -> tuple[int, int]:
    """The layout that the first line names, and where that line ends."""
    line, newline, _ = data[:_TITLE_LENGTH_MAX].partition(b"\n")
    expected = title(kind).rstrip()
    if not newline and (expected.startswith(line) or not any(data)):
        raise TornError(path, "ends within its first line")
    name, _, version = line.rpartition(b" ")
    if not newline or name != expected.rpartition(b" ")[0] or not version.isdigit():
        raise StorageError(path, f"is no {kind} of a byway broker")
    if int(version) not in _HEADER_BYTES:
        reason = f"has layout version {int(version)}, this byway reads versions 1 to {VERSION}"
        raise StorageError(path, reason)
    return int(version), len(line) + 1


def decode_as(path: Path, decoder: msgspec.msgpack.Decoder[Any], payload: bytes) -> Any:
    """The struct in a record. Raises `StorageError`."""
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise StorageError(path, f"cannot be understood: {error}") from error
