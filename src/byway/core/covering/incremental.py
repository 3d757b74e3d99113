"""Incremental filter aggregation: a larger burst is stopped by less similarity."""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.covering.pruning import Pruning
from byway.core.covering.statistics import Row


class Incremental(Pruning):
    """Chooses the similarity by the size of the burst, broker by broker."""

    name = "incremental"

    @property
    def similarities(self) -> tuple[float, ...]:
        """The similarities for larger and for smaller bursts, ascending."""
        return tuple(sorted({*self.config.incremental_similarities}))

    def needed_similarity(self, burst: int) -> float | None:
        """One of two similarities by the size of the burst; a small burst is never stopped."""
        some, many = self.config.incremental_bursts
        if burst < some:
            return None
        return self.config.incremental_similarities[burst > many]

    def is_harmless(self, rows: Sequence[Row]) -> bool:
        """Never known at home: the brokers on the way count the burst for themselves."""
        del rows
        return False
