"""What a broker wants done. A driver does it, in the order of the list."""

from __future__ import annotations

import msgspec

from byway.model.messages import Frame, LinkKind, Reply


class Timer(msgspec.Struct, frozen=True, order=True):
    """The name of a timer: the part of the broker that set it, and what for."""

    owner: str
    detail: str = ""


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a frame over a link."""

    link: str
    frame: Frame


class SendReply(msgspec.Struct, frozen=True, gc=False):
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
    """Connect to a broker, and keep trying until the link is closed."""

    link: str
    address: str = ""
    """Where it was said to listen; empty: where the driver knows, if it does."""
    kind: LinkKind = LinkKind.PRIMARY


class CloseLink(msgspec.Struct, frozen=True):
    """Close the connection to a broker, and do not dial it for this link any more unless it is the
    broker's fault: then it may come back and begin anew."""

    link: str
    reason: str
    fault: bool = False
    """Whether the other broker broke the protocol, or said that this one did."""


Action = Send | SendReply | SetTimer | CancelTimer | OpenLink | CloseLink
