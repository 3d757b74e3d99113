"""How senders share a turn: each gets an equal part first, then those with more fill what is left.

A sender from whom something was taken goes behind all others, so that whoever got nothing in one
turn is the first in the next. This module knows neither what waits nor what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sized
from typing import Final, TypeVar

TURN: Final = 1_024
"""Messages that a broker handles in one turn of each kind: control and data of neighbours, in
messages; requests that may overtake publications, and all others, in cost."""
SHARE_LEAST: Final = 16
"""The least part of a turn that a sender gets."""

Queue = TypeVar("Queue", bound=Sized)


def share_out(
    queues: dict[str, Queue],
    take: Callable[[str, Queue, int], int],
    left_out: Container[str] = (),
) -> None:
    """Take about a turn from these queues, by sender, without the senders `left_out`.

    `take(sender, queue, room)` removes what fits, at least one item if it may be taken at all, and
    returns its cost; 0: nothing was taken. The last item that a sender gets may cost more than its
    part. Queues that are empty afterwards are removed.
    """
    room = TURN
    for part in (max(room // len(queues), SHARE_LEAST), room):
        for sender in list(queues):
            if room <= 0:
                return
            if sender in left_out:
                continue
            queue = queues[sender]
            spent = take(sender, queue, min(part, room))
            if spent:
                room -= spent
                del queues[sender]
                if queue:
                    queues[sender] = queue
        if not queues:
            return
