"""What a broker wants done. A driver does it, in the order of the list."""

from __future__ import annotations

import msgspec

from byway.model.messages import Frame, Reply


class Timer(msgspec.Struct, frozen=True, order=True):
    """The name of a timer: the part of the broker that set it, and what for."""

    owner: str
    detail: str = ""


class Send(msgspec.Struct, frozen=True):
    """Send a frame over a link."""

    link: str
    frame: Frame


class SendReply(msgspec.Struct, frozen=True):
    """Give a client these replies, in this order; deliveries are among them."""

    client: str
    replies: tuple[Reply, ...]


class SetTimer(msgspec.Struct, frozen=True):
    """Fire a timer at this time. Setting it again replaces the time."""

    timer: Timer
    at_us: int


class CancelTimer(msgspec.Struct, frozen=True):
    """Do not fire a timer that was set."""

    timer: Timer


class OpenLink(msgspec.Struct, frozen=True):
    """Connect to a neighbour, and keep trying."""

    link: str


class CloseLink(msgspec.Struct, frozen=True):
    """Close the connection to a neighbour, which may have been removed."""

    link: str
    reason: str


Action = Send | SendReply | SetTimer | CancelTimer | OpenLink | CloseLink
