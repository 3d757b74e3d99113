"""How much work relations of long constraints are: comparisons are counted, not time.

Two filters of 64 alternatives have thousands of pairs of constraints; a relation that compares each
member of one set with each of another took 20 s for one filter of 200 KB.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from byway.model.constraint_relations import intersect, overlaps, subset
from byway.model.constraints import (
    Constraint,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
)

MEMBERS = 1_000
LINEAR = 40 * MEMBERS
"""A few steps a member, or as many as its logarithm; the square is 25 times as many."""


class Counted(int):
    """A number that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) < other

    def __hash__(self) -> int:
        return hash(int(self))


class CountedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str(self) == other

    def __lt__(self, other: str) -> bool:
        Counted.comparisons += 1
        return str(self) < other

    def __hash__(self) -> int:
        return hash(str(self))


def numbers(start: int, count: int = MEMBERS) -> tuple[int, ...]:
    return tuple(map(Counted, range(start, start + count)))


def texts(start: int, count: int = MEMBERS) -> tuple[str, ...]:
    return tuple(CountedText(f"{number:06}") for number in range(start, start + count))


PAIRS: list[tuple[str, Constraint, Constraint]] = [
    ("IN, narrower", NumberSet(numbers(1, MEMBERS - 2)), NumberSet(numbers(0))),
    ("IN, shifted", NumberSet(numbers(500)), NumberSet(numbers(0))),
    ("NOT IN, wider", NumberRange(excluded=numbers(0)), NumberRange(excluded=numbers(1, 998))),
    ("NOT IN, others", NumberRange(excluded=numbers(0)), NumberRange(excluded=numbers(5_000))),
    ("IN and NOT IN", NumberSet(numbers(5_000)), NumberRange(excluded=numbers(0))),
    ("texts, narrower", StringSet(texts(1, MEMBERS - 2)), StringSet(texts(0))),
    ("texts, NOT IN", StringPattern(excluded=texts(0)), StringPattern(excluded=texts(1, 998))),
    ("texts, both", StringSet(texts(5_000)), StringPattern(excluded=texts(0))),
]


@pytest.mark.parametrize("relation", [subset, overlaps, intersect])
@pytest.mark.parametrize(("a", "b"), [p[1:] for p in PAIRS], ids=[p[0] for p in PAIRS])
def test_relations_of_long_sets_are_no_squares(
    relation: Callable[[Constraint, Constraint], object], a: Constraint, b: Constraint
) -> None:
    for one, other in ((a, b), (b, a)):
        Counted.comparisons = 0
        relation(one, other)
        assert Counted.comparisons <= LINEAR
