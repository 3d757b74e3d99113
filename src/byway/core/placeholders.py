"""The placeholders of a broker, for those who show them.

Placeholders are entries that are forwarded though nobody subscribes to them as they are: preserved
ones, which were subscriptions, and merged ones, which the broker made. What becomes of them is the
covering policy's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from byway.core.broker import Broker
from byway.core.tables import Entry, PlaceholderKind
from byway.model.trace_schema import TableKind
from byway.trace import TraceBuffer


def placeholders(broker: Broker) -> tuple[list[Entry], list[Entry]]:
    """Preserved and merged placeholders, each the oldest first."""
    preserved: list[Entry] = []
    merged: list[Entry] = []
    for entry in broker.placeholders:
        placeholder = entry.placeholder
        is_merged = placeholder is not None and placeholder.kind is PlaceholderKind.MERGED
        (merged if is_merged else preserved).append(entry)
    return preserved, merged


def by_link(entries: Iterable[Entry]) -> Counter[str]:
    """How many of these were sent over each link."""
    return Counter(link for entry in entries for link in entry.forwarded)


def sample_placeholders(broker: Broker, trace: TraceBuffer, now_us: int) -> None:
    """Trace how many placeholders there are of each kind the policy makes, and on which links."""
    preserved, merged = placeholders(broker)
    for kind, table, entries in (
        (PlaceholderKind.PRESERVED, TableKind.PRESERVED, preserved),
        (PlaceholderKind.MERGED, TableKind.MERGED, merged),
    ):
        if kind in broker.policy.makes:
            trace.table_sampled(now_us, table, len(entries))
            for link, count in sorted(by_link(entries).items()):
                trace.table_sampled(now_us, table, count, link)
