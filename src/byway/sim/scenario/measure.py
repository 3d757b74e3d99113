"""Measure: which part of a run a scenario measures, at which brokers, and what of it.

A delay begins when the scenario lets a client publish, not when the home broker reads the
publication: the time that a publication waits in its client, because too many are unconfirmed, and
at the home broker counts too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from byway.model.messages import Publish
from byway.sim.meters import Meter
from byway.sim.scenario.build import RunPlan
from byway.sim.scenario.listed_clients import PROBES, probe_requests_us, step_requests_us
from byway.sim.scenario.publishers import workload_requests_us
from byway.sim.scenario.random_streams import Purpose, derived_seed
from byway.sim.scenario.resolve import group_of
from byway.sim.scenario.run_context import RunContext
from byway.sim.scenario.schema import MeasureSpec, Scenario
from byway.sim.scenario.value_types import microseconds
from byway.sim.scenario.workload_source import generator_of, sized
from byway.sim.world import World


class MeasuredPart(NamedTuple):
    """The part of a run that is measured."""

    from_us: int
    to_us: int
    """Publications that were to be published later do not count for delays."""
    groups: dict[str, tuple[str, ...]]
    """By name, the brokers that are measured together; those of the scenario and `all`."""
    requests_us: dict[str, list[int]]
    """By client, the times at which the scenario lets it publish, in order."""


def is_probe(publisher: str) -> bool:
    """Whether the publications of a client are measured separately."""
    return publisher.startswith(PROBES)


def part_of(plan: RunPlan) -> MeasuredPart | None:
    """The part of a run that a scenario measures; None: it measures none."""
    measure = plan.scenario.measure
    if measure is None:
        return None
    named = {name: group_of("measure.at", name, plan.topology) for name in measure.at}
    return MeasuredPart(
        microseconds(measure.from_s),
        _end_us(measure, plan.scenario),
        {"all": plan.topology.brokers, **named},
        _requests_us(plan),
    )


def start_meter(plan: RunPlan, world: World) -> Meter | None:
    """Start the meter that a scenario wants; None: it wants none."""
    scenario, measure, part = plan.scenario, plan.scenario.measure, part_of(plan)
    if measure is None or part is None:
        return None
    context = RunContext(scenario, plan.seed, plan.topology, world)

    def requested_us(publication: Publish) -> int:
        if publication.incarnation > 1:  # its sequences began anew
            return publication.published_us
        return part.requests_us[publication.publisher][publication.sequence - 1]

    meter = Meter(
        world.nodes,
        part.groups,
        lambda: world.now_us,
        lambda: world.due,
        from_us=part.from_us,
        to_us=part.to_us,
        is_probe=is_probe,
        requested_us=requested_us,
    )
    world.first_at(part.from_us, meter.begin)
    world.first_at(part.to_us, meter.end_interval)
    context.follow(_samples_us(measure, scenario), meter.sample)
    return meter


def _requests_us(plan: RunPlan) -> dict[str, list[int]]:
    scenario, workload = plan.scenario, plan.scenario.workload
    found = step_requests_us(scenario)
    if workload is not None:
        generator = generator_of(workload, derived_seed(plan.seed, Purpose.WORKLOAD))
        found |= workload_requests_us(plan, sized(workload, generator), generator)
    if scenario.probe is not None:
        found |= probe_requests_us(plan, scenario.probe)
    return found


def _end_us(measure: MeasureSpec, scenario: Scenario) -> int:
    return microseconds(scenario.duration_s if measure.to_s is None else measure.to_s)


def _samples_us(measure: MeasureSpec, scenario: Scenario) -> Iterator[int]:
    from_s = measure.from_s if measure.tables_from_s is None else measure.tables_from_s
    step_us = microseconds(scenario.sample_s)
    return iter(range(microseconds(from_s), _end_us(measure, scenario) + 1, step_us))
