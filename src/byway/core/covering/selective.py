"""Selective filter aggregation: the home broker decides whether to prune at all."""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.covering.pruning import Pruning
from byway.core.covering.statistics import Row


class Selective(Pruning):
    """Uses one similarity; the `count` of publications' headers tells whether others are many."""

    name = "selective"

    @property
    def similarities(self) -> tuple[float, ...]:
        """The configured similarity alone."""
        return (self.config.selective_similarity,)

    def needed_similarity(self, burst: int) -> float | None:
        """The configured similarity, whatever the burst."""
        del burst
        return self.config.selective_similarity

    def is_harmless(self, rows: Sequence[Row]) -> bool:
        """Whether no publication it received was wanted by many others."""
        return max((count for _, _, count, _ in rows), default=0) < self.config.selective_count_min
