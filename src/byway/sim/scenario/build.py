"""Building: a scenario and a seed become a world with everything scheduled.

It decides nothing about what happens in the world: it hands each table of the scenario to the file
that does, and converts units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from byway.core.broker_config import BrokerConfig
from byway.model.errors import TopologyError
from byway.sim.engine.network import NetworkOptions
from byway.sim.engine.node_storage import StorageOptions
from byway.sim.engine.service import load_profile
from byway.sim.engine.sim_client import SimClient
from byway.sim.scenario.check import check_on
from byway.sim.scenario.fault_spec import Fault
from byway.sim.scenario.faults import faults_of, start_faults
from byway.sim.scenario.listed_clients import start_monitors, start_probes, start_steps
from byway.sim.scenario.publishers import start_publishers
from byway.sim.scenario.random_streams import Purpose, derived_seed, stream
from byway.sim.scenario.run_context import RunContext
from byway.sim.scenario.schema import Network, Scenario, ScenarioError
from byway.sim.scenario.subscribers import Subscribers
from byway.sim.scenario.value_types import microseconds
from byway.sim.scenario.workload_source import generator_of, sized
from byway.sim.topology.topology_spec import build_topology
from byway.sim.topology.tree import Topology
from byway.sim.world import World

if TYPE_CHECKING:
    from byway.trace import TraceWriter


class RunPlan(NamedTuple):
    """A scenario that was checked on its topology, and the faults that its seed draws."""

    scenario: Scenario
    seed: int
    topology: Topology
    faults: list[Fault]

    @property
    def end_us(self) -> int:
        """The time after which the scenario starts nothing new."""
        return microseconds(self.scenario.duration_s)

    def rng(self, purpose: Purpose) -> np.random.Generator:
        """The random numbers of this run for one purpose, from the first one on."""
        return stream(self.seed, purpose)


def plan_of(scenario: Scenario, seed: int) -> RunPlan:
    """The plan of a run. Raises `ScenarioError` if the scenario does not fit its topology."""
    topology = topology_of(scenario, seed)
    check_on(scenario, topology)
    return RunPlan(scenario, seed, topology, faults_of(scenario, seed, topology))


def build(plan: RunPlan, trace: TraceWriter | None = None) -> tuple[World, dict[str, SimClient]]:
    """Build the world of a run and schedule all that the scenario says. Returns the world, and by
    name the clients of `[[client]]`."""
    scenario, seed, topology, faults = plan
    world = World(
        topology,
        config=configs_of(scenario, topology),
        profile=load_profile(scenario.brokers.profile),
        network=network_of(scenario.network),
        trace=trace,
        sample_us=microseconds(scenario.sample_s),
        storage=storage_of(scenario, topology),
        disk_seed=derived_seed(seed, Purpose.DISKS),
        seed=derived_seed(seed, Purpose.BROKERS),
    )
    context = RunContext(scenario, seed, topology, world)
    clients = start_steps(context)
    workload = scenario.workload
    if workload is not None:
        generator = generator_of(workload, derived_seed(seed, Purpose.WORKLOAD))
        workload = sized(workload, generator)
        start_publishers(context, workload, generator)
        Subscribers(context, workload, generator).start()
    start_monitors(context)
    if scenario.probe is not None:
        start_probes(context, scenario.probe)
    start_faults(context, faults)
    _suspend_service_times(world, microseconds(scenario.brokers.instant_until_s))
    return world, clients


def _suspend_service_times(world: World, until_us: int) -> None:
    """Let brokers need no time for anything until then."""
    if not until_us:
        return

    def end() -> None:
        for node in world.nodes.values():
            node.slowness = 1.0

    for node in world.nodes.values():
        node.slowness = 0.0
    world.at(until_us, end)


def topology_of(scenario: Scenario, seed: int) -> Topology:
    """The brokers and links of a run; raises `ScenarioError` if the links make no tree."""
    try:
        return build_topology(scenario.topology, stream(seed, Purpose.TOPOLOGY))
    except TopologyError as error:
        raise ScenarioError("topology", str(error)) from None


def configs_of(scenario: Scenario, topology: Topology) -> dict[str, BrokerConfig]:
    """The settings of each broker: the default, what all have, what it has itself."""
    common = scenario.brokers.applied_to(BrokerConfig())
    at = scenario.brokers.at
    return {
        name: at[name].applied_to(common) if name in at else common for name in topology.brokers
    }


def storage_of(scenario: Scenario, topology: Topology) -> dict[str, StorageOptions]:
    """By broker, what it keeps on its disk."""
    common = scenario.brokers.applied_to(StorageOptions())
    at = scenario.brokers.at
    return {
        name: at[name].applied_to(common) if name in at else common for name in topology.brokers
    }


def network_of(network: Network) -> NetworkOptions:
    """The options of the simulated network, in its units."""
    return NetworkOptions(
        latency_us=_from_ms_or_none(network.latency_ms),
        soft_latency_us=_from_ms_or_none(network.soft_latency_ms),
        bandwidth_bytes_per_s=network.bandwidth_bytes_per_s,
        uplink_bytes_per_s=network.uplink_bytes_per_s,
        uplink_messages_per_s=network.uplink_messages_per_s,
        uplink_from_us=microseconds(network.uplink_from_s),
        reconnect_us=_from_ms(network.reconnect_ms),
        client_latency_us=_from_ms(network.client_latency_ms),
        reattach_us=_from_ms(network.reattach_ms),
        codec=network.codec,
    )


def _from_ms_or_none(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else _from_ms(milliseconds)


def _from_ms(milliseconds: float) -> int:
    return round(milliseconds * 1_000)
