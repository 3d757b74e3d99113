"""Incremental filter aggregation (document 003): a larger burst is stopped by less similarity."""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.covering.pruning import Pruning
from byway.core.covering.statistics import Row


class Incremental(Pruning):
    """Chooses the similarity by the size of the burst, broker by broker."""

    name = "incremental"

    @property
    def similarities(self) -> tuple[float, ...]:
        """Those of both sizes."""
        return tuple(sorted({*self.config.incremental_similarities}))

    def wanted(self, burst: int) -> float | None:
        """A small burst is never stopped."""
        some, many = self.config.incremental_bursts
        if burst < some:
            return None
        return self.config.incremental_similarities[burst > many]

    def is_harmless(self, rows: Sequence[Row]) -> bool:
        """The brokers on the way count for themselves."""
        del rows
        return False
