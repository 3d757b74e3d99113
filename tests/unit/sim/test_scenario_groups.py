"""Groups of a covering workload: who has them, in which order they come, what ends and moves."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from byway.sim.scenario import ScenarioError, scenario_of
from byway.sim.scenario.build import build, plan_of
from byway.sim.scenario.groups import (
    assigned_clients,
    clusters_of,
    groups_of,
    order_by_groups,
    order_with_late_roots,
)
from byway.sim.scenario.random_streams import Purpose, derived_seed
from byway.sim.topology.tree import Topology
from byway.sim.world import World
from byway.workload import CoveringDegree

GENERATOR = CoveringDegree(seed=1, count=600, degree=29)
TREE = Topology.of([("hub", "i1"), ("hub", "i2"), ("i1", "a"), ("i1", "b"), ("i2", "c")])


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_a_group_is_a_root_and_what_lies_in_it() -> None:
    groups = groups_of(GENERATOR, 600)
    assert groups.number == GENERATOR.roots == 20
    assert np.flatnonzero(groups.is_root).tolist() == GENERATOR.root_rows().tolist()
    parents = GENERATOR.parents(0)
    inside = np.flatnonzero(parents >= 0)
    assert (groups.of[inside] == groups.of[parents[inside]]).all()
    assert groups_of(GENERATOR, 45).number == 2
    assert groups_of(GENERATOR, 0).number == 0


def test_groups_on_a_line_of_their_own_share_no_key() -> None:
    generator = CoveringDegree(seed=1, count=600, degree=29, line=1)
    filters, groups = generator.take_filters(600), groups_of(generator, 600)
    keys = [str(filter).partition("price")[0] for filter in filters]
    assert len({*keys}) == 20
    assert len({*zip(keys, groups.of.tolist(), strict=True)}) == 20
    roots = [filters[row] for row in generator.root_rows()]
    for publication in list(generator.publications(0).publications())[:200]:
        assert sum(root.matches(publication) for root in roots) <= 1


def test_late_roots_come_after_a_share_and_the_others_first() -> None:
    groups = groups_of(GENERATOR, 600)
    order = order_with_late_roots(groups, groups.of < 10, 0.5, rng())
    assert sorted(order) == list(range(600))
    places = {row: place for place, row in enumerate(order)}
    roots = np.flatnonzero(groups.is_root).tolist()
    assert sorted(places[row] for row in roots[10:]) == list(range(10))
    assert min(places[row] for row in roots[:10]) > 0.4 * 600


def test_groups_come_one_after_the_other_and_late_roots_within_theirs() -> None:
    groups = groups_of(GENERATOR, 600)
    order = order_by_groups(groups, groups.of < 10, 0.5, rng())
    assert sorted(order) == list(range(600))
    assert groups.of[order].tolist() == sorted(groups.of.tolist())
    assert order != sorted(order)
    own = [order[start : start + 30] for start in range(0, 600, 30)]
    places = [rows.index(root) for rows, root in zip(own, GENERATOR.root_rows(), strict=True)]
    assert places[10:] == [0] * 10
    assert all(6 < place < 24 for place in places[:10])


def test_clusters_are_brokers_or_those_with_a_common_neighbour() -> None:
    homes = ["a", "b", "c", "a", "b", "c"]
    assert clusters_of("brokers", homes, TREE) == [[0, 3], [1, 4], [2, 5]]
    assert clusters_of("siblings", homes, TREE) == [[0, 1, 3, 4], [2, 5]]


def test_a_group_is_in_one_cluster_unless_it_is_scattered() -> None:
    groups = groups_of(GENERATOR, 600)
    clusters = [[0, 1, 3, 4], [2, 5]]
    places = np.array(assigned_clients(groups, clusters, 3, rng()))
    for group in range(20):
        own = set(places[groups.of == group].tolist())
        if group < 3:
            assert own == {0, 1, 2, 3, 4, 5}
        else:
            assert any(own <= set(cluster) for cluster in clusters)
    first = [places[groups.of == group][0] in clusters[0] for group in range(3, 20)]
    assert 0 < sum(first) < 17


# --- in a scenario ------------------------------------------------------------------------------


def world_of(**tables: Any) -> Any:
    data = {
        "name": "x",
        "duration_s": 10,
        "topology": {"kind": "star", "brokers": 5},
        "workload": {
            "kind": "covering", "parameters": {"degree": 9}, "subscriptions": 100,
            "subscribers": 8, "subscribers_at": "leaves",
        },
    }  # fmt: skip
    for name, table in tables.items():
        data[name] = {**data[name], **table} if isinstance(data.get(name), dict) else table
    return build(plan_of(scenario_of(data), 1))[0]


def homes_of_groups(world: Any) -> dict[str, set[str]]:
    """By class and key and the marker of its group, the homes of its subscriptions."""
    found: dict[str, set[str]] = {}
    for client in world.clients.values():
        for entry in client.watch.subscriptions:
            low = str(entry.filter).split("price BETWEEN ")[1].split(" AND ")
            group = (int(low[0]) + int(low[1])) // 2 // 1_000_000
            key = str(entry.filter).split("key = ")[1][:8]
            found.setdefault(f"{key} {group}", set()).add(client.home_name)
    return found


def test_clustered_groups_are_at_one_broker() -> None:
    world = world_of(workload={"clusters": "brokers", "scattered_groups": 2, "order": "shuffled"})
    world.run(1_000_000)
    sizes = Counter(len(homes) for homes in homes_of_groups(world).values())
    assert sizes[1] == 8
    assert sum(sizes.values()) == 10


def test_roots_are_where_they_are_told_to_be() -> None:
    generator = CoveringDegree(seed=derived_seed(1, Purpose.WORKLOAD), count=100, degree=9)
    filters = generator.take_filters(100)
    roots = [str(filters[row]) for row in generator.root_rows()]
    clustered = {"clusters": "brokers", "scattered_groups": 4}
    for scattered, more in ((10, {}), (4, clustered)):
        world = world_of(workload={"roots_at": ["B2", "B3"], "order": "shuffled", **more})
        world.run(1_000_000)
        homes = {
            str(entry.filter): client.home_name
            for client in world.clients.values()
            for entry in client.watch.subscriptions
        }
        assert {homes[root] for root in roots[:scattered]} <= {"B2", "B3"}
        assert {*homes.values()} == {"B2", "B3", "B4", "B5"}


def filters_in_force(world: World) -> set[str]:
    """The filters of all registrations that brokers hold."""
    clients = world.clients.values()
    return {str(held.filter) for client in clients for held in client.watch.in_force.values()}


def test_the_first_roots_end() -> None:
    burst = {"at_s": 2, "count": 3, "gap_s": 0.1, "which": "roots"}
    world = world_of(workload={"order": "shuffled"}, unsubscribe=[burst])
    generator = CoveringDegree(seed=derived_seed(1, Purpose.WORKLOAD), count=100, degree=9)
    filters = generator.take_filters(100)
    world.run(1_000_000)
    before = filters_in_force(world)
    world.run(5_000_000)
    after = filters_in_force(world)
    assert before - after == {str(filters[row]) for row in generator.root_rows()[:3]}


def test_moves_keep_filters_and_change_homes() -> None:
    world = world_of(moves={"per_s": 5, "from_s": 1})
    world.run(900_000)

    def held() -> dict[str, str]:
        return {
            str(entry.filter): client.home_name
            for client in world.clients.values()
            for entry in client.watch.subscriptions
        }

    before = held()
    world.run(10_000_000)
    assert world.quiet(10_000_000)
    after = held()
    assert before.keys() == after.keys()
    moved = [filter for filter in before if before[filter] != after[filter]]
    assert 10 < len(moved) < 60
    assert world.check().violations == ()


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"workload": {"kind": "zipf", "parameters": {}, "clusters": "brokers"}},
         "workload.clusters: is about groups of kind 'covering', this one is 'zipf'"),
        ({"workload": {"roots_after": 0.5}},
         "workload.roots_after: goes with order 'shuffled' or 'groups'"),
        ({"workload": {"kind": "zipf", "parameters": {}},
          "unsubscribe": [{"at_s": 1, "count": 1, "which": "roots"}]},
         "unsubscribe.0.which: is about groups of kind 'covering', this one is 'zipf'"),
        ({"workload": {"kind": "zipf", "parameters": {}, "order": "groups"}},
         "workload.order: is about groups of kind 'covering', this one is 'zipf'"),
        ({"workload": {"roots_at": ["B1"]}},
         "workload.roots_at: no subscriber is sure to be there"),
        ({"workload": {"roots_at": "core"}}, "workload.roots_at: expected one of all"),
        ({"moves": {"per_s": 1, "within": "region"}},
         "moves.within: no role begins with 'region'"),
        ({"moves": {"per_s": 1, "to_s": 11}}, "moves.to_s: the run ends at 10 s"),
        ({"monitor": [{"filter": "price >", "at": "all", "from_s": 1, "stay_s": 1}]},
         "monitor.0.filter: "),
        ({"monitor": [{"filter": "ANY", "at": "nowhere", "from_s": 1, "stay_s": 1}]},
         "monitor.0.at: expected one of all"),
        ({"probe": {"at_s": 1, "count": 2}}, "probe: needs a [measure] table"),
        ({"measure": {"from_s": 11}}, "measure.from_s: 11 s is too late"),
        ({"measure": {"from_s": 5, "to_s": 4}}, "measure.from_s: 5 s is after the end, 4 s"),
        ({"measure": {"from_s": 5, "to_s": 14}}, "measure.to_s: the run ends at 10 s"),
        ({"measure": {"from_s": 5, "at": ["B1", "core"]}}, "measure.at.1: expected one of all"),
        ({"measure": {"from_s": 5}, "faults_random": {"crashes": 1}},
         "measure: cannot be combined with crashes of brokers"),
        ({"brokers": {"instant_until_s": 10}}, "brokers.instant_until_s: 10 s is too late"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        world_of(**tables)
    assert str(raised.value).startswith(message)
