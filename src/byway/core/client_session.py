"""The session of one client: what it holds, what it published, and what is kept for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from byway.core.in_flight import InFlight
from byway.core.window import Window
from byway.model.messages import Delivery, EntryId

REFUSED_KEPT: Final = 4_096
"""Refused publications that a client is told of again when it resumes its session: as many as its
window has room for, unless it asks for a larger one. Of earlier ones it is told that they are
confirmed, unless the refusal itself has arrived."""


class ClientSession(msgspec.Struct, eq=False):
    """A client of this broker and what it holds, by the names it gave."""

    name: str
    incarnation: int
    ttl_us: int = 0
    """For how long the session is kept when the client vanishes; 0: it ends then."""
    attached: bool = True
    """Whether the client is connected."""
    adverts: dict[str, EntryId] = msgspec.field(default_factory=dict)
    subscriptions: dict[str, EntryId] = msgspec.field(default_factory=dict)
    counter: int = 0
    """Counts the ids given to the client's entries; it begins at the time, so that none is used
    again after a restart."""
    sequence: int = 0
    """The sequence of the client's last publication."""
    accepted: int = 0
    """The last sequence that the client was told to be accepted."""
    window: Window = msgspec.field(default_factory=Window)
    """Which of its publications are confirmed."""
    deliveries: int = 0
    """Number of the last delivery."""
    kept: deque[Delivery] = msgspec.field(default_factory=deque)
    """Deliveries that the client has not acknowledged, if it may come back."""
    kept_bytes: int = 0
    """Bytes of their publications."""
    held: deque[InFlight] = msgspec.field(default_factory=deque)
    """Of the latest deliveries kept, those beyond the bounds, while the client had time to come
    back after a restart: what they are copies of is not confirmed."""
    beyond_share: int = 0
    """Of what all sessions together keep beyond their shares, what this one does."""
    filter_bytes: int = 0
    """Bytes of the filters of its subscriptions and advertisements."""
    refused: deque[int] = msgspec.field(default_factory=lambda: deque(maxlen=REFUSED_KEPT))
    """Sequences of the last publications that were refused. They count as finished, so a client
    that did not get the refusal would take them for confirmed."""
    reported: set[int] = msgspec.field(default_factory=set)
    """Sequences of publications to come whose routes the client wants to know. Not stored: a client
    that comes back asks again."""

    @property
    def held_deliveries(self) -> Iterator[tuple[Delivery, InFlight]]:
        """The deliveries that are held, and what each is a copy of."""
        latest = islice(self.kept, len(self.kept) - len(self.held), None)
        return zip(latest, self.held, strict=True)

    @property
    def entries(self) -> int:
        """Number of subscriptions and advertisements that the client holds."""
        return len(self.adverts) + len(self.subscriptions)

    @property
    def is_blank(self) -> bool:
        """Whether nothing has come of the session yet: the client holds nothing, and nothing was
        published by it or delivered to it."""
        return not (self.entries or self.sequence or self.deliveries)

    @property
    def first_kept(self) -> int:
        """Number of the oldest delivery that can be given again."""
        return self.deliveries - len(self.kept) + 1
