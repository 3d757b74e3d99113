"""Filters that have nothing but one text operator: prefix, suffix, contains, <> or IN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benches.report import Figure, Section
from benches.run import Run, index_of, naive_of, work_of
from benches.timing import best_seconds
from byway.matching import MatchIndex, NaiveIndex
from byway.model import Attributes, Filter
from byway.model.constraints import StringPattern, none_of, one_of

TITLE = "filters with one text operator and nothing else"
FILTERS = 100_000
WORDS = 50_000
PUBLICATIONS = 2_000
FULL_ANSWERS = 100  # publications for <>, where nearly every filter matches
SAMPLE = 5
SYLLABLES = "ba co di fu ge ha ji ko lu me no pi re sa ti ve wo xi yo zu an er in or st tr".split()

Draw = Callable[[np.random.Generator, list[str]], Filter]


def measure(run: Run) -> Section:
    """Time per publication and candidates per match, operator by operator."""
    count = run.scaled(FILTERS)
    rng = np.random.default_rng(1)
    words = _words(rng, run.scaled(WORDS))
    publications = [{"name": word} for word in rng.choice(words, run.scaled(PUBLICATIONS)).tolist()]
    figures: list[Figure] = []
    for operator, draw in OPERATORS.items():
        run.step(f"{count:,} filters of {operator}")
        filters = [draw(rng, words) for _ in range(count)]
        wanted = publications[:FULL_ANSWERS] if operator == "<>" else publications
        figures += _figures(operator, index_of(filters), naive_of(filters), wanted)
    sizes = {"filters of each": count, "words": len(words), "publications": len(publications),
             "publications for <>": FULL_ANSWERS, "sample for naive": SAMPLE}  # fmt: skip
    return Section("operators", TITLE, sizes, figures, [
        "counting has no text operators; in brackets, matches per publication",
    ])  # fmt: skip


def _figures(
    operator: str, index: MatchIndex, naive: NaiveIndex, publications: Sequence[Attributes]
) -> Iterator[Figure]:
    sample = publications[:SAMPLE]
    answers = [naive.match(publication) for publication in sample]
    for ours, theirs in zip(index.match_batch(sample), answers, strict=True):
        assert np.array_equal(np.sort(ours), np.sort(theirs)), f"naive differs for {operator}"
    work_of(index, publications)
    work = work_of(index, publications)
    spent = best_seconds(lambda: index.match_batch(publications)) / len(publications)
    by_naive = best_seconds(lambda: naive.match_batch(sample), 1) / len(sample)
    looked = len(naive) * len(sample) / max(1, sum(map(len, answers)))
    yield Figure(
        f"{operator}, time per publication ({work.matches_each:,.1f})",
        1e6 * spent, "µs", None, {"naive": 1e6 * by_naive},
    )  # fmt: skip
    yield Figure(f"{operator}, candidates per match", work.per_match, "", None, {"naive": looked})


def _words(rng: np.random.Generator, count: int) -> list[str]:
    """Two to six syllables, frequent ones first as in a language."""
    weights = 1 / np.arange(1, len(SYLLABLES) + 1)
    drawn = rng.choice(SYLLABLES, (count, 6), p=weights / weights.sum())
    lengths = rng.integers(2, 7, count)
    return ["".join(row[:n]) for row, n in zip(drawn.tolist(), lengths.tolist(), strict=True)]


def _word(rng: np.random.Generator, words: list[str]) -> str:
    return words[rng.integers(0, len(words))]


def _part(rng: np.random.Generator, words: list[str]) -> tuple[str, int]:
    """A word and how much of it a pattern takes: 3 to 6 characters."""
    return _word(rng, words), int(rng.integers(3, 7))


def _prefix(rng: np.random.Generator, words: list[str]) -> Filter:
    word, length = _part(rng, words)
    return Filter.where({"name": StringPattern(prefix=word[:length])})


def _suffix(rng: np.random.Generator, words: list[str]) -> Filter:
    word, length = _part(rng, words)
    return Filter.where({"name": StringPattern(suffix=word[-length:])})


def _contains(rng: np.random.Generator, words: list[str]) -> Filter:
    word, length = _part(rng, words)
    start = int(rng.integers(0, max(1, len(word) - length + 1)))
    return Filter.where({"name": StringPattern(contains=(word[start : start + length],))})


def _unequal(rng: np.random.Generator, words: list[str]) -> Filter:
    constraint = none_of((_word(rng, words),))
    assert constraint is not None
    return Filter.where({"name": constraint})


def _in(rng: np.random.Generator, words: list[str]) -> Filter:
    chosen = tuple(_word(rng, words) for _ in range(rng.integers(2, 9)))
    return Filter.where({"name": one_of(chosen)})


OPERATORS: dict[str, Draw] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "contains": _contains,
    "<>": _unequal,
    "IN": _in,
}
