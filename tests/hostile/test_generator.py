"""The generator of hostile frames: pure, complete, and fair to honest clients."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from byway.model.errors import FrameError
from byway.model.messages import Batch, Preamble, Publish
from byway.wire import decode
from tests.hostile import corpus
from tests.hostile.attack import _parts
from tests.hostile.rounds import RECORDED
from tests.hostile.scripts import Piece, Script, framed, scripts
from tests.hostile.shapes import CLIENT_VERSION, FRAMES, MESSAGES, REQUESTS, Facts, Maker

FACTS = Facts("M", ("L", "R"), ("honest-a", "honest-b"), (("honest-a", "s.1", 1_700, 5),), 1_700)
OTHER = Facts("M", ("L", "R"), ("honest-a",), tuple((f"honest-{i}", "x", i, i) for i in range(9)))
ROLES = ("broker", "client")


def made(seed: int, facts: Facts = FACTS, frames: int = 3_000) -> list[Script]:
    return list(scripts(seed, facts, frames, ROLES, RECORDED))  # type: ignore[arg-type]


def frames_of(some: list[Script]) -> list[Any]:
    """What can be read of what is said; large frames take long, and are like small ones."""
    found = []
    for script in some:
        for piece in script.pieces:
            if len(piece.data) > 20_000:
                continue
            try:
                found.append(decode(piece.data[4:]))
            except FrameError:
                continue
    return found


def test_the_same_seed_makes_the_same_bytes() -> None:
    assert made(1) == made(1)
    assert made(1) != made(2)


def test_a_seed_makes_the_same_choices_in_every_network() -> None:
    """Ids of honest clients differ from run to run; nothing else does."""
    here, there = made(5), made(5, OTHER)
    assert [(s.role, s.writing, s.ending, s.why) for s in here] == [
        (s.role, s.writing, s.ending, s.why) for s in there
    ]
    assert [[p.kind for p in s.pieces] for s in here] == [[p.kind for p in s.pieces] for s in there]


def test_every_frame_message_and_request_is_sent() -> None:
    kinds = Counter(p.kind for s in made(1, frames=40_000) for p in s.pieces)
    tags = {str(t.tag) for t in (*MESSAGES.values(), *REQUESTS.values(), *FRAMES.values())}
    assert tags - kinds.keys() == set()


def test_most_of_what_is_not_spoilt_is_valid() -> None:
    """Else nothing would ever reach a deep state."""
    valid = Counter(_is_valid(p) for s in made(1) if not s.why for p in s.pieces if p.data)
    assert valid[True] > 20 * valid[False]


def _is_valid(piece: Piece) -> bool:
    try:
        decode(piece.data[4:])
    except FrameError:
        return False
    return True


def test_honest_clients_are_not_impersonated() -> None:
    """Their names are used by older incarnations only, which a broker refuses."""
    some = frames_of(made(3, frames=30_000))
    assert any(isinstance(f, Preamble) and f.name in FACTS.clients for f in some)
    for frame in some:
        if isinstance(frame, Preamble) and frame.name in FACTS.clients:
            assert frame.incarnation <= 1
        if isinstance(frame, Batch):
            publishers = {m.publisher for m in frame.messages if isinstance(m, Publish)}
            assert publishers.isdisjoint(FACTS.clients)


class Unheard(msgspec.Struct, frozen=True, array_like=True, tag="unheard"):
    """A message that a later version might have."""

    count: int
    share: float
    flags: tuple[bool, ...]
    pairs: tuple[tuple[str, int], ...]
    notes: dict[str, int]
    maybe: str | None = None


def test_a_message_of_a_later_version_is_made_from_its_types() -> None:
    shape = inspect.type_info(Unheard)
    assert isinstance(shape, inspect.StructType)
    for seed in range(50):
        maker = Maker(Random(seed), FACTS, "V00", "broker", 1)
        value = maker.struct(shape)
        msgspec.convert(value, Unheard)
        maker.spoil()
        assert msgspec.msgpack.encode(value)


def test_numbers_are_spoilt_at_their_bounds() -> None:
    class Bounded(msgspec.Struct, frozen=True, array_like=True, tag="b"):
        number: int

    shape = inspect.type_info(Bounded)
    assert isinstance(shape, inspect.StructType)
    kind = inspect.IntType(ge=5, le=1_000)
    seen: set[Any] = set()
    for seed in range(3_000):
        maker = Maker(Random(seed), FACTS, "V00", "broker", 1)
        value = maker.struct(shape)
        maker.slots = [(value, 1, kind)]
        maker.spoil()
        seen |= {v for v in value[1:] if isinstance(v, int)}
    assert seen >= {4, 5, 6, 999, 1_000, 1_001, -1, 2**31, 2**53, 2**63, 2**64 - 1}


@pytest.mark.parametrize("writing", ["together", "bytes", "pieces"])
def test_bytes_arrive_whole_however_they_are_written(writing: str) -> None:
    data = bytes(range(256)) * 3
    assert b"".join(_parts(data, writing)) == data


# --- the corpus ----------------------------------------------------------------------------------


def test_what_is_recorded_is_replayed(tmp_path: Path) -> None:
    long = Piece("(noise)", b"\0" * 100 + b"abc" + b"x" * 70_000 + b"y")
    some = [*made(4, frames=200), Script("client", (long, long, long), "frames", "stay", "why")]
    corpus.write(tmp_path / "a.json", "some", some)
    assert (tmp_path / "a.json").stat().st_size < sum(len(p.data) for s in some for p in s.pieces)
    assert list(corpus.replayed(corpus.read(tmp_path / "a.json"))) == some


def test_a_recording_is_repeated_with_a_number_of_its_own(tmp_path: Path) -> None:
    script = Script("client", (Piece("byway", b"n#####"),))
    corpus.write(tmp_path / "a.json", "some", [script], times=3)
    said = [s.pieces[0].data for s in corpus.replayed(corpus.read(tmp_path / "a.json"))]
    assert said == [b"n00000", b"n00001", b"n00002"]


def test_a_recording_greets_with_the_version_of_today() -> None:
    def greeting(version: int) -> str:
        return framed(msgspec.msgpack.encode(["byway", version, "client", "h", 1, 9, 9])).hex()

    pieces = tuple(corpus.RecordedPiece("byway", greeting(v)) for v in (900, 901))
    case = corpus.Case("", {"client": 900}, (corpus.Recorded("client", pieces),))
    (script,) = corpus.replayed(case)
    assert [msgspec.msgpack.decode(p.data[4:])[1] for p in script.pieces] == [CLIENT_VERSION, 901]


@pytest.mark.parametrize("name", sorted(corpus.cases()))
def test_the_corpus_can_be_read(name: str) -> None:
    case = corpus.cases()[name]
    assert case.description
    assert any(p.data for s in corpus.replayed(case) for p in s.pieces)
