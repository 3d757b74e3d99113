"""What is said of a text that cannot be decoded: no word of the decoder's own."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.model.decoding_words import decoding_reason


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    attributes: dict[str, bool | int | float | str]
    data: str = ""


def reason_of(text: str | bytes, kind: type = Shape) -> str:
    with pytest.raises((msgspec.MsgspecError, UnicodeError, RecursionError)) as caught:
        msgspec.json.decode(text, type=kind)
    return decoding_reason(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the text ends too early"),
        ('{"attributes": {', "the text ends too early"),
        ('{"attributes" 1}', "expected ':' at byte 14"),
        ('{"attributes": {}} x', "trailing characters at byte 20"),
        ("[1]", "expected an object, found an array"),
        ("3", "expected an object, found an integer"),
        (
            '{"attributes": {"a": null}}',
            "expected true or false, a number or a text, found null",
        ),
        ('{"attributes": {}, "data": 3}', "expected a text, found an integer at data"),
        ('{"attributes": {}, "date": ""}', "unknown key 'date'"),
        ("{}", "'attributes' is missing"),
        ('{"attributes": {"a": 1e999}}', "number out of range"),
        (b'{"attributes": {}, "data": "\xff"}', "not UTF-8 at byte 0"),
    ],
)
def test_reasons_are_plain(text: str | bytes, reason: str) -> None:
    assert reason_of(text) == reason


def test_what_is_nested_too_deeply() -> None:
    assert reason_of('{"a":' * 100_000, dict) == "nested too deeply"


@given(st.text(max_size=30))
def test_no_reason_has_the_signs_of_the_decoder(text: str) -> None:
    try:
        msgspec.json.decode(text, type=Shape)
    except (msgspec.MsgspecError, UnicodeError) as error:
        reason = decoding_reason(error)
        assert not set("`$") & set(reason)
        assert "msgspec" not in reason
        assert "got" not in reason.split()
