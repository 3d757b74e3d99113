"""Settings of a client, and addresses as people write them."""

import asyncio
import subprocess
import sys

import pytest

import byway
from byway.client.client import parse_urls
from byway.client.client_driver import new_incarnation
from byway.model.errors import ConfigError
from byway.session.client_options import BrokerUrl


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("byway://127.0.0.1:7001", "127.0.0.1", 7001),
        ("byway://broker.example:1/", "broker.example", 1),
        ("byway://[::1]:7001", "::1", 7001),
        ("byway://127.0.0.1", "127.0.0.1", 7001),
    ],
)
def test_an_address(text, host, port) -> None:
    url = BrokerUrl.parse(text)
    assert (url.address.host, url.address.port, str(url)) == (host, port, text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:7002", "byway://127.0.0.1:7002"),
        ("localhost", "byway://localhost:7001"),
        ("[::1]", "byway://[::1]:7001"),
        ("broker.example:1/", "byway://broker.example:1"),
    ],
)
def test_the_scheme_may_be_left_out(text, url) -> None:
    assert str(BrokerUrl.parse(text)) == url
    assert BrokerUrl.parse(url).address == BrokerUrl.parse(text).address


def test_without_an_address_the_variable_counts(monkeypatch) -> None:
    monkeypatch.setenv("BYWAY_BROKER", "localhost:7009")
    assert [str(url) for url in parse_urls(None)] == ["byway://localhost:7009"]
    assert [str(url) for url in parse_urls("h")] == ["byway://h:7001"]
    monkeypatch.setenv("BYWAY_BROKER", "")
    assert [str(url) for url in parse_urls(None)] == ["byway://127.0.0.1:7001"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7001",
        "http://127.0.0.1:7001",
        "::1",
        "a b:7001",
        "byway://:7001",
        "byway://host:port",
        "byway://host:70000",
        "byway://user@host:7001",
        "byway://host/path:7001",
    ],
)
def test_what_is_no_address_is_named(text) -> None:
    with pytest.raises(ConfigError, match="expected host:port, such as localhost:7001") as caught:
        BrokerUrl.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"window": 0}, "window: expected an integer of at least 1, found 0"),
        ({"pending_bytes": -1}, "pending_bytes"),
        ({"session_ttl": -1.0}, "session_ttl: expected a number of at least 0, found -1.0"),
        ({"timeout": 0.0}, "timeout: expected a number above 0, found 0.0"),
        ({"retry": float("nan")}, "retry"),
        ({"name": ""}, "name: expected a string of 1 to 200 characters, found ''"),
        ({"name": "x" * 201}, "name: expected a string of 1 to 200 characters, found 'xxx"),
        ({"name": "\ud800"}, "name: found .* expected Unicode text"),
        ({"when_full": "shrug"}, "when_full: expected one of block, drop_oldest, found 'shrug'"),
        ({"url": []}, "at least one address"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(options, says) -> None:
    async def connect() -> None:
        byway.connect(**{"url": "byway://127.0.0.1:1", **options})

    with pytest.raises(ConfigError, match=says):
        asyncio.run(connect())


@pytest.mark.parametrize("options", [{"timeout": float("inf")}, {"session_ttl": 3}])
def test_a_client_may_wait_for_ever_and_for_whole_seconds(options) -> None:
    async def connect() -> None:
        byway.connect("byway://127.0.0.1:1", **options)

    asyncio.run(connect())


def test_a_client_has_a_name_of_its_own() -> None:
    async def names() -> set[str]:
        return {byway.connect("byway://127.0.0.1:1").name for _ in range(3)}

    made = asyncio.run(names())
    assert len(made) == 3
    assert all(name.startswith("client-") and len(name) == 15 for name in made)


def test_incarnations_rise() -> None:
    made = [new_incarnation() for _ in range(1_000)]
    assert made == sorted(set(made))


def test_a_client_does_without_the_machinery_of_a_broker() -> None:
    code = "import sys, byway; byway.connect; byway.blocking.connect; print('numba' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
