"""Adding and removing parsed filters: how many a second, and how long the longest call takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from benches.baselines import CountingIndex
from benches.report import Figure, Section, at_least, at_most
from benches.run import Run, first_filters, naive_of
from benches.timing import each_ns, seconds
from byway.matching import MatchIndex, NaiveIndex, Vocabulary
from byway.model import Filter
from byway.workload import Siena

TITLE = "adding and removing filters"
WORKLOAD = Siena(seed=1)
STORED = 200_000
CHANGED = 20_000
ROUNDS = 5

T = TypeVar("T")
Entries = Sequence[tuple[int, Filter]]


class Spent(NamedTuple):
    """Calls of one kind: the best round's rate, the longest call of all rounds."""

    per_second: float
    longest_ms: float
    per_second_by_clock: float = 0.0


def measure(run: Run) -> Section:
    """Fill an index from empty, then add and remove again and again, relations off and on."""
    stored, changed = run.scaled(STORED), run.scaled(CHANGED)
    run.step(f"making {stored + changed:,} subscriptions")
    filters = first_filters(WORKLOAD, stored + changed)
    entries = list(enumerate(filters))
    base, extra = entries[:stored], entries[stored:]
    _load_kernels(extra)
    run.step(f"adding {stored:,} from empty")
    index = MatchIndex(Vocabulary())
    built = _spent([_calls(_adding(index), base)])
    run.step("adding and removing, relations off")
    plain = _churned(index, extra)
    run.step("asking for relations the first time")
    switch_ms = 1e3 * seconds(lambda: index.covered_by(filters[0]))
    run.step("adding and removing, relations on")
    related = _churned(index, extra)
    run.step("asking the baselines")
    naive = _churned(naive_of(filters[:stored]), extra)
    rebuild = seconds(lambda: CountingIndex(filters[:stored]))
    from_empty = {"counting": Spent(stored / rebuild, 1e3 * rebuild)}
    one_change = Spent(1 / rebuild, 1e3 * rebuild)
    figures = _figures("add, from empty", built, from_empty)
    for suffix, ours in (("", plain), (", relations on", related)):
        for verb in ("add", "remove"):
            baselines = {"naive": naive[verb], "counting": one_change}
            figures += _figures(f"{verb}{suffix}", ours[verb], baselines)
    figures.append(Figure("first relation query (files all)", switch_ms, "ms"))
    sizes = {"stored": stored, "added and removed": changed, "rounds": ROUNDS}
    return Section("updates", TITLE, sizes, figures, [
        "longest call: by the clock, of all rounds, kernels loaded beforehand",
        "naive: a dictionary; counting: a change is a rebuild (from empty: one for all)",
    ])  # fmt: skip


def _figures(name: str, ours: Spent, baselines: dict[str, Spent]) -> list[Figure]:
    rates = {baseline: spent.per_second for baseline, spent in baselines.items()}
    longest = {baseline: spent.longest_ms for baseline, spent in baselines.items()}
    return [
        Figure(name, ours.per_second, "/s", at_least(50_000), rates, more_is_better=True),
        Figure(f"{name}, by the clock", ours.per_second_by_clock, "/s", more_is_better=True),
        Figure(f"{name}, longest call", ours.longest_ms, "ms", at_most(50), longest),
    ]


def _load_kernels(entries: Entries) -> None:
    index = MatchIndex(Vocabulary())
    _churned(index, entries[:100])
    index.covered_by(entries[0][1])
    _churned(index, entries[:100])


def _churned(index: MatchIndex | NaiveIndex, entries: Entries) -> dict[str, Spent]:
    """Add the entries and remove them in another order, several times."""
    adds, removes = [], []
    keys = [key for key, _ in entries]
    leaving = keys[1::2] + keys[::2]
    for _ in range(ROUNDS):
        adds.append(_calls(_adding(index), entries))
        removes.append(_calls(index.remove, leaving))
    return {"add": _spent(adds), "remove": _spent(removes)}


def _adding(index: MatchIndex | NaiveIndex) -> Callable[[tuple[int, Filter]], None]:
    return lambda entry: index.add(*entry)


def _calls(call: Callable[[T], object], arguments: Sequence[T]) -> tuple[float, list[int]]:
    """The processor time of all calls, and by the clock of each."""
    each: list[int] = []
    return seconds(lambda: each.extend(each_ns(call, arguments))), each


def _spent(rounds: list[tuple[float, list[int]]]) -> Spent:
    rate = max(len(each) / total for total, each in rounds)
    by_clock = max(1e9 * len(each) / sum(each) for _, each in rounds)
    return Spent(rate, max(max(each) for _, each in rounds) / 1e6, by_clock)
