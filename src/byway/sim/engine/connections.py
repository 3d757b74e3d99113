"""Connections: which neighbours are connected, and when they connect again.

A link is connected as soon as both ends are up and nothing separates them. When it breaks, all
frames on it are lost. Both ends learn of either at once. Why a link is separated is not known here,
only by which causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from byway.core.inputs import LinkDown, LinkUp, NeighbourAdded
from byway.model.messages import Hello
from byway.sim.engine.encoded_frames import EncodedChannel, broker_preamble, greeting
from byway.sim.engine.network import Channel, NetworkOptions
from byway.sim.engine.nodes import Node
from byway.sim.engine.sim_clock import Clock
from byway.sim.topology.tree import LinkSpec, Topology


class SimLink:
    """A link of the topology and its connection, if it is connected."""

    __slots__ = ("attempt", "causes", "channels", "ends", "extra_us", "latency_us")

    def __init__(self, a: Node, b: Node, latency_us: int) -> None:
        self.ends = (a, b)
        self.latency_us = latency_us
        self.channels: tuple[Channel, Channel] | None = None
        """The channels from the first end and from the second, while the link is connected."""
        self.causes: set[str] = set()
        """The causes that separate the link; it connects when there are none."""
        self.extra_us = 0
        self.attempt = 0

    def __repr__(self) -> str:
        a, b = self.ends
        return f"<Link {a.name}-{b.name}, {'connected' if self.channels else 'not connected'}>"


class Connections:
    """The links of one world and their connections."""

    def __init__(
        self, topology: Topology, nodes: Mapping[str, Node], clock: Clock, options: NetworkOptions
    ) -> None:
        self._bytes_before = 0
        """The bytes that were sent over connections that are gone."""
        self._topology = topology
        self._clock = clock
        self._options = options
        self._links = {
            spec: SimLink(nodes[spec.a], nodes[spec.b], spec.latency_us) for spec in topology.links
        }

    def of(self, a: str, b: str) -> SimLink:
        """The link between two neighbours."""
        return self._links[self._topology.link(a, b)]

    def between(self, brokers: frozenset[str]) -> list[LinkSpec]:
        """The links between these brokers and all others."""
        return [spec for spec in self._links if (spec.a in brokers) != (spec.b in brokers)]

    @property
    def are_whole(self) -> bool:
        """Whether every link is connected."""
        return all(link.channels is not None for link in self._links.values())

    @property
    def bytes_sent(self) -> int:
        """The bytes sent over all connections, if they are counted."""
        channels = (one for link in self._links.values() for one in link.channels or ())
        return self._bytes_before + sum(channel.bytes_sent for channel in channels)

    # --- making --------------------------------------------------------------------------------

    def make_all(self) -> None:
        """Connect every link that can be connected, now."""
        for link in self._links.values():
            self._make(link)

    def come_up(self, broker: str) -> None:
        """A broker is up: connect it to its neighbours after the reconnect delay."""
        for neighbour in self._topology.neighbours(broker):
            self._attempt(self.of(broker, neighbour))

    def _attempt(self, link: SimLink) -> None:
        link.attempt += 1
        at_us = self._clock.now_us + self._options.reconnect_us
        self._clock.at(at_us, self._make_attempted, (link, link.attempt))

    def _make_attempted(self, what: tuple[SimLink, int]) -> None:
        link, attempt = what
        if attempt == link.attempt:
            self._make(link)

    def _make(self, link: SimLink) -> None:
        a, b = link.ends
        if link.channels is not None or link.causes or a.broker is None or b.broker is None:
            return
        for node, other in ((a, b), (b, a)):
            assert node.broker is not None
            if not node.broker.is_neighbour(other.name):
                node.handle_now(NeighbourAdded(other.name))
                if node.broker is None:
                    return  # its disk has ended it
        hello_of_a, hello_of_b = self._hello(a, b), self._hello(b, a)
        link.channels = self._channel(link, a, b), self._channel(link, b, a)
        a.channels[b.name], b.channels[a.name] = link.channels
        a.handle_now(LinkUp(b.name, hello_of_b))
        if link.channels is not None:  # a may have closed it at once
            b.handle_now(LinkUp(a.name, hello_of_a))

    def _channel(self, link: SimLink, sender: Node, receiver: Node) -> Channel:
        latency_us, bandwidth = self._options.channel(sender.name, receiver.name, link.latency_us)
        arguments = (
            self._clock, sender.name, receiver.receive, latency_us, bandwidth, sender.uplink
        )  # fmt: skip
        if self._options.codec:
            channel: Channel = EncodedChannel(
                *arguments,
                unsendable=partial(sender.closed, receiver.name),
                unreadable=partial(receiver.closed, sender.name),
            )
        else:
            channel = Channel(*arguments)
        channel.extra_us = link.extra_us
        return channel

    def _hello(self, sender: Node, receiver: Node) -> Hello:
        """What one end says first, as the other end hears it."""
        broker = sender.broker
        assert broker is not None
        hello = broker.hello(receiver.name)
        if self._options.codec:
            return greeting(broker_preamble(sender.name, broker.incarnation), hello)
        return hello

    # --- breaking ------------------------------------------------------------------------------

    def separate(self, a: str, b: str, cause: str) -> None:
        """Break the link between two neighbours, for as long as the cause lasts."""
        link = self.of(a, b)
        link.causes.add(cause)
        self._break(link)

    def join(self, a: str, b: str, cause: str) -> None:
        """A cause is over: connect after the reconnect delay, if no other cause lasts."""
        link = self.of(a, b)
        if cause in link.causes:
            link.causes.remove(cause)
            self._attempt(link)

    def go_down(self, broker: str) -> None:
        """A broker is down: break its links."""
        for neighbour in self._topology.neighbours(broker):
            self._break(self.of(broker, neighbour))

    def close(self, a: str, b: str) -> None:
        """One end closes the connection; both connect again after the reconnect delay."""
        link = self.of(a, b)
        self._break(link)
        self._attempt(link)

    def _break(self, link: SimLink) -> None:
        if link.channels is None:
            return
        for channel in link.channels:
            channel.open = False
            self._bytes_before += channel.bytes_sent
        link.channels = None
        a, b = link.ends
        for node, peer in ((a, b), (b, a)):
            del node.channels[peer.name]
            node.drop_frames(peer.name)
        for node, peer in ((a, b), (b, a)):
            if node.broker is not None:
                node.handle_now(LinkDown(peer.name))

    def delay(self, a: str, b: str, extra_us: int) -> None:
        """Frames that leave from now on take `extra_us` longer, in both directions."""
        link = self.of(a, b)
        link.extra_us += extra_us
        for channel in link.channels or ():
            channel.extra_us = link.extra_us
