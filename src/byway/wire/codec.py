"""Frames as bytes and back: msgpack, with everything checked that the core relies on.

What comes out of `decode` is as good as what byway makes itself: types and tags fit, filters are in
canonical form, names and numbers within bounds. The body of a publication stays as it came; only
its home broker looks into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from byway.model.checking import check_filter
from byway.model.errors import BywayError, FrameError, InvalidValueError
from byway.model.messages import (
    Advertise,
    AdvertiseRequest,
    AnyFrame,
    Batch,
    Delivery,
    EntryId,
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

FRAME_BYTES_MAX: Final = 4_194_304
BODY_BYTES_MAX: Final = 1_048_576
NAME_LENGTH_MAX: Final = 256
"""Of brokers, clients, subscriptions and advertisements."""
HINTS_MAX: Final = 256
"""Publishers that one unsubscription tells about."""
SIMILARITIES_MAX: Final = 8
CHUNK_BYTES: Final = 262_144
"""A batch larger than this travels in several frames, so that control does not wait for it."""
_OVERHEAD_BYTES: Final = 64
_REQUESTS: Final = b"\x92\xa5c-ask"
"""How a frame of requests begins: an array of two, then its tag."""
_REQUESTS_BYTES: Final = len(_REQUESTS) + 5
REQUESTS_BYTES_MAX: Final = 2 * CHUNK_BYTES
"""A client's frame that is longer holds one publication and nothing else."""

T = TypeVar("T", Message, Reply, Request)

_encoder = msgspec.msgpack.Encoder()
_decode = msgspec.msgpack.Decoder(AnyFrame).decode


# --- out ---------------------------------------------------------------------------------------


def encode(frame: AnyFrame) -> bytearray:
    """A frame as bytes, length in front."""
    data = bytearray(256)
    _encoder.encode_into(frame, data, HEADER_BYTES)
    LENGTH.pack_into(data, 0, len(data) - HEADER_BYTES)
    return data


def encode_all(frame: AnyFrame) -> list[bytearray]:
    """The same, in several frames if it is a large batch."""
    return [data for data, _ in encode_counted(frame)]


def encode_counted(frame: AnyFrame) -> list[tuple[bytearray, int]]:
    """The same, each with the number of messages in it."""
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
    """About how many bytes it takes."""
    if isinstance(item, Publish | PublishRequest):
        return len(item.body) + _OVERHEAD_BYTES
    if isinstance(item, Delivery):
        return len(item.publication.body) + _OVERHEAD_BYTES
    return len(_encoder.encode(item))


# --- in ----------------------------------------------------------------------------------------


def decode(payload: bytes | memoryview, requests_later: bool = False) -> AnyFrame:
    """The frame in a payload. Raises `FrameError` with the reason.

    With `requests_later` a client's requests are read, but not checked: `check_requests` does that,
    for some of them at a time, since checking takes far longer than reading.
    """
    try:
        frame: AnyFrame = _decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FrameError(f"it cannot be read: {error}") from error
    try:
        if isinstance(frame, Batch):
            _check_messages(frame.messages)
        elif isinstance(frame, Requests) and not requests_later:
            _check_requests(frame)
    except BywayError as error:
        raise FrameError(str(error)) from error
    return frame


def check_requests(requests: tuple[Request, ...]) -> None:
    """Check requests that `decode` left unchecked. Raises `FrameError` with the reason."""
    try:
        _check_requests(Requests(requests))
    except BywayError as error:
        raise FrameError(str(error)) from error


def requests_in(payload: bytes | memoryview) -> int | None:
    """How many requests a client's frame has, without reading them; None: it has none, or is not
    written as byway writes it."""
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
        if isinstance(message, Publish):
            if len(message.body) > BODY_BYTES_MAX:
                raise InvalidValueError(f"a body of {len(message.body)} bytes")
        elif isinstance(message, Subscribe | Advertise | Unadvertise):
            _check_id(message.id)
            check_filter(message.filter)
        elif isinstance(message, SubscribeMany):
            _check_messages(message.subscriptions)
        elif isinstance(message, Unsubscribe) and message.hints:
            _check_hints(message)


def _check_hints(message: Unsubscribe) -> None:
    if len(message.hints) != len(message.ids):
        raise InvalidValueError(f"{len(message.hints)} hints for {len(message.ids)} ids")
    if not 0 < len(message.similarities) <= SIMILARITIES_MAX:
        raise InvalidValueError(
            f"{len(message.similarities)} similarities: expected 1 to {SIMILARITIES_MAX}"
        )
    if not all(0 <= similarity <= 1 for similarity in message.similarities):
        raise InvalidValueError("a similarity that is not between 0 and 1")
    for hints in message.hints:
        if len(hints) > HINTS_MAX:
            raise InvalidValueError(f"hints about {len(hints)} publishers: at most {HINTS_MAX}")
        for hint in hints:
            _check_text("publisher", hint.publisher)
            if len(hint.distances) != len(message.similarities):
                raise InvalidValueError(
                    f"{len(hint.distances)} distances for {len(message.similarities)} similarities"
                )


def _check_requests(frame: Requests) -> None:
    for request in frame.requests:
        if isinstance(request, SubscribeRequest | AdvertiseRequest):
            check_filter(request.filter)
            _check_text("name", request.name)


def _check_id(id: EntryId) -> None:
    _check_text("client", id.client)
    _check_text("name", id.name)


def _check_text(what: str, text: str) -> None:
    if not 0 < len(text) <= NAME_LENGTH_MAX:
        raise InvalidValueError(
            f"a {what} of {len(text)} characters: expected 1 to {NAME_LENGTH_MAX}"
        )
