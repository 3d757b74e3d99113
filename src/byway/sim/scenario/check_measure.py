"""Checks of what is measured, and of monitors and probes."""

from __future__ import annotations

from byway.model import BywayError, parse
from byway.sim.scenario.fault_spec import Crash, Disk
from byway.sim.scenario.resolve import brokers_of, check_before_end, group_of
from byway.sim.scenario.schema import MeasureSpec, Scenario, ScenarioError
from byway.sim.topology.tree import Topology


def check_measure(scenario: Scenario) -> None:
    """Raise `ScenarioError` unless times fit and filters can be read."""
    for number, monitor in enumerate(scenario.monitor):
        check_before_end(f"monitor.{number}.from_s", monitor.from_s, scenario)
        try:
            parse(monitor.filter)
        except BywayError as error:
            raise ScenarioError(f"monitor.{number}.filter", str(error)) from None
    probe, measure = scenario.probe, scenario.measure
    if probe is not None:
        last_s = probe.at_s + (probe.count - 1) * probe.gap_s
        check_before_end("probe.at_s", last_s, scenario)
        if measure is None:
            raise ScenarioError("probe", "needs a [measure] table")
    if measure is not None:
        _check_window(measure, scenario)
        faults = scenario.faults_random
        crashes = any(isinstance(fault, Crash | Disk) for fault in scenario.faults)
        if crashes or (faults is not None and (faults.crashes or faults.disks)):
            raise ScenarioError("measure", "cannot be combined with crashes of brokers")
    until_s = scenario.brokers.instant_until_s
    if until_s:
        check_before_end("brokers.instant_until_s", until_s, scenario)


def _check_window(measure: MeasureSpec, scenario: Scenario) -> None:
    check_before_end("measure.from_s", measure.from_s, scenario)
    to_s = scenario.duration_s if measure.to_s is None else measure.to_s
    if to_s > scenario.duration_s:
        raise ScenarioError("measure.to_s", f"the run ends at {scenario.duration_s:g} s")
    for key, from_s in (("from_s", measure.from_s), ("tables_from_s", measure.tables_from_s)):
        if from_s is not None and from_s > to_s:
            raise ScenarioError(f"measure.{key}", f"{from_s:g} s is after the end, {to_s:g} s")


def check_measure_on(scenario: Scenario, topology: Topology) -> None:
    """Raise `ScenarioError` unless the brokers are there."""
    for number, monitor in enumerate(scenario.monitor):
        brokers_of(f"monitor.{number}.at", monitor.at, topology)
    if scenario.probe is not None:
        brokers_of("probe.publishers_at", scenario.probe.publishers_at, topology)
        brokers_of("probe.subscribers_at", scenario.probe.subscribers_at, topology)
    if scenario.measure is not None:
        for number, name in enumerate(scenario.measure.at):
            group_of(f"measure.at.{number}", name, topology)
    within = None if scenario.moves is None else scenario.moves.within
    if within is not None and not any(role.name.startswith(within) for role in topology.roles):
        raise ScenarioError("moves.within", f"no role begins with {within!r}")
