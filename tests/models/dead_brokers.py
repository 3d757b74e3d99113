"""Brokers that die while publications go round them, and come back: the rules of the bypass.

A tree of brokers with links beside it. Publications of a few publishers are for sets of brokers.
Every link is a FIFO lane, and confirmations are end to end. A broker dies with what is on its
links; it comes back with its state, or without. Of several brokers on one way that want a
publication only the nearest is known before it: it may have quenched the others.

Each broker keeps, by publisher and branch, a queue, what is parked, and what each link has not
confirmed. `Rules` leaves a rule out, or puts another one in its place.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from itertools import pairwise

LOSS, DOUBLE, ORDER, STUCK = "loss", "double", "order", "stuck"


@dataclass(frozen=True)
class Rules:
    """What the brokers of one run do."""

    parked_goes_round: bool = True
    """Whether what is parked for a dead broker also goes to the nearest links behind it."""
    waits_for_first: bool = True
    """Whether a copy that comes again is confirmed only when the first one is."""
    holds: bool = True
    """Whether a link is used only while no comparable one has unconfirmed publications."""


@dataclass(eq=False)
class Source:
    """A publication in flight at one broker, and whom to tell when all its copies are confirmed."""

    publication: int
    left: int = 1
    waiting: list[tuple[int, int] | None] = field(default_factory=list)


@dataclass(eq=False)
class Unit:
    """A publication for some anchors in a branch."""

    publication: int
    anchors: frozenset[int]
    source: Source
    reached: frozenset[int] = frozenset()


@dataclass(eq=False)
class Broker:
    """What a broker forgets if it comes back without its state."""

    last: Counter[int] = field(default_factory=Counter)
    sources: dict[int, Source] = field(default_factory=dict)
    sent: dict[int, dict[int, Unit]] = field(default_factory=lambda: defaultdict(dict))
    """By link and number of the copy, what is unconfirmed."""
    queues: dict[tuple[int, int], list[Unit]] = field(default_factory=lambda: defaultdict(list))
    parked: dict[tuple[int, int], list[Unit]] = field(default_factory=lambda: defaultdict(list))


class Net:
    """One network. Publications are numbered from 1; `homes` and `wanted` are by publication."""

    def __init__(self, rng: random.Random, rules: Rules) -> None:
        self.rng, self.rules = rng, rules
        self.size, self.delta = rng.randint(4, 9), rng.randint(2, 4)
        self._plant()
        self.strategy = rng.choice(("first", "all"))
        share = rng.choice((0.3, 0.6, 1.0))
        pairs = [(a, b) for a in range(self.size) for b in range(self.size)]
        self.links = {
            (a, b)
            for a, b in pairs
            if len(self.way[a, b]) == 1
            or (1 < len(self.way[a, b]) <= self.delta and rng.random() < share)
        }
        self.peers = {a: sorted({b for b in range(self.size) if {(a, b), (b, a)} & self.links})
                      for a in range(self.size)}  # fmt: skip
        self.brokers = [Broker() for _ in range(self.size)]
        self.alive = [True] * self.size
        self.connection = {(a, b): 1 for a in self.peers for b in self.peers[a]}
        """By end of a link, the number of the connection that it knows of; 0: none."""
        self.last_connection = Counter({frozenset(pair): 1 for pair in self.connection})
        self.lanes: dict[tuple[int, int], deque[tuple[int, str, int, int]]] = defaultdict(deque)
        self.homes: dict[int, int] = {}
        self.wanted: dict[int, frozenset[int]] = {}
        self.taken: dict[tuple[int, int], list[int]] = defaultdict(list)
        """By publisher and broker, what a client there got."""
        self.copies = 0

    def _plant(self) -> None:
        parents = [self.rng.randrange(max(0, b - 3), b) for b in range(1, self.size)]
        adjacent = defaultdict(list)
        for child, parent in enumerate(parents, 1):
            adjacent[child].append(parent)
            adjacent[parent].append(child)
        self.way: dict[tuple[int, int], tuple[int, ...]] = {}
        for a in range(self.size):
            self.way[a, a], found = (), deque([a])
            while found:
                b = found.popleft()
                for c in adjacent[b]:
                    if (a, c) not in self.way:
                        self.way[a, c] = (*self.way[a, b], c)
                        found.append(c)

    def branch(self, at: int, to: int) -> int:
        return self.way[at, to][0]

    # --- publications --------------------------------------------------------------------------

    def publish(self, home: int, wanted: frozenset[int]) -> None:
        publication = len(self.homes) + 1
        self.homes[publication], self.wanted[publication] = home, wanted
        self._arrive(home, publication, None)

    def _anchors(self, at: int, publication: int) -> set[int]:
        """The brokers that are known to want a publication, as far as the map reaches."""
        homes = self.wanted[publication] - {at}
        known = [h for h in homes if not homes.intersection(self.way[at, h][:-1])]
        return {self.way[at, h][: self.delta][-1] for h in known}

    def _arrive(self, at: int, publication: int, sender: tuple[int, int] | None) -> None:
        broker, home = self.brokers[at], self.homes[publication]
        if publication <= broker.last[home]:
            first = broker.sources.get(publication)
            if first is None or not self.rules.waits_for_first:
                self._confirm(at, sender)
            else:
                first.waiting.append(sender)
            return
        broker.last[home] = publication
        if at in self.wanted[publication]:
            self.taken[home, at].append(publication)
        source = broker.sources[publication] = Source(publication, waiting=[sender])
        branches = defaultdict(set)
        for anchor in self._anchors(at, publication):
            branches[self.branch(at, anchor)].add(anchor)
        if sender is not None:
            branches.pop(self.branch(at, sender[0]), None)
        for branch, anchors in sorted(branches.items()):
            source.left += 1
            broker.queues[home, branch].append(Unit(publication, frozenset(anchors), source))
            self._send_on(at, home, branch)
        self._finish(at, source)

    def _finish(self, at: int, source: Source) -> None:
        source.left -= 1
        if not source.left and self.brokers[at].sources.get(source.publication) is source:
            del self.brokers[at].sources[source.publication]
            for sender in source.waiting:
                self._confirm(at, sender)

    def _confirm(self, at: int, sender: tuple[int, int] | None) -> None:
        if sender is not None:
            self._put(at, sender[0], "confirm", sender[1], 0)

    def _put(self, a: int, b: int, kind: str, number: int, publication: int) -> None:
        if self.connection[a, b]:
            self.lanes[a, b].append((self.connection[a, b], kind, number, publication))

    # --- planning ------------------------------------------------------------------------------

    def _send_on(self, at: int, home: int, branch: int) -> None:
        broker = self.brokers[at]
        queue = broker.queues[home, branch]
        while queue:
            unit = queue[0]
            links = [b for b in self.peers[at] if (at, b) in self.links and self.connection[at, b]
                     and self.branch(at, b) == branch]  # fmt: skip
            chosen, unreached = self._plan(at, unit, links)
            chosen = self._in_order(at, home, branch, chosen, links)
            if chosen is None:
                return
            queue.pop(0)
            for link in sorted(chosen):
                self.copies += 1
                unit.source.left += 1
                anchors = frozenset(x for x in unit.anchors if link in self.way[at, x])
                broker.sent[link][self.copies] = Unit(unit.publication, anchors, unit.source)
                self._put(at, link, "copy", self.copies, unit.publication)
            if unreached:
                unit.source.left += 1
                reached = unit.reached | chosen
                broker.parked[home, branch].append(
                    Unit(unit.publication, unreached, unit.source, reached)
                )
            self._finish(at, unit.source)

    def _plan(self, at: int, unit: Unit, links: list[int]) -> tuple[set[int], frozenset[int]]:
        """The links that a publication should take, and the anchors that no link leads to."""
        targets, unreached = set(), set()
        for anchor in unit.anchors:
            before = [b for b in self.way[at, anchor] if b in links]
            if before:
                targets.add(before[-1])
            else:
                unreached.add(anchor)
        roots = [b for b in links if not set(links).intersection(self.way[at, b][:-1])]
        if self.rules.parked_goes_round:
            targets |= {b for b in roots if unreached.intersection(self.way[at, b])}
        targets = {b for b in targets if not unit.reached.intersection(self.way[at, b])}
        if self.strategy == "all":
            return (
                {b for b in targets if not targets.intersection(self.way[at, b][:-1])},
                frozenset(unreached),
            )
        first = set()
        for root in roots:
            beyond = [self.way[at, b] for b in targets if root in self.way[at, b]]
            if beyond:
                common = set(beyond[0]).intersection(*beyond[1:]).intersection(links)
                first.add(max(common, key=lambda b: len(self.way[at, b])))
        return first, frozenset(unreached)

    def _in_order(
        self, at: int, home: int, branch: int, chosen: set[int], links: list[int]
    ) -> set[int] | None:
        """These links, or the open one before them all; None: the publication is held."""
        sent = self.brokers[at].sent
        used = {
            link
            for link, units in sent.items()
            if self.branch(at, link) == branch
            and any(self.homes[unit.publication] == home for unit in units.values())
        }

        def comparable(a: int, b: int) -> bool:
            return a != b and (a in self.way[at, b] or b in self.way[at, a])

        if not self.rules.holds or not any(comparable(a, b) for a in chosen for b in used):
            return chosen
        for link in sorted(used.intersection(links)):
            before_all = all(link in self.way[at, b] for b in chosen)
            if before_all and not any(comparable(link, other) for other in used):
                return {link}
        return None

    # --- what comes over links -----------------------------------------------------------------

    def step(self) -> bool:
        """Let one broker read the next frame of one link; whether there was any."""
        ways = sorted(way for way, lane in self.lanes.items() if lane and self.alive[way[1]])
        if not ways:
            return False
        a, b = self.rng.choice(ways)
        connection, kind, number, publication = self.lanes[a, b].popleft()
        if kind == "down":
            self._lost(b, a)
        elif kind == "up":
            self._met(b, a, connection)
        elif self.connection[b, a] == connection and kind == "copy":
            self._arrive(b, publication, (a, number))
        elif self.connection[b, a] == connection:
            unit = self.brokers[b].sent[a].pop(number, None)
            if unit is not None:
                self._finish(b, unit.source)
                self._send_on(b, self.homes[unit.publication], self.branch(b, a))
        return True

    def _lost(self, at: int, peer: int) -> None:
        """Route anew what a link had not confirmed."""
        if not self.connection[at, peer]:
            return
        self.connection[at, peer] = 0
        broker, branch = self.brokers[at], self.branch(at, peer)
        returned = defaultdict(list)
        for unit in broker.sent.pop(peer, {}).values():
            now = self._anchors(at, unit.publication)
            anchors = frozenset(
                x for x in now if peer in self.way[at, x] or x in self.way[at, peer]
            )
            returned[self.homes[unit.publication]].append(
                Unit(unit.publication, anchors or frozenset([peer]), unit.source)
            )
        for home in sorted({*returned, *(h for h, b in broker.parked if b == branch)}):
            self._requeue(at, home, branch, returned[home], peer)

    def _met(self, at: int, peer: int, connection: int) -> None:
        self._lost(at, peer)
        if self.last_connection[frozenset((at, peer))] != connection:
            return
        self.connection[at, peer] = connection
        branch, broker = self.branch(at, peer), self.brokers[at]
        for home in sorted({h for h, b in (*broker.parked, *broker.queues) if b == branch}):
            self._requeue(at, home, branch)

    def _requeue(
        self, at: int, home: int, branch: int, more: list[Unit] | None = None, lost: int = -1
    ) -> None:
        """Put what is parked, and what came back, into the queue in order."""
        broker, key = self.brokers[at], (home, branch)
        units = [*(more or ()), *broker.parked.pop(key, ()), *broker.queues.pop(key, ())]
        queue = broker.queues[key]
        for unit in sorted(units, key=lambda unit: unit.publication):
            unit.reached -= {lost}
            if queue and queue[-1].publication == unit.publication:
                queue[-1].anchors |= unit.anchors
                queue[-1].reached |= unit.reached
                self._finish(at, unit.source)
            else:
                queue.append(unit)
        self._send_on(at, home, branch)

    # --- faults --------------------------------------------------------------------------------

    def die(self, broker: int) -> None:
        """A broker dies; some of what it sent last still arrives."""
        self.alive[broker] = False
        for peer in self.peers[broker]:
            lane = self.lanes[broker, peer]
            for _ in range(self.rng.randint(0, len(lane))):
                lane.pop()
            lane.append((0, "down", 0, 0))
            self.lanes[peer, broker].clear()

    def come_back(self, broker: int, *, stored: bool) -> None:
        self.alive[broker] = True
        if not stored:
            self.brokers[broker] = Broker()
        for peer in self.peers[broker]:
            self.lanes[peer, broker].clear()
            if not stored:
                self.connection[broker, peer] = 0
            ways = (broker, peer), (peer, broker)
            self.lanes[peer, broker].append((0, "down", 0, 0))
            if self.alive[peer]:
                pair = frozenset((broker, peer))
                self.last_connection[pair] += 1
                for way in ways:
                    self.lanes[way].append((self.last_connection[pair], "up", 0, 0))

    # --- the end -------------------------------------------------------------------------------

    def faults(self, forgot: set[int]) -> set[str]:
        """What is wrong at rest, when all are back; brokers that forgot may have lost, and have
        given their clients, anything."""
        found = set()
        for (_, at), taken in self.taken.items():
            if at not in forgot and any(a >= b for a, b in pairwise(taken)):
                found.add(DOUBLE if len(set(taken)) < len(taken) else ORDER)
        for publication, wanted in self.wanted.items():
            for at in wanted - forgot:
                if publication not in self.taken[self.homes[publication], at]:
                    found.add(LOSS)
        for broker in self.brokers:
            kept = (*broker.sent.values(), *broker.queues.values(), *broker.parked.values())
            if broker.sources or any(kept):
                found.add(STUCK)
        return found


ALL_RULES = Rules()


def trial(seed: int, rules: Rules = ALL_RULES, dead_max: int = 3) -> set[str]:
    """One random run; what went wrong."""
    rng = random.Random(seed)
    net = Net(rng, rules)
    homes = rng.sample(range(net.size), rng.randint(1, 2))
    others = [b for b in range(net.size) if b not in homes]
    interests = [
        frozenset(b for b in range(net.size) if rng.random() < rng.choice((0.3, 0.6)))
        for _ in range(3)
    ]
    dead: list[int] = []
    forgot: set[int] = set()

    def bring_back(broker: int) -> None:
        dead.remove(broker)
        stored = rng.random() < 0.5
        if not stored:
            forgot.add(broker)
        net.come_back(broker, stored=stored)

    for _ in range(16):
        what = rng.random()
        alive = [b for b in others if b not in dead]
        if what < 0.3 and alive and len(dead) < dead_max:
            broker = rng.choice(alive)
            net.die(broker)
            dead.append(broker)
        elif what < 0.45 and dead:
            bring_back(rng.choice(dead))
        elif what < 0.5:
            while net.step():
                pass
        else:
            net.publish(rng.choice(homes), rng.choice(interests))
        for _ in range(rng.randint(0, 6)):
            net.step()
    while dead:
        while rng.random() < 0.8 and net.step():
            pass
        bring_back(rng.choice(dead))
    while net.step():
        pass
    return net.faults(forgot)
