"""Selective filter aggregation (document 004): the home broker decides whether to prune at all."""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.covering.pruning import Pruning
from byway.core.covering.statistics import Row


class Selective(Pruning):
    """One similarity; the header's `count` tells whether others are many."""

    name = "selective"

    @property
    def similarities(self) -> tuple[float, ...]:
        """The one."""
        return (self.config.selective_similarity,)

    def wanted(self, burst: int) -> float | None:
        """Whatever the burst."""
        del burst
        return self.config.selective_similarity

    def is_harmless(self, rows: Sequence[Row]) -> bool:
        """It never met many others."""
        return max((count for _, _, count, _ in rows), default=0) < self.config.selective_count_min
