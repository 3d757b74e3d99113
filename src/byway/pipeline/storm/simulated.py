"""Runs the script in the simulator: the same brokers under a simulated clock."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from byway.pipeline.storm.script import GAP_S, PUBLISHER, Policy, Script, config
from byway.sim.engine.service import load_profile
from byway.sim.world import World
from byway.trace import TraceWriter

SAMPLE_US: Final = 250_000
PROFILE: Final = "paper"
"""Brokers as slow as those of the papers."""
QUIET_US: Final = 600_000_000


def run_simulated(script: Script, policy: Policy, directory: Path) -> bool:
    """Run the script, with a trace in `directory`; whether the simulator's checkers found every
    subscriber to have received exactly what it should."""
    writer = TraceWriter(directory, f"simulated {policy}")
    world = World(
        script.topology,
        config=config(policy),
        profile=load_profile(PROFILE),
        trace=writer,
        sample_us=SAMPLE_US,
    )
    publisher = world.client("publisher", PUBLISHER)
    publisher.advertise("ANY")
    clients = {name: world.client(name, home) for name, home in script.homes.items()}
    for client, name, filter in script.subscriptions:
        clients[client].subscribe(filter, name)
    world.quiet(QUIET_US)
    begin_us = world.now_us
    for due_s, attributes in script.publications():
        world.at(begin_us + int(due_s * 1e6), partial(publisher.publish, attributes))
    for number, name in enumerate(script.ending):
        at_s = script.storm_at_s + number * GAP_S
        world.at(begin_us + int(at_s * 1e6), partial(clients["broad"].unsubscribe, name))
    world.run(begin_us + int(script.end_s * 1e6))
    quiet = world.quiet(QUIET_US)
    report = world.check()
    writer.close()
    return quiet and report.ok
