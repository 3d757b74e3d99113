"""Random streams: one stream of random numbers for each purpose of a run, and series of times.

What is drawn for one purpose never shifts what is drawn for another. As in `workload.draws`, there
are no logarithms: times are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import numpy as np

_BLOCK: Final = 1_024


class Purpose(IntEnum):
    """The purposes of random numbers. A number is never given to another purpose, so that old seeds
    keep their runs."""

    TOPOLOGY = 0
    # 1 belonged to the world, which draws nothing
    WORKLOAD = 2
    PUBLISHERS = 3
    SENDERS = 4
    ARRIVALS = 5
    SUBSCRIBERS = 6
    ORDER = 7
    CHURN_SUBSCRIBE = 8
    CHURN_UNSUBSCRIBE = 9
    CHURN_VANISH = 10
    BURSTS = 11
    FAULTS = 12
    GROUPS = 13
    MOVES = 14
    MONITORS = 15
    DISKS = 16
    BROKERS = 17


def stream(seed: int, purpose: Purpose) -> np.random.Generator:
    """The random numbers of a run for one purpose."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose)))


def derived_seed(seed: int, purpose: Purpose) -> int:
    """A seed of 32 bits for a part of the run that takes a seed."""
    return int(_sequence(seed, purpose).generate_state(1)[0])


def _sequence(seed: int, purpose: Purpose) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(purpose,))


def regular_times_us(rate_per_s: float, from_us: int, to_us: int) -> Iterator[int]:
    """Equally distant times from `from_us` on, until `to_us`."""
    if rate_per_s <= 0:
        return
    number = 0
    while (time_us := from_us + round(number * 1_000_000 / rate_per_s)) < to_us:
        yield time_us
        number += 1


def poisson_times_us(
    rate_per_s: float, from_us: int, to_us: int, rng: np.random.Generator
) -> Iterator[int]:
    """Times of a Poisson process from `from_us` until `to_us`."""
    if rate_per_s <= 0:
        return
    time_us = float(from_us)
    for gap in exponentials(rng):
        time_us += gap * 1_000_000 / rate_per_s
        if time_us >= to_us:
            return
        yield round(time_us)


def exponentials(rng: np.random.Generator) -> Iterator[float]:
    """Exponential draws of mean 1, by von Neumann's comparisons of uniform draws.

    A run u1 > u2 > … that first breaks at an even place accepts u1 as the fraction, which happens
    with probability exp(-u1); each run that breaks at an odd place adds 1.
    """
    uniforms = _uniforms(rng)
    whole = 0
    while True:
        first = last = next(uniforms)
        length = 1
        while (drawn := next(uniforms)) < last:
            last = drawn
            length += 1
        if length % 2:  # it broke at place length + 1
            yield whole + first
            whole = 0
        else:
            whole += 1


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_BLOCK).tolist()
