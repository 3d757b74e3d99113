"""Load exchange: each broker learns how busy its neighbourhood is.

Once an interval a broker sends each neighbour one report: its own load, and what it last heard from
behind its other links, up to a radius. So a report costs one message a link, whatever the radius,
and news travels one hop an interval. A broker that has not been heard of for a few intervals is
forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

import msgspec

from byway.core.behaviours.behaviour import Behaviour
from byway.core.behaviours.broker_view import BrokerView
from byway.core.broker_config import BrokerConfig
from byway.model.bounds import LOADS_BYTES_MAX, LOADS_MAX
from byway.model.errors import RemoteProtocolError
from byway.model.messages import Load, LoadReport, Publish

BROKERS_MAX: Final = LOADS_MAX - 1
"""Brokers in one report beside its sender; beyond, the farthest are left out."""
_INTERVALS_KEPT: Final = 3
_SURELY_FEW: Final = 256  # with the longest of names

_encode = msgspec.msgpack.Encoder().encode


class LoadExchangeState(msgspec.Struct, array_like=True):
    """What a snapshot holds of it: reports are numbered and kept like any message, so a broker that
    is rebuilt from its inputs must report the same."""

    since_us: int
    received: int
    forwarded: int
    delivered: int
    known: dict[str, list[Load]]


class LoadExchange(Behaviour):
    """Counts publications, tells its neighbours, and remembers what it is told."""

    name: ClassVar[str] = "load"
    messages: ClassVar[tuple[type, ...]] = (LoadReport,)

    @classmethod
    def make(cls, view: BrokerView, config: BrokerConfig) -> Self | None:
        """It is on where there is an interval."""
        if not config.load_interval_us:
            return None
        return cls(view, config.load_interval_us, config.load_radius)

    def __init__(self, view: BrokerView, interval_us: int, radius: int) -> None:
        super().__init__(view)
        self.interval_us = interval_us
        self.radius = radius
        self.known: dict[str, dict[str, Load]] = {}
        """By link, the last load of each broker behind it."""
        view.share_loads(self.known)
        self._since_us = 0
        self._received = self._forwarded = self._delivered = 0

    def snapshot(self) -> LoadExchangeState:
        """The counts since the last report, and what was reported."""
        known = {link: list(loads.values()) for link, loads in self.known.items()}
        counts = self._received, self._forwarded, self._delivered
        return LoadExchangeState(self._since_us, *counts, known)

    def restore(self, state: Any) -> None:
        """Go on from a snapshot; older ones hold nothing."""
        if state is None:
            return
        found = msgspec.convert(state, LoadExchangeState)
        self._since_us = found.since_us
        self._received, self._forwarded = found.received, found.forwarded
        self._delivered = found.delivered
        for link, loads in found.known.items():
            self.known[link] = {load.broker: load for load in loads}

    def behind(self, link: str) -> list[Load]:
        """The loads that are known of brokers behind a link, the nearest first."""
        loads = self.known.get(link, {}).values()
        return sorted(loads, key=lambda load: (load.hops, load.broker))

    def on_started(self) -> None:
        """Count publications from now on, and report in an interval. Nothing is known of brokers
        behind links, which are down."""
        self.known.clear()
        self._received = self._forwarded = self._delivered = 0
        self._since_us = self.view.now_us
        self.view.set_timer(self._since_us + self.interval_us)

    def on_timer(self, detail: str) -> None:
        """Send each neighbour a report."""
        del detail
        now_us = self.view.now_us
        self._forget_old(now_us)
        mine = self._own(now_us)
        for link in self.view.links:
            behind = [
                load
                for other, loads in sorted(self.known.items())
                if other != link
                for load in loads.values()
                if load.hops < self.radius
            ]
            nearest = sorted(behind, key=lambda load: (load.hops, load.broker))[:BROKERS_MAX]
            passed_on = [msgspec.structs.replace(load, hops=load.hops + 1) for load in nearest]
            self.view.send(link, LoadReport((mine, *_fitting(passed_on))))
        self.view.set_timer(now_us + self.interval_us)

    def _own(self, now_us: int) -> Load:
        """The load of the interval that ends now; the next one begins."""
        seconds = max(now_us - self._since_us, 1) / 1e6
        sample = self.view.load
        load = Load(
            broker=self.view.broker,
            hops=1,
            at_us=now_us,
            publications_in=self._received / seconds,
            publications_out=self._forwarded / seconds,
            deliveries=self._delivered / seconds,
            queued=sample.queued,
            uplink=sample.uplink,
        )
        self._since_us = now_us
        self._received = self._forwarded = self._delivered = 0
        return load

    def on_message(self, link: str, message: Any) -> None:
        """Remember what a neighbour tells; what it no longer tells is forgotten."""
        report: LoadReport = message
        if len(report.loads) > BROKERS_MAX + 1:
            raise RemoteProtocolError(link, f"reports {len(report.loads)} loads at once")
        self.known[link] = {
            load.broker: msgspec.structs.replace(load, at_us=self.view.now_us)
            for load in report.loads
            if load.broker != self.view.broker
        }

    def _forget_old(self, now_us: int) -> None:
        oldest = now_us - _INTERVALS_KEPT * self.interval_us
        for link, loads in list(self.known.items()):
            self.known[link] = {b: load for b, load in loads.items() if load.at_us >= oldest}
            if not self.known[link]:
                del self.known[link]

    def on_link_down(self, link: str) -> None:
        """Forget the loads of brokers behind the link: they are out of reach."""
        self.known.pop(link, None)

    def on_publication_routed(
        self,
        publication: Publish,
        link: str | None,
        links: Sequence[str],
        clients: Sequence[str],
    ) -> None:
        """Count a publication, its copies and its deliveries."""
        del publication, link
        self._received += 1
        self._forwarded += len(links)
        self._delivered += len(clients)


def _fitting(loads: Sequence[Load]) -> Sequence[Load]:
    """As many of them as fit into one message, from the first on."""
    if len(loads) <= _SURELY_FEW:
        return loads
    left = LOADS_BYTES_MAX
    for at, load in enumerate(loads):
        left -= len(_encode(load))
        if left < 0:
            return loads[:at]
    return loads
