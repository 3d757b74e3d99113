"""Clients that a scenario lists itself: clients with steps, monitors and probes.

A client with steps does what the file says, when it says so. A monitor subscribes at a broker,
withdraws after a while and subscribes at the next. A probe is a publication that one client at each
of some brokers waits for; its delays are measured separately. Clients of a workload are made
elsewhere (`publishers`, `subscribers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, cycle
from typing import Final

from byway.model import Filter, parse
from byway.sim.engine.sim_client import SimClient
from byway.sim.scenario.check_steps import DEFAULT_NAMES
from byway.sim.scenario.random_streams import Purpose
from byway.sim.scenario.resolve import brokers_of
from byway.sim.scenario.run_context import DrawnRun, RunContext
from byway.sim.scenario.schema import Monitor, Probe, Scenario, Step
from byway.sim.scenario.value_types import microseconds

PROBE_FILTER: Final = "probe = TRUE"
PROBES: Final = "probe-p"
"""The beginning of the names of clients that publish probes."""


# --- steps ----------------------------------------------------------------------------------------


def start_steps(context: RunContext) -> dict[str, SimClient]:
    """Add the clients of `[[client]]` and schedule their steps; steps at one time happen in the
    order of the file. Returns the clients by name."""
    clients = {
        client.name: context.world.client(
            client.name, client.broker, microseconds(client.session_ttl_s)
        )
        for client in context.scenario.client
    }
    for step in context.scenario.step:
        context.world.at(microseconds(step.at_s), partial(_do, step, clients[step.client]))
    return clients


def step_requests_us(scenario: Scenario) -> dict[str, list[int]]:
    """By client, the times at which its steps publish, in order."""
    times_us: dict[str, list[int]] = {client.name: [] for client in scenario.client}
    for step in scenario.step:
        if step.publish is not None:
            times_us[step.client].append(microseconds(step.at_s))
    return {client: sorted(times) for client, times in times_us.items()}


def _do(step: Step, client: SimClient) -> None:
    """Do the one thing that a checked step says."""
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


# --- monitors -------------------------------------------------------------------------------------


def start_monitors(context: RunContext) -> None:
    """Add the clients of all monitors and schedule their visits."""
    for number, monitor in enumerate(context.scenario.monitor):
        _start_monitor(context, number, monitor)


def _start_monitor(context: RunContext, number: int, monitor: Monitor) -> None:
    """Add a client at each broker of a monitor; they subscribe in turn."""
    brokers = list(brokers_of(f"monitor.{number}.at", monitor.at, context.topology))
    if monitor.at == "random":
        rng = context.rng(Purpose.MONITORS).spawn(number + 1)[-1]
        brokers = [brokers[place] for place in rng.permutation(len(brokers)).tolist()]
    clients = cycle(
        context.world.client(f"monitor-{number + 1}-{broker}", broker)
        for broker in dict.fromkeys(brokers)
    )
    context.follow(_visits_us(context, monitor), partial(_visit, context, monitor, clients))


def _visits_us(context: RunContext, monitor: Monitor) -> Iterator[int]:
    from_us = microseconds(monitor.from_s)
    every_us = microseconds(monitor.stay_s) + microseconds(monitor.away_s)
    for number in count():
        if from_us + number * every_us >= context.end_us:
            return
        yield from_us + number * every_us


def _visit(context: RunContext, monitor: Monitor, clients: Iterator[SimClient]) -> None:
    """Let the next client subscribe, and withdraw after a while unless the run ends before."""
    client, wanted = next(clients), parse(monitor.filter)
    client.subscribe(wanted, "m")
    leave_us = context.world.now_us + microseconds(monitor.stay_s)
    if leave_us < context.end_us:
        context.world.at(leave_us, partial(client.unsubscribe, "m"))


# --- probes ---------------------------------------------------------------------------------------


def start_probes(context: RunContext, probe: Probe) -> None:
    """Add the subscribers and publishers of probes, and schedule the publications."""
    wanted = parse(PROBE_FILTER)
    for broker in _brokers(context, "subscribers_at", probe.subscribers_at):
        context.world.client(f"probe-s-{broker}", broker).subscribe(wanted, "s")
    senders = cycle(_senders(context, probe, wanted))
    context.follow(iter(_times_us(probe)), lambda: next(senders).publish({"probe": True}))


def probe_requests_us(context: DrawnRun, probe: Probe) -> dict[str, list[int]]:
    """By publisher of probes, the times at which it publishes."""
    brokers, times_us = _brokers(context, "publishers_at", probe.publishers_at), _times_us(probe)
    return {
        f"{PROBES}-{broker}": times_us[place :: len(brokers)]
        for place, broker in enumerate(brokers)
    }


def _times_us(probe: Probe) -> list[int]:
    from_us, gap_us = microseconds(probe.at_s), microseconds(probe.gap_s)
    return [from_us + number * gap_us for number in range(probe.count)]


def _senders(context: RunContext, probe: Probe, advertised: Filter) -> list[SimClient]:
    clients = [
        context.world.client(f"{PROBES}-{broker}", broker)
        for broker in _brokers(context, "publishers_at", probe.publishers_at)
    ]
    for client in clients:
        client.advertise(advertised, "a")
    return clients


def _brokers(context: DrawnRun, key: str, place: str | tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(brokers_of(f"probe.{key}", place, context.topology)))
