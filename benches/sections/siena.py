"""SIENA-style subscriptions: how few candidates, how many publications, what Python adds."""

from __future__ import annotations

from typing import NamedTuple

from benches.baselines import CountingIndex
from benches.report import Figure, Section, at_least, at_most
from benches.run import Run, compare, first_filters, index_of, naive_of, work_of
from benches.timing import best_of_each, best_seconds, call_each, clock_seconds, each_ns
from byway.matching import MatchIndex, Vocabulary
from byway.matching.encoding import Codes, Parcel
from byway.matching.native import KERNELS
from byway.model import Value
from byway.workload import Siena

TITLE = "SIENA-style subscriptions"
WORKLOAD = Siena(seed=1)
SUBSCRIPTIONS = 200_000
PUBLICATIONS = 20_000
SINGLE = 2_000
SAMPLE = 10
REPEATS = 7


def measure(run: Run) -> Section:
    """Candidates per match, publications per second, and the price of asking one by one."""
    count = run.scaled(SUBSCRIPTIONS)
    publications = WORKLOAD.take_publications(run.scaled(PUBLICATIONS))
    run.step(f"making and adding {count:,} subscriptions")
    filters = first_filters(WORKLOAD, count)
    index = index_of(filters)
    run.step("asking the baselines")
    sample = publications[:SAMPLE]
    compared = compare(index, naive_of(filters), CountingIndex(filters), sample)
    run.step("matching in batches")
    work_of(index, publications)  # the index learns what publications look like
    work = work_of(index, publications)
    batch = best_seconds(lambda: index.match_batch(publications), rounds=7) / len(publications)
    clock = clock_seconds(lambda: index.match_batch(publications), rounds=7) / len(publications)
    run.step("matching one by one")
    one_by_one = _one_by_one(index, publications[:SINGLE])
    figures = [
        Figure("candidates per match", work.per_match, "", at_most(1.25), compared.candidates()),
        Figure(
            "match_batch, from dicts", 1 / batch, "publications/s", at_least(30_000),
            compared.rates(), more_is_better=True,
        ),
        Figure("the same, by the clock", 1 / clock, "publications/s", more_is_better=True),
        Figure("match, from a dict", one_by_one.match, "µs", None, compared.us()),
        Figure("the kernel alone", one_by_one.kernel, "µs", None, compared.us()),
        Figure("what match adds to its kernel", one_by_one.added, "µs", at_most(10)),
        Figure("the same, all in cache", one_by_one.warm, "µs"),
        Figure("matches per publication", work.matches_each, ""),
    ]  # fmt: skip
    sizes = {
        "subscriptions": count,
        "publications": len(publications),
        "one by one": min(SINGLE, len(publications)),
        "baselines' sample": compared.publications,
    }
    return Section("siena", TITLE, sizes, figures, [
        "candidates: filters looked at by naive, satisfied predicates counted by counting",
        "what match adds: the difference of the two lines above it, measured in turn",
        f"all in cache: by the clock, best of {REPEATS} calls with one publication, then the mean",
    ])  # fmt: skip


class Singles(NamedTuple):
    """Publications one by one, in microseconds each."""

    match: float
    kernel: float
    warm: float

    @property
    def added(self) -> float:
        """What `match` costs beyond its kernel."""
        return self.match - self.kernel


def _parcel(publication: dict[str, Value], vocabulary: Vocabulary) -> Parcel:
    codes = Codes()
    codes.put(publication, vocabulary)
    return codes.parcel()


def _one_by_one(index: MatchIndex, publications: list[dict[str, Value]]) -> Singles:
    """By `match`, and by the kernel under it from arrays made beforehand.

    Both go through all publications in turn, so each call meets the caches as traffic leaves them.
    `warm` repeats one publication instead: the least that `match` can add, not what it does add.
    """
    encoded = [_parcel(publication, index.vocabulary) for publication in publications]
    index_address, answer = index._address, index._answer_address

    def kernel(parcel: Parcel) -> object:
        return KERNELS.match_keys(index_address, parcel.address, answer)

    match, alone = best_of_each([
        lambda: call_each(index.match, publications),
        lambda: call_each(kernel, encoded),
    ])  # fmt: skip
    warm = 0
    for publication, parcel in zip(publications, encoded, strict=True):
        warm += min(each_ns(index.match, [publication] * REPEATS))
        warm -= min(each_ns(kernel, [parcel] * REPEATS))
    count = len(publications)
    return Singles(1e6 * match / count, 1e6 * alone / count, warm / 1e3 / count)
