"""What can happen to a broker. Each is one argument of `Broker.handle`."""

from __future__ import annotations

import msgspec

from byway.model.messages import Frame, Hello, Request


class FrameReceived(msgspec.Struct, frozen=True):
    """A frame arrived over a link that is up."""

    link: str
    frame: Frame


class LinkUp(msgspec.Struct, frozen=True):
    """A connection to a neighbour was made; this is what it said first."""

    link: str
    hello: Hello


class LinkDown(msgspec.Struct, frozen=True):
    """The connection to a neighbour is gone."""

    link: str


class ClientAttached(msgspec.Struct, frozen=True):
    """A client is here. Its incarnation is higher than any it had before."""

    client: str
    incarnation: int


class ClientDetached(msgspec.Struct, frozen=True):
    """A client is gone, with or without a word."""

    client: str


class ClientRequested(msgspec.Struct, frozen=True):
    """A client asks for things, in this order."""

    client: str
    requests: tuple[Request, ...]


Input = FrameReceived | LinkUp | LinkDown | ClientAttached | ClientDetached | ClientRequested
