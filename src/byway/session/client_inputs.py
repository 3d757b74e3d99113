"""What happens to a client: what its application asks for, what its connection brings, timers.

Objects that the application keeps (publications, registrations) are made by the driver and handed
in; the core fills in what it learns about them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from byway.model import Filter
from byway.model.messages import AnyFrame, Preamble
from byway.session.client_actions import ClientTimer
from byway.session.outgoing_publications import OutgoingPublication
from byway.session.registrations import Registration

# --- the application ----------------------------------------------------------------------------


class ClientOpened(msgspec.Struct, frozen=True):
    """The application opens the client, which connects."""


class ClientClosed(msgspec.Struct, frozen=True):
    """The application closes the client for good."""

    reason: str


class PublicationMade(msgspec.Struct, frozen=True):
    """The application publishes."""

    publication: OutgoingPublication


class PublishingEnded(msgspec.Struct, frozen=True):
    """The application will publish no more; what it has published goes on."""

    reason: str


class Registered(msgspec.Struct, frozen=True):
    """The application advertises or subscribes."""

    registration: Registration


class FiltersReplaced(msgspec.Struct, frozen=True):
    """The application replaces the filters of a registration."""

    registration: Registration
    filters: tuple[Filter, ...]


class Unregistered(msgspec.Struct, frozen=True):
    """The application withdraws registrations."""

    registrations: Sequence[Registration]


class EventsTaken(msgspec.Struct, frozen=True):
    """The application has taken events from a subscription that was full; it has room again."""

    registration: Registration


class StatusAsked(msgspec.Struct, frozen=True):
    """The application asks for the status of the broker."""


# --- the connection -----------------------------------------------------------------------------


class Greeted(msgspec.Struct, frozen=True):
    """The preamble of the peer arrived over the connection with this number."""

    connection: int
    peer: Preamble


class FrameArrived(msgspec.Struct, frozen=True, gc=False):
    """A frame arrived after the preamble."""

    connection: int
    frame: AnyFrame


class ConnectionLost(msgspec.Struct, frozen=True):
    """A connection could not be made, was lost or was closed."""

    connection: int
    reason: str


class ClientTimerFired(msgspec.Struct, frozen=True):
    """The time of a timer that was started has come."""

    timer: ClientTimer


ClientInput = (
    ClientOpened
    | ClientClosed
    | PublicationMade
    | PublishingEnded
    | Registered
    | FiltersReplaced
    | Unregistered
    | EventsTaken
    | StatusAsked
    | Greeted
    | FrameArrived
    | ConnectionLost
    | ClientTimerFired
)
