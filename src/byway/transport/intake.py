"""Bounds that all connections of a broker process share: bytes of incomplete frames, and the cost
of checking requests in one iteration of the event loop.

An incomplete frame is kept by its connection; this module bounds the bytes of all of them. Filters
of clients are checked before they are used, which takes time; this module bounds the checks in one
iteration, so that other connections are served in between. It knows nothing of routing.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

CHECKS_AN_ITERATION: Final = 1_024
"""Cost of the requests checked in one iteration of the event loop, as `cost_of` counts."""
FRAMES_A_SLICE: Final = 1_024
"""Frames of one connection that are processed before others are served."""
SMALL_BYTES: Final = 4_096
"""A connection that keeps less of an incomplete frame is never closed for it."""


class PartialFrameHolder(Protocol):
    """A connection that keeps an incomplete frame."""

    is_link: bool
    """Whether its peer was accepted as a neighbour."""

    def close(self, reason: str, for_good: bool = False) -> None:
        """Close the connection with a goodbye that has the reason."""


class Intake:
    """The bounds shared by the connections of one broker process, and what they write."""

    def __init__(self, partial_bytes_max: int) -> None:
        self.partial_bytes_max = partial_bytes_max
        """Bytes of incomplete frames that all connections together may keep."""
        self.partial_bytes = 0
        self.closed_for_partial = 0
        """Connections closed because incomplete frames were too large together."""
        self.closed_for_frames = 0
        """Connections closed because of a frame that is invalid, too large or not allowed."""
        self.bytes_out = 0
        """Bytes that all connections have written."""
        self._partial: dict[PartialFrameHolder, int] = {}
        """By connection, the bytes of its incomplete frame; the one begun first is first."""
        self._left = CHECKS_AN_ITERATION
        self._is_fresh = True
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<Intake {self.partial_bytes} bytes of {len(self._partial)} frames>"

    # --- incomplete frames -----------------------------------------------------------------------

    def keeps(self, connection: PartialFrameHolder, count: int, is_new: bool) -> None:
        """A connection now keeps `count` bytes of a frame; `is_new`: another frame than before."""
        before = self._partial.get(connection, 0)
        if before and (is_new or not count):
            del self._partial[connection]
        if count:
            self._partial[connection] = count
        self.partial_bytes += count - before
        if self.partial_bytes > self.partial_bytes_max:
            self._relieve()

    def _relieve(self) -> None:
        """Close the connections whose incomplete frames began first, since an honest frame is
        complete soon; clients and unidentified peers before neighbours."""
        while self.partial_bytes > self.partial_bytes_max:
            large = [c for c, count in self._partial.items() if count > SMALL_BYTES]
            victim = next((c for c in large if not c.is_link), next(iter(large), None))
            if victim is None:
                return
            count = self._partial[victim]
            victim.close(
                f"{count} bytes of a frame that is not complete: all connections together keep "
                f"at most {self.partial_bytes_max}"
            )
            self.closed_for_partial += 1
            self.forget(victim)

    def forget(self, connection: PartialFrameHolder) -> None:
        """A connection keeps no incomplete frame any more."""
        self.partial_bytes -= self._partial.pop(connection, 0)

    # --- checks -----------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether another request may be checked in this iteration of the event loop."""
        return self._left > 0

    def spend(self, cost: int) -> None:
        """Deduct the cost of a request that is checked."""
        if self._is_fresh:
            self._is_fresh = False
            self._loop.call_soon(self._renew)
        self._left -= cost

    def _renew(self) -> None:
        self._left, self._is_fresh = CHECKS_AN_ITERATION, True
