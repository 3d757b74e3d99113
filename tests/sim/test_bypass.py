"""The promise of the bypass: while inner brokers are dead, publications of a publisher of whom
nothing is parked are confirmed; nothing is lost, doubled or out of order; when all are back,
nothing is parked.

Promised where each run of dead brokers on the way is at most Δ − 1 long. Links round them are
opened by the brokers themselves, and are cut meanwhile.
"""

import random

import pytest

from byway.model.tree_shapes import random_parents
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World
from tests.sim.mesh_runs import POLICIES, MeshOrders, mesh_config
from tests.sim.world_runs import many, many_seeds

pytestmark = pytest.mark.sim

AFTER_US = 20_000
FOUND = ()
"""Seeds beyond the first ones that have failed."""


class BypassRun:
    """One world that dies in part, goes on, and is whole again."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.delta = rng.randint(2, 4)
        self.tree = self.plant()
        policies = rng.choice((POLICIES, (rng.choice(POLICIES),)))
        self.world = world = World(
            self.tree,
            config={
                name: mesh_config(
                    self.delta,
                    rng.choice(("S0", "S1", "S2", "SH")),
                    mesh={"bypass_after_us": AFTER_US, "interval_us": rng.choice((0, 200_000))},
                    covering=rng.choice(policies),
                    probe_cycles=True,
                    behaviours=(MeshOrders.name,),
                )
                for name in self.tree.brokers
            },
        )
        homes = rng.sample(self.tree.brokers, rng.randint(1, 2))
        self.publishers = [world.client(f"from {home}", home, 60_000_000) for home in homes]
        self.wants = {}
        """By client, the brokers that publications name which it wants."""
        for name in self.tree.brokers:
            others = [b for b in self.tree.brokers if rng.random() < rng.choice((0, 0.3))]
            for number, wanted in enumerate(([name], others)):
                client = world.client(f"at {name} {number}", name, 60_000_000)
                self.wants[client.name] = wanted
                for other in wanted:
                    client.subscribe(f"{other} > 0")
        for client in self.publishers:
            client.advertise("ANY")
        assert world.quiet(60_000_000)
        inner = [name for name in self.tree.brokers if name not in homes]
        self.dead = rng.sample(inner, min(rng.randint(1, 3), len(inner)))
        self.careful = {client.name for client in self.publishers if rng.random() < 0.7}
        """Publishers whose publications no client of a broker that dies wants."""

    def plant(self) -> Topology:
        rng = self.rng
        names = tuple(f"B{number}" for number in range(rng.randint(4, 9)))
        parents = (
            [rng.randrange(max(0, child - 2), child) for child in range(1, len(names))]
            if rng.random() < 0.6
            else random_parents(len(names), rng.randrange)
        )
        pairs = enumerate(parents, start=1)
        links = [LinkSpec(names[p], names[c], rng.randint(0, 5_000)) for c, p in pairs]
        return Topology(names, tuple(links))

    # --- what happens --------------------------------------------------------------------------

    def publish(self, times: int) -> None:
        """All publishers publish, each for brokers of its own choice."""
        for _ in range(times):
            for client in self.publishers:
                is_careful = client.name in self.careful
                names = self.unwanted_by_dead() if is_careful else self.tree.brokers
                chosen = [b for b in names if self.rng.random() < 0.4]
                client.publish(dict.fromkeys(chosen, 1))
            self.pass_time(self.rng.choice((0, 500, 5_000)))

    def pass_time(self, time_us: int) -> None:
        self.world.run(self.world.now_us + time_us)

    def cut_ways_round(self) -> None:
        """Links round dead brokers break, and are whole again."""
        for name, node in self.world.nodes.items():
            if node.broker is None:
                continue
            for link in node.broker.ways_round():
                if self.rng.random() < 0.5:
                    self.world.cut(name, link)
                    self.pass_time(self.rng.choice((0, 1_000, 3 * AFTER_US)))
                    self.world.mend(name, link)

    def run(self) -> None:
        rng, world = self.rng, self.world
        self.publish(5)
        for broker in self.dead:
            world.crash(broker)
            self.publish(rng.randint(0, 3))
        self.publish(10)
        if rng.random() < 0.5:
            self.cut_ways_round()
        self.pass_time((self.delta + 1) * AFTER_US + 1_000_000)
        self.publish(10)
        self.pass_time((self.delta + 1) * AFTER_US + 1_000_000)
        self.clean = self.check_promise()
        for broker in rng.sample(self.dead, len(self.dead)):
            stored = rng.random() < 0.5
            world.restart(broker, stored)
            self.publish(rng.randint(0, 3))
            self.pass_time(rng.choice((0, 1_000, 500_000)))
        assert world.quiet(120_000_000)
        report = world.check()
        assert report.violations == (), report.violations

    # --- the promise ---------------------------------------------------------------------------

    def unwanted_by_dead(self) -> list[str]:
        """The brokers that a publication can name so that no client of a dead one wants it."""
        wanted = {
            name
            for client, names in self.wants.items()
            if client.split()[1] in self.dead
            for name in names
        }
        return [name for name in self.tree.brokers if name not in wanted]

    def check_promise(self) -> int:
        """Of publishers whom no dead broker's clients want nothing is parked, and all is confirmed;
        how many of them had to go round a dead broker."""
        clean = 0
        for client in self.publishers:
            home = client.home_name
            if client.name in self.careful and self.longest_run(home) < self.delta:
                assert not self.is_parked(client.name), (client.name, self.dead)
                assert client.unconfirmed == 0, (client.name, self.dead)
                clean += any(self.behind(home, dead) for dead in self.dead)
        return clean

    def is_parked(self, publisher: str) -> bool:
        brokers = [node.broker for node in self.world.nodes.values() if node.broker is not None]
        parked = (
            publication
            for broker in brokers
            for link in broker.neighbours
            for publication in broker.parked_publications(link)
        )
        return any(publication.publisher == publisher for publication in parked)

    def longest_run(self, home: str) -> int:
        """The most dead brokers in a row on the way from a broker to another one."""
        longest = 0
        for other in self.tree.brokers:
            run = 0
            for broker in self.tree.path(home, other):
                run = run + 1 if broker in self.dead else 0
                longest = max(longest, run)
        return longest

    def behind(self, home: str, dead: str) -> list[str]:
        """Live brokers that a dead one lies before, seen from a home."""
        ways = {b: self.tree.path(home, b) for b in self.tree.brokers if b not in self.dead}
        return [broker for broker, way in ways.items() if dead in way]


def bypass(seed, happened):
    run = BypassRun(seed)
    run.run()
    happened["clean"] += run.clean
    happened["runs"] += 1


def test_fixed_seeds():
    assert many(bypass, (*range(60), *FOUND))["clean"] > 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_seeds():
    assert many(bypass, many_seeds())["clean"] > 100
