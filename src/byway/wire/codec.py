"""The encoding of frames: msgpack, with every property checked on decoding that the core relies on.

A decoded frame is as good as one that byway made: types and tags match, filters are in canonical
form, names and numbers are within bounds. The body of a publication stays encoded; only its home
broker checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from byway.model.bounds import BODY_BYTES_MAX, NAME_LENGTH_MAX
from byway.model.checking import check_filter
from byway.model.errors import BywayError, FrameError, InvalidValueError
from byway.model.messages import (
    Advertise,
    AdvertiseRequest,
    AnyFrame,
    Batch,
    Delivery,
    Message,
    Publish,
    PublishRequest,
    Replies,
    Reply,
    Request,
    Requests,
    Subscribe,
    SubscribeMany,
    SubscribeRequest,
    Unadvertise,
    Unsubscribe,
)
from byway.wire.frames import HEADER_BYTES, LENGTH

__all__ = [
    "BODY_BYTES_MAX",
    "CHUNK_BYTES",
    "FRAME_BYTES_MAX",
    "MESSAGE_BYTES_MAX",
    "NAME_LENGTH_MAX",
    "decode",
    "decode_from_client",
    "encode",
    "encode_all",
    "encode_counted",
]

FRAME_BYTES_MAX: Final = 4_194_304
MESSAGE_BYTES_MAX: Final = 3_145_728
"""The longest message between brokers, as this program encodes it. Alone in a frame it can always
be forwarded; no message that byway makes comes near."""
CHUNK_BYTES: Final = 262_144
"""A batch larger than this travels in several frames, so that control does not wait for it."""
_OVERHEAD_BYTES: Final = 64
_CHARACTER_BYTES: Final = 4  # at most
_SURELY_SHORT_BYTES: Final = 65_536
"""A frame up to this length holds no message above `MESSAGE_BYTES_MAX`: a peer that encodes more
compactly than this program does not save that much."""
_REQUESTS: Final = b"\x92\xa5c-ask"
"""How a frame of requests begins: an array of two, then its tag."""
_REQUESTS_BYTES: Final = len(_REQUESTS) + 5
REQUESTS_BYTES_MAX: Final = 2 * CHUNK_BYTES
"""A client's frame that is longer holds one publication and nothing else."""

T = TypeVar("T", Message, Reply, Request)

_ITEMS: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any], bytes]]]] = {
    Batch: (attrgetter("messages"), attrgetter("body")),
    Replies: (attrgetter("replies"), attrgetter("publication.body")),
    Requests: (attrgetter("requests"), attrgetter("body")),
}
"""For each kind of frame with many messages: these, and the body of one that is a publication."""
_encoder = msgspec.msgpack.Encoder()
_decode = msgspec.msgpack.Decoder(AnyFrame).decode


# --- out ---------------------------------------------------------------------------------------


def encode(frame: AnyFrame) -> bytearray:
    """The bytes of a frame, with its length in front."""
    data = bytearray(256)
    _encoder.encode_into(frame, data, HEADER_BYTES)
    LENGTH.pack_into(data, 0, len(data) - HEADER_BYTES)
    return data


def encode_all(frame: AnyFrame) -> list[bytearray]:
    """The bytes of a frame, split into several frames if it is large."""
    return [data for data, _ in encode_counted(frame)]


def encode_counted(frame: AnyFrame) -> list[tuple[bytearray, int]]:
    """The bytes of a frame, split as by `encode_all`, each part with its number of messages."""
    known = _ITEMS.get(type(frame))
    if known is not None:
        items_of, body_of = known
        items = items_of(frame)
        try:  # all are publications, as a rule; if few bytes, they are not looked at one by one
            is_small = sum(map(len, map(body_of, items))) <= CHUNK_BYTES
        except AttributeError:
            is_small = False
        if is_small:
            data = encode(frame)
            if len(data) <= HEADER_BYTES + CHUNK_BYTES:
                return [(data, len(items))]
    return _encode_parts(frame)


def _encode_parts(frame: AnyFrame) -> list[tuple[bytearray, int]]:
    """The bytes of a frame that may be large."""
    if isinstance(frame, Batch) and len(frame.messages) > 1:
        encoded, first = [], frame.first
        for part in _chunks(frame.messages):
            encoded.append((encode(Batch(frame.lane, first, part)), len(part)))
            first += len(part)
        return encoded
    if isinstance(frame, Replies) and len(frame.replies) > 1:
        return [(encode(Replies(part)), len(part)) for part in _chunks(frame.replies)]
    if isinstance(frame, Requests) and len(frame.requests) > 1:
        return [(encode(Requests(part)), len(part)) for part in _chunks(frame.requests)]
    return [(encode(frame), 1)]


def _chunks(items: tuple[T, ...]) -> list[tuple[T, ...]]:
    parts: list[tuple[T, ...]] = []
    start = size = 0
    for at, item in enumerate(items):
        size += _size(item)
        if size > CHUNK_BYTES and at > start:
            parts.append(items[start:at])
            start, size = at, _size(item)
    parts.append(items[start:])
    return parts


def _size(item: Message | Reply | Request) -> int:
    """A close upper bound for the encoded size of an item."""
    if type(item) is Publish:
        return len(item.body) + _CHARACTER_BYTES * len(item.publisher) + _OVERHEAD_BYTES
    if type(item) is Delivery:
        publication, names = item.publication, item.names
        named = len(names[0]) if len(names) == 1 else len("".join(names)) + len(names)
        characters = named + len(publication.publisher)
        return len(publication.body) + _CHARACTER_BYTES * characters + 2 * _OVERHEAD_BYTES
    if type(item) is PublishRequest:
        return len(item.body) + _OVERHEAD_BYTES
    return len(_encoder.encode(item))


# --- in ----------------------------------------------------------------------------------------


def decode(payload: bytes | memoryview, requests_later: bool = False) -> AnyFrame:
    """The frame in a payload. Raises `FrameError` with the reason.

    With `requests_later` a client's requests are decoded but not checked: the caller does that with
    `check_requests`, some at a time, since checking takes far longer than decoding.
    """
    try:
        frame: AnyFrame = _decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FrameError(f"it cannot be decoded: {error}") from error
    try:
        if isinstance(frame, Batch):
            _check_messages(frame.messages)
            if len(payload) > _SURELY_SHORT_BYTES:
                _check_lengths(frame.messages)
        elif isinstance(frame, Requests) and not requests_later:
            _check_requests(frame)
    except BywayError as error:
        raise FrameError(str(error)) from error
    return frame


def decode_from_client(payload: bytes | memoryview) -> AnyFrame:
    """The frame in a payload that a client sent to a broker, requests not checked yet, as by
    `decode`. Raises `FrameError` with the reason, also for many requests in a long frame."""
    if len(payload) > REQUESTS_BYTES_MAX and requests_in(payload) != 1:
        raise FrameError(
            f"a frame of {len(payload)} bytes that is not one publication: expected at most "
            f"{REQUESTS_BYTES_MAX}"
        )
    return decode(payload, requests_later=True)


def check_requests(requests: tuple[Request, ...]) -> None:
    """Check requests that `decode` left unchecked. Raises `FrameError` with the reason."""
    try:
        _check_requests(Requests(requests))
    except BywayError as error:
        raise FrameError(str(error)) from error


def requests_in(payload: bytes | memoryview) -> int | None:
    """The number of requests in a client's frame, without decoding them; None: it is not a frame of
    requests, or is encoded differently than byway does."""
    if len(payload) < _REQUESTS_BYTES or payload[: len(_REQUESTS)] != _REQUESTS:
        return None
    kind = payload[len(_REQUESTS)]
    if kind & 0xF0 == 0x90:  # an array of up to 15
        return kind & 0x0F
    size = {0xDC: 2, 0xDD: 4}.get(kind)
    if size is None:
        return None
    at = len(_REQUESTS) + 1
    return int.from_bytes(payload[at : at + size], "big")


def _check_messages(messages: Iterable[Message]) -> None:
    for message in messages:
        if type(message) is Publish:
            continue
        if isinstance(message, Subscribe | Advertise | Unadvertise):
            check_filter(message.filter)
        elif isinstance(message, SubscribeMany):
            _check_messages(message.subscriptions)
        elif isinstance(message, Unsubscribe) and message.hints:
            _check_hints(message)


def _check_lengths(messages: Iterable[Message]) -> None:
    for message in messages:
        if type(message) is not Publish:  # whose body has a bound of its own
            size = len(_encoder.encode(message))
            if size > MESSAGE_BYTES_MAX:
                kind = type(message).__name__
                raise InvalidValueError(
                    f"{kind} of {size} bytes: expected at most {MESSAGE_BYTES_MAX}"
                )


def _check_hints(message: Unsubscribe) -> None:
    if len(message.hints) != len(message.ids):
        raise InvalidValueError(f"{len(message.hints)} hints for {len(message.ids)} ids")
    if not message.similarities:
        raise InvalidValueError("hints without similarities")
    for hints in message.hints:
        for hint in hints:
            if len(hint.distances) != len(message.similarities):
                raise InvalidValueError(
                    f"{len(hint.distances)} distances for {len(message.similarities)} similarities"
                )


def _check_requests(frame: Requests) -> None:
    for request in frame.requests:
        if isinstance(request, SubscribeRequest | AdvertiseRequest):
            check_filter(request.filter)
