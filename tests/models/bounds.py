"""A small model of the bounds on copies in flight, to be run by brute force.

Brokers form a tree and have soft links beside it. Publications follow random strategies over both,
confirmations are selective, and a copy that could overtake an earlier one of its publisher is held
(`branch_queues` does that in the product). On top of that the bounds, as the product has them:

- a home broker admits at most `window` unconfirmed publications of one publisher;
- a link, and what is held in a branch, is full from `full` bytes on;
- a broker reads data from a link unless a link or a hold queue is full: of another branch (rule
  "branch"), or just another link (rule "link"). Publications of its own clients it admits unless
  anything is full. Confirmations are always read.

A broker may be frozen: it reads nothing until it is thawed. That is a dead or a slow neighbour with
all its state. README.md says what was found.
"""

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field


class Tree:
    """A tree of brokers 0 … n − 1."""

    def __init__(self, edges: list[tuple[int, int]]) -> None:
        self.size = len(edges) + 1
        near: list[list[int]] = [[] for _ in range(self.size)]
        for a, b in edges:
            near[a].append(b)
            near[b].append(a)
        self.near = near
        self._paths = [self._paths_from(a) for a in range(self.size)]

    def _paths_from(self, start: int) -> list[tuple[int, ...]]:
        paths: dict[int, tuple[int, ...]] = {start: ()}
        queue = deque([start])
        while queue:
            at = queue.popleft()
            for then in self.near[at]:
                if then not in paths:
                    paths[then] = (*paths[at], then)
                    queue.append(then)
        return [paths[b] for b in range(self.size)]

    def way(self, a: int, b: int) -> tuple[int, ...]:
        """The brokers on the way from one to another, without the first."""
        return self._paths[a][b]

    def branch(self, a: int, b: int) -> int:
        """The neighbour of `a` on the way to `b`."""
        return self._paths[a][b][0]


def random_tree(rng: random.Random, size: int) -> Tree:
    """A random tree of so many brokers."""
    return Tree([(rng.randrange(b), b) for b in range(1, size)])


@dataclass(eq=False)
class Publication:
    """One publication, everywhere."""

    home: int
    sequence: int
    targets: frozenset[int]
    size: int


@dataclass(eq=False)
class Source:
    """A publication at one broker, until every copy is confirmed."""

    publication: Publication
    came_from: int | None
    number: int
    left: int = 1


@dataclass
class Options:
    """What a run is about."""

    rule: str = "branch"
    window: int = 2
    full: int = 3
    frozen: frozenset[int] = frozenset()
    owes_frozen: bool = True
    """Whether publications may be for frozen brokers, or for those behind them."""


@dataclass
class Broker:
    """One broker of the model."""

    name: int
    links: set[int]
    unconfirmed: dict[int, dict[int, tuple[Source, int]]] = field(default_factory=dict)
    """By link, by number, what copies are made of, and their sizes."""
    held: dict[tuple[int, int], deque[tuple[Source, frozenset[int]]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    """By home broker and branch, what waits, and for which brokers."""
    admitted: int = 0
    confirmed: int = 0


class Network:
    """One run."""

    def __init__(
        self,
        rng: random.Random,
        tree: Tree,
        soft: list[tuple[int, int]],
        todo: list[int],
        options: Options,
    ) -> None:
        self.rng, self.tree, self.options, self.todo = rng, tree, options, todo
        self.brokers = [Broker(b, set(tree.near[b])) for b in range(tree.size)]
        for a, b in soft:
            self.brokers[a].links.add(b)
            self.brokers[b].links.add(a)
        for broker in self.brokers:
            broker.unconfirmed = {link: {} for link in sorted(broker.links)}
        self.frozen = set(options.frozen)
        self.data: dict[tuple[int, int], deque[tuple[Publication, int]]] = defaultdict(deque)
        self.confirmations: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        self.number = 0
        self.arrived: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.seen_twice = 0
        self.most_on_a_link = 0
        self.owing: set[int] = set()
        """Publishers of which something was for a frozen broker, or for one behind it."""

    # --- bounds ----------------------------------------------------------------------------------

    def is_full(self, broker: Broker, link: int) -> bool:
        """Whether copies for a link are at the hard bound."""
        return sum(size for _, size in broker.unconfirmed[link].values()) >= self.options.full

    def full_branches(self, broker: Broker) -> list[tuple[int, int]]:
        """Links that are full with their branches, and branches whose hold queues are."""
        found = [
            (self.tree.branch(broker.name, link), link)
            for link in broker.unconfirmed
            if self.is_full(broker, link)
        ]
        held: dict[int, int] = defaultdict(int)
        for (_, branch), queue in broker.held.items():
            held[branch] += sum(source.publication.size for source, _ in queue)
        return found + [(b, b) for b, size in sorted(held.items()) if size >= self.options.full]

    def reads_from(self, broker: Broker, link: int | None) -> bool:
        """Whether data of a link, or of local clients, is read."""
        if broker.name in self.frozen:
            return False
        full = self.full_branches(broker)
        if link is None:
            return not full
        if self.options.rule == "link":
            return all(other == link for _, other in full)
        return all(branch == self.tree.branch(broker.name, link) for branch, _ in full)

    def admits(self, broker: Broker) -> bool:
        """Whether the publisher of this broker may publish."""
        open_now = broker.admitted - broker.confirmed
        return open_now < self.options.window and self.reads_from(broker, None)

    # --- events ----------------------------------------------------------------------------------

    def publish(self, broker: Broker) -> None:
        """The publisher of a broker publishes."""
        rng, home = self.rng, broker.name
        self.todo[home] -= 1
        broker.admitted += 1
        targets = {b for b in range(self.tree.size) if rng.random() < 0.5 and b != home}
        if not self.options.owes_frozen or home % 2:
            targets = {b for b in targets if not self.frozen & {*self.tree.way(home, b)}}
        if any(self.frozen & {*self.tree.way(home, b)} for b in targets):
            self.owing.add(home)
        publication = Publication(home, broker.admitted, frozenset(targets), rng.randint(1, 2))
        self.arrive(broker, publication, None, 0)

    def arrive(
        self, broker: Broker, publication: Publication, came_from: int | None, number: int
    ) -> None:
        """A publication arrives at a broker, and goes on."""
        arrived = self.arrived[publication.home, broker.name]
        if publication.sequence in arrived:
            self.seen_twice += 1
        arrived.append(publication.sequence)
        source = Source(publication, came_from, number)
        behind = None if came_from is None else self.tree.branch(broker.name, came_from)
        branches: dict[int, set[int]] = defaultdict(set)
        for target in publication.targets - {broker.name}:
            branch = self.tree.branch(broker.name, target)
            if branch != behind:
                branches[branch].add(target)
        for branch, targets in sorted(branches.items()):
            source.left += 1
            broker.held[publication.home, branch].append((source, frozenset(targets)))
            self.send_on(broker, publication.home, branch)
        self.finish(broker, source)

    def finish(self, broker: Broker, source: Source) -> None:
        """One copy less is unconfirmed."""
        source.left -= 1
        if source.left:
            return
        if source.came_from is None:
            broker.confirmed += 1
        else:
            self.confirmations[broker.name, source.came_from].append(source.number)

    def send_on(self, broker: Broker, home: int, branch: int) -> None:
        """Send what stands in front of a queue, unless it could overtake."""
        queue = broker.held[home, branch]
        while queue:
            source, targets = queue[0]
            links = self.plan(broker, home, branch, targets)
            if links is None:
                return
            queue.popleft()
            for link in sorted(links):
                self.number += 1
                size = source.publication.size
                broker.unconfirmed[link][self.number] = (source, size)
                source.left += 1
                self.data[broker.name, link].append((source.publication, self.number))
                copies = [s for s, _ in broker.unconfirmed[link].values()]
                most = sum(s.publication.home == home for s in copies)
                self.most_on_a_link = max(self.most_on_a_link, most)
            self.finish(broker, source)

    def plan(
        self, broker: Broker, home: int, branch: int, targets: frozenset[int]
    ) -> set[int] | None:
        """The links that get copies; None: it is held."""
        tree, at = self.tree, broker.name
        usable = [x for x in sorted(broker.links) if tree.branch(at, x) == branch]
        nearest = {[x for x in tree.way(at, target) if x in usable][-1] for target in targets}
        if self.rng.random() < 0.5:
            common = [x for x in usable if all(x in tree.way(at, y) for y in nearest)]
            links = {max(common, key=lambda x: len(tree.way(at, x)))}
        else:
            links = {x for x in nearest if not nearest & ({*tree.way(at, x)} - {x})}

        def comparable(a: int, b: int) -> bool:
            return a != b and (a in tree.way(at, b) or b in tree.way(at, a))

        open_links = [
            x
            for x in usable
            if any(s.publication.home == home for s, _ in broker.unconfirmed[x].values())
        ]
        if any(comparable(x, y) for x in links for y in open_links):
            free = [
                x
                for x in open_links
                if all(x in tree.way(at, y) for y in links)
                and not any(comparable(x, y) for y in open_links)
            ]
            return self.detour((at, home, branch), free[0], links) if free else None
        self.on_free((at, home, branch))
        return links

    def detour(self, key: tuple[int, int, int], link: int, links: set[int]) -> set[int] | None:
        """The links that get copies where one link is open before all of `links`; `key`: the
        broker, the home broker and the branch."""
        del key, links
        return {link}

    def on_free(self, key: tuple[int, int, int]) -> None:
        """Nothing that is unconfirmed is in the way of a publication."""

    def confirm(self, broker: Broker, link: int, number: int) -> None:
        """A neighbour confirms a copy."""
        source, _ = broker.unconfirmed[link].pop(number)
        self.finish(broker, source)
        branch = self.tree.branch(broker.name, link)
        for home, queued in sorted(broker.held):
            if queued == branch:
                self.send_on(broker, home, branch)

    # --- running ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """One of the things that can happen happens; False if there is none."""
        events = [
            *(("publish", x.name, 0) for x in self.brokers if self.todo[x.name] and self.admits(x)),
            *(
                ("read", a, b)
                for (a, b), queue in self.data.items()
                if queue and self.reads_from(self.brokers[b], a)
            ),
            *(
                ("confirm", a, b)
                for (a, b), numbers in self.confirmations.items()
                if numbers and b not in self.frozen
            ),
        ]
        if not events:
            return False
        what, a, b = self.rng.choice(events)
        if what == "publish":
            self.publish(self.brokers[a])
        elif what == "read":
            publication, number = self.data[a, b].popleft()
            self.arrive(self.brokers[b], publication, a, number)
        else:
            self.confirm(self.brokers[b], a, self.confirmations[a, b].popleft())
        return True

    def run(self) -> None:
        """Run until nothing can happen any more."""
        while self.step():
            pass

    def thaw(self) -> None:
        """Frozen brokers read again."""
        self.frozen.clear()

    @property
    def is_done(self) -> bool:
        """Whether everything was published and confirmed."""
        return not any(self.todo) and all(b.admitted == b.confirmed for b in self.brokers)

    def faults(self) -> list[str]:
        """What is wrong with a run that has ended, in words."""
        found = [] if self.is_done else ["deadlock"]
        if self.seen_twice:
            found.append("a broker saw a publication twice")
        if any(sequences != sorted(sequences) for sequences in self.arrived.values()):
            found.append("out of order")
        if self.most_on_a_link > self.options.window:
            found.append("a link holds more of one publisher than its window")
        return found


def trial(seed: int, rule: str = "branch", *, soft: float = 0.6) -> list[str]:
    """A random tree with tiny bounds, everybody publishes: nobody may wait for ever."""
    rng = random.Random(seed)
    tree = random_tree(rng, rng.randint(3, 7))
    options = Options(rule, rng.randint(1, 3), rng.choice((1, 2, 4)))
    todo = [rng.randint(2, 8) for _ in range(tree.size)]
    network = Network(rng, tree, random_soft(rng, tree, soft), todo, options)
    network.run()
    return network.faults()


def ring(seed: int, size: int, rule: str) -> list[str]:
    """Brokers in a row whose ends a soft link joins, so that links make a ring; all are full."""
    rng = random.Random(seed)
    tree = Tree([(a, a + 1) for a in range(size - 1)])
    options = Options(rule, window=3, full=1)
    network = Network(rng, tree, [(0, size - 1)], [10] * size, options)
    network.run()
    return network.faults()


def frozen(seed: int) -> list[str]:
    """A broker is frozen. Below the hard bound, publishers that owe it nothing finish; those that
    owe it something stop at their window, and finish when it is thawed."""
    rng = random.Random(seed)
    tree = random_tree(rng, rng.randint(4, 7))
    dead = rng.randrange(tree.size)
    options = Options("branch", rng.randint(1, 3), 10**6, frozenset([dead]))
    todo = [0 if b == dead else 30 for b in range(tree.size)]
    network = Network(rng, tree, random_soft(rng, tree, 0.4), todo, options)
    network.run()
    found = []
    for broker in network.brokers:
        if broker.name not in network.owing and network.todo[broker.name]:
            found.append("a publisher that owes nothing to the frozen broker stops")
        if broker.admitted - broker.confirmed > options.window:
            found.append("a publisher has more unconfirmed than its window")
    if any(network.todo[home] > 30 - options.window for home in network.owing):
        found.append("a publisher stops before its window is full")
    network.thaw()
    network.run()
    return found + network.faults()


def random_soft(rng: random.Random, tree: Tree, share: float) -> list[tuple[int, int]]:
    """A share of all pairs that are no neighbours."""
    pairs = [(a, b) for b in range(tree.size) for a in range(b)]
    return [(a, b) for a, b in pairs if len(tree.way(a, b)) > 1 and rng.random() < share]
