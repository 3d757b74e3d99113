"""A dialler that gives a connection up at the moment the other broker answers."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from byway.model.addresses import Address
from byway.model.messages import PROTOCOL_VERSION, AnyFrame, Preamble
from byway.runtime.dialling import Dialler
from byway.transport.connection import Connection
from byway.wire import FRAME_BYTES_MAX

OWN = Preamble(PROTOCOL_VERSION, "broker", "B1", 1, FRAME_BYTES_MAX, 5_000)


class Owner:
    """Hears nothing but the end."""

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        raise AssertionError(f"{peer} at {connection}")

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        raise AssertionError(f"{frame} from {connection}")

    def drained(self, connection: Connection) -> None:
        """Nothing waits."""

    def lost(self, connection: Connection, reason: str) -> None:
        """It may be told or not: the dialler knows already."""


@pytest.mark.parametrize(
    "make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_a_connection_is_given_up_while_it_is_made(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The event loop has closed it then; with uvloop, the goodbye raised in the dialling task."""
    made: list[Connection] = []

    class Late(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            made.append(self)
            dialling.cancel()

    async def main() -> None:
        nonlocal dialling
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        unidentified: dict[Connection, None] = {}
        links: Any = SimpleNamespace(dialled={})  # all that is used of the links
        limits, acceptance = (SimpleNamespace(),) * 2
        dialler = Dialler(limits, links, acceptance, unidentified, lambda: made[0])  # type: ignore[arg-type]
        address = Address(*server.sockets[0].getsockname())
        late = Late(Owner(), OWN, dialled=True)
        dialling = loop.create_task(dialler.connect(late, address, None))
        try:
            with pytest.raises(asyncio.CancelledError):
                await dialling
        finally:
            server.close()
        assert made == [late]
        assert not unidentified
        assert not links.dialled

    dialling: asyncio.Task[OSError | None]
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(asyncio.wait_for(main(), 20))
