"""Recorded attacks, as files that are replayed for ever: `testdata/fuzz/*.json`.

A file holds scripts; a script may be played many times, with `#####` in its bytes standing for the
number of the time. Greetings are said with the protocol versions of today where the recorded ones
had those of their day, so that a recording does not grow harmless with the next version.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from byway.model.messages import Hello, Preamble
from tests.hostile.scripts import Ending, Piece, Role, Script, Writing, framed
from tests.hostile.shapes import CLIENT_VERSION, FRAMES, PROTOCOL_VERSION

DIRECTORY: Final = Path(__file__).parents[2] / "testdata" / "fuzz"
HEX_MAX: Final = 8_192
"""Longer pieces are compressed; shorter ones can be read."""
COUNT: Final = b"#####"
VERSIONS: Final = {"broker": PROTOCOL_VERSION, "client": CLIENT_VERSION}


class RecordedPiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes of one kind; none: an acknowledgement of what has come."""

    kind: str
    hex: str = ""
    """In words; `78*65536` is a byte that many times."""
    zlib: str = ""
    """What would be long: compressed, in base 64."""
    times: int = 1
    """How often it is said."""


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """One script of a file."""

    role: Role
    pieces: tuple[RecordedPiece, ...]
    writing: Writing = "together"
    ending: Ending = "listen"
    times: int = 1
    why: str = ""


class Case(msgspec.Struct, frozen=True):
    """One file."""

    description: str
    versions: dict[str, int]
    """Of the protocol, when it was recorded."""
    scripts: tuple[Recorded, ...]
    heavy: bool = False
    """Left out of the default suite: it takes long, though nothing may break."""


def read(path: Path) -> Case:
    """A file of the corpus."""
    return msgspec.json.decode(path.read_bytes(), type=Case)


def write(
    path: Path, description: str, scripts: Iterable[Script], times: int = 1, heavy: bool = False
) -> None:
    """Record scripts, each to be played so many times."""
    recorded = tuple(
        Recorded(s.role, _pieces(s), s.writing, s.ending, times, s.why) for s in scripts
    )
    case = Case(description, VERSIONS, recorded, heavy)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n")


def _pieces(script: Script) -> tuple[RecordedPiece, ...]:
    """Its pieces; those that are said again and again, once."""
    runs = [(piece, len(list(run))) for piece, run in groupby(script.pieces)]
    return tuple(_recorded(piece, times) for piece, times in runs)


def _recorded(piece: Piece, times: int) -> RecordedPiece:
    text = _to_text(piece.data)
    if len(text) <= HEX_MAX:
        return RecordedPiece(piece.kind, text, times=times)
    packed = b64encode(zlib.compress(piece.data, 9)).decode()
    return RecordedPiece(piece.kind, zlib=packed, times=times)


def _bytes(piece: RecordedPiece) -> bytes:
    if piece.zlib:
        return zlib.decompress(b64decode(piece.zlib))
    return _from_text(piece.hex)


_RUN: Final = re.compile(rb"(.)\1{63,}", re.DOTALL)


def _to_text(data: bytes) -> str:
    words, at = [], 0
    for run in _RUN.finditer(data):
        if run.start() > at:
            words.append(data[at : run.start()].hex())
        words.append(f"{run[1].hex()}*{run.end() - run.start()}")
        at = run.end()
    return " ".join([*words, data[at:].hex()] if at < len(data) else words)


def _from_text(text: str) -> bytes:
    made = bytearray()
    for word in text.split():
        data, _, times = word.partition("*")
        made += bytes.fromhex(data) * int(times or 1)
    return bytes(made)


def replayed(case: Case) -> Iterator[Script]:
    """The scripts of a file, as they are said today."""
    for recorded in case.scripts:
        pieces = [
            Piece(p.kind, _today(p.kind, _bytes(p), recorded.role, case.versions))
            for p in recorded.pieces
            for _ in range(p.times)
        ]
        for time in range(recorded.times):
            counted = b"%05d" % time
            yield Script(
                recorded.role,
                tuple(Piece(p.kind, p.data.replace(COUNT, counted)) for p in pieces),
                recorded.writing,
                recorded.ending,
                recorded.why,
            )


_PLACES: Final = {
    str(FRAMES[cls].tag): 1 + [f.name for f in FRAMES[cls].fields].index("version")
    for cls in (Preamble, Hello)
}
"""Where a greeting has its version."""


def _today(kind: str, data: bytes, role: str, versions: dict[str, int]) -> bytes:
    place = _PLACES.get(kind)
    if place is None:
        return data
    try:
        said: Any = msgspec.msgpack.decode(data[4:])
        if said[place] != versions[role] or said[place] is True:
            return data
    except (msgspec.DecodeError, RecursionError, IndexError, KeyError, TypeError):
        return data
    said[place] = VERSIONS[role]
    return framed(msgspec.msgpack.encode(said))


def cases(heavy: bool = True) -> dict[str, Case]:
    """All files, by name; without those that take long, if they are not wanted."""
    found = {path.stem: read(path) for path in sorted(DIRECTORY.glob("*.json"))}
    return {name: case for name, case in found.items() if heavy or not case.heavy}
