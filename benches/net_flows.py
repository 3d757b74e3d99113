"""Publications from end to end, in rounds: what one round carried, and several networks in turn.

What disturbs the machine disturbs all of them alike, if rounds are short and in turn. Rates are by
the clock, processor times by the count of the operating system, process by process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benches.net_processes import Client, Process


@dataclass(frozen=True)
class Flow:
    """What a network carried in one round, or in the best of several."""

    rate: float
    """Publications a second, from the first one sent to the last one taken, by the clock."""
    broker_us: float
    """Processor time of the busiest broker for one publication."""
    publisher_us: float
    subscriber_us: float
    total_us: float
    """Processor time of all processes for one publication."""


@dataclass(frozen=True)
class Traffic:
    """A publisher and a subscriber of everything at the ends of a network; `others` is every other
    process that publications keep busy, brokers first."""

    publisher: Client
    subscriber: Client
    brokers: Sequence[Process]
    others: Sequence[Process]
    count: int
    """Publications in one round."""

    def round(self) -> Flow:
        """Let one round pass."""
        processes = [self.publisher, self.subscriber, *self.brokers, *self.others]
        before = [process.cpu_seconds for process in processes]
        self.subscriber.tell()
        self.publisher.tell()
        last_ns = self.subscriber.facts()["last_ns"]
        first_ns = self.publisher.facts()["first_ns"]
        used = [p.cpu_seconds - s for p, s in zip(processes, before, strict=True)]
        us = [1e6 * seconds / self.count for seconds in used]
        busiest = max(us[2 : 2 + len(self.brokers)])
        rate = self.count / (last_ns - first_ns) * 1e9
        return Flow(rate, busiest, us[0], us[1], sum(us))


def in_turn(traffics: Sequence[Traffic], rounds: int, step: Callable[[int], None]) -> list[Flow]:
    """The best of so many rounds of each, one after the other: the highest rate and the lowest
    processor times. `step` is called with the number of each round."""
    flows: list[list[Flow]] = [[] for _ in traffics]
    for number in range(rounds):
        step(number + 1)
        for traffic, found in zip(traffics, flows, strict=True):
            found.append(traffic.round())
    return [best(found) for found in flows]


def best(flows: Sequence[Flow]) -> Flow:
    """The highest rate of several rounds, and the lowest of each processor time."""
    return Flow(
        max(flow.rate for flow in flows),
        min(flow.broker_us for flow in flows),
        min(flow.publisher_us for flow in flows),
        min(flow.subscriber_us for flow in flows),
        min(flow.total_us for flow in flows),
    )
