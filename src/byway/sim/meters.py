"""Measuring: a part of a run, for groups of brokers.

A meter watches brokers from outside. From a time on it adds up what they were busy with, which
publications reached them for nothing, how long queues and tables were, and how late publications
were delivered. It changes nothing of what happens, and knows nothing of why it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from byway.core.context import Counters
from byway.model.messages import Publish
from byway.sim.engine.nodes import Node
from byway.sim.engine.service import Work
from byway.sim.run_metrics import Tally


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """How late publications were delivered, from when their publishers asked; None: there were
    none."""

    deliveries: int
    mean_ms: float | None
    p10_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class GroupMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at some brokers. Counts are of all of them together; tables, times and the
    like are means over them."""

    brokers: int
    subscriptions_arrived: int
    """From neighbours, those in packs each."""
    subscription_messages: int
    """The same, a pack being one."""
    triggered: int
    """Subscriptions sent because one that covered them went."""
    preserved: int
    """Times that an unsubscription was not passed on over a link."""
    retired: int
    """Times that it was in the end."""
    preserved_entries: int
    """Preserved subscriptions in the end."""
    peak_queue: int
    """Messages that waited at one of them at one time, at most."""
    table_entries_begin: float
    table_entries_mean: float | None
    """Over samples."""
    table_entries_end: float
    publications: int
    """Taken from neighbours."""
    false_positives: int
    """Of these, those that nobody wanted, here or beyond."""
    false_positive_share: float | None
    busy_s: dict[str, float]
    """By kind of message."""
    messages: dict[str, int]
    """Handled, by kind, where handling takes time."""


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured in a part of a run."""

    from_s: float
    to_s: float
    delays: Delays
    probes: Delays | None
    """Of publications that were to be measured apart."""
    groups: dict[str, GroupMeasures]


class Watch:
    """What one broker's publications come to."""

    __slots__ = ("_meter", "_node", "_undecided", "false_positives", "publications")

    def __init__(self, node: Node, meter: Meter) -> None:
        assert node.broker is not None
        self._node = node
        self._meter = meter
        self._undecided = False
        self.publications = 0
        self.false_positives = 0
        publications = node.broker.publications
        publications.received_hooks.append(self._received)
        publications.forwarded_hooks.append(self._forwarded)
        publications.delivered_hooks.append(self._delivered)

    def begin(self) -> None:
        """Count from now on."""
        self.publications = self.false_positives = 0
        self._undecided = False

    def _received(self, message: Publish, link: str | None) -> None:
        """It is for nothing unless it is forwarded or delivered."""
        del message
        self._undecided = link is not None
        self.publications += self._undecided
        self.false_positives += self._undecided

    def _forwarded(self, message: Publish, links: Sequence[str]) -> None:
        del message, links
        self._wanted()

    def _delivered(self, message: Publish, clients: Sequence[str]) -> None:
        self._wanted()
        self._meter.delivered(message, len(clients))

    def _wanted(self) -> None:
        self.false_positives -= self._undecided
        self._undecided = False


class Meter:
    """Measures one world, whose brokers do not crash."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        groups: Mapping[str, Iterable[str]],
        now_us: Callable[[], int],
        *,
        from_us: int,
        to_us: int,
        is_probe: Callable[[str], bool],
    ) -> None:
        self._nodes = nodes
        self._groups = {"all": list(nodes), **{n: list(g) for n, g in groups.items()}}
        self._now_us = now_us
        self._from_us = from_us
        self._to_us = to_us
        self._is_probe = is_probe
        self._tally = Tally()
        self._probes = Tally()
        self._watches = {name: Watch(node, self) for name, node in nodes.items()}
        self._before: dict[str, dict[str, int]] = {}
        self._entries_before: dict[str, int] = {}
        self._entries_sum = dict.fromkeys(nodes, 0)
        self._samples = 0

    def begin(self) -> None:
        """It is the time to measure from."""
        for name, node in self._nodes.items():
            node.reset_measures()
            self._watches[name].begin()
            self._before[name] = _counted(_counters(node))
            self._entries_before[name] = _entries(node)

    def sample(self) -> None:
        """Look at the tables."""
        self._samples += 1
        for name, node in self._nodes.items():
            self._entries_sum[name] += _entries(node)

    def delivered(self, message: Publish, clients: int) -> None:
        """A publication was given to so many clients."""
        delay_us = self._now_us() - message.published_us
        if self._is_probe(message.publisher):
            tally = self._probes
        elif self._from_us <= message.published_us <= self._to_us:
            tally = self._tally
        else:
            return
        for _ in range(clients):
            tally.add(message.hop, delay_us)

    def measures(self) -> Measures:
        """What was measured so far."""
        return Measures(
            from_s=self._from_us / 1_000_000,
            to_s=self._to_us / 1_000_000,
            delays=_delays(self._tally),
            probes=_delays(self._probes) if self._probes.deliveries else None,
            groups={name: self._group(brokers) for name, brokers in self._groups.items()},
        )

    def _group(self, names: list[str]) -> GroupMeasures:
        nodes = [self._nodes[name] for name in names]
        work = Work()
        for node in nodes:
            work.add(node.times.work)
        watches = [self._watches[name] for name in names]
        publications = sum(watch.publications for watch in watches)
        false_positives = sum(watch.false_positives for watch in watches)
        entries_sum = sum(self._entries_sum[name] for name in names)
        counted = {
            key: sum(
                value - self._before.get(name, {}).get(key, 0)
                for name in names
                for value in (_counted(_counters(self._nodes[name]))[key],)
            )
            for key in ("triggered", "preserved", "retired")
        }
        return GroupMeasures(
            brokers=len(names),
            subscriptions_arrived=work.subscriptions,
            subscription_messages=work.subscription_messages,
            **counted,
            preserved_entries=sum(map(_preserved, nodes)),
            peak_queue=max(node.peak_queue for node in nodes),
            table_entries_begin=sum(self._entries_before.get(n, 0) for n in names) / len(names),
            table_entries_mean=_ratio(entries_sum, self._samples * len(names)),
            table_entries_end=sum(map(_entries, nodes)) / len(names),
            publications=publications,
            false_positives=false_positives,
            false_positive_share=_ratio(false_positives, publications),
            busy_s={k: work.busy_us[k] / 1e6 / len(names) for k in sorted(work.busy_us)},
            messages={kind: work.messages[kind] for kind in sorted(work.messages)},
        )


def _counters(node: Node) -> Counters:
    assert node.broker is not None, f"{node.name} is down"
    return node.broker.counters


def _counted(counters: Counters) -> dict[str, int]:
    return {key: getattr(counters, key) for key in ("triggered", "preserved", "retired")}


def _entries(node: Node) -> int:
    assert node.broker is not None, f"{node.name} is down"
    return len(node.broker.subscriptions)


def _preserved(node: Node) -> int:
    assert node.broker is not None, f"{node.name} is down"
    return len(node.broker.preserved)


def _delays(tally: Tally) -> Delays:
    count = tally.deliveries

    def percentile(share: float) -> float | None:
        return tally.delay_us(share) / 1_000 if count else None

    return Delays(
        deliveries=count,
        mean_ms=_ratio(tally.delay_us_sum / 1_000, count),
        p10_ms=percentile(0.1),
        p50_ms=percentile(0.5),
        p90_ms=percentile(0.9),
        p99_ms=percentile(0.99),
        max_ms=tally.delay_us_max / 1_000 if count else None,
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
