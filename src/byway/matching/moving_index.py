"""An index whose filters are being moved to a smaller one, a few at a time.

Blocks of an index's arrays are used again, but arrays never shrink. Once most of their room is
unused, the filters move to another index with every call that changes something, and whenever a
driver has time. Until then both are asked; a filter stands in one of them. At last the first index
takes over what the other one holds.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from byway.matching.answers import Keys, Routes
from byway.matching.index import MatchIndex
from byway.model import Attributes, DuplicateKeyError, Filter

_WITH_A_CHANGE: Final = 4
"""Filters that move when one is added or removed: about as much work again. It takes a quarter of
their number in changes to move all."""


class MovingIndex:
    """Two `MatchIndex`es that answer as one."""

    def __init__(self, old: MatchIndex) -> None:
        self.old = old
        self._new = MatchIndex(old.vocabulary)
        self._keys = old.keys()

    def __len__(self) -> int:
        return len(self.old) + len(self._new)

    def __repr__(self) -> str:
        return f"<MovingIndex from {self.old!r} to {self._new!r}>"

    @property
    def is_done(self) -> bool:
        """Whether no filter is left to be moved."""
        return not len(self.old)

    def end(self) -> MatchIndex:
        """The first index, with all filters, in arrays of the size that they need."""
        self.old.take_over(self._new)
        return self.old

    def move(self, most: int) -> None:
        """Move up to so many filters."""
        last = max(len(self._keys) - most, 0)
        for key in self._keys[last:].tolist():
            if key in self.old:  # else it was removed in the meantime
                self._new.add(key, self.old[key], *self.old.route_of(key))  # first, for its strings
                self.old.remove(key)
        self._keys = self._keys[:last]

    def add(
        self, key: int, filter: Filter, link: int | None = None, target: int | None = None
    ) -> None:
        """Store a filter, as `MatchIndex.add` does."""
        if key in self.old:
            raise DuplicateKeyError(key)
        self._new.add(key, filter, link, target)
        self.move(_WITH_A_CHANGE)

    def remove(self, key: int) -> None:
        """Forget a key. Raises `UnknownKeyError` when it is not there."""
        (self.old if key in self.old else self._new).remove(key)
        self.move(_WITH_A_CHANGE)

    def match(self, attributes: Attributes) -> Keys:
        """Keys of the filters that match a publication."""
        return _joined(self.old.match(attributes), self._new.match(attributes))

    def match_routes(self, attributes: Attributes, exclude: int | None = None) -> Routes:
        """Targets, how many entries match, keys of those without a link, targets with several."""
        old = self.old.match_routes(attributes, exclude)
        return _both(old, self._new.match_routes(attributes, exclude))

    def match_body(self, body: bytes, exclude: int | None = None) -> Routes | None:
        """`match_routes` for the body of a publication; None for one that is not plain."""
        old, new = self.old.match_body(body, exclude), self._new.match_body(body, exclude)
        if old is None or new is None:
            return None
        return _both(old, new)

    def covering(self, filter: Filter) -> Keys:
        """Keys of stored filters that cover the given one; ascending."""
        return _joined(self.old.covering(filter), self._new.covering(filter))

    def covered_by(self, filter: Filter) -> Keys:
        """Keys of stored filters that the given one covers; ascending."""
        return _joined(self.old.covered_by(filter), self._new.covered_by(filter))

    def intersecting(self, advertisement: Filter) -> Keys:
        """Keys of stored filters, read as subscriptions, that `advertisement` may feed; sorted."""
        return _joined(self.old.intersecting(advertisement), self._new.intersecting(advertisement))

    def intersecting_advertisements(self, subscription: Filter) -> Keys:
        """Keys of stored filters, read as advertisements, that may feed `subscription`; sorted."""
        return _joined(
            self.old.intersecting_advertisements(subscription),
            self._new.intersecting_advertisements(subscription),
        )


def _both(old: Routes, new: Routes) -> Routes:
    """The routes by the filters of both."""
    local = sorted((*old[2], *new[2]))
    return old[0] | new[0], old[1] + new[1], local, old[3] | new[3] | old[0] & new[0]


def _joined(some: Keys, others: Keys) -> Keys:
    """Two disjoint answers as one, ascending."""
    return np.sort(np.concatenate((some, others)))
