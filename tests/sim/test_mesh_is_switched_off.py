"""A broker with a mesh restarts with its state, and without a mesh: what its soft links have not
confirmed, and what it holds, goes over the tree."""

import msgspec
import pytest

from byway.core.mesh.mesh_config import MeshConfig
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World
from tests.sim.mesh_runs import MeshOrders, mesh_config, mesh_of, order

pytestmark = pytest.mark.sim

CHAIN = Topology(
    ("B0", "B1", "B2", "B3", "B4"),
    tuple(LinkSpec(f"B{n}", f"B{n + 1}", 1_000) for n in range(4)),
)


@pytest.mark.parametrize("kept", ["publisher", "none"])
@pytest.mark.parametrize("strategy", ["S1", "S2"])
@pytest.mark.parametrize("away_us", [1_000, 400_000])
def test_nothing_is_lost_with_the_mesh(away_us, strategy, kept):
    """B1 has publications of B0 unconfirmed on soft links to B3 and B4, which are slow, and holds
    others."""
    config = mesh_config(4, strategy, kept, behaviours=(MeshOrders.name,))
    world = World(CHAIN, config=dict.fromkeys(CHAIN.brokers, config))
    sinks = [world.client(f"at {name}", name, 20_000_000) for name in ("B2", "B3", "B4")]
    for sink in sinks:
        sink.subscribe(f"{sink.home_name} > 0")
    source = world.client("source", "B0", 20_000_000)
    source.advertise("ANY")
    assert world.quiet(10_000_000)
    for far in ("B3", "B4"):
        order(world, "B1", f"open {far}")
    assert world.quiet(10_000_000)
    for far in ("B3", "B4"):
        world.delay("B1", far, 300_000, world.now_us + 250_000)
    for names in ("B3", "B4", "B3", "B2", "B2 B4", "B2 B3 B4"):
        source.publish(dict.fromkeys(names.split(), 1))
        world.run(world.now_us + 5_000)
    broker = world.nodes["B1"].broker
    assert sum(broker.unconfirmed(far) for far in ("B3", "B4")) >= 3
    assert (broker.held > 0) == (kept == "publisher")
    world.crash("B1")
    world.run(world.now_us + away_us)
    node = world.nodes["B1"]
    mesh = MeshConfig(delta=1, order=kept)
    node.config = msgspec.structs.replace(node.config, mesh=mesh)
    world.restart("B1", stored=True)
    assert mesh_of(world, "B1") is None
    assert list(world.nodes["B1"].broker.links) == ["B0", "B2"]
    assert world.quiet(60_000_000)
    report = world.check()
    assert report.violations == ()
    assert [sink.deliveries for sink in sinks] == [3, 3, 3]
