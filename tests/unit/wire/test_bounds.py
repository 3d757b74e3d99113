"""Every value that travels has a bound: at it a frame is read, beyond it is refused."""

from math import inf, nan, nextafter

import msgspec
from msgspec import inspect

from byway.core.behaviours.load_exchange import BROKERS_MAX
from byway.core.table_digests import BUCKETS
from byway.model.bounds import BUCKETS_MAX, LOADS_MAX
from byway.model.errors import FrameError
from byway.model.messages import AnyFrame, Hello
from byway.wire import decode
from tests.wire_bounds import WORD_MAX, Place, places, unbounded

raw = msgspec.msgpack.encode
ALL = list(places())
INTEGERS = [place for place in ALL if isinstance(place.type, inspect.IntType)]
FLOATS = [place for place in ALL if isinstance(place.type, inspect.FloatType)]
TEXTS = [place for place in ALL if isinstance(place.type, inspect.StrType)]
LISTS = [place for place in ALL if isinstance(place.type, inspect.VarTupleType)]


def refused(payload: bytes) -> bool:
    try:
        decode(payload)
    except FrameError:
        return True
    return False


def test_the_walk_finds_every_field():
    """Of the frames, and of all that they carry."""
    found = {place.name for place in ALL}
    assert {
        "EntryId.incarnation",
        "Hello.epoch",
        "Acknowledge.confirmed",
        "Batch.first",
        "LinkProbe.path",
        "Load.uplink",
        "SyncDigest.subscriptions",
        "SyncRequest.advertisements",
        "Preamble.keepalive_ms",
        "ClientHello.session_ttl_us",
        "PublishRequest.sequence",
        "DeliveriesReceived.number",
        "Attached.lost",
        "Delivery.names",
        "Hint.distances",
        "Disconnect.reason",
        "Goodbye.reason",
    } <= found
    assert {place.frame for place in ALL} | {
        kind
        for kind in AnyFrame.__args__
        if not any(f.name for f in msgspec.structs.fields(kind) if f.type is not bool)
    } == set(AnyFrame.__args__)


def test_no_field_is_without_a_bound():
    for place in ALL:
        assert unbounded(place) == "", f"{place.name} has no {unbounded(place)}"


def test_the_example_is_read():
    for place in ALL:
        assert type(decode(raw(place.example))) is place.frame


def test_integers_within_their_bounds_only():
    for place in INTEGERS:
        least, most = place.type.ge, place.type.le
        for good in (least, most):
            assert not refused(raw(place.holding(good))), (place, good)
        beyond = {least - 1, -1, -(2**63), most + 1, 2**63, WORD_MAX} - {least, most}
        for bad in beyond:
            if not least <= bad <= most and bad <= WORD_MAX:
                assert refused(raw(place.holding(bad))), (place, bad)
        for bad in (1.5, nan, "1", True, None, [], b""):
            assert refused(raw(place.holding(bad))), (place, bad)


def test_floats_are_finite():
    for place in FLOATS:
        least, most = place.type.ge, place.type.le
        for good in (least, most):
            assert not refused(raw(place.holding(good))), (place, good)
        for bad in (nan, inf, -inf, nextafter(least, -inf), nextafter(most, inf), -1, "1", None):
            assert refused(raw(place.holding(bad))), (place, bad)


def test_texts_are_unicode_of_some_length():
    for place in TEXTS:
        least, most = place.type.min_length or 0, place.type.max_length
        for sign in ("a", "\0", "é", "\U0001f600"):  # counted in characters
            assert not refused(raw(place.holding(sign * most))), (place, sign)
            assert refused(raw(place.holding(sign * (most + 1)))), (place, sign)
        assert refused(raw(place.holding(""))) == (least > 0)
        lone_surrogate = raw(place.holding("SIGN")).replace(b"\xa4SIGN", b"\xa3\xed\xa0\x80")
        not_utf_8 = raw(place.holding("SIGN")).replace(b"\xa4SIGN", b"\xa1\xff")
        assert refused(lone_surrogate)
        assert refused(not_utf_8)
        assert refused(raw(place.holding(b"bytes")))


def test_lists_are_of_some_length():
    for place in LISTS:
        (member,) = _members(place)
        assert refused(raw(place.holding([member] * (place.type.max_length + 1)))), place


def _members(place: Place) -> list:
    value = place.example
    for step in place.path:
        value = value[step]
    return value


def test_the_core_counts_to_the_same_bounds():
    assert BUCKETS == BUCKETS_MAX
    assert BROKERS_MAX + 1 == LOADS_MAX


def test_a_greeting_that_the_issue_was_about():
    assert refused(raw(["hello", "B", 1, 0, 0, 0, 0, 2**64 - 1, 2]))
    assert decode(raw(["hello", "B", 1, 0, 0, 0, 0, 2**63 - 1, 3])) == Hello(
        "B", 1, 0, 0, 0, 0, 2**63 - 1
    )
