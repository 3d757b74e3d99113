"""Checks of faults: when they happen, and to what."""

from __future__ import annotations

from collections.abc import Iterable

from byway.model.errors import TopologyError
from byway.model.options import joined
from byway.sim.engine.node_storage import StorageOptions
from byway.sim.scenario.fault_spec import Crash, Cut, Delay, Disk, Fault, Partition, Slow
from byway.sim.scenario.resolve import check_before_end, check_broker
from byway.sim.scenario.schema import Scenario, ScenarioError
from byway.sim.topology.tree import Topology


def subject_of(fault: Fault) -> tuple[str, ...]:
    """What a fault happens to, by name: a broker, the ends of a link, or some brokers."""
    match fault:
        case Crash(broker=broker) | Slow(broker=broker) | Disk(broker=broker):
            return (broker,)
        case Cut(link=link) | Delay(link=link):
            return tuple(sorted(link))
        case Partition(brokers=brokers):
            return tuple(sorted(set(brokers)))


def overlaps(fault: Fault, others: Iterable[Fault]) -> bool:
    """Whether another fault of this kind happens to the same thing at the same time."""
    return any(
        type(other) is type(fault)
        and subject_of(other) == subject_of(fault)
        and fault.at_s <= other.at_s + other.for_s
        and other.at_s <= fault.at_s + fault.for_s
        for other in others
    )


def check_fault_times(scenario: Scenario) -> None:
    """Raise `ScenarioError` unless faults end in time, and none begins before it is over."""
    for number, fault in enumerate(scenario.faults):
        key = f"faults.{number}"
        check_before_end(f"{key}.at_s", fault.at_s, scenario)
        if fault.at_s + fault.for_s > scenario.duration_s:
            end = f"the run ends at {scenario.duration_s:g} s"
            raise ScenarioError(f"{key}.for_s", f"lasts to {fault.at_s + fault.for_s:g} s, {end}")
        if overlaps(fault, scenario.faults[:number]):
            reason = "an earlier fault of this kind is not over, and is about the same"
            raise ScenarioError(f"{key}.at_s", reason)


def check_fault_on(fault: Fault, key: str, scenario: Scenario, topology: Topology) -> None:
    """Raise `ScenarioError` unless what a fault happens to is there."""
    match fault:
        case Crash(broker=broker):
            check_broker(f"{key}.broker", broker, topology)
            _check_crash(fault, key, disk_of(scenario, broker))
        case Slow(broker=broker):
            check_broker(f"{key}.broker", broker, topology)
        case Disk(broker=broker):
            check_broker(f"{key}.broker", broker, topology)
            if not disk_of(scenario, broker).has_disk:
                raise ScenarioError(f"{key}.broker", f"{broker} has neither data nor state_dir")
        case Cut(link=link) | Delay(link=link):
            _check_link(f"{key}.link", link, topology)
        case Partition(brokers=brokers):
            for number, name in enumerate(brokers):
                check_broker(joined(f"{key}.brokers", number), name, topology)
            if set(brokers) >= set(topology.brokers):
                raise ScenarioError(
                    f"{key}.brokers", "names all brokers; at least one must be on the other side"
                )


def disk_of(scenario: Scenario, broker: str) -> StorageOptions:
    """What a broker keeps on its disk."""
    common = scenario.brokers.applied_to(StorageOptions())
    own = scenario.brokers.at.get(broker)
    return common if own is None else own.applied_to(common)


def _check_crash(fault: Crash, key: str, disk: StorageOptions) -> None:
    for name in ("power", "torn", "stale"):
        if getattr(fault, name) and not disk.data:
            raise ScenarioError(f"{key}.{name}", f"{fault.broker} has no data")
    if fault.stale and fault.stored is False:
        raise ScenarioError(f"{key}.stale", "stored is false, so there is no journal")


def _check_link(key: str, link: tuple[str, str], topology: Topology) -> None:
    for number, name in enumerate(link):
        check_broker(joined(key, number), name, topology)
    try:
        topology.link(*link)
    except TopologyError:
        around = ", ".join(topology.neighbours(link[0]))
        reason = f"{link[0]} and {link[1]} are not neighbours; those of {link[0]} are: {around}"
        raise ScenarioError(key, reason) from None
