"""Events as lines: what is written can be read, and what cannot be read is named."""

import json
import os

import msgspec
import pytest

from byway.client.event_lines import Columns, LineError, json_line, read_publication
from byway.client.standard_input import lines_of
from byway.model.messages import Body, Publish
from byway.session.events import Event
from tests.integration.loops import in_loop


def event(attributes: dict, data: bytes = b"", sequence: int = 2) -> Event:
    body = msgspec.msgpack.encode(Body(attributes, data))
    return Event(Publish("quotes", 17, sequence, 1_500_000, 3, 1, 4, body), ("a", "b"))


def test_the_shape_of_a_line() -> None:
    line = json_line(event({"symbol": "YHOO", "price": 19.5, "n": 3, "open": True}, b"some text"))
    assert line == (
        b'{"attributes":{"symbol":"YHOO","price":19.5,"n":3,"open":true},"data":"some text",'
        b'"publisher":"quotes","incarnation":17,"sequence":2,"hops":3,'
        b'"published_at":"1970-01-01T00:00:01.500000Z","subscriptions":["a","b"]}'
    )


@pytest.mark.parametrize("data", [b"", b"text", "ü".encode(), b"\xff\x00", b"line\nend\n"])
def test_what_is_written_can_be_read(data: bytes) -> None:
    attributes = {"a b": 1, "attributes": "x", "data": -0.5, "yes": False, "": "no"}
    line = json_line(event(attributes, data))
    assert b"\n" not in line
    assert read_publication(line, 1) == (attributes, data)
    assert ("data" in json.loads(line)) is not ("data_base64" in json.loads(line))


@pytest.mark.parametrize(
    ("text", "publication"),
    [
        (b'{"a": 1}', ({"a": 1}, b"")),
        ('{"a": "ü"}', ({"a": "ü"}, b"")),
        (b"{}", ({}, b"")),
        (b'{"attributes": 1, "data": "x"}', ({"attributes": 1, "data": "x"}, b"")),
        (b'{"attributes": {"a": 1}}', ({"a": 1}, b"")),
        (b'{"attributes": {"a": 1}, "data_base64": "/w=="}', ({"a": 1}, b"\xff")),
    ],
)
def test_what_can_be_published(text: bytes | str, publication: tuple) -> None:
    assert read_publication(text, 1) == publication


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "expected an object, found an array"),
        (b"7", "expected an object, found an integer"),
        (b'{"a": null}', "found null"),
        (b'{"a": [1]}', "found an array"),
        (b'{"a": {"attributes": 1}}', "found an object"),
        (b'{"attributes": {"a": null}}', "true or false, a number or a text, found null"),
        (b'{"attributes": {"a": 1}, "dat": ""}', "unknown key 'dat'"),
        (b'{"attributes": {"a": 1}, "data_base64": "%"}', "invalid base64"),
        (b'{"attributes": {}, "data": "", "data_base64": ""}', "both `data` and `data_base64`"),
    ],
)
def test_what_is_no_publication_is_named(text: bytes, reason: str) -> None:
    with pytest.raises(LineError) as caught:
        read_publication(text, 12)
    assert str(caught.value).startswith("line 12: ")
    assert reason in caught.value.reason


def test_attributes_are_lined_up() -> None:
    columns = Columns()
    lines = [
        columns.line(event({"symbol": "YHOO", "price": 19.5}, b"xy", 9)),
        columns.line(event({"symbol": "IBM", "price": 7}, b"x", 10)),
        columns.line(event({"price": 8, "a b": "\x1b[2J\n"}, sequence=11)),
    ]
    assert lines == [
        "quotes #9  symbol='YHOO'  price=19.5  (2 bytes of data)",
        "quotes #10  symbol='IBM'   price=7     (1 byte of data)",
        "quotes #11  price=8     \"a b\"='\\x1b[2J\\n'",
    ]


@in_loop
async def test_lines_come_with_their_numbers() -> None:
    read, write = os.pipe()
    try:
        os.write(write, b"a\n\nb")
        lines = lines_of(read)
        assert await anext(lines) == [(1, b"a"), (2, b"")]
        os.write(write, b"c\nlast")
        assert await anext(lines) == [(3, b"bc")]
        os.close(write)
        assert [some async for some in lines] == [[(4, b"last")]]
    finally:
        os.close(read)


@in_loop
async def test_a_file_that_cannot_be_read_is_an_error() -> None:
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    with pytest.raises(OSError, match="Bad file descriptor"):
        await anext(lines_of(read))
