"""Why a connection cannot be made, as a person is told."""

import asyncio
import socket

import pytest

from byway.transport.os_words import os_reason


def reason_of(host: str, port: int) -> str:
    async def connect() -> None:
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)

    try:
        asyncio.run(connect())
    except OSError as error:
        return os_reason(error)
    pytest.fail("somebody listens there")


def closed_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_listens(host: str) -> None:
    assert reason_of(host, closed_port()) == "Connection refused"


def test_several_addresses_of_one_host() -> None:
    refused = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 7001, 0, 0), "
    error = OSError(refused + "[Errno 111] Connect call failed ('127.0.0.1', 7001)")
    assert os_reason(error) == "Connection refused"


def test_a_host_that_is_not_known() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert os_reason(error) == "Name or service not known"


def test_an_error_without_words() -> None:
    assert os_reason(ConnectionResetError()) == "ConnectionResetError"
