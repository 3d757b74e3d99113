"""Violations: what the oracle found wrong, counted by kind, and the first cases in sentences."""

from __future__ import annotations

from typing import Final

import msgspec

SENTENCES_MAX: Final = 20


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The violations that were found in one run: their number by kind, and the first ones."""

    missing: int
    """Required deliveries that did not happen."""
    duplicates: int
    """Deliveries that happened twice."""
    out_of_order: int
    """Deliveries after a later publication of the same publisher."""
    spurious: int
    """Deliveries that no subscription of the client matches."""
    refusals: int
    """Publications refused though they conform to an advertisement, or refused without the client
    learning it."""
    sessions: int
    """Sessions that a broker forgot, or mixed up."""
    protocol: int
    """Connections that a broker closed because its neighbour broke the rules."""
    unsettled: int
    """Advertisements, subscriptions and publications that were never answered, and filters in force
    that are not those that the application wants."""
    storage: int
    """Brokers that did not find what their storage promises."""
    tree: int = 0
    """Links of the tree that one end does not know, that close a cycle, or that are missing."""
    mesh: int = 0
    """Maps that are not those of the tree, and soft links that their ends do not agree on."""
    tables: int
    """Table entries that differ from those of a reference network."""
    leaks: int
    """Messages, timers or state that were left behind."""
    invariants: int
    """Brokers' own invariants that do not hold."""
    violations: tuple[str, ...]
    """The first violations, a sentence each."""
    tables_compared: bool
    """Whether tables could be compared: all brokers and links were up, and all was quiet."""

    @property
    def ok(self) -> bool:
        """Whether there was no violation."""
        return not self.violations


class Violations:
    """The violations of one world, counted as they are found."""

    KINDS: Final = tuple(
        name for name in Report.__struct_fields__ if name not in ("violations", "tables_compared")
    )

    def __init__(self) -> None:
        self.counts = dict.fromkeys(self.KINDS, 0)
        self.sentences: list[str] = []

    def add(self, kind: str, sentence: str) -> None:
        """Count a violation of a kind, one of `KINDS`, and keep its sentence if it is early."""
        self.counts[kind] += 1
        if len(self.sentences) < SENTENCES_MAX:
            self.sentences.append(sentence)

    def report(self, *, tables_compared: bool) -> Report:
        """The report of what was found so far."""
        return Report(
            **self.counts,
            violations=tuple(self.sentences),
            tables_compared=tables_compared,
        )
