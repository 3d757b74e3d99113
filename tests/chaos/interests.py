"""What clients of a chaos run publish and want, with a matcher of their own.

An interest is a box over three attributes. Its text is what brokers are given; `matches` is what
the judge believes. Nothing here knows how byway matches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = ("ash", "elm", "oak")
TOP = 100
"""Values of `a` and `b` are from 0 to just below."""


@dataclass(frozen=True)
class Interest:
    """Publications with `a` and `b` within bounds, of some kinds; lower bounds included."""

    a: tuple[int, int]
    b: tuple[int, int]
    kinds: tuple[str, ...] = KINDS

    @property
    def text(self) -> str:
        """The filter as brokers read it."""
        parts = [f"{name} >= {low} AND {name} < {high}" for name, (low, high) in self._boxes()]
        if self.kinds != KINDS:
            parts.append("k IN (" + ", ".join(f"'{kind}'" for kind in self.kinds) + ")")
        return " AND ".join(parts)

    @property
    def advertisement(self) -> str:
        """The same as an advertisement, which has to name every attribute."""
        kinds = "" if self.kinds != KINDS else " AND k EXISTS"
        return f"{self.text}{kinds} AND n >= 0"

    def _boxes(self) -> tuple[tuple[str, tuple[int, int]], ...]:
        return (("a", self.a), ("b", self.b))

    def matches(self, kind: str, a: int, b: int) -> bool:
        """Whether a publication is wanted."""
        return self.a[0] <= a < self.a[1] and self.b[0] <= b < self.b[1] and kind in self.kinds

    def draw(self, rng: random.Random) -> tuple[str, int, int]:
        """A publication that conforms to it, read as an advertisement."""
        return rng.choice(self.kinds), rng.randrange(*self.a), rng.randrange(*self.b)

    def written(self) -> str:
        """One word for a log."""
        kinds = ",".join(self.kinds)
        return f"{self.a[0]}:{self.a[1]}:{self.b[0]}:{self.b[1]}:{kinds}"

    @classmethod
    def read(cls, word: str) -> Interest:
        """From what `written` wrote."""
        *numbers, kinds = word.split(":")
        low_a, high_a, low_b, high_b = map(int, numbers)
        return cls((low_a, high_a), (low_b, high_b), tuple(kinds.split(",")))


ALL = Interest((0, TOP), (0, TOP))


def drawn(rng: random.Random, others: list[Interest]) -> Interest:
    """An interest that is covered by an earlier one, covers it, equals it, or is new."""
    chance = rng.random()
    if not others or chance < 0.2:
        return rng.choice(
            (ALL, Interest(_range(rng, 30), (0, TOP)), Interest((0, TOP), _range(rng, 30)))
        )
    other = rng.choice(others)
    if chance < 0.3:
        return other
    if chance < 0.7:
        return _inside(rng, other)
    if chance < 0.85:
        return Interest(_around(rng, other.a), _around(rng, other.b))
    return Interest(_range(rng, 20), _range(rng, 40), tuple(sorted(rng.sample(KINDS, 2))))


def _inside(rng: random.Random, other: Interest) -> Interest:
    kinds = other.kinds
    if len(kinds) > 1 and rng.random() < 0.3:
        kinds = tuple(sorted(rng.sample(kinds, len(kinds) - 1)))
    return Interest(_within(rng, other.a), _within(rng, other.b), kinds)


def _range(rng: random.Random, least: int) -> tuple[int, int]:
    low = rng.randrange(0, TOP - least)
    return low, rng.randrange(low + least, TOP + 1)


def _within(rng: random.Random, box: tuple[int, int]) -> tuple[int, int]:
    low, high = box
    spare = (high - low) // 4
    return low + rng.randint(0, spare), high - rng.randint(0, spare)


def _around(rng: random.Random, box: tuple[int, int]) -> tuple[int, int]:
    low, high = box
    return max(low - rng.randint(0, 30), 0), min(high + rng.randint(0, 30), TOP)
