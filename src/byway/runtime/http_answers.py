"""What the operations port answers, and how a command is sent to it: the words of both sides.

The command line sends commands and needs no broker, so nothing here imports one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
COMMAND_HEADER: Final = "X-Byway-Command"


class Answer(NamedTuple):
    """The response to a request."""

    status: HTTPStatus
    body: bytes
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


Facts = dict[str, Any]
Paths = Mapping[str, Callable[[], Answer]]
Commands = Mapping[str, Callable[[Facts], Awaitable[Answer]]]
"""By path, the function that performs the command with the JSON object in its body. A command
bounds its own time."""


class Command(NamedTuple):
    """A command that may be performed."""

    path: str
    facts: Facts


def text_answer(status: HTTPStatus, text: str = "", *headers: tuple[str, str]) -> Answer:
    """An answer of one line of text, by default the phrase of the status."""
    return Answer(status, f"{text or status.phrase}\n".encode(), TEXT, headers)


def json_answer(status: HTTPStatus, facts: object) -> Answer:
    """An answer with a JSON object."""
    return Answer(status, msgspec.json.encode(facts) + b"\n", JSON)
