"""The papers whose measurements are claims here, by their titles."""

from __future__ import annotations

from enum import StrEnum


class Paper(StrEnum):
    """A paper; docs/reference/papers.md lists all that byway is made after."""

    INCREMENTAL = (
        "Congestion Avoidance with Incremental Filter Aggregation in Content-Based Routing Networks"
    )
    SELECTIVE = (
        "Congestion Avoidance with Selective Filter Aggregation in Content-Based Routing Networks"
    )
