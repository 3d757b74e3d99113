"""Meters: the measures of a part of a run, for groups of brokers.

A meter observes brokers from outside. From a time on it adds up their work, the publications that
reached them in vain, the lengths of queues and tables, and the delays of deliveries. It changes
nothing of what happens, and does not know which scenario it measures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from byway.core.counters import Counters
from byway.model.measurement import (
    DELIVERIES,
    MATCHED_BROKERS,
    PUBLICATION_HOPS,
    PUBLICATIONS,
    PURE_FORWARDERS,
    SUBSCRIPTION_KINDS,
)
from byway.model.messages import Batch, Frame, Publish
from byway.sim.engine.network import message_bytes
from byway.sim.engine.nodes import Node
from byway.sim.engine.service import Work
from byway.sim.run_metrics import Tally, Totals, ratio


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """The delays of deliveries, from when their publishers were to publish; None: there were no
    deliveries."""

    deliveries: int
    mean_ms: float | None
    p10_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class GroupMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """The measures of some brokers. Counts are sums over the brokers, table sizes and times are
    means."""

    brokers: int
    subscriptions_arrived: int
    """Subscriptions that neighbours sent, each one of a pack counted."""
    subscription_messages: int
    """Messages with subscriptions that neighbours sent, a pack counted once."""
    triggered: int
    """Subscriptions that were sent because one that covered them ended."""
    preserved: int
    """Times that an unsubscription was not passed on over a link."""
    retired: int
    """Times that such an unsubscription was passed on later."""
    preserved_entries: int
    """Placeholders at the end: preserved subscriptions and merged filters."""
    peak_queue: int
    """The most messages that waited at one broker at one time."""
    table_entries_begin: float
    table_entries_mean: float | None
    """The mean over samples; None: there was no sample."""
    table_entries_end: float
    publications: int
    """Publications received from neighbours."""
    false_positives: int
    """Publications received that were for no local client and no other neighbour."""
    false_positive_share: float | None
    busy_s: dict[str, float]
    """By kind of message, the time that the broker was busy."""
    messages: dict[str, int]
    """By kind, the messages that the broker handled; counted where handling takes time."""


class IntervalMeasures(msgspec.Struct, frozen=True, kw_only=True, rename={"yield_": "yield"}):
    """What all brokers did between the beginning and the end of the measured part, whenever the
    publications had been published."""

    publications: int
    """Publications accepted by home brokers."""
    due: int
    """Deliveries owed for the publications that home brokers read."""
    deliveries: int
    matched_brokers: int
    pure_forwarders: int
    yield_: float | None
    publication_hops: int
    """Publications that brokers took from neighbours."""
    mean_hops: float | None
    deliveries_by_hops: dict[str, int]
    messages: dict[str, int]
    """By kind, the messages sent between brokers, as far as they were connected."""
    bytes: dict[str, int]
    """By kind, their bytes."""
    bytes_total: int


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """The measures of a part of a run."""

    from_s: float
    to_s: float
    delays: Delays
    probes: Delays | None
    """The delays of probes; None: no probe was delivered."""
    interval: IntervalMeasures
    groups: dict[str, GroupMeasures]


class _Counted(NamedTuple):
    """What one broker has done until some time, as its counters and its neighbours' say."""

    subscriptions_arrived: int
    subscription_messages: int
    triggered: int
    preserved: int
    retired: int
    publications: int
    false_positives: int


class Meter:
    """Measures one world, whose brokers must not crash."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        groups: Mapping[str, Iterable[str]],
        now_us: Callable[[], int],
        due: Callable[[], int],
        *,
        from_us: int,
        to_us: int,
        is_probe: Callable[[str], bool],
        requested_us: Callable[[Publish], int],
    ) -> None:
        """`due` says how many deliveries have been owed so far, `is_probe` of a publisher whether
        its publications are measured separately, and `requested_us` when a publication was to be
        published."""
        self._nodes = nodes
        self._groups = {name: list(brokers) for name, brokers in groups.items()}
        self._now_us = now_us
        self._due = due
        self._from_us = from_us
        self._to_us = to_us
        self._is_probe = is_probe
        self._requested_us = requested_us
        self._tally = Tally()
        self._probes = Tally()
        for node in nodes.values():
            assert node.broker is not None, f"{node.name} is down"
            node.broker.watch_publications(self._routed)
        self._before: dict[str, _Counted] = {}
        self._entries_before: dict[str, int] = {}
        self._entries_sum = dict.fromkeys(nodes, 0)
        self._samples = 0
        self._hops = Tally()
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._is_within = False
        self._due_before = 0
        self._due_after: int | None = None
        self._totals_before: Totals | None = None
        self._totals_after: Totals | None = None

    def begin(self) -> None:
        """Measure from now on."""
        for name, node in self._nodes.items():
            node.reset_measures()
            self._before[name] = self._counted(name)
            self._entries_before[name] = _entries(node)
            node.watch_sent = self._sent
        self._due_before = self._due()
        self._totals_before = self._totals()
        self._is_within = True

    def end_interval(self) -> None:
        """The measured interval is over; what is measured to the very end goes on."""
        for node in self._nodes.values():
            node.watch_sent = None
        self._due_after = self._due()
        self._totals_after = self._totals()
        self._is_within = False

    def _totals(self) -> Totals:
        totals = Totals()
        for node in self._nodes.values():
            totals.add(_counters(node))
        return totals

    def _sent(self, frame: Frame) -> None:
        """A broker has sent a frame to a neighbour."""
        if type(frame) is Batch:
            for message in frame.messages:
                kind = str(message.__struct_config__.tag)
                self._messages[kind] += 1
                self._bytes[kind] += message_bytes(message)

    def sample(self) -> None:
        """Add the present sizes of tables to their means."""
        self._samples += 1
        for name, node in self._nodes.items():
            self._entries_sum[name] += _entries(node)

    def _routed(
        self, message: Publish, link: str | None, links: Sequence[str], clients: Sequence[str]
    ) -> None:
        """A broker has delivered a publication to these clients, among others."""
        del link, links
        if not clients:
            return
        if self._is_within:
            for _ in clients:
                self._hops.add(message.hop, 0)
        requested_us = self._requested_us(message)
        delay_us = self._now_us() - requested_us
        if self._is_probe(message.publisher):
            tally = self._probes
        elif self._from_us <= requested_us <= self._to_us:
            tally = self._tally
        else:
            return
        for _ in clients:
            tally.add(message.hop, delay_us)

    def measures(self) -> Measures:
        """The measures so far."""
        return Measures(
            from_s=self._from_us / 1_000_000,
            to_s=self._to_us / 1_000_000,
            delays=_delays(self._tally),
            probes=_delays(self._probes) if self._probes.deliveries else None,
            interval=self._interval(),
            groups={name: self._group(brokers) for name, brokers in self._groups.items()},
        )

    def _interval(self) -> IntervalMeasures:
        after = (self._totals_after or self._totals()).numbers
        before = (self._totals_before or self._totals()).numbers
        counted = {name: number - before[name] for name, number in after.items()}
        matched, forwarders = counted[MATCHED_BROKERS.name], counted[PURE_FORWARDERS.name]
        hops = self._hops.hops
        due_after = self._due() if self._due_after is None else self._due_after
        return IntervalMeasures(
            publications=counted[PUBLICATIONS.name],
            due=due_after - self._due_before,
            deliveries=counted[DELIVERIES.name],
            matched_brokers=matched,
            pure_forwarders=forwarders,
            yield_=ratio(matched, matched + forwarders),
            publication_hops=counted[PUBLICATION_HOPS.name],
            mean_hops=ratio(self._hops.hops_sum, self._hops.deliveries),
            deliveries_by_hops={str(number): hops[number] for number in sorted(hops)},
            messages={kind: self._messages[kind] for kind in sorted(self._messages)},
            bytes={kind: self._bytes[kind] for kind in sorted(self._bytes)},
            bytes_total=self._bytes.total(),
        )

    def _group(self, names: list[str]) -> GroupMeasures:
        nodes = [self._nodes[name] for name in names]
        work = Work()
        for node in nodes:
            work.add(node.times.work)
        entries_sum = sum(self._entries_sum[name] for name in names)
        now = _added(self._counted(name) for name in names)
        before = _added(self._before[name] for name in names if name in self._before)
        counted = {key: number - before[key] for key, number in now.items()}
        return GroupMeasures(
            brokers=len(names),
            **counted,
            preserved_entries=sum(map(_preserved, nodes)),
            peak_queue=max(node.peak_queue for node in nodes),
            table_entries_begin=sum(self._entries_before.get(n, 0) for n in names) / len(names),
            table_entries_mean=ratio(entries_sum, self._samples * len(names)),
            table_entries_end=sum(map(_entries, nodes)) / len(names),
            false_positive_share=ratio(counted["false_positives"], counted["publications"]),
            busy_s={k: work.busy_us[k] / 1e6 / len(names) for k in sorted(work.busy_us)},
            messages={kind: work.messages[kind] for kind in sorted(work.messages)},
        )

    def _counted(self, name: str) -> _Counted:
        broker = self._nodes[name].broker
        assert broker is not None, f"{name} is down"
        own = broker.counters
        others = [_counters(self._nodes[neighbour]) for neighbour in broker.neighbours]
        return _Counted(
            subscriptions_arrived=sum(other.subscriptions_sent.get(name, 0) for other in others),
            subscription_messages=sum(
                other.control_sent.get((name, tag), 0)
                for other in others
                for tag in SUBSCRIPTION_KINDS
            ),
            triggered=own.triggered,
            preserved=own.preserved,
            retired=own.retired,
            publications=own.publications_received,
            false_positives=own.false_positives,
        )


def _added(counted: Iterable[_Counted]) -> dict[str, int]:
    rows = list(counted)
    return {key: sum(getattr(row, key) for row in rows) for key in _Counted._fields}


def _counters(node: Node) -> Counters:
    assert node.broker is not None, f"{node.name} is down"
    return node.broker.counters


def _entries(node: Node) -> int:
    assert node.broker is not None, f"{node.name} is down"
    return len(node.broker.subscriptions)


def _preserved(node: Node) -> int:
    assert node.broker is not None, f"{node.name} is down"
    return len(node.broker.placeholders)


def _delays(tally: Tally) -> Delays:
    count = tally.deliveries

    def percentile(share: float) -> float | None:
        return tally.delay_us(share) / 1_000 if count else None

    return Delays(
        deliveries=count,
        mean_ms=ratio(tally.delay_us_sum / 1_000, count),
        p10_ms=percentile(0.1),
        p50_ms=percentile(0.5),
        p90_ms=percentile(0.9),
        p99_ms=percentile(0.99),
        max_ms=tally.delay_us_max / 1_000 if count else None,
    )
