"""Bytes on a connection: frames with a length in front, msgpack inside."""

from byway.wire.codec import FRAME_BYTES_MAX, decode, encode, encode_all, encode_counted
from byway.wire.frames import FrameReader

__all__ = ["FRAME_BYTES_MAX", "FrameReader", "decode", "encode", "encode_all", "encode_counted"]
