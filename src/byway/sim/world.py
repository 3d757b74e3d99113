"""The world: brokers, links and clients under one clock, with the oracle always watching.

It is where the engine and the oracle meet: the engine runs brokers and clients and reports to the
oracle's account, and the checkers look at the brokers in the end. The world builds both, causes
faults and takes samples. It draws nothing: the same topology and calls give the same run, byte for
byte.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final

from byway.core.actions import CloseLink, OpenLink
from byway.core.backlogs import sample_backlogs
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.clients import RESTORE_TIMER
from byway.core.inputs import Started
from byway.core.invariants import validate
from byway.core.placeholders import sample_placeholders
from byway.core.reachability import TIMER as REACHABILITY_TIMER
from byway.core.recovery import TIMER as SYNC_TIMER
from byway.core.recovery import UNLISTED_TIMER_OWNER
from byway.core.subscriptions import TIMER as COVERING_TIMER
from byway.model.errors import StorageError
from byway.model.trace_schema import Queue, TableKind
from byway.session.client_options import ClientOptions
from byway.sim.broker_starts import BrokerStarts
from byway.sim.engine.client_watch import ClientWatch, Holders
from byway.sim.engine.connections import Connections
from byway.sim.engine.encoded_frames import EncodedClientWire
from byway.sim.engine.network import NetworkOptions, Transmitter
from byway.sim.engine.node_storage import KeptState, NodeStorage, StorageOptions
from byway.sim.engine.nodes import Node
from byway.sim.engine.service import INSTANT, ServiceProfile
from byway.sim.engine.sim_client import SimClient, url_of
from byway.sim.engine.sim_clock import Clock
from byway.sim.engine.stored_node import StoredNode
from byway.sim.load_samples import LoadSamples
from byway.sim.oracle.account import Account
from byway.sim.oracle.checkers import leaks, table_faults, unanswered
from byway.sim.oracle.mesh_checkers import mesh_faults
from byway.sim.oracle.present_tree import tree_of
from byway.sim.oracle.state_checks import state_faults
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
        storage: Mapping[str, StorageOptions] | None = None,
        disk_seed: int = 0,
        seed: int = 0,
    ) -> None:
        """Start all brokers and connect all links.

        `unlisted`: pairs of neighbours of which the first does not list the second, and learns of
        it when that one connects. `remembering`: brokers that, when they lose their state, still
        know that they ran before, and who their neighbours were (the `state_dir` of a broker
        process). `storage`: by broker, what it keeps on a disk of its own; `disk_seed` decides what
        a crash leaves there. `seed`: what brokers draw random numbers from.
        """
        self.topology = topology
        self._storage = storage or {}
        self._disk_seed = disk_seed
        self._seed = seed
        self.clients: dict[str, SimClient] = {}
        self._clock = Clock()
        self._jitter = partial(Random(0).uniform, 0.5, 1.0)
        self._starts = BrokerStarts(topology, unlisted, remembering)
        configs = config.values() if isinstance(config, Mapping) else (config,)
        ordered = all(own.mesh.order == "publisher" for own in configs)
        self._account = Account(self._clock, ordered)
        self._network = network or NetworkOptions()
        self._trace = trace
        self._sample_us = sample_us
        self._sampled_us = -1
        """The time of the last sample."""
        self._totals = Totals()
        self._entries_peak = 0
        self._partitions: dict[str, frozenset[str]] = {}
        self._starting: str | None = None
        """The broker that is being started; it is connected when it has been."""
        self.nodes: dict[str, Node] = {}
        for name in topology.brokers:
            own = config[name] if isinstance(config, Mapping) else config
            self.nodes[name] = self._node(name, own, profile)
        self._connections = Connections(topology, self.nodes, self._clock, self._network, unlisted)
        self._dialling: dict[str, list[SimClient]] = {name: [] for name in topology.brokers}
        """By broker, the clients that may dial it."""
        self._holders: Holders = {}
        self._stopped: dict[str, Broker] = {}
        self._waiting_for_disk: set[str] = set()
        """Brokers that are down because their disk does not work."""
        self._loads = LoadSamples(self.nodes)
        for name in topology.brokers:
            self._start(name, self._starts.first(self.nodes[name]))
            self.nodes[name].answers = True
        self._connections.make_all()
        self._clock.background_at(sample_us, self._sample)
        for every_us in sorted({node.config.load_sample_us for node in self.nodes.values()}):
            if every_us:
                self._clock.background_at(every_us, self._sample_loads, every_us)

    def _node(self, name: str, config: BrokerConfig, profile: ServiceProfile) -> Node:
        uplink = self._network.uplink(name)
        is_limited = uplink.bytes_per_s is not None or uplink.messages_per_s is not None
        arguments = (
            name,
            config,
            self._clock,
            self._account,
            profile,
            None if self._trace is None else TraceBuffer(name),
            Transmitter(
                self._clock,
                uplink.bytes_per_s,
                uplink.messages_per_s,
                self._network.uplink_from_us,
            )
            if is_limited
            else None,
        )
        options = self._storage.get(name)
        if options is not None and options.has_disk:
            node: Node = StoredNode(
                *arguments,
                options=options,
                rng=Random(f"{self._disk_seed} {name}"),
                died=self._on_died,
            )
        else:
            node = Node(*arguments)
        node.closed = partial(self._close, name)
        node.opened = partial(self._open, name)
        node.expired = partial(self._on_session_timer, name)
        node.drain = None if self._trace is None else self._drain
        return node

    def _on_session_timer(self, broker: str, client: str) -> None:
        holder = self._holders.get((broker, client))
        if holder is not None:
            holder.on_session_timer()

    def _open(self, broker: str, action: OpenLink) -> None:
        if broker != self._starting:
            self._connections.open(broker, action.link)

    def _close(self, broker: str, action: CloseLink) -> None:
        if action.fault:
            closed = f"{broker} closed its connection to {action.link}, which {action.reason}"
            self._account.violated("protocol", closed)
            self._connections.fail(broker, action.link)
        else:
            self._connections.close(broker, action.link)

    def _start(self, name: str, broker: Broker) -> None:
        self._starting = name
        self.nodes[name].start(broker)
        self.nodes[name].handle_now(Started(self._seed, f"at {name}"))
        self._starting = None

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

    def first_at(self, t_us: int, action: Callable[[], None]) -> None:
        """Schedule an action before everything else that happens at that time."""
        self._clock.first_at(t_us, _call, action)

    def run(self, until_us: int, progress: Callable[[int], None] | None = None) -> None:
        """Run up to a time; `progress` is called with the time now and then."""
        slices = 1 if progress is None else _SLICES
        begin_us = self.now_us
        with _rare_collections():
            for number in range(1, slices + 1):
                self._clock.run(begin_us + (until_us - begin_us) * number // slices)
                if progress is not None:
                    progress(self.now_us)

    def step(self) -> None:
        """Run the next event alone: a frame arrives, a broker is done with a batch, a timer fires.
        There always is one, if only a sample."""
        self._clock.step()

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
        if not self._clock.is_at_rest:
            return False
        if any(t.owner in AWAITED_TIMERS for node in self.nodes.values() for t in node.timers):
            return False
        return not any(client.is_coming for client in self.clients.values())

    # --- clients -------------------------------------------------------------------------------

    def client(
        self,
        name: str,
        home: str,
        session_ttl_us: int = 0,
        *,
        others: Sequence[str] = (),
        latency_us: int | None = None,
        namesake: bool = False,
        **options: Any,
    ) -> SimClient:
        """Add a client of a broker; it attaches at once, if the broker is up.

        `others`: further brokers that it tries when it cannot reach that one. `latency_us`: between
        the client and brokers, if it is not that of the network. `namesake`: another client has the
        name; this one comes later. `options` are further fields of `ClientOptions`.
        """
        if (name in self.clients) != namesake:
            raise ValueError(f"there is {'no' if namesake else 'a'} client {name!r} already")
        homes = list(dict.fromkeys((home, *others)))
        client = SimClient(
            ClientOptions(
                urls=tuple(map(url_of, homes)),
                name=name,
                session_ttl=session_ttl_us / 1e6,
                connect_wait=inf,
                **options,
            ),
            self.nodes,
            max(1, self.now_us) if namesake else 1,
            self._clock,
            self._account,
            self._jitter,
            self._network.client_latency_us if latency_us is None else latency_us,
            self._holders,
        )
        if self._network.codec:
            client.wire_type = EncodedClientWire
        key = name
        while key in self.clients:
            key += "'"
        self.clients[key] = client
        for broker in homes:
            self._dialling[broker].append(client)
        client.open()
        return client

    @property
    def sessions(self) -> list[ClientWatch]:
        """The clients whose sessions brokers keep, each as one broker knows it."""
        watches = (watch for client in self.clients.values() for watch in client.watches.values())
        return [watch for watch in watches if watch.has_session]

    # --- faults --------------------------------------------------------------------------------

    def crash(self, broker: str, *, power: bool = False, torn: bool = False) -> None:
        """Stop a broker and break its connections; one that is down stays down. Of a broker that
        has a disk, the machine may lose its `power`, and the crash may be `torn`: it comes within
        one of the next operations on files."""
        if broker in self._stopped:
            return
        node = self.nodes[broker]
        if isinstance(node, StoredNode):
            if torn:
                node.disk.crash_soon(power=power)
                return
            node.disk.crash(power=power)
        self._go_down(broker)

    def _on_died(self, broker: str, reason: str) -> None:
        """A broker has ended by itself; if a `reason` is given, because of its disk."""
        if reason:
            self._waiting_for_disk.add(broker)
        self._go_down(broker)

    def _go_down(self, broker: str) -> None:
        self._stopped[broker] = self.nodes[broker].stop()
        self._connections.go_down(broker)

    def restart(self, broker: str, stored: bool, *, stale: bool = False) -> None:
        """Start a broker that crashed, with the state it had then (`stored`) or without any. One
        that is up stays as it is.

        A broker with `data` finds its state on its disk; without `stored` its directory was moved
        away. `stale`: its journal was damaged, and it is started with `--stale`.
        """
        node = self.nodes[broker]
        if isinstance(node, StoredNode):
            if node.disk.is_about_to_end and broker not in self._stopped:
                self.crash(broker)
            if broker in self._stopped:
                self._restart_from_disk(node, stored, stale)
            return
        before = self._stopped.pop(broker, None)
        if before is None:
            return
        self._totals.add(before.counters)
        after = self._starts.again(node, before, stored=stored)
        self._come_up(broker, after, stored=stored)

    def _restart_from_disk(self, node: StoredNode, stored: bool, stale: bool) -> None:
        """Start a broker from what is on its disk; it stays down while that does not work."""
        disk, name, before = node.disk, node.name, self._stopped[node.name]
        if disk.options.data and not stored:
            disk.lose_data()
        elif stale:
            disk.damage()
        self._waiting_for_disk.discard(name)
        incarnation = max(self.now_us, before.incarnation + 1)
        try:
            after = self._starts.from_disk(node, incarnation, stale=stale or disk.is_damaged)
            found = disk.kept
            disk.started(after)
        except StorageError as error:
            disk.crash()
            if disk.is_faulty:
                self._waiting_for_disk.add(name)
            else:
                self._account.violated("storage", f"{name} does not start: {error}")
            return
        for sentence in state_faults(before, after, found, exact=not node.has_unanswered):
            self._account.violated("storage", sentence)
        node.has_unanswered = False
        del self._stopped[name]
        self._totals.add(before.counters)
        self._come_up(name, after, stored=found is KeptState.LAST)

    def _come_up(self, broker: str, after: Broker, *, stored: bool) -> None:
        """Let a broker work that starts again."""
        if not stored:
            self._account.broker_lost_state()
        self._start(broker, after)
        self._connections.come_up(broker)
        for client in self._dialling[broker]:
            if broker in client.watches:
                client.watches[broker].on_restarted(stored=stored)
        self._clock.at(self.now_us + self._network.reattach_us, self._answer, broker)

    def has_data(self, broker: str) -> bool:
        """Whether a broker keeps its state on a disk."""
        node = self.nodes[broker]
        return isinstance(node, StoredNode) and node.disk.options.data

    def break_disk(self, broker: str, *, room_bytes: int | None = None) -> None:
        """Let the disk of a broker fill up, so that there is room for so many bytes, or fail
        (None), until `mend_disk`. A broker that cannot write ends."""
        disk = self._disk(broker)
        if room_bytes is None:
            disk.fail()
        else:
            disk.fill(room_bytes)

    def mend_disk(self, broker: str) -> None:
        """Let the disk of a broker work again; a broker that ended because of it is started."""
        self._disk(broker).mend()
        if broker in self._waiting_for_disk:
            self.restart(broker, stored=True)

    def _disk(self, broker: str) -> NodeStorage:
        node = self.nodes[broker]
        if not isinstance(node, StoredNode):
            raise ValueError(f"{broker} keeps nothing on a disk")
        return node.disk

    def _answer(self, broker: str) -> None:
        """A broker answers its clients again."""
        if self.nodes[broker].broker is not None:
            self.nodes[broker].answers = True
            for client in self._dialling[broker]:
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
        self._connections.separate_group(group, cause)

    def heal(self, brokers: Iterable[str] | None = None) -> None:
        """End the partition of these brokers; None: end all partitions."""
        group = None if brokers is None else frozenset(brokers)
        for cause, separated in list(self._partitions.items()):
            if group is None or separated == group:
                del self._partitions[cause]
                self._connections.join_group(cause)

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
        self._sampled_us = self.now_us
        self._account.sweep()
        self._clock.background_at(self.now_us + self._sample_us, self._sample)

    def _trace_sample(self, node: Node, broker: Broker) -> None:
        trace, now_us = node.trace, self.now_us
        trace.queue_sampled(now_us, Queue.INPUT, node.waiting, node.waiting_bytes)
        trace.queue_sampled(now_us, Queue.INPUT_PEAK, node.peak_queue, 0)
        for link, channel in sorted(node.channels.items()):
            waiting, waiting_bytes = channel.waiting, channel.waiting_bytes
            trace.queue_sampled(now_us, Queue.OUTPUT, waiting, waiting_bytes, link)
        sample_backlogs(broker, trace, now_us)
        trace.table_sampled(now_us, TableKind.SUBSCRIPTIONS, len(broker.subscriptions))
        trace.table_sampled(now_us, TableKind.ADVERTISEMENTS, len(broker.advertisements))
        sample_placeholders(broker, trace, now_us)

    def _sample_loads(self, every_us: int) -> None:
        """Tell the brokers that are told so often what they cannot see, if they go by that."""
        for node in self.nodes.values():
            if node.config.load_sample_us == every_us and node.broker is not None:
                load = self._loads.sample(node)
                if node.broker.uses_load:
                    node.control(load)
        self._clock.background_at(self.now_us + every_us, self._sample_loads, every_us)

    def _drain(self, buffer: TraceBuffer) -> None:
        assert self._trace is not None
        self._trace.write(buffer.drain())

    # --- the end -------------------------------------------------------------------------------

    def check(self, *, tables: bool = True) -> Report:
        """Check what can be checked now: everything, if all brokers and links are up and nothing is
        under way. To be called once, at the end. `tables`: compare the tables of brokers with those
        of a reference network."""
        violations = self._account.violations
        is_sampled = self._sampled_us == self.now_us
        for node in self.nodes.values():
            if self._trace is not None:
                if node.broker is not None and not is_sampled:
                    self._trace_sample(node, node.broker)
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
            tree, faults = tree_of(self.topology, self.nodes)
            for sentence in faults:
                violations.add("tree", sentence)
            if tree is not None:
                for sentence in mesh_faults(tree, self.nodes):
                    violations.add("mesh", sentence)
            if tables and tree is not None:
                for sentence in table_faults(tree, self.nodes, self.sessions):
                    violations.add("tables", sentence)
        return violations.report(tables_compared=is_whole and tables)

    @property
    def due(self) -> int:
        """The deliveries owed so far, met or not."""
        return self._account.due

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
            bytes_sent=self._connections.bytes_sent if self._network.counts_bytes else None,
            peak_queue=max(node.peak_queue_of_run for node in self.nodes.values()),
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
