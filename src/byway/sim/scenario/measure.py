"""Measure: what part of a run is measured, and at which brokers.

A delay begins when a publisher asks: what it holds back because too much is unconfirmed, and what
waits at its broker, is late too.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from byway.model.messages import Publish
from byway.sim.meters import Meter
from byway.sim.scenario import publishers, steps
from byway.sim.scenario.build import BuiltScenario
from byway.sim.scenario.monitors import PROBES, probes_asked_us
from byway.sim.scenario.places import group_of
from byway.sim.scenario.random_streams import Purpose, derived_seed
from byway.sim.scenario.schema import MeasureSpec, Scenario, microseconds
from byway.sim.scenario.stage import Stage
from byway.sim.scenario.workload_source import generator_of
from byway.sim.world import World


class _Meter(Meter):
    """Knows when publications were asked for, by publisher."""

    asked_us: dict[str, list[int]]

    def delivered(self, message: Publish, clients: int) -> None:
        if message.incarnation == 1:  # later ones begin to count anew
            asked_us = self.asked_us[message.publisher][message.sequence - 1]
            message = msgspec.structs.replace(message, published_us=asked_us)
        super().delivered(message, clients)


def start_meter(plan: BuiltScenario, world: World) -> Meter | None:
    """A meter for what a scenario wants measured, if it wants anything."""
    scenario, measure = plan.scenario, plan.scenario.measure
    if measure is None:
        return None
    from_us = microseconds(measure.from_s)
    stage = Stage(scenario, plan.seed, plan.topology, world)
    meter = _Meter(
        world.nodes,
        {name: group_of("measure.at", name, plan.topology) for name in measure.at},
        lambda: world.now_us,
        from_us=from_us,
        to_us=_end_us(measure, scenario),
        is_probe=lambda publisher: publisher.startswith(PROBES),
    )
    meter.asked_us = _asked_us(stage)
    world.at(from_us, meter.begin)
    stage.follow(_samples_us(measure, scenario), meter.sample)
    return meter


def _asked_us(stage: Stage) -> dict[str, list[int]]:
    scenario, workload = stage.scenario, stage.scenario.workload
    found = steps.asked_us(scenario)
    if workload is not None:
        generator = generator_of(workload, derived_seed(stage.seed, Purpose.WORKLOAD))
        found |= publishers.asked_us(stage, workload, generator)
    if scenario.probe is not None:
        found |= probes_asked_us(stage, scenario.probe)
    return found


def _end_us(measure: MeasureSpec, scenario: Scenario) -> int:
    return microseconds(scenario.duration_s if measure.to_s is None else measure.to_s)


def _samples_us(measure: MeasureSpec, scenario: Scenario) -> Iterator[int]:
    from_s = measure.from_s if measure.tables_from_s is None else measure.tables_from_s
    step_us = microseconds(scenario.sample_s)
    return iter(range(microseconds(from_s), _end_us(measure, scenario) + 1, step_us))
