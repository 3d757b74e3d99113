"""Tells in the log when publications begin to go round a dead neighbour, when the first one is
parked, and when that ends: one line for each. `core.mesh.bypass` decides it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from byway.core.broker import Broker

log = logging.getLogger("byway.bypass")


class BypassLog:
    """What was written to the log of one broker process."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        """By neighbour that is bypassed, since when, as it was at the last call."""
        self._parked: set[str] = set()
        """Those of them that something was parked for."""

    def tell(self, broker: Broker) -> None:
        """Write what began and ended since the last call."""
        now = broker.bypassed
        if not now and not self._since:
            return  # mostly
        if now != self._since:
            self._tell_changes(broker, now)
        for neighbour in sorted(now.keys() - self._parked) if broker.parked else ():
            first = next(broker.parked_publications(neighbour), None)
            if first is not None:
                self._parked.add(neighbour)
                log.warning(
                    "publication %d of %s is parked until %s is back or there is a way round it; "
                    "further ones are not logged",
                    first.sequence,
                    first.publisher,
                    neighbour,
                )

    def _tell_changes(self, broker: Broker, now: Mapping[str, int]) -> None:
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
        self._parked &= now.keys()
