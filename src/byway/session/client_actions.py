"""What a client's driver is to do: with the connection, with timers, for the application.

All actions about a connection are about the one that was dialled last.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from byway.model.messages import AnyFrame
from byway.model.status import BrokerStatus
from byway.session.client_options import BrokerUrl
from byway.session.outgoing_publications import OutgoingPublication
from byway.session.registrations import Registration


class ClientTimer(Enum):
    """The timers of a client; each runs at most once at a time."""

    ATTEMPT = "attempt"
    """An attempt to connect takes too long."""
    RETRY = "retry"
    """The time between two attempts is over."""
    BEGIN = "begin"
    """All that the broker repeats of a resumed session has arrived."""
    FLUSH = "flush"
    """What was asked for and published meanwhile is sent, together."""
    RECEIPT = "receipt"
    """Deliveries are acknowledged."""
    SETTLE = "settle"
    """Publications have waited long enough for advertisements to be settled again."""


class FrameKind(Enum):
    """How a frame is written."""

    CONTROL = "control"
    """Ahead of publications that wait."""
    LARGE = "large"
    """Likewise, as several frames if it is long."""
    DATA = "data"
    """In order, while the broker reads."""


# --- the connection -----------------------------------------------------------------------------


class Dial(msgspec.Struct, frozen=True):
    """Connect to a broker, under an incarnation of the client."""

    connection: int
    """The number of the connection, by which inputs name it."""
    url: BrokerUrl
    incarnation: int


class WriteFrame(msgspec.Struct, frozen=True):
    """Send a frame."""

    frame: AnyFrame
    kind: FrameKind = FrameKind.CONTROL


class KeepConnection(msgspec.Struct, frozen=True):
    """Send keep-alives from now on, and give up a broker that is silent for too long."""

    every_s: float
    silence_s: float


class HoldReading(msgspec.Struct, frozen=True):
    """Stop reading from the connection, or read again."""

    hold: bool


class CloseConnection(msgspec.Struct, frozen=True):
    """Say goodbye and close; what was written before is still sent."""

    reason: str
    for_good: bool = False


class DropConnection(msgspec.Struct, frozen=True):
    """Close at once."""

    reason: str


# --- timers ---------------------------------------------------------------------------------------


class StartTimer(msgspec.Struct, frozen=True):
    """Start a timer, in the place of the one that runs; at the present time: as soon as all that
    has arrived is handed in."""

    timer: ClientTimer
    at_us: int


class StopTimer(msgspec.Struct, frozen=True):
    """Stop a timer, if it runs."""

    timer: ClientTimer


# --- the application ------------------------------------------------------------------------------


class TellOpened(msgspec.Struct, frozen=True):
    """The client is attached for the first time."""


class TellOpenFailed(msgspec.Struct, frozen=True):
    """No broker could be reached, and the client is closed."""

    failures: tuple[tuple[str, str], ...]
    """Address and reason, of every broker that was tried."""


class TellClosed(msgspec.Struct, frozen=True):
    """The client is closed; nothing that is waited for will happen."""

    reason: str


class TellAccepted(msgspec.Struct, frozen=True):
    """The broker has accepted all publications up to a number."""

    number: int


class TellConfirmed(msgspec.Struct, frozen=True):
    """All publications up to a number are confirmed; the window may have room."""

    number: int


class TellRefused(msgspec.Struct, frozen=True):
    """A publication was refused: its `error` says why."""

    publication: OutgoingPublication


class TellRegistration(msgspec.Struct, frozen=True):
    """A registration was settled or refused, or the client was attached again."""

    registration: Registration


class TellEvents(msgspec.Struct, frozen=True, gc=False):
    """Events were put into the queues of these subscriptions."""

    registrations: tuple[Registration, ...]


class TellStatus(msgspec.Struct, frozen=True):
    """The status of the broker that was asked for."""

    status: BrokerStatus


class Warn(msgspec.Struct, frozen=True):
    """The operator is to be told something."""

    words: str


ClientAction = (
    Dial
    | WriteFrame
    | KeepConnection
    | HoldReading
    | CloseConnection
    | DropConnection
    | StartTimer
    | StopTimer
    | TellOpened
    | TellOpenFailed
    | TellClosed
    | TellAccepted
    | TellConfirmed
    | TellRefused
    | TellRegistration
    | TellEvents
    | TellStatus
    | Warn
)
