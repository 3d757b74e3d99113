"""The world: brokers, links and clients under one clock, with the checkers always on.

It puts the parts together, breaks and mends them, and takes samples. The same seed, topology and
calls give the same run, byte for byte. What brokers do is theirs; what is right is the checkers'.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

from byway.core.bodies import SharedBodies
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled, Started
from byway.core.invariants import validate
from byway.core.placeholders import sample_placeholders
from byway.model.trace_schema import Queue, TableKind
from byway.sim.engine.clock import Clock
from byway.sim.engine.connections import Connections
from byway.sim.engine.network import NetworkOptions, Transmitter
from byway.sim.engine.nodes import Node
from byway.sim.engine.service import INSTANT, ServiceProfile
from byway.sim.engine.sim_client import SimClient
from byway.sim.oracle.account import Account
from byway.sim.oracle.checkers import leaks, table_faults
from byway.sim.oracle.violations import Report
from byway.sim.run_metrics import RunMetrics, Totals, metrics_of
from byway.sim.topology.shapes import seeded
from byway.sim.topology.tree import Topology
from byway.trace import TraceBuffer, TraceWriter

AWAITED_TIMERS: Final = frozenset({"agreement", "covering", "reachability", "restore"})
"""Owners of timers that a world is not at rest without."""
_SLICES: Final = 200
"""Of a run; progress is told after each."""


class World:
    """A network of brokers, running."""

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int,
        config: BrokerConfig | Mapping[str, BrokerConfig],
        profile: ServiceProfile = INSTANT,
        network: NetworkOptions | None = None,
        trace: TraceWriter | None = None,
        sample_us: int = 1_000_000,
        unlisted: Collection[tuple[str, str]] = (),
        remembering: Collection[str] = (),
    ) -> None:
        """`unlisted`: pairs of neighbours of which the first is not told of the second, and learns
        of it when that one connects. `remembering`: brokers that, when they lose their state, still
        know that they were here, and who their neighbours were (the `state_dir` of a broker
        process)."""
        self.topology = topology
        self._unlisted = frozenset(unlisted)
        self._remembering = frozenset(remembering)
        self.rng: np.random.Generator = seeded(seed)
        self.clients: dict[str, SimClient] = {}
        self._clock = Clock()
        self._bodies = SharedBodies()
        self._account = Account(self._clock)
        self._network = network or NetworkOptions()
        self._trace = trace
        self._sample_us = sample_us
        self._totals = Totals()
        self._entries_peak = 0
        self._partitions: dict[str, frozenset[str]] = {}
        self.nodes: dict[str, Node] = {}
        for name in topology.brokers:
            own = config[name] if isinstance(config, Mapping) else config
            self.nodes[name] = self._node(name, own, profile)
        self._connections = Connections(topology, self.nodes, self._clock, self._network)
        self._homes: dict[str, list[SimClient]] = {name: [] for name in topology.brokers}
        self._stopped: dict[str, Broker] = {}
        self._uplink_us: dict[str, int] = {}
        for name in topology.brokers:
            self._start(name, self._fresh(name, self._listed(name), incarnation=1))
        self._connections.make_all()
        self._clock.aside_at(sample_us, self._sample)

    def _node(self, name: str, config: BrokerConfig, profile: ServiceProfile) -> Node:
        uplink = self._network.uplink(name)
        is_limited = uplink.bytes_per_s is not None or uplink.messages_per_s is not None
        node = Node(
            name,
            config,
            self._clock,
            self._account,
            profile,
            None if self._trace is None else TraceBuffer(name),
            Transmitter(self._clock, uplink.bytes_per_s, uplink.messages_per_s)
            if is_limited
            else None,
        )
        node.closed = partial(self._close, name)
        node.drain = None if self._trace is None else self._drain
        return node

    def _close(self, broker: str, neighbour: str, reason: str) -> None:
        self._account.violations.add(
            "protocol", f"{broker} closed its connection to {neighbour}, which {reason}"
        )
        self._connections.close(broker, neighbour)

    def _listed(self, name: str) -> list[str]:
        """Neighbours that a broker is told of when it begins."""
        neighbours = self.topology.neighbours(name)
        return [other for other in neighbours if (name, other) not in self._unlisted]

    def _fresh(
        self, name: str, neighbours: Iterable[str], incarnation: int, restarting: bool = False
    ) -> Broker:
        node = self.nodes[name]
        return Broker(
            name,
            neighbours,
            node.config,
            incarnation,
            trace=node.trace,
            bodies=self._bodies,
            restarting=restarting,
        )

    def _start(self, name: str, broker: Broker) -> None:
        self.nodes[name].start(broker)
        self.nodes[name].at_once(Started())

    def __repr__(self) -> str:
        return (
            f"<World of {len(self.nodes)} brokers and {len(self.clients)} clients at "
            f"{self.now_us / 1e6:.6f} s>"
        )

    # --- time ----------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """The present time."""
        return self._clock.now_us

    def at(self, t_us: int, action: Callable[[], None]) -> None:
        """Do something at a time that has not passed."""
        self._clock.at(t_us, _call, action)

    def run(self, until_us: int, progress: Callable[[int], None] | None = None) -> None:
        """Let happen what happens up to a time; `progress` is told the time now and then."""
        slices = 1 if progress is None else _SLICES
        begin_us = self.now_us
        with _rare_collections():
            for number in range(1, slices + 1):
                self._clock.run(begin_us + (until_us - begin_us) * number // slices)
                if progress is not None:
                    progress(self.now_us)

    def quiet(self, limit_us: int) -> bool:
        """Run until nothing is under way, for this time at most; whether nothing is."""
        deadline_us = self.now_us + limit_us
        with _rare_collections():
            while not self._is_at_rest():
                if not self._clock.run_to_rest(deadline_us):
                    return False
                next_us = self._clock.next_us
                if not self._is_at_rest():  # a broker waits for another one
                    if next_us is None or next_us > deadline_us:
                        return False
                    self._clock.run(next_us)
        return True

    def _is_at_rest(self) -> bool:
        """Periodic messages apart, nothing is under way, and no broker waits for another."""
        if self._clock.foreground:
            return False
        return not any(
            timer.owner in AWAITED_TIMERS for node in self.nodes.values() for timer in node.timers
        )

    # --- clients -------------------------------------------------------------------------------

    def client(self, name: str, home: str, session_ttl_us: int = 0) -> SimClient:
        """A new client of a broker; it attaches at once, if the broker is there."""
        if name in self.clients:
            raise ValueError(f"there is a client {name!r} already")
        client = SimClient(name, self.nodes[home], session_ttl_us, self._clock, self._account)
        self.clients[name] = client
        self._homes[home].append(client)
        client.attach()
        return client

    # --- faults --------------------------------------------------------------------------------

    def crash(self, broker: str) -> None:
        """A broker stops, and with it its connections and what is on them, unless it is down."""
        if broker in self._stopped:
            return
        self._stopped[broker] = self.nodes[broker].stop()
        self._connections.go_down(broker)

    def restart(self, broker: str, stored: bool) -> None:
        """A broker that crashed is there again, in the state it had then (`stored`) or without any.
        One that is up stays as it is."""
        before = self._stopped.pop(broker, None)
        if before is None:
            return
        self._totals.add(before.counters)
        node = self.nodes[broker]
        if stored:
            after = Broker.restore(
                before.snapshot(), node.config, trace=node.trace, bodies=self._bodies
            )
        else:
            remembers = broker in self._remembering
            neighbours = list(before.neighbours) if remembers else self._listed(broker)
            incarnation = before.incarnation + 1
            after = self._fresh(broker, neighbours, incarnation, restarting=remembers)
            self._account.state_lost_us = self.now_us
        self._start(broker, after)
        self._connections.come_up(broker)
        for client in self._homes[broker]:
            client.home_restarted(stored=stored)
            self._clock.at(self.now_us + self._network.reattach_us, _attach, client)

    def cut(self, a: str, b: str) -> None:
        """The link between two neighbours breaks."""
        self._connections.separate(a, b, "cut")

    def mend(self, a: str, b: str) -> None:
        """It works again."""
        self._connections.join(a, b, "cut")

    def partition(self, brokers: Iterable[str]) -> None:
        """These brokers are separated from all others."""
        group = frozenset(brokers)
        cause = f"partition of {', '.join(sorted(group))}"
        self._partitions[cause] = group
        for link in self._connections.between(group):
            self._connections.separate(link.a, link.b, cause)

    def heal(self, brokers: Iterable[str] | None = None) -> None:
        """The partition of these brokers ends; None: all partitions do."""
        group = None if brokers is None else frozenset(brokers)
        for cause, separated in list(self._partitions.items()):
            if group is None or separated == group:
                del self._partitions[cause]
                for link in self._connections.between(separated):
                    self._connections.join(link.a, link.b, cause)

    def delay(self, a: str, b: str, extra_us: int, until_us: int) -> None:
        """Frames between two neighbours take so much longer until a time."""
        self._connections.delay(a, b, extra_us)
        self._clock.aside_at(until_us, _call, lambda: self._connections.delay(a, b, -extra_us))

    def slow(self, broker: str, factor: float, until_us: int) -> None:
        """A broker needs so many times as long for everything until a time."""
        node = self.nodes[broker]
        node.slowness *= factor

        def recover() -> None:
            node.slowness /= factor

        self._clock.aside_at(until_us, _call, recover)

    # --- samples -------------------------------------------------------------------------------

    def _sample(self, _: Any) -> None:
        entries = 0
        for node in self.nodes.values():
            if node.broker is not None:
                entries += len(node.broker.subscriptions)
                if self._trace is not None:
                    self._trace_sample(node, node.broker)
                if node.config.load_interval_us or node.broker.policy.statistics is not None:
                    node.at_once(self._load(node))
        self._entries_peak = max(self._entries_peak, entries)
        self._account.sweep()
        self._clock.aside_at(self.now_us + self._sample_us, self._sample)

    def _trace_sample(self, node: Node, broker: Broker) -> None:
        trace, now_us = node.trace, self.now_us
        trace.queue_sampled(now_us, Queue.INPUT, node.waiting, node.waiting_bytes)
        for link, way in sorted(node.ways.items()):
            trace.queue_sampled(now_us, Queue.OUTPUT, way.waiting, way.waiting_bytes, link)
        trace.table_sampled(now_us, TableKind.SUBSCRIPTIONS, len(broker.subscriptions))
        trace.table_sampled(now_us, TableKind.ADVERTISEMENTS, len(broker.advertisements))
        sample_placeholders(broker, trace, now_us)

    def _load(self, node: Node) -> LoadSampled:
        outputs = tuple((link, way.waiting) for link, way in sorted(node.ways.items()))
        busy_us = 0 if node.uplink is None else node.uplink.busy_us
        before_us = self._uplink_us.get(node.name, 0)
        self._uplink_us[node.name] = busy_us
        return LoadSampled(node.waiting, outputs, min((busy_us - before_us) / self._sample_us, 1.0))

    def _drain(self, buffer: TraceBuffer) -> None:
        assert self._trace is not None
        self._trace.write(buffer.drain())

    # --- the end -------------------------------------------------------------------------------

    def check(self, *, tables: bool = True) -> Report:
        """Check what can be checked now: all of it when the world is whole and at rest. To be
        called once, at the end. `tables`: compare them with those of a fresh network."""
        violations = self._account.violations
        for node in self.nodes.values():
            if self._trace is not None:
                self._drain(node.trace)
            if node.broker is not None:
                for sentence in validate(node.broker):
                    violations.add("invariants", sentence)
        is_whole = self._is_at_rest() and not self._stopped and self._connections.are_whole
        if is_whole:
            self._account.finish()
            for sentence in self._unanswered():
                violations.add("unsettled", sentence)
            for node in self.nodes.values():
                for sentence in leaks(node):
                    violations.add("leaks", sentence)
            if tables:
                clients = [client for client in self.clients.values() if client.has_session]
                for sentence in table_faults(self.topology, self.nodes, clients):
                    violations.add("tables", sentence)
        return violations.report(tables_compared=is_whole and tables)

    def _unanswered(self) -> Iterator[str]:
        for client in self.clients.values():
            if not client.attached:
                continue
            for entry in client.holdings.in_force.values():
                if not entry.settled and not entry.doubtful:
                    yield f"{client.name} was never told that {entry.name} is settled"
            if client.unconfirmed:
                yield f"{client.name} has {client.unconfirmed} publications unconfirmed"
            if not client.is_idle:
                yield f"{client.name} has something to say and cannot"

    def metrics(self) -> RunMetrics:
        """What the run was like so far."""
        totals = self._totals.copy()
        for broker in (*(n.broker for n in self.nodes.values()), *self._stopped.values()):
            if broker is not None:
                totals.add(broker.counters)
        return metrics_of(
            publications=self._account.published,
            tally=self._account.tally,
            totals=totals,
            bytes_sent=self._connections.bytes_sent if self._network.is_limited else None,
            peak_queue=max(node.peak_queue for node in self.nodes.values()),
            table_entries=self._table_entries(),
            table_entries_peak=self._entries_peak,
            redelivered=self._account.redelivered,
            lost_in_sessions=self._account.lost_in_sessions,
        )

    def _table_entries(self) -> int:
        brokers = (node.broker for node in self.nodes.values())
        return sum(len(broker.subscriptions) for broker in brokers if broker is not None)


def _call(action: Callable[[], None]) -> None:
    action()


def _attach(client: SimClient) -> None:
    client.attach()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage cycles rarely: a run makes millions of objects and hardly any cycle."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
