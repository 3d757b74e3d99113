"""Connections: which brokers are connected, and when they connect again.

Two brokers are connected as soon as both are up, nothing separates them, and one of them dials the
other: it lists it as a neighbour, or has decided on the link while it ran. When a connection
breaks, all frames on it are lost, and both ends learn of it at once. When an end closes it, the
other end reads what was sent before. Why brokers are separated is not known here, only by which
causes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

from byway.core.actions import CloseLink
from byway.core.inputs import LinkDown, LinkUp, NeighbourAdded
from byway.model.messages import Hello, LinkKind
from byway.sim.engine.encoded_frames import EncodedChannel, broker_preamble, greeting
from byway.sim.engine.network import Channel, NetworkOptions
from byway.sim.engine.nodes import Node
from byway.sim.engine.sim_clock import Clock
from byway.sim.topology.tree import Topology

Pair = tuple[str, str]
"""Two brokers, in the order of the topology."""


class SimLink:
    """Two brokers that are, were or will be linked, and their connection, if there is one."""

    __slots__ = ("attempt", "causes", "channels", "closing", "ends", "extra_us", "latency_us")

    def __init__(self, a: Node, b: Node, latency_us: int) -> None:
        self.ends = (a, b)
        self.latency_us = latency_us
        self.channels: tuple[Channel, Channel] | None = None
        """The channels from the first end and from the second, while the link is connected."""
        self.closing = False
        """Whether one end has closed the connection, and the other has not heard of it."""
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
        self,
        topology: Topology,
        nodes: Mapping[str, Node],
        clock: Clock,
        options: NetworkOptions,
        unlisted: Collection[tuple[str, str]] = (),
    ) -> None:
        """`unlisted`: pairs of neighbours of which the first does not list the second."""
        self._bytes_before = 0
        """The bytes that were sent over connections that are gone."""
        self._topology = topology
        self._nodes = nodes
        self._clock = clock
        self._options = options
        self._unlisted = frozenset(unlisted)
        self._places = {name: place for place, name in enumerate(topology.brokers)}
        self._groups: dict[str, frozenset[str]] = {}
        """By cause, brokers that are separated from all others."""
        self._links: dict[Pair, SimLink] = {
            (spec.a, spec.b): SimLink(nodes[spec.a], nodes[spec.b], spec.latency_us)
            for spec in topology.links
        }

    def of(self, a: str, b: str) -> SimLink:
        """The link between two brokers, which may be none yet."""
        pair = (a, b) if self._places[a] < self._places[b] else (b, a)
        link = self._links.get(pair)
        if link is None:
            nodes = self._nodes[pair[0]], self._nodes[pair[1]]
            link = self._links[pair] = SimLink(*nodes, self._topology.latency_us(a, b))
            link.causes.update(
                cause for cause, group in self._groups.items() if (a in group) != (b in group)
            )
        return link

    def _of_broker(self, broker: str) -> Iterator[SimLink]:
        """The links of a broker, those of the topology first."""
        listed = self._topology.neighbours(broker)
        for neighbour in listed:
            yield self.of(broker, neighbour)
        for pair, link in list(self._links.items()):
            if broker in pair and (pair[0] if pair[1] == broker else pair[1]) not in listed:
                yield link

    @property
    def are_whole(self) -> bool:
        """Whether every link that somebody wants is connected."""
        return all(
            link.channels is not None and not link.closing
            for link in self._links.values()
            if any(self._wants(*pair) for pair in _both_ways(link))
        )

    @property
    def bytes_sent(self) -> int:
        """The bytes sent over all connections, if they are counted."""
        channels = (one for link in self._links.values() for one in link.channels or ())
        return self._bytes_before + sum(channel.bytes_sent for channel in channels)

    # --- making --------------------------------------------------------------------------------

    def make_all(self) -> None:
        """Connect every link that can be connected, now."""
        for link in list(self._links.values()):
            self._make(link)

    def come_up(self, broker: str) -> None:
        """A broker is up: connect it to others after the reconnect delay."""
        after = self._nodes[broker].broker
        assert after is not None
        for name in after.links:
            self.of(broker, name)
        for link in list(self._of_broker(broker)):
            self._attempt(link)

    def open(self, a: str, b: str) -> None:
        """A broker wants to be connected to another one: they are after the reconnect delay."""
        self._attempt(self.of(a, b))

    def _attempt(self, link: SimLink) -> None:
        link.attempt += 1
        at_us = self._clock.now_us + self._options.reconnect_us
        self._clock.at(at_us, self._make_attempted, (link, link.attempt))

    def _make_attempted(self, what: tuple[SimLink, int]) -> None:
        link, attempt = what
        if attempt == link.attempt:
            self._make(link)

    def _wants(self, node: Node, other: Node) -> bool:
        """Whether a broker dials another one."""
        broker, name = node.broker, other.name
        if broker is None:
            return False
        if broker.dials(name):
            return True
        pair = (node.name, name)
        is_listed = name in self._topology.neighbours(node.name) and pair not in self._unlisted
        return is_listed and name not in broker.former

    def _make(self, link: SimLink) -> None:
        a, b = link.ends
        if link.channels is not None or link.causes or a.broker is None or b.broker is None:
            return
        dialling = [self._wants(a, b), self._wants(b, a)]
        if not any(dialling):
            return
        for (node, other), dials in zip(_both_ways(link), dialling, strict=True):
            if not self._expect(node, other, dials=dials):
                return
        for node in link.ends:
            node.handle_waiting()
        if any(node.broker is None for node in link.ends):
            return  # one has ended meanwhile
        hello_of_a, hello_of_b = self._hello(a, b), self._hello(b, a)
        soft = LinkKind.SOFT in (hello_of_a.kind, hello_of_b.kind)
        link.channels = self._channel(link, a, b, soft=soft), self._channel(link, b, a, soft=soft)
        a.channels[b.name], b.channels[a.name] = link.channels
        a.handle_now(LinkUp(b.name, hello_of_b))
        if a.name in b.channels:  # it may be broken already
            b.handle_now(LinkUp(a.name, hello_of_a))

    def _expect(self, node: Node, other: Node, *, dials: bool) -> bool:
        """Let a broker know of a new neighbour, as a broker process does when one is listed or
        dials in; False if that has ended it."""
        assert node.broker is not None
        assert other.broker is not None
        if node.broker.has_link(other.name):
            return True
        if not dials:
            is_outside = other.broker.has_link(node.name) and not other.broker.is_neighbour(
                node.name
            )
            if is_outside or other.name in node.broker.former:
                return True  # its greeting says the rest
        node.handle_now(NeighbourAdded(other.name))
        return node.broker is not None

    def _channel(self, link: SimLink, sender: Node, receiver: Node, *, soft: bool) -> Channel:
        latency_us, bandwidth = self._options.channel(
            sender.name, receiver.name, link.latency_us, soft=soft
        )
        arguments = (
            self._clock, sender.name, receiver.receive, latency_us, bandwidth, sender.uplink
        )  # fmt: skip
        if self._options.codec:
            channel: Channel = EncodedChannel(
                *arguments,
                unsendable=partial(_close, sender, receiver.name),
                unreadable=partial(_close, receiver, sender.name),
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
        """Break the link between two brokers, for as long as the cause lasts."""
        link = self.of(a, b)
        link.causes.add(cause)
        self._break(link)

    def join(self, a: str, b: str, cause: str) -> None:
        """A cause is over: connect after the reconnect delay, if no other cause lasts."""
        link = self.of(a, b)
        if cause in link.causes:
            link.causes.remove(cause)
            self._attempt(link)

    def separate_group(self, group: frozenset[str], cause: str) -> None:
        """Separate these brokers from all others, for as long as the cause lasts."""
        self._groups[cause] = group
        for a, b in self._between(group):
            self.separate(a, b, cause)

    def join_group(self, cause: str) -> None:
        """A cause that separated a group is over."""
        for a, b in self._between(self._groups.pop(cause)):
            self.join(a, b, cause)

    def _between(self, group: frozenset[str]) -> list[Pair]:
        return [pair for pair in self._links if (pair[0] in group) != (pair[1] in group)]

    def go_down(self, broker: str) -> None:
        """A broker is down: break its links."""
        for link in list(self._of_broker(broker)):
            self._break(link)

    def fail(self, a: str, b: str) -> None:
        """Break the connection; the ends connect again after the reconnect delay, if one wants
        to."""
        link = self.of(a, b)
        self._break(link)
        self._attempt(link)

    def close(self, closer: str, other: str) -> None:
        """One end closes the connection; the other reads what was sent before, and then learns of
        it. If one still wants the link, both connect again after the reconnect delay."""
        link, node = self.of(closer, other), self._nodes[closer]
        if link.channels is None or other not in node.channels:
            return
        if link.closing:  # by the other end
            self.fail(closer, other)
            return
        out, back = link.channels if link.ends[0] is node else reversed(link.channels)
        link.closing, back.open = True, False
        del node.channels[other]
        node.drop_frames(other)
        out.end_with(partial(self._closed, link, self._nodes[other]))

    def _closed(self, link: SimLink, node: Node) -> None:
        """All that an end had sent before it closed the connection has arrived at the other."""
        node.hand_over()
        self._break(link)
        self._attempt(link)

    def _break(self, link: SimLink) -> None:
        if link.channels is None:
            return
        for channel in link.channels:
            channel.open = False
            self._bytes_before += channel.bytes_sent
        link.channels, link.closing = None, False
        for node, peer in _both_ways(link):
            if node.channels.pop(peer.name, None) is not None:
                node.drop_frames(peer.name)
        for node, peer in _both_ways(link):
            if node.broker is not None:
                node.handle_now(LinkDown(peer.name))

    def delay(self, a: str, b: str, extra_us: int) -> None:
        """Frames that leave from now on take `extra_us` longer, in both directions."""
        link = self.of(a, b)
        link.extra_us += extra_us
        for channel in link.channels or ():
            channel.extra_us = link.extra_us


def _both_ways(link: SimLink) -> tuple[tuple[Node, Node], tuple[Node, Node]]:
    a, b = link.ends
    return (a, b), (b, a)


def _close(node: Node, neighbour: str, reason: str) -> None:
    """Have a node close a connection that carries what must not be."""
    node.closed(CloseLink(neighbour, reason, fault=True))
