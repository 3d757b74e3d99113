"""What can happen to a broker. Each is one argument of `Broker.handle`."""

from __future__ import annotations

import msgspec

from byway.core.actions import Timer
from byway.model.messages import Batch, Frame, Hello, Request


class Started(msgspec.Struct, frozen=True):
    """The broker begins, or goes on after `restore`. The first input of all."""


class FrameReceived(msgspec.Struct, frozen=True):
    """A frame arrived over a link that is up."""

    link: str
    frame: Frame


class LinkUp(msgspec.Struct, frozen=True):
    """A connection to a neighbour was made; this is what it said first, and what was said to it
    over the same connection (a driver that greets and hears at one instant need not tell)."""

    link: str
    hello: Hello
    said: Hello | None = None


class LinkDown(msgspec.Struct, frozen=True):
    """The connection to a neighbour is gone."""

    link: str


class ClientAttached(msgspec.Struct, frozen=True):
    """A client is here. The same incarnation goes on with its session, if that was kept; a higher
    one starts anew, and what an earlier one left is removed."""

    client: str
    incarnation: int
    session_ttl_us: int = 0
    """For how long its session is kept when it vanishes."""
    received: int = 0
    """The last delivery of the session that it has."""
    resumes: bool = False
    """It had a session here before, or believes so."""


class ClientDetached(msgspec.Struct, frozen=True):
    """A client is gone: it vanished, or said goodbye (`for_good`)."""

    client: str
    for_good: bool = False


class ClientRequested(msgspec.Struct, frozen=True):
    """A client asks for things, in this order."""

    client: str
    requests: tuple[Request, ...]


class TimerFired(msgspec.Struct, frozen=True):
    """A timer that was set is due."""

    timer: Timer


class LoadSampled(msgspec.Struct, frozen=True):
    """What the driver sees and the broker cannot."""

    queued: int
    """Messages in the input queue."""
    outputs: tuple[tuple[str, int], ...] = ()
    """Messages that wait to be written, by link."""
    uplink: float = 0.0
    """Share of the uplink in use; 1 is all of it."""


class NeighbourAdded(msgspec.Struct, frozen=True):
    """An operator's command: there is a new neighbour."""

    neighbour: str


class NeighbourRemoved(msgspec.Struct, frozen=True):
    """An operator's command: this neighbour is none any more; all it told is forgotten."""

    neighbour: str


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
    | MessageDiscarded
    | RequestDiscarded
)
