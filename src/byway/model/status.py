"""The status of a broker and of its links, as clients can request it.

This module defines the keys, not how the values are found. A status travels as one JSON object, and
a reader ignores keys it does not know, so that brokers and clients of different versions understand
each other.
"""

from __future__ import annotations

import msgspec

from byway.model.errors import FrameError


class BrokerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a broker behind a link, by load exchange. Rates are per second."""

    broker: str
    hops: int
    publications_in: float
    publications_out: float
    deliveries: float
    queued: int


class PlaceholderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An entry without a live subscription of its own that represents others on some links."""

    client: str
    """The client that owned it; for a merger, `merge@` and the broker that made it."""
    name: str
    state: str
    """`preserved`, `postponed` (not decided yet whether it is preserved) or `merged`."""
    origin: str = ""
    """The link that it was received over; empty: it was a local client's, or was made here."""
    links: list[str] = []
    """The links that it was forwarded over."""
    filter: str = ""


class MissingTables(msgspec.Struct, frozen=True, kw_only=True):
    """A neighbour that has not sent all its tables since the broker started without its last
    state."""

    broker: str
    lacks: str
    """`everything`, or `subscriptions`: its advertisements are known."""
    since: str
    """When that was first observed, in UTC."""


class UnsettledEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An advertisement or a subscription of a local client that is not settled."""

    client: str
    name: str
    kind: str
    """`advertisement` or `subscription`."""
    brokers: list[str]
    """The brokers that have not settled it: those that cannot be reached, else neighbours."""


class PublisherStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher whose publications are not all confirmed."""

    publisher: str
    local: bool = False
    """Whether it is a client of this broker."""
    unconfirmed: int = 0
    """Number of these publications: of a local client exactly, else as many as the slowest link has
    not confirmed."""
    held: int = 0
    """Copies of them that wait for their turn in a branch."""
    oldest_s: float = 0.0
    """How long ago the oldest one that a link has not confirmed was published, by the clock of its
    home broker."""
    links: dict[str, int] = {}
    """By neighbour that has not confirmed them, how many; not all, if they are many. With none,
    nor any `held` or `unlisted`, they wait for sessions of clients."""
    unlisted: int = 0
    """How many are kept for neighbours that are not listed and may connect, for a while after a
    start without state."""
    parked: dict[str, int] = {}
    """By dead neighbour, how many copies wait for it to come back, or for a way round it."""


class SlowSubscriberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A client that does not read what it is sent."""

    client: str
    waiting: int = 0
    """Deliveries that wait for it."""
    waiting_bytes: int = 0
    blocked_s: float = 0.0
    """For how long it has not been reading."""


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a link to a neighbour, or of one outside the tree to another broker."""

    broker: str
    state: str
    """`up`, `agreeing` (connected, tables are being compared) or `down`."""
    kind: str = "primary"
    """`primary` (of the tree), `soft` (beside it) or `opening` (about to take its place there)."""
    address: str = ""
    """The address that its connection comes from or goes to; empty while it is not connected."""
    listen: str = ""
    """Where the other broker says that it can be dialled; empty if it does not."""
    missing: bool = False
    """Whether the neighbour's tables are missing, so that everything is forwarded to it."""
    unreachable: list[str] = []
    """Brokers that cannot be reached in its direction, itself included, as far as is known."""
    unconfirmed: int = 0
    """Publications kept until the neighbour confirms them."""
    held: int = 0
    """Publications that wait for their turn in the neighbour's branch."""
    oldest_s: float = 0.0
    """How long ago the oldest unconfirmed one was published, by the clock of its home broker."""
    bypassed_s: float = 0.0
    """For how long publications have gone round the neighbour, which is dead; 0: they do not."""
    parked: int = 0
    """Publications that wait for the neighbour to come back, or for a way round it."""
    oldest_parked_s: float = 0.0
    """How long ago the oldest of these was published, by the clock of its home broker."""
    waiting: int = 0
    """Messages that wait because the neighbour does not read."""
    waiting_bytes: int = 0
    blocked_s: float = 0.0
    """For how long the neighbour has not been reading."""
    advertisements: int = 0
    """Advertisements received over it."""
    subscriptions: int = 0
    """Subscriptions received over it."""
    advertisements_sent: int = 0
    """Advertisements sent over it."""
    subscriptions_sent: int = 0
    """Subscriptions sent over it."""
    preserved: int = 0
    """Subscriptions that ended and are preserved on it for others."""
    mergers: int = 0
    """Mergers sent over it in place of several subscriptions."""
    behind: list[BrokerLoad] = []
    """Brokers behind it, nearest first, if loads are exchanged."""


class MeshLinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A link as the mesh of a broker sees it, or a candidate: a broker that a soft link could be
    opened to."""

    broker: str
    kind: str
    """`primary`, `soft` or `candidate`."""
    use: str = ""
    """Of a soft link: `opening`, `in use`, `draining`, or `incoming` (only the other end sends)."""
    span: int = 1
    """Hops of the tree to the other broker; 0 if they are not known."""
    rate: float = 0.0
    """Publications a second that it carries, or would carry if candidates were links."""
    gain: float = 0.0
    """Hops that it saves a second, or would save, with the load of those it passes by."""
    round: list[str] = []
    """The brokers that it goes round because the first of them is dead."""


class MeshStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The mesh of a broker."""

    delta: int
    strategy: str
    """The strategy in use; with SH the one that it has chosen."""
    held: int = 0
    """Publications that wait for their turn in a branch."""
    parked: int = 0
    """Publications that wait for dead neighbours, or for ways round them."""
    kept_back: list[str] = []
    """The first publishers that are held until what they have on a detour is confirmed, so that
    they can take soft links."""
    links: list[MeshLinkStatus] = []
    """Links of the tree, soft links and candidates, in the order of their names."""


class KindMismatchStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of a local subscription that no sampled publication could satisfy, because its
    attribute came as a value of another kind."""

    client: str
    name: str
    """The name of the subscription."""
    attribute: str
    expected: list[str]
    """The kinds of value that the subscription compares it with: `boolean`, `number`, `text`."""
    found: str
    """The kind that it came as."""
    samples: int
    """Number of sampled publications in which it did."""


class SetAsideStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An input that raised, was set aside, and waits for an operator."""

    digest: str
    """The digest that `byway topology discard` takes."""
    origin: str
    """Its sender: `link B2`, `client c`, or `the broker itself`."""
    what: str
    error: str
    at_us: int
    barred: bool = False
    """Whether it came again, so that its sender is refused until it is discarded."""


class LostPublications(msgspec.Struct, frozen=True, kw_only=True):
    """Publications of one publisher with numbers that follow one another, which are lost."""

    publisher: str
    incarnation: int
    first: int
    last: int


class SuccessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A neighbour whose place another broker has taken at this one."""

    neighbour: str
    """The neighbour that does not come back."""
    successor: str
    done: bool = False
    """Whether the successor has told what it wants; or it is a neighbour no more."""
    lost: int = 0
    """Number of publications that waited and that nobody wants any more."""
    runs: list[LostPublications] = []
    """These by publisher and number; not all, if they are many."""


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a broker."""

    broker: str
    version: str
    incarnation: int
    listen: str
    clients: int
    """Clients that are connected."""
    sessions_away: int
    """Clients that are not connected and whose session is kept."""
    advertisements: int
    subscriptions: int
    queued: int
    """Messages that wait for the broker."""
    links: list[LinkStatus]
    mesh: MeshStatus | None = None
    """Its mesh, if it has one."""
    covering: str = ""
    """The covering policy."""
    preserved: int = 0
    """Subscriptions that ended and are preserved for others on some link."""
    mergers: int = 0
    """Mergers in place of several subscriptions on some link."""
    statistics: int = 0
    """Rows of statistics about what local subscriptions received."""
    restarting: bool = False
    """Whether the broker ran before, started without its last state, and its tables are not
    complete."""
    missing: list[MissingTables] = []
    """Neighbours whose tables it waits for."""
    away: list[str] = []
    """Brokers that cannot be reached, as far as is known."""
    unsettled: int = 0
    """Number of advertisements and subscriptions of local clients that are not settled."""
    unsettled_entries: list[UnsettledEntry] = []
    """The unsettled entries; not all, if they are many."""
    held: int = 0
    """Deliveries beyond the bound that stay unconfirmed until clients reconnect after a restart."""
    publishers_waiting: int = 0
    """Number of publishers whose publications are not all confirmed."""
    publishers: list[PublisherStatus] = []
    """Those of them with the most unconfirmed publications, the worst first."""
    slow_subscribers: int = 0
    """Number of clients that do not read what they are sent."""
    subscribers: list[SlowSubscriberStatus] = []
    """Those of them with the most bytes waiting, the worst first."""
    publications_held: bool = False
    """Whether publications wait until slow subscribers have read."""
    placeholders: list[PlaceholderStatus] = msgspec.field(default_factory=list, name="stand_ins")
    """Placeholders, preserved and merged, the oldest first; not all, if they are many."""
    set_aside: int = 0
    """Number of inputs that were set aside and wait for an operator."""
    inputs_set_aside: list[SetAsideStatus] = []
    """The inputs set aside, the oldest first; not all, if they are many."""
    successions: list[SuccessionStatus] = []
    """Neighbours whose place another broker has taken here, the oldest first."""
    kind_mismatches: list[KindMismatchStatus] = []
    """Comparisons of local subscriptions whose attributes come as another kind, as far as sampled
    publications show; not all, if they are many."""


def succession_words(succession: SuccessionStatus) -> str:
    """A succession in words, for people."""
    old, new = succession.neighbour, succession.successor
    if not succession.done:
        return f"{new} takes the place of {old}, once it is linked with all neighbours of {old}"
    taken = f"{new} has taken the place of {old}"
    if not succession.lost:
        return f"{taken}: nothing was lost"
    listed = ", ".join(map(_run_words, succession.runs))
    left = succession.lost - sum(run.last - run.first + 1 for run in succession.runs)
    more = f" and {left:,} more" if left else ""
    return f"{taken}: lost {succession.lost:,} publications ({listed}{more})"


def _run_words(run: LostPublications) -> str:
    numbers = str(run.first) if run.first == run.last else f"{run.first} to {run.last}"
    return f"{run.publisher} {numbers}"


def mismatch_words(mismatch: KindMismatchStatus) -> str:
    """A mismatch of kinds in words, for people."""
    return (
        f"subscription {mismatch.client}/{mismatch.name} compares {mismatch.attribute} with "
        f"a {' or a '.join(mismatch.expected)}, and it comes as a {mismatch.found}: "
        "that never matches"
    )


def encode_status(status: BrokerStatus) -> bytes:
    """The JSON object of a status."""
    return msgspec.json.encode(status)


def decode_status(facts: bytes) -> BrokerStatus:
    """The status in a JSON object. Raises `FrameError`."""
    try:
        return msgspec.json.decode(facts, type=BrokerStatus)
    except msgspec.DecodeError as error:
        raise FrameError(f"the status of a broker: {error}") from error
