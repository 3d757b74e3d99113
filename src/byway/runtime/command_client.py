"""Sends an operator's commands and questions to the operations port of a broker on this machine.

Each is one HTTP request with a time limit. `commands` says what they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, Final, TypeVar

import msgspec

from byway.model.addresses import Address
from byway.model.decoding_words import decoding_reason
from byway.model.errors import CommandFailedError, shortened
from byway.runtime.client_reports import (
    DISCONNECT_CLIENT,
    LIST_CLIENTS,
    LIST_SUBSCRIPTIONS,
    SHOW_CLIENT,
    ClientDetail,
    ClientList,
    Disconnected,
    SubscriptionList,
)
from byway.runtime.commands import (
    DISCARD,
    FORGET,
    LEAVE,
    RELOAD,
    Discarded,
    Forgotten,
    Left,
    Reloaded,
)
from byway.runtime.http_answers import COMMAND_HEADER, JSON
from byway.runtime.replacing import REPLACE, Replaced
from byway.transport.os_words import os_reason

ANSWER_BYTES_MAX: Final = 16_777_216

Report = TypeVar("Report")


def send_forget(http: str, neighbour: str, timeout_s: float) -> Forgotten:
    """Have the broker at `http` forget a neighbour. Raises `CommandFailedError`, `ConfigError`."""
    return _send(http, FORGET, {"neighbour": neighbour}, Forgotten, timeout_s)


def send_replace(
    http: str, neighbour: str, by: str, timeout_s: float, others: Sequence[str] = ()
) -> Replaced:
    """Have another broker (`id` or `id@host:port`) take the place of a neighbour, or ask how far
    that is. `others` are told too. Raises as `send_forget` does."""
    facts = {"neighbour": neighbour, "by": by, "others": list(others)}
    return _send(http, REPLACE, facts, Replaced, timeout_s)


def send_discard(http: str, which: str, timeout_s: float) -> Discarded:
    """Have a broker discard the input set aside with this digest, or `all`. Raises as
    `send_forget` does."""
    return _send(http, DISCARD, {"which": which}, Discarded, timeout_s)


def send_leave(http: str, timeout_s: float) -> Left:
    """Have a broker leave the network for good. Raises as `send_forget` does."""
    return _send(http, LEAVE, {}, Left, timeout_s)


def send_reload(http: str, traffic_stopped: bool, timeout_s: float) -> Reloaded:
    """Have a broker read its settings again. Raises as `send_forget` does."""
    return _send(http, RELOAD, {"traffic_stopped": traffic_stopped}, Reloaded, timeout_s)


def send_list_clients(http: str, limit: int, timeout_s: float) -> ClientList:
    """The clients of a broker. Raises as `send_forget` does."""
    return _send(http, LIST_CLIENTS, {"limit": limit}, ClientList, timeout_s)


def send_show_client(http: str, client: str, limit: int, timeout_s: float) -> ClientDetail:
    """One client of a broker. Raises as `send_forget` does."""
    return _send(http, SHOW_CLIENT, {"client": client, "limit": limit}, ClientDetail, timeout_s)


def send_disconnect(http: str, client: str, end_session: bool, timeout_s: float) -> Disconnected:
    """Have a broker disconnect a client. Raises as `send_forget` does."""
    facts = {"client": client, "end_session": end_session}
    return _send(http, DISCONNECT_CLIENT, facts, Disconnected, timeout_s)


def send_list_subscriptions(
    http: str, client: str | None, everything: bool, limit: int, timeout_s: float
) -> SubscriptionList:
    """The subscriptions of one client, of all clients of a broker, or also of its neighbours.
    Raises as `send_forget` does."""
    facts: dict[str, Any] = {"all": everything, "limit": limit}
    if client is not None:
        facts["client"] = client
    return _send(http, LIST_SUBSCRIPTIONS, facts, SubscriptionList, timeout_s)


def _send(
    http: str, path: str, facts: dict[str, Any], kind: type[Report], timeout_s: float
) -> Report:
    address = Address.parse_operations(http, "--http")
    status, body = _post(address, path, msgspec.json.encode(facts), timeout_s)
    if status != HTTPStatus.OK:
        reason = shortened(body.decode(errors="replace").strip(), 1_000)
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED) and "/metrics" in reason:
            reason = f"{address} is the port of a broker without commands"
        raise CommandFailedError(address, reason or f"{address} answers with status {status}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        reason = f"{address} gives an invalid answer: {decoding_reason(error)}"
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
        words = os_reason(error) if isinstance(error, OSError) else "it does not speak HTTP"
        hint = f"is the broker running, with --http {address}?"
        reason = f"the operations port {address} cannot be reached: {words} ({hint})"
        raise CommandFailedError(address, reason) from error
    finally:
        connection.close()
