"""Metrics of a run: deliveries with their hops and delays, messages, queues and tables.

Everything is added up as it happens: nothing here grows with the length of a run. Where the numbers
come from, and what they are compared with, is not known here.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from byway.core.counters import Counters
from byway.model.measurement import (
    COUNTED,
    FALSE_POSITIVES,
    MATCHED_BROKERS,
    PUBLICATION_HOPS,
    PURE_FORWARDERS,
)

_DIGITS: Final = 7
"""The binary digits kept of a delay: percentiles are off by less than one part in 64."""
_COUNTED_TOGETHER: Final = 512
"""Deliveries that are counted at a time."""


class Tally:
    """The number of deliveries, and histograms of their hops and delays.

    Deliveries are counted some hundreds at a time, which takes a third of the time.
    """

    __slots__ = (
        "_buckets", "_delay_us_max", "_delay_us_sum", "_hops", "_new_delays_us", "_new_hops",
    )  # fmt: skip

    def __init__(self) -> None:
        self._hops: Counter[int] = Counter()
        self._delay_us_sum = 0
        self._delay_us_max = 0
        self._buckets: Counter[int] = Counter()
        self._new_hops: list[int] = []
        """The hops of deliveries that are not counted yet; their delays are in the next list."""
        self._new_delays_us: list[int] = []

    def add(self, hops: int, delay_us: int) -> None:
        """Count one delivery."""
        new = self._new_hops
        new.append(hops)
        self._new_delays_us.append(delay_us)
        if len(new) >= _COUNTED_TOGETHER:
            self._count()

    def _count(self) -> None:
        """Count the deliveries that were added since the last time."""
        delays_us = self._new_delays_us
        if not delays_us:
            return
        self._hops.update(self._new_hops)
        self._delay_us_sum += sum(delays_us)
        self._delay_us_max = max(self._delay_us_max, *delays_us)
        for delay_us, count in Counter(delays_us).items():
            shift = delay_us.bit_length() - _DIGITS
            self._buckets[delay_us >> shift << shift if shift > 0 else delay_us] += count
        self._new_hops.clear()
        delays_us.clear()

    @property
    def deliveries(self) -> int:
        """The number of deliveries."""
        return self._hops.total() + len(self._new_hops)

    @property
    def hops(self) -> dict[int, int]:
        """By number of hops, the deliveries that took so many."""
        self._count()
        return self._hops

    @property
    def hops_sum(self) -> int:
        """The hops of all deliveries together."""
        return sum(hops * count for hops, count in self.hops.items())

    @property
    def delay_us_sum(self) -> int:
        """The delays of all deliveries together."""
        self._count()
        return self._delay_us_sum

    @property
    def delay_us_max(self) -> int:
        """The longest delay; 0 if there are no deliveries."""
        self._count()
        return self._delay_us_max

    def delay_us(self, share: float) -> int:
        """The delay that this share of deliveries did not exceed, rounded down to its bucket."""
        self._count()
        wanted = share * self.deliveries
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return bucket
        return 0


class Totals:
    """The counters of all brokers together, also of those that crashed."""

    def __init__(self) -> None:
        self.numbers = {word.name: 0 for word in COUNTED}
        """By word, how often it was counted."""
        self.messages: dict[str, int] = {}
        """By kind, the messages sent."""
        self.subscriptions = 0
        """The subscriptions in these messages."""

    def add(self, counters: Counters) -> None:
        """Add the counters of one broker."""
        for word in COUNTED:
            self.numbers[word.name] += getattr(counters, word.counter)
        for kind, count in counters.messages_by_kind.items():
            self.messages[kind] = self.messages.get(kind, 0) + count
        self.subscriptions += sum(counters.subscriptions_sent.values())

    def copy(self) -> Totals:
        """Totals with the same numbers, which change independently."""
        copied = Totals()
        copied.numbers, copied.messages = dict(self.numbers), dict(self.messages)
        copied.subscriptions = self.subscriptions
        return copied


class RunMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a run. Hops are broker-to-broker links; delays are from a publication's home
    broker to its subscriber."""

    publications: int
    """Publications accepted by home brokers."""
    deliveries: int
    """Publications delivered, counted for each client."""
    matched_brokers: int
    """Pairs of a publication and a broker that handled it and had a local match."""
    pure_forwarders: int
    """Pairs of a publication and a broker that took it from a neighbour without a local match."""
    false_positives: int
    """Pure forwarders that had no neighbour to forward the publication to."""
    yield_: float | None = msgspec.field(name="yield")
    """The share of matched brokers in both; None: no broker handled any publication."""
    mean_hops: float | None
    deliveries_by_hops: dict[str, int]
    """By number of hops, the deliveries that took so many."""
    mean_delay_ms: float | None
    delay_ms_p50: float | None
    delay_ms_p95: float | None
    delay_ms_p99: float | None
    delay_ms_max: float | None
    """The longest delay; delays and hops are None if there were no deliveries."""
    messages: dict[str, int]
    """By kind, the messages between brokers, link acknowledgements not among them; one that is sent
    again counts again."""
    messages_total: int
    bytes_sent: int | None
    """The bytes sent between brokers; None: nothing limits them, so they are not counted."""
    publication_hops: int
    """Publications that brokers took from neighbours."""
    subscription_hops: int
    """Subscriptions that brokers sent one another, each one of a pack counted."""
    peak_queue: int
    """The most messages that waited at one broker at one time."""
    table_entries: int
    """The subscriptions in the tables of all brokers at the end."""
    table_entries_peak: int
    """The most subscriptions in the tables of all brokers, by samples."""
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
    numbers = totals.numbers
    matched, forwarders = numbers[MATCHED_BROKERS.name], numbers[PURE_FORWARDERS.name]
    count = tally.deliveries
    return RunMetrics(
        publications=publications,
        deliveries=count,
        matched_brokers=matched,
        pure_forwarders=forwarders,
        yield_=ratio(matched, matched + forwarders),
        false_positives=numbers[FALSE_POSITIVES.name],
        mean_hops=ratio(tally.hops_sum, count),
        deliveries_by_hops={str(hops): tally.hops[hops] for hops in sorted(tally.hops)},
        mean_delay_ms=ratio(tally.delay_us_sum / 1_000, count),
        delay_ms_p50=ratio(tally.delay_us(0.50), 1_000 if count else 0),
        delay_ms_p95=ratio(tally.delay_us(0.95), 1_000 if count else 0),
        delay_ms_p99=ratio(tally.delay_us(0.99), 1_000 if count else 0),
        delay_ms_max=ratio(tally.delay_us_max, 1_000 if count else 0),
        messages={kind: totals.messages[kind] for kind in sorted(totals.messages)},
        messages_total=sum(totals.messages.values()),
        bytes_sent=bytes_sent,
        publication_hops=numbers[PUBLICATION_HOPS.name],
        subscription_hops=totals.subscriptions,
        peak_queue=peak_queue,
        table_entries=table_entries,
        table_entries_peak=max(table_entries, table_entries_peak),
        redelivered=redelivered,
        lost_in_sessions=lost_in_sessions,
    )


def ratio(part: float, whole: float) -> float | None:
    """The quotient; None: there is nothing to divide by."""
    return part / whole if whole else None
