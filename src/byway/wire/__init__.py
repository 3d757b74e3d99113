"""Bytes on a connection: frames with a length in front, msgpack inside."""

from byway.wire.codec import (
    FRAME_BYTES_MAX,
    REQUESTS_BYTES_MAX,
    check_requests,
    decode,
    encode,
    encode_all,
    encode_counted,
    requests_in,
)
from byway.wire.frames import FrameReader

__all__ = [
    "FRAME_BYTES_MAX",
    "REQUESTS_BYTES_MAX",
    "FrameReader",
    "check_requests",
    "decode",
    "encode",
    "encode_all",
    "encode_counted",
    "requests_in",
]
