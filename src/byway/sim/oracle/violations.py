"""Reports: what checkers found, counted by kind, the first cases in words."""

from __future__ import annotations

from typing import Final

import msgspec

TOLD_MAX: Final = 20


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkers found in one run."""

    missing: int
    """Deliveries that were owed and did not happen."""
    duplicates: int
    """Deliveries that happened twice."""
    out_of_order: int
    """Deliveries after a later one of the same publisher."""
    spurious: int
    """Deliveries that no subscription of the client matches."""
    refusals: int
    """Publications refused though they conform to an advertisement."""
    sessions: int
    """Sessions that a broker forgot, or mixed up."""
    protocol: int
    """Connections that a broker closed because its neighbour broke the rules."""
    unsettled: int
    """Advertisements, subscriptions and publications that were never answered."""
    tables: int
    """Tables that differ from those of a fresh network."""
    leaks: int
    """Messages, timers or state that stayed behind."""
    invariants: int
    """Brokers' own invariants that do not hold."""
    violations: tuple[str, ...]
    """The first ones, in words."""
    tables_compared: bool
    """Whether tables could be compared: all brokers and links were up, and all was quiet."""

    @property
    def ok(self) -> bool:
        """Whether all is well."""
        return not self.violations


class Violations:
    """What goes wrong, as it is found."""

    KINDS: Final = tuple(
        name for name in Report.__struct_fields__ if name not in ("violations", "tables_compared")
    )

    def __init__(self) -> None:
        self.counts = dict.fromkeys(self.KINDS, 0)
        self.told: list[str] = []

    def add(self, kind: str, sentence: str) -> None:
        """Something of this kind went wrong."""
        self.counts[kind] += 1
        if len(self.told) < TOLD_MAX:
            self.told.append(sentence)

    def report(self, *, tables_compared: bool) -> Report:
        """What was found so far."""
        return Report(
            **self.counts,
            violations=tuple(self.told),
            tables_compared=tables_compared,
        )
