"""Load samples of simulated brokers: what their inboxes and channels know, as a driver tells it."""

from __future__ import annotations

from collections.abc import Mapping

from byway.core.inputs import LinkLoad, LoadSampled
from byway.sim.engine.network import Channel
from byway.sim.engine.nodes import Node


class LoadSamples:
    """The load samples of the brokers of one world."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._uplink_us: dict[str, int] = {}
        """By broker, the time for which its uplink had been in use at the last sample."""

    def sample(self, node: Node) -> LoadSampled:
        """What a broker is told now."""
        waited_us, service_us = node.turn_times.sample()
        return LoadSampled(
            node.waiting,
            tuple(
                self._link(node.name, link, channel)
                for link, channel in sorted(node.channels.items())
            ),
            self._uplink(node),
            waited_us,
            service_us,
        )

    def _link(self, name: str, link: str, channel: Channel) -> LinkLoad:
        back = self._nodes[link].channels.get(name)
        waiting, waiting_bytes = channel.waiting, channel.waiting_bytes
        sent_bytes, waited_us, service_us = channel.sample()
        return LinkLoad(
            link,
            waiting=waiting,
            waiting_bytes=waiting_bytes,
            sent_bytes=sent_bytes,
            waited_us=waited_us,
            service_us=service_us,
            # while one end is closing the connection there is no way back
            round_trip_us=0 if back is None else channel.delay_us + back.delay_us,
        )

    def _uplink(self, node: Node) -> float:
        busy_us = 0 if node.uplink is None else node.uplink.busy_us
        before_us = self._uplink_us.get(node.name, 0)
        self._uplink_us[node.name] = busy_us
        return min((busy_us - before_us) / node.config.load_sample_us, 1.0)
