"""Reference networks: the tables of a network that never knew any but the present clients.

Without covering the tables follow from the topology: an advertisement is at every broker, a
subscription at the brokers between its home and the homes of advertisements that may feed it. With
covering they are what brokers make of it: new brokers are linked, and get the registrations of all
clients at once, without delays or faults.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from byway.core.actions import Send
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkUp,
    Started,
)
from byway.core.tables import Table
from byway.matching import MatchIndex
from byway.model import Filter
from byway.model.messages import AdvertiseRequest, Frame, SubscribeRequest
from byway.sim.engine.client_watch import ClientWatch
from byway.sim.topology.tree import Topology

Path = tuple[str, ...]
"""The brokers towards the home of an entry, nearest first, as far as it is told; empty at home."""
Held = dict[tuple[Path, str, str], Filter]
"""Filters by the path they came along, client and name."""


class ReferenceTables(NamedTuple):
    """The advertisements and subscriptions that one broker holds."""

    advertisements: Held
    subscriptions: Held


def tables_of(broker: Broker) -> ReferenceTables:
    """The tables of a broker as they are now."""
    return ReferenceTables(_held(broker.advertisements), _held(broker.subscriptions))


def _held(table: Table) -> Held:
    return {(e.origin.path, e.id.client, e.id.name): e.filter for e in table}


def reference_tables(
    topology: Topology, configs: Mapping[str, BrokerConfig], sessions: Sequence[ClientWatch]
) -> dict[str, ReferenceTables]:
    """By broker, the tables of a network with nothing but what is in force in these sessions."""
    if all(config.covering == "none" for config in configs.values()):
        return plain_tables(topology, configs, sessions)
    network = ReferenceNetwork(topology, configs)
    network.register(sessions)
    return {name: tables_of(broker) for name, broker in network.brokers.items()}


# --- without covering -----------------------------------------------------------------------------


class Directions:
    """From each broker, the next one on the path to a goal."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._towards: dict[str, dict[str, str | None]] = {}

    def towards(self, goal: str) -> dict[str, str | None]:
        """By broker, the next one on the path to `goal`; None at the goal itself."""
        found = self._towards.get(goal)
        if found is None:
            found = self._towards[goal] = {goal: None}
            queue = [goal]
            for broker in queue:
                for neighbour in self._topology.neighbours(broker):
                    if neighbour not in found:
                        found[neighbour] = broker
                        queue.append(neighbour)
        return found


class Paths:
    """From each broker, the path of a subscription towards its home, as neighbours tell it: each
    says as much as its own neighbourhood reaches."""

    def __init__(self, directions: Directions, configs: Mapping[str, BrokerConfig]) -> None:
        self._directions = directions
        self._configs = configs
        self._paths: dict[str, dict[str, Path]] = {}

    def towards(self, home: str) -> dict[str, Path]:
        """By broker, the path of what has its home there."""
        found = self._paths.get(home)
        if found is None:
            found = self._paths[home] = {}
            for broker, link in self._directions.towards(home).items():  # nearest first
                if link is None:
                    found[broker] = ()
                else:
                    found[broker] = (link, *found[link][: self._configs[link].mesh.delta - 1])
        return found


def plain_tables(
    topology: Topology, configs: Mapping[str, BrokerConfig], sessions: Sequence[ClientWatch]
) -> dict[str, ReferenceTables]:
    """By broker, the tables of a network without covering."""
    directions = Directions(topology)
    paths = Paths(directions, configs)
    tables = {name: ReferenceTables({}, {}) for name in topology.brokers}
    feeds = MatchIndex()
    homes: list[str] = []
    for session in sessions:
        for advertisement in session.advertisements:
            feeds.add(len(homes), advertisement.filter)
            homes.append(session.broker_name)
            for broker, link in directions.towards(session.broker_name).items():
                came = () if link is None else (link,)
                key: tuple[Path, str, str] = (came, session.client_name, advertisement.name)
                tables[broker].advertisements[key] = advertisement.filter
    spans: dict[tuple[str, ...], list[str]] = {}
    for session in sessions:
        home = session.broker_name
        for subscription in session.subscriptions:
            keys = feeds.intersecting_advertisements(subscription.filter).tolist()
            ends = (home, *sorted({homes[key] for key in keys}))
            if ends not in spans:
                spans[ends] = list(_between(ends[1:], directions.towards(home), home))
            for broker in spans[ends]:
                key = (paths.towards(home)[broker], session.client_name, subscription.name)
                tables[broker].subscriptions[key] = subscription.filter
    return tables


def _between(goals: Iterable[str], towards: Mapping[str, str | None], home: str) -> Iterator[str]:
    """The brokers on the paths from `home` to the goals."""
    seen: set[str] = set()
    for goal in (home, *goals):
        broker: str | None = goal
        while broker is not None and broker not in seen:
            seen.add(broker)
            yield broker
            broker = towards[broker]


# --- with covering --------------------------------------------------------------------------------


class ReferenceNetwork:
    """New brokers, linked and at rest."""

    def __init__(self, topology: Topology, configs: Mapping[str, BrokerConfig]) -> None:
        self.brokers = {
            name: Broker(name, topology.neighbours(name), configs[name])
            for name in topology.brokers
        }
        self._frames: deque[tuple[str, str, Frame]] = deque()
        for name in topology.brokers:
            self._do(name, Started())
        for link in topology.links:
            hellos = self.brokers[link.a].hello(link.b), self.brokers[link.b].hello(link.a)
            self._do(link.a, LinkUp(link.b, hellos[1]))
            self._do(link.b, LinkUp(link.a, hellos[0]))
        self._settle()

    def register(self, sessions: Sequence[ClientWatch]) -> None:
        """Begin these sessions, and let their clients advertise and then subscribe."""
        for one in sessions:
            self._do(one.broker_name, ClientAttached(one.client_name, one.incarnation))
        for one in sessions:
            advertise = tuple(AdvertiseRequest(e.name, e.filter) for e in one.advertisements)
            self._do(one.broker_name, ClientRequested(one.client_name, advertise))
        self._settle()
        for one in sessions:
            subscribe = tuple(SubscribeRequest(e.name, e.filter) for e in one.subscriptions)
            self._do(one.broker_name, ClientRequested(one.client_name, subscribe))
        self._settle()

    def _do(self, broker: str, event: Input) -> None:
        for action in self.brokers[broker].handle(0, event):
            if isinstance(action, Send):
                self._frames.append((action.link, broker, action.frame))

    def _settle(self) -> None:
        while self._frames:
            receiver, sender, frame = self._frames.popleft()
            self._do(receiver, FrameReceived(sender, frame))
