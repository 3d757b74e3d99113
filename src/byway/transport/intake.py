"""What all connections of a broker process have read and not handed on: how much of it there is,
and how much of it is looked at in one iteration of the event loop.

A frame that is not complete is kept by its connection; together they may keep so much. Filters of
clients are checked before anyone relies on them, and that takes time; all connections together
check so much an iteration, so that the others are served in between. It knows nothing of routing.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from byway.model.messages import (
    AdvertiseRequest,
    PublishRequest,
    Request,
    SubscribeRequest,
    UnsubscribeRequest,
)

CHECKS_AN_ITERATION: Final = 1_024
"""What checking requests may cost in one iteration of the event loop, as `cost_of` counts."""
FRAMES_A_SLICE: Final = 1_024
"""Frames of one connection that are taken before others are served."""
SMALL_BYTES: Final = 4_096
"""Nobody is closed for keeping less than this of a frame."""


_FILTER_SHIFT: Final = 8
_BODY_SHIFT: Final = 10

_encode = msgspec.msgpack.Encoder().encode


def cost_of(request: Request) -> int:
    """About how much work a request is; 1 is a small publication or subscription. Each alternative
    of a filter is compared with each other one, so a long filter of many costs by both."""
    if isinstance(request, SubscribeRequest | AdvertiseRequest):
        alternatives = len(request.filter.conjunctions)
        return 1 + (len(_encode(request.filter)) * alternatives >> _FILTER_SHIFT)
    if isinstance(request, UnsubscribeRequest):
        return 1 + len(request.names)
    if isinstance(request, PublishRequest):
        return 1 + (len(request.body) >> _BODY_SHIFT)
    return 1


class PartialFrameHolder(Protocol):
    """A connection that keeps a part of a frame."""

    is_link: bool
    """Whether its peer is a neighbour."""

    def close(self, reason: str, for_good: bool = False) -> None:
        """Say why, and close."""


class Intake:
    """Shared by the connections of one broker process."""

    def __init__(self, partial_bytes_max: int) -> None:
        self.partial_bytes_max = partial_bytes_max
        """Bytes of frames that are not complete, of all connections together."""
        self.partial_bytes = 0
        self.closed = 0
        """Connections that were closed to stay within the bound."""
        self._partial: dict[PartialFrameHolder, int] = {}
        """By connection, bytes of a frame that is not complete; the one begun first is first."""
        self._left = CHECKS_AN_ITERATION
        self._is_fresh = True
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<Intake {self.partial_bytes} bytes of {len(self._partial)} frames>"

    # --- frames that are not complete ------------------------------------------------------------

    def keeps(self, connection: PartialFrameHolder, count: int, is_new: bool) -> None:
        """A connection keeps so many bytes of a frame now; `is_new`: of another than before."""
        before = self._partial.get(connection, 0)
        if before and (is_new or not count):
            del self._partial[connection]
        if count:
            self._partial[connection] = count
        self.partial_bytes += count - before
        if self.partial_bytes > self.partial_bytes_max:
            self._relieve()

    def _relieve(self) -> None:
        """Close whoever began first and has not finished: a frame that is really sent is complete
        soon. Clients and strangers go before neighbours."""
        while self.partial_bytes > self.partial_bytes_max:
            large = [c for c, count in self._partial.items() if count > SMALL_BYTES]
            victim = next((c for c in large if not c.is_link), next(iter(large), None))
            if victim is None:
                return
            self.closed += 1
            count = self._partial[victim]
            victim.close(
                f"{count} bytes of a frame that is not complete: all connections together keep "
                f"at most {self.partial_bytes_max}"
            )
            self.forget(victim)

    def forget(self, connection: PartialFrameHolder) -> None:
        """A connection keeps nothing any more."""
        self.partial_bytes -= self._partial.pop(connection, 0)

    # --- work -------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether something more may be checked in this iteration of the event loop."""
        return self._left > 0

    def spend(self, cost: int) -> None:
        """Something was checked."""
        if self._is_fresh:
            self._is_fresh = False
            self._loop.call_soon(self._renew)
        self._left -= cost

    def _renew(self) -> None:
        self._left, self._is_fresh = CHECKS_AN_ITERATION, True
