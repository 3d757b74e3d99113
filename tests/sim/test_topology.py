"""Topologies: what is refused, shapes, the seeds' trees, underlays, specs."""

import itertools
import pickle
import re
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.model.errors import BywayError, TopologyError
from byway.sim.topology.seed_trees import seed_names, seed_topology
from byway.sim.topology.shapes import balanced_tree, broker_names, chain, random_tree, seeded, star
from byway.sim.topology.topology_spec import TopologySpec, from_spec, placement_from_spec
from byway.sim.topology.transit_stub import (
    TransitStub,
    Underlay,
    minimum_spanning_edges,
    place,
    transit_stub,
)
from byway.sim.topology.tree import LinkSpec, Role, Topology

PAGE = (Path(__file__).parents[2] / "docs/reference/topologies.md").read_text()
SMALL = TransitStub(transit_domains=3, transit_nodes=2, stubs_per_transit_node=2, stub_nodes=6)


# --- the tree -------------------------------------------------------------------------------------


def test_links_are_turned_and_sorted_by_the_order_of_brokers() -> None:
    tree = Topology(("C", "A", "B"), (LinkSpec("B", "A", 5, 2.0), LinkSpec("A", "C")))
    assert tree.links == (LinkSpec("C", "A"), LinkSpec("A", "B", 5, 2.0))
    assert tree.neighbours("A") == ("C", "B")
    assert tree == Topology(("C", "A", "B"), tree.links[::-1])


@pytest.mark.parametrize(
    ("brokers", "edges", "said"),
    [
        ("ABC", "AB BC CA", "link B-C: closes a cycle with other links"),
        ("ABCD", "AB CD", "broker 'C': not connected to A (nor to 1 others)"),
        ("AB", "", "broker 'B': not connected to A"),
        ("AB", "AX", "link A-X: there is no broker 'X'"),
        ("AB", "AB BA", "link A-B: given twice"),
        ("AB", "AA", "link A-A: a broker is not linked with itself"),
        ("ABA", "AB", "broker 'A': named twice"),
        ("", "", "0 brokers: expected 1 to 10000"),
        ("A ", "", "broker name ' ': expected 1 to 255 printable characters without a space"),
    ],
)
def test_what_is_no_tree_is_refused(brokers: str, edges: str, said: str) -> None:
    links = tuple(LinkSpec(a, b) for a, b in edges.split())
    with pytest.raises(TopologyError) as caught:
        Topology(tuple(brokers), links)
    assert str(caught.value) == said
    assert isinstance(caught.value, BywayError)
    assert not Topology.is_tree(tuple(brokers), links)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (LinkSpec("A", "B", -1), "latency_us = -1, expected 0 to 3600000000"),
        (LinkSpec("A", "B", 1, -0.5), "cost = -0.5, expected a number from 0 up"),
        (LinkSpec("A", "B", 1, float("nan")), "cost = nan, expected a number from 0 up"),
    ],
)
def test_a_link_out_of_range_is_refused(link: LinkSpec, said: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(said)):
        Topology(("A", "B"), (link,))


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ([Role("core", ("A",)), Role("core", ())], "role 'core': given twice"),
        ([Role("core", ("Z",))], "role 'core': there is no broker 'Z'"),
        ([Role("core", ("A", "A"))], "role 'core': names a broker twice"),
    ],
)
def test_a_wrong_role_is_refused(roles: list[Role], said: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(said)):
        Topology(("A",), (), tuple(roles))


def test_errors_quote_no_more_than_a_line() -> None:
    with pytest.raises(TopologyError) as caught:
        Topology(("A",), (LinkSpec("A", "x" * 10_000),))
    assert len(str(caught.value)) < 150


def test_questions_about_strangers_are_refused() -> None:
    tree = chain(3)
    for ask in (tree.neighbours, tree.degree, tree.draw, lambda name: tree.path("B1", name)):
        with pytest.raises(TopologyError, match="broker 'Z': not in this topology"):
            ask("Z")
    with pytest.raises(TopologyError, match="link B1-B3: these brokers are not neighbours"):
        tree.link("B1", "B3")
    with pytest.raises(TopologyError, match="role 'core': not in this topology; it has: edge"):
        seed_topology("000-c1-ternary").role("core")


def test_a_topology_travels() -> None:
    tree = seed_topology("003-workflow")
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert msgspec.json.decode(msgspec.json.encode(tree), type=Topology) == tree
    assert hash(tree) == hash(seed_topology("003-workflow"))
    with pytest.raises(msgspec.ValidationError, match="not connected"):
        msgspec.json.decode(b'{"brokers": ["A", "B"]}', type=Topology)


@given(st.integers(1, 40), st.integers(2, 5), st.integers(0, 2**32))
def test_paths_equal_breadth_first_search(count: int, degree_max: int, seed: int) -> None:
    tree = random_tree(count, degree_max=degree_max, rng=seeded(seed))
    assert tree.degree_max <= degree_max
    assert len(tree.links) == count - 1
    start = tree.brokers[seed % count]
    paths = {start: (start,)}
    for _ in range(count):
        for broker, path in list(paths.items()):
            for near in tree.neighbours(broker):
                paths.setdefault(near, (*path, near))
    assert {broker: tree.path(start, broker) for broker in tree.brokers} == paths
    assert tree.within(start, 2) == {b: len(p) - 1 for b, p in paths.items() if 2 <= len(p) <= 3}
    assert all(tree.latency_us(start, b) == 1_000 * tree.distance(start, b) for b in tree.brokers)


# --- drawing --------------------------------------------------------------------------------------


def test_drawing() -> None:
    assert balanced_tree(6, fan_out=2).draw().splitlines() == [
        "B1",
        "+- B2",
        "|  +- B4",
        "|  `- B5",
        "`- B3",
        "   `- B6",
    ]
    assert chain(3).draw(root="B2") == "B2\n+- B1\n`- B3"
    uneven = Topology(tuple("ABC"), (LinkSpec("A", "B", 5, 0.5), LinkSpec("B", "C")))
    assert uneven.draw() == "A\n`- B  (5 us, cost 0.5)\n   `- C  (1000 us, cost 1)"


def test_a_large_drawing_is_cut_short() -> None:
    rows = chain(10_000).draw().splitlines()
    assert len(rows) == 201
    assert rows[-1] == "... and 9800 more"


def test_repr_tells_size_degree_and_roles() -> None:
    assert repr(chain(3)) == "<Topology of 3 brokers, degree up to 2>"
    assert repr(seed_topology("003-mobile")) == (
        "<Topology of 17 brokers, degree up to 16, core 1, edge 16>"
    )


# --- shapes ---------------------------------------------------------------------------------------


def test_names_sort_in_their_order() -> None:
    assert broker_names(3) == ("B1", "B2", "B3")
    assert list(broker_names(120)) == sorted(broker_names(120))


def test_chain_and_star() -> None:
    assert chain(4).path("B4", "B1") == ("B4", "B3", "B2", "B1")
    assert star(17).neighbours("B01") == star(17).leaves == broker_names(17)[1:]
    assert chain(1) == star(1) == Topology(("B1",))


def test_balanced_trees() -> None:
    assert balanced_tree(63, fan_out=2) == balanced_tree(depth=5, fan_out=2)
    assert len(balanced_tree(depth=3, fan_out=4)) == 85
    tree = balanced_tree(63, fan_out=4)
    depths = [tree.distance("B01", broker) for broker in tree.brokers]
    assert [depths.count(depth) for depth in range(4)] == [1, 4, 16, 42]


def test_random_trees_repeat_by_seed_and_differ_between_seeds() -> None:
    trees = [random_tree(50, degree_max=3, rng=seeded(seed)) for seed in (1, 1, 2)]
    assert trees[0] == trees[1] != trees[2]
    # The same on every machine.
    edges = " ".join(str(link) for link in random_tree(7, degree_max=3, rng=seeded(5)).links)
    assert edges == "B1-B2 B1-B5 B2-B3 B3-B4 B3-B7 B5-B6"


def test_shapes_out_of_range_are_refused() -> None:
    wrong = [
        lambda: chain(0),
        lambda: star(10**12),
        lambda: balanced_tree(10**12, fan_out=2),
        lambda: balanced_tree(depth=10**9, fan_out=2),
        lambda: balanced_tree(5, fan_out=0),
        lambda: balanced_tree(5, fan_out=2, depth=2),
        lambda: random_tree(10**12, rng=seeded(1)),
        lambda: random_tree(5, degree_max=1, rng=seeded(1)),
        lambda: seeded(-1),
    ]
    for build in wrong:
        with pytest.raises(TopologyError, match=r"expected|more than"):
            build()


# --- the seeds' trees -----------------------------------------------------------------------------


def sizes(name: str, *roles: str) -> list[int]:
    tree = seed_topology(name)
    return [len(tree), *(len(tree.role(role)) for role in roles)]


def test_numbers_that_the_seeds_tell() -> None:
    roles = ("core", "inner", "edge", "publishers", "subscribers")
    assert sizes("004-default", *roles) == [55, 5, 23, 32, 3, 29]
    assert sizes("003-controlled", "core", "publishers") == [49, 5, 3]
    assert sizes("003-mobile", "core", "edge") == [17, 1, 16]
    assert sizes("003-workflow", "core", "domain-1", "edge") == [40, 4, 10, 24]
    assert sizes("004-mobile", "core", "region-4") == [29, 1, 7]
    meshes = [len(seed_topology(f"000-{c}-ternary")) for c in ("c1", "c2", "c3", "cpl")]
    assert meshes == [120, 250, 500, 21]


@pytest.mark.parametrize("name", ["003-controlled", "004-default"])
def test_pruning_networks(name: str) -> None:
    tree = seed_topology(name)
    assert tree.path("A", "E") == tuple("ABCDE")
    assert tree.leaves == tree.role("edge")
    assert all(tree.neighbours(publisher) == ("E",) for publisher in tree.role("publishers"))
    assert set(tree.role("inner")) | set(tree.role("edge")) == set(tree.brokers)


def test_clusters_of_004_share_out_the_subscribers_by_core_broker() -> None:
    tree = seed_topology("004-default")
    clusters = [role.brokers for role in tree.roles if role.name.startswith("cluster-")]
    assert tuple(itertools.chain(*clusters)) == tree.role("subscribers")
    assert all(2 <= len(cluster) <= 4 for cluster in clusters)
    for cluster in clusters:
        assert all(tree.distance(a, b) <= 4 for a, b in itertools.combinations(cluster, 2))


def test_case_t21_costs_13_sends_and_8_pure_forwarders() -> None:
    tree = seed_topology("case-t21")
    (publisher,) = tree.role("publishers")
    matching = tree.role("subscribers")
    reached = {broker for match in matching for broker in tree.path(publisher, match)}
    assert len(reached) - 1 == 13
    assert len(reached - {publisher} - set(matching)) == 8


def test_distances_of_the_examples() -> None:
    incremental, selective = seed_topology("003-fig-4"), seed_topology("004-fig-4")
    assert incremental.distance("B3", "B6") == 3
    assert [selective.distance(*ends) for ends in ("CK", "GI", "AC")] == [2, 2, 2]
    assert seed_topology("001-fig-1").path("B6", "B1") == ("B6", "B5", "B1")
    assert seed_topology("case-g").path("13", "24") == ("13", "12", "11", "A", "21", "22", "24")


def test_a_mesh_of_degree_3_has_13_brokers_within_4_hops() -> None:
    means = []
    for seed in range(10):
        tree = seed_topology("000-c1-degree-3", seeded(seed))
        assert tree.degree_max == 3
        means.append(sum(len(tree.within(broker, 4)) for broker in tree.brokers) / len(tree))
    assert 12 < sum(means) / len(means) < 14


def test_seed_topologies_that_cannot_be_had() -> None:
    with pytest.raises(TopologyError, match="seed topology 'x': expected one of 000-c1-degree-3"):
        seed_topology("x")
    with pytest.raises(TopologyError, match="is random: expected a seed or an rng"):
        seed_topology("000-c1-degree-3")


# --- transit-stub ---------------------------------------------------------------------------------


def floyd_warshall(underlay: Underlay) -> np.ndarray:
    far = np.full((underlay.nodes, underlay.nodes), 10**12)
    np.fill_diagonal(far, 0)
    for a, b, us in zip(underlay.ends_a, underlay.ends_b, underlay.latencies_us, strict=True):
        far[a, b] = far[b, a] = min(far[a, b], us)
    for node in range(underlay.nodes):
        far = np.minimum(far, far[:, [node]] + far[[node], :])
    return far


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("extra", [0, 5])
def test_shortest_ways_equal_floyd_warshall(seed: int, extra: int) -> None:
    parameters = msgspec.structs.replace(SMALL, extra_stub_links=extra)
    underlay = transit_stub(parameters, rng=seeded(seed))
    far = floyd_warshall(underlay)
    assert far.max() < 10**12  # connected
    ground = place(underlay, 20, rng=seeded(seed + 100))
    assert len(set(ground.nodes.tolist())) == 20
    assert np.array_equal(ground.latencies_us, far[np.ix_(ground.nodes, ground.nodes)])
    assert np.array_equal(underlay.shortest_us(range(underlay.nodes)), far)


def test_an_underlay_has_the_domains_it_was_asked_for() -> None:
    underlay = transit_stub(SMALL, rng=seeded(1))
    assert underlay.nodes == 6 + 12 * 6
    domains = [underlay.domain(node) for node in range(underlay.nodes)]
    assert sorted(set(domains)) == list(range(3 + 12))
    lows, highs = np.array(SMALL.ranges())[underlay.kinds].T
    assert (lows <= underlay.latencies_us).all()
    assert (underlay.latencies_us <= highs).all()
    for a, b, kind in zip(underlay.ends_a, underlay.ends_b, underlay.kinds, strict=True):
        assert (domains[a] == domains[b]) == (kind in (1, 3))
        assert underlay.is_transit(a) == (kind != 3)


def test_the_network_of_002() -> None:
    underlay = transit_stub(rng=seeded(1))
    ground = place(underlay, 100, rng=seeded(2))
    assert underlay.nodes > 10_000
    assert underlay.parameters.transit_domains + underlay.parameters.stub_domains == 100
    costs = ground.costs()
    apart = costs[~np.eye(100, dtype=bool)]
    assert (apart.min(), apart.max()) == (0.0, 10.0)
    assert np.array_equal(costs, costs.T)
    total = {
        kind: sum(link.latency_us for link in tree.links)
        for kind, tree in {
            "random": ground.random_overlay(seeded(3)),
            "minimum": ground.minimum_overlay(),
        }.items()
    }
    assert total["minimum"] * 2 < total["random"]


def test_an_underlay_repeats_by_seed() -> None:
    grounds = [
        place(transit_stub(SMALL, rng=seeded(seed)), 10, rng=seeded(9)) for seed in (1, 1, 2)
    ]
    assert grounds[0].minimum_overlay() == grounds[1].minimum_overlay()
    assert grounds[0].minimum_overlay() != grounds[2].minimum_overlay()
    # The same on every machine.
    assert grounds[0].latencies_us[0, 1:4].tolist() == [15354, 59692, 66231]


def test_costs_change_and_brokers_stay() -> None:
    underlay = transit_stub(SMALL, rng=seeded(1))
    ground = place(underlay, 10, rng=seeded(2))
    moved = ground.on(underlay.redrawn(seeded(3)))
    assert np.array_equal(moved.nodes, ground.nodes)
    assert np.array_equal(moved.underlay.ends_a, underlay.ends_a)
    assert (moved.latencies_us != ground.latencies_us).any()
    with pytest.raises(TopologyError, match="78, as many as before"):
        ground.on(transit_stub(rng=seeded(1)))


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_minimum_spanning_tree_equals_brute_force(count: int, seed: int) -> None:
    weights = seeded(seed).integers(1, 9, (count, count))
    weights = weights + weights.T
    names = [str(number) for number in range(count)]
    pairs = list(itertools.combinations(range(count), 2))
    best = min(
        sum(int(weights[a, b]) for a, b in edges)
        for edges in itertools.combinations(pairs, count - 1)
        if Topology.is_tree(names, [LinkSpec(names[a], names[b]) for a, b in edges])
    )
    assert sum(int(weights[a, b]) for a, b in minimum_spanning_edges(weights)) == best


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"transit_domains": 0}, "transit_domains: expected an integer from 1 to 200000, found 0"),
        ({"stub_nodes": 100_000}, "stub_nodes: these domains have 9600032 nodes; expected at most"),
        ({"stub_latency_us": (5, 1)}, "stub_latency_us: 5 is more than 1"),
        ({"stubs_per_transit_node": 0, "extra_stub_links": 1}, "extra_stub_links: expected 0"),
    ],
)
def test_underlays_out_of_range_are_refused(parameters: dict, said: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(said)):
        TransitStub(**parameters)
    with pytest.raises(TopologyError, match=re.escape(said)):
        from_spec({"kind": "transit-stub", "brokers": 2, "seed": 1, **parameters})


def test_the_smallest_underlay_is_one_node() -> None:
    single = TransitStub(transit_domains=1, transit_nodes=1, stubs_per_transit_node=0)
    ground = place(transit_stub(single, rng=seeded(1)), 1, rng=seeded(1))
    assert ground.minimum_overlay() == Topology(("B1",), (), (Role("transit", ("B1",)),))


def test_brokers_need_a_node_each() -> None:
    underlay = transit_stub(SMALL, rng=seeded(1))
    with pytest.raises(TopologyError, match="expected 1 to the 78 nodes"):
        place(underlay, 79, rng=seeded(1))
    alone = place(underlay, 1, rng=seeded(1))
    assert alone.minimum_overlay() == alone.random_overlay(seeded(1))


# --- specs ----------------------------------------------------------------------------------------


def toml(text: str) -> dict:
    return tomllib.loads(f"topology = {text}")["topology"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{kind = "chain", brokers = 3}', lambda: chain(3)),
        ('{kind = "star", brokers = 3, cost = 2}', lambda: star(3, cost=2.0)),
        (
            '{kind = "balanced-tree", brokers = 63, fan_out = 2, latency_us = 5}',
            lambda: balanced_tree(63, fan_out=2, latency_us=5),
        ),
        (
            '{kind = "balanced-tree", depth = 2, fan_out = 4}',
            lambda: balanced_tree(depth=2, fan_out=4),
        ),
        (
            '{kind = "random-tree", brokers = 9, degree_max = 3, seed = 4}',
            lambda: random_tree(9, degree_max=3, rng=seeded(4)),
        ),
        ('{kind = "seed", name = "case-t21"}', lambda: seed_topology("case-t21")),
        (
            '{kind = "seed", name = "000-c1-degree-3", seed = 4}',
            lambda: seed_topology("000-c1-degree-3", seeded(4)),
        ),
        (
            '{kind = "links", links = [["A", "B"], ["C", "B", 7], ["B", "D", 8, 0]], '
            'roles = {core = ["B"]}}',
            lambda: Topology(
                tuple("ABCD"),
                (LinkSpec("A", "B"), LinkSpec("C", "B", 7), LinkSpec("B", "D", 8, 0.0)),
                (Role("core", ("B",)),),
            ),
        ),
        ('{kind = "links", links = [], brokers = ["A"]}', lambda: Topology(("A",))),
    ],
)
def test_specs(text: str, expected) -> None:
    assert from_spec(toml(text)) == expected()


def test_a_transit_stub_spec_and_its_ground() -> None:
    text = (
        '{kind = "transit-stub", brokers = 12, seed = 3, overlay = "minimum", stub_nodes = 5, '
        "stub_latency_us = [100, 200], cost_max = 4}"
    )
    tree, ground = from_spec(toml(text)), placement_from_spec(toml(text))
    assert tree == ground.minimum_overlay(cost_max=4.0)
    assert ground.underlay.parameters.stub_nodes == 5
    bounded = from_spec(toml(text.replace('"minimum"', '"random", degree_max = 3')))
    assert bounded.brokers == tree.brokers
    assert bounded.degree_max <= 3


def test_a_passed_generator_serves_where_the_spec_has_no_seed() -> None:
    spec = {"kind": "random-tree", "brokers": 9}
    assert from_spec(spec, seeded(1)) == random_tree(9, rng=seeded(1))
    assert from_spec({**spec, "seed": 2}, seeded(1)) == random_tree(9, rng=seeded(2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{}",
            "kind: missing; expected one of chain, star, balanced-tree, random-tree, links, seed, "
            "transit-stub",
        ),
        (
            '{kind = "ring"}',
            "kind: expected one of chain, star, balanced-tree, random-tree, links, seed, "
            "transit-stub, found 'ring'",
        ),
        ('{kind = "chain"}', "brokers: missing; expected an integer from 1 to 10000"),
        (
            '{kind = "chain", brokers = "9"}',
            "brokers: expected an integer from 1 to 10000, found '9'",
        ),
        (
            '{kind = "chain", brokers = true}',
            "brokers: expected an integer from 1 to 10000, found true",
        ),
        ('{kind = "chain", brokers = 0}', "brokers: expected an integer from 1 to 10000, found 0"),
        (
            '{kind = "chain", brokers = 2, cost = "x"}',
            "cost: expected a number of at least 0, found 'x'",
        ),
        (
            '{kind = "chain", brokers = 2, cost = inf}',
            "cost: expected a number of at least 0, found inf",
        ),
        (
            '{kind = "star", brokers = 2, latency_us = "2h"}',
            "latency_us: expected an integer from 0 to 3600000000, found '2h'",
        ),
        (
            '{kind = "balanced-tree", brokers = 9, fan_out = 2, fanout = 2}',
            "fanout: unknown key; did you mean 'topology.fan_out'?",
        ),
        ('{kind = "balanced-tree", fan_out = 2}', "brokers: missing; expected it or depth"),
        (
            '{kind = "balanced-tree", fan_out = 2, brokers = 3, depth = 1}',
            "depth: brokers is there too; expected one of them",
        ),
        (
            '{kind = "balanced-tree", fan_out = 2, depth = 13}',
            "depth: with fan_out = 2 that is more than 10000 brokers",
        ),
        (
            '{kind = "random-tree", brokers = 9}',
            "seed: missing; expected it, for this kind is random",
        ),
        (
            '{kind = "random-tree", brokers = 9, seed = -1}',
            "seed: expected an integer of at least 0, found -1",
        ),
        (
            '{kind = "random-tree", brokers = 3, seed = 1, degree_max = 1}',
            "degree_max: expected at least 2 for 3 brokers",
        ),
        ('{kind = "seed"}', "name: missing; expected the name of one of the papers' networks"),
        ('{kind = "seed", name = 3}', "name: expected the name of one of the papers' networks, fo"),
        ('{kind = "seed", name = "x"}', "name: expected one of 000-c1-degree-3, "),
        (
            '{kind = "links", links = 3}',
            "links: expected an array, each [a, b] or [a, b, latency_us] or "
            "[a, b, latency_us, cost], found 3",
        ),
        (
            '{kind = "links", links = [["A", "B"], ["A"]]}',
            "links.1: expected [a, b] or [a, b, latency_us] or [a, b, latency_us, cost], "
            "found an array of 1",
        ),
        (
            '{kind = "links", links = [["A", "B", true]]}',
            "links.0.2: expected an integer from 0 to 3600000000, found true",
        ),
        (
            '{kind = "links", links = [["A", "B", 1, -2]]}',
            "links.0.3: expected a number of at least 0, found -2",
        ),
        ('{kind = "links", links = [["A", "B"]], roles = 1}', "roles: expected a table, found 1"),
        (
            '{kind = "links", links = [["A", "B"]], roles = {core = [1]}}',
            "roles.core.0: expected a string of 1 to 255 characters, found 1",
        ),
        (
            '{kind = "transit-stub", brokers = 3, seed = 1, overlay = "best"}',
            "overlay: expected one of minimum, random, found 'best'",
        ),
        (
            '{kind = "transit-stub", brokers = 3, seed = 1, stub_latency_us = 5}',
            "stub_latency_us: expected an array of 2, each an integer from 0 to 3600000000, "
            "found 5",
        ),
        (
            '{kind = "transit-stub", brokers = 3, seed = 1, overlay = "minimum", degree_max = 3}',
            "degree_max: only a random overlay has it",
        ),
        (
            '{kind = "transit-stub", brokers = 3, seed = 1, cost_min = 2, cost_max = 1}',
            "cost_min: more than cost_max, 1",
        ),
        (
            '{kind = "transit-stub", brokers = 33, seed = 1, stubs_per_transit_node = 0}',
            "brokers: expected 1 to the 32 nodes of the underlay",
        ),
    ],
)
def test_a_wrong_spec_names_the_key(text: str, said: str) -> None:
    with pytest.raises(TopologyError) as caught:
        from_spec(toml(text))
    assert str(caught.value).startswith(f"topology.{said}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{kind = "balanced-tree", brokers = 0, cost = -1, links = []}',
            [
                "topology.brokers: expected an integer from 1 to 10000, found 0",
                "topology.cost: expected a number of at least 0, found -1",
                "topology.links: unknown key; expected one of brokers, depth, fan_out, latency_us, "
                "cost",
                "topology.fan_out: missing; expected an integer of at least 1",
            ],
        ),
        (
            '{kind = "links", links = [["A"], ["A", "B", -1], ["B", ""]]}',
            [
                "topology.links.0: expected [a, b] or [a, b, latency_us] or "
                "[a, b, latency_us, cost], found an array of 1",
                "topology.links.1.2: expected an integer from 0 to 3600000000, found -1",
                "topology.links.2.1: expected a string of 1 to 255 characters, found ''",
            ],
        ),
        (
            '{kind = "transit-stub", brokers = 3, degree_max = 1, cost_min = 11, '
            "stubs_per_transit_node = 0, extra_stub_links = 1}",
            [
                "topology.extra_stub_links: expected 0 with fewer than two stub domains",
                "topology.degree_max: expected at least 2 for 3 brokers",
                "topology.cost_min: more than cost_max, 10",
            ],
        ),
    ],
)
def test_all_problems_of_a_spec_are_reported(text: str, said: list[str]) -> None:
    with pytest.raises(TopologyError) as caught:
        from_spec(toml(text))
    assert str(caught.value).splitlines() == said
    assert caught.value.subject == said[0].split(":")[0]


def test_a_latency_may_have_a_unit() -> None:
    assert from_spec(toml('{kind = "chain", brokers = 2, latency_us = "5ms"}')) == chain(
        2, latency_us=5_000
    )


def test_a_seed_may_be_larger_than_any_float() -> None:
    spec = {"kind": "random-tree", "brokers": 5, "seed": 10**400}
    assert from_spec(spec) == random_tree(5, rng=seeded(10**400))


def test_only_a_transit_stub_has_a_ground() -> None:
    with pytest.raises(TopologyError, match=r"topology\.kind: expected transit-stub"):
        placement_from_spec({"kind": "chain", "brokers": 2})


def test_a_ground_needs_a_seed_or_a_generator() -> None:
    with pytest.raises(TopologyError, match=r"topology\.seed: missing"):
        placement_from_spec({"kind": "transit-stub", "brokers": 2})


# --- the page -------------------------------------------------------------------------------------


def test_the_page_names_every_kind_and_seed_tree() -> None:
    """The tables of keys are compared in tests/docs."""
    kinds = [spec.__struct_config__.tag for spec in get_args(TopologySpec)]
    assert re.findall(r"^\| `([\w-]+)` \| [^|]+ \|$", PAGE.partition("### ")[0], re.M) == kinds
    for name in seed_names():
        assert f"`{name}`" in PAGE
