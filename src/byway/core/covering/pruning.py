"""Pruning: an unsubscription stops where others want nearly the same, and the rest is preserved.

Documents 003 and 004, in what they have in common. The home broker of a subscription knows what it
received, and how far away others were that wanted it too; from this it tells, publisher by
publisher, how far the unsubscription has to go. The broker where it stops keeps the subscription as
a *preserved* one for the links beyond: it covers what it stood for, so nothing has to be sent in
its place. When all is quiet, preserved ones are *retired*, a few at a time: what only they quench
is sent, then they are taken back, and the next broker decides for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.core.covering.active import Active, ActiveState
from byway.core.covering.policy import ForwardingOps, Withdrawals
from byway.core.covering.statistics import Row, Statistics, critical_distance
from byway.core.tables import Entry, Withdrawal
from byway.model.bounds import HINTS_MAX
from byway.model.messages import Hint


class Pruning(Active):
    """Forwards the maximal ones, and stops unsubscriptions."""

    def __init__(self, moves: ForwardingOps, config: BrokerConfig) -> None:
        super().__init__(moves, config)
        self.statistics: Statistics = Statistics(config.statistics_max, config.statistics_window_us)
        self._congested = False

    # --- what 003 and 004 do each in their way -------------------------------------------------

    @property
    def similarities(self) -> tuple[float, ...]:
        """For which distances are told, ascending."""
        raise NotImplementedError

    def wanted(self, burst: int) -> float | None:
        """The similarity that stops an unsubscription which would release so many; None: none."""
        raise NotImplementedError

    def is_harmless(self, rows: Sequence[Row]) -> bool:
        """Whether a subscription that received this may go without more ado."""
        raise NotImplementedError

    # --- ending --------------------------------------------------------------------------------

    def ending(self, entry: Entry) -> Withdrawal:
        """How far its unsubscription has to go, for each publisher that is known well enough."""
        rows = self.statistics.take(entry.key, self.moves.now_us)
        if self.is_harmless(rows):
            return Withdrawal()
        received: dict[str, list[int]] = {}
        for publisher, distance, _, _ in rows:
            received.setdefault(publisher, []).append(distance)
        known = [
            (publisher, distances)
            for publisher, distances in received.items()
            if len(distances) >= self.config.pruning_samples_min
        ]
        known.sort(key=lambda item: (-len(item[1]), item[0]))
        hints = [
            Hint(publisher, tuple(critical_distance(distances, s) for s in self.similarities))
            for publisher, distances in known[:HINTS_MAX]
        ]
        return Withdrawal(self.similarities, tuple(sorted(hints, key=lambda hint: hint.publisher)))

    def lost(self, entries: Sequence[Entry]) -> Withdrawals:
        """They are retired, a few at a time: it is no smaller burst if a crash was the cause."""
        if not self.config.retire_batch:
            return {}
        return {entry.id: Withdrawal(retired=True) for entry in entries}

    def may_stay(self, ending: Withdrawal | None) -> bool:
        """Any that has ended for good, but what is retired only where it would be again."""
        return ending is not None and (not ending.retired or super().may_stay(ending))

    def postpones(self, entry: Entry, ending: Withdrawal) -> bool:
        """While there is a long queue."""
        if not self._congested or not self.config.retire_interval_us:
            return False
        self.moves.preserve(entry, msgspec.structs.replace(ending, postponed=True))
        self.stay_awake()
        return True

    def stays(self, ending: Withdrawal, link: str, burst: int) -> bool:
        """Algorithm 1 of both documents, seen from one link."""
        if ending.retired:
            return super().stays(ending, link, burst)
        hints = [hint for hint in ending.hints if self.moves.feeds(hint.publisher, link)]
        wanted = self.wanted(burst)
        if not hints or wanted is None:
            return False
        told = enumerate(ending.similarities)
        place = next((at for at, s in told if s >= wanted), len(ending.similarities) - 1)
        return all(hint.distances[place] == 0 for hint in hints)

    # --- in quiet times ------------------------------------------------------------------------

    def loaded(self, queued: int) -> None:
        """With a long queue, unsubscriptions wait."""
        self._congested = queued > self.config.congestion_queue

    @property
    def is_quiet(self) -> bool:
        """Little waits."""
        return not self._congested

    def woken(self) -> None:
        """Decide what was postponed, before the rest."""
        released = 0
        for entry in self.moves.preserved() if not self._congested else ():
            if entry.ending is not None and entry.ending.postponed:
                released += self._decide(entry, entry.ending)
                if released >= max(self.config.retire_batch, 1):
                    break
        super().woken()

    def _decide(self, entry: Entry, ending: Withdrawal) -> int:
        """What was postponed goes on, or is preserved. How many it released."""
        released = 0
        decided = msgspec.structs.replace(ending, postponed=False)
        entry.ending = self.retiring()
        for link in sorted(entry.forwarded):
            release = self.release_of(entry, link)
            if not self.stays(decided, link, len(release.forwarded)):
                self.carry_out(release, link)
                self.moves.triggered(len(release.forwarded))
                released += len(release.forwarded)
                self.withdraw([entry], link, {entry.id: decided})
        return released

    def snapshot(self) -> Any:
        """The statistics besides."""
        return PruningState(
            super().snapshot(),
            list(self.statistics.young.items()),
            list(self.statistics.old.items()),
            self._congested,
        )

    def restore(self, state: Any) -> None:
        """Go on with them."""
        kept = msgspec.convert(state, PruningState)
        super().restore(kept.active)
        self.statistics.restore(dict(kept.young), dict(kept.old))
        self._congested = kept.congested


class PruningState(msgspec.Struct, array_like=True):
    """What survives a restart."""

    active: ActiveState
    young: list[tuple[int, list[Row]]]
    old: list[tuple[int, list[Row]]]
    congested: bool
