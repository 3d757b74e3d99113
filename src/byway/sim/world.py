"""The world: brokers, links and clients under one clock, with the oracle always watching.

It is where the engine and the oracle meet: the engine runs brokers and clients and reports to the
oracle's account, and the checkers look at the brokers in the end. The world builds both, causes
faults and takes samples. It draws nothing: the same topology and calls give the same run, byte for
byte.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final

from byway.core.bodies import SharedBodies
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.clients import RESTORE_TIMER
from byway.core.inputs import LoadSampled, Started
from byway.core.invariants import validate
from byway.core.placeholders import sample_placeholders
from byway.core.reachability import TIMER as REACHABILITY_TIMER
from byway.core.recovery import TIMER as SYNC_TIMER
from byway.core.recovery import UNLISTED_TIMER_OWNER
from byway.core.subscriptions import TIMER as COVERING_TIMER
from byway.model.trace_schema import Queue, TableKind
from byway.session.client_options import ClientOptions
from byway.sim.engine.connections import Connections
from byway.sim.engine.network import NetworkOptions, Transmitter
from byway.sim.engine.nodes import Node
from byway.sim.engine.service import INSTANT, ServiceProfile
from byway.sim.engine.sim_client import SimClient, url_of
from byway.sim.engine.sim_clock import Clock
from byway.sim.oracle.account import Account
from byway.sim.oracle.checkers import leaks, table_faults, unanswered
from byway.sim.oracle.violations import Report
from byway.sim.run_metrics import RunMetrics, Totals, metrics_of
from byway.sim.topology.tree import Topology
from byway.trace import TraceBuffer

if TYPE_CHECKING:
    from byway.trace import TraceWriter

AWAITED_TIMERS: Final = frozenset(
    {SYNC_TIMER.owner, COVERING_TIMER.owner, REACHABILITY_TIMER.owner, RESTORE_TIMER.owner,
     UNLISTED_TIMER_OWNER}
)  # fmt: skip
"""Owners of timers that are set only while a broker waits for another one."""
_SLICES: Final = 200
"""The parts of a run after each of which progress is reported."""


class World:
    """A simulated network of brokers and clients."""

    def __init__(
        self,
        topology: Topology,
        *,
        config: BrokerConfig | Mapping[str, BrokerConfig],
        profile: ServiceProfile = INSTANT,
        network: NetworkOptions | None = None,
        trace: TraceWriter | None = None,
        sample_us: int = 1_000_000,
        unlisted: Collection[tuple[str, str]] = (),
        remembering: Collection[str] = (),
    ) -> None:
        """Start all brokers and connect all links.

        `unlisted`: pairs of neighbours of which the first does not list the second, and learns of
        it when that one connects. `remembering`: brokers that, when they lose their state, still
        know that they ran before, and who their neighbours were (the `state_dir` of a broker
        process).
        """
        self.topology = topology
        self._unlisted = frozenset(unlisted)
        self._remembering = frozenset(remembering)
        self.clients: dict[str, SimClient] = {}
        self._clock = Clock()
        self._jitter = partial(Random(0).uniform, 0.5, 1.0)
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
            self._start(name, self._new_broker(name, self._listed(name), incarnation=1))
            self.nodes[name].answers = True
        self._connections.make_all()
        self._clock.background_at(sample_us, self._sample)
        for every_us in sorted({node.config.load_sample_us for node in self.nodes.values()}):
            if every_us:
                self._clock.background_at(every_us, self._sample_loads, every_us)

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
        self._account.violated(
            "protocol", f"{broker} closed its connection to {neighbour}, which {reason}"
        )
        self._connections.close(broker, neighbour)

    def _listed(self, name: str) -> list[str]:
        """The neighbours that a broker lists when it starts."""
        neighbours = self.topology.neighbours(name)
        return [other for other in neighbours if (name, other) not in self._unlisted]

    def _new_broker(
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
            expects_unlisted=not restarting and any(own == name for own, _ in self._unlisted),
        )

    def _start(self, name: str, broker: Broker) -> None:
        self.nodes[name].start(broker)
        self.nodes[name].handle_now(Started())

    def __repr__(self) -> str:
        return (
            f"<World of {len(self.nodes)} brokers and {len(self.clients)} clients at "
            f"{self.now_us / 1e6:.6f} s>"
        )

    # --- time ----------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """The present simulated time."""
        return self._clock.now_us

    def at(self, t_us: int, action: Callable[[], None]) -> None:
        """Schedule an action at a time that has not passed."""
        self._clock.at(t_us, _call, action)

    def run(self, until_us: int, progress: Callable[[int], None] | None = None) -> None:
        """Run up to a time; `progress` is called with the time now and then."""
        slices = 1 if progress is None else _SLICES
        begin_us = self.now_us
        with _rare_collections():
            for number in range(1, slices + 1):
                self._clock.run(begin_us + (until_us - begin_us) * number // slices)
                if progress is not None:
                    progress(self.now_us)

    def quiet(self, limit_us: int) -> bool:
        """Run until nothing is under way, for this time at most. Returns whether nothing is."""
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
        """Whether nothing but periodic work is under way, and no broker waits for another."""
        if self._clock.foreground:
            return False
        if any(t.owner in AWAITED_TIMERS for node in self.nodes.values() for t in node.timers):
            return False
        return not any(client.is_coming for client in self.clients.values())

    # --- clients -------------------------------------------------------------------------------

    def client(self, name: str, home: str, session_ttl_us: int = 0) -> SimClient:
        """Add a client of a broker; it attaches at once, if the broker is up."""
        if name in self.clients:
            raise ValueError(f"there is a client {name!r} already")
        options = ClientOptions(
            urls=(url_of(home),), name=name, session_ttl=session_ttl_us / 1e6, connect_wait=inf
        )
        client = SimClient(
            options,
            self.nodes,
            1,
            self._clock,
            self._account,
            self._jitter,
            self._network.client_latency_us,
        )
        self.clients[name] = client
        self._homes[home].append(client)
        client.open()
        return client

    # --- faults --------------------------------------------------------------------------------

    def crash(self, broker: str) -> None:
        """Stop a broker and break its connections; one that is down stays down."""
        if broker in self._stopped:
            return
        self._stopped[broker] = self.nodes[broker].stop()
        self._connections.go_down(broker)

    def restart(self, broker: str, stored: bool) -> None:
        """Start a broker that crashed, with the state it had then (`stored`) or without any. One
        that is up stays as it is."""
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
            after = self._new_broker(broker, neighbours, incarnation, restarting=remembers)
            self._account.broker_lost_state()
        self._start(broker, after)
        self._connections.come_up(broker)
        grace_us = node.config.restore_grace_us
        for client in self._homes[broker]:
            client.watch.on_home_restarted(stored=stored, grace_us=grace_us)
        self._clock.at(self.now_us + self._network.reattach_us, self._answer, broker)

    def _answer(self, broker: str) -> None:
        """A broker answers its clients again."""
        if self.nodes[broker].broker is not None:
            self.nodes[broker].answers = True
            for client in self._homes[broker]:
                client.try_dialled()

    def cut(self, a: str, b: str) -> None:
        """Break the link between two neighbours, until `mend`."""
        self._connections.separate(a, b, "cut")

    def mend(self, a: str, b: str) -> None:
        """Let two neighbours connect again after `cut`."""
        self._connections.join(a, b, "cut")

    def partition(self, brokers: Iterable[str]) -> None:
        """Separate these brokers from all others, until `heal`."""
        group = frozenset(brokers)
        cause = f"partition of {', '.join(sorted(group))}"
        self._partitions[cause] = group
        for link in self._connections.between(group):
            self._connections.separate(link.a, link.b, cause)

    def heal(self, brokers: Iterable[str] | None = None) -> None:
        """End the partition of these brokers; None: end all partitions."""
        group = None if brokers is None else frozenset(brokers)
        for cause, separated in list(self._partitions.items()):
            if group is None or separated == group:
                del self._partitions[cause]
                for link in self._connections.between(separated):
                    self._connections.join(link.a, link.b, cause)

    def delay(self, a: str, b: str, extra_us: int, until_us: int) -> None:
        """Let frames between two neighbours take `extra_us` longer until a time."""
        self._connections.delay(a, b, extra_us)
        self._clock.background_at(until_us, _call, lambda: self._connections.delay(a, b, -extra_us))

    def slow(self, broker: str, factor: float, until_us: int) -> None:
        """Let a broker need `factor` times as long for everything until a time."""
        node = self.nodes[broker]
        node.slowness *= factor

        def recover() -> None:
            node.slowness /= factor

        self._clock.background_at(until_us, _call, recover)

    # --- samples -------------------------------------------------------------------------------

    def _sample(self, _: Any) -> None:
        entries = 0
        for node in self.nodes.values():
            if node.broker is not None:
                entries += len(node.broker.subscriptions)
                if self._trace is not None:
                    self._trace_sample(node, node.broker)
        self._entries_peak = max(self._entries_peak, entries)
        self._account.sweep()
        self._clock.background_at(self.now_us + self._sample_us, self._sample)

    def _trace_sample(self, node: Node, broker: Broker) -> None:
        trace, now_us = node.trace, self.now_us
        trace.queue_sampled(now_us, Queue.INPUT, node.waiting, node.waiting_bytes)
        for link, channel in sorted(node.channels.items()):
            waiting, waiting_bytes = channel.waiting, channel.waiting_bytes
            trace.queue_sampled(now_us, Queue.OUTPUT, waiting, waiting_bytes, link)
        trace.table_sampled(now_us, TableKind.SUBSCRIPTIONS, len(broker.subscriptions))
        trace.table_sampled(now_us, TableKind.ADVERTISEMENTS, len(broker.advertisements))
        sample_placeholders(broker, trace, now_us)

    def _sample_loads(self, every_us: int) -> None:
        """Tell the brokers that are told so often how many messages wait, if they go by that."""
        for node in self.nodes.values():
            if node.config.load_sample_us == every_us and node.broker is not None:
                load = self._load(node)
                if node.broker.uses_load:
                    node.control(load)
        self._clock.background_at(self.now_us + every_us, self._sample_loads, every_us)

    def _load(self, node: Node) -> LoadSampled:
        channels = sorted(node.channels.items())
        outputs = tuple((link, channel.waiting) for link, channel in channels)
        busy_us = 0 if node.uplink is None else node.uplink.busy_us
        before_us = self._uplink_us.get(node.name, 0)
        self._uplink_us[node.name] = busy_us
        return LoadSampled(
            node.waiting, outputs, min((busy_us - before_us) / node.config.load_sample_us, 1.0)
        )

    def _drain(self, buffer: TraceBuffer) -> None:
        assert self._trace is not None
        self._trace.write(buffer.drain())

    # --- the end -------------------------------------------------------------------------------

    def check(self, *, tables: bool = True) -> Report:
        """Check what can be checked now: everything, if all brokers and links are up and nothing is
        under way. To be called once, at the end. `tables`: compare the tables of brokers with those
        of a reference network."""
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
            for client in self.clients.values():
                for sentence in unanswered(client):
                    violations.add("unsettled", sentence)
            for node in self.nodes.values():
                for sentence in leaks(node):
                    violations.add("leaks", sentence)
            if tables:
                kept = [client for client in self.clients.values() if client.has_session]
                for sentence in table_faults(self.topology, self.nodes, kept):
                    violations.add("tables", sentence)
        return violations.report(tables_compared=is_whole and tables)

    def metrics(self) -> RunMetrics:
        """The metrics of the run so far."""
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


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for garbage cycles rarely: a run makes millions of objects and hardly any
    cycle."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
