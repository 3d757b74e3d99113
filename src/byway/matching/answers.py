"""What an index answers: key arrays, link masks, counters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
NO_KEYS: Final[Keys] = np.zeros(0, np.int64)


class Links(NamedTuple):
    """Which links a publication must take."""

    mask: int
    """Bit i is set when an entry of link i matches."""
    several: bool
    """Whether two or more entries match, local ones among them, those of the excluded link not."""


Routes = tuple[int, int, Sequence[int], int]
"""Where a publication must go: the mask of its targets, how many entries match (those of the
excluded link apart), matching keys that were added without a link, and the mask of targets with two
or more entries. Plain, because it is made at every hop: a tuple with names takes ten times as long
to make, an array as long as the match."""


class IndexStatistics(msgspec.Struct, frozen=True):
    """What an index did since it was made."""

    publications: int
    candidates: int
    matches: int
    moved: int
    """Conjunctions that were given another access predicate."""


class Matches(Sequence[Keys]):
    """The answers to a batch: a sequence of key arrays, or flat in `keys` and `offsets`."""

    def __init__(self, parts: list[tuple[Keys, Keys]]) -> None:
        """`parts`: keys of some publications each, and where each answer begins and ends."""
        self._parts = parts
        self._first = [0]
        for _, offsets in parts:
            self._first.append(self._first[-1] + len(offsets) - 1)

    def __len__(self) -> int:
        return self._first[-1]

    def __getitem__(self, i: int) -> Keys:  # type: ignore[override]
        if not -len(self) <= i < len(self):
            raise IndexError(f"batch of {len(self)} publications has no answer {i}")
        i %= len(self)
        part = bisect_right(self._first, i) - 1
        keys, offsets = self._parts[part]
        i -= self._first[part]
        return keys[offsets[i] : offsets[i + 1]]

    def __iter__(self) -> Iterator[Keys]:
        for keys, offsets in self._parts:
            for start, end in pairwise(offsets.tolist()):
                yield keys[start:end]

    @property
    def keys(self) -> Keys:
        """All answers, one after the other."""
        return np.concatenate([NO_KEYS, *(keys for keys, _ in self._parts)])

    @property
    def offsets(self) -> Keys:
        """Where each answer begins in `keys`, and the last one ends."""
        counts = [np.zeros(1, np.int64), *(np.diff(offsets) for _, offsets in self._parts)]
        return np.cumsum(np.concatenate(counts))

    def __repr__(self) -> str:
        return f"<Matches of {len(self)} publications, {sum(len(k) for k, _ in self._parts)} keys>"
