"""A broker whose process dies at any moment after its inputs were kept goes on as if nothing had
happened: random runs, judged by the checkers of routing."""

import random

import pytest

from byway.core.broker import Broker
from byway.core.inputs import LinkDown, Started
from byway.model.addresses import Address, Neighbour
from byway.model.messages import Delivery
from byway.storage import storage
from byway.storage.storage import Storage
from tests.core_net import Net
from tests.sim import test_routing_is_exact as routing
from tests.sim.test_routing_is_exact import POLICIES, PRUNING, WEIGHTS, WORK, World

JOURNAL_BYTES = 700  # so that snapshots are taken in the midst of everything
SESSION_US = 60_000_000


class KeptNet(Net):
    """Every broker keeps its inputs. One may die after that, before anyone hears what it did."""

    def __init__(self, edges, config, directory, rng):
        self.directory, self.rng = directory, rng
        self.storages, self.dead = {}, []
        self.dying = self.snapshots = self.rebuilding = self.rebuilt = 0
        super().__init__(edges, config)

    def do(self, broker, event):
        if broker in self.dead:
            return
        if broker not in self.storages:
            self.brokers[broker] = self.begin(broker)
        self.now_us += self.rng.randrange(1_000)
        self.storages[broker].keep(self.now_us, [event])
        actions = self.brokers[broker].handle(self.now_us, event)
        if self.rng.random() < self.rebuilding:
            self.rebuild(broker)
        if self.rng.random() < self.dying:
            self.dead.append(broker)
            return
        for action in actions:
            self.perform(broker, action)

    def begin(self, broker):
        kept = self.storages[broker] = Storage(self.directory / broker, journal_bytes=JOURNAL_BYTES)
        neighbours = tuple(Neighbour(Address("", 1), name) for name in self.neighbours[broker])
        return kept.restore(1, broker, self.configs[broker], neighbours)

    def rebuild(self, broker):
        """Another one takes its place, and nobody notices."""
        original = self.brokers[broker]
        self.brokers[broker] = rebuilt = self.storages[broker].rebuild()
        assert rebuilt is not original
        assert rebuilt.snapshot() == original.snapshot()
        assert rebuilt.links_up == original.links_up
        for link in original.neighbours:
            assert rebuilt.hello(link) == original.hello(link)
        assert rebuilt.clients_attached == original.clients_attached
        assert rebuilt.counters is original.counters
        self.rebuilt += 1

    def return_from_death(self, broker, up):
        """A new process; it is what the old one was, its connections apart."""
        for neighbour in up:
            self.flying[broker, neighbour].clear()
            self.flying[neighbour, broker].clear()
            self.do(neighbour, LinkDown(broker))
        self.snapshots += self.storages[broker].snapshots - 1
        self.storages.pop(broker).abandon()
        config, original = self.configs[broker], self.brokers[broker]
        self.brokers[broker] = restored = self.begin(broker)
        assert restored.snapshot() == Broker.restore(original.snapshot(), config).snapshot()
        self.dead.remove(broker)
        self.timers = {key: at_us for key, at_us in self.timers.items() if key[0] != broker}
        self.do(broker, Started())
        for neighbour in up:
            self.connect(broker, neighbour)

    def attach(self, client, broker, incarnation=1, ttl_us=SESSION_US, received=0):
        told = self.got(client, Delivery)
        received = told[-1].number if told else 0
        super().attach(client, broker, incarnation, ttl_us, received)


class DeadlyWorld(World):
    """Clients, cut links, and brokers that die in the midst of their work."""

    def __init__(self, rng, directory, monkeypatch, policies, merging):
        monkeypatch.setattr(
            routing, "Net", lambda edges, config: KeptNet(edges, config, directory, rng)
        )
        super().__init__(rng, policies, faults=True, merging=merging)
        monkeypatch.setattr(routing, "Net", Net)
        self.work = (*WORK, "cut", "mend", "stored")
        self.weights = (*WEIGHTS, 2, 3, 1)
        self.deaths = 0

    def step(self):
        super().step()
        self.raise_the_dead()

    def raise_the_dead(self):
        while self.net.dead:
            broker = self.net.dead[0]
            away = {b for edge in self.down if broker in edge for b in edge}
            up = [n for n in self.net.neighbours[broker] if n not in away]
            self.net.return_from_death(broker, up)
            self.deaths += 1
            for client in self.clients_of(broker):
                self.net.attach(client, broker)
                if broker in self.net.dead:
                    break
                self.check_resumed(client)

    def stored(self, _):
        """One dies between two inputs, rather one that preserves something."""
        brokers = self.net.brokers
        preserving = sorted(name for name in brokers if len(brokers[name].placeholders))
        self.net.dead.append(self.rng.choice(preserving or sorted(brokers)))


@pytest.mark.parametrize(
    ("policies", "merging"), [(POLICIES, False), (PRUNING, True)], ids=["mixed", "merging"]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_broker_made_again_goes_on_with_its_connections(
    seed, policies, merging, tmp_path, monkeypatch
):
    monkeypatch.setattr(storage, "JOURNAL_SNAPSHOTS", 0)
    rng = random.Random(f"rebuilt {seed}")
    world = DeadlyWorld(rng, tmp_path, monkeypatch, policies, merging)
    world.net.rebuilding = 0.3
    for _ in range(60):
        world.step()
    for edge in world.down:
        world.net.connect(*edge)
    world.down = []
    world.calm_down()
    routing.check_deliveries(world, calm=False)
    routing.check_tables(world)
    routing.check_nothing_is_left(world)
    assert world.net.rebuilt > 10
    for kept in world.net.storages.values():
        kept.abandon()


@pytest.mark.parametrize(
    ("policies", "merging"),
    [(POLICIES, False), (PRUNING, False), (POLICIES, True)],
    ids=["mixed", "pruning", "merging"],
)
@pytest.mark.parametrize("seed", range(12))
def test_death_is_no_loss(seed, policies, merging, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "JOURNAL_SNAPSHOTS", 0)
    rng = random.Random(seed)
    world = DeadlyWorld(rng, tmp_path, monkeypatch, policies, merging)
    world.net.dying = 0.02
    for _ in range(120):
        world.step()
    world.net.dying = 0
    for edge in world.down:
        world.net.connect(*edge)
    world.down = []
    world.calm_down()
    routing.check_deliveries(world, calm=False)
    routing.check_tables(world)
    routing.check_nothing_is_left(world)
    assert world.deaths > 0
    for kept in world.net.storages.values():
        world.net.snapshots += kept.snapshots - 1
        kept.abandon()
    assert world.net.snapshots > 0
