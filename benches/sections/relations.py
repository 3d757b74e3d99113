"""Which stored filters cover, are covered by, or meet a given one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benches.baselines import BoxScan
from benches.report import Figure, Section, at_most
from benches.run import Run, first_filters, index_of, naive_of
from benches.timing import best_seconds
from byway.model import Filter
from byway.workload import CoveringDegree

TITLE = "relation queries among filters with covering degree 30"
STORED = 80_000
DEGREE = 30.0
QUERIES = 200
SAMPLE = 3
RELATIONS = {
    "covering": at_most(50),
    "covered_by": at_most(50),
    "intersecting": at_most(50),
    "intersecting_advertisements": None,
}


def measure(run: Run) -> Section:
    """Every relation asked of roots, of leaves and of filters that are not stored."""
    stored, asked = run.scaled(STORED), run.scaled(QUERIES)
    run.step(f"adding {stored:,} filters")
    workload = CoveringDegree(seed=1, count=stored, degree=DEGREE)
    filters = first_filters(workload, stored)
    index, naive, scan = index_of(filters), naive_of(filters), BoxScan(filters)
    index.match_batch(workload.take_publications(2_000))  # a broker's index has seen publications
    figures = []
    for kind, queries in _queries(workload, filters, asked).items():
        for relation in RELATIONS:
            run.step(f"{relation}, {kind}")
            figures.append(_figure(relation, kind, queries, index, naive, scan))
    sizes = {"filters": stored, "roots": workload.roots, "queries of a kind": asked,
             "sample for naive": SAMPLE}  # fmt: skip
    return Section("relations", TITLE, sizes, figures, [
        "scan: numpy compares the query's box with all boxes; in brackets, results per query",
        "relations were on: the first query that files everything is a figure of `updates`",
    ])  # fmt: skip


def _queries(
    workload: CoveringDegree, filters: list[Filter], asked: int
) -> dict[str, list[Filter]]:
    roots = workload.root_rows()
    leaves = np.setdiff1d(np.arange(len(filters)), roots)
    fresh = CoveringDegree(seed=2, count=len(filters), degree=DEGREE).take_filters(len(filters))
    rng = np.random.default_rng(1)
    return {
        "of a root": [filters[row] for row in rng.choice(roots, asked).tolist()],
        "of a leaf": [filters[row] for row in rng.choice(leaves, asked).tolist()],
        "of a fresh filter": [fresh[row] for row in rng.integers(0, len(fresh), asked).tolist()],
    }


def _figure(
    relation: str, kind: str, queries: list[Filter], index: Any, naive: Any, scan: Any
) -> Figure:
    us, answers = _asked(getattr(index, relation), queries, rounds=5)
    scan_us, scanned = _asked(getattr(scan, relation), queries, rounds=2)
    naive_us, looked_up = _asked(getattr(naive, relation), queries[:SAMPLE], rounds=1)
    assert all(map(np.array_equal, answers, scanned)), f"the scan differs: {relation} {kind}"
    assert all(map(np.array_equal, answers, looked_up)), f"naive differs: {relation} {kind}"
    results = sum(map(len, answers)) / len(queries)
    return Figure(
        f"{relation} {kind} ({results:.1f})", us, "µs", RELATIONS[relation],
        {"naive": naive_us, "scan": scan_us},
    )  # fmt: skip


def _asked(
    ask: Callable[[Filter], Sequence[int]], queries: list[Filter], rounds: int
) -> tuple[float, list[Sequence[int]]]:
    """Microseconds per query, and the answers."""
    answers: list[Sequence[int]] = []

    def ask_all() -> None:
        answers[:] = [ask(query) for query in queries]

    return 1e6 * best_seconds(ask_all, rounds) / len(queries), answers
