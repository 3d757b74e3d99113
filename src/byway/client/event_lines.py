"""Events as lines: the JSON objects that `byway sub` writes and `byway pub` reads, and lines in
columns for people.

Every line that is written can be published again: a publication is an object of plain attribute
values, or an object with these under `attributes` and its data under `data` (a text) or
`data_base64`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from byway.model.decoding_words import decoding_reason
from byway.model.errors import BywayError
from byway.model.values import Value
from byway.model.writing import name_text, value_text
from byway.session.events import Event

WIDTH_MAX: Final = 40
"""Attributes up to this width are aligned in columns."""


class LineError(BywayError):
    """A line that is not a publication."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


class EventLine(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One event. A line to be published may have all of these keys; those other than attributes and
    data are ignored."""

    attributes: dict[str, bool | int | float | str]
    data: str | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    """In place of `data`, if the data is not UTF-8."""
    publisher: str | UnsetType = UNSET
    incarnation: int | UnsetType = UNSET
    sequence: int | UnsetType = UNSET
    hops: int | UnsetType = UNSET
    published_at: datetime | UnsetType = UNSET
    subscriptions: tuple[str, ...] | UnsetType = UNSET


_encode: Final = msgspec.json.Encoder().encode
_decode_plain: Final = msgspec.json.Decoder(dict[str, bool | int | float | str]).decode
_decode_event: Final = msgspec.json.Decoder(EventLine).decode


# --- JSON ----------------------------------------------------------------------------------------


def json_line(event: Event) -> bytes:
    """An event as one line of JSON, without the line feed."""
    line = EventLine(
        attributes=event.attributes,
        publisher=event.publisher,
        incarnation=event.incarnation,
        sequence=event.sequence,
        hops=event.hops,
        published_at=event.published_at,
        subscriptions=event.subscriptions,
    )
    try:
        line.data = event.data.decode()
    except UnicodeDecodeError:
        line.data_base64 = event.data
    return _encode(line)


def read_publication(text: bytes | str, line: int) -> tuple[dict[str, Value], bytes]:
    """Attributes and data of a line. Raises `LineError`."""
    try:
        return _decode_plain(text), b""
    except msgspec.ValidationError as error:
        plain_reason = decoding_reason(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LineError(line, f"not JSON: {decoding_reason(error)}") from None
    try:
        event = _decode_event(text)
    except msgspec.ValidationError as error:
        reason = decoding_reason(error) if _is_event(text) else plain_reason
        raise LineError(line, f"not the attributes of a publication: {reason}") from None
    if isinstance(event.data, str):
        if event.data_base64 is not UNSET:
            raise LineError(line, "both `data` and `data_base64` are given")
        return event.attributes, event.data.encode(errors="surrogatepass")
    data = event.data_base64
    return event.attributes, b"" if data is UNSET else data


def _is_event(text: bytes | str) -> bool:
    """Whether the object has its attributes under the key `attributes`."""
    decoded = msgspec.json.decode(text)
    return isinstance(decoded, dict) and isinstance(decoded.get("attributes"), dict)


# --- for people ----------------------------------------------------------------------------------


class Columns:
    """Writes events as lines in which an attribute keeps its column."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def line(self, event: Event) -> str:
        """An event as one line, without the line feed."""
        cells = [self._cell("", f"{event.publisher} #{event.sequence}")]
        for name, value in event.attributes.items():
            cells.append(self._cell(name, f"{name_text(name)}={value_text(value)}"))
        if event.data:
            size = len(event.data)
            cells.append(f"({size:,} byte{'' if size == 1 else 's'} of data)")
        return "  ".join(cells).rstrip()

    def _cell(self, name: str, text: str) -> str:
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        width = max(self._widths.get(name, 0), min(len(text), WIDTH_MAX))
        self._widths[name] = width
        return text.ljust(width)
