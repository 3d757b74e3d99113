"""Steps: the clients a scenario names itself, and what it lets each of them do when."""

from __future__ import annotations

from functools import partial

from byway.sim.engine.sim_client import SimClient
from byway.sim.scenario.check_steps import DEFAULT_NAMES
from byway.sim.scenario.schema import Scenario, Step
from byway.sim.scenario.stage import Stage
from byway.sim.scenario.value_types import microseconds


def start_steps(stage: Stage) -> dict[str, SimClient]:
    """Make the clients and schedule their steps; those of one time in the order of the file."""
    clients = {
        client.name: stage.world.client(
            client.name, client.broker, microseconds(client.session_ttl_s)
        )
        for client in stage.scenario.client
    }
    for step in stage.scenario.step:
        stage.world.at(microseconds(step.at_s), partial(_do, step, clients[step.client]))
    return clients


def asked_us(scenario: Scenario) -> dict[str, list[int]]:
    """By client, when each of its publications is asked for."""
    times_us: dict[str, list[int]] = {client.name: [] for client in scenario.client}
    for step in scenario.step:
        if step.publish is not None:
            times_us[step.client].append(microseconds(step.at_s))
    return {client: sorted(times) for client, times in times_us.items()}


def _do(step: Step, client: SimClient) -> None:
    """The one thing that a checked step says."""
    if step.advertise is not None:
        client.advertise(step.advertise, step.name or DEFAULT_NAMES["advertise"])
    elif step.subscribe is not None:
        client.subscribe(step.subscribe, step.name or DEFAULT_NAMES["subscribe"])
    elif step.unadvertise is not None:
        client.unadvertise(step.unadvertise)
    elif step.unsubscribe is not None:
        named = step.unsubscribe
        client.unsubscribe(*((named,) if isinstance(named, str) else named))
    elif step.publish is not None:
        client.publish(step.publish, (step.data or "").encode())
    elif step.vanish:
        client.vanish()
    elif step.come_back:
        client.come_back()
    else:
        client.leave()
