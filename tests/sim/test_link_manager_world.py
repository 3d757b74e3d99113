"""Twelve brokers that open and drop soft links by themselves: links follow the traffic, settle, and
go round a broker that cannot be reached."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.trace_schema import TraceEvent
from byway.sim.engine.network import NetworkOptions
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World
from byway.trace import TraceWriter
from tests.sim.test_mesh import MeshRun
from tests.sim.world_runs import many
from tests.unit.core.mesh_parts import mesh_of

pytestmark = pytest.mark.sim

S = 1_000_000
MESH = MeshConfig(
    delta=4,
    fanout=6,
    links_max=12,
    interval_us=S,
    window=3,
    gain_min=5,
    stay_us=4 * S,
    opening_us=S,
    backoff_us=4 * S,
    backoff_us_max=16 * S,
)
TRUNK = [f"B{number}" for number in range(6)]
TWIGS = [("B1", "B6"), ("B2", "B7"), ("B3", "B8"), ("B4", "B9"), ("B5", "BA"), ("B5", "BB")]


class Twelve:
    """A trunk of six brokers with a twig at most of them; one publishes, at the trunk's end."""

    def __init__(self, mesh: MeshConfig = MESH, trace: TraceWriter | None = None) -> None:
        edges = [*pairwise(TRUNK), *TWIGS]
        names = tuple(dict.fromkeys(name for edge in edges for name in edge))
        links = tuple(LinkSpec(a, b, 2_000) for a, b in edges)
        self.world = World(
            Topology(names, links),
            config=BrokerConfig(mesh=mesh, load_interval_us=S),
            network=NetworkOptions(reconnect_us=5_000, soft_latency_us=3_000),
            trace=trace,
        )
        for name in ("BA", "BB", "B9"):
            self.world.client(f"at {name}", name).subscribe("p = 1")
        for name in ("B6", "B7", "B8"):
            self.world.client(f"at {name}", name).subscribe("p = 2")
        self.source = self.world.client("source", "B0")
        self.source.advertise("ANY")
        assert self.world.quiet(10 * S)
        self.opened: Counter[tuple[str, str]] = Counter()
        """By broker and soft link, how often that was wanted."""
        self.soft: set[tuple[str, str]] = set()

    def run(self, seconds: int, p: int) -> dict[str, float]:
        """Twenty publications a second; what of a run differs."""
        before = self.world.metrics()
        begin_us = self.world.now_us
        for number in range(seconds * 20):
            self.world.at(begin_us + number * 50_000, lambda: self.source.publish({"p": p}))
        for part in range(seconds * 4):
            self.world.run(begin_us + (part + 1) * 250_000)
            soft = set(self.wanted())
            self.opened.update(soft - self.soft)
            self.soft = soft
        assert self.world.quiet(10 * S)
        after = self.world.metrics()
        deliveries = after.deliveries - before.deliveries
        assert deliveries == seconds * 20 * 3
        hops = after.mean_hops * after.deliveries
        if before.deliveries:
            hops -= before.mean_hops * before.deliveries
        forwarders = after.pure_forwarders - before.pure_forwarders
        return {"forwarders": forwarders / seconds / 20, "hops": round(hops / deliveries, 6)}

    def mesh(self, name: str) -> Any:
        return mesh_of(self.world.nodes[name].broker)

    def wanted(self) -> list[tuple[str, str]]:
        return [
            (name, link)
            for name in self.world.nodes
            for link, soft in self.mesh(name).soft.items()
            if soft.wanted
        ]

    def check(self) -> None:
        assert self.world.quiet(60 * S)
        assert self.world.check().violations == ()
        assert not any(node.broker.counters.duplicates for node in self.world.nodes.values())


def test_links_follow_the_traffic_and_settle() -> None:
    twelve = Twelve()
    assert twelve.run(2, 1) == {"forwarders": 5, "hops": 5.666667}, "the tree alone"
    twelve.run(20, 1)
    opened = twelve.opened.total()
    assert twelve.run(10, 1) == {"forwarders": 1, "hops": 2}
    assert twelve.soft == {("B0", "B4"), ("B4", "BA"), ("B4", "BB")}
    assert twelve.opened.total() == opened <= 15, "they have settled"
    twelve.run(25, 2)
    opened = twelve.opened.total()
    assert twelve.run(10, 2) == {"forwarders": 0, "hops": 1}
    assert twelve.soft == {("B0", "B6"), ("B0", "B7"), ("B0", "B8")}
    assert twelve.opened.total() == opened <= 25
    assert set(twelve.opened.values()) == {1}, "no link was opened twice"
    twelve.check()


def test_publications_are_counted_for_candidates_and_sent_over_links() -> None:
    twelve = Twelve(msgspec.structs.replace(MESH, interval_us=1_000 * S))
    mesh = twelve.mesh("B0")
    twelve.run(1, 1)
    assert mesh.planner().take_counts() == {"B1": 20}
    assert mesh.planner().take_counts() == {}
    mesh.manager.state.candidates = ["B4"]
    mesh._due = mesh._stale = True
    twelve.world.client("new", "B6").subscribe("p = 3")
    assert twelve.world.quiet(S)
    assert twelve.run(1, 1) == {"forwarders": 5, "hops": 5.666667}, "nothing goes to a candidate"
    twelve.world.nodes["B0"].broker.snapshot()
    assert mesh.manager.state.pending == {"B4": 20}, "a snapshot has what was counted"
    twelve.run(1, 2)
    twelve.world.client("other", "B7").subscribe("p = 4")
    assert twelve.world.quiet(S)
    assert mesh.planner().take_counts() == {"B1": 20}, "and numbers that change lose nothing"
    twelve.check()


def test_without_an_interval_brokers_open_nothing() -> None:
    twelve = Twelve(msgspec.structs.replace(MESH, interval_us=0))
    assert twelve.run(10, 1) == {"forwarders": 5, "hops": 5.666667}
    assert not twelve.opened
    twelve.check()


def test_fanout_bounds_what_is_opened() -> None:
    twelve = Twelve(msgspec.structs.replace(MESH, fanout=3))
    twelve.run(15, 2)
    opened = twelve.opened.total()
    twelve.run(25, 2)
    assert twelve.opened.total() == opened, "they have settled"
    for name in twelve.world.nodes:
        primary = len(twelve.world.topology.neighbours(name))
        sends = primary + sum(1 for broker, _ in twelve.soft if broker == name)
        assert sends <= max(3, primary)
    assert len([link for broker, link in twelve.soft if broker == "B0"]) == 2
    twelve.check()


def test_a_broker_that_cannot_be_reached_is_given_up_and_tried_again_later() -> None:
    twelve = Twelve()
    twelve.world.cut("B0", "B4")
    twelve.run(40, 1)
    tries = twelve.opened["B0", "B4"]
    assert 2 <= tries <= 5, "4, 8 and 16 seconds lie between them, or half of it"
    assert twelve.mesh("B0").manager.state.failures["B4"].count == tries
    assert twelve.run(3, 1)["hops"] < 5
    twelve.world.mend("B0", "B4")
    twelve.run(30, 1)
    assert twelve.run(5, 1) == {"forwarders": 1, "hops": 2}
    assert "B4" not in twelve.mesh("B0").manager.state.failures
    twelve.check()


@pytest.mark.parametrize("stored", [False, True])
def test_links_come_back_after_a_broker_has_restarted(stored: bool) -> None:
    twelve = Twelve()
    twelve.run(22, 1)
    for name in ("B0", "B4"):
        twelve.world.crash(name)
        twelve.world.run(twelve.world.now_us + S)
        twelve.world.restart(name, stored=stored)
        assert twelve.world.quiet(60 * S)
    assert not twelve.mesh("B4").soft
    twelve.run(30, 1)
    assert twelve.run(5, 1) == {"forwarders": 1, "hops": 2}
    assert twelve.world.quiet(60 * S)
    assert twelve.world.check().violations == ()


def test_two_runs_are_equal(tmp_path: Path) -> None:
    found = []
    for number in range(2):
        directory = tmp_path / str(number)
        with TraceWriter(directory, run="x") as writer:
            twelve = Twelve(trace=writer)
            world = twelve.world
            world.at(9 * S, lambda world=world: world.cut("B0", "B4"))
            twelve.run(12, 1)
            twelve.run(12, 2)
            world.check()
        states = [node.broker.snapshot() for node in world.nodes.values()]
        found.append((states, [file.read_bytes() for file in sorted(directory.rglob("*.parquet"))]))
        assert twelve.opened.total() > 5
    assert found[0] == found[1]


def test_traces_have_the_span_of_every_copy(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, run="x") as writer:
        twelve = Twelve(trace=writer)
        twelve.run(12, 1)
        twelve.world.check()
    spans: Counter[tuple[int, int]] = Counter()
    for row in pq.read_table(tmp_path).to_pylist():
        if row["event"] in (TraceEvent.RECEIVED, TraceEvent.FORWARDED):
            assert row["span"] == twelve.world.topology.distance(row["broker"], row["link"]), row
            spans[row["event"], row["span"]] += 1
    for event in (TraceEvent.RECEIVED, TraceEvent.FORWARDED):
        assert spans[event, 1] > 100
        assert sum(count for (of, span), count in spans.items() if of == event and span > 1) > 100


class ManagedRun(MeshRun):
    """A random world in which brokers decide often, beside what they are told."""

    def configs(self) -> dict[str, BrokerConfig]:
        return {name: self.managed(config) for name, config in super().configs().items()}

    def managed(self, config: BrokerConfig) -> BrokerConfig:
        rng = self.mesh_rng
        mesh = msgspec.structs.replace(
            config.mesh,
            fanout=rng.choice((2, 4, 35)),
            links_max=rng.choice((3, 6, 70)),
            interval_us=rng.choice((20_000, 100_000)),
            window=rng.choice((1, 3)),
            gain_min=rng.choice((1, 3)),
            stay_us=rng.choice((0, 100_000)),
            opening_us=rng.choice((0, 50_000)),
            backoff_us=rng.choice((0, 50_000)),
        )
        return msgspec.structs.replace(config, mesh=mesh, load_interval_us=rng.choice((0, 300_000)))


def managed(seed: int, happened: Counter[str], *, faults: bool) -> None:
    run = ManagedRun(seed, faults=faults)
    run.run()
    assert faults or run.duplicates == 0
    happened["soft"] += run.soft_copies
    happened["deliveries"] += run.world.metrics().deliveries


@pytest.mark.parametrize("faults", [False, True])
def test_random_worlds_stay_exact(faults: bool) -> None:
    happened = many(managed, range(25), faults=faults)
    assert happened["soft"] > 40
    assert happened["deliveries"] > 1_000
