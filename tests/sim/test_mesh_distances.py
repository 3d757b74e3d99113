"""What publications say of how far others are that want them too: over soft links it is what the
tree would say, so that pruning has the same critical distances with a mesh as without."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from byway.model.trace_schema import TraceEvent
from byway.model.tree_shapes import random_parents
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World
from byway.trace import TraceWriter, read_trace
from tests.sim.mesh_runs import MeshOrders, mesh_config, order
from tests.sim.world_runs import many, many_seeds
from tests.unit.core.mesh_parts import take_statistics

pytestmark = pytest.mark.sim

BURSTS = 25
KEPT = ("publisher", "publisher", "none")


class DistanceRun:
    """One world without faults. Each subscription wants an attribute of its own, so none covers
    another; a publication names those that it is for."""

    def __init__(self, seed: int, trace: TraceWriter) -> None:
        self.rng = rng = random.Random(seed)
        names = tuple(f"B{number}" for number in range(rng.randint(3, 9)))
        deep = [rng.randrange(max(0, child - 2), child) for child in range(1, len(names))]
        parents = rng.choice((deep, random_parents(len(names), rng.randrange)))
        links = [
            LinkSpec(names[parent], names[child], rng.choice((0, 1_000, rng.randint(0, 20_000))))
            for child, parent in enumerate(parents, 1)
        ]
        kept, deltas = rng.choice(KEPT), rng.choice(((4,), (9,), (1, 2, 3, 5)))
        self.tree = Topology(names, tuple(links))
        self.world = world = World(self.tree, trace=trace, config={
            name: mesh_config(
                rng.choice(deltas), rng.choice(("S1", "S2")), kept, covering="incremental",
                pruning_samples_min=1, behaviours=(MeshOrders.name,),
            )
            for name in names
        })  # fmt: skip
        self.homes: dict[str, str] = {}
        """By attribute, the broker of the subscription to it."""
        for name in names:
            for number in range(rng.choice((0, 1, 1, 2))):
                attribute = f"{name}_{number}"
                self.homes[attribute] = name
                world.client(attribute, name).subscribe(f"{attribute} > 0")
        self.sources = [world.client(f"from {name}", name) for name in rng.sample(names, 2)]
        for source in self.sources:
            source.advertise("ANY")
        assert world.quiet(60_000_000)
        self.pairs = [(a, b) for a in names for b in names if self.tree.distance(a, b) > 1]
        self.published: dict[str, list[list[str]]] = {}

    def run(self) -> None:
        rng, world = self.rng, self.world
        for _ in range(BURSTS):
            for a, b in self.pairs:
                if rng.random() < 0.2:
                    order(world, a, f"{rng.choice(('open', 'open', 'drop'))} {b}")
            if rng.random() < 0.5:
                assert world.quiet(60_000_000)
            for _ in range(rng.randint(1, 5)):
                source = rng.choice(self.sources)
                wanted = [x for x in self.homes if rng.random() < rng.choice((0.1, 0.5))]
                source.publish(dict.fromkeys(wanted, 1))
                self.published.setdefault(source.home_name, []).append(wanted)
                world.run(world.now_us + rng.choice((0, 1_000, 30_000)))
        assert world.quiet(60_000_000)
        assert world.check().violations == ()

    def rows(self, attribute: str) -> list[tuple[str, int, int]]:
        """What the home of a subscription has recorded: publisher, distance and count."""
        broker = self.world.nodes[self.homes[attribute]].broker
        taken = take_statistics(broker, attribute, self.world.now_us)
        return sorted((publisher, distance, count) for publisher, distance, count, _ in taken)

    def arrivals(self, rows: list[dict[str, object]]) -> None:
        """Every copy says how far it is from where two or more matched, or from its publisher, by
        hops of the tree."""
        sequences: dict[tuple[object, object], list[str]] = {}
        for start, publications in self.published.items():
            for sequence, wanted in enumerate(publications, 1):
                sequences[f"from {start}", sequence] = wanted
        for row in rows:
            wanted = sequences[row["publisher"], row["sequence"]]
            way = self.tree.path(str(row["publisher"]).removeprefix("from "), row["broker"])
            said = row["distance"], row["publisher"], row["sequence"]
            assert said[0] == len(way) - 1 - self.last_of_several(way[:-1], wanted), (way, said)

    def matched(self, way: tuple[str, ...], wanted: list[str]) -> list[int]:
        """At each broker of a way, how many of these are wanted there or further on."""
        homes = [self.homes[attribute] for attribute in wanted]
        return [sum(at in self.tree.path(way[0], home) for home in homes) for at in way]

    def last_of_several(self, way: tuple[str, ...], wanted: list[str]) -> int:
        """The last place on a way where two or more match, else the first."""
        matched = self.matched(way, wanted)
        return max((place for place, count in enumerate(matched) if count > 1), default=0)

    def rows_of_the_tree(self, attribute: str) -> list[tuple[str, int, int]]:
        """The same where every broker on the way handles each publication."""
        home, found = self.homes[attribute], []
        for start, publications in self.published.items():
            way = self.tree.path(start, home)
            for wanted in publications if start != home else ():
                if attribute not in wanted:
                    continue
                distance = len(way) - 1 - self.last_of_several(way, wanted)
                count = sum(self.matched(way, wanted)[1:]) - len(way[1:])
                found.append((f"from {start}", distance, count))
        return sorted(found)

    def passed_by(self) -> int:
        """How many publications arrived over soft links."""
        return sum(
            sent
            for name, node in self.world.nodes.items()
            for link, sent in node.broker.counters.publications_sent.items()
            if self.tree.distance(name, link) > 1
        )


def check(seed, happened):
    with TemporaryDirectory() as directory:
        with TraceWriter(Path(directory), run="x") as writer:
            run = DistanceRun(seed, writer)
            run.run()
        rows = read_trace(Path(directory)).to_pylist()
    run.arrivals([row for row in rows if row["event"] == TraceEvent.RECEIVED])
    for attribute in run.homes:
        recorded, wanted = run.rows(attribute), run.rows_of_the_tree(attribute)
        assert [row[:2] for row in recorded] == [row[:2] for row in wanted], attribute
        assert sum(row[2] for row in recorded) <= sum(row[2] for row in wanted)
        happened["rows"] += len(recorded)
    happened["soft"] += run.passed_by()


def test_fixed_seeds():
    happened = many(check, range(40))
    assert happened["soft"] > 500
    assert happened["rows"] > 2_000


@pytest.mark.slow
def test_many_seeds():
    many(check, many_seeds())
