"""What a broker reads it can send on: alone in a frame, with the largest of numbers, it fits.

Frames are drawn from the types, as long as they may be and written as short as msgpack allows:
fields with a default left out, floats of four bytes, characters of one to four.
"""

from __future__ import annotations

from struct import pack
from typing import Any

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from byway.model.bounds import INT64_MAX
from byway.model.errors import FrameError
from byway.model.filters import FILTER_BYTES_MAX, Filter
from byway.model.messages import Batch, Lane, Message
from byway.wire import FRAME_BYTES_MAX, decode, encode
from byway.wire.codec import MESSAGE_BYTES_MAX

raw = msgspec.msgpack.encode
KINDS = inspect.type_info(Message).types
SHORT_FLOAT = msgspec.Raw(b"\xca" + pack(">f", 0.5))


def term(number: int, constraint: list[Any]) -> list[Any]:
    return [f"{number:03}", constraint]


FILTERS = (
    [[[]]],  # TRUE
    [[[]], True],  # ANY
    [[[[term(n, ["sp"]) for n in range(64)]]]],
    [[[[term(n, ["nr"]) for n in range(64)]]]],
    [[[[["x", ["nr", SHORT_FLOAT]]]]]],
    [[[[["x", ["ss", ["a" * 60_000]]]]]]],
    [[[[["x", ["ss", ["é" * (FILTER_BYTES_MAX // 2 - 20)]]]]]]],
    [[[[["x", ["ss", ["é" * (FILTER_BYTES_MAX // 2)]]]]]]],  # too long
)


class Writer:
    """Draws a value of a type, as plain as msgpack has it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.sign = draw(st.sampled_from(("a", "é", "\U0001f600")))
        self.lean = draw(st.booleans())

    def value(self, type: inspect.Type) -> Any:
        match type:
            case inspect.Metadata(type=inner):
                return self.value(inner)
            case inspect.StructType(cls=cls) if cls is Filter:
                return self.draw(st.sampled_from(FILTERS))
            case inspect.StructType():
                return self.struct(type)
            case inspect.UnionType(types=types):
                return self.value(self.draw(st.sampled_from(types)))
            case inspect.VarTupleType(item_type=item):
                member = self.value(item)
                room = FRAME_BYTES_MAX // len(raw(member)) - 1
                most = min(type.max_length, room)
                return [member] * self.draw(st.sampled_from((0, 1, 7, most // 2, most)))
            case inspect.TupleType(item_types=items):
                return [self.value(item) for item in items]
            case inspect.IntType():
                return self.draw(st.sampled_from((type.ge, type.le or 2**64 - 1)))
            case inspect.FloatType():
                return SHORT_FLOAT if self.lean else type.le
            case inspect.StrType():
                least = type.min_length or 0
                return self.sign * self.draw(st.sampled_from((least, type.max_length)))
            case inspect.BytesType():
                return bytes(self.draw(st.sampled_from((0, 1_000, type.max_length))))
            case inspect.BoolType():
                return True
            case inspect.NoneType():
                return None
        raise TypeError(type)

    def struct(self, type: inspect.StructType) -> list[Any]:
        fields = [f for f in type.fields if f.required or not self.lean]
        values = [self.value(field.type) for field in fields]
        if type.cls.__name__ == "Unsubscribe" and len(values) == 3:
            values = self.matching(values)
        return [type.tag, *values] if type.tag is not None else values

    def matching(self, values: list[Any]) -> list[Any]:
        """Hints as many as ids, of as many distances as there are similarities."""
        ids, similarities, hints = values
        similarities = similarities or [0.5]
        hint = [[h[0], [1] * len(similarities)] for h in (hints[0] if hints else ())]
        room = FRAME_BYTES_MAX // (len(raw(hint)) + (len(raw(ids[0])) if ids else 0))
        ids = ids[:room]
        return [ids, similarities, [hint] * len(ids)]


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(KINDS))
    lane = 1 if kind.cls.__name__ in ("Publish", "Unadvertise") else 0
    return raw(["batch", lane, 1, [Writer(draw).value(kind)]])


@settings(max_examples=200)
@given(payloads())
def test_what_is_read_can_be_sent_on(payload: bytes) -> None:
    if len(payload) > FRAME_BYTES_MAX:
        event("no frame")
        return
    try:
        frame = decode(payload)
    except FrameError as error:
        event(str(error).split(":")[0])
        return
    assert isinstance(frame, Batch)
    (message,) = frame.messages
    event(f"read {type(message).__name__}")
    data = encode(Batch(Lane.DATA, INT64_MAX, (message,)))
    assert len(data) < FRAME_BYTES_MAX
    assert len(raw(message)) <= MESSAGE_BYTES_MAX
    assert decode(memoryview(data)[4:]).messages == (message,)


def test_a_message_that_grows_when_it_is_sent_on_is_refused() -> None:
    """It fits a frame as it came, and would not as it goes."""
    filter = [[[[term(n, ["sp"]) for n in range(64)]]]]
    many = [["sub", ["c", "s", 1], filter]] * 1_024
    payload = raw(["batch", 0, 1, [["subs", many]]])
    assert len(payload) < FRAME_BYTES_MAX / 4
    message = decode(payload).messages[0]
    assert len(raw(message)) > 1.8 * len(payload)  # that much it grows
    names = [[["c" * 256, "s" * 256, 1, 2**63 - 1], True]] * 1_024
    wide = [[["\U0001f600" * 256, "\U0001f600" * 140, 1], True]] * 1_024
    assert len(raw(["batch", 0, 1, [["names", names, names]]])) < MESSAGE_BYTES_MAX
    payload = raw(["batch", 0, 1, [["names", wide, wide]]])
    assert MESSAGE_BYTES_MAX < len(payload) < FRAME_BYTES_MAX
    with pytest.raises(FrameError, match=r"SyncNames of .* bytes: expected at most"):
        decode(payload)
