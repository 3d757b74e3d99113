"""Five times as many subscriptions: time per publication against matches, and memory."""

from __future__ import annotations

import sys

from benches.baselines import CountingIndex
from benches.report import Figure, Section, at_most
from benches.run import Compared, Run, compare, first_filters, index_of, naive_of, work_of
from benches.timing import best_of_each, seconds
from byway.matching import MatchIndex, NaiveIndex, Vocabulary
from byway.model import Filter, Value
from byway.workload import Siena

TITLE = "five times as many SIENA-style subscriptions"
WORKLOAD = Siena(seed=1)
FEW = 200_000
MANY = 1_000_000
PUBLICATIONS = 4_000
SAMPLE = 4


class Table:
    """An index of some size, what matching costs it, and what the baselines need."""

    def __init__(self, filters: list[Filter], publications: list[dict[str, Value]]) -> None:
        self.publications = publications
        self.index = index_of(filters)
        work_of(self.index, publications)  # the index learns what publications look like
        self.matches = work_of(self.index, publications).matches_each
        naive, counting = naive_of(filters), CountingIndex(filters)
        self.compared: Compared = compare(self.index, naive, counting, publications[:SAMPLE])
        self.baseline_bytes = {
            "naive": _table_bytes(naive) / len(filters),
            "counting": counting.memory_bytes / len(filters),
        }

    def match(self) -> None:
        """The thing that is timed."""
        self.index.match_batch(self.publications)

    @property
    def bytes_each(self) -> float:
        """Memory per subscription."""
        return self.index.memory_bytes / len(self.index)


def measure(run: Run) -> Section:
    """The same publications against a small table and a large one, in turn."""
    few, many = run.scaled(FEW), run.scaled(MANY)
    publications = WORKLOAD.take_publications(run.scaled(PUBLICATIONS))
    run.step(f"adding {few:,} subscriptions, and asking the baselines")
    small = Table(first_filters(WORKLOAD, few), publications)
    run.step(f"making {many:,} subscriptions")
    filters = WORKLOAD.take_filters(many)
    run.step(f"adding {many:,} subscriptions, and asking the baselines")
    large = Table(filters, publications)
    run.step("matching with both")
    spent = best_of_each([small.match, large.match])
    small_us, large_us = (1e6 * one / len(publications) for one in spent)
    before = large.bytes_each
    run.step("asking for relations the first time")
    MatchIndex(Vocabulary()).covered_by(filters[0])  # loads the kernels
    switch = seconds(lambda: large.index.covered_by(filters[0]))
    grown = large.matches / small.matches
    figures = [
        Figure(f"time per publication, {few:,}", small_us, "µs", None, small.compared.us()),
        Figure(f"time per publication, {many:,}", large_us, "µs", None, large.compared.us()),
        Figure("growth of matches", grown, "×"),
        Figure("growth of time", large_us / small_us, "×", at_most(grown), _growth(small, large)),
        Figure("memory per subscription", before, "bytes", at_most(300), large.baseline_bytes),
        Figure("memory after relation queries", large.bytes_each, "bytes", at_most(300),
               large.baseline_bytes),
        Figure("first relation query (files all)", switch * 1e3, "ms"),
    ]  # fmt: skip
    sizes: dict[str, float | str] = {
        "subscriptions": f"{few:,} and {many:,}",
        "publications": len(publications),
        "matches of each": f"{small.matches:,.0f} and {large.matches:,.0f}",
        "baselines' sample": SAMPLE,
    }
    return Section("growth", TITLE, sizes, figures, [
        "memory: arrays and tables of the index; the filters themselves and the vocabulary apart",
    ])  # fmt: skip


def _growth(small: Table, large: Table) -> dict[str, float]:
    then, now = small.compared.us(), large.compared.us()
    return {name: now[name] / then[name] for name in then}


def _table_bytes(naive: NaiveIndex) -> int:
    """The oracle's dictionary and its pairs of filter and link."""
    return sys.getsizeof(naive._filters) + len(naive) * sys.getsizeof((None, None))
