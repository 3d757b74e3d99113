"""An index whose filters are being moved to a smaller one, a few at a time.

Blocks of an index's arrays are used again, but arrays never shrink. Once most of their room is
unused, the filters move to a new index with every call that changes something, and whenever a
driver has time. Until then both are asked; a filter stands in one of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from byway.matching.answers import Keys, Routes
from byway.matching.encoding import Encoded
from byway.matching.index import MatchIndex
from byway.model import Attributes, DuplicateKeyError, Filter

_WITH_A_CHANGE: Final = 4
"""Filters that move when one is added or removed: about as much work again. It takes a quarter of
their number in changes to move all."""


class MovingIndex:
    """Two `MatchIndex`es that answer as one."""

    def __init__(self, old: MatchIndex) -> None:
        self.new = MatchIndex(old.vocabulary)
        self._old = old
        self._keys = old.keys()

    def __len__(self) -> int:
        return len(self._old) + len(self.new)

    def __repr__(self) -> str:
        return f"<MovingIndex from {self._old!r} to {self.new!r}>"

    @property
    def is_done(self) -> bool:
        """Whether all filters are in the new index."""
        return not len(self._old)

    def move(self, most: int) -> None:
        """Move up to so many filters."""
        last = max(len(self._keys) - most, 0)
        for key in self._keys[last:].tolist():
            if key in self._old:  # else it was removed in the meantime
                filter, link = self._old[key], self._old.link_of(key)
                self.new.add(key, filter, link)  # first: so its strings stay in use
                self._old.remove(key)
        self._keys = self._keys[:last]

    def add(self, key: int, filter: Filter, link: int | None = None) -> None:
        """Store a filter, as `MatchIndex.add` does."""
        if key in self._old:
            raise DuplicateKeyError(key)
        self.new.add(key, filter, link)
        self.move(_WITH_A_CHANGE)

    def remove(self, key: int) -> None:
        """Forget a key. Raises `UnknownKeyError` when it is not there."""
        (self._old if key in self._old else self.new).remove(key)
        self.move(_WITH_A_CHANGE)

    def match(self, attributes: Attributes) -> Keys:
        """Keys of the filters that match a publication."""
        return _joined(self._old.match(attributes), self.new.match(attributes))

    def match_routes(self, publication: Attributes | Encoded, exclude: int | None = None) -> Routes:
        """Links, how many entries match, keys of those without a link."""
        mask, matched, local = self._old.match_routes(publication, exclude)
        new_mask, new_matched, new_local = self.new.match_routes(publication, exclude)
        return mask | new_mask, matched + new_matched, _joined(local, new_local)

    def covering(self, filter: Filter) -> Keys:
        """Keys of stored filters that cover the given one; ascending."""
        return _joined(self._old.covering(filter), self.new.covering(filter))

    def covered_by(self, filter: Filter) -> Keys:
        """Keys of stored filters that the given one covers; ascending."""
        return _joined(self._old.covered_by(filter), self.new.covered_by(filter))

    def intersecting(self, advertisement: Filter) -> Keys:
        """Keys of stored filters, read as subscriptions, that `advertisement` may feed; sorted."""
        return _joined(self._old.intersecting(advertisement), self.new.intersecting(advertisement))

    def intersecting_advertisements(self, subscription: Filter) -> Keys:
        """Keys of stored filters, read as advertisements, that may feed `subscription`; sorted."""
        return _joined(
            self._old.intersecting_advertisements(subscription),
            self.new.intersecting_advertisements(subscription),
        )


def _joined(some: Keys, others: Keys) -> Keys:
    """Two disjoint answers as one, ascending."""
    return np.sort(np.concatenate((some, others)))
