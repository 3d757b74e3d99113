"""Data messages that are in flight: received, and not yet confirmed to where they came from.

A data message is finished when every copy made of it is confirmed. Whoever holds a copy counts one
in `InFlight.left`; `Context.finish` counts it down.
"""

from __future__ import annotations

from typing import Final

import msgspec

from byway.core.streams import Stream
from byway.core.window import Window

COPY_BYTES: Final = 256
"""What keeping a copy takes, the body of a publication apart."""


class InFlight(msgspec.Struct, eq=False, gc=False):
    """A data message that waits for its copies to be confirmed."""

    window: Window
    """Where it is finished: the window of the link or of the client that it came from."""
    number: int
    """Its number on the link's data lane, or the client's sequence."""
    link: str | None
    """The neighbour that it came from; None: a local client."""
    client: str
    """The local client that it came from, if one did."""
    left: int
    """Copies that are not confirmed, and one more while the message is being handled."""
    stream: Stream | None = None
    """The stream of its publisher, if it is a publication."""
    bytes: int = COPY_BYTES
    """What keeping a copy of it takes, as the bounds count it."""
    several: int = 0
    """The targets for which two or more entries matched, as bits, if a planner chooses links."""
    duplicates: list[InFlight] | None = None
    """The same message, received again; each is finished together with this one."""


def unowned() -> InFlight:
    """A data message of the broker itself: nobody waits for its confirmation."""
    return InFlight(Window(), 1, None, "", 1)
