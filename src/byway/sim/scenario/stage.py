"""Stage: what every part of a scenario needs to act in a world.

It decides how chains of events are scheduled: only the next of each, so that a long run needs no
more memory than a short one. What happens is decided by the parts, from the scenario and the seed,
never from what brokers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from byway.sim.engine.sim_client import SimClient
from byway.sim.scenario.places import places
from byway.sim.scenario.random_streams import Purpose, stream
from byway.sim.scenario.schema import Place, Scenario, microseconds
from byway.sim.topology.tree import Topology
from byway.sim.world import World


class Stage(NamedTuple):
    """A scenario with the seed, the topology and the world of one run."""

    scenario: Scenario
    seed: int
    topology: Topology
    world: World

    @property
    def end_us(self) -> int:
        """When nothing new happens any more."""
        return microseconds(self.scenario.duration_s)

    def rng(self, purpose: Purpose) -> np.random.Generator:
        return stream(self.seed, purpose)

    def clients(
        self, letter: str, count: int, key: str, place: Place, purpose: Purpose, ttl_s: float
    ) -> list[SimClient]:
        """So many clients at some place."""
        homes = places(key, place, count, self.topology, self.rng(purpose))
        return [
            self.world.client(name, home, microseconds(ttl_s))
            for name, home in zip(names_of(letter, count), homes, strict=True)
        ]

    def follow(self, times_us: Iterator[int], act: Callable[[], None]) -> None:
        """Act at each of these times, which ascend."""

        def schedule() -> None:
            time_us = next(times_us, None)
            if time_us is not None:
                self.world.at(time_us, arrive)

        def arrive() -> None:
            act()
            schedule()

        schedule()


def names_of(letter: str, count: int) -> list[str]:
    """Of so many clients: p1, p2 … with as many digits as the last one needs."""
    width = len(str(count))
    return [f"{letter}{number:0{width}}" for number in range(1, count + 1)]
