"""Building: a scenario and a seed become a world with everything scheduled.

It decides nothing about what happens in the world; it hands each part of the scenario to the file
that does, and translates units.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.model.errors import TopologyError
from byway.sim.engine.network import NetworkOptions
from byway.sim.engine.service import load_profile
from byway.sim.engine.sim_client import SimClient
from byway.sim.scenario.check import check_on
from byway.sim.scenario.faults import faults_of, start_faults
from byway.sim.scenario.monitors import start_monitors, start_probes
from byway.sim.scenario.publishers import start_publishers
from byway.sim.scenario.random_streams import Purpose, derived_seed, stream
from byway.sim.scenario.schema import (
    BrokerSpec,
    Fault,
    Network,
    Scenario,
    ScenarioError,
    microseconds,
)
from byway.sim.scenario.stage import Stage
from byway.sim.scenario.steps import start_steps
from byway.sim.scenario.subscribers import Subscribers
from byway.sim.scenario.workload_source import generator_of
from byway.sim.topology.topology_spec import from_spec
from byway.sim.topology.tree import Topology
from byway.sim.world import World
from byway.trace import TraceWriter

_TIMES: Final = {
    "session_ttl_s_max": "session_ttl_us_max",
    "sync_wait_s": "sync_wait_us",
    "restore_grace_s": "restore_grace_us",
    "load_interval_s": "load_interval_us",
    "statistics_window_s": "statistics_window_us",
    "retire_interval_s": "retire_interval_us",
    "retire_after_s": "retire_after_us",
}
_NAMED_KEY: Final = re.compile(r"topology key '(\w+)'|(\w+) = .*")


class BuiltScenario(NamedTuple):
    """A run that can be built: all that can be wrong with its scenario and seed was looked at."""

    scenario: Scenario
    seed: int
    topology: Topology
    faults: list[Fault]


def plan_of(scenario: Scenario, seed: int) -> BuiltScenario:
    """Raises `ScenarioError` if the scenario does not fit its topology."""
    topology = topology_of(scenario, seed)
    check_on(scenario, topology)
    return BuiltScenario(scenario, seed, topology, faults_of(scenario, seed, topology))


def build(
    plan: BuiltScenario, trace: TraceWriter | None = None
) -> tuple[World, dict[str, SimClient]]:
    """The world of a run, and the clients that the scenario names itself."""
    scenario, seed, topology, faults = plan
    world = World(
        topology,
        seed=derived_seed(seed, Purpose.WORLD),
        config=configs_of(scenario, topology),
        profile=load_profile(scenario.brokers.profile),
        network=network_of(scenario.network),
        trace=trace,
        sample_us=microseconds(scenario.sample_s),
    )
    stage = Stage(scenario, seed, topology, world)
    clients = start_steps(stage)
    workload = scenario.workload
    if workload is not None:
        generator = generator_of(workload, derived_seed(seed, Purpose.WORKLOAD))
        start_publishers(stage, workload, generator)
        Subscribers(stage, workload, generator).start()
    start_monitors(stage)
    if scenario.probe is not None:
        start_probes(stage, scenario.probe)
    start_faults(stage, faults)
    _hurry(world, microseconds(scenario.brokers.instant_until_s))
    return world, clients


def _hurry(world: World, until_us: int) -> None:
    """Nothing takes any time until then."""
    if not until_us:
        return

    def end() -> None:
        for node in world.nodes.values():
            node.slowness = 1.0

    for node in world.nodes.values():
        node.slowness = 0.0
    world.at(until_us, end)


def topology_of(scenario: Scenario, seed: int) -> Topology:
    """The brokers and links of a run; raises `ScenarioError` with the key at fault."""
    try:
        return from_spec(scenario.topology, stream(seed, Purpose.TOPOLOGY))
    except TopologyError as error:
        named = _NAMED_KEY.fullmatch(error.subject)
        if named is None:
            raise ScenarioError("topology", str(error)) from None
        reason = error.reason if named[1] else str(error)
        raise ScenarioError(f"topology.{named[1] or named[2]}", reason) from None


def configs_of(scenario: Scenario, topology: Topology) -> dict[str, BrokerConfig]:
    """The settings of each broker: the default, what all have, what it has itself."""
    common = _config(BrokerConfig(), scenario.brokers)
    at = scenario.brokers.at
    return {name: _config(common, at[name]) if name in at else common for name in topology.brokers}


def _config(config: BrokerConfig, settings: BrokerSpec) -> BrokerConfig:
    """`config` with what is given; the broker counts times in microseconds."""
    changed: dict[str, Any] = {}
    for field in msgspec.structs.fields(BrokerSpec):
        given = getattr(settings, field.name)
        if given is not None and field.name in _TIMES:
            changed[_TIMES[field.name]] = microseconds(given)
        elif given is not None:
            changed[field.name] = given
    return msgspec.structs.replace(config, **changed)


def network_of(network: Network) -> NetworkOptions:
    """What the simulated network is told."""
    return NetworkOptions(
        latency_us=None if network.latency_ms is None else _from_ms(network.latency_ms),
        bandwidth_bytes_per_s=network.bandwidth_bytes_per_s,
        uplink_bytes_per_s=network.uplink_bytes_per_s,
        uplink_messages_per_s=network.uplink_messages_per_s,
        reconnect_us=_from_ms(network.reconnect_ms),
        reattach_us=_from_ms(network.reattach_ms),
    )


def _from_ms(milliseconds: float) -> int:
    return round(milliseconds * 1_000)
