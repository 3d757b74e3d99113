"""What the operations port says of the clients of a broker: paths, bounds and answers.

The broker process builds the answers, the command line prints them. Neither is known here.
"""

from __future__ import annotations

from typing import Final

import msgspec

LIST_CLIENTS: Final = "/clients/list"
SHOW_CLIENT: Final = "/clients/show"
DISCONNECT_CLIENT: Final = "/clients/disconnect"
LIST_SUBSCRIPTIONS: Final = "/subscriptions/list"
ROWS_MAX: Final = 1_000
"""Clients or entries in one answer."""
FILTER_LENGTH_MAX: Final = 1_000
"""Characters of a filter that an answer has."""


class ClientReport(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is connected, or whose session is kept."""

    client: str
    connected: bool
    address: str = ""
    """Where it connects from; empty while it is not connected."""
    incarnation: int = 0
    session_ttl_s: float = 0.0
    """How long its session is kept when it vanishes; 0: it ends then."""
    subscriptions: int = 0
    advertisements: int = 0
    published: int = 0
    """The sequence of its last publication."""
    kept: int = 0
    """Deliveries kept until the client acknowledges them."""
    kept_bytes: int = 0
    waiting: int = 0
    """Deliveries that wait because the client does not read."""
    waiting_bytes: int = 0
    blocked_s: float = 0.0
    """For how long it has not been reading."""
    requests: int = 0
    """Its requests that wait for the broker."""
    dropped: int = 0
    """Deliveries dropped because it read slowly, with `limits.slow_client` at `drop_oldest`."""


class EntryReport(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription or an advertisement."""

    client: str
    name: str
    kind: str
    """`subscription` or `advertisement`."""
    link: str = ""
    """The neighbour that it was received from; empty: a client of this broker has it."""
    settled: bool = False
    """Whether it is in force everywhere; what a neighbour sent counts as settled when this broker
    has told the neighbour so."""
    filter: str = ""


class ClientList(msgspec.Struct, frozen=True, kw_only=True):
    """The clients of a broker; not all, if they are many."""

    broker: str
    total: int
    connected: int
    clients: list[ClientReport]


class ClientDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One client, with its advertisements and subscriptions; not all, if they are many."""

    broker: str
    client: ClientReport
    entries: list[EntryReport]


class SubscriptionList(msgspec.Struct, frozen=True, kw_only=True):
    """The subscriptions at a broker; not all, if they are many."""

    broker: str
    total: int
    subscriptions: list[EntryReport]


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `disconnect`: what happened to a client, its session and what it holds."""

    broker: str
    client: str
    was_connected: bool
    session_ended: bool
    """Whether its subscriptions and advertisements have ended."""
    kept_s: float = 0.0
    """How long the session is kept for the client to come back."""
    may_return: bool = True
    """Whether the client was left to reconnect; if not, it was told not to."""
    subscriptions: int = 0
    advertisements: int = 0
    deliveries: int = 0
    """Unacknowledged deliveries, which are kept, or dropped if the session has ended."""
