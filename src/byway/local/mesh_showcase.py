"""The mesh in the demonstration: the same brokers and quotes without soft links and with them.

It measures, while quotes are published, how many brokers only forward a quote, and over how many
hops quotes are delivered. `cli` and the report decide what is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.local.showcase import Showcase

MESH_PICTURE: Final = """\
          B1
       ┌──┴───┐
       B2     B3
     ┌─┴──┐ ┌─┴──┐
Oslo B4  B5 B6  B7 Rome"""
"""The brokers, and where the publishers are; subscribers are at B4 to B7."""
EXCHANGES: Final = (("Oslo", "B4"), ("Rome", "B7"))
WANTED: Final = (
    ("large", "B4", "volume > 3000000"),
    ("alarm", "B5", "highLow%Diff > 0.05"),
    ("penny", "B6", "close < 10"),
    ("patient", "B7", "symbol LIKE 'G%'"),
)
"""Subscribers, their brokers and their filters: nobody is at B1, B2 and B3."""
RATE: Final = 400.0
"""Quotes a second."""
MESH: Final = MeshConfig(delta=4, interval_us=500_000, gain_min=5, stay_us=5_000_000)
"""As a broker has it by default, but deciding more often, since the demonstration is short."""
WITHOUT_S: Final = 2.0
WITH_S: Final = 5.0
"""How long quotes are published without the mesh, and with it."""
SETTLED_S: Final = 2.0
"""How much of the end of each counts as settled."""


class MeshStep(NamedTuple):
    """What was measured between two looks at the brokers."""

    t_s: float
    """Seconds since the first quote, at the end."""
    forwarders: float
    """Brokers that only forwarded a quote, for each quote."""
    hops: float
    """Hops for each delivery."""


class _Sample(NamedTuple):
    """What has happened until some time."""

    t_s: float = 0.0
    published: int = 0
    forwarders: int = 0
    deliveries: int = 0
    hops: int = 0
    """The hops of all deliveries together."""

    def since(self, before: _Sample) -> MeshStep:
        """What has happened after another sample."""
        published = max(self.published - before.published, 1)
        deliveries = max(self.deliveries - before.deliveries, 1)
        return MeshStep(
            self.t_s,
            (self.forwarders - before.forwarders) / published,
            (self.hops - before.hops) / deliveries,
        )


class MeshPhase(msgspec.Struct, frozen=True, kw_only=True):
    """Quotes published without the mesh, or with it."""

    mesh: bool
    published: int
    is_exact: bool
    """Whether every subscriber received what it should, once and in order."""
    settled: MeshStep
    """What was measured in the last `SETTLED_S`."""
    soft_links: int
    """Soft links in use at the end, each direction counted."""
    steps: list[MeshStep]


class MeshOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of both phases."""

    without: MeshPhase
    with_mesh: MeshPhase

    @property
    def is_complete(self) -> bool:
        """Whether every subscriber received what it should in both phases."""
        return self.without.is_exact and self.with_mesh.is_exact

    @property
    def finding(self) -> str:
        """What was measured, in one sentence."""
        before, after = self.without.settled, self.with_mesh.settled
        return (
            f"With the mesh, {after.forwarders:.1f} brokers only forward a quote instead of "
            f"{before.forwarders:.1f}, and a delivery takes {after.hops:.1f} hops instead of "
            f"{before.hops:.1f}."
        )


Watch = Callable[[bool, MeshStep], None]
"""A function that is called with whether there is a mesh, and each step."""


def show_mesh(watch: Watch) -> MeshOutcome:
    """Publish without the mesh, then with it."""
    return MeshOutcome(
        without=asyncio.run(_phase(MeshConfig(), WITHOUT_S, watch)),
        with_mesh=asyncio.run(_phase(MESH, WITH_S, watch)),
    )


async def _phase(mesh: MeshConfig, seconds: float, watch: Watch) -> MeshPhase:
    core = BrokerConfig(probe_cycles=True, mesh=mesh)
    showcase = Showcase(RATE, EXCHANGES, WANTED, core)
    samples, soft_links = [_Sample()], 0

    def look() -> None:
        nonlocal soft_links
        samples.append(_sample(showcase))
        soft_links = _soft_links(showcase)
        watch(mesh.delta > 1, samples[-1].since(samples[-2]))

    outcome = await showcase.run(seconds, look)
    early = [sample for sample in samples if sample.t_s <= seconds - SETTLED_S]
    return MeshPhase(
        mesh=mesh.delta > 1,
        published=sum(outcome.published.values()),
        is_exact=outcome.is_complete,
        settled=samples[-1].since(early[-1]),
        soft_links=soft_links,
        steps=[after.since(before) for before, after in pairwise(samples)],
    )


def _sample(showcase: Showcase) -> _Sample:
    counters = [server.broker.counters for server in showcase.net.brokers.values()]
    by_hops = [enumerate(subscriber.hops) for subscriber in showcase.subscribers]
    return _Sample(
        t_s=showcase.elapsed_s,
        published=sum(who.published for who in showcase.publishers),
        forwarders=sum(own.pure_forwarders for own in counters),
        deliveries=sum(who.received for who in showcase.subscribers),
        hops=sum(hops * events for one in by_hops for hops, events in one),
    )


def _soft_links(showcase: Showcase) -> int:
    meshes = (server.broker.mesh() for server in showcase.net.brokers.values())
    return sum(link.use == "in use" for mesh in meshes if mesh is not None for link in mesh.links)
