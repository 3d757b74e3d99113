"""Frames as bytes: the real codec on every hop of a world, between brokers and to clients.

A frame is split and encoded as a process would write it, and read as a process would read it: the
length in front, the bounds on what a peer may send before and after it was accepted, the checks of
a client's requests. What cannot be sent or read closes the connection, and is a breach of protocol.
This module decides nothing about when frames arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from byway.model.errors import FrameError
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    DATA,
    PROTOCOL_VERSION,
    AnyFrame,
    Batch,
    ClientHello,
    Frame,
    Hello,
    Preamble,
    Requests,
)
from byway.sim.engine.client_wire import KEEPALIVE_MS, ClientWire
from byway.sim.engine.network import Channel, QueuedFrame
from byway.wire import (
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    UNIDENTIFIED_BYTES_MAX,
    FrameReader,
    check_requests,
    decode,
    decode_from_client,
    encode,
    encode_all,
    encode_counted,
)
from byway.wire.frames import HEADER_BYTES

READ_BYTES: Final = 65_536
"""The most bytes that arrive at once."""

Refuse = Callable[[str], None]
"""Closes a connection, for the reason given."""


def payload_of(reader: FrameReader, data: bytes | bytearray) -> bytes | memoryview:
    """The payload of a frame that arrives in pieces. Raises `FrameError` if it is too long."""
    if len(data) <= READ_BYTES:
        reader.put(bytes(data))
        payload = reader.next()
    else:
        view, payload = memoryview(bytes(data)), None
        for at in range(0, len(data), READ_BYTES):
            reader.put(view[at : at + READ_BYTES])
            payload = reader.next()
    assert payload is not None, "a frame is complete when its last byte has arrived"
    return payload


def broker_preamble(name: str, incarnation: int) -> Preamble:
    """What a broker says first on a connection."""
    return Preamble(PROTOCOL_VERSION, "broker", name, incarnation, FRAME_BYTES_MAX, KEEPALIVE_MS)


def greeting(preamble: Preamble, hello: Hello) -> Hello:
    """A broker's `Hello` as its neighbour reads it, after the preamble. Raises `FrameError`."""
    reader = FrameReader(UNIDENTIFIED_BYTES_MAX)
    decode(payload_of(reader, encode(preamble)))
    reader.bytes_max = GREETING_BYTES_MAX
    found = decode(payload_of(reader, encode(hello)))
    assert isinstance(found, Hello)
    return found


class EncodedChannel(Channel):
    """One direction of a connection between brokers that carries bytes.

    `unsendable` closes the connection at the sender, `unreadable` at the receiver.
    """

    __slots__ = ("_limited", "_reader", "_unreadable", "_unsendable")

    def __init__(self, *channel: Any, unsendable: Refuse, unreadable: Refuse) -> None:
        super().__init__(*channel)
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._unsendable = unsendable
        self._unreadable = unreadable
        self._limited = self.is_limited
        self.send = self._send_encoded

    def _send_encoded(self, frame: Frame) -> None:
        is_batch = isinstance(frame, Batch)
        is_data = isinstance(frame, Batch) and frame.lane is DATA
        for data, messages in encode_counted(frame):
            size_bytes = len(data)
            if size_bytes > HEADER_BYTES + FRAME_BYTES_MAX:
                self._unsendable(f"is due a frame of {size_bytes} bytes, and reads shorter ones")
                return
            if self._limited:
                self._put(QueuedFrame(data, size_bytes, messages if is_batch else 0, is_data))
            else:
                self.bytes_sent += size_bytes
                self._depart(data)

    def _arrive(self, frame: bytearray) -> None:
        if not self.open:
            return
        try:
            found = decode(payload_of(self._reader, frame))
        except FrameError as error:
            self._unreadable(f"sends what cannot be read: {error}")
            return
        self._receive(self.link, found)  # type: ignore[arg-type]


class EncodedClientWire(ClientWire):
    """A connection between a client and its broker that carries bytes."""

    __slots__ = ("_of_broker", "_of_client")

    is_encoded = True

    def __init__(self, *wire: Any) -> None:
        super().__init__(*wire)
        self._of_client = FrameReader(UNIDENTIFIED_BYTES_MAX)
        self._of_broker = FrameReader(FRAME_BYTES_MAX)

    def _greet(self, peer: Preamble) -> None:
        """Each end reads the preamble of the other."""
        own = Preamble(
            CLIENT_PROTOCOL_VERSION, "client", self.client.name, self.incarnation,
            FRAME_BYTES_MAX, KEEPALIVE_MS,
        )  # fmt: skip
        decode_from_client(payload_of(self._of_client, encode(own)))
        found = decode(payload_of(self._of_broker, encode(peer)))
        assert isinstance(found, Preamble)
        super()._greet(found)

    # --- to the broker ---------------------------------------------------------------------------

    def send(self, frame: AnyFrame) -> None:
        """The client sends a frame, as several if it is long."""
        for data in encode_all(frame):
            if len(data) > HEADER_BYTES + FRAME_BYTES_MAX:
                self._refuse(f"has a frame of {len(data)} bytes to send")
                return
            self._after_latency(self._on_bytes, data)

    def _on_bytes(self, data: bytearray) -> None:
        if self._is_broken or not self.open:
            return
        try:
            frame = decode_from_client(payload_of(self._of_client, data))
            if type(frame) is Requests:
                for request in frame.requests:
                    check_requests((request,))
        except FrameError as error:
            self._refuse(f"sends what cannot be read: {error}")
            return
        self._on_frame(frame)

    def _on_hello(self, hello: ClientHello) -> None:
        self._of_client.bytes_max = FRAME_BYTES_MAX  # the client is accepted, or not read from
        super()._on_hello(hello)

    # --- to the client ---------------------------------------------------------------------------

    def _tell(self, frame: AnyFrame) -> None:
        for data in encode_all(frame):
            if len(data) > HEADER_BYTES + FRAME_BYTES_MAX:
                self._refuse(f"is due a frame of {len(data)} bytes, and reads shorter ones")
                return
            self._after_latency(self._read_bytes, data)

    def _read_bytes(self, data: bytearray) -> None:
        if self._is_broken:
            return
        try:
            frame = decode(payload_of(self._of_broker, data))
        except FrameError as error:
            self._refuse(f"is sent what cannot be read: {error}")
            return
        self._arrive(frame)

    def _refuse(self, what: str) -> None:
        """Close the connection over bytes that one end must not send."""
        self.watch.breach(what)
        self.break_off(what)
