"""Bytes on a connection: frames with a length in front, msgpack inside."""

from byway.wire.codec import (
    FRAME_BYTES_MAX,
    REQUESTS_BYTES_MAX,
    check_requests,
    decode,
    decode_from_client,
    encode,
    encode_all,
    encode_counted,
    requests_in,
)
from byway.wire.frames import (
    FRAME_BYTES_LEAST,
    GREETING_BYTES_MAX,
    UNIDENTIFIED_BYTES_MAX,
    FrameReader,
)

__all__ = [
    "FRAME_BYTES_LEAST",
    "FRAME_BYTES_MAX",
    "GREETING_BYTES_MAX",
    "REQUESTS_BYTES_MAX",
    "UNIDENTIFIED_BYTES_MAX",
    "FrameReader",
    "check_requests",
    "decode",
    "decode_from_client",
    "encode",
    "encode_all",
    "encode_counted",
    "requests_in",
]
