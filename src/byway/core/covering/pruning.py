"""Pruning: an unsubscription stops where others want nearly the same, and the rest is preserved.

What incremental and selective filter aggregation have in common. The home broker of a subscription
knows what it received, and how far away others were that wanted it too; from this it tells,
publisher by publisher, how far the unsubscription has to go. The broker where it stops keeps the
subscription as a preserved placeholder for the links beyond: it goes on quenching what it covers,
so nothing has to be sent in its place. While the broker is not congested, preserved ones are
*retired*, a few at a time: what only they quench is sent, then they are withdrawn, and the next
broker decides for itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.core.covering.active import Active, ActiveState
from byway.core.covering.policy import ForwardingOps, Withdrawals
from byway.core.covering.statistics import Row, Statistics, critical_distance
from byway.core.tables import (
    Entry,
    Placeholder,
    PlaceholderKind,
    PlaceholderState,
    Withdrawal,
)
from byway.model.bounds import HINTS_MAX
from byway.model.messages import Hint


class Pruning(Active):
    """Forwards the maximal subscriptions, and stops unsubscriptions."""

    makes = frozenset({PlaceholderKind.PRESERVED})

    def __init__(self, ops: ForwardingOps, config: BrokerConfig) -> None:
        super().__init__(ops, config)
        self.statistics: Statistics = Statistics(config.statistics_max, config.statistics_window_us)
        self._congested = False

    # --- what the two papers do each in their way ----------------------------------------------

    @property
    @abstractmethod
    def similarities(self) -> tuple[float, ...]:
        """The similarities for which a home broker tells distances, ascending."""

    @abstractmethod
    def needed_similarity(self, burst: int) -> float | None:
        """The similarity that stops an unsubscription which would release `burst` others; None:
        nothing stops it."""

    @abstractmethod
    def is_harmless(self, rows: Sequence[Row]) -> bool:
        """Whether the end of a subscription that received this need not be stopped anywhere."""

    # --- ending --------------------------------------------------------------------------------

    def withdrawal_of(self, entry: Entry) -> Withdrawal:
        """How far an unsubscription has to go, for each publisher that is known well enough."""
        rows = self.statistics.take(entry.key, self.ops.now_us)
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

    def on_lost(self, entries: Sequence[Entry]) -> Withdrawals:
        """Have them retired, a few at a time: the burst is no smaller if a crash was the cause."""
        if not self.config.retire_batch:
            return {}
        return {entry.id: Withdrawal(retired=True) for entry in entries}

    def may_preserve(self, withdrawal: Withdrawal | None) -> bool:
        """Any that has ended for good may be, but what is retired only where it would be again."""
        return withdrawal is not None and (
            not withdrawal.retired or super().may_preserve(withdrawal)
        )

    def postpones(self, entry: Entry, withdrawal: Withdrawal) -> bool:
        """While there is a long queue, it is decided later."""
        if not self._congested or not self.config.retire_interval_us:
            return False
        self.ops.preserve(entry, Placeholder(PlaceholderState.POSTPONED, withdrawal))
        self.stay_awake()
        return True

    def preserves(self, withdrawal: Withdrawal, link: str, burst: int) -> bool:
        """Algorithm 1 of both papers, seen from one link."""
        if withdrawal.retired:
            return super().preserves(withdrawal, link, burst)
        hints = [hint for hint in withdrawal.hints if self.ops.feeds(hint.publisher, link)]
        needed = self.needed_similarity(burst)
        if not hints or needed is None:
            return False
        told = enumerate(withdrawal.similarities)
        column = next((at for at, s in told if s >= needed), len(withdrawal.similarities) - 1)
        return all(hint.distances[column] == 0 for hint in hints)

    # --- congestion, and the timer -------------------------------------------------------------

    def on_load_sampled(self, queued: int) -> None:
        """With a long queue, unsubscriptions are postponed from now on."""
        self._congested = queued > self.config.congestion_queue

    @property
    def is_quiet(self) -> bool:
        """Whether few messages wait in the input queue."""
        return not self._congested

    def on_timer(self) -> None:
        """Decide what was postponed, before the rest."""
        released = 0
        for entry in self.ops.placeholders() if not self._congested else ():
            placeholder = entry.placeholder
            if placeholder is not None and placeholder.withdrawal is not None:
                released += self._decide(entry, placeholder.withdrawal)
                if released >= max(self.config.retire_batch, 1):
                    break
        super().on_timer()

    def _decide(self, entry: Entry, withdrawal: Withdrawal) -> int:
        """Withdraw a postponed one, or preserve it, link by link. How many it released."""
        released = 0
        self.ops.restate(entry, self.preserved_now())
        for link in sorted(entry.forwarded):
            release = self.release_of(entry, link)
            if not self.preserves(withdrawal, link, len(release.forwarded)):
                self.carry_out(release, link)
                self.ops.count_triggered(len(release.forwarded))
                released += len(release.forwarded)
                self.withdraw([entry], link, {entry.id: withdrawal})
        return released

    def copy_from(self, other: Any, without: frozenset[str]) -> None:
        """Go on like another one. The statistics are the same object: they go by key, and local
        subscriptions have the same keys in both."""
        super().copy_from(other, without)
        self.statistics = other.statistics
        self._congested = other._congested

    def snapshot(self) -> Any:
        """What `Active` keeps, and the statistics."""
        return PruningState(
            super().snapshot(),
            list(self.statistics.young.items()),
            list(self.statistics.old.items()),
            self._congested,
        )

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` returned before a restart."""
        kept = msgspec.convert(state, PruningState)
        super().restore(kept.active)
        self.statistics.restore(dict(kept.young), dict(kept.old))
        self._congested = kept.congested


class PruningState(msgspec.Struct, array_like=True):
    """What of a `Pruning` survives a restart."""

    active: ActiveState
    young: list[tuple[int, list[Row]]]
    old: list[tuple[int, list[Row]]]
    congested: bool
