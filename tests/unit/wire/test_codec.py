"""Bytes on the wire: they do not change by accident, and bad ones are named."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from byway.model import parse
from byway.model.constraints import NumberRange
from byway.model.errors import FrameError
from byway.model.filters import Conjunction, Filter
from byway.model.messages import (
    AnyFrame,
    Batch,
    Delivery,
    EntryId,
    Lane,
    Message,
    Publish,
    Replies,
    Reply,
    Request,
    Requests,
    Subscribe,
    SubscribeRequest,
    Unsubscribe,
)
from byway.wire import FrameReader, decode, encode, encode_all
from byway.wire.codec import CHUNK_BYTES
from tests.wire_examples import CONTROL, DATA, FRAMES, REPLIES, REQUESTS

GOLDEN = Path(__file__).parents[3] / "testdata/wire/frames.txt"


def payloads(data: bytes) -> list[bytes]:
    return [bytes(p) for p in FrameReader(2**30).feed(data)]


def test_there_is_an_example_of_everything():
    examples = {type(m) for m in (*CONTROL, *DATA, *REQUESTS, *REPLIES, *FRAMES.values())}
    unions = (Message, Request, Reply, AnyFrame)
    assert {kind for union in unions for kind in get_args(union)} <= examples


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_comes_back(name):
    (payload,) = payloads(encode(FRAMES[name]))
    assert decode(payload) == FRAMES[name]


def test_golden_bytes(request):
    """The protocol's version must change when these do."""
    lines = [f"{name} {bytes(encode(frame)).hex()}" for name, frame in FRAMES.items()]
    text = "\n".join(lines) + "\n"
    if request.config.getoption("--rewrite-golden", default=False):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_a_tag_has_one_meaning():
    unions = (Message, Request, Reply, AnyFrame)
    kinds = {kind for union in unions for kind in get_args(union)}
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(tags)


def test_a_large_batch_travels_in_several_frames():
    body = b"x" * (CHUNK_BYTES // 3)
    messages = tuple(Publish("p", 1, n, 0, 0, 0, 0, body) for n in range(1, 9))
    parts = encode_all(Batch(Lane.DATA, 5, messages))
    frames = [decode(p) for part in parts for p in payloads(part)]
    assert len(frames) == 4
    assert [f.first for f in frames] == [5, 7, 9, 11]
    assert sum((f.messages for f in frames), ()) == messages
    deliveries = tuple(Delivery(m.sequence, m, ("s",)) for m in messages)
    frames = [decode(p) for part in encode_all(Replies(deliveries)) for p in payloads(part)]
    assert sum((f.replies for f in frames), ()) == deliveries
    assert len(encode_all(Batch(Lane.DATA, 5, messages[:1]))) == 1


BAD_FILTER = Filter((Conjunction((("x", NumberRange(3, False, 1, False)),)),))
raw = msgspec.msgpack.encode


def hinted(similarities: tuple, *hints: tuple) -> bytes:
    """A frame with an unsubscription of one, which has these hints."""
    return raw(["batch", 0, 1, [["unsub", [["c", "s", 1, 1]], similarities, hints]]])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\xc1", "it cannot be decoded"),
        (raw(["nonsense", 1]), "it cannot be decoded: Invalid value 'nonsense'"),
        (raw({"a": 1}), "it cannot be decoded: Expected `array`, got `object`"),
        (raw(["ack", 1, 2]), "it cannot be decoded"),
        (raw(["ack", 1, 2, "three"]), "Expected `int`, got `str`"),
        (raw(["batch", 7, 1, []]), "Invalid enum value 7"),
        (raw(["batch", 1, 1, [["pub", "p", 1, 2**63, 0, 0, 0, 0, b""]]]), "Expected `int` <="),
        (raw(["batch", 1, 1, [["pub", "p", 1, 1, 0, 2**31, 0, 0, b""]]]), "Expected `int` <="),
        (
            raw(["batch", 1, 1, [["pub", "p", 1, 1, 0, 0, 0, 0, bytes(2**20 + 1)]]]),
            "Expected `bytes` of length <= 1048576",
        ),
        (
            raw(Batch(Lane.CONTROL, 1, (Subscribe(EntryId("c", "s", 1), BAD_FILTER),))),
            "the constraint on 'x' is not in canonical form",
        ),
        (raw(Requests((SubscribeRequest("s", BAD_FILTER),))), "the constraint on 'x'"),
        (raw(Requests((SubscribeRequest("", parse("x > 1")),))), "Expected `str` of length >= 1"),
        (
            raw(Batch(Lane.CONTROL, 1, (Subscribe(EntryId("c" * 300, "s", 1), parse("TRUE")),))),
            "Expected `str` of length <= 262",
        ),
        (b"\x91" * 5_000, "it cannot be decoded"),
        (hinted((0.9,), (), ()), "2 hints for 1 ids"),
        (hinted((0.6, 0.9), ([("p", (1,))])), "1 distances for 2 similarities"),
        (hinted((0.9,), ([("p", (1, 2))])), "2 distances for 1 similarities"),
        (hinted((-0.1,), ([("p", (1,))])), "Expected `float` >= 0.0"),
        (hinted((1.1,), ([("p", (1,))])), "Expected `float` <= 1.0"),
        (hinted((float("nan"),), ([("p", (1,))])), "Expected `float`"),
        (hinted((0.9,), ([("p", (-1,))])), "Expected `int` >= 0"),
        (hinted((0.9,), ([("p", (2**31,))])), "Expected `int` <="),
        (hinted((0.9,), ([("p", (0.5,))])), "Expected `int`, got `float`"),
        (hinted((), ([("p", ())])), "hints without similarities"),
        (hinted((0.5,) * 9, ([("p", (1,) * 9)])), "Expected `array` of length <= 8"),
        (hinted((0.9,), ([("p", (1,))] * 257)), "Expected `array` of length <= 256"),
        (hinted((0.9,), ([("", (1,))])), "Expected `str` of length >= 1"),
        (hinted((0.9,), (["p"])), "Expected `array`, got `str`"),
        (
            raw(["batch", 0, 1, [["subs", [["sub", ["c", "", 1, 1], parse("x > 1")]]]]]),
            "Expected `str` of length >= 1",
        ),
        (
            raw(["batch", 0, 1, [["subs", [["sub", ["c", "s", 1, 1], BAD_FILTER]]]]]),
            "the constraint on 'x'",
        ),
        (raw(["batch", 0, 1, [["subs", [["unsub", []]]]]]), "it cannot be decoded"),
        (raw(["batch", 0, 1, [["retire", [["c"]]]]]), "it cannot be decoded"),
    ],
    ids=range(32),
)
def test_what_is_no_frame_is_named(payload, reason):
    with pytest.raises(FrameError, match=reason):
        decode(payload)


def test_an_unsubscription_without_hints_may_leave_them_out():
    """As it was before there were any."""
    frame = decode(raw(["batch", 0, 1, [["unsub", [["c", "s", 1, 1]]]]]))
    assert frame == Batch(Lane.CONTROL, 1, (Unsubscribe((EntryId("c", "s", 1, 1),)),))


@pytest.mark.parametrize("length", [0, 101, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused_at_once(length):
    with pytest.raises(FrameError, match=f"a frame of {length} bytes: expected 1 to 100"):
        FrameReader(100).feed(length.to_bytes(4, "big"))
