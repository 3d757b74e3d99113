"""Worlds with soft links, and a planner that uses them and holds: every publication arrives once
and in order, nothing is held or unconfirmed at rest, and without faults nobody sees anything
twice."""

import random
from itertools import pairwise

import pytest

from byway.core.broker_config import BrokerConfig
from byway.model.tree_shapes import random_parents
from byway.sim.engine.network import NetworkOptions
from byway.sim.engine.service import INSTANT
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World
from tests.planners import SoftRoutes
from tests.sim.rewiring import Rewiring, order
from tests.sim.world_runs import BUSY, LAZY

pytestmark = pytest.mark.sim

LENGTH_US = 1_000_000


class SoftRun:
    """One world. Every broker has a client that wants what names its broker; two publish."""

    def __init__(self, seed: int, faults: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.tree = SoftRoutes.tree = self.random_tree()
        self.window = rng.choice((1, 2, 5, 4_096))
        self.brokers = self.tree.brokers
        self.world = World(
            self.tree,
            config={name: self.config() for name in self.brokers},
            profile=rng.choice((INSTANT, BUSY, LAZY)),
            network=NetworkOptions(
                reconnect_us=rng.choice((0, 1_000, 50_000)),
                bandwidth_bytes_per_s=rng.choice((None, 20_000)),
            ),
        )
        for name in self.brokers:
            client = self.world.client(f"at {name}", name, 20_000_000)
            client.subscribe(f"{name} > 0")
        homes = rng.sample(self.brokers, min(3, len(self.brokers)))
        self.sources = [self.world.client(f"from {name}", name, 20_000_000) for name in homes]
        for source in self.sources:
            source.advertise("ANY")
        assert self.world.quiet(60_000_000)
        for a, b in self.soft_links():
            order(self.world, a, f"open soft {b}")
        assert self.world.quiet(60_000_000)
        self.begin_us = self.world.now_us
        for _ in range(rng.randint(20, 150)):
            self.world.at(self.time_us(), self.publish)
        if rng.random() < 0.3:
            self.world.at(self.time_us(), self.end_advertisement)
        if faults:
            for _ in range(rng.randint(1, 6)):
                self.plan_fault()

    def random_tree(self) -> Topology:
        rng = self.rng
        names = tuple(f"B{number}" for number in range(rng.randint(3, 8)))
        parents = random_parents(len(names), rng.randrange)
        links = [
            LinkSpec(names[parent], names[child], rng.choice((0, 1_000, rng.randint(0, 30_000))))
            for child, parent in enumerate(parents, 1)
        ]
        return Topology(names, tuple(links))

    def soft_links(self) -> list[tuple[str, str]]:
        pairs = [(a, b) for a in self.brokers for b in self.brokers if a < b]
        return [p for p in pairs if self.tree.distance(*p) > 1 and self.rng.random() < 0.5]

    def config(self) -> BrokerConfig:
        return BrokerConfig(
            covering=self.rng.choice(("none", "active")),
            publisher_window=self.window,
            link_bytes_max=self.rng.choice((1, 900, 2**28)),
            behaviours=(Rewiring.name, SoftRoutes.name),
        )

    def time_us(self) -> int:
        return self.begin_us + self.rng.randrange(LENGTH_US)

    def publish(self) -> None:
        source = self.rng.choice(self.sources)
        if source.advertisements:
            for _ in range(self.rng.choice((1, 1, 5))):
                source.publish({name: 1 for name in self.brokers if self.rng.random() < 0.4})

    def end_advertisement(self) -> None:
        source = self.rng.choice(self.sources)
        if source.advertisements:
            source.unadvertise(self.rng.choice(source.advertisements))

    def plan_fault(self) -> None:
        world, rng = self.world, self.rng
        begin_us = self.time_us()
        end_us = begin_us + rng.choice((1_000, 50_000, 400_000))
        broker, link = rng.choice(self.brokers), rng.choice(self.tree.links)
        a, b = rng.sample(self.brokers, 2)
        match rng.choice(("crash", "cut", "cut", "cut soft", "delay", "slow", "close", "open")):
            case "crash":
                world.at(begin_us, lambda: self.crash(broker, end_us))
            case "cut":
                world.at(begin_us, lambda: world.cut(link.a, link.b))
                world.at(end_us, lambda: world.mend(link.a, link.b))
            case "cut soft":
                world.at(begin_us, lambda: world.cut(a, b))
                world.at(end_us, lambda: world.mend(a, b))
            case "delay":
                world.at(begin_us, lambda: world.delay(link.a, link.b, 40_000, end_us))
            case "slow":
                world.at(begin_us, lambda: world.slow(broker, 20.0, end_us))
            case "close" if self.tree.distance(a, b) > 1:
                world.at(begin_us, lambda: order(world, a, f"close {b}"))
            case "open" if self.tree.distance(a, b) > 1:
                world.at(begin_us, lambda: order(world, a, f"open soft {b}"))

    def crash(self, broker: str, end_us: int) -> None:
        if self.world.nodes[broker].broker is not None:
            self.world.crash(broker)
            self.world.at(end_us, lambda: self.world.restart(broker, stored=True))

    def run(self) -> None:
        self.world.run(self.begin_us + LENGTH_US + 500_000)
        assert self.world.quiet(120_000_000), "it does not come to rest"
        report = self.world.check()
        assert report.violations == ()

    @property
    def duplicates(self) -> int:
        return sum(node.broker.counters.duplicates for node in self.world.nodes.values())


class Ring(SoftRun):
    """Brokers in a row, whose ends a soft link joins; a link is full with one copy."""

    def __init__(self, seed: int, size: int) -> None:
        self.size = size
        super().__init__(seed, faults=False)
        for _ in range(100):
            self.world.at(self.time_us(), self.publish)

    def random_tree(self) -> Topology:
        names = tuple(f"B{number}" for number in range(self.size))
        latency_us = self.rng.choice((0, 1_000, 20_000))
        links = [LinkSpec(a, b, latency_us) for a, b in pairwise(names)]
        return Topology(names, tuple(links))

    def soft_links(self) -> list[tuple[str, str]]:
        return [(self.brokers[0], self.brokers[-1])]

    def config(self) -> BrokerConfig:
        behaviours = Rewiring.name, SoftRoutes.name
        return BrokerConfig(link_bytes_max=1, publisher_window=3, behaviours=behaviours)


@pytest.mark.parametrize("size", [3, 4])
def test_full_brokers_in_a_ring_do_not_wait_for_each_other(size):
    SoftRoutes.soft = 0
    for seed in range(15):
        run = Ring(seed, size)
        run.run()
        assert not run.duplicates
    assert SoftRoutes.soft > 100


def run_seeds(seeds: range, *, faults: bool) -> None:
    SoftRoutes.held = SoftRoutes.soft = 0
    for seed in seeds:
        try:
            run = SoftRun(seed, faults)
            run.run()
            assert faults or not run.duplicates
        except Exception as error:
            error.add_note(f"seed {seed} {faults=}")
            raise
    assert SoftRoutes.held > len(seeds)
    assert SoftRoutes.soft > len(seeds)


@pytest.mark.parametrize("faults", [False, True])
def test_fixed_seeds(faults):
    run_seeds(range(40), faults=faults)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("faults", [False, True])
def test_many_seeds(faults):
    first = random.SystemRandom().randrange(2**32)
    print(f"fresh seeds from {first}")
    run_seeds(range(1_000), faults=faults)
    run_seeds(range(first, first + 300), faults=faults)
