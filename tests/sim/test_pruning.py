"""Random churn under pruning policies: many broad subscriptions that received much are taken back
at once. Nothing is lost or doubled, when all is quiet nothing is preserved and the tables are those
of a fresh network, and retiring never sends more at once than it may.

`Churn` lets frames interleave in every way; `Timed` is the simulator's world, with time, queues and
its own checkers.
"""

import random
from collections import defaultdict

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, LoadSampled
from byway.core.subscriptions import TIMER
from byway.model import ANY, parse
from byway.model.messages import Batch, Subscribe, SubscribeMany
from tests.core_net import Net
from tests.sim.test_routing_is_exact import (
    CLIENTS,
    PRUNING,
    World,
    check_deliveries,
    check_nothing_is_left,
    check_tables,
)
from tests.sim.world_runs import RandomRun, many, many_seeds

pytestmark = pytest.mark.sim

MIXED = ("none", "active", "packing", *PRUNING, *PRUNING, *PRUNING)
WIDTHS = ("", " AND q >= 0", " AND q > 0", " AND q > 1", " AND q = 2")
FILTERS = [f"p > {bound}{width}" for bound in range(-1, 4) for width in WIDTHS]
"""Chains of nine that cover each other."""


class Bursts:
    """What brokers that prune send in place of others, seen from outside: subscriptions that go out
    and did not come in with the same frame."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self._do, self._perform = net.do, net.perform
        net.do, net.perform = self.do, self.perform  # type: ignore[method-assign]
        self._out: set[tuple[str, object]] = set()
        self.released: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """By broker, when and how many."""

    def do(self, broker: str, event: object) -> None:
        came = subscribed(event.frame) if isinstance(event, FrameReceived) else set()
        before, self._out = self._out, set()
        self._do(broker, event)
        count = sum(id not in came for _, id in self._out)
        if count and self._net.configs[broker].covering in PRUNING:
            self.released[broker].append((self._net.now_us, count))
        self._out = before

    def perform(self, broker: str, action: object) -> None:
        self._out |= {(action.link, id) for id in subscribed(getattr(action, "frame", None))}
        self._perform(broker, action)

    def check(self) -> int:
        """None is larger than a batch, and no interval has more than two of them touch it; how many
        there were."""
        for broker, released in self.released.items():
            config = self._net.configs[broker]
            batch, interval_us = config.retire_batch, config.retire_interval_us
            for at_us, count in released:
                near = [c for t, c in released if at_us <= t < at_us + interval_us]
                assert count <= batch, (broker, released)
                assert sum(near) <= 2 * batch, (broker, released)
        return sum(len(released) for released in self.released.values())


def subscribed(frame: object) -> set[object]:
    """Ids that a frame subscribes."""
    found = set()
    for message in frame.messages if isinstance(frame, Batch) else ():
        if isinstance(message, Subscribe):
            found.add(message.id)
        elif isinstance(message, SubscribeMany):
            found |= {each.id for each in message.subscriptions}
    return found


class Churn(World):
    """A network where many want nearly the same."""

    def advertise(self, who):
        if self.rng.random() < 0.2:
            super().advertise(who)
        elif who not in self.adverts:
            self.count += 1
            self.adverts[who] = (f"a{self.count}", ANY)
            self.net.advertise(who, "ANY", f"a{self.count}")

    def subscribe(self, who):
        if len(self.subscriptions.get(who, ())) < 9:
            self.count += 1
            text, name = self.rng.choice(FILTERS), f"s{self.count}"
            self.subscriptions.setdefault(who, {})[name] = parse(text)
            self.net.subscribe(who, text, name)

    def unsubscribe(self, who):
        """Rather a broad one."""
        held = self.subscriptions.get(who)
        if held:
            broad = min(sorted(held), key=lambda name: (len(str(held[name])), str(held[name])))
            name = broad if self.rng.random() < 0.7 else self.rng.choice(sorted(held))
            wanted = held.pop(name)
            self.net.unsubscribe(who, name)
            for key, clients in self.must.items():
                if wanted.matches(self.sent[key]):
                    clients.discard(who)

    def round(self):
        rng = self.rng
        for client in CLIENTS:
            if rng.random() < 0.6:
                self.advertise(client)
        for _ in range(rng.randint(10, 30)):
            self.subscribe(rng.choice(CLIENTS))
        if rng.random() < 0.8:
            self.net.settle()
        for _ in range(rng.randint(15, 40) if self.adverts else 0):
            self.publish(rng.choice(sorted(self.adverts)))
            if rng.random() < 0.3:
                self.move(None)
        if rng.random() < 0.8:
            self.net.settle()
        for _ in range(rng.randint(5, 25)):
            self.step() if rng.random() < 0.4 else self.unsubscribe(rng.choice(CLIENTS))

    def decide(self):
        """Nobody is congested, and nothing is postponed any more."""
        for broker in sorted(self.net.brokers):
            self.net.do(broker, LoadSampled(0))
        for _ in range(1_000):
            self.net.settle()
            postponing = [
                name
                for name, broker in sorted(self.net.brokers.items())
                if any(entry.placeholder.withdrawal is not None for entry in broker.placeholders)
            ]
            if not postponing:
                return
            for name in postponing:
                self.net.fire(name, TIMER)
        raise AssertionError("it is never decided")


def churn(seed, happened, policies=MIXED, faults=False):
    rng = random.Random(seed)
    world = Churn(rng, policies, faults, merging=False)
    for _ in range(rng.randint(2, 4)):
        world.round()
    for edge in world.down:
        world.net.connect(*edge)
    world.decide()
    happened["preserved"] += sum(b.counters.preserved for b in world.net.brokers.values())
    bursts = Bursts(world.net)
    world.calm_down()
    happened["bursts"] += bursts.check()
    happened["retired"] += sum(b.counters.retired for b in world.net.brokers.values())
    check_deliveries(world, calm=False)
    check_tables(world)
    check_nothing_is_left(world)
    happened["deliveries"] += sum(len(clients) for clients in world.must.values())


VARIANTS = {
    "incremental": {"policies": ("incremental",)},
    "selective": {"policies": ("selective",)},
    "both": {"policies": PRUNING},
    "mixed": {},
    "mixed with lazy": {"policies": (*MIXED, "lazy")},
    "both with faults": {"policies": PRUNING, "faults": True},
    "mixed with faults": {"faults": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_churn(variant):
    happened = many(churn, range(30), **VARIANTS[variant])
    assert happened["deliveries"] > 500
    assert happened["preserved"] > (50 if "mixed" not in variant else 25)
    assert happened["retired"] > 8
    assert happened["bursts"] > 4


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", VARIANTS)
def test_much_churn(variant):
    happened = many(churn, many_seeds(), **VARIANTS[variant])
    assert happened["preserved"] > 1_500


# --- in the simulator's world --------------------------------------------------------------------

OPERATIONS = ("advertise", "subscribe", "publish", "unsubscribe", "replace", "away", "unadvertise")
WEIGHTS = (4, 10, 12, 6, 1, 1, 1)


class Timed(RandomRun):
    """A world where many want nearly the same, and brokers look after things often."""

    policies = MIXED

    def __init__(self, seed, **options):
        super().__init__(seed, **options)
        for client in self.rng.sample(list(self.world.clients.values()), 2):
            client.advertise("ANY")

    def configs(self):
        rng = self.rng
        return {
            f"B{number}": BrokerConfig(
                covering=rng.choice(self.policies),
                incremental_bursts=rng.choice(((0, 1), (1, 2), (0, 0))),
                incremental_similarities=(0.9, rng.choice((0.2, 0.6))),
                selective_similarity=rng.choice((0.3, 0.9)),
                selective_count_min=rng.choice((0, 1)),
                pruning_samples_min=rng.choice((1, 3)),
                statistics_max=rng.choice((10, 1_000)),
                congestion_queue=rng.choice((1, 1_000)),
                retire_batch=rng.choice((1, 2, 20)),
                retire_interval_us=rng.choice((20_000, 150_000)),
                retire_after_us=rng.choice((0, 100_000)),
                link_bytes_max=rng.choice((800, 2**28)),
            )
            for number in range(8)
        }

    def operate(self):
        rng = self.rng
        staying = [client for client in self.world.clients.values() if not client.has_left]
        if not staying:
            return
        client = rng.choice(staying)
        match rng.choices(OPERATIONS, WEIGHTS)[0]:
            case "advertise":
                client.advertise("ANY")
            case "subscribe":
                for _ in range(rng.choice((1, 3))):
                    client.subscribe(rng.choice(FILTERS))
            case "publish":
                client = rng.choice([c for c in staying if c.advertisements] or staying)
                for _ in range(rng.choice((1, 5, 10))):
                    client.publish(self.attributes())
            case "unsubscribe" if client.subscriptions:
                client.unsubscribe(self.rather_a_broad_one(client))
            case "replace" if client.subscriptions:
                client.subscribe(rng.choice(FILTERS), rng.choice(client.subscriptions))
            case "away":
                self.go_away(client)
            case "unadvertise" if client.advertisements:
                client.unadvertise(rng.choice(client.advertisements))

    def rather_a_broad_one(self, client):
        if self.rng.random() < 0.3:
            return self.rng.choice(client.subscriptions)
        held = {name: str(client.registration(name).filters[0]) for name in client.subscriptions}
        return min(client.subscriptions, key=lambda name: (len(held[name]), name))


class TimedPruning(Timed):
    """Every broker prunes."""

    policies = PRUNING


def timed(seed, happened, kind=Timed, **options):
    run = kind(seed, **options)
    report = run.run()
    assert report.tables_compared
    assert report.violations == ()
    brokers = [node.broker for node in run.world.nodes.values()]
    assert not any(len(broker.placeholders) for broker in brokers)
    happened["deliveries"] += run.world.metrics().deliveries
    happened["preserved"] += sum(broker.counters.preserved for broker in brokers)
    happened["retired"] += sum(broker.counters.retired for broker in brokers)


TIMED = {
    "mixed": {"faults": False},
    "pruning": {"kind": TimedPruning, "faults": False},
    "mixed with faults": {},
    "pruning with faults": {"kind": TimedPruning},
    "pruning with storms": {"kind": TimedPruning, "storm": True},
}


@pytest.mark.parametrize("variant", TIMED)
def test_timed(variant):
    happened = many(timed, range(4 if "storms" in variant else 15), **TIMED[variant])
    assert happened["deliveries"] > 500
    assert happened["preserved"] > 8
    assert happened["retired"] > 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", TIMED)
def test_timed_for_long(variant):
    happened = many(timed, many_seeds(500, 300), **TIMED[variant])
    assert happened["preserved"] > 200
