"""Faults: those that a scenario lists and those that are drawn, scheduled in a world.

It decides which random faults there are. What a fault does is the world's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from byway.sim.scenario.check_faults import disk_of, overlaps
from byway.sim.scenario.fault_spec import (
    Crash,
    Cut,
    Delay,
    Disk,
    Fault,
    HowOften,
    Partition,
    RandomFaults,
    Slow,
)
from byway.sim.scenario.random_streams import Purpose, stream
from byway.sim.scenario.resolve import brokers_of, window_of
from byway.sim.scenario.run_context import RunContext
from byway.sim.scenario.schema import Scenario, ScenarioError
from byway.sim.scenario.value_types import microseconds
from byway.sim.topology.tree import Topology
from byway.sim.world import World

DISK_ROOM_BYTES: Final = 10_000
"""The most room on a disk that fills up at random."""
_TRIES: Final = 100  # to find a time and a place for a fault that no other has


def start_faults(context: RunContext, faults: Iterable[Fault]) -> None:
    """Schedule the beginning and the end of each fault."""
    for fault in faults:
        begin, end = _both_ends(fault, context.world)
        context.world.at(microseconds(fault.at_s), begin)
        if end is not None:
            context.world.at(microseconds(fault.at_s) + microseconds(fault.for_s), end)


def faults_of(scenario: Scenario, seed: int, topology: Topology) -> list[Fault]:
    """The faults that the scenario lists, then those drawn from the seed. Raises `ScenarioError` if
    there is no room for as many as it wants."""
    faults = list(scenario.faults)
    drawn = scenario.faults_random
    if drawn is None:
        return faults
    draws = _FaultDraws(scenario, drawn, topology, stream(seed, Purpose.FAULTS))
    for key, count, draw in (
        ("crashes", drawn.crashes, draws.crash),
        ("cuts", drawn.cuts, draws.cut),
        ("partitions", drawn.partitions, draws.partition),
        ("delays", drawn.delays, draws.delay),
        ("slows", drawn.slows, draws.slow),
        ("disks", drawn.disks, draws.disk),
    ):
        for _ in range(count):
            found = _found(draw, faults)
            if found is None:
                raise ScenarioError(f"faults_random.{key}", f"there is no room for {count}")
            faults.append(found)
    return faults


def _found(draw: Callable[[], Fault | None], faults: list[Fault]) -> Fault | None:
    """A drawn fault that overlaps with no other; None: many draws gave none."""
    for _ in range(_TRIES):
        fault = draw()
        if fault is not None and not overlaps(fault, faults):
            return fault
    return None


def _both_ends(fault: Fault, world: World) -> tuple[Callable[[], None], Callable[[], None] | None]:
    """The functions that begin and end a fault; None: it ends by itself."""
    until_us = microseconds(fault.at_s) + microseconds(fault.for_s)
    match fault:
        case Crash(broker=broker):
            return lambda: _crash(world, fault), lambda: _restart(world, fault)
        case Disk(broker=broker, room_bytes=room_bytes):
            return (
                lambda: world.break_disk(broker, room_bytes=room_bytes),
                lambda: world.mend_disk(broker),
            )
        case Cut(link=(a, b)):
            return lambda: world.cut(a, b), lambda: world.mend(a, b)
        case Partition(brokers=brokers):
            return lambda: world.partition(brokers), lambda: world.heal(brokers)
        case Delay(link=(a, b), extra_ms=extra_ms):
            extra_us = round(extra_ms * 1_000)
            return lambda: world.delay(a, b, extra_us, until_us), None
        case Slow(broker=broker, factor=factor):
            return lambda: world.slow(broker, factor, until_us), None


def _crash(world: World, fault: Crash) -> None:
    world.crash(fault.broker, power=fault.power, torn=fault.torn)


def _restart(world: World, fault: Crash) -> None:
    stored = world.has_data(fault.broker) if fault.stored is None else fault.stored
    world.restart(fault.broker, stored, stale=fault.stale)


class _FaultDraws:
    """Draws random faults, one at a time. None is drawn if a fault needs a link and there is
    none."""

    def __init__(
        self,
        scenario: Scenario,
        drawn: RandomFaults,
        topology: Topology,
        rng: np.random.Generator,
    ) -> None:
        self._scenario = scenario
        self._drawn = drawn
        self._topology = topology
        self._brokers = brokers_of("faults_random.brokers", drawn.brokers, topology)
        self._window_us = [microseconds(time_s) for time_s in window_of(drawn, scenario)]
        self._rng = rng

    def crash(self) -> Crash:
        """A broker crashes, and is restarted with or without its state."""
        at_s, for_s = self._time()
        by_chance = bool(self._rng.integers(2))
        stored = by_chance if self._drawn.stored == "random" else self._drawn.stored == "always"
        broker = self._broker()
        power, torn, stale = map(
            self._holds, (self._drawn.power, self._drawn.torn, self._drawn.stale)
        )
        has_data = disk_of(self._scenario, broker).data
        return Crash(
            at_s=at_s, for_s=for_s, broker=broker, stored=stored,
            power=power and has_data, torn=torn and has_data, stale=stale and has_data and stored,
        )  # fmt: skip

    def _holds(self, how: HowOften) -> bool:
        """Whether something is so that is so never, always, or at random."""
        return bool(self._rng.integers(2)) if how == "random" else how == "always"

    def disk(self) -> Disk | None:
        """The disk of a broker is full, or fails."""
        at_s, for_s = self._time()
        broker, is_full = self._broker(), bool(self._rng.integers(2))
        room_bytes = int(self._rng.integers(DISK_ROOM_BYTES)) if is_full else None
        if not disk_of(self._scenario, broker).has_disk:
            return None
        return Disk(at_s=at_s, for_s=for_s, broker=broker, room_bytes=room_bytes)

    def slow(self) -> Slow:
        """A broker is slow."""
        at_s, for_s = self._time()
        return Slow(at_s=at_s, for_s=for_s, broker=self._broker(), factor=self._drawn.factor)

    def cut(self) -> Cut | None:
        """A link is cut."""
        at_s, for_s = self._time()
        link = self._link()
        return None if link is None else Cut(at_s=at_s, for_s=for_s, link=link)

    def delay(self) -> Delay | None:
        """A link is delayed."""
        at_s, for_s = self._time()
        link, extra_ms = self._link(), self._drawn.extra_ms
        return None if link is None else Delay(at_s=at_s, for_s=for_s, link=link, extra_ms=extra_ms)

    def partition(self) -> Partition | None:
        """All brokers beyond a link are separated from the others."""
        at_s, for_s = self._time()
        link = self._link()
        if link is None:
            return None
        near, far = link
        topology = self._topology
        beyond = tuple(name for name in topology.brokers if far in topology.path(near, name))
        return Partition(at_s=at_s, for_s=for_s, brokers=beyond)

    def _time(self) -> tuple[float, float]:
        """The beginning and the duration of a fault, in seconds."""
        from_us, to_us = self._window_us
        bounds_us = microseconds(self._drawn.for_s_min), microseconds(self._drawn.for_s_max)
        for_us = int(self._rng.integers(*bounds_us, endpoint=True))
        at_us = int(self._rng.integers(from_us, to_us - for_us, endpoint=True))
        return at_us / 1_000_000, for_us / 1_000_000

    def _broker(self) -> str:
        return self._brokers[int(self._rng.integers(len(self._brokers)))]

    def _link(self) -> tuple[str, str] | None:
        links = self._topology.links
        if not links:
            return None
        link = links[int(self._rng.integers(len(links)))]
        return link.a, link.b
