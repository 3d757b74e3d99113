"""Resolving: which brokers and which times a scenario means.

A place is a word, a role or broker names, and means brokers of a topology. A window that is not
given in full means the run after its warm-up. Whatever cannot be resolved raises `ScenarioError`
with the key at fault. Nothing is built here.
"""

from __future__ import annotations

import numpy as np

from byway.model.errors import TopologyError, shortened
from byway.model.options import joined
from byway.sim.scenario.fault_spec import RandomFaults
from byway.sim.scenario.schema import Churn, Scenario, ScenarioError, SubscriptionMoves
from byway.sim.scenario.value_types import Place
from byway.sim.topology.tree import Topology

# --- brokers --------------------------------------------------------------------------------------


def brokers_of(key: str, place: Place, topology: Topology) -> tuple[str, ...]:
    """The brokers that a word, a role or names mean; `key` is at fault if there are none."""
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


def homes_of(
    key: str,
    place: Place,
    count: int,
    topology: Topology,
    rng: np.random.Generator,
    *,
    apart: bool = False,
) -> list[str]:
    """The home brokers of `count` clients: in turn, or for `random` drawn one by one; `apart`: in
    turn, in a random order."""
    brokers = brokers_of(key, place, topology)
    if apart:
        shuffled = [brokers[number] for number in rng.permutation(len(brokers)).tolist()]
        return [shuffled[number % len(shuffled)] for number in range(count)]
    if place == "random":
        return [brokers[number] for number in rng.integers(len(brokers), size=count).tolist()]
    return [brokers[number % len(brokers)] for number in range(count)]


def group_of(key: str, name: str, topology: Topology) -> tuple[str, ...]:
    """The broker of this name, or the brokers of a role or word."""
    return (name,) if name in topology else brokers_of(key, name, topology)


def check_broker(key: str, name: str, topology: Topology) -> None:
    """Raise `ScenarioError` unless the topology has a broker of this name."""
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


# --- times ----------------------------------------------------------------------------------------

Window = Churn | SubscriptionMoves | RandomFaults
"""A table with a beginning and an end, both of which may be left out."""


def check_before_end(key: str, time_s: float, scenario: Scenario) -> None:
    """Raise `ScenarioError` unless a time comes before the end of the run."""
    if time_s >= scenario.duration_s:
        end = f"the run ends at {scenario.duration_s:g} s"
        raise ScenarioError(key, f"{time_s:g} s is too late: {end}")


def check_window(key: str, window: Window, needed_s: float, scenario: Scenario) -> None:
    """Raise `ScenarioError` unless a window lies within the run and lasts `needed_s`."""
    from_s, to_s = window_of(window, scenario)
    if to_s > scenario.duration_s:
        raise ScenarioError(f"{key}.to_s", f"the run ends at {scenario.duration_s:g} s")
    if to_s - from_s < needed_s or to_s <= from_s:
        reason = f"from {from_s:g} s to {to_s:g} s there are less than {needed_s:g} s"
        raise ScenarioError(f"{key}.from_s", reason if needed_s else "must be less than to_s")


def window_of(window: Window, scenario: Scenario) -> tuple[float, float]:
    """The beginning and the end of a window in seconds: the warm-up's end and the run's end unless
    given."""
    from_s = scenario.warmup_s if window.from_s is None else window.from_s
    return from_s, scenario.duration_s if window.to_s is None else window.to_s
