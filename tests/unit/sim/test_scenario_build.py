"""A scenario and a seed become a world: places, settings, generated clients and faults."""

from typing import Any

import pytest

from byway.core.broker_config import BrokerConfig
from byway.model import ANY, conforms, covers
from byway.sim.engine.network import NetworkOptions
from byway.sim.scenario import Scenario, ScenarioError, scenario_of
from byway.sim.scenario.build import build, configs_of, network_of, plan_of, topology_of
from byway.sim.scenario.check_faults import overlaps
from byway.sim.scenario.fault_spec import Crash, Cut, Delay, Disk, Partition, Slow
from byway.sim.scenario.faults import faults_of
from byway.sim.scenario.random_streams import Purpose, stream
from byway.sim.scenario.resolve import brokers_of, homes_of
from byway.sim.scenario.schema import Network
from byway.sim.scenario.workload_source import advertisements, generator_of
from byway.sim.world import World
from byway.workload import CoveringDegree, StockQuotes

CHAIN = {"kind": "chain", "brokers": 4}


def scenario(**tables: Any) -> Scenario:
    return scenario_of({"name": "x", "topology": CHAIN, **tables})


def world_of(**tables: Any) -> World:
    return build(plan_of(scenario(**tables), seed=1))[0]


# --- topology and settings --------------------------------------------------------------------


def test_a_random_topology_follows_the_seed_of_the_run() -> None:
    drawn = scenario(topology={"kind": "random-tree", "brokers": 20})
    fixed = scenario(topology={"kind": "random-tree", "brokers": 20, "seed": 3})
    assert topology_of(drawn, 1) == topology_of(drawn, 1) != topology_of(drawn, 2)
    assert topology_of(fixed, 1) == topology_of(fixed, 2)


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (
            {"kind": "chain"},
            "topology.brokers: missing; expected an integer from 1 to 10000",
        ),
        (
            {"kind": "chain", "brokers": 0},
            "topology.brokers: expected an integer from 1 to 10000, found 0",
        ),
        (
            {"kind": "transit-stub", "brokers": 33, "stubs_per_transit_node": 0, "cost_min": 11},
            "topology.brokers: expected 1 to the 32 nodes of the underlay\n"
            "topology.cost_min: more than cost_max, 10",
        ),
        (
            {"kind": "links", "links": [["A", "B"], ["B", "A"]]},
            "topology: link A-B: given twice",
        ),
    ],
)
def test_a_topology_that_cannot_be_is_refused(topology: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        topology_of(scenario(topology=topology), 1)
    assert str(raised.value) == message


def test_brokers_differ_where_they_are_told_to() -> None:
    given = scenario(
        brokers={
            "covering": "active",
            "sync_wait_s": 1.5,
            "at": {"B2": {"covering": "none", "session_ttl_s_max": 2, "hops_max": 9}},
        }
    )
    common = BrokerConfig(covering="active", sync_wait_us=1_500_000)
    own = BrokerConfig(
        covering="none", sync_wait_us=1_500_000, session_ttl_us_max=2_000_000, hops_max=9
    )
    configs = configs_of(given, topology_of(given, 1))
    assert configs == {"B1": common, "B2": own, "B3": common, "B4": common}


def test_the_network_is_told_in_microseconds() -> None:
    given = Network(
        latency_ms=0.5,
        bandwidth_bytes_per_s=10,
        reconnect_ms=3,
        reattach_ms=4,
        client_latency_ms=0.25,
    )
    assert network_of(given) == NetworkOptions(
        latency_us=500,
        bandwidth_bytes_per_s=10,
        reconnect_us=3_000,
        reattach_us=4_000,
        client_latency_us=250,
    )
    assert network_of(Network()) == NetworkOptions()


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"brokers": {"at": {"B5": {}}}},
            "brokers.at.B5: there is no broker 'B5'; there are 4, from B1 to B4",
        ),
        (
            {"client": [{"name": "ann", "broker": "hub"}]},
            "client.0.broker: there is no broker 'hub'; there are 4, from B1 to B4",
        ),
        (
            {"faults": [{"kind": "slow", "at_s": 1, "for_s": 1, "broker": "B0"}]},
            "faults.0.broker: there is no broker 'B0'; there are 4, from B1 to B4",
        ),
        (
            {"faults": [{"kind": "cut", "at_s": 1, "for_s": 1, "link": ["B2", "B4"]}]},
            "faults.0.link: B2 and B4 are not neighbours; those of B2 are: B1, B3",
        ),
        (
            {"faults": [{"kind": "delay", "at_s": 1, "for_s": 1, "link": ["B2", "X"]}]},
            "faults.0.link.1: there is no broker 'X'; there are 4, from B1 to B4",
        ),
        (
            {"faults": [{"kind": "partition", "at_s": 1, "for_s": 1, "brokers": ["B1", "x"]}]},
            "faults.0.brokers.1: there is no broker 'x'; there are 4, from B1 to B4",
        ),
        (
            {
                "faults": [
                    {
                        "kind": "partition",
                        "at_s": 1,
                        "for_s": 1,
                        "brokers": ["B1", "B2", "B3", "B4"],
                    }
                ]
            },
            "faults.0.brokers: names all brokers; at least one must be on the other side",
        ),
        (
            {"workload": {"kind": "siena", "publishers_at": "edge"}},
            "workload.publishers_at: expected one of all, leaves, inner, random, "
            "or an array of brokers, found 'edge'",
        ),
        (
            {"workload": {"kind": "siena", "subscribers_at": ["B1", "B9"]}},
            "workload.subscribers_at.1: there is no broker 'B9'; there are 4, from B1 to B4",
        ),
        (
            {
                "topology": {"kind": "chain", "brokers": 12},
                "client": [{"name": "ann", "broker": "B2"}],
            },
            "client.0.broker: there is no broker 'B2'; there are 12, from B01 to B12",
        ),
        (
            {"topology": {"kind": "chain", "brokers": 2}, "faults_random": {"brokers": "inner"}},
            "faults_random.brokers: 'inner' means no broker of this topology",
        ),
    ],
)
def test_names_that_are_not_there_are_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        plan_of(scenario(**tables), 1)
    assert str(raised.value) == message


# --- places -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "brokers"),
    [
        ("all", ("B1", "B2", "B3", "B4")),
        ("leaves", ("B1", "B4")),
        ("inner", ("B2", "B3")),
        (("B4", "B4", "B2"), ("B4", "B4", "B2")),
    ],
)
def test_clients_are_placed_in_turn(place: Any, brokers: tuple[str, ...]) -> None:
    chain = topology_of(scenario(), 1)
    assert brokers_of("key", place, chain) == brokers
    rng = stream(1, Purpose.PUBLISHERS)
    assert homes_of("key", place, 6, chain, rng) == [brokers[n % len(brokers)] for n in range(6)]


def test_a_role_is_a_place() -> None:
    tree = topology_of(scenario(topology={"kind": "seed", "name": "003-controlled"}), 1)
    assert brokers_of("key", "publishers", tree) == tree.role("publishers")


def test_random_places_use_every_broker() -> None:
    drawn = homes_of(
        "key", "random", 400, topology_of(scenario(), 1), stream(1, Purpose.PUBLISHERS)
    )
    counts = [drawn.count(name) for name in ("B1", "B2", "B3", "B4")]
    assert all(70 <= count <= 130 for count in counts)


# --- generators -------------------------------------------------------------------------------


def test_a_generator_takes_its_seed_and_count_from_the_run() -> None:
    given = scenario(
        workload={"kind": "covering", "subscriptions": 50, "parameters": {"degree": 4}}
    )
    assert given.workload is not None
    assert generator_of(given.workload, 9) == CoveringDegree(seed=9, count=50, degree=4)


def test_publishers_advertise_what_they_publish() -> None:
    given = scenario(
        workload={
            "kind": "stocks",
            "publishers": 3,
            "advertise": "symbols",
            "parameters": {"symbols": 7},
        }
    ).workload
    assert given is not None
    market = generator_of(given, 1)
    assert isinstance(market, StockQuotes)
    adverts = advertisements(given, market)
    for row, quote in enumerate(market.take_publications(50)):
        admitting = [number for number, advert in enumerate(adverts) if conforms(quote, advert)]
        assert admitting == [row % 7 % 3]


def test_publishers_may_advertise_anything() -> None:
    given = scenario(workload={"kind": "zipf", "publishers": 2}).workload
    assert given is not None
    assert advertisements(given, generator_of(given, 1)) == [ANY, ANY]


# --- generated clients in a world -------------------------------------------------------------


def test_clients_are_named_and_placed() -> None:
    world = world_of(
        workload={
            "kind": "siena",
            "subscriptions": 30,
            "subscribers": 10,
            "subscribers_at": ["B2", "B3"],
            "publishers": 2,
            "publishers_at": "leaves",
            "session_ttl_s": 0.5,
        },
    )
    homes = {name: client.home_name for name, client in world.clients.items()}
    assert homes == {
        "p1": "B1", "p2": "B4",
        "s01": "B2", "s02": "B3", "s03": "B2", "s04": "B3", "s05": "B2",
        "s06": "B3", "s07": "B2", "s08": "B3", "s09": "B2", "s10": "B3",
    }  # fmt: skip
    assert {client.session_ttl_us for client in world.clients.values()} == {500_000}
    world.run(1_000_000)
    assert sorted(world.clients["s03"].subscriptions) == ["12", "2", "22"]
    assert world.metrics().table_entries >= 30


def entries_at(world: World, time_s: float) -> int:
    """Subscriptions at the brokers they were made at."""
    world.run(round(time_s * 1_000_000))
    return sum(len(client.subscriptions) for client in world.clients.values())


def test_subscriptions_arrive_evenly() -> None:
    world = world_of(
        workload={
            "kind": "siena",
            "subscriptions": 10,
            "subscribe_at_s": 1,
            "subscribe_for_s": 2,
        }
    )
    assert [entries_at(world, time_s) for time_s in (0.9, 1, 1.9, 2, 2.9)] == [0, 1, 5, 6, 10]


@pytest.mark.parametrize(
    ("rate", "publications"),
    [({"rate_per_s": 20}, 160), ({"rate_per_publisher_per_s": 20}, 480), ({}, 0)],
)
def test_publishers_publish_from_the_warm_up_to_the_end(
    rate: dict[str, float], publications: int
) -> None:
    world = world_of(
        warmup_s=2,
        workload={"kind": "siena", "subscriptions": 5, "publishers": 3, **rate},
    )
    world.run(1_999_999)
    assert world.metrics().publications == 0
    world.run(20_000_000)
    assert world.metrics().publications == publications


def test_poisson_publications_come_from_all_publishers() -> None:
    world = world_of(
        workload={
            "kind": "siena",
            "subscriptions": 5,
            "publishers": 4,
            "rate_per_s": 100,
            "arrivals": "poisson",
        }
    )
    world.run(10_000_000)
    assert world.metrics().publications == pytest.approx(1_000, abs=100)


def test_without_publishers_nothing_is_published() -> None:
    world = world_of(
        workload={"kind": "siena", "subscriptions": 5, "publishers": 0, "rate_per_s": 9}
    )
    world.run(10_000_000)
    assert world.metrics().publications == 0


def test_the_order_of_subscriptions() -> None:
    def filters(order: str) -> list[str]:
        world = world_of(
            workload={"kind": "siena", "subscriptions": 20, "subscribers": 1, "order": order}
        )
        world.run(1)
        return [str(entry.filter) for entry in world.clients["s1"].watch.subscriptions]

    given, shuffled = filters("given"), filters("shuffled")
    assert given != shuffled
    assert sorted(given) == sorted(shuffled)


# --- churn and bursts -------------------------------------------------------------------------


def test_churn_changes_what_is_in_force() -> None:
    world = world_of(
        warmup_s=1,
        workload={"kind": "covering", "subscriptions": 100, "parameters": {"degree": 4}},
        churn={"subscribe_per_s": 50, "unsubscribe_per_s": 20, "to_s": 5},
    )
    assert entries_at(world, 1) == 100
    in_force = entries_at(world, 5)
    assert in_force == pytest.approx(100 + 4 * 30, abs=50)
    assert entries_at(world, 9) == in_force


def test_subscriptions_can_run_out() -> None:
    world = world_of(
        workload={"kind": "siena", "subscriptions": 5}, churn={"unsubscribe_per_s": 20}
    )
    assert entries_at(world, 9) == 0


def test_subscribers_vanish_and_all_return() -> None:
    world = world_of(
        workload={"kind": "siena", "subscriptions": 20, "session_ttl_s": 60},
        churn={"vanish_per_s": 40, "away_s_min": 0.2, "away_s_max": 5},
    )
    world.run(5_000_000)
    away = [client for client in world.clients.values() if not client.attached]
    assert len(away) >= 5
    world.run(10_000_000)
    assert all(client.attached for client in world.clients.values())


def test_a_burst_takes_the_broadest() -> None:
    """Of 2 roots with 4 children each, the roots go first."""
    world = world_of(
        workload={
            "kind": "covering", "subscriptions": 10, "subscribers": 1, "order": "shuffled",
            "parameters": {"degree": 4, "count": 10},
        },
        unsubscribe=[{"at_s": 1, "count": 2, "gap_s": 2, "which": "broadest"}],
    )  # fmt: skip
    generator = CoveringDegree(seed=0, count=10, degree=4)
    assert generator.roots == 2
    client = world.clients["s1"]
    in_force = []
    for time_s in (0.5, 1, 2.9, 3, 9):
        entries_at(world, time_s)
        in_force.append(len(client.subscriptions))
    assert in_force == [10, 9, 9, 8, 8]
    kept = [entry.filter for entry in client.watch.subscriptions]
    assert not any(covers(wide, narrow) for wide in kept for narrow in kept if wide is not narrow)


def test_a_burst_of_more_than_there_are() -> None:
    world = world_of(
        workload={"kind": "siena", "subscriptions": 5}, unsubscribe=[{"at_s": 1, "count": 9}]
    )
    assert [entries_at(world, time_s) for time_s in (0.5, 1, 9)] == [5, 0, 0]


# --- faults -----------------------------------------------------------------------------------


def drawn(seed: int, **counts: Any) -> list[Any]:
    given = scenario(duration_s=20, warmup_s=2, faults_random=counts)
    return faults_of(given, seed, topology_of(given, seed))


def test_as_many_faults_are_drawn_as_are_asked_for() -> None:
    faults = drawn(1, crashes=5, cuts=4, partitions=3, delays=2, slows=1, for_s_max=1)
    kinds = [type(fault) for fault in faults]
    assert kinds == [Crash] * 5 + [Cut] * 4 + [Partition] * 3 + [Delay] * 2 + [Slow]
    for number, fault in enumerate(faults):
        assert 2 <= fault.at_s <= fault.at_s + fault.for_s <= 20
        assert 0.5 <= fault.for_s <= 1
        assert not overlaps(fault, faults[:number])


def test_faults_follow_the_seed() -> None:
    assert drawn(1, crashes=3, cuts=3) == drawn(1, crashes=3, cuts=3) != drawn(2, crashes=3, cuts=3)


def test_only_some_brokers_may_crash() -> None:
    faults = [fault for seed in range(20) for fault in drawn(seed, crashes=2, brokers="inner")]
    assert {fault.broker for fault in faults} == {"B2", "B3"}
    assert {fault.stored for fault in faults} == {True, False}
    assert {fault.stored for fault in drawn(1, crashes=5, stored="always")} == {True}
    assert {fault.stored for fault in drawn(1, crashes=5, stored="never")} == {False}


def test_faults_of_disks_are_drawn_for_brokers_that_have_one() -> None:
    given = scenario(
        duration_s=20,
        brokers={"data": True, "at": {"B1": {"data": False}, "B2": {"data": False}}},
        faults_random={
            "crashes": 4, "disks": 2, "power": "random", "torn": "always", "stale": "random",
            "for_s_max": 1,
        },
    )  # fmt: skip
    faults = [f for seed in range(40) for f in faults_of(given, seed, topology_of(given, seed))]
    crashes = [fault for fault in faults if isinstance(fault, Crash)]
    disks = [fault for fault in faults if isinstance(fault, Disk)]
    assert {fault.broker for fault in disks} == {"B3", "B4"}
    assert {fault.room_bytes is None for fault in disks} == {True, False}
    for fault in crashes:
        has_data = fault.broker in ("B3", "B4")
        assert fault.torn == has_data
        assert has_data or not (fault.power or fault.stale)
        assert fault.stored or not fault.stale
    kept = [fault for fault in crashes if fault.torn and fault.stored]
    assert {(fault.power, fault.stale) for fault in kept} == {
        (power, stale) for power in (False, True) for stale in (False, True)
    }


def test_options_of_disks_leave_other_draws_as_they_are() -> None:
    plain = drawn(3, crashes=3, cuts=2, slows=1)
    given = scenario(
        duration_s=20, warmup_s=2, brokers={"data": True},
        faults_random={"crashes": 3, "cuts": 2, "slows": 1, "disks": 2},
    )  # fmt: skip
    assert faults_of(given, 3, topology_of(given, 3))[: len(plain)] == plain


def test_a_broker_with_data_crashes_and_keeps_it() -> None:
    """Unless the fault says otherwise."""
    for stored, expected in ((None, 1), (True, 1), (False, 2)):
        fault = {"kind": "crash", "at_s": 1, "for_s": 1, "broker": "B2"}
        if stored is not None:
            fault["stored"] = stored
        world = world_of(brokers={"at": {"B2": {"data": True}}}, faults=[fault])
        world.run(3_000_000)
        broker = world.nodes["B2"].broker
        assert broker is not None
        assert min(broker.incarnation, 2) == expected


def test_a_disk_that_is_full_ends_its_broker_for_a_while() -> None:
    fault = {"kind": "disk", "at_s": 1, "for_s": 1, "broker": "B2", "room_bytes": 10}
    world = world_of(brokers={"data": True, "load_interval_s": 0.1}, sample_s=0.1, faults=[fault])
    up = []
    for time_s in (0.9, 1.5, 2.5):
        world.run(round(time_s * 1_000_000))
        up.append(world.nodes["B2"].broker is not None)
    assert up == [True, False, True]


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"kind": "crash", "power": True}, "faults.0.power: B2 has no data"),
        ({"kind": "crash", "torn": True}, "faults.0.torn: B2 has no data"),
        ({"kind": "crash", "stale": True}, "faults.0.stale: B2 has no data"),
        ({"kind": "disk"}, "faults.0.broker: B2 has neither data nor state_dir"),
        (
            {"kind": "crash", "broker": "B1", "stale": True, "stored": False},
            "faults.0.stale: stored is false, so there is no journal",
        ),
    ],
)
def test_faults_of_a_disk_need_one(fault: dict[str, Any], complaint: str) -> None:
    given = scenario(
        brokers={"at": {"B1": {"data": True}}},
        faults=[{"at_s": 1, "for_s": 1, "broker": "B2", **fault}],
    )
    with pytest.raises(ScenarioError) as raised:
        plan_of(given, 1)
    assert str(raised.value) == complaint


def test_a_partition_is_one_side_of_a_link() -> None:
    sides = {fault.brokers for seed in range(30) for fault in drawn(seed, partitions=1)}
    assert sides == {("B4",), ("B3", "B4"), ("B2", "B3", "B4")}


def test_faults_for_which_there_is_no_room() -> None:
    with pytest.raises(ScenarioError) as raised:
        drawn(1, crashes=100, brokers=["B1"])
    assert str(raised.value) == "faults_random.crashes: there is no room for 100"
    lonely = scenario(topology={"kind": "chain", "brokers": 1}, faults_random={"cuts": 1})
    with pytest.raises(ScenarioError) as raised:
        faults_of(lonely, 1, topology_of(lonely, 1))
    assert str(raised.value) == "faults_random.cuts: there is no room for 1"
