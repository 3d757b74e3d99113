"""Data messages that one broker keeps back from a branch, see `branch_queues` and `parked`."""

from __future__ import annotations

import msgspec

from byway.core.in_flight import InFlight
from byway.core.streams import Publisher
from byway.model.messages import Publish, Unadvertise

Key = tuple[str, int, str]
"""A publisher, its incarnation and a branch."""


class Held(msgspec.Struct, eq=False):
    """A data message that waits for its turn in a branch, or for a neighbour."""

    message: Publish | Unadvertise
    targets: int
    source: InFlight
    """What it will be a copy of, which waits for it."""
    sequence: int
    """The sequence of a publication; of the end of an advertisement, that of the last publication
    before it."""
    reached: frozenset[str] = frozenset()
    """Links in the branch that have had a copy of it already, round a dead neighbour."""

    @property
    def place(self) -> tuple[int, bool]:
        """Its place among those of its publisher: publications by sequence; the end of an
        advertisement is behind those before it."""
        return self.sequence, isinstance(self.message, Unadvertise)


def publisher_of(message: Publish | Unadvertise) -> Publisher:
    """The publisher of a data message, and its incarnation."""
    if isinstance(message, Publish):
        return message.publisher, message.incarnation
    return message.id.client, message.id.incarnation
