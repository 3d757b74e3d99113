"""Stock quotes: what a single publication costs a broker with many similar subscriptions."""

from __future__ import annotations

import numpy as np

from benches.baselines import CountingIndex
from benches.report import Figure, Section, at_most
from benches.run import Run, compare, first_filters, index_of, naive_of, work_of
from benches.timing import best_seconds, call_each, each_ns
from byway.workload import StockQuotes

TITLE = "stock-quote subscriptions (class, symbol, one or two ranges)"
WORKLOAD = StockQuotes(seed=1, ranges=True)
SUBSCRIPTIONS = 10_000
PUBLICATIONS = 20_000
SAMPLE = 50


def measure(run: Run) -> Section:
    """Single calls of `match`, their mean and median in the best of several rounds."""
    count = run.scaled(SUBSCRIPTIONS)
    publications = WORKLOAD.take_publications(run.scaled(PUBLICATIONS))
    run.step(f"adding {count:,} subscriptions")
    filters = first_filters(WORKLOAD, count)
    index = index_of(filters)
    run.step("asking the baselines")
    compared = compare(index, naive_of(filters), CountingIndex(filters), publications[:SAMPLE])
    run.step("matching one by one")
    for _ in range(3):
        index.match_batch(publications)  # the index learns what publications look like
    work = work_of(index, publications)
    rounds = 7
    median = min(float(np.median(each_ns(index.match, publications))) for _ in range(rounds)) / 1e3
    all_of_them = best_seconds(lambda: call_each(index.match, publications), rounds)
    mean = 1e6 * all_of_them / len(publications)
    run.step("matching in batches")
    batch = best_seconds(lambda: index.match_batch(publications), rounds=7) / len(publications)
    figures = [
        Figure("match, median", median, "µs", at_most(10), compared.us()),
        Figure("match, mean", mean, "µs", at_most(10), compared.us()),
        Figure(
            "match_batch, from dicts", 1 / batch, "publications/s", None,
            compared.rates(), more_is_better=True,
        ),
        Figure("candidates per match", work.per_match, "", None, compared.candidates()),
        Figure("matches per publication", work.matches_each, ""),
    ]  # fmt: skip
    sizes = {
        "subscriptions": count,
        "symbols": WORKLOAD.symbols,
        "publications": len(publications),
        "attributes of a publication": len(publications[0]),
        "baselines' sample": compared.publications,
    }
    return Section("stocks", TITLE, sizes, figures, [
        "the median is by the clock, the mean by processor time; both of the best of 7 rounds",
    ])  # fmt: skip
