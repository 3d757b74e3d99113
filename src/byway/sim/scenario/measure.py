"""Measure: what part of a run is measured, and at which brokers."""

from __future__ import annotations

from collections.abc import Iterator

from byway.sim.measuring import Meter
from byway.sim.scenario.build import Plan
from byway.sim.scenario.monitors import PROBES
from byway.sim.scenario.places import group_of
from byway.sim.scenario.schema import Measure, Scenario, microseconds
from byway.sim.scenario.stage import Stage
from byway.sim.world import World


def start_meter(plan: Plan, world: World) -> Meter | None:
    """A meter for what a scenario wants measured, if it wants anything."""
    scenario, measure = plan.scenario, plan.scenario.measure
    if measure is None:
        return None
    from_us = microseconds(measure.from_s)
    meter = Meter(
        world.nodes,
        {name: group_of("measure.at", name, plan.topology) for name in measure.at},
        lambda: world.now_us,
        from_us=from_us,
        to_us=_end_us(measure, scenario),
        is_probe=lambda publisher: publisher.startswith(PROBES),
    )
    world.at(from_us, meter.begin)
    stage = Stage(scenario, plan.seed, plan.topology, world)
    stage.follow(_samples_us(measure, scenario), meter.sample)
    return meter


def _end_us(measure: Measure, scenario: Scenario) -> int:
    return microseconds(scenario.duration_s if measure.to_s is None else measure.to_s)


def _samples_us(measure: Measure, scenario: Scenario) -> Iterator[int]:
    from_s = measure.from_s if measure.tables_from_s is None else measure.tables_from_s
    step_us = microseconds(scenario.sample_s)
    return iter(range(microseconds(from_s), _end_us(measure, scenario) + 1, step_us))
