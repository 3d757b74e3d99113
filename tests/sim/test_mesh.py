"""Worlds with a mesh: soft links open and close, brokers differ in Δ and strategy, and every
publication arrives once and in order; without faults nobody sees anything twice."""

from typing import ClassVar

import pytest

from byway.core.actions import Timer
from byway.core.behaviours import Behaviour, register
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import TimerFired
from byway.core.mesh.mesh import Mesh
from byway.core.mesh.mesh_config import MeshConfig
from byway.sim.world import World
from tests.sim.test_soft_routes import SoftRun
from tests.sim.world_runs import many

pytestmark = pytest.mark.sim

POLICIES = ("none", "active", "lazy", "packing", "incremental", "selective")


@register
class MeshOrders(Behaviour):
    """Has the mesh of its broker open and drop soft links: its timers are its orders."""

    name: ClassVar[str] = "mesh-orders"
    world: ClassVar[World]

    def on_timer(self, detail: str) -> None:
        what, peer = detail.split()
        broker = self.world.nodes[self.view.broker].broker
        mesh = broker.behaviours.get("mesh")
        if isinstance(mesh, Mesh):
            (mesh.open_soft if what == "open" else mesh.drop_soft)(peer)


def order(world: World, broker: str, words: str) -> None:
    node = world.nodes[broker]
    if node.broker is not None:
        MeshOrders.world = world
        node.control(TimerFired(Timer(MeshOrders.name, words)))


class MeshRun(SoftRun):
    """One world. Every broker has a client that wants what names its broker, and perhaps more."""

    def __init__(self, seed: int, faults: bool) -> None:
        super().__init__(seed, faults)
        self.soft_copies = 0
        for name in self.brokers:
            client = self.world.client(f"more {name}", name, 20_000_000)
            for _ in range(self.rng.choice((0, 1, 3))):
                other = self.rng.choice(self.brokers)
                client.subscribe(self.rng.choice((f"{other} > 0", "TRUE", f"{other} = 1")))
        for a, b in self.mesh_links():
            order(self.world, a, f"open {b}")
        for _ in range(self.rng.randint(0, 12)):
            self.world.at(self.time_us(), self.change_a_link)

    def soft_links(self) -> list[tuple[str, str]]:
        return []

    def mesh_links(self) -> list[tuple[str, str]]:
        pairs = [(a, b) for a in self.brokers for b in self.brokers if a != b]
        return [p for p in pairs if self.tree.distance(*p) > 1 and self.rng.random() < 0.5]

    def config(self) -> BrokerConfig:
        rng = self.rng
        return BrokerConfig(
            covering=rng.choice(POLICIES),
            merging=rng.random() < 0.3,
            retire_interval_us=100_000,
            retire_after_us=0,
            publisher_window=self.window,
            link_bytes_max=rng.choice((1, 900, 2**28)),
            mesh=MeshConfig(
                delta=rng.choice((1, 2, 3, 4, 4)),
                strategy=rng.choice(("S0", "S1", "S2", "SH")),
            ),
            behaviours=(MeshOrders.name,),
        )

    def change_a_link(self) -> None:
        a, b = self.rng.sample(self.brokers, 2)
        order(self.world, a, f"{self.rng.choice(('open', 'drop'))} {b}")

    def run(self) -> None:
        super().run()
        for name, node in self.world.nodes.items():
            for link, sent in node.broker.counters.publications_sent.items():
                self.soft_copies += sent if self.tree.distance(name, link) > 1 else 0


def mesh(seed, happened, *, faults):
    run = MeshRun(seed, faults)
    run.run()
    assert faults or run.duplicates == 0
    happened["soft"] += run.soft_copies
    happened["deliveries"] += run.world.metrics().deliveries


@pytest.mark.parametrize("faults", [False, True])
def test_a_few_seeds(faults):
    happened = many(mesh, range(25), faults=faults)
    assert happened["soft"] > 50
    assert happened["deliveries"] > 1_000
