"""Shapes: topologies that are chains, stars, balanced or random trees of so many brokers.

The shapes themselves are those of `byway.model.tree_shapes`; here they get broker names, latencies
and costs, and numbers out of range are refused. Brokers are called B1, B2, …. This file knows
nothing of the papers' own networks (`seed_trees`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from byway.model import tree_shapes
from byway.model.errors import TopologyError
from byway.model.tree_shapes import (
    balanced_parents,
    chain_parents,
    links_of,
    numbered_names,
    star_parents,
)
from byway.sim.topology.tree import BROKERS_MAX, COST_DEFAULT, LATENCY_US_DEFAULT, Topology


def broker_names(count: int) -> tuple[str, ...]:
    """The names B1 … Bn, padded to one width. Raises `TopologyError` for a number out of range."""
    if not 1 <= count <= BROKERS_MAX:
        raise TopologyError(f"brokers = {count}", f"expected 1 to {BROKERS_MAX}")
    return numbered_names("B", count)


def seeded(seed: int) -> np.random.Generator:
    """The random generator of a seed: the same numbers on every machine with the same numpy."""
    if seed < 0:
        raise TopologyError(f"seed = {seed}", "expected an integer from 0 up")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def chain(
    brokers: int, *, latency_us: int = LATENCY_US_DEFAULT, cost: float = COST_DEFAULT
) -> Topology:
    """The chain B1-B2-…-Bn."""
    return _tree(chain_parents(brokers), brokers, latency_us, cost)


def star(
    brokers: int, *, latency_us: int = LATENCY_US_DEFAULT, cost: float = COST_DEFAULT
) -> Topology:
    """The star with B1 in the middle and all others linked to it."""
    return _tree(star_parents(brokers), brokers, latency_us, cost)


def balanced_tree(
    brokers: int | None = None,
    *,
    fan_out: int,
    depth: int | None = None,
    latency_us: int = LATENCY_US_DEFAULT,
    cost: float = COST_DEFAULT,
) -> Topology:
    """A tree filled level by level from B1, each level from the left, `fan_out` children each.

    Give the number of brokers, or the depth of a complete tree in links (0: B1 alone).
    """
    if fan_out < 1:
        raise TopologyError(f"fan_out = {fan_out}", "expected an integer from 1 up")
    if (brokers is None) == (depth is None):
        raise TopologyError("balanced tree", "expected one of brokers and depth")
    if depth is not None:
        brokers = complete_size(fan_out, depth)
    assert brokers is not None
    return _tree(balanced_parents(brokers, fan_out), brokers, latency_us, cost)


def random_tree(
    brokers: int,
    *,
    rng: np.random.Generator,
    degree_max: int | None = None,
    latency_us: int = LATENCY_US_DEFAULT,
    cost: float = COST_DEFAULT,
) -> Topology:
    """Each broker in turn is linked to a random earlier one of fewer than `degree_max` links."""
    broker_names(brokers)  # refuses a number out of range before anything is drawn
    parents = random_parents(brokers, degree_max, rng)
    return _tree(parents, brokers, latency_us, cost)


def random_parents(count: int, degree_max: int | None, rng: np.random.Generator) -> Iterator[int]:
    """The parents of brokers 1 … count - 1, as `tree_shapes.random_parents` draws them."""
    return tree_shapes.random_parents(count, lambda below: int(rng.integers(below)), degree_max)


def complete_size(fan_out: int, depth: int) -> int:
    """The number of brokers of a complete tree. Raises `TopologyError` above the bound."""
    if depth < 0:
        raise TopologyError(f"depth = {depth}", "expected an integer from 0 up")
    total = level = 1
    for _ in range(depth):
        level *= fan_out
        total += level
        if total > BROKERS_MAX:
            reason = f"with fan_out = {fan_out} that is more than {BROKERS_MAX} brokers"
            raise TopologyError(f"depth = {depth}", reason)
    return total


def _tree(parents: Iterable[int], brokers: int, latency_us: int, cost: float) -> Topology:
    """The tree in which broker number i + 1 hangs from number `parents[i]`, counted from 0."""
    names = broker_names(brokers)
    return Topology.of(links_of(names, parents), brokers=names, latency_us=latency_us, cost=cost)
