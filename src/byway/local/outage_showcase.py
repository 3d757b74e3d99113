"""A dead broker in the demonstration: the inner one of seven is killed while quotes are published.

Brokers open no soft links for what these would gain, so all that crosses from one side to the other
depends on the broker that is killed. It measures how many events cross its place meanwhile, and for
how long none did. `cli` and the report decide what is shown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from byway.clock import now_us
from byway.core.broker_config import BrokerConfig
from byway.local.mesh_showcase import EXCHANGES, MESH, RATE, WANTED
from byway.local.showcase import Showcase, ShowcaseSubscriber

DEAD: Final = "B1"
"""It has no clients, and all traffic between its two sides passes by it."""
BYPASS_AFTER_US: Final = 500_000
KILLED_S: Final = 2.0
DEAD_S: Final = 3.0
STEP_S: Final = 0.1
PUBLISHED_S: Final = 7.0
FAR: Final = {"B4": "Rome", "B5": "Rome", "B6": "Oslo", "B7": "Oslo"}
"""By a subscriber's broker, the publisher on the other side of the dead one."""


class OutageStep(NamedTuple):
    """The events that crossed the place of the broker in `STEP_S`."""

    t_s: float
    """When they began to, in seconds since the broker was killed."""
    rate: float
    """Events a second."""


class OutageOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happened while the broker was dead."""

    dead_s: float
    crossed: int
    """Events that were delivered meanwhile, from one side of the dead broker to the other."""
    pause_s: float
    """The longest time, from the kill on, without such an event."""
    ways: int
    """Links round the dead broker that were in use, each direction counted."""
    is_exact: bool
    """Whether every subscriber received what it should in the end, once and in order."""
    steps: list[OutageStep]

    @property
    def finding(self) -> str:
        """What was measured, in one sentence."""
        end = "nothing was lost, doubled or out of order" if self.is_exact else "events are missing"
        return (
            f"{DEAD} was dead for {self.dead_s:.1f} s; after a pause of {self.pause_s:.1f} s "
            f"{self.crossed:,} events went round it, over {self.ways} links; {end}."
        )


class _FarSubscriber(ShowcaseSubscriber):
    """A subscriber that notes when events of the far publisher arrive."""

    def __init__(self, name: str, broker: str, filter: str) -> None:
        super().__init__(name, broker, filter)
        self.arrived_us: list[int] = []

    def take(self, publisher: str, sequence: int, published_us: int, hops: int) -> None:
        """Count an event."""
        super().take(publisher, sequence, published_us, hops)
        if publisher == FAR[self.broker]:
            self.arrived_us.append(now_us())


def show_outage() -> OutageOutcome:
    """Publish, kill the inner broker for a while, and publish on."""
    return asyncio.run(_outage())


async def _outage() -> OutageOutcome:
    mesh = msgspec.structs.replace(MESH, bypass_after_us=BYPASS_AFTER_US, interval_us=0)
    showcase = Showcase(RATE, EXCHANGES, (), BrokerConfig(probe_cycles=True, mesh=mesh))
    far = [_FarSubscriber(*one) for one in WANTED]
    showcase.subscribers += far
    steps: list[asyncio.Task[None]] = []
    at_us: list[int] = []
    ways = 0

    def look() -> None:
        nonlocal ways
        if len(steps) == 1:
            ways = max(ways, _ways(showcase))
        due = (KILLED_S, KILLED_S + DEAD_S)[len(steps)] if len(steps) < 2 else PUBLISHED_S
        if len(steps) < 2 and showcase.elapsed_s >= due:
            at_us.append(now_us())
            net = showcase.net
            step = net.restart(DEAD, keeps_state=True) if steps else net.kill(DEAD)
            steps.append(asyncio.create_task(step))

    outcome = await showcase.run(PUBLISHED_S, look)
    for step in steps:
        await step
    killed, back = at_us
    all_arrived = sorted(t for one in far for t in one.arrived_us)
    arrived = [t for t in all_arrived if t >= killed]
    pauses = [after - before for before, after in pairwise([killed, *arrived]) if before < back]
    return OutageOutcome(
        dead_s=(back - killed) / 1e6,
        crossed=sum(t < back for t in arrived),
        pause_s=max(pauses, default=back - killed) / 1e6,
        ways=ways,
        is_exact=outcome.is_complete,
        steps=_steps(all_arrived, killed),
    )


def _ways(showcase: Showcase) -> int:
    """The links round the dead broker that are in use now."""
    servers = showcase.net.brokers.items()
    return sum(len(server.broker.ways_round()) for name, server in servers if name != DEAD)


def _steps(arrived_us: Sequence[int], killed_us: int) -> list[OutageStep]:
    """How many events arrived over time, from the first to the last."""
    counts = Counter(int((t - killed_us) / 1e6 // STEP_S) for t in arrived_us)
    return [
        OutageStep(round(number * STEP_S, 1), counts[number] / STEP_S)
        for number in range(min(counts, default=0), max(counts, default=-1) + 1)
    ]
