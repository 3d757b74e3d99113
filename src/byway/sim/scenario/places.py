"""Places: which brokers the words of a scenario mean on a topology."""

from __future__ import annotations

import numpy as np

from byway.model.errors import TopologyError, shortened
from byway.model.options import joined
from byway.sim.scenario.schema import ScenarioError
from byway.sim.scenario.value_types import Place
from byway.sim.topology.tree import Topology


def brokers_of(key: str, place: Place, topology: Topology) -> tuple[str, ...]:
    """The brokers meant by a word, a role or names; `key` is blamed if there are none."""
    if not isinstance(place, str):
        for number, name in enumerate(place):
            check_broker(joined(key, number), name, topology)
        return place
    if place in ("all", "random"):
        return topology.brokers
    if place == "leaves":
        return topology.leaves
    if place == "inner":
        leaves = set(topology.leaves)
        found = tuple(name for name in topology.brokers if name not in leaves)
    else:
        found = _role(key, place, topology)
    if not found:
        raise ScenarioError(key, f"{place!r} means no broker of this topology")
    return found


def places(
    key: str, place: Place, count: int, topology: Topology, rng: np.random.Generator
) -> list[str]:
    """A broker for each of `count` clients: in turn, or for `random` drawn one by one."""
    brokers = brokers_of(key, place, topology)
    if place == "random":
        return [brokers[number] for number in rng.integers(len(brokers), size=count).tolist()]
    return [brokers[number % len(brokers)] for number in range(count)]


def group_of(key: str, name: str, topology: Topology) -> tuple[str, ...]:
    """The broker of that name, or those of a role or word."""
    return (name,) if name in topology else brokers_of(key, name, topology)


def check_broker(key: str, name: str, topology: Topology) -> None:
    """Raise `ScenarioError` unless there is such a broker."""
    if name not in topology:
        known = topology.brokers
        there = f"there are {len(known)}, from {known[0]} to {known[-1]}"
        raise ScenarioError(key, f"there is no broker {shortened(name)!r}; {there}")


def _role(key: str, name: str, topology: Topology) -> tuple[str, ...]:
    try:
        return topology.role(name)
    except TopologyError:
        words = ["all", "leaves", "inner", "random", *(role.name for role in topology.roles)]
        expected = f"expected one of {', '.join(words)}, or an array of brokers"
        raise ScenarioError(key, f"{expected}, found {shortened(name)!r}") from None
