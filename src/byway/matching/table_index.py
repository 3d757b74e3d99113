"""The indexes of routing tables: which kind answers, and when another one takes over.

Before the kernels are there an index looks at every filter, so that a broker that has just been
installed can work at once while another process compiles. Afterwards an index that has become
sparse moves to a smaller one. Answers do not depend on who gives them: keys are sets, and routing
sorts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import WeakSet

import numpy as np

from byway.matching.answers import Keys, Routes
from byway.matching.index import MatchIndex, place_of
from byway.matching.moving_index import MovingIndex
from byway.matching.naive import NaiveIndex
from byway.matching.native import KERNELS
from byway.matching.vocabulary import SHARED
from byway.model import Attributes, Filter


class SimpleIndex:
    """A `MatchIndex` for few filters that needs no kernels. Every answer takes time in proportion
    to the number of filters: about 1 µs for each to match, up to 5 µs to relate. Keys come back in
    ascending order."""

    def __init__(self) -> None:
        self._filters = NaiveIndex()

    def add(
        self, key: int, filter: Filter, link: int | None = None, target: int | None = None
    ) -> None:
        """Store a filter, as `MatchIndex.add` does."""
        place_of(link, target)
        self._filters.add(key, filter, link, target)

    def remove(self, key: int) -> None:
        """Forget a key. Raises `UnknownKeyError` when it is not there."""
        self._filters.remove(key)

    def __len__(self) -> int:
        return len(self._filters)

    def __repr__(self) -> str:
        return f"<SimpleIndex {len(self)} filters>"

    def items(self) -> Iterator[tuple[int, Filter, int | None, int | None]]:
        """Keys in the order in which they were added, with filters, links and targets."""
        return self._filters.items()

    def match(self, attributes: Attributes) -> Keys:
        """Keys of the filters that match a publication."""
        return _keys(self._filters.match(attributes))

    def match_routes(self, attributes: Attributes, exclude: int | None = None) -> Routes:
        """Targets, how many entries match, keys of those without a link, targets with several."""
        mask, matched, local, several = self._filters.match_routes(attributes, exclude)
        return mask, matched, sorted(local), several

    def match_body(self, body: bytes, exclude: int | None = None) -> None:
        """None: only kernels read bodies."""

    def covering(self, filter: Filter) -> Keys:
        """Keys of stored filters that cover the given one."""
        return _keys(self._filters.covering(filter))

    def covered_by(self, filter: Filter) -> Keys:
        """Keys of stored filters that the given one covers."""
        return _keys(self._filters.covered_by(filter))

    def intersecting(self, advertisement: Filter) -> Keys:
        """Keys of stored filters, read as subscriptions, that `advertisement` may feed."""
        return _keys(self._filters.intersecting(advertisement))

    def intersecting_advertisements(self, subscription: Filter) -> Keys:
        """Keys of stored filters, read as advertisements, that may feed `subscription`."""
        return _keys(self._filters.intersecting_advertisements(subscription))


def _keys(keys: list[int]) -> Keys:
    return np.array(sorted(keys), np.int64)


class TableIndex:
    """The index of a routing table: a `MatchIndex`; a `SimpleIndex` while the kernels are compiled,
    until `use_kernels` is called; a `MovingIndex` while it shrinks. Its methods are those of the
    one in use."""

    add: Callable[..., None]
    match: Callable[[Attributes], Keys]
    match_routes: Callable[[Attributes, int | None], Routes]
    match_body: Callable[[bytes, int | None], Routes | None]
    covering: Callable[[Filter], Keys]
    covered_by: Callable[[Filter], Keys]
    intersecting: Callable[[Filter], Keys]
    intersecting_advertisements: Callable[[Filter], Keys]

    def __init__(self) -> None:
        self._own: tuple[Callable[..., Any], ...] = ()
        """The methods of the `MatchIndex`, also while a `MovingIndex` is in use: objects that are
        made among many others, and stay, would hold their memory when those have gone."""
        _ALL.add(self)
        if KERNELS.are_awaited:
            self._use(SimpleIndex())
            _WAITING.add(self)
        else:
            self._use(MatchIndex())

    def empty_copy(self) -> TableIndex:
        """An empty index, which is asked the same kinds of questions as this one."""
        index = TableIndex()
        mine = self.in_use.old if isinstance(self.in_use, MovingIndex) else self.in_use
        if isinstance(mine, MatchIndex) and mine.serves_relations:
            index.serve_relations()
        return index

    def serve_relations(self) -> None:
        """Be ready for all kinds of relations from the first filter on: to begin with one of them
        later takes time for each filter."""
        if isinstance(self.in_use, MatchIndex):
            self.in_use.serve_relations()

    def _use(self, index: MatchIndex | SimpleIndex | MovingIndex) -> None:
        self.in_use = index
        methods = tuple(getattr(index, name) for name in _METHODS)
        self._set(methods)
        if isinstance(index, MatchIndex):
            self._own = methods

    def _set(self, methods: tuple[Callable[..., Any], ...]) -> None:
        for name, method in zip(_METHODS, methods, strict=True):
            setattr(self, name, method)

    def remove(self, key: int) -> None:
        """Forget a key. Raises `UnknownKeyError` when it is not there."""
        index = self.in_use
        index.remove(key)
        if isinstance(index, MovingIndex):
            self._end_move(index)
        elif isinstance(index, MatchIndex) and index.is_sparse:
            self.shrink()

    def shrink(self) -> None:
        """Begin to move to a smaller index."""
        if isinstance(self.in_use, MatchIndex):
            moving = MovingIndex(self.in_use)
            self._use(moving)
            _MOVING.add(self)
            self._end_move(moving)

    def move(self, most: int) -> None:
        """Move up to so many filters to the smaller index, if there is one."""
        if isinstance(self.in_use, MovingIndex):
            self.in_use.move(most)
            self._end_move(self.in_use)

    def _end_move(self, index: MovingIndex) -> None:
        if index.is_done:
            self.in_use = index.end()
            self._set(self._own)
            _MOVING.discard(self)

    def drop_scratch(self) -> None:
        """Free what the last calls left to be used by the next ones."""
        if isinstance(self.in_use, MatchIndex):
            self.in_use.drop_scratch()

    def renew_numbers(self) -> None:
        """Make objects anew that may hold the memory of many others which have gone."""
        if isinstance(self.in_use, MatchIndex):
            self.in_use.renew_numbers()

    def exchange(self) -> None:
        """Go over to the kernels."""
        if isinstance(self.in_use, SimpleIndex):
            index = MatchIndex()
            for key, filter, link, target in self.in_use.items():
                index.add(key, filter, link, target)
            self._use(index)

    def __len__(self) -> int:
        return len(self.in_use)

    def __repr__(self) -> str:
        return f"<TableIndex, in use: {self.in_use!r}>"


_METHODS: Final = tuple(TableIndex.__annotations__)
_WAITING: Final[WeakSet[TableIndex]] = WeakSet()
_MOVING: Final[WeakSet[TableIndex]] = WeakSet()
_ALL: Final[WeakSet[TableIndex]] = WeakSet()


def tidy(filters: int = 64) -> bool:
    """Give back a little of the memory that indexes of this process no longer need: move up to so
    many filters of each that shrinks, and forget some hundred strings that nothing uses. Whether
    there is more to do. Changes of an index do the same in passing; this is for when none come."""
    for index in list(_MOVING):
        index.move(filters)
    return SHARED.forget_unused(kept=0) or bool(_MOVING)


def drop_scratch() -> None:
    """Free what indexes of this process keep between two calls, after many filters have gone."""
    for index in list(_ALL):
        index.drop_scratch()


def renew_numbers() -> None:
    """Make objects of indexes of this process anew that may hold the memory of many others which
    have gone. It takes time in proportion to the number of attributes."""
    for index in list(_ALL):
        index.renew_numbers()


def use_kernels() -> int:
    """Let all indexes of this process go over to the kernels, which are loaded; how many filters
    they hold. It takes about 10 µs for each filter, and must not happen while an input is handled.
    """
    KERNELS.are_awaited = False
    indexes = list(_WAITING)
    _WAITING.clear()
    for index in indexes:
        index.exchange()
    return sum(len(index) for index in indexes)
