"""Path computation equals the naive oracle, and copies reach every matching broker exactly once."""

from collections import Counter
from itertools import product
from random import Random

import pytest

from byway.core.mesh import OverlayMaps, Strategy
from tests.mesh_oracle import (
    Edges,
    Graph,
    NaiveMaps,
    Walk,
    random_edges,
    rooted_trees,
    subsets,
)

STRATEGIES: tuple[Strategy, ...] = ("S0", "S1", "S2")
RUNS = 300
WALKS = 400
SEEDS = [1, 2, 3, pytest.param(None, id="fresh")]


def seeded(seed: int | None) -> Random:
    """Random numbers of a seed; without one, of a fresh seed, which a test that fails prints."""
    chosen = Random().randrange(10**9) if seed is None else seed
    print(f"seed {chosen}")
    return Random(chosen)


def check_maps(
    maps: OverlayMaps, naive: NaiveMaps, brokers: set[str], anchor_sets: list[set[str]]
) -> None:
    assert set(maps.order) == naive.links
    for broker in sorted(naive.near):
        assert maps.substitute(broker) == naive.substitutes[broker]
    for place, n in enumerate(maps.order):
        assert maps.between(n) == naive.between(n)
        assert maps.beyond(n) == naive.beyond(n)
        assert maps.behind(n) == naive.behind(n)
        assert maps.between(n) <= set(maps.order[: place + 1])
    hops = [naive.wom.distance(naive.at, n) for n in maps.order]
    assert hops == sorted(hops)
    upstream = [None, *sorted(naive.tree.around(naive.at) & brokers)]
    for anchors in anchor_sets:
        assert maps.unreachable(anchors) == sorted(
            a for a in anchors if a != naive.at and naive.substitutes.get(a) is None
        )
        for came_from, strategy in product(upstream, STRATEGIES):
            receivers = maps.forward(anchors, strategy, came_from)
            assert receivers == naive.forward(anchors, strategy, came_from)
            check_shares(naive, receivers, naive.downstream(anchors, came_from))


def check_shares(naive: NaiveMaps, receivers: list[str], targets: set[str]) -> None:
    """Each target is behind exactly one receiver, and no receiver is there for nothing."""
    shares = [naive.beyond(receiver) & targets for receiver in receivers]
    assert all(shares)
    assert Counter(n for share in shares for n in share) == dict.fromkeys(targets, 1)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_small_trees_with_all_link_sets(size: int) -> None:
    for edges in rooted_trees(size):
        tree = Graph(edges)
        brokers = {b for edge in edges for b in edge}
        primary = tree.around("A")
        for soft in subsets(brokers - primary - {"A"}):
            for down in subsets(primary | soft):
                maps = OverlayMaps.build("A", edges, size, soft, down=down)
                naive = NaiveMaps("A", edges, size, (primary | soft) - down)
                check_maps(maps, naive, brokers, list(subsets(brokers)))


def random_links(rng: Random, tree: Graph, at: str, brokers: set[str]) -> tuple[set[str], set[str]]:
    """Soft links and what is down."""
    likely = rng.choice([0, 0.3, 0.6, 1])
    dying = rng.choice([0, 0, 0.3, 0.6])
    primary = tree.around(at)
    soft = {b for b in sorted(brokers - primary - {at}) if rng.random() < likely}
    return soft, {b for b in sorted(primary | soft) if rng.random() < dying}


@pytest.mark.parametrize("seed", SEEDS)
def test_larger_trees_with_random_link_sets(seed: int | None) -> None:
    rng = seeded(seed)
    for _ in range(RUNS):
        edges = random_edges(rng, rng.randint(2, 12))
        tree = Graph(edges)
        brokers = {b for edge in edges for b in edge}
        at, delta = rng.choice(sorted(brokers)), rng.randint(1, 5)
        primary = tree.around(at)
        soft, down = random_links(rng, tree, at, brokers)
        candidates = {b for b in sorted(brokers) if rng.random() < 0.3}
        maps = OverlayMaps.build(at, edges, delta, soft, candidates, down)
        naive = NaiveMaps(at, edges, delta, (primary | soft) - down)
        anchor_sets = [set(rng.sample(sorted(brokers), rng.randint(0, len(brokers))))
                       for _ in range(4)]  # fmt: skip
        check_maps(maps, naive, brokers, anchor_sets)
        counted = NaiveMaps(
            at, edges, delta, ((primary | soft) - down) | (candidates - soft - primary - {at})
        )
        for anchors, strategy in product(anchor_sets, STRATEGIES):
            assert maps.profile(anchors, strategy) == counted.forward(anchors, strategy, None)
        again = OverlayMaps.build(at, rng.sample(edges, len(edges)), delta)
        changed = again.with_links(soft, candidates, down)
        assert changed.working.between == maps.working.between
        assert changed.working.beyond == maps.working.beyond
        assert changed.working.behind == maps.working.behind
        assert changed.order == maps.order


def dead_pairs(rng: Random, pairs: list[frozenset[str]]) -> set[frozenset[str]]:
    dying = rng.choice([0, 0, 0.1, 0.4])
    return {pair for pair in pairs if rng.random() < dying}


def a_walk(rng: Random) -> tuple[Walk, set[str], bool]:
    """A publication through a network where every broker has links, Δ and a strategy of its own."""
    edges: Edges = random_edges(rng, rng.randint(2, 12))
    tree = Graph(edges)
    brokers = sorted({b for edge in edges for b in edge})
    delta = rng.randint(1, 5)
    mixed = rng.random() < 0.5
    deltas = {b: rng.randint(1, 5) if mixed else delta for b in brokers}
    likely = rng.choice([0, 0.3, 0.6, 1])
    soft = {
        at: {b for b in brokers if tree.distance(at, b) > 1 and rng.random() < likely}
        for at in brokers
    }
    pairs = sorted(
        {*map(frozenset, edges), *(frozenset((at, b)) for at in brokers for b in soft[at])},
        key=sorted,
    )
    dead = dead_pairs(rng, pairs)
    maps = {
        at: OverlayMaps.build(
            at, edges, deltas[at], soft[at], down={b for b in brokers if frozenset((at, b)) in dead}
        )
        for at in brokers
    }
    matching = set(rng.sample(brokers, rng.randint(1, len(brokers))))
    walk = Walk(edges, deltas, matching)

    def send(at: str, anchors: set[str], came_from: str | None) -> list[str]:
        receivers = maps[at].forward(anchors, rng.choice(STRATEGIES), came_from)
        for receiver in receivers:
            assert frozenset((at, receiver)) not in dead
        return receivers

    walk.publish(rng.choice(brokers), send)
    return walk, matching, bool(dead)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_matching_broker_gets_one_copy(seed: int | None) -> None:
    """Or none, if some broker on the way could not reach its anchor: then one broker says so, and
    nobody else serves it."""
    rng = seeded(seed)
    served = unserved = 0
    for _ in range(WALKS):
        walk, matching, anything_dead = a_walk(rng)
        assert walk.delivered + walk.unserved == dict.fromkeys(matching, 1)
        assert anything_dead or not walk.unserved
        served += len(walk.delivered)
        unserved += len(walk.unserved)
    assert served > unserved > 0  # both were tried
