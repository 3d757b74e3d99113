"""Generator: what every workload offers, and the error for parameters that make no sense.

A generator decides what chunk `k` holds; this file decides how chunks become lists of so many rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from byway.model.errors import BywayError
from byway.model.filters import Filter
from byway.model.values import Value
from byway.workload.chunks import FilterChunk, PublicationChunk, ScheduleChunk
from byway.workload.draws import SEED_MAX, Integers

# Streams of a seed: what is drawn for one purpose never shifts what is drawn for another.
SUBSCRIPTIONS: Final = 0
PUBLICATIONS: Final = 1


class WorkloadError(BywayError, ValueError):
    """A workload that cannot be generated."""

    def __init__(self, parameter: str, value: object, expected: str) -> None:
        self.parameter = parameter
        self.value = value
        self.expected = expected
        super().__init__(f"{parameter} = {value!r}: expected {expected}")


class Generator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a workload. Chunk `k` depends on them and on `k` alone.

    A chunk has `ROWS` rows; only the last chunk of a workload that ends has fewer. `seed` lies
    within 0 … 2^32 - 1.
    """

    ROWS: ClassVar[int] = 4_096

    seed: int = 0

    def __post_init__(self) -> None:
        require("seed", self.seed, 0, SEED_MAX)

    @abstractmethod
    def subscriptions(self, chunk: int) -> FilterChunk:
        """The `chunk`-th `ROWS` subscriptions."""

    @abstractmethod
    def publications(self, chunk: int) -> PublicationChunk:
        """The `chunk`-th `ROWS` publications."""

    def subscription_count(self) -> int | None:
        """How many subscriptions there are; None: no end."""
        return None

    # --- where and when: None where the workload does not say

    def broker_names(self) -> tuple[str, ...]:
        """The brokers that rows are at, by number."""
        return ()

    def subscription_places(self, chunk: int) -> Integers | None:
        """For each subscription of the chunk the number of its broker; -1: at first at none."""
        del chunk
        return None

    def publication_places(self, chunk: int) -> Integers | None:
        """For each publication of the chunk the number of its broker."""
        del chunk
        return None

    def schedule(self, chunk: int) -> ScheduleChunk | None:
        """What the subscriptions of the chunk do in the course of time, in order."""
        del chunk
        return None

    # --- so many rows

    def filter_chunks(self, count: int) -> Iterator[FilterChunk]:
        """The first `count` subscriptions, chunk by chunk, the last one cut to fit.

        Raises `WorkloadError` if there are fewer.
        """
        available = self.subscription_count()
        if available is not None and count > available:
            raise WorkloadError("count", count, f"at most the {available} subscriptions there are")
        for chunk, rows in self._shares(count):
            yield self.subscriptions(chunk).slice(0, rows)

    def publication_chunks(self, count: int) -> Iterator[PublicationChunk]:
        """The first `count` publications, chunk by chunk, the last one cut to fit."""
        for chunk, rows in self._shares(count):
            yield self.publications(chunk).slice(0, rows)

    def take_filters(self, count: int) -> list[Filter]:
        """The first `count` subscriptions."""
        return [f for chunk in self.filter_chunks(count) for f in chunk.filters()]

    def take_publications(self, count: int) -> list[dict[str, Value]]:
        """The first `count` publications."""
        return [p for chunk in self.publication_chunks(count) for p in chunk.publications()]

    def _shares(self, count: int) -> Iterator[tuple[int, int]]:
        for chunk, start in enumerate(range(0, count, self.ROWS)):
            yield chunk, min(self.ROWS, count - start)


def require(parameter: str, value: float, low: float, high: float) -> None:
    """Raise `WorkloadError` unless `value` lies between `low` and `high`, both included."""
    if not low <= value <= high:
        raise WorkloadError(parameter, value, f"a number from {low} to {high}")
