"""Metrics: what a run was like, in the words of the design.

Everything is folded as it happens: nothing here grows with the length of a run. What the numbers
are for is not known here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from byway.core.counters import Counters

_DIGITS: Final = 7
"""Binary digits kept of a delay: percentiles are off by less than one part in 64."""


class Tally:
    """Deliveries, their hops and their delays."""

    __slots__ = ("_buckets", "delay_us_max", "delay_us_sum", "deliveries", "hops_sum")

    def __init__(self) -> None:
        self.deliveries = 0
        self.hops_sum = 0
        self.delay_us_sum = 0
        self.delay_us_max = 0
        self._buckets: dict[int, int] = {}

    def add(self, hops: int, delay_us: int) -> None:
        """One delivery."""
        self.deliveries += 1
        self.hops_sum += hops
        self.delay_us_sum += delay_us
        if delay_us > self.delay_us_max:
            self.delay_us_max = delay_us
        shift = delay_us.bit_length() - _DIGITS
        bucket = delay_us >> shift << shift if shift > 0 else delay_us
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def delay_us(self, share: float) -> int:
        """The delay that this share of deliveries did not exceed, rounded down to its bucket."""
        wanted = share * self.deliveries
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return bucket
        return 0


class Totals:
    """What brokers did, also those that have gone."""

    def __init__(self) -> None:
        self.numbers = dict.fromkeys(
            ("publications_received", "matched", "pure_forwarders", "copies", "duplicates"), 0
        )
        self.messages: dict[str, int] = {}

    def add(self, counters: Counters) -> None:
        """Count what one broker did."""
        for name in self.numbers:
            self.numbers[name] += getattr(counters, name)
        for kind, count in counters.messages_sent.items():
            self.messages[kind] = self.messages.get(kind, 0) + count

    def copy(self) -> Totals:
        """The same numbers, to go on from."""
        copied = Totals()
        copied.numbers, copied.messages = dict(self.numbers), dict(self.messages)
        return copied


class RunMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was like. Hops are broker-to-broker links, delays are from a publication's home
    broker to its subscriber."""

    publications: int
    """Accepted by home brokers."""
    deliveries: int
    """(publication, client) pairs."""
    matched_brokers: int
    """(publication, broker) pairs with a local match."""
    pure_forwarders: int
    """(publication, broker) pairs without one."""
    yield_: float | None = msgspec.field(name="yield")
    """Of matched brokers in both together; None where no broker handled any."""
    mean_hops: float | None
    mean_delay_ms: float | None
    delay_ms_p50: float | None
    delay_ms_p95: float | None
    delay_ms_p99: float | None
    delay_ms_max: float | None
    """Over deliveries; None where there are none."""
    messages: dict[str, int]
    """Broker to broker, by kind; link acknowledgements apart."""
    messages_total: int
    bytes_sent: int | None
    """Broker to broker; None where nothing limits them, and they are not counted."""
    publication_hops: int
    """Publications that brokers took from one another."""
    subscription_hops: int
    """Subscriptions that brokers sent one another."""
    peak_queue: int
    """Messages that waited at one broker at one time, at most."""
    table_entries: int
    """Subscriptions in the tables of all brokers, now."""
    table_entries_peak: int
    """The same, at most, as far as samples saw."""
    redelivered: int
    """Deliveries dropped by clients, because a broker that lost its state sent them again."""
    lost_in_sessions: int
    """Deliveries that found no room in the session of a client that was away."""


def metrics_of(
    *,
    publications: int,
    tally: Tally,
    totals: Totals,
    bytes_sent: int | None,
    peak_queue: int,
    table_entries: int,
    table_entries_peak: int,
    redelivered: int,
    lost_in_sessions: int,
) -> RunMetrics:
    """The metrics that follow from what was counted."""
    matched, forwarders = totals.numbers["matched"], totals.numbers["pure_forwarders"]
    messages = {"pub": totals.numbers["copies"], **totals.messages}
    messages = {kind: messages[kind] for kind in sorted(messages) if messages[kind]}
    count = tally.deliveries
    return RunMetrics(
        publications=publications,
        deliveries=count,
        matched_brokers=matched,
        pure_forwarders=forwarders,
        yield_=_ratio(matched, matched + forwarders),
        mean_hops=_ratio(tally.hops_sum, count),
        mean_delay_ms=_ratio(tally.delay_us_sum / 1_000, count),
        delay_ms_p50=_ratio(tally.delay_us(0.50), 1_000 if count else 0),
        delay_ms_p95=_ratio(tally.delay_us(0.95), 1_000 if count else 0),
        delay_ms_p99=_ratio(tally.delay_us(0.99), 1_000 if count else 0),
        delay_ms_max=_ratio(tally.delay_us_max, 1_000 if count else 0),
        messages=messages,
        messages_total=sum(messages.values()),
        bytes_sent=bytes_sent,
        publication_hops=totals.numbers["publications_received"],
        subscription_hops=totals.messages.get("sub", 0),
        peak_queue=peak_queue,
        table_entries=table_entries,
        table_entries_peak=max(table_entries, table_entries_peak),
        redelivered=redelivered,
        lost_in_sessions=lost_in_sessions,
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
