"""Sends an operator's commands to the operations port of a broker on this machine.

Each is one HTTP request with a time limit. `commands` says what they do.
"""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, Final, TypeVar

import msgspec

from byway.model.addresses import Address
from byway.model.errors import CommandFailedError, shortened
from byway.runtime.commands import DISCARD, FORGET, LEAVE, Discarded, Forgotten, Left
from byway.runtime.http_answers import COMMAND_HEADER, JSON

ANSWER_BYTES_MAX: Final = 4_194_304

Report = TypeVar("Report")


def send_forget(http: str, neighbour: str, timeout_s: float) -> Forgotten:
    """Have the broker at `http` forget a neighbour. Raises `CommandFailedError`, `ConfigError`."""
    return _send(http, FORGET, {"neighbour": neighbour}, Forgotten, timeout_s)


def send_discard(http: str, which: str, timeout_s: float) -> Discarded:
    """Have a broker discard the input set aside with this digest, or `all`. Raises as
    `send_forget` does."""
    return _send(http, DISCARD, {"which": which}, Discarded, timeout_s)


def send_leave(http: str, timeout_s: float) -> Left:
    """Have a broker leave the network for good. Raises as `send_forget` does."""
    return _send(http, LEAVE, {}, Left, timeout_s)


def _send(
    http: str, path: str, facts: dict[str, Any], kind: type[Report], timeout_s: float
) -> Report:
    address = Address.parse(http, "--http")
    status, body = _post(address, path, msgspec.json.encode(facts), timeout_s)
    if status != HTTPStatus.OK:
        reason = shortened(body.decode(errors="replace").strip(), 1_000)
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED) and "/metrics" in reason:
            reason = f"{address} is the port of a broker without commands"
        raise CommandFailedError(address, reason or f"{address} answers with status {status}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        reason = f"{address} gives an invalid answer: {error}"
        raise CommandFailedError(address, reason) from error


def _post(address: Address, path: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
    connection = HTTPConnection(address.host, address.port, timeout=timeout_s)
    headers = {"Content-Type": JSON, COMMAND_HEADER: "1"}
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(ANSWER_BYTES_MAX)
    except TimeoutError as error:
        reason = f"the operations port {address} has not answered within {timeout_s:g} s"
        raise CommandFailedError(address, f"{reason}; the command may still be done") from error
    except (OSError, HTTPException) as error:
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "is the broker running, with http set?"
        reason = f"the operations port {address} cannot be reached: {words} ({hint})"
        raise CommandFailedError(address, reason) from error
    finally:
        connection.close()
