"""How a broker is and what it knows of its neighbourhood, as it tells whoever asks.

It decides which facts there are, not how they are found. They travel as one JSON object, and a
reader ignores those it does not know, so that brokers and clients of different ages understand each
other.
"""

from __future__ import annotations

import msgspec

from byway.model.errors import FrameError


class BrokerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What load exchange tells of a broker behind a link. Rates are per second."""

    broker: str
    hops: int
    publications_in: float
    publications_out: float
    deliveries: float
    queued: int


class PlaceholderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that stands for others on some links though nobody has subscribed to it as it is."""

    client: str
    """Whose it was; of a merger, the broker that made it, behind `merge@`."""
    name: str
    state: str
    """`preserved`; `postponed`: whether it is preserved is not decided yet; `merged`."""
    origin: str = ""
    """The link it came from; empty: it was of a client here, or was made here."""
    links: list[str] = []
    """Where it stands."""
    filter: str = ""


class MissingTables(msgspec.Struct, frozen=True, kw_only=True):
    """A neighbour that has not told everything since the broker began without its last state."""

    broker: str
    lacks: str
    """`everything`, or `subscriptions`: its advertisements are known."""
    since: str
    """When that was noticed, in UTC."""


class UnsettledEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An advertisement or a subscription of a client here that is not settled."""

    client: str
    name: str
    kind: str
    """`advertisement` or `subscription`."""
    brokers: list[str]
    """Who has not answered: brokers that cannot be reached, else neighbours."""


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A link to a neighbour."""

    broker: str
    state: str
    """`up`, `agreeing` (connected, tables are being compared) or `down`."""
    address: str = ""
    """Where the neighbour is connected from, or to."""
    missing: bool = False
    """Whether the neighbour's tables are missing, so that it counts as wanting everything."""
    unreachable: list[str] = []
    """Brokers that cannot be reached in its direction, itself included, as far as is known."""
    unconfirmed: int = 0
    """Publications kept until the neighbour confirms them."""
    waiting: int = 0
    """Messages that wait because the neighbour does not read."""
    waiting_bytes: int = 0
    advertisements: int = 0
    """Advertisements that came over it."""
    subscriptions: int = 0
    """Subscriptions that came over it."""
    advertisements_sent: int = 0
    """Advertisements that were sent over it."""
    subscriptions_sent: int = 0
    """Subscriptions that were sent over it."""
    preserved: int = 0
    """Subscriptions that ended and still stand there for others."""
    mergers: int = 0
    """Filters that were sent over it in place of several subscriptions."""
    behind: list[BrokerLoad] = []
    """Brokers behind it, nearest first, if loads are exchanged."""


class SetAsideStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An input that could not be handled and waits for an operator."""

    digest: str
    """Its name, for `discard`."""
    origin: str
    """Who sent it: `link B2`, `client c`, or the broker itself."""
    what: str
    error: str
    at_us: int
    barred: bool = False
    """It came again; its sender stays out until it is given up."""


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker."""

    broker: str
    version: str
    incarnation: int
    listen: str
    clients: int
    """Clients that are connected."""
    sessions_away: int
    """Clients that are not, and whose session is kept."""
    advertisements: int
    subscriptions: int
    queued: int
    """Messages that wait for the broker."""
    links: list[LinkStatus]
    covering: str = ""
    """The policy."""
    preserved: int = 0
    """Subscriptions that ended and still stand for others on some link."""
    mergers: int = 0
    """Filters that stand for several subscriptions on some link."""
    statistics: int = 0
    """Rows about what local subscriptions received."""
    restarting: bool = False
    """Whether the broker was here before, began without its last state, and is not complete."""
    missing: list[MissingTables] = []
    """Neighbours whose tables it waits for."""
    away: list[str] = []
    """Brokers that cannot be reached, as far as is known."""
    unsettled: int = 0
    """Advertisements and subscriptions of clients here that are not settled."""
    unsettled_entries: list[UnsettledEntry] = []
    """These; not all, if they are many."""
    held: int = 0
    """Deliveries without room that wait, unconfirmed, for clients to come back after a restart."""
    placeholders: list[PlaceholderStatus] = msgspec.field(default_factory=list, name="stand_ins")
    """Preserved subscriptions and mergers, the oldest first; not all, if they are many."""
    set_aside: int = 0
    """Inputs that could not be handled and wait for an operator."""
    inputs_set_aside: list[SetAsideStatus] = []
    """They, the oldest first; not all, if they are many."""


def encode_status(status: BrokerStatus) -> bytes:
    """As it travels."""
    return msgspec.json.encode(status)


def decode_status(facts: bytes) -> BrokerStatus:
    """What was told. Raises `FrameError`."""
    try:
        return msgspec.json.decode(facts, type=BrokerStatus)
    except msgspec.DecodeError as error:
        raise FrameError(f"the status of a broker: {error}") from error
