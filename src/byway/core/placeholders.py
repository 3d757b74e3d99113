"""What stands for others in a broker's tables though nobody has subscribed to it as it is.

That is preserved subscriptions, which ended, and mergers, which the broker made. It is looked at
here for those who show it; what becomes of it is the covering policy's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from byway.core.broker import Broker
from byway.core.tables import Entry
from byway.model.trace_schema import TableKind
from byway.trace import TraceBuffer


def placeholders(broker: Broker) -> tuple[list[Entry], list[Entry]]:
    """Preserved subscriptions, and mergers, each the oldest first."""
    preserved: list[Entry] = []
    mergers: list[Entry] = []
    for entry in broker.preserved:
        (mergers if entry.ending is not None and entry.ending.merged else preserved).append(entry)
    return preserved, mergers


def by_link(entries: Iterable[Entry]) -> Counter[str]:
    """How many of these were sent over each link."""
    return Counter(link for entry in entries for link in entry.forwarded)


def sample_placeholders(broker: Broker, trace: TraceBuffer, now_us: int) -> None:
    """How many there are, and on which links, where the policy makes any."""
    policy = broker.policy
    made = (policy.statistics is not None, policy.merging is not None)
    for kind, entries, is_made in zip(
        (TableKind.PRESERVED, TableKind.MERGED), placeholders(broker), made, strict=True
    ):
        if is_made:
            trace.table_sampled(now_us, kind, len(entries))
            for link, count in sorted(by_link(entries).items()):
                trace.table_sampled(now_us, kind, count, link)
