"""Losses: publications that were given up, by publisher and number, within a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

RUNS_MAX: Final = 1_024
"""Runs of numbers that are listed; what is beyond is counted only."""


class LostRun(msgspec.Struct, frozen=True, array_like=True):
    """Publications of one publisher with numbers that follow one another."""

    publisher: str
    incarnation: int
    first: int
    last: int


class Losses(msgspec.Struct, array_like=True):
    """Publications that were given up."""

    count: int = 0
    """How many there are."""
    listed: int = 0
    """How many runs are listed."""
    runs: dict[str, dict[int, list[tuple[int, int]]]] = msgspec.field(default_factory=dict)
    """By publisher and incarnation, first and last number of runs, in the order of their loss."""

    def add(self, publisher: str, incarnation: int, sequence: int) -> None:
        """Note one more; of each publisher they come in order."""
        self.count += 1
        runs = self.runs.get(publisher, {}).get(incarnation)
        if runs is not None and runs[-1][1] == sequence - 1:
            runs[-1] = runs[-1][0], sequence
        elif self.listed < RUNS_MAX:
            self.listed += 1
            known = self.runs.setdefault(publisher, {}).setdefault(incarnation, [])
            known.append((sequence, sequence))

    def __iter__(self) -> Iterator[LostRun]:
        """The runs that are listed, by publisher, incarnation and number."""
        for publisher, incarnations in sorted(self.runs.items()):
            for incarnation, runs in sorted(incarnations.items()):
                for first, last in sorted(runs):
                    yield LostRun(publisher, incarnation, first, last)
