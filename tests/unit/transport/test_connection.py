"""A connection: who speaks first, in which version, and what is never sent."""

import asyncio

import msgspec
import pytest

from byway.model.bounds import REASON_LENGTH_MAX
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    AnyFrame,
    Goodbye,
    KeepAlive,
    Preamble,
    Status,
)
from byway.transport.connection import Connection
from byway.wire import FRAME_BYTES_LEAST, FRAME_BYTES_MAX, FrameReader, decode, encode

BROKER = Preamble(PROTOCOL_VERSION, "broker", "B1", 1, FRAME_BYTES_MAX, 5_000)
OTHER = Preamble(PROTOCOL_VERSION, "broker", "B2", 1, FRAME_BYTES_MAX, 5_000)
OLDER, NEWER = PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1
B1_EXPECTED = f"broker B1 expected version {PROTOCOL_VERSION}"
OTHER_SPEAKS = f"broker B2 speaks version {PROTOCOL_VERSION}"
CLIENT = Preamble(CLIENT_PROTOCOL_VERSION, "client", "c", 1, FRAME_BYTES_LEAST, 5_000)


class Wire(asyncio.Transport):
    """What is written is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def get_extra_info(self, name: str, default: object = None) -> object:
        del name
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data

    def is_reading(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    @property
    def said(self) -> list[AnyFrame]:
        return [decode(payload) for payload in FrameReader(2**30).feed(self.data)]


class Owner:
    """Hears what a connection tells."""

    def __init__(self) -> None:
        self.peers: list[Preamble] = []

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        del connection
        self.peers.append(peer)

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        del connection, frame

    def drained(self, connection: Connection) -> None:
        del connection

    def lost(self, connection: Connection, reason: str) -> None:
        del connection, reason


def connected(own: Preamble, dialled: bool, *heard: AnyFrame) -> tuple[Connection, Wire, Owner]:
    owner, wire = Owner(), Wire()

    async def connect() -> Connection:
        connection = Connection(owner, own, dialled)
        connection.connection_made(wire)
        for frame in heard:
            connection.data_received(bytes(encode(frame)))
        return connection

    return asyncio.run(connect()), wire, owner


def version(preamble: Preamble, number: int) -> Preamble:
    return msgspec.structs.replace(preamble, version=number)


def test_who_dialled_speaks_first() -> None:
    assert connected(BROKER, True)[1].said == [BROKER]
    assert connected(BROKER, False)[1].said == []


def test_who_was_dialled_answers_with_the_version_of_the_role() -> None:
    for peer, number in ((OTHER, PROTOCOL_VERSION), (CLIENT, CLIENT_PROTOCOL_VERSION)):
        _, wire, owner = connected(BROKER, False, peer)
        assert wire.said == [version(BROKER, number)]
        assert owner.peers == [peer]


@pytest.mark.parametrize(
    ("own", "dialled", "peer", "found", "expected"),
    [
        (BROKER, False, version(OTHER, OLDER), f"broker B2 speaks version {OLDER}", B1_EXPECTED),
        (BROKER, True, version(OTHER, OLDER), f"broker B2 speaks version {OLDER}", B1_EXPECTED),
        (BROKER, True, version(OTHER, NEWER), f"broker B2 speaks version {NEWER}", B1_EXPECTED),
        (BROKER, False, version(CLIENT, 2), "client c speaks version 2", B1_EXPECTED[:-1] + "1"),
        (CLIENT, True, OTHER, OTHER_SPEAKS, "client c expected version 1"),
    ],
)
def test_another_version_is_refused_with_both_named(own, dialled, peer, found, expected) -> None:
    connection, wire, owner = connected(own, dialled, peer)
    reason = f"{found}, {expected}"
    assert wire.said[-1] == Goodbye(reason)
    assert isinstance(wire.said[0], Preamble)
    assert (connection.refusal, connection.open, owner.peers) == (reason, False, [])


def test_a_broker_reads_frames_of_full_length() -> None:
    short = msgspec.structs.replace(OTHER, frame_bytes_max=FRAME_BYTES_MAX - 1)
    _, wire, owner = connected(BROKER, False, short)
    assert "expected at least 4194304" in wire.said[-1].reason
    assert owner.peers == []
    assert connected(BROKER, False, CLIENT)[2].peers == [CLIENT]


def test_nothing_is_said_before_the_preamble() -> None:
    connection, wire, _ = connected(BROKER, False)
    connection.keep_alive(connection.began, 10.0)
    assert wire.said == []

    async def close() -> None:
        connection._loop = asyncio.get_running_loop()
        connection.close("x" * 10_000)

    asyncio.run(close())
    preamble, goodbye = wire.said
    assert isinstance(preamble, Preamble)
    assert len(goodbye.reason) == REASON_LENGTH_MAX
    assert wire.closed


@pytest.mark.parametrize("way", ["send", "send_large", "send_data"])
def test_a_frame_that_is_too_long_for_the_peer_is_not_sent(way: str) -> None:
    """The connection ends for good instead, so that it is not tried again and again."""
    connection, wire, _ = connected(BROKER, False, CLIENT)
    status = Status(bytes(FRAME_BYTES_LEAST - 20))

    async def send() -> None:
        connection._loop = asyncio.get_running_loop()
        getattr(connection, way)(status)
        getattr(connection, way)(KeepAlive())
        assert wire.said[-2:] == [status, KeepAlive()]
        getattr(connection, way)(Status(bytes(FRAME_BYTES_LEAST)))
        getattr(connection, way)(KeepAlive())

    asyncio.run(send())
    goodbye = wire.said[-1]
    assert goodbye == Goodbye("a frame of 2097167 bytes is due, the peer reads 2097152", True)
    assert connection.was_cut
    assert len(wire.data) < 2 * FRAME_BYTES_LEAST
