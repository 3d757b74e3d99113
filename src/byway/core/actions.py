"""What a broker wants done. A driver does it, in the order of the list."""

from __future__ import annotations

import msgspec

from byway.model.messages import Frame, Reply


class Send(msgspec.Struct, frozen=True):
    """Send a frame over a link."""

    link: str
    frame: Frame


class Tell(msgspec.Struct, frozen=True):
    """Give a client these replies, in this order."""

    client: str
    replies: tuple[Reply, ...]


Action = Send | Tell
