"""What can happen to a broker. Each is one argument of `Broker.handle`."""

from __future__ import annotations

import msgspec

from byway.core.actions import Timer
from byway.model.addresses import Listing
from byway.model.messages import Batch, Frame, Hello, Request, UnorderedHello


class Started(msgspec.Struct, frozen=True, omit_defaults=True):
    """The broker begins, or goes on after `restore`: the first input of all."""

    seed: int = 0
    """What its random numbers are drawn from, until it starts again."""
    address: str = ""
    """Where other brokers can dial it; empty if that is not known."""


class FrameReceived(msgspec.Struct, frozen=True, gc=False):
    """A frame arrived over a link that is up."""

    link: str
    frame: Frame


class LinkUp(msgspec.Struct, frozen=True):
    """A connection to a neighbour was made; this is what it said first, and what was said to it
    over the same connection (a driver that greets and hears at one instant need not tell)."""

    link: str
    hello: Hello | UnorderedHello
    said: Hello | UnorderedHello | None = None


class LinkDown(msgspec.Struct, frozen=True):
    """The connection to a neighbour was lost or closed."""

    link: str


class ClientAttached(msgspec.Struct, frozen=True):
    """A client connected. The same incarnation goes on with its session, if that was kept; a higher
    one begins a new session, and what an earlier one left is removed."""

    client: str
    incarnation: int
    session_ttl_us: int = 0
    """For how long its session is to be kept when it vanishes."""
    received: int = 0
    """The number of the last delivery that it received."""
    resumes: bool = False
    """Whether it had a session here before, or believes so."""


class ClientDetached(msgspec.Struct, frozen=True):
    """A client disconnected: it vanished, or said goodbye (`for_good`)."""

    client: str
    for_good: bool = False


class ClientRequested(msgspec.Struct, frozen=True):
    """A client sent requests, to be handled in this order."""

    client: str
    requests: tuple[Request, ...]


class TimerFired(msgspec.Struct, frozen=True):
    """The time of a timer that was set has come."""

    timer: Timer


class LinkLoad(msgspec.Struct, frozen=True):
    """What a driver has measured of one link that is up. Sums and means are over the time since the
    last sample."""

    link: str
    waiting: int = 0
    """Number of messages that wait to be sent."""
    waiting_bytes: int = 0
    sent_bytes: int = 0
    """Bytes sent, as far as the driver counts them."""
    waited_us: int = 0
    """Mean time that a message waited before its turn to be sent had come."""
    service_us: int = 0
    """Mean time that sending one took, while others had to wait for that; 0 if none had to."""
    round_trip_us: int = 0
    """Last known time from sending something to the other end until that end's answer; 0 if it is
    not known yet."""


class LoadSampled(msgspec.Struct, frozen=True):
    """The driver reports loads that the broker cannot see. Sums and means are over the time since
    the last sample."""

    queued: int
    """Number of messages in the input queue."""
    links: tuple[LinkLoad, ...] = ()
    """The links that are up, in the order of their names."""
    uplink: float = 0.0
    """Share of the uplink that was in use, if that is limited; 1 is all of it."""
    waited_us: int = 0
    """Mean time that a message waited in the input queue."""
    service_us: int = 0
    """Mean time that the broker took to handle one."""


class NeighbourAdded(msgspec.Struct, frozen=True):
    """An operator's command: add a neighbour. Or the driver's: add one that is known from before;
    `links.UNLISTED`: wait for neighbours that nobody here knows of."""

    neighbour: str


class NeighbourRemoved(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator's command: remove a neighbour, and all that came from it. Or the driver's: forget
    a link outside the tree that is down."""

    neighbour: str
    successor: str = ""
    """Who takes the place of this broker, which leaves: the neighbour holds from that one what it
    held from here."""
    address: str = ""
    """Where the successor can be dialled."""


class NeighbourReplaced(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator's command: a neighbour that is down does not come back, and another broker takes
    its place. Where that cannot be, nothing happens; `Broker.reason_not_to_replace` says why."""

    neighbour: str
    successor: str
    address: str = ""
    """Where the successor can be dialled; empty if it is listed, or dials itself."""
    others: tuple[str, ...] = ()
    """Brokers that are told with this one. They were neighbours of the old one too, though that may
    not have told this broker before it died."""


class NeighboursListed(msgspec.Struct, frozen=True):
    """The driver tells which neighbours the settings list. It is kept, and nothing follows: when
    the broker goes on after a restart, the driver sees what an operator has changed meanwhile."""

    listing: Listing


class MessageDiscarded(msgspec.Struct, frozen=True):
    """An operator's command: messages that came over a link that is up, and that could not be
    handled, are given up. Their numbers count as received, and finished; nothing else follows."""

    link: str
    batch: Batch


class RequestDiscarded(msgspec.Struct, frozen=True):
    """An operator's command: a client's request that could not be handled is given up. The client
    is told that it is refused."""

    client: str
    request: Request


Input = (
    Started
    | FrameReceived
    | LinkUp
    | LinkDown
    | ClientAttached
    | ClientDetached
    | ClientRequested
    | TimerFired
    | LoadSampled
    | NeighbourAdded
    | NeighbourRemoved
    | NeighbourReplaced
    | NeighboursListed
    | MessageDiscarded
    | RequestDiscarded
)
