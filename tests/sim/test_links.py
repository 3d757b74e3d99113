"""Links outside the tree, and a tree that moves: brokers open and close links during a run."""

import pytest

from byway.core.broker_config import BrokerConfig
from byway.model.messages import LinkKind
from byway.model.trace_schema import TraceEvent
from byway.sim.engine.network import ChannelOptions, NetworkOptions
from byway.sim.scenario import scenario_of
from byway.sim.scenario.build import network_of
from byway.sim.topology.shapes import chain, star
from byway.sim.world import World
from byway.trace import TraceWriter, read_trace
from tests.sim.rewiring import Rewiring, order

pytestmark = pytest.mark.sim

SECOND = 1_000_000
CONFIG = BrokerConfig(behaviours=(Rewiring.name,), probe_cycles=True)
CODEC = NetworkOptions(codec=True)


@pytest.fixture(autouse=True)
def nothing_heard():
    Rewiring.heard.clear()


def make(topology=None, config=CONFIG, **options):
    return World(topology or chain(4), config=config, **options)


def settle(world):
    assert world.quiet(100 * SECOND)


def pair(world, publisher="B1", subscriber="B4"):
    source, sink = world.client("source", publisher), world.client("sink", subscriber)
    source.advertise("ANY")
    sink.subscribe("TRUE")
    settle(world)
    return source, sink


def kinds(world, broker):
    return {name: facts.kind.value for name, facts in world.nodes[broker].broker.links.items()}


def finish(world):
    settle(world)
    report = world.check()
    assert report.violations == ()
    assert report.tables_compared
    return world.metrics()


# --- beside the tree ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["soft", "opening"])
def test_a_link_outside_the_tree_changes_no_table(kind):
    world = make(network=CODEC)
    source, sink = pair(world)
    messages = world.metrics().messages
    order(world, "B1", f"open {kind} B4")
    settle(world)
    assert kinds(world, "B1") == {"B2": "primary", "B4": kind}
    assert kinds(world, "B4") == {"B1": kind, "B3": "primary"}
    assert [world.nodes[name].broker.neighbours for name in ("B1", "B4")] == [("B2",), ("B3",)]
    assert Rewiring.heard == {("B1", "B4"): 1, ("B4", "B1"): 1}
    assert world.metrics().messages == messages | {"load": 2}
    source.publish({"p": 1})
    settle(world)
    assert sink.deliveries == 1
    order(world, "B4", "close B1")
    settle(world)
    assert kinds(world, "B1") == {"B2": "primary"}
    assert kinds(world, "B4") == {"B3": "primary"}
    finish(world)


def test_a_soft_link_has_a_latency_of_its_own():
    channels = {("B4", "B1"): ChannelOptions(latency_us=70)}
    network = NetworkOptions(soft_latency_us=50, channels=channels, reconnect_us=100)
    world = make(network=network)
    settle(world)
    order(world, "B1", "open soft B4")
    begin_us = world.now_us
    world.run(begin_us + 100 + 50)
    assert Rewiring.heard == {("B4", "B1"): 1}
    world.run(begin_us + 100 + 70)
    assert Rewiring.heard == {("B4", "B1"): 1, ("B1", "B4"): 1}
    order(world, "B1", "open soft B3")
    world.run(world.now_us + 100 + 50)
    assert Rewiring.heard["B3", "B1"] == 1
    finish(world)


def test_a_scenario_says_how_far_soft_links_reach():
    spec = {"name": "x", "topology": {"kind": "chain", "brokers": 3}}
    for network, expected_us in (({}, None), ({"soft_latency_ms": 0.5}, 500)):
        found = network_of(scenario_of(spec | {"network": network}).network)
        assert found.soft_latency_us == expected_us


def test_others_are_as_far_as_the_tree_says():
    world = make(network=NetworkOptions(reconnect_us=0))
    settle(world)
    order(world, "B1", "open soft B4")
    world.run(world.now_us + 3_000 - 1)
    assert not Rewiring.heard
    world.run(world.now_us + 1)
    assert len(Rewiring.heard) == 2


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("broker", ["B1", "B4"])
def test_a_soft_link_comes_back_with_the_end_that_dials(broker, stored):
    world = make()
    pair(world)
    order(world, "B1", "open soft B4")
    settle(world)
    world.crash(broker)
    world.restart(broker, stored=stored)
    settle(world)
    forgotten = broker == "B1" and not stored  # nobody else dials
    assert world.nodes["B1"].broker.has_link("B4") is not forgotten
    facts = world.nodes["B4"].broker.link("B1")
    assert (facts.kind, facts.up) == (LinkKind.SOFT, not forgotten)
    finish(world)


def test_what_was_said_over_a_link_that_is_cut_is_said_again():
    world = make(network=NetworkOptions(reconnect_us=1_000))
    order(world, "B1", "open soft B4")
    world.run(1_001)
    world.cut("B1", "B4")
    world.run(world.now_us + 50_000)
    assert not Rewiring.heard
    world.mend("B1", "B4")
    settle(world)
    assert Rewiring.heard == {("B1", "B4"): 2, ("B4", "B1"): 2}  # kept, and said anew
    finish(world)


def test_a_partition_separates_links_that_are_opened_during_it():
    world = make()
    settle(world)
    world.partition(["B1"])
    order(world, "B1", "open soft B4")
    world.run(world.now_us + SECOND)
    assert not world.nodes["B1"].broker.link("B4").up
    world.heal()
    settle(world)
    assert world.nodes["B1"].broker.link("B4").up
    finish(world)


def test_both_ends_may_open_the_same_soft_link():
    world = make()
    order(world, "B1", "open soft B4")
    order(world, "B4", "open soft B1")
    settle(world)
    assert kinds(world, "B1") == {"B2": "primary", "B4": "soft"}
    finish(world)


def test_a_soft_link_gives_way_to_one_of_the_tree():
    """Also if the other end could not be told that it has to."""
    world = make()
    order(world, "B1", "open soft B4")
    settle(world)
    world.cut("B1", "B4")
    order(world, "B4", "open opening B1")
    world.run(world.now_us + SECOND)
    assert (kinds(world, "B1")["B4"], kinds(world, "B4")["B1"]) == ("soft", "opening")
    world.mend("B1", "B4")
    settle(world)
    assert (kinds(world, "B1")["B4"], kinds(world, "B4")["B1"]) == ("opening", "opening")
    assert world.nodes["B1"].broker.link("B4").up
    finish(world)


def test_a_neighbour_is_linked_already():
    world = make()
    for kind in ("soft", "opening", "primary"):
        order(world, "B1", f"open {kind} B2")
        order(world, "B1", f"open {kind} B1")
    settle(world)
    assert kinds(world, "B1") == {"B2": "primary"}
    finish(world)


def test_traces_tell_of_links_outside_the_tree(tmp_path):
    with TraceWriter(tmp_path, "soft") as writer:
        world = make(trace=writer)
        settle(world)
        order(world, "B1", "open soft B4")
        settle(world)
        order(world, "B1", "close B4")
        finish(world)
    rows = read_trace(tmp_path).to_pylist()
    changes = [
        (row["broker"], row["link"], row["kind"], row["span"])
        for row in rows
        if row["event"] == TraceEvent.LINK_CHANGED and {row["broker"], row["link"]} == {"B1", "B4"}
    ]
    assert sorted(changes) == [
        ("B1", "B4", "closed", 0), ("B1", "B4", "opened", 0),
        ("B4", "B1", "closed", 0), ("B4", "B1", "opened", 0),
    ]  # fmt: skip


# --- the tree moves -------------------------------------------------------------------------------


def moved(world):
    """B4 leaves B3 for B1; nothing is under way."""
    order(world, "B4", "part B3")
    order(world, "B4", "open primary B1")
    settle(world)


@pytest.mark.parametrize("covering", ["none", "active", "incremental"])
def test_a_broker_moves(covering):
    config = BrokerConfig(behaviours=(Rewiring.name,), probe_cycles=True, covering=covering)
    world = make(config=config)
    source, sink = pair(world)
    moved(world)
    assert kinds(world, "B1") == {"B2": "primary", "B4": "primary"}
    assert kinds(world, "B3") == {"B2": "primary"}
    before = world.metrics().publication_hops
    source.publish({"p": 1})
    metrics = finish(world)
    assert sink.deliveries == 1
    assert metrics.publication_hops == before + 1


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("broker", ["B1", "B3", "B4"])
def test_a_broker_that_moved_stays_where_it_is(broker, stored):
    """Who loses its state lists B3 and B4 as neighbours, and is told that they are no more."""
    world = make()
    source, sink = pair(world)
    moved(world)
    world.crash(broker)
    world.restart(broker, stored=stored)
    settle(world)
    assert kinds(world, "B4") == {"B1": "primary"}
    assert list(world.nodes["B3"].broker.former) == ["B4"]
    assert list(world.nodes["B4"].broker.former) == ["B3"]
    source.publish({"p": 1})
    settle(world)
    assert sink.deliveries == 1
    finish(world)


def test_it_may_move_back():
    world = make()
    source, sink = pair(world)
    moved(world)
    order(world, "B4", "part B1")
    order(world, "B3", "open primary B4")  # both have to want it, who parted for good
    order(world, "B4", "open primary B3")
    settle(world)
    assert kinds(world, "B4") == {"B3": "primary"}
    assert [list(world.nodes[name].broker.former) for name in ("B1", "B3", "B4")] == [
        ["B4"], [], ["B1"]
    ]  # fmt: skip
    source.publish({"p": 1})
    finish(world)
    assert sink.deliveries == 1


def test_a_link_too_many_is_found():
    """Without probes nobody cuts the cycle: the checker says so."""
    world = make(config=BrokerConfig(behaviours=(Rewiring.name,)))
    settle(world)
    order(world, "B4", "open primary B1")
    settle(world)
    report = world.check()
    assert report.tree == 1
    assert any("closes a cycle" in sentence for sentence in report.violations)


def test_a_link_too_few_is_found():
    world = make()
    settle(world)
    order(world, "B4", "part B3")
    settle(world)
    report = world.check()
    assert report.tree == len(report.violations) == 1
    assert "not connected" in report.violations[0]


def test_seventy_neighbours_and_a_hundred():
    """Masks of links have more than one word beyond 64 neighbours."""
    for count in (70, 130):
        world = make(star(count + 1), config=CONFIG)
        _, home, *others = world.topology.brokers
        source = world.client("source", home)
        source.advertise("ANY")
        sinks = [world.client(f"c{broker}", broker) for broker in others]
        for n, sink in enumerate(sinks):
            sink.subscribe(f"p = {n}")
        settle(world)
        for n in range(len(sinks)):
            source.publish({"p": n})
        metrics = finish(world)
        assert [sink.deliveries for sink in sinks] == [1] * len(sinks)
        assert metrics.publication_hops == 2 * len(sinks)
        assert metrics.false_positives == 0
