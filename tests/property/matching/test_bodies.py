"""Bodies that kernels read: as those that are decoded first, and nothing that is no publication."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from byway.core.bodies import read
from byway.matching import MatchIndex, NaiveIndex, Vocabulary
from byway.model import TRUE, BywayError, parse
from byway.model.messages import Body
from byway.model.values import ATTRIBUTES_MAX, STRING_LENGTH_MAX, check_sizes
from tests.hostile.values import bodies
from tests.strategies import filters, publications

EXACT = 2**53
ATTRIBUTES_READ = 64
"""Attributes that a plain body may have."""


def encode(attributes: dict[str, Any], data: bytes = b"") -> bytes:
    return msgspec.msgpack.encode(Body(attributes, data))


def is_plain(attributes: dict[str, Any]) -> bool:
    return len(attributes) <= ATTRIBUTES_READ and all(
        name.isascii() and (value.isascii() if isinstance(value, str) else
                            not isinstance(value, int) or -EXACT <= value <= EXACT)
        for name, value in attributes.items()
    )  # fmt: skip


def answers(index: MatchIndex, oracle: NaiveIndex, body: bytes, exclude: int | None) -> None:
    """A body is answered for as the oracle does, or not at all."""
    found = index.match_body(body, exclude)
    if found is None:
        return
    attributes = read(body)  # what is answered for is a publication
    check_sizes(attributes, len(body))
    mask, matched, local, several = oracle.match_routes(attributes, exclude)
    assert (*found[:2], sorted(found[2]), found[3]) == (mask, matched, sorted(local), several)


TABLES = st.lists(st.tuples(filters(), st.one_of(st.none(), st.integers(0, 70))), max_size=20)


def pair_of(table: Any) -> tuple[MatchIndex, NaiveIndex]:
    index, oracle = MatchIndex(Vocabulary()), NaiveIndex()
    for key, (wanted, link) in enumerate(table):
        index.add(key, wanted, link)
        oracle.add(key, wanted, link)
    return index, oracle


@given(TABLES, st.lists(publications(), min_size=1, max_size=6), st.integers(0, 70), st.binary())
def test_a_plain_body_is_read(table, events, exclude, data):
    index, oracle = pair_of(table)
    for event in events:
        body = encode(event, data)
        answers(index, oracle, body, exclude)
        answers(index, oracle, body, None)
        if is_plain(event):
            assert index.match_body(body, exclude) is not None


@settings(max_examples=400)
@given(TABLES, publications(), st.data())
def test_a_body_that_was_tampered_with(table, event, data):
    index, oracle = pair_of(table)
    body = bytearray(encode(event, b"some data"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        kind = data.draw(st.sampled_from(["change", "insert", "delete", "cut"]))
        byte = data.draw(st.one_of(st.integers(0, 255), st.integers(0x80, 0xDF)))
        if kind == "change" and at < len(body):
            body[at] = byte
        elif kind == "insert":
            body.insert(at, byte)
        elif kind == "delete" and at < len(body):
            del body[at]
        elif kind == "cut":
            del body[at:]
    answers(index, oracle, bytes(body), None)


@given(TABLES, st.binary(max_size=40))
@example([], b"")
@example([], b"\x92")
@example([], b"\x92\xde\xff\xff")
@example([], b"\x92\x81\xda\xff")
def test_any_bytes(table, body):
    index, oracle = pair_of(table)
    answers(index, oracle, body, None)
    answers(index, oracle, b"\x92" + body, None)


@pytest.mark.parametrize("number", range(len(bodies())))
def test_bodies_of_hostile_peers(number):
    index, oracle = pair_of([(TRUE, None), (parse("n = 1 OR s LIKE 'ab%'"), 3)])
    body = bodies()[number]
    answers(index, oracle, body, None)
    try:
        check_sizes(read(body), len(body))
    except (msgspec.DecodeError, BywayError):
        assert index.match_body(body, None) is None


@pytest.mark.parametrize(
    ("attributes", "is_read"),
    [
        ({}, True),
        ({"n": 1}, True),
        ({"n": EXACT}, True),
        ({"n": -EXACT}, True),
        ({"n": EXACT + 1}, False),
        ({"n": -EXACT - 1}, False),
        ({"n": -(2**63)}, False),
        ({"n": 2**63 - 1}, False),
        ({"n": float("nan")}, True),
        ({"n": float("-inf")}, True),
        ({"s": "x" * 31}, True),
        ({"s": "x" * 32}, True),
        ({"s": "x" * 255}, True),
        ({"s": "x" * 256}, True),
        ({"s": "x" * (STRING_LENGTH_MAX - 1)}, True),
        ({"s": "x" * (STRING_LENGTH_MAX + 1)}, False),
        ({"s": "\N{LATIN SMALL LETTER U WITH DIAERESIS}"}, False),
        ({"\N{LATIN SMALL LETTER U WITH DIAERESIS}": 1}, False),
        ({"x" * 255: 1}, True),
        ({"x" * 256: 1}, False),
        ({"": 1}, False),
        ({f"a{n}": n for n in range(ATTRIBUTES_READ)}, True),
        ({f"a{n}": n for n in range(ATTRIBUTES_READ + 1)}, False),
        ({f"a{n}": n for n in range(ATTRIBUTES_MAX + 1)}, False),
    ],
)
def test_what_is_plain(attributes, is_read):
    index, oracle = pair_of([(TRUE, None)])
    assert (index.match_body(encode(attributes)) is not None) == is_read
    answers(index, oracle, encode(attributes), None)


def test_an_attribute_that_comes_twice_is_not_plain():
    index, _ = pair_of([(parse("n = 1"), None)])
    assert index.match_body(b"\x92\x82\xa1n\x01\xa1n\x02\xc4\x00") is None
    found = index.match_body(b"\x92\x82\xa1m\x01\xa1m\x02\xc4\x00")
    assert found is not None  # no filter uses it, so neither value is looked at
    assert not found[1]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 4_095, 4_096, 4_097])
def test_texts_that_filters_look_into(length):
    index, oracle = pair_of([(parse("s LIKE '%b'"), None), (parse("s LIKE 'a%'"), 2)])
    event = {"n": 1, "s": "a" * length + "b", "m": 2}
    answers(index, oracle, encode(event), None)
    assert (index.match_body(encode(event)) is not None) == (length < 4_096)


def test_only_bytes_are_bodies():
    index, _ = pair_of([])
    for wrong in ("text", 5, bytearray(b"\x92\x80\xc4\x00"), None):
        with pytest.raises(TypeError):
            index.match_body(wrong)  # type: ignore[arg-type]
