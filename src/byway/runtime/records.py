"""Files of checked records, and inputs of a broker as bytes that outlive its process.

A file begins with a line that names its kind and version; then come records, each with its length
and a checksum in front. It decides the layout and tells what is wrong with bytes; it does not know
which files there are, nor when they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final
from zlib import crc32

import msgspec

from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkDown,
    LinkUp,
    LoadSampled,
    NeighbourAdded,
    NeighbourRemoved,
    Started,
    TimerFired,
)
from byway.model.errors import StorageError

VERSION: Final = 1
_HEADER: Final = Struct(">II")  # length, checksum
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
}
"""What an input is called in a journal. A name is never used for something else."""

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
    return at_us, [_decoders[name].decode(raw) for name, raw in named]


# --- files -------------------------------------------------------------------------------------


def title(kind: str) -> bytes:
    """The first line of a file."""
    return f"byway {kind} {VERSION}\n".encode()


def record(payload: bytes) -> bytes:
    """A record, ready to be written at the end of a file."""
    return _HEADER.pack(len(payload), crc32(payload)) + payload


def read_records(path: Path, kind: str) -> Iterator[bytes]:
    """The records of a file, in order. Raises `StorageError`: `DamagedError` for bytes that nobody
    wrote, `TornError` if the end is missing."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(path, f"cannot be read: {error.strerror}") from error
    at = _after_title(path, kind, data)
    while at < len(data):
        start = at + _HEADER.size
        length, checksum = _HEADER.unpack_from(data, at) if start <= len(data) else (0, 0)
        payload = data[start : start + length]
        if start + length > len(data):
            raise TornError(path, f"ends within the record at byte {at}")
        if not length or crc32(payload) != checksum:
            raise DamagedError(path, f"is damaged: the checksum at byte {at} does not fit")
        yield payload
        at = start + length


def _after_title(path: Path, kind: str, data: bytes) -> int:
    line, newline, _ = data[:_TITLE_LENGTH_MAX].partition(b"\n")
    expected = title(kind).rstrip()
    if not newline and expected.startswith(line):
        raise TornError(path, "ends within its first line")
    name, _, version = line.rpartition(b" ")
    if not newline or name != expected.rpartition(b" ")[0] or not version.isdigit():
        raise StorageError(path, f"is no {kind} of a byway broker")
    if int(version) != VERSION:
        reason = f"has layout version {int(version)}, this byway reads version {VERSION}"
        raise StorageError(path, reason)
    return len(line) + 1


def decode_as(path: Path, decoder: msgspec.msgpack.Decoder[Any], payload: bytes) -> Any:
    """The struct in a record. Raises `StorageError`."""
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise StorageError(path, f"cannot be understood: {error}") from error
