"""Tells in the log when publications begin to go round a dead neighbour, and when that ends: one
line for each. `core.mesh.bypass` decides it.
"""

from __future__ import annotations

import logging
from typing import Final

from byway.core.broker import Broker

log = logging.getLogger("byway.bypass")

_BROKERS_MAX: Final = 20
"""Brokers that one line names."""


class BypassLog:
    """What was written to the log of one broker process."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        """By neighbour that is bypassed, since when, as it was at the last call."""

    def tell(self, broker: Broker) -> None:
        """Write what began and ended since the last call."""
        now = broker.bypassed
        if not now and not self._since:
            return  # mostly
        if now == self._since:
            return
        for neighbour in sorted(self._since.keys() - now.keys()):
            parked = sum(1 for _ in broker.parked_publications(neighbour))
            left = f", and {parked:,} are parked" if parked else ""
            log.info("publications go round %s no more%s", neighbour, left)
        for neighbour in sorted(now.keys() - self._since.keys()):
            parked = sum(1 for _ in broker.parked_publications(neighbour))
            log.warning(
                "%s is away: publications go round it; %d wait for it or for a way round it",
                neighbour,
                parked,
            )
        self._since = dict(now)
