"""Shapes: chains, stars, balanced and random trees of so many brokers.

Brokers are called B1, B2, … with as many digits as the last one needs, so that sorting their names
keeps their order. This file knows nothing of the seeds' own networks.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import numpy as np

from byway.model.errors import TopologyError
from byway.sim.topology.tree import BROKERS_MAX, COST_DEFAULT, LATENCY_US_DEFAULT, Topology


def broker_names(count: int) -> tuple[str, ...]:
    """B1 … Bn, padded to one width."""
    if not 1 <= count <= BROKERS_MAX:
        raise TopologyError(f"brokers = {count}", f"expected 1 to {BROKERS_MAX}")
    width = len(str(count))
    return tuple(f"B{number:0{width}}" for number in range(1, count + 1))


def seeded(seed: int) -> np.random.Generator:
    """The generator of a seed: the same numbers on every machine with the same numpy."""
    if seed < 0:
        raise TopologyError(f"seed = {seed}", "expected an integer from 0 up")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def chain(
    brokers: int, *, latency_us: int = LATENCY_US_DEFAULT, cost: float = COST_DEFAULT
) -> Topology:
    """B1-B2-…-Bn."""
    return _tree(range(brokers - 1), brokers, latency_us, cost)


def star(
    brokers: int, *, latency_us: int = LATENCY_US_DEFAULT, cost: float = COST_DEFAULT
) -> Topology:
    """B1 in the middle, all others linked to it."""
    return _tree(repeat(0, max(0, brokers - 1)), brokers, latency_us, cost)


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
        brokers = _complete(fan_out, depth)
    assert brokers is not None
    parents = ((child - 1) // fan_out for child in range(1, brokers))
    return _tree(parents, brokers, latency_us, cost)


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


def random_parents(count: int, degree_max: int | None, rng: np.random.Generator) -> list[int]:
    """For numbers 1 … count - 1 the earlier number it hangs from."""
    bound = max(1, count) if degree_max is None else degree_max
    needed = 2 if count > 2 else 1
    if bound < needed:
        expected = f"expected at least {needed} for {count} brokers"
        raise TopologyError(f"degree_max = {bound}", expected)
    free, degrees, parents = [0], [0] * max(1, count), []
    for child in range(1, count):
        place = int(rng.integers(len(free)))
        parent = free[place]
        parents.append(parent)
        degrees[parent] += 1
        degrees[child] = 1
        if degrees[parent] == bound:
            free[place] = free[-1]
            free.pop()
        if bound > 1:
            free.append(child)
    return parents


def _complete(fan_out: int, depth: int) -> int:
    """Brokers of a complete tree; stops counting above the bound."""
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
    edges = ((names[parent], names[child]) for child, parent in enumerate(parents, start=1))
    return Topology.of(edges, brokers=names, latency_us=latency_us, cost=cost)
