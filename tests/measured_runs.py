"""Runs of scenario files with everything written down that is measured twice.

What clients got is taken from the simulator's account, frames from the channels that carry them;
both are noted beside what happens and change nothing of it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from byway.core.broker import Broker
from byway.core.counters import Counters
from byway.model.messages import Batch, Delivery
from byway.sim.engine.network import Channel, message_bytes
from byway.sim.meters import Measures
from byway.sim.oracle.client_account import ClientAccount
from byway.sim.oracle.violations import Report
from byway.sim.run_metrics import RunMetrics
from byway.sim.scenario import read_scenario
from byway.sim.scenario.build import RunPlan, build, plan_of
from byway.sim.scenario.measure import start_meter
from byway.sim.scenario.schema import Scenario
from byway.sim.scenario.value_types import microseconds
from byway.sim.world import World
from byway.trace import TraceWriter

SCENARIOS = Path(__file__).parents[1] / "examples/scenarios"
FILES = {
    path.relative_to(SCENARIOS).with_suffix("").as_posix(): path
    for path in sorted(SCENARIOS.rglob("*.toml"))
}
"""All scenario files of the repository, by name."""

_COVERING = (
    "duration_s=14", "warmup_s=6", "quiet_s=1_000", "brokers.instant_until_s=6",
    "workload.subscribe_at_s=1", "workload.subscribe_for_s=2", "workload.subscriptions=100",
    "workload.subscribers=16", "unsubscribe.0.at_s=10", "unsubscribe.0.count=4",
    "unsubscribe.0.gap_s=0.1", "measure.from_s=10", "measure.tables_from_s=11",
    "measure.to_s=13", "sample_s=1",
)  # fmt: skip
_003 = (
    *_COVERING, "workload.scattered_groups=3", "workload.parameters.degree=20",
    "workload.parameters.hot=4", "workload.rate_per_s=10", "workload.publish_for_s=8",
    "workload.subscribers=24",
)  # fmt: skip
_004 = (
    *_COVERING, "workload.parameters.degree=12", "workload.parameters.hot=4",
    "workload.rate_per_s=6", "probe.at_s=12", "probe.count=6", "probe.gap_s=0.1",
)  # fmt: skip
SMALL: dict[str, tuple[str, ...]] = {
    "disks": (  # what travels as bytes is not seen by the notes
        "network.codec=false", "workload.subscriptions=100", "workload.subscribers=20",
    ),
    "inner-broker-crash": (
        "duration_s=9", "workload.rate_per_s=30", "workload.subscriptions=120",
        "workload.subscribers=40",
    ),
    "load": ("duration_s=3.5", "workload.subscriptions=200", "workload.subscribers=50"),
    "mesh/000-covering": (
        "topology.brokers=13", "duration_s=30", "measure.from_s=20", "workload.subscriptions=60",
        "workload.subscribers=8", "workload.publishers=3", "workload.subscribe_for_s=4",
        "workload.parameters.degree=9", "sample_s=1", "warmup_s=10", "drain=true",
    ),
    "mesh/000-feeds": (
        "topology.brokers=13", "duration_s=40", "measure.from_s=25", "workload.rate_per_s=10",
        "sample_s=1", "workload.parameters={ brokers = 13, feeds = 6, subscribers = 5 }",
        "drain=true",
    ),
    "mixed-policies": (
        "duration_s=10", "workload.rate_per_s=30", "workload.subscriptions=200",
        "workload.subscribers=30",
    ),
    "partition": ("duration_s=14", "workload.rate_per_s=20", "workload.subscriptions=80"),
    "pruning/003-controlled": _003,
    "pruning/003-mobile": (
        "duration_s=24", "workload.subscriptions=80", "workload.rate_per_s=5",
        "warmup_s=15", "brokers.instant_until_s=15", "moves.from_s=16", "moves.per_s=2",
        "measure.from_s=16",
    ),
    "pruning/003-table-ii": (
        "duration_s=12", "warmup_s=4", "quiet_s=1_000", "workload.subscribe_for_s=3",
        "workload.subscriptions=150", "workload.parameters.degree=30", "workload.rate_per_s=20",
        "workload.burst=5", "sample_s=1", "workload.parameters.width=0.2",
        "workload.scattered_groups=3",
    ),
    "pruning/003-workflow": (
        "duration_s=22", "warmup_s=8", "quiet_s=1_000", "brokers.instant_until_s=8",
        "workload.subscribe_at_s=1", "sample_s=2",
        "workload.parameters={small = 3, medium = 1, large = 1, instances = 1}",
        "workload.subscriptions=48", "workload.rate_per_s=5", "measure.from_s=15",
        *(
            f"monitor.{number}.{key}"
            for number in range(4)
            for key in ("from_s=10", "stay_s=4", "away_s=4")
        ),
    ),
    "pruning/004-clustered": _004,
    "pruning/004-default": (*_004, "workload.roots_after=0.6"),
    "pruning/004-mobile": (
        "duration_s=24", "warmup_s=6", "quiet_s=1_000", "brokers.instant_until_s=6",
        "workload.subscribe_at_s=1", "workload.subscriptions=100", "workload.subscribers=50",
        "workload.publishers=4", "workload.rate_per_s=5", "moves.from_s=8",
        "measure.from_s=8",
        *(
            f"monitor.{number}.{key}"
            for number in range(4)
            for key in (f"from_s={7 + number}", "stay_s=4")
        ),
    ),
    "sessions": ("duration_s=10", "workload.rate_per_s=40", "workload.subscriptions=120"),
    "slow-broker": ("duration_s=11", "workload.rate_per_s=40"),
    "small-chain": (),
    "stock-quotes": (
        "duration_s=5", "warmup_s=2", "topology.brokers=16", "workload.subscribe_for_s=1",
        "workload.subscriptions=300", "workload.subscribers=60", "workload.publishers=10",
        "workload.rate_per_s=60",
    ),
    "transit-stub": (
        "duration_s=7", "topology.brokers=16", "workload.subscriptions=200",
        "workload.subscribers=60",
    ),
    "unsubscribe-storm": (
        "duration_s=10", "warmup_s=3", "workload.subscribe_for_s=2",
        "workload.subscriptions=80", "workload.parameters.degree=15", "workload.subscribers=30",
        "workload.rate_per_s=10", "unsubscribe.0.at_s=5", "unsubscribe.0.count=4",
    ),
}  # fmt: skip
"""By file, settings that let it run in less than a second."""
CUTS = "faults_random={cuts = 4, partitions = 3, for_s_min = 0.1, for_s_max = 0.5}"
CRASHES = (
    "faults_random={crashes = 6, cuts = 3, partitions = 2, delays = 1, for_s_min = 0.1, "
    "for_s_max = 0.6, stored = 'random'}"
)

Pair = tuple[str, int, int, str]
"""Publisher, incarnation and sequence of a publication, and a client."""


class Restart(NamedTuple):
    """A broker was started again."""

    broker: str
    t_us: int
    stored: bool
    before: Counters
    """What it had counted until it crashed."""


class Notes:
    """What was seen while a world ran."""

    def __init__(self) -> None:
        self.received: dict[Pair, int] = {}
        """By pair, the hops of what a client was given, each once."""
        self.refused: Counter[Pair] = Counter()
        """What clients got and dropped, because they had it or a later one of its publisher."""
        self.messages: Counter[str] = Counter()
        """By kind, the messages in frames that brokers handed to channels."""
        self.message_bytes = 0
        self.channels: list[Channel] = []
        self.restarts: list[Restart] = []


class MeasuredRun(NamedTuple):
    """One run, and what the simulator says about it."""

    name: str
    plan: RunPlan
    notes: Notes
    metrics: RunMetrics
    report: Report
    measures: Measures | None
    counters: dict[str, list[Counters]]
    """By broker, the counters of each of its lives."""
    away: frozenset[str]
    """Clients that are away in the end, and may come back to their sessions."""


def scenario(name: str, faults: str = "", more: Sequence[str] = ()) -> Scenario:
    """A scenario file in a small size. With crashes nothing of it is measured apart."""
    settings = [*SMALL[name], "compare_tables=false", *more]
    if faults == CRASHES:
        plain = read_scenario(FILES[name], settings)
        drawn = read_scenario(FILES["small-chain"], [faults]).faults_random
        return msgspec.structs.replace(
            plain, measure=None, probe=None, faults_random=drawn, expect=type(plain.expect)()
        )
    return read_scenario(FILES[name], [*settings, faults] if faults else settings)


def run_measured(scenario: Scenario, run: str, directory: Path, seed: int = 1) -> MeasuredRun:
    """Run a scenario, and write its trace to a directory."""
    plan = plan_of(scenario, seed)
    with noted() as notes, TraceWriter(directory, run) as trace:
        world, _ = build(plan, trace)
        meter = start_meter(plan, world)
        world.run(microseconds(scenario.duration_s))
        assert world.quiet(microseconds(scenario.quiet_s)), run
        measures = None if meter is None else meter.measures()
        report = world.check(tables=scenario.compare_tables)
        metrics = world.metrics()
    assert not report.violations, (run, report.violations)
    return MeasuredRun(
        run, plan, notes, metrics, report, measures, _counters(world, notes), _away(world)
    )


def _counters(world: World, notes: Notes) -> dict[str, list[Counters]]:
    found: dict[str, list[Counters]] = {name: [] for name in world.nodes}
    for restart in notes.restarts:
        found[restart.broker].append(restart.before)
    for name, node in world.nodes.items():
        assert node.broker is not None
        found[name].append(node.broker.counters)
    return found


def _away(world: World) -> frozenset[str]:
    clients = world.clients.values()
    watches = (w for c in clients if not c.attached for w in c.watches.values())
    return frozenset(watch.client_name for watch in watches if watch.has_session)


def _pair(delivery: Delivery, client: str) -> Pair:
    publication = delivery.publication
    return publication.publisher, publication.incarnation, publication.sequence, client


@contextmanager
def noted() -> Iterator[Notes]:
    """Note what clients are given, what channels carry, and which brokers are started again."""
    notes = Notes()
    with pytest.MonkeyPatch.context() as patch:
        _note_deliveries(patch, notes)
        _note_channels(patch, notes)
        _note_restarts(patch, notes)
        yield notes


def _note_deliveries(patch: pytest.MonkeyPatch, notes: Notes) -> None:
    delivered = ClientAccount.delivered

    def noting(account: ClientAccount, delivery: Delivery) -> bool:
        is_given = delivered(account, delivery)
        pair = _pair(delivery, account._client)
        if is_given:
            assert pair not in notes.received
            notes.received[pair] = delivery.publication.hop
        else:
            notes.refused[pair] += 1
        return is_given

    patch.setattr(ClientAccount, "delivered", noting)


def _note_channels(patch: pytest.MonkeyPatch, notes: Notes) -> None:
    make = Channel.__init__

    def noting(channel: Channel, *arguments: Any, **options: Any) -> None:
        make(channel, *arguments, **options)
        send = channel.send

        def noting_send(frame: Any) -> None:
            if type(frame) is Batch:
                notes.messages.update(str(m.__struct_config__.tag) for m in frame.messages)
                notes.message_bytes += sum(map(message_bytes, frame.messages))
            send(frame)

        channel.send = noting_send
        notes.channels.append(channel)

    patch.setattr(Channel, "__init__", noting)


def _note_restarts(patch: pytest.MonkeyPatch, notes: Notes) -> None:
    """Note the restarts of brokers, and whether each found its last state."""
    go_down, come_up = World._go_down, World._come_up
    counters: dict[str, Counters] = {}

    def noting_end(world: World, broker: str) -> None:
        go_down(world, broker)
        counters[broker] = world._stopped[broker].counters

    def noting_start(world: World, broker: str, after: Broker, *, stored: bool) -> None:
        notes.restarts.append(Restart(broker, world.now_us, stored, counters.pop(broker)))
        come_up(world, broker, after, stored=stored)

    patch.setattr(World, "_go_down", noting_end)
    patch.setattr(World, "_come_up", noting_start)
