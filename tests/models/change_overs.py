"""Change-overs in the model of the bounds: publishers that could take a detour are held.

A publisher that could take a detour, the one open link before all that want the next publication,
is *kept back* at random moments instead: what is for that branch is held until nothing that is
unconfirmed there is in the way. Without time-outs, runs show that brokers which keep back the same
publishers do not wait for each other for ever, however few bytes may be held; with them, that a
change-over may be given up at any moment. README.md says what was found.
"""

import random

from tests.models import bounds
from tests.models.bounds import Options, Publication, Tree, random_soft, random_tree

Key = tuple[int, int, int]
"""A broker, the home broker of a publisher, and a branch."""


class Network(bounds.Network):
    """One run with change-overs."""

    def __init__(
        self,
        rng: random.Random,
        tree: Tree,
        soft: list[tuple[int, int]],
        todo: list[int],
        options: Options,
        *,
        chance: float,
        gives_up: bool = False,
        hasty: bool = False,
    ) -> None:
        """`chance`: that one begins where a detour could be taken; `gives_up`: some are given up;
        `hasty`: instead of waiting, the publisher changes over at once, which is wrong."""
        super().__init__(rng, tree, soft, todo, options)
        self.chance, self.gives_up, self.hasty = chance, gives_up, hasty
        self.kept_back: set[Key] = set()
        self.gave_up: set[Key] = set()
        """Those that take the detour once more before they are kept back again."""
        self.begun = 0
        self.published: list[Publication] = []

    def detour(self, key: Key, link: int, links: set[int]) -> set[int] | None:
        """Keep the publisher back now and then."""
        begins = key not in self.kept_back and self.rng.random() < self.chance
        if begins and key not in self.gave_up:
            self.kept_back.add(key)
            self.begun += 1
        if key not in self.kept_back:
            self.gave_up.discard(key)
            return {link}
        return links if self.hasty else None

    def on_free(self, key: Key) -> None:
        """It has changed over."""
        self.kept_back.discard(key)

    def arrive(
        self, broker: bounds.Broker, publication: Publication, came_from: int | None, number: int
    ) -> None:
        """Note what was published."""
        if came_from is None:
            self.published.append(publication)
        super().arrive(broker, publication, came_from, number)

    def faults(self) -> list[str]:
        """What is wrong with a run that has ended, in words."""
        found = super().faults()
        for one in self.published:
            if any(one.sequence not in self.arrived[one.home, at] for at in one.targets):
                found.append("a publication has not arrived")
        if self.kept_back or any(any(broker.held.values()) for broker in self.brokers):
            found.append("somebody is held")
        return found

    def step(self) -> bool:
        """Give up a change-over now and then; else as without them."""
        if self.gives_up and self.kept_back and self.rng.random() < 0.1:
            at, home, branch = key = self.rng.choice(sorted(self.kept_back))
            self.kept_back.remove(key)
            self.gave_up.add(key)
            self.send_on(self.brokers[at], home, branch)
            return True
        return super().step()


def trial(seed: int, chance: float = 0.5, **options: bool) -> tuple[int, list[str]]:
    """A random tree with tiny bounds, everybody publishes: how many change-overs began, and what
    went wrong."""
    rng = random.Random(seed)
    tree = random_tree(rng, rng.randint(3, 7))
    bounded = Options("branch", rng.randint(1, 6), rng.choice((1, 2, 4, 10**6)))
    todo = [rng.randint(2, 12) for _ in range(tree.size)]
    soft = random_soft(rng, tree, 0.6)
    network = Network(rng, tree, soft, todo, bounded, chance=chance, **options)
    network.run()
    return network.begun, network.faults()


def constant_load(chance: float, rounds: int = 200) -> list[int]:
    """Brokers 0, 1 and 2 in a row. A publisher at 0 always has something unconfirmed, since each
    publication is confirmed only when the next one has been published; all are for 2. A link from 0
    to 2 opens after some of them. Returns which publications took it."""
    rng = random.Random(chance)
    options = Options(window=4, full=10**6)
    network = Network(rng, Tree([(0, 1), (1, 2)]), [], [0, 0, 0], options, chance=chance)
    home, took = network.brokers[0], []
    for sequence in range(1, rounds + 1):
        if sequence == 10:
            home.links.add(2)
            home.unconfirmed[2] = {}
        home.admitted += 1
        network.arrive(home, Publication(0, sequence, frozenset({2}), 1), None, 0)
        while ways := [way for way, queue in sorted(network.data.items()) if queue]:
            a, b = ways[0]
            publication, number = network.data[a, b].popleft()
            took += [publication.sequence] * ((a, b) == (0, 2))
            network.arrive(network.brokers[b], publication, a, number)
        while network.confirmations[2, 1]:
            network.confirm(network.brokers[1], 2, network.confirmations[2, 1].popleft())
        for peer in (1, 2):
            while network.confirmations[peer, 0]:
                number = network.confirmations[peer, 0][0]
                source, _ = home.unconfirmed[peer][number]
                if source.publication.sequence == sequence:
                    break
                network.confirm(home, peer, network.confirmations[peer, 0].popleft())
    return took
