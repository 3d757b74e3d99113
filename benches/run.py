"""What a section is given: the sizes of this run, a line to say what it does, filled indexes.

Holds what several sections share and no figure of any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from time import process_time

import numpy as np

from benches.baselines import CountingIndex
from byway.matching import MatchIndex, NaiveIndex, Vocabulary
from byway.model import Attributes, Filter
from byway.workload import Generator

QUICK_SHARE = 20


@dataclass(frozen=True)
class Run:
    """How large this run is, and whom to tell what is going on."""

    quick: bool
    step: Callable[[str], None]

    def scaled(self, count: int) -> int:
        """`count`, or a twentieth of it in a quick run."""
        return count // QUICK_SHARE if self.quick else count


@cache
def first_filters(workload: Generator, count: int) -> list[Filter]:
    """The first filters of a workload; several sections want the same ones."""
    return workload.take_filters(count)


def index_of(filters: Iterable[Filter]) -> MatchIndex:
    """An index with a vocabulary of its own, the filters under keys from 0."""
    index = MatchIndex(Vocabulary())
    for key, filter in enumerate(filters):
        index.add(key, filter)
    return index


def naive_of(filters: Iterable[Filter]) -> NaiveIndex:
    """The same in the oracle."""
    naive = NaiveIndex()
    for key, filter in enumerate(filters):
        naive.add(key, filter)
    return naive


@dataclass(frozen=True)
class Compared:
    """What the baselines need for a publication, from a sample that all answered alike."""

    publications: int
    naive_seconds: float
    naive_candidates: float
    """Filters looked at per match."""
    counting_seconds: float
    counting_candidates: float
    """Satisfied predicates counted per match."""

    def seconds(self) -> dict[str, float]:
        """Per publication."""
        return {"naive": self.naive_seconds, "counting": self.counting_seconds}

    def us(self) -> dict[str, float]:
        """Microseconds per publication."""
        return {name: 1e6 * value for name, value in self.seconds().items()}

    def rates(self) -> dict[str, float]:
        """Publications per second."""
        return {name: 1 / value for name, value in self.seconds().items()}

    def candidates(self) -> dict[str, float]:
        """What is looked at per match."""
        return {"naive": self.naive_candidates, "counting": self.counting_candidates}


def compare(
    index: MatchIndex, naive: NaiveIndex, counting: CountingIndex, sample: Sequence[Attributes]
) -> Compared:
    """Ask all three about the sample; their answers must be the same."""
    before = counting.counted
    start = process_time()
    by_naive = naive.match_batch(sample)
    middle = process_time()
    by_counting = [counting.match(publication) for publication in sample]
    end = process_time()
    answers = zip(index.match_batch(sample), by_naive, by_counting, strict=True)
    for number, (ours, theirs, counted) in enumerate(answers):
        ours = np.sort(ours)
        assert np.array_equal(ours, np.sort(theirs)), f"naive differs on publication {number}"
        assert np.array_equal(ours, counted), f"counting differs on publication {number}"
    matches = max(1, sum(map(len, by_naive)))
    return Compared(
        publications=len(sample),
        naive_seconds=(middle - start) / len(sample),
        naive_candidates=len(naive) * len(sample) / matches,
        counting_seconds=(end - middle) / len(sample),
        counting_candidates=(counting.counted - before) / matches,
    )


@dataclass(frozen=True)
class Work:
    """What an index looked at while it matched some publications."""

    publications: int
    candidates: int
    matches: int

    @property
    def per_match(self) -> float:
        """Candidates per match; per one match if there was none."""
        return self.candidates / max(1, self.matches)

    @property
    def matches_each(self) -> float:
        """Matches per publication."""
        return self.matches / self.publications


def work_of(index: MatchIndex, publications: Sequence[Attributes]) -> Work:
    """Match the publications in a batch and tell from the index's counters what that took."""
    before = index.statistics()
    index.match_batch(publications)
    after = index.statistics()
    return Work(
        after.publications - before.publications,
        after.candidates - before.candidates,
        after.matches - before.matches,
    )
