"""The context of a run: what every part of a scenario needs to act in its world.

It decides how series of events are scheduled: only the next of each, so that a long run needs no
more memory than a short one. What happens is decided by the parts, from the scenario and the seed,
never from what brokers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from byway.model.tree_shapes import numbered_names
from byway.sim.engine.sim_client import SimClient
from byway.sim.scenario.random_streams import Purpose, stream
from byway.sim.scenario.resolve import homes_of
from byway.sim.scenario.schema import Scenario
from byway.sim.scenario.value_types import Place, microseconds
from byway.sim.topology.tree import Topology
from byway.sim.world import World


class DrawnRun(Protocol):
    """What decides when something happens in a run: a scenario, a seed and a topology."""

    @property
    def scenario(self) -> Scenario:
        """The scenario."""

    @property
    def seed(self) -> int:
        """The seed."""

    @property
    def topology(self) -> Topology:
        """The brokers and links."""

    @property
    def end_us(self) -> int:
        """The time after which the scenario starts nothing new."""

    def rng(self, purpose: Purpose) -> np.random.Generator:
        """The random numbers of this run for one purpose, from the first one on."""


class RunContext(NamedTuple):
    """A scenario with the seed, the topology and the world of one run."""

    scenario: Scenario
    seed: int
    topology: Topology
    world: World

    @property
    def end_us(self) -> int:
        """The time after which the scenario starts nothing new."""
        return microseconds(self.scenario.duration_s)

    def rng(self, purpose: Purpose) -> np.random.Generator:
        """The random numbers of this run for one purpose, from the first one on."""
        return stream(self.seed, purpose)

    def clients(
        self,
        letter: str,
        count: int,
        key: str,
        place: Place,
        purpose: Purpose,
        ttl_s: float,
        *,
        apart: bool = False,
    ) -> list[SimClient]:
        """Add `count` clients, named by a letter and their number, at the brokers of a place;
        `apart`: at different ones, drawn at random, as long as there are any."""
        homes = homes_of(key, place, count, self.topology, self.rng(purpose), apart=apart)
        return [
            self.world.client(name, home, microseconds(ttl_s))
            for name, home in zip(numbered_names(letter, count), homes, strict=True)
        ]

    def follow(self, times_us: Iterator[int], act: Callable[[], None]) -> None:
        """Call `act` at each of these times, which ascend."""

        def schedule() -> None:
            time_us = next(times_us, None)
            if time_us is not None:
                self.world.at(time_us, arrive)

        def arrive() -> None:
            act()
            schedule()

        schedule()
