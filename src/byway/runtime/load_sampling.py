"""Load samples of a broker process: what its inbox and connections know, for the broker to go by.

A round trip is the time from sending a control message until its acknowledgement, so it includes
what the other broker has to do first; a link over which no control messages go has none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from byway.core.inputs import LinkLoad, LoadSampled
from byway.model.messages import Batch

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer
    from byway.transport.connection import Connection

_SMOOTHING: Final = 8
"""A new round trip counts for one part in so many, the last mean for the others."""


class RoundTrip:
    """The round trips of one link."""

    __slots__ = ("_number", "_sent_at", "mean_s")

    def __init__(self) -> None:
        self._number = 0
        """The control message that is being timed; 0: none is."""
        self._sent_at = 0.0
        self.mean_s = 0.0
        """Moving average; 0 before the first."""

    def sent(self, batch: Batch, now: float) -> None:
        """Control messages are sent: time the last of them, unless another one is being timed."""
        if not self._number:
            self._number, self._sent_at = batch.first + len(batch.messages) - 1, now

    def acknowledged(self, number: int, now: float) -> None:
        """The other end has control messages up to a number."""
        if not 0 < self._number <= number:
            return
        self._number = 0
        last_s = now - self._sent_at
        self.mean_s += (last_s - self.mean_s) / _SMOOTHING if self.mean_s else last_s


class LoadSampler:
    """Makes the load samples of one broker process."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server
        self._sampled_at = 0.0
        self._bytes = 0
        """Bytes that were written in all, at the last sample."""

    async def report(self) -> None:
        """Tell the broker at intervals what it cannot see, if it goes by that."""
        server = self._server
        every_us = server.settings.core.load_sample_us
        self._sampled_at = asyncio.get_running_loop().time()
        while every_us:
            await asyncio.sleep(every_us / 1e6)
            if server.broker.uses_load:
                server.driver.control(self.sample(asyncio.get_running_loop().time()))

    def sample(self, now: float) -> LoadSampled:
        """The loads since the last sample."""
        server = self._server
        up = [(name, link) for name, link in sorted(server.links.items()) if link.was_up]
        waited_us, service_us = server.driver.turn_times.sample()
        return LoadSampled(
            server.driver.inbox.waiting,
            tuple(self._link(name, link) for name, link in up),
            self._uplink(now),
            waited_us,
            service_us,
        )

    def _link(self, name: str, connection: Connection) -> LinkLoad:
        output = connection.output.sample()
        round_trip = self._server.neighbour_links.round_trips.get(name)
        return LinkLoad(
            name,
            waiting=connection.waiting_messages,
            waiting_bytes=connection.waiting_bytes,
            sent_bytes=output.bytes,
            waited_us=output.waited_us,
            service_us=output.service_us,
            round_trip_us=0 if round_trip is None else round(round_trip.mean_s * 1e6),
        )

    def _uplink(self, now: float) -> float:
        """Share of the uplink in use since the last sample, if its capacity is known."""
        written, seconds = self._server.intake.bytes_out - self._bytes, now - self._sampled_at
        self._bytes, self._sampled_at = self._server.intake.bytes_out, now
        capacity = self._server.settings.limits.uplink_bytes
        return min(written / (capacity * seconds), 1.0) if capacity and seconds > 0 else 0.0
