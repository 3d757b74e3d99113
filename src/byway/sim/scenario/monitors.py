"""Monitors and probes: clients with one broad subscription, and publications measured apart.

A monitor subscribes at a broker, leaves after a while and comes again at the next. A probe is a
publication that one client at each of some brokers waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, cycle
from typing import Final

from byway.model import Filter, parse
from byway.sim.engine.sim_client import SimClient
from byway.sim.scenario.places import brokers_of
from byway.sim.scenario.random_streams import Purpose
from byway.sim.scenario.schema import Monitor, Probe
from byway.sim.scenario.stage import Stage
from byway.sim.scenario.value_types import microseconds

PROBE_FILTER: Final = "probe = TRUE"
PROBES: Final = "probe-p"
"""What the names of the publishers of probes begin with."""


def start_monitors(stage: Stage) -> None:
    """Schedule the coming and going of all monitors."""
    for number, monitor in enumerate(stage.scenario.monitor):
        _start_monitor(stage, number, monitor)


def _start_monitor(stage: Stage, number: int, monitor: Monitor) -> None:
    """A client at each of its brokers, used in turn."""
    brokers = list(brokers_of(f"monitor.{number}.at", monitor.at, stage.topology))
    if monitor.at == "random":
        rng = stage.rng(Purpose.MONITORS).spawn(number + 1)[-1]
        brokers = [brokers[place] for place in rng.permutation(len(brokers)).tolist()]
    clients = cycle(
        stage.world.client(f"monitor-{number + 1}-{broker}", broker)
        for broker in dict.fromkeys(brokers)
    )
    stage.follow(_visits_us(stage, monitor), partial(_visit, stage, monitor, clients))


def _visits_us(stage: Stage, monitor: Monitor) -> Iterator[int]:
    from_us = microseconds(monitor.from_s)
    every_us = microseconds(monitor.stay_s) + microseconds(monitor.away_s)
    for number in count():
        if from_us + number * every_us >= stage.end_us:
            return
        yield from_us + number * every_us


def _visit(stage: Stage, monitor: Monitor, clients: Iterator[SimClient]) -> None:
    """Subscribe, and leave after a while, but not after the end."""
    client, wanted = next(clients), parse(monitor.filter)
    client.subscribe(wanted, "m")
    leave_us = stage.world.now_us + microseconds(monitor.stay_s)
    if leave_us < stage.end_us:
        stage.world.at(leave_us, partial(client.unsubscribe, "m"))


def start_probes(stage: Stage, probe: Probe) -> None:
    """Let them subscribe at the beginning, and schedule the publications."""
    wanted = parse(PROBE_FILTER)
    for broker in _brokers(stage, "subscribers_at", probe.subscribers_at):
        stage.world.client(f"probe-s-{broker}", broker).subscribe(wanted, "s")
    senders = cycle(_senders(stage, probe, wanted))
    stage.follow(iter(_times_us(probe)), lambda: next(senders).publish({"probe": True}))


def probes_asked_us(stage: Stage, probe: Probe) -> dict[str, list[int]]:
    """By publisher of probes, when each of them is asked for."""
    brokers, times_us = _brokers(stage, "publishers_at", probe.publishers_at), _times_us(probe)
    return {
        f"{PROBES}-{broker}": times_us[place :: len(brokers)]
        for place, broker in enumerate(brokers)
    }


def _times_us(probe: Probe) -> list[int]:
    from_us, gap_us = microseconds(probe.at_s), microseconds(probe.gap_s)
    return [from_us + number * gap_us for number in range(probe.count)]


def _senders(stage: Stage, probe: Probe, advertised: Filter) -> list[SimClient]:
    clients = [
        stage.world.client(f"{PROBES}-{broker}", broker)
        for broker in _brokers(stage, "publishers_at", probe.publishers_at)
    ]
    for client in clients:
        client.advertise(advertised, "a")
    return clients


def _brokers(stage: Stage, key: str, place: str | tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(brokers_of(f"probe.{key}", place, stage.topology)))
