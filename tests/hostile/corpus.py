"""Recorded attacks, as files that are replayed for ever: `testdata/fuzz/*.json`.

A file holds scripts; a script may be played many times, with `#####` in its bytes standing for the
number of the time. Greetings are said with the protocol versions of today where the recorded ones
had those of their day, so that a recording does not grow harmless with the next version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from byway.model.messages import Hello, Preamble
from tests.hostile.scripts import Ending, Piece, Role, Script, Writing, framed
from tests.hostile.shapes import CLIENT_VERSION, FRAMES, PROTOCOL_VERSION

DIRECTORY: Final = Path(__file__).parents[2] / "testdata" / "fuzz"
COUNT: Final = b"#####"
VERSIONS: Final = {"broker": PROTOCOL_VERSION, "client": CLIENT_VERSION}


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """One script of a file; pieces as (kind, bytes in hexadecimal)."""

    role: Role
    pieces: tuple[tuple[str, str], ...]
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


def read(path: Path) -> Case:
    """A file of the corpus."""
    return msgspec.json.decode(path.read_bytes(), type=Case)


def write(path: Path, description: str, scripts: Iterable[Script], times: int = 1) -> None:
    """Record scripts."""
    recorded = tuple(
        Recorded(
            s.role,
            tuple((p.kind, p.data.hex()) for p in s.pieces),
            s.writing,
            s.ending,
            times,
            s.why,
        )
        for s in scripts
    )
    case = Case(description, VERSIONS, recorded)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n")


def replayed(case: Case) -> Iterator[Script]:
    """The scripts of a file, as they are said today."""
    for recorded in case.scripts:
        pieces = [
            Piece(kind, _today(kind, bytes.fromhex(text), recorded.role, case.versions))
            for kind, text in recorded.pieces
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
    except (msgspec.DecodeError, IndexError, KeyError, TypeError):
        return data
    said[place] = VERSIONS[role]
    return framed(msgspec.msgpack.encode(said))


def cases() -> dict[str, Case]:
    """All files, by name."""
    return {path.stem: read(path) for path in sorted(DIRECTORY.glob("*.json"))}
