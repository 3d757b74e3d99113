"""Publications change half way: the index files filters under other predicates and recovers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benches.baselines import CountingIndex
from benches.report import Figure, Section
from benches.run import Run, compare, naive_of, work_of
from benches.timing import best_seconds
from byway.matching import MatchIndex, Vocabulary
from byway.matching import layout as lay
from byway.model import Attributes, Filter
from byway.model.constraints import equal_to

TITLE = "the distribution of publications changes half way"
FILTERS = 50_000
VALUES = 20
WINDOWS = 8  # before the change, and as many after it
WINDOW = 2_000
SAMPLE = 5


class Settled(MatchIndex):
    """The same index, but what it learnt about publications moves no filter once it is settled."""

    settled = False

    def _adapt(self, rounds: int = 1) -> None:
        if self.settled:
            self._control[lay.HOT] = 0
        else:
            super()._adapt(rounds)


def measure(run: Run) -> Section:
    """Candidates per match in windows over time, for an index that adapts and one that stopped."""
    count, window = run.scaled(FILTERS), run.scaled(WINDOW)
    rng = np.random.default_rng(1)
    filters = [_filter(a, b) for a, b in rng.integers(0, VALUES, (count, 2)).tolist()]
    adapting, settled = MatchIndex(Vocabulary()), Settled(Vocabulary())
    for key, filter in enumerate(filters):
        adapting.add(key, filter)
        settled.add(key, filter)
    counting, naive = CountingIndex(filters), naive_of(filters)
    figures = []
    for number in range(2 * WINDOWS):
        drifted = number >= WINDOWS
        run.step(f"window {number + 1} of {2 * WINDOWS}")
        settled.settled = drifted
        publications = _publications(rng, window, drifted)
        compared = compare(adapting, naive, counting, publications[:SAMPLE])
        work, still = work_of(adapting, publications), work_of(settled, publications)
        name = f"{'after' if drifted else 'before'}, window {number % WINDOWS + 1}"
        baselines = {"settled": still.per_match} | compared.candidates()
        figures.append(Figure(f"candidates per match, {name}", work.per_match, "", None, baselines))
    us, settled_us = _us(adapting, publications), _us(settled, publications)
    figures.append(Figure("time per publication", us, "µs", None, {"settled": settled_us}))
    moved, still_moved = adapting.statistics().moved, settled.statistics().moved
    figures.append(Figure("filters moved", moved, "", None, {"settled": still_moved}))
    sizes = {"filters": count, "publications in a window": window, "values": VALUES,
             "baselines' sample in a window": SAMPLE}  # fmt: skip
    return Section("drift", TITLE, sizes, figures, [
        f"filters: a = x AND b = y, both any of {VALUES} values",
        "publications: before, a is any of them and b is 0; after, a is 0 and b is any of them",
        "settled: the same index, which adapts before the change and is kept from it afterwards",
    ])  # fmt: skip


def _filter(a: int, b: int) -> Filter:
    return Filter.where({"a": equal_to(a), "b": equal_to(b)})


def _publications(rng: np.random.Generator, count: int, drifted: bool) -> list[Attributes]:
    values = rng.integers(0, VALUES, count).tolist()
    return [{"a": 0, "b": v} if drifted else {"a": v, "b": 0} for v in values]


def _us(index: MatchIndex, publications: Sequence[Attributes]) -> float:
    """Microseconds per publication."""
    return 1e6 * best_seconds(lambda: index.match_batch(publications), 3) / len(publications)
