"""Tells of subscriptions that compare an attribute with a value of another kind than publishers
send: in the status, and once each in the log. `core.kind_mismatches` finds them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from byway.core.broker import Broker
from byway.core.kind_mismatches import KindMismatch, KindMismatches
from byway.model.status import KindMismatchStatus, mismatch_words
from byway.model.values import Kind

log = logging.getLogger("byway.hints")

MISMATCHES_MAX: Final = 100
"""Mismatches that a status lists, and lines of the log for each process."""
NOUNS: Final = {Kind.BOOLEAN: "boolean", Kind.NUMBER: "number", Kind.STRING: "text"}


def mismatches(broker: Broker) -> Iterator[KindMismatchStatus]:
    """The mismatches that a broker has noticed, the first one first."""
    return map(_status, broker.kind_mismatches)


class KindHints:
    """What was written to the log of one broker process."""

    def __init__(self) -> None:
        self._lines = 0
        self._of: KindMismatches | None = None
        self._last = 0
        """Number of the last mismatch that was written."""

    def tell(self, broker: Broker) -> None:
        """Write what was noticed since the last time, each mismatch once."""
        found = broker.kind_mismatches
        if found is not self._of:
            self._of, self._last = found, 0  # of a broker that was rebuilt
        if found.noticed == self._last or self._lines >= MISMATCHES_MAX:
            return
        for mismatch in found:
            if mismatch.number > self._last and self._lines < MISMATCHES_MAX:
                self._lines += 1
                log.warning("%s", mismatch_words(_status(mismatch)))
        self._last = found.noticed


def _status(mismatch: KindMismatch) -> KindMismatchStatus:
    return KindMismatchStatus(
        client=mismatch.id.client,
        name=mismatch.id.name,
        attribute=mismatch.attribute,
        expected=[NOUNS[kind] for kind in mismatch.expected],
        found=NOUNS[mismatch.found],
        samples=mismatch.samples,
    )
