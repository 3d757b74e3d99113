"""Feeds: who wants which of a publisher's publications, as in the data sets DT1 to DT3 of
"Opportunistic multipath forwarding".

This file decides how many brokers want a publication, which ones, and what is published how often.
The paper tells only counts and shares; the law that fits them is stated below.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from byway.model.tree_shapes import numbered_names
from byway.workload.chunks import NO_STRING, FilterChunk, Operator, PublicationChunk, ValueKind
from byway.workload.draws import Integers, chunk_rng, draw_zipf
from byway.workload.generator import PUBLICATIONS, Generator, require
from byway.workload.zipf import EXPONENT_MAX

BROKERS_MAX: Final = 100_000
ITEMS_MAX: Final = 1_000
DRAWS_MAX: Final = 20_000_000
_WHERE: Final = 16
_WANTED: Final = 17
_NAMES: Final = ("feed", "item")


class _Wanted(NamedTuple):
    """All subscriptions, in order of feed, item and subscribing broker."""

    feed: Integers
    item: Integers
    subscriber: Integers


class Feeds(Generator, frozen=True, kw_only=True, tag=True):
    """Brokers with a feed of `items` distinct publications each, and brokers that want some; then
    the end.

    Of `brokers` brokers `feeds` publish and `subscribers` subscribe, both drawn at random. A
    feed's item of rank r (item 0 has rank 1) is drawn `density` × p_r × `subscribers` times,
    rounded, from the subscribing brokers, p_r being its Zipf share with `exponent`; a broker that
    is drawn more than once subscribes once: `feed = 'B017' AND item = 3`. Rows are in order of
    feed, item, broker.

    **Publications**, without end, are of any feed, all alike, and of any item, drawn with Zipf
    weights of `popularity_exponent` (0: all alike). Each is published at the broker of its feed.
    """

    brokers: int = 120
    feeds: int = 120
    subscribers: int = 60
    items: int = 10
    density: float = 1.0
    exponent: float = 1.0
    popularity_exponent: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("brokers", self.brokers, 1, BROKERS_MAX)
        require("feeds", self.feeds, 1, self.brokers)
        require("subscribers", self.subscribers, 1, self.brokers)
        require("items", self.items, 1, ITEMS_MAX)
        require("density", self.density, 0, 1_000)
        require("exponent", self.exponent, 0, EXPONENT_MAX)
        require("popularity_exponent", self.popularity_exponent, 0, EXPONENT_MAX)
        require("draws", self.feeds * int(self._draws().sum()), 0, DRAWS_MAX)

    def broker_names(self) -> tuple[str, ...]:
        return numbered_names("B", self.brokers)

    def subscription_count(self) -> int:
        return len(_wanted(self).feed)

    def _draws(self) -> Integers:
        """How often subscribing brokers are drawn for each item of a feed."""
        weights = 1.0 / np.arange(1, self.items + 1) ** self.exponent
        shares = weights / weights.sum()
        draws: Integers = np.rint(shares * self.density * self.subscribers).astype(np.int64)
        return draws

    def _places(self) -> tuple[Integers, Integers]:
        """The brokers of the feeds, and the brokers that subscribe, both ascending."""
        rng = chunk_rng(self.seed, _WHERE, 0)
        publishing = rng.permutation(self.brokers)[: self.feeds]
        subscribing = rng.permutation(self.brokers)[: self.subscribers]
        return np.sort(publishing), np.sort(subscribing)

    def _rows(self, chunk: int) -> slice:
        return slice(chunk * self.ROWS, (chunk + 1) * self.ROWS)

    def subscriptions(self, chunk: int) -> FilterChunk:
        wanted, rows = _wanted(self), self._rows(chunk)
        feed, item = wanted.feed[rows], wanted.item[rows]
        count = len(feed)
        numbers = np.zeros((count, 2))
        numbers[:, 1] = item
        return FilterChunk(
            names=_NAMES,
            strings=self.broker_names(),
            offsets=np.arange(count + 1, dtype=np.int32) * np.int32(2),
            name_ids=np.tile(np.arange(2, dtype=np.int32), count),
            operators=np.full(2 * count, Operator.EQUAL, np.uint8),
            numbers=numbers.ravel(),
            highs=np.zeros(2 * count),
            string_ids=self._string_ids(feed),
        )

    def feed_names(self) -> tuple[str, ...]:
        """The names of the feeds, by number: those of their brokers."""
        names = self.broker_names()
        return tuple(names[place] for place in self._places()[0].tolist())

    def subscriber_numbers(self) -> Integers:
        """For each subscription the number of its subscriber, below `subscribers`."""
        return _wanted(self).subscriber

    def feed_numbers(self, chunk: int) -> Integers:
        """For each publication of the chunk the number of its feed, below `feeds`."""
        return self._published(chunk)[0]

    def subscription_places(self, chunk: int) -> Integers:
        return self._places()[1][_wanted(self).subscriber[self._rows(chunk)]]

    def publications(self, chunk: int) -> PublicationChunk:
        feed, item = self._published(chunk)
        numbers = np.zeros((self.ROWS, 2))
        numbers[:, 1] = item
        kinds = np.array([ValueKind.STRING, ValueKind.INTEGER], np.uint8)
        return PublicationChunk(
            names=_NAMES,
            strings=self.broker_names(),
            offsets=np.arange(self.ROWS + 1, dtype=np.int32) * np.int32(2),
            name_ids=np.tile(np.arange(2, dtype=np.int32), self.ROWS),
            kinds=np.tile(kinds, self.ROWS),
            numbers=numbers.ravel(),
            string_ids=self._string_ids(feed),
        )

    def publication_places(self, chunk: int) -> Integers:
        return self._places()[0][self._published(chunk)[0]]

    def _published(self, chunk: int) -> tuple[Integers, Integers]:
        """Feed and item of each publication of a chunk."""
        rng = chunk_rng(self.seed, PUBLICATIONS, chunk)
        feed = rng.integers(0, self.feeds, self.ROWS)
        return feed, draw_zipf(rng, self.items, self.popularity_exponent, self.ROWS)

    def _string_ids(self, feed: Integers) -> np.typing.NDArray[np.int32]:
        """The name of the feed's broker, and no string for the item."""
        ids = np.full((len(feed), 2), NO_STRING, np.int32)
        ids[:, 0] = self._places()[0][feed]
        return ids.ravel()


@lru_cache(maxsize=4)
def _wanted(workload: Feeds) -> _Wanted:
    """The subscriptions of all feeds: whether a draw is a duplicate shifts all rows after it."""
    draws = workload._draws()
    total = int(draws.sum())
    feed = np.repeat(np.arange(workload.feeds), total)
    item = np.tile(np.repeat(np.arange(workload.items), draws), workload.feeds)
    rng = chunk_rng(workload.seed, _WANTED, 0)
    subscriber = rng.integers(0, workload.subscribers, len(feed))
    keys = np.unique((feed * workload.items + item) * workload.subscribers + subscriber)
    pairs, subscriber = np.divmod(keys, workload.subscribers)
    feed, item = np.divmod(pairs, workload.items)
    return _Wanted(feed, item, subscriber)
