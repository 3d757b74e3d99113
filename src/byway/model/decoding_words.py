"""Why a text cannot be decoded, in words of this project instead of the decoder's own."""

from __future__ import annotations

import re
from typing import Final

_KINDS: Final = {
    "object": "an object",
    "array": "an array",
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "null": "null",
}
_TRUNCATED: Final = "Input data was truncated"
_MALFORMED: Final = re.compile(r"(?:JSON|MessagePack data) is malformed: (.*) \(byte ([0-9]+)\)")
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_PLACE: Final = re.compile(r"(.*) - at `(?:key in )?\$\.?([^`]*)`")


def decoding_reason(error: Exception) -> str:
    """What is wrong with a text that msgspec, or the UTF-8 decoder, has refused."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text, place = str(error), ""
    if found := _PLACE.fullmatch(text):
        text, place = found[1], found[2]
    where = f" at {place}" if place and "..." not in place else ""
    return _sentence(text) + where


def _sentence(text: str) -> str:
    if text == _TRUNCATED:
        return "the text ends too early"
    if found := _MALFORMED.fullmatch(text):
        return f"{found[1]} at byte {found[2]}"
    if found := _EXPECTED.fullmatch(text):
        return f"expected {_kinds(found[1])}, found {_kinds(found[2])}"
    if found := _UNKNOWN.fullmatch(text):
        return f"unknown key {found[1]!r}"
    if found := _MISSING.fullmatch(text):
        return f"{found[1]!r} is missing"
    return text[:1].lower() + text[1:]


def _kinds(names: str) -> str:
    """What msgspec calls the kinds of values; an integer is not told apart from other numbers where
    both may be."""
    kinds = names.split(" | ")
    if "float" in kinds and "int" in kinds:
        kinds.remove("int")
    said = [_KINDS.get(kind, kind) for kind in kinds]
    return ", ".join(said[:-1]) + f" or {said[-1]}" if len(said) > 1 else said[0]
