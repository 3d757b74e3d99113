"""What the claims about the mesh would come to under other readings of the paper's setup.

    python -m benches.mesh_readings

A static model: no time, no order, no queues, and every soft link is open from the beginning. Each
broker has soft links to those brokers within Δ hops that would gain most, as many as `fanout`
leaves room for; each item is published once, and its copies are followed by the strategies' own
code. The simulator is the measurement; this says which readings are worth one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final, Literal, NamedTuple

import numpy as np

from byway.core.mesh import OverlayMaps
from byway.sim.topology.shapes import balanced_tree
from byway.sim.topology.tree import Topology
from byway.workload import Feeds

DELTA: Final = 4
BROKERS: Final = 120
DATA: Final = {"DT1": Feeds(seed=1), "DT2": Feeds(seed=1, feeds=60, density=10)}
READINGS: Final = {"three children": 3, "three links": 2}
"""What degree 3 may mean, and the children of a broker then."""
FANOUTS: Final = (15, 35)
Strategy = Literal["S0", "S1", "S2"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("S0", "S1", "S2")


class Setting(NamedTuple):
    """One reading of the setup."""

    topology: Topology
    feeds: tuple[str, ...]
    subscribers: tuple[str, ...]
    items: tuple[tuple[int, frozenset[int]], ...]
    """Of each item somebody wants, the number of its feed and of its subscribers."""


class Walked(NamedTuple):
    """The copies of all items."""

    matched: int
    forwarders: int
    visits: dict[str, Counter[frozenset[str]]]
    """By broker, how often copies came for which others."""

    @property
    def yield_(self) -> float:
        return self.matched / (self.matched + self.forwarders)


class Paths:
    """Paths of a tree."""

    def __init__(self, topology: Topology) -> None:
        self._parents = {}
        self.neighbours: dict[str, list[str]] = defaultdict(list)
        self.edges = [(link.a, link.b) for link in topology.links]
        for a, b in self.edges:
            self.neighbours[a].append(b)
            self.neighbours[b].append(a)
        for root in topology.brokers:
            towards = {root: root}
            waiting = [root]
            for broker in waiting:
                for other in self.neighbours[broker]:
                    if other not in towards:
                        towards[other] = broker
                        waiting.append(other)
            self._parents[root] = towards

    def path(self, a: str, b: str) -> list[str]:
        """The brokers from `a` to `b`, without `a`."""
        towards, found = self._parents[b], []
        while a != b:
            a = towards[a]
            found.append(a)
        return found

    def near(self, broker: str) -> list[str]:
        """The brokers within Δ hops that are not neighbours."""
        return [b for b in self._parents[broker] if 2 <= len(self.path(broker, b)) <= DELTA]

    def local_edges(self, broker: str) -> list[tuple[str, str]]:
        """The edges within Δ hops."""
        near = {b for b in self._parents[broker] if len(self.path(broker, b)) <= DELTA}
        return [(a, b) for a, b in self.edges if a in near and b in near]


def setting_of(data: Feeds, children: int, at_leaves: bool) -> Setting:
    """The places that a seed draws."""
    topology = balanced_tree(BROKERS, fan_out=children)
    rng = np.random.default_rng(1)
    homes = topology.leaves if at_leaves else topology.brokers
    subscribers = tuple(homes[n] for n in rng.permutation(len(homes))[: data.subscribers])
    feeds = tuple(topology.brokers[n] for n in rng.permutation(BROKERS)[: data.feeds])
    wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
    number = {name: feed for feed, name in enumerate(data.feed_names())}
    numbers, row = data.subscriber_numbers().tolist(), 0
    for chunk in range(-(-data.subscription_count() // data.ROWS)):
        filters = data.subscriptions(chunk)
        names = filters.string_ids.reshape(-1, 2)[:, 0].tolist()
        for name, item in zip(names, filters.numbers.reshape(-1, 2)[:, 1].tolist(), strict=True):
            wanted[number[filters.strings[name]], int(item)].add(numbers[row])
            row += 1
    items = tuple((feed, frozenset(who)) for (feed, _), who in sorted(wanted.items()))
    return Setting(topology, feeds, subscribers, items)


def walk(
    setting: Setting, paths: Paths, maps: Mapping[str, OverlayMaps], strategy: Strategy
) -> Walked:
    """Follow the copies of every item once."""
    matched = forwarders = 0
    visits: dict[str, Counter[frozenset[str]]] = defaultdict(Counter)
    for feed, who in setting.items:
        waiting = [(setting.feeds[feed], frozenset(setting.subscribers[n] for n in who), True)]
        while waiting:
            broker, targets, is_home = waiting.pop()
            if broker in targets:
                matched += 1
            elif not is_home:
                forwarders += 1
            others = targets - {broker}
            visits[broker][others] += 1
            by_anchor: dict[str, set[str]] = defaultdict(set)
            for target in others:
                by_anchor[paths.path(broker, target)[:DELTA][-1]].add(target)
            own, served = maps[broker], 0
            for link in own.forward(sorted(by_anchor), strategy):
                beyond = own.beyond(link)
                behind = [
                    t for a, some in by_anchor.items() if own.substitute(a) in beyond for t in some
                ]
                served += len(behind)
                waiting.append((link, frozenset(behind), False))
            assert served == len(others), "each target is served by one copy"
    return Walked(matched, forwarders, visits)


def mapped(paths: Paths, links: Mapping[str, Iterable[str]]) -> dict[str, OverlayMaps]:
    """The maps of all brokers with these soft links."""
    return {
        broker: OverlayMaps.build(broker, paths.local_edges(broker), DELTA, soft=tuple(soft))
        for broker, soft in links.items()
    }


def best_links(
    paths: Paths, full: Mapping[str, OverlayMaps], walked: Walked, strategy: Strategy, fanout: int
) -> dict[str, list[str]]:
    """For each broker the soft links that gain most, if copies come as they did."""
    found = {}
    for broker, own in full.items():
        gains: Counter[str] = Counter()
        for targets, times in walked.visits[broker].items():
            anchors = sorted({paths.path(broker, t)[:DELTA][-1] for t in targets})
            for link in own.forward(anchors, strategy):
                gains[link] += times * (len(paths.path(broker, link)) - 1)
        room = max(fanout - len(paths.neighbours[broker]), 0)
        ranked = sorted(gains, key=lambda b: (-gains[b], b))
        found[broker] = [b for b in ranked if gains[b]][:room]
    return found


def model(setting: Setting, strategy: Strategy, fanout: int) -> Walked:
    """What one strategy comes to."""
    paths = Paths(setting.topology)
    tree = {broker: list[str]() for broker in setting.topology.brokers}
    if strategy == "S0":
        return walk(setting, paths, mapped(paths, tree), strategy)
    full = mapped(paths, {broker: paths.near(broker) for broker in tree})
    ideal = walk(setting, paths, full, strategy)
    links = best_links(paths, full, ideal, strategy, fanout)
    return walk(setting, paths, mapped(paths, links), strategy)


def main() -> None:
    """Print a table of all readings."""
    print("| data | degree 3 | subscribers | fanout | yield S0 / S1 / S2 | S1 | S2 |")
    print("|---|---|---|---|---|---|---|")
    for data, tree, at_leaves in product(DATA, READINGS, (True, False)):
        setting = setting_of(DATA[data], READINGS[tree], at_leaves)
        for fanout in FANOUTS:
            found = {s: model(setting, s, fanout) for s in STRATEGIES}
            yields = " / ".join(f"{100 * found[s].yield_:.0f}" for s in STRATEGIES)
            less = " | ".join(
                f"{100 * (1 - found[s].forwarders / found['S0'].forwarders):.0f} % less"
                for s in STRATEGIES[1:]
            )
            where = "at leaves" if at_leaves else "anywhere"
            print(f"| {data} | {tree} | {where} | {fanout} | {yields} | {less} |", flush=True)


if __name__ == "__main__":
    main()
