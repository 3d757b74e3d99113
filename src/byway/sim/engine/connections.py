"""Connections: which neighbours can hear each other, and when they meet again.

Made by the world as soon as both ends are there and nothing separates them, and broken with all
that is on them. Both ends learn of both at once. Why a link is separated is not known here, only
by how many causes.
"""

from __future__ import annotations

from collections.abc import Mapping

from byway.core.inputs import LinkDown, LinkUp, NeighbourAdded
from byway.sim.engine.clock import Clock
from byway.sim.engine.network import NetworkOptions, Way
from byway.sim.engine.nodes import Node
from byway.sim.topology.tree import LinkSpec, Topology


class Link:
    """A link of the topology and its present connection."""

    __slots__ = ("attempt", "causes", "ends", "extra_us", "latency_us", "ways")

    def __init__(self, a: Node, b: Node, latency_us: int) -> None:
        self.ends = (a, b)
        self.latency_us = latency_us
        self.ways: tuple[Way, Way] | None = None
        """From the first end and from the second, while it is connected."""
        self.causes: set[str] = set()
        """Why it is separated."""
        self.extra_us = 0
        self.attempt = 0

    def __repr__(self) -> str:
        a, b = self.ends
        return f"<Link {a.name}-{b.name}, {'connected' if self.ways else 'not connected'}>"


class Connections:
    """All links of one world."""

    def __init__(
        self, topology: Topology, nodes: Mapping[str, Node], clock: Clock, options: NetworkOptions
    ) -> None:
        self._bytes_before = 0
        """Sent over connections that are gone."""
        self._topology = topology
        self._clock = clock
        self._options = options
        self._links = {
            spec: Link(nodes[spec.a], nodes[spec.b], spec.latency_us) for spec in topology.links
        }

    def of(self, a: str, b: str) -> Link:
        """The link between two neighbours."""
        return self._links[self._topology.link(a, b)]

    def between(self, brokers: frozenset[str]) -> list[LinkSpec]:
        """Links between these brokers and all others."""
        return [spec for spec in self._links if (spec.a in brokers) != (spec.b in brokers)]

    @property
    def are_whole(self) -> bool:
        """Whether every link is connected."""
        return all(link.ways is not None for link in self._links.values())

    @property
    def bytes_sent(self) -> int:
        """Over all connections that there were; counted only where something is limited."""
        ways = (way for link in self._links.values() for way in link.ways or ())
        return self._bytes_before + sum(way.bytes_sent for way in ways)

    # --- making --------------------------------------------------------------------------------

    def make_all(self) -> None:
        """Connect all that can be, now."""
        for link in self._links.values():
            self._make(link)

    def come_up(self, broker: str) -> None:
        """A broker is there: connect it to its neighbours in a while."""
        for neighbour in self._topology.neighbours(broker):
            self._attempt(self.of(broker, neighbour))

    def _attempt(self, link: Link) -> None:
        link.attempt += 1
        at_us = self._clock.now_us + self._options.reconnect_us
        self._clock.at(at_us, self._make_attempted, (link, link.attempt))

    def _make_attempted(self, what: tuple[Link, int]) -> None:
        link, attempt = what
        if attempt == link.attempt:
            self._make(link)

    def _make(self, link: Link) -> None:
        a, b = link.ends
        if link.ways is not None or link.causes or a.broker is None or b.broker is None:
            return
        for node, other in ((a, b), (b, a)):
            assert node.broker is not None
            if not node.broker.is_neighbour(other.name):
                node.at_once(NeighbourAdded(other.name))
        hello_of_a, hello_of_b = a.broker.hello(b.name), b.broker.hello(a.name)
        link.ways = self._way(link, a, b), self._way(link, b, a)
        a.ways[b.name], b.ways[a.name] = link.ways
        a.at_once(LinkUp(b.name, hello_of_b))
        if link.ways is not None:  # a may have closed it at once
            b.at_once(LinkUp(a.name, hello_of_a))

    def _way(self, link: Link, sender: Node, receiver: Node) -> Way:
        latency_us, bandwidth = self._options.way(sender.name, receiver.name, link.latency_us)
        way = Way(self._clock, sender.name, receiver.receive, latency_us, bandwidth, sender.uplink)
        way.extra_us = link.extra_us
        return way

    # --- breaking ------------------------------------------------------------------------------

    def separate(self, a: str, b: str, cause: str) -> None:
        """Something stands between two neighbours."""
        link = self.of(a, b)
        link.causes.add(cause)
        self._break(link)

    def join(self, a: str, b: str, cause: str) -> None:
        """It no longer does."""
        link = self.of(a, b)
        if cause in link.causes:
            link.causes.remove(cause)
            self._attempt(link)

    def go_down(self, broker: str) -> None:
        """A broker is gone."""
        for neighbour in self._topology.neighbours(broker):
            self._break(self.of(broker, neighbour))

    def close(self, a: str, b: str) -> None:
        """One end wants the connection closed; they meet again after a while."""
        link = self.of(a, b)
        self._break(link)
        self._attempt(link)

    def _break(self, link: Link) -> None:
        if link.ways is None:
            return
        for way in link.ways:
            way.open = False
            self._bytes_before += way.bytes_sent
        link.ways = None
        a, b = link.ends
        for node, peer in ((a, b), (b, a)):
            del node.ways[peer.name]
            node.lose_frames(peer.name)
        for node, peer in ((a, b), (b, a)):
            if node.broker is not None:
                node.at_once(LinkDown(peer.name))

    def delay(self, a: str, b: str, extra_us: int) -> None:
        """Frames that leave from now on take so much longer, in both directions."""
        link = self.of(a, b)
        link.extra_us += extra_us
        for way in link.ways or ():
            way.extra_us = link.extra_us
