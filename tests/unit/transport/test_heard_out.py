"""A connection that is closed while its peer sends: what was written before still arrives. (Closed
without `heard_out`, the connection is reset here, and most of the frames are lost.)"""

import asyncio
import socket

from byway.model.messages import (
    PROTOCOL_VERSION,
    AnyFrame,
    Batch,
    Disconnect,
    Goodbye,
    KeepAlive,
    Lane,
    Preamble,
)
from byway.transport.connection import Connection
from byway.wire import FRAME_BYTES_MAX, FrameReader, decode, encode

WRITTEN = 800
"""Frames of 4 kB each: more than the buffers of the system take."""


class Owner:
    """Closes a connection as soon as its peer has said who it is, after many frames."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.closed, self.lost_one = asyncio.Event(), asyncio.Event()

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        del peer
        for number in range(WRITTEN):
            connection.send(Batch(Lane.CONTROL, number + 1, (Disconnect("x" * 4_000),)))
        connection.close("enough", heard_out=True)
        self.closed.set()

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        raise AssertionError(f"{frame} after the end of {connection}")

    def drained(self, connection: Connection) -> None:
        """Nothing waits."""

    def lost(self, connection: Connection, reason: str) -> None:
        del connection
        self.reasons.append(reason)
        self.lost_one.set()


def preamble(name: str) -> Preamble:
    return Preamble(PROTOCOL_VERSION, "broker", name, 1, FRAME_BYTES_MAX, 5_000)


def read_all(peer: socket.socket) -> list[AnyFrame]:
    reader, heard = FrameReader(FRAME_BYTES_MAX), []
    try:
        while data := peer.recv(65_536):
            heard += map(decode, reader.feed(data))
    except ConnectionResetError:
        pass
    return heard


def test_all_that_was_written_arrives_if_the_peer_is_heard_out() -> None:
    async def main() -> list[AnyFrame]:
        loop, owner = asyncio.get_running_loop(), Owner()
        server = await loop.create_server(
            lambda: Connection(owner, preamble("B1"), dialled=False), "127.0.0.1", 0
        )
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        peer.settimeout(10)
        with peer:
            await asyncio.to_thread(peer.connect, server.sockets[0].getsockname())
            flood = bytes(encode(preamble("B2"))) + bytes(encode(KeepAlive())) * 2_000
            peer.sendall(flood)
            await asyncio.wait_for(owner.closed.wait(), 10)
            peer.sendall(bytes(encode(KeepAlive())) * 2_000)
            heard = await asyncio.to_thread(read_all, peer)
        await asyncio.wait_for(owner.lost_one.wait(), 10)
        assert owner.reasons == ["enough"]
        server.close()
        return heard

    heard = asyncio.run(main())
    assert heard[-1] == Goodbye("enough")
    assert len(heard) == WRITTEN + 2  # with the preamble
