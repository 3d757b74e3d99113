"""A dead leaf, or a slow subscriber, beside many live ones: only publishers that have copies for it
stop, at their window, and go on when it is back."""

import pytest

from byway.core.broker_config import BrokerConfig
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World

pytestmark = pytest.mark.sim

WINDOW = 5
SECOND_US = 1_000_000


def star(leaves: int, **settings: object) -> World:
    """A hub with leaves L0, L1 …; each has a client for each of two publishers, at L0: `clean`,
    whose publications are for all leaves but L1, and `owing`, whose are for all of them."""
    names = tuple(f"L{number}" for number in range(leaves))
    links = tuple(LinkSpec("hub", name, 1_000) for name in names)
    config = BrokerConfig(publisher_window=WINDOW, **settings)  # type: ignore[arg-type]
    world = World(Topology(("hub", *names), links), config=config)
    for publisher in ("clean", "owing"):
        world.client(publisher, "L0", 60 * SECOND_US).advertise("ANY")
        for name in names:
            client = world.client(f"{publisher} at {name}", name, 60 * SECOND_US)
            client.subscribe(f"{name} > 0 AND {publisher} = 1")
    assert world.quiet(60 * SECOND_US)
    return world


def publish(world: World, count: int) -> None:
    leaves = [name for name in world.topology.brokers if name != "hub"]
    for number in range(count):
        everybody = dict.fromkeys(leaves, number + 1)
        clean = {name: value for name, value in everybody.items() if name != "L1"}
        world.clients["clean"].publish({**clean, "clean": 1})
        world.clients["owing"].publish({**everybody, "owing": 1})


def delivered(world: World, leaf: str, publisher: str) -> int:
    """How many publications of a publisher have reached its client at a leaf."""
    return world.clients[f"{publisher} at {leaf}"].deliveries


def finish(world: World) -> None:
    assert world.quiet(120 * SECOND_US)
    assert world.check().violations == ()


def test_a_dead_leaf_stops_only_who_owes_it_something():
    world = star(6)
    world.crash("L1")
    publish(world, 100)
    world.run(world.now_us + 10 * SECOND_US)
    for leaf in ("L0", "L2", "L5"):
        assert delivered(world, leaf, "clean") == 100
        assert delivered(world, leaf, "owing") == WINDOW
    assert world.nodes["hub"].broker.unconfirmed("L1") == WINDOW
    world.restart("L1", stored=True)
    finish(world)
    assert delivered(world, "L1", "owing") == delivered(world, "L2", "owing") == 100


@pytest.mark.parametrize("publishers", [1, 3])
def test_a_full_link_stops_others_at_its_hard_bound_only(publishers):
    """With so many publishers that owe the dead leaf something that the link is full, nobody's
    publications pass the hub any more."""
    world = star(3, link_bytes_max=2 * WINDOW * 256)
    for number in range(publishers - 1):
        world.client(f"more {number}", "L0", 60 * SECOND_US).advertise("ANY")
    assert world.quiet(60 * SECOND_US)
    world.crash("L1")
    everybody = {"L1": 1, "L2": 1, "owing": 1}
    for name in ("owing", *(f"more {number}" for number in range(publishers - 1))):
        for _ in range(WINDOW):
            world.clients[name].publish(everybody)
    world.run(world.now_us + SECOND_US)
    publish(world, 20)
    world.run(world.now_us + 5 * SECOND_US)
    passes = publishers == 1
    assert delivered(world, "L2", "clean") == (20 if passes else 0)
    assert world.nodes["hub"].broker.reads_data_from("L0") is passes
    assert world.nodes["hub"].broker.reads_data_from("L1")
    world.restart("L1", stored=True)
    finish(world)


def test_a_slow_leaf_slows_only_who_owes_it_something():
    world = star(4)
    world.delay("hub", "L1", 2 * SECOND_US, world.now_us + 30 * SECOND_US)
    publish(world, 60)
    world.run(world.now_us + 6 * SECOND_US)
    assert delivered(world, "L2", "clean") == 60
    assert delivered(world, "L2", "owing") < 60
    finish(world)
    assert delivered(world, "L1", "owing") == 60


def test_a_slow_subscriber_does_not_stop_others():
    """A client of L1 is away, and its session keeps what it has missed: nobody waits for it."""
    world = star(4)
    world.clients["owing at L1"].vanish()
    publish(world, 60)
    world.run(world.now_us + 3 * SECOND_US)
    assert delivered(world, "L2", "clean") == delivered(world, "L2", "owing") == 60
    world.clients["owing at L1"].come_back()
    finish(world)
    assert delivered(world, "L1", "owing") == 60
