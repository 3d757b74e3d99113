"""Covering degree: subscriptions whose roots, when removed, release a known number of others.

This file decides the forest of coverings and the boxes that realise it. What releasing means is
defined by "Selective filter aggregation" (section V-A): a root is covered by no other
subscription, NRS(S) is the set of new roots once root S is removed, and the covering degree is the
mean of |NRS(S)| over the roots.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from byway.workload.chunks import NO_STRING, FilterChunk, Operator, PublicationChunk, ValueKind
from byway.workload.draws import (
    TABLE_SIZE_MAX,
    Integers,
    below,
    chunk_rng,
    draw_zipf,
    numbered_integers,
)
from byway.workload.generator import PUBLICATIONS, Generator, WorkloadError, require
from byway.workload.zipf import EXPONENT_MAX

# Streams: roots, children and grandchildren are three numbered populations.
_ROOTS: Final = 16
_CHILDREN: Final = 17
_GRANDCHILDREN: Final = 18

COUNT_MAX: Final = 1_000_000_000
DEGREE_MAX: Final = 100_000

# `class` and `key` name a line; along it, by `price`, lie the groups.
_NAMES: Final = ("class", "key", "price", "quantity", "weight")
_CLASSES: Final = tuple(f"c{number}" for number in range(10))
_LINE_MAX: Final = 8  # groups on it
_SLOT: Final = 1_000_000  # a group's share of the price line
_AMOUNT_MAX: Final = 10_000  # of quantity and weight
_ROOT_AMOUNT_MAX: Final = 9_000  # no root reaches beyond: that is where publications miss

Boxes = npt.NDArray[np.int64]  # (subscription, attribute, low and high)


class CoveringDegree(Generator, frozen=True, kw_only=True, tag=True):
    """`count` subscriptions with a mean of `degree` new roots for each root removed; then the end.

    **The forest.** There are `roots` roots, `children` children shared out evenly over the roots,
    and `grandchildren` grandchildren shared out evenly over the children; `nested` is the share of
    grandchildren among all that are not roots. Rows are in pre-order: a root, its first child, that
    child's grandchildren, its second child …, so any stretch of rows is nearly such a workload too
    (shuffle them for another order of arrival). `parents` gives the row of each row's parent.

    **The boxes.** A subscription is `class = … AND key = … AND price BETWEEN …`, and likewise for
    `quantity` and `weight` as far as `ranges` (1 to 3) goes; all bounds are integers. `line` groups
    (a root and its descendants) share a class and a key and follow one another along `price`,
    neighbours' roots overlapping by up to `overlap` of their width. In each group one price lies
    in this group's root only, and every descendant's price range contains it. Children's price
    ranges have lower and upper bounds both strictly ascending. On the other attributes a child
    takes about `width` of its parent's range, a grandchild of the child's. `spread` says how far
    children's price bounds lie from their root's: with 1 anywhere up to the price that all share,
    with less in the outer part only, so that a single child wants nearly all that its root does.

    **What follows, exactly.** No root covers another. Every child lies strictly inside its root, in
    no other root, and in no other child: removing a root releases its children and nothing else, so
    the covering degree is `children / roots` (`achieved_degree`), as near to `degree` as whole
    numbers allow. Every grandchild lies strictly inside its child, and is released only after it.

    **Publications**, without end, carry all attributes. With probability `hit` one lies inside a
    root, drawn with Zipf weights of `popularity_exponent` (0: all alike) from the first `hot` roots
    (0: from all), uniformly within its box; else it matches no subscription. How many of those that
    match a root match a child too, the papers' similarity φ, is set by `width` and `spread`.
    """

    count: int = 30_000
    degree: float = 30.0
    nested: float = 0.0
    ranges: int = 3
    width: float = 0.8
    overlap: float = 0.2
    hit: float = 0.9
    popularity_exponent: float = 0.0
    spread: float = 1.0
    hot: int = 0
    line: int = _LINE_MAX

    def __post_init__(self) -> None:
        super().__post_init__()
        require("count", self.count, 1, COUNT_MAX)
        require("degree", self.degree, 0, DEGREE_MAX)
        require("nested", self.nested, 0, 0.9)
        require("ranges", self.ranges, 1, 3)
        require("width", self.width, 0.01, 1)
        require("overlap", self.overlap, 0, 0.9)
        require("hit", self.hit, 0, 1)
        require("popularity_exponent", self.popularity_exponent, 0, EXPONENT_MAX)
        require("spread", self.spread, 0.01, 1)
        require("hot", self.hot, 0, self.roots)
        require("line", self.line, 1, _LINE_MAX)
        if self.degree + 1 > self.count:
            raise WorkloadError("degree", self.degree, f"less than the count, {self.count}")
        if self.popularity_exponent:
            require("roots", self.roots, 1, TABLE_SIZE_MAX)

    # --- the forest

    @property
    def roots(self) -> int:
        """How many subscriptions no other covers."""
        return max(1, round(self.count / (1 + self.degree / (1 - self.nested))))

    @property
    def children(self) -> int:
        """How many subscriptions a root covers and no other child does."""
        rest = self.count - self.roots
        return min(rest, max(1, round(self.roots * self.degree))) if self.nested else rest

    @property
    def grandchildren(self) -> int:
        """How many subscriptions lie inside a child."""
        return self.count - self.roots - self.children

    @property
    def achieved_degree(self) -> float:
        """The covering degree of the whole workload."""
        return self.children / self.roots

    def subscription_count(self) -> int:
        return self.count

    def root_rows(self) -> Integers:
        """The rows that are roots, ascending."""
        return self._root_row(np.arange(self.roots))

    def parents(self, chunk: int) -> Integers:
        """For each row of the chunk the row that covers it directly; -1 for roots."""
        start, stop = self._rows(chunk)
        parents = np.full(stop - start, -1)
        children = _within(self._child_row, self.children, start, stop)
        parents[self._child_row(children) - start] = self._root_row(self._group(children))
        grandchildren = _within(self._grandchild_row, self.grandchildren, start, stop)
        rows = self._grandchild_row(grandchildren) - start
        parents[rows] = self._child_row(self._child(grandchildren))
        return parents

    def groups(self, chunk: int) -> Integers:
        """For each row of the chunk the number of its root among the roots."""
        start, stop = self._rows(chunk)
        return np.searchsorted(self.root_rows(), np.arange(start, stop), side="right") - 1

    def _rows(self, chunk: int) -> tuple[int, int]:
        return min(chunk * self.ROWS, self.count), min((chunk + 1) * self.ROWS, self.count)

    # Members are numbered by population, in row order. `b` members are shared out evenly over `a`
    # parents: parent i has those from i * b // a on; member j's parent is ((j + 1) * a - 1) // b.

    def _group(self, child: Integers) -> Integers:
        return ((child + 1) * self.roots - 1) // max(1, self.children)

    def _child(self, grandchild: Integers) -> Integers:
        return ((grandchild + 1) * self.children - 1) // max(1, self.grandchildren)

    def _first_grandchild(self, child: Integers) -> Integers:
        return child * self.grandchildren // max(1, self.children)

    def _root_row(self, group: Integers) -> Integers:
        first_child = group * self.children // self.roots
        return group + first_child + self._first_grandchild(first_child)

    def _child_row(self, child: Integers) -> Integers:
        return self._group(child) + 1 + child + self._first_grandchild(child)

    def _grandchild_row(self, grandchild: Integers) -> Integers:
        child = self._child(grandchild)
        return self._group(child) + child + grandchild + 2

    # --- the boxes

    def _integers(self, stream: int, members: Integers) -> Integers:
        return numbered_integers(self.seed, stream, members, 6, self.ROWS)

    def _overlap(self) -> int:
        return round(self.overlap * _SLOT)

    def _marker(self, group: Integers) -> Integers:
        """A price that lies in this group's root and in no other of its line."""
        return group % self.line * _SLOT + (_SLOT + self._overlap()) // 2

    def _root_boxes(self, groups: Integers) -> Boxes:
        raw = self._integers(_ROOTS, groups)
        slot = groups % self.line * _SLOT
        boxes = np.empty((len(groups), 3, 2), np.int64)
        boxes[:, 0, 0] = slot + below(raw[:, 0], _SLOT // 8)
        boxes[:, 0, 1] = (
            slot + _SLOT - 1 + self._overlap() - below(raw[:, 1], self._overlap() // 2 + 1)
        )
        boxes[:, 1:, 0] = below(raw[:, 2:4], _ROOT_AMOUNT_MAX // 3)
        boxes[:, 1:, 1] = _ROOT_AMOUNT_MAX - below(raw[:, 4:6], _ROOT_AMOUNT_MAX // 3)
        return boxes

    def _child_boxes(self, children: Integers) -> Boxes:
        groups = self._group(children)
        among = np.unique(groups)
        parents = self._root_boxes(among)[np.searchsorted(among, groups)]
        raw = self._integers(_CHILDREN, children)
        first = groups * self.children // self.roots
        siblings = (groups + 1) * self.children // self.roots - first
        marker = self._marker(groups)
        boxes = np.empty_like(parents)
        # Each child has a cell of its own below the marker and one above, both in the same order.
        low, high = parents[:, 0, 0], parents[:, 0, 1]
        cell = self._cell(marker - low, siblings)
        boxes[:, 0, 0] = low + (children - first) * cell + below(raw[:, 0], cell)
        cell = self._cell(high - marker - 2, siblings)
        inmost = high - siblings * cell if self.spread < 1 else marker + 2
        boxes[:, 0, 1] = inmost + (children - first) * cell + below(raw[:, 1], cell)
        boxes[:, 1:] = self._narrowed(parents[:, 1:], raw[:, 2:4], raw[:, 4:6])
        return boxes

    def _cell(self, span: Integers, siblings: Integers) -> Integers:
        """The share of one child in the outer part of a span."""
        permille = round(self.spread * 1_000)
        cell: Integers = np.maximum(span * permille // (1_000 * siblings), 1)
        return cell

    def _grandchild_boxes(self, grandchildren: Integers) -> Boxes:
        children = self._child(grandchildren)
        among = np.unique(children)
        parents = self._child_boxes(among)[np.searchsorted(among, children)]
        raw = self._integers(_GRANDCHILDREN, grandchildren)
        marker = self._marker(self._group(children))
        boxes = np.empty_like(parents)
        low, high = parents[:, 0, 0], parents[:, 0, 1]
        boxes[:, 0, 0] = low + 1 + below(raw[:, 0], marker - low)
        boxes[:, 0, 1] = high - 1 - below(raw[:, 1], high - marker - 1)
        boxes[:, 1:] = self._narrowed(parents[:, 1:], raw[:, 2:4], raw[:, 4:6])
        return boxes

    def _narrowed(self, ranges: Boxes, raw_sizes: Integers, raw_places: Integers) -> Boxes:
        """Ranges inside the ones given, 75 to 125 % of `width` as wide, but never wider."""
        permille = round(self.width * 1_000) * (750 + below(raw_sizes, 501)) // 1_000
        spans = ranges[..., 1] - ranges[..., 0]
        taken = spans * np.minimum(permille, 1_000) // 1_000
        lows = ranges[..., 0] + below(raw_places, spans - taken + 1)
        return np.stack([lows, lows + taken], axis=-1)

    # --- chunks

    def subscriptions(self, chunk: int) -> FilterChunk:
        start, stop = self._rows(chunk)
        groups = np.empty(stop - start, np.int64)
        boxes = np.empty((stop - start, 3, 2), np.int64)
        roots = _within(self._root_row, self.roots, start, stop)
        rows = self._root_row(roots) - start
        groups[rows], boxes[rows] = roots, self._root_boxes(roots)
        children = _within(self._child_row, self.children, start, stop)
        rows = self._child_row(children) - start
        groups[rows], boxes[rows] = self._group(children), self._child_boxes(children)
        grandchildren = _within(self._grandchild_row, self.grandchildren, start, stop)
        rows = self._grandchild_row(grandchildren) - start
        groups[rows] = self._group(self._child(grandchildren))
        boxes[rows] = self._grandchild_boxes(grandchildren)
        return self._filter_chunk(groups, boxes[:, : self.ranges])

    def _filter_chunk(self, groups: Integers, boxes: Boxes) -> FilterChunk:
        count, terms = len(groups), 2 + self.ranges
        operators = np.array([Operator.EQUAL] * 2 + [Operator.BETWEEN] * self.ranges, np.uint8)
        numbers = np.zeros((count, terms))
        highs = np.zeros((count, terms))
        numbers[:, 2:], highs[:, 2:] = boxes[..., 0], boxes[..., 1]
        strings, string_ids = self._strings(groups, terms)
        return FilterChunk(
            names=_NAMES[:terms],
            strings=strings,
            offsets=np.arange(count + 1, dtype=np.int32) * np.int32(terms),
            name_ids=np.tile(np.arange(terms, dtype=np.int32), count),
            operators=np.tile(operators, count),
            numbers=numbers.ravel(),
            highs=highs.ravel(),
            string_ids=string_ids.ravel(),
        )

    def publications(self, chunk: int) -> PublicationChunk:
        rng = chunk_rng(self.seed, PUBLICATIONS, chunk)
        groups = draw_zipf(rng, self.hot or self.roots, self.popularity_exponent, self.ROWS)
        among = np.unique(groups)
        boxes = self._root_boxes(among)[np.searchsorted(among, groups)]
        raw = rng.integers(0, 2**31, (self.ROWS, 3))
        points = boxes[..., 0] + below(raw, boxes[..., 1] - boxes[..., 0] + 1)
        missed = rng.random(self.ROWS) >= self.hit
        return self._publication_chunk(groups, self._moved_out(points[:, : self.ranges], missed))

    def _moved_out(self, points: Integers, missed: npt.NDArray[np.bool_]) -> Integers:
        """The points, those `missed` moved to where no root reaches, on the last attribute."""
        last = points[:, -1]
        if self.ranges == 1:
            beyond = last + _LINE_MAX * _SLOT * 2
        else:
            beyond = _ROOT_AMOUNT_MAX + 1 + last % (_AMOUNT_MAX - _ROOT_AMOUNT_MAX)
        points[:, -1] = np.where(missed, beyond, last)
        return points

    def _publication_chunk(self, groups: Integers, points: Integers) -> PublicationChunk:
        count, terms = len(groups), 2 + self.ranges
        kinds = np.array([ValueKind.STRING] * 2 + [ValueKind.INTEGER] * self.ranges, np.uint8)
        numbers = np.zeros((count, terms))
        numbers[:, 2:] = points
        strings, string_ids = self._strings(groups, terms)
        return PublicationChunk(
            names=_NAMES[:terms],
            strings=strings,
            offsets=np.arange(count + 1, dtype=np.int32) * np.int32(terms),
            name_ids=np.tile(np.arange(terms, dtype=np.int32), count),
            kinds=np.tile(kinds, count),
            numbers=numbers.ravel(),
            string_ids=string_ids.ravel(),
        )

    def _strings(
        self, groups: Integers, terms: int
    ) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        """A table of the classes and of the keys that occur, and their ids, row by row."""
        lines = groups // self.line
        among = np.unique(lines)
        string_ids = np.full((len(groups), terms), NO_STRING, np.int32)
        string_ids[:, 0] = lines % len(_CLASSES)
        string_ids[:, 1] = len(_CLASSES) + np.searchsorted(among, lines)
        return (*_CLASSES, *(f"k{line:05d}" for line in among.tolist())), string_ids


def _within(row: Callable[[Integers], Integers], count: int, start: int, stop: int) -> Integers:
    """The members of a population of `count` whose rows lie from `start` up to `stop`."""

    def row_of(member: int) -> int:
        return int(row(np.array(member)))

    first = bisect_left(range(count), start, key=row_of)
    last = bisect_left(range(count), stop, lo=first, key=row_of)
    return np.arange(first, last)
