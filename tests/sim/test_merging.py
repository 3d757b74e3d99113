"""Random churn of ranges that adjoin, sets and alternatives, with merging and retirement both on:
nothing is lost or doubled, the network comes to rest, and nothing is left but merged filters that
stand for several.

`Ranges` lets frames interleave in every way; `TimedRanges` is the simulator's world, with time,
queues and its own checkers.
"""

import random

import msgspec
import pytest

from byway.core.inputs import LoadSampled, TimerFired
from byway.core.subscriptions import TIMER
from byway.model import ANY, parse
from byway.model.filters import covers
from tests.core_net import Net
from tests.sim.test_pruning import FILTERS, Timed
from tests.sim.test_routing_is_exact import (
    ALL_POLICIES,
    CLIENTS,
    PRUNING,
    World,
    check_deliveries,
    check_nothing_is_left,
    check_tables,
)
from tests.sim.world_runs import many, many_seeds

pytestmark = pytest.mark.sim

RANGES = [
    f"p >= {low} AND p < {low + width}{rest}"
    for low in range(-1, 4)
    for width in (1, 2)
    for rest in ("", " AND q = 1", " AND q = 2")
] + [
    *(f"p = {value} AND q = {q}" for value in range(-1, 4) for q in (1, 2)),
    *(f"p <> {value}" for value in range(3)),
    *(f"p >= {low} AND p < {low + 1} OR q = 1" for low in range(3)),
    *(f"p = {value} OR q = {q}" for value in range(3) for q in (1, 2)),
]
REST_ROUNDS_MAX = 300
"""In each every broker that has something to do does it once."""
SHARES = (0.0, 0.3, 0.9)
NEVER_AT_REST = (26, 57)
"""Seeds with which brokers once made and retired merged filters in turn for ever."""


def check_placeholders(broker):
    """Each placeholder covers two or more subscriptions, and none waits to be looked after."""
    for entry in broker.placeholders:
        [link] = entry.forwarded
        behind = [
            other
            for other in broker.subscriptions
            if other.origin.link != link and covers(entry.filter, other.filter)
        ]
        assert len(behind) > 1, (broker.name, entry, entry.filter)
    if broker.policy.observer is not None:
        state = broker.policy.observer.snapshot()
        assert not state.changed
        assert not state.new


class Ranges(World):
    """Several publishers, and many ranges that touch."""

    def __init__(self, rng, policies, faults):
        super().__init__(rng, policies, faults, merging=True)
        self.configs = {broker: self.config(c) for broker, c in self.configs.items()}
        self.net = Net(self.edges, self.configs)
        for client in CLIENTS:
            self.net.attach(client, self.homes[client])

    def config(self, config):
        rng = self.rng
        batch = rng.choice((1, 2, 20) if config.covering in PRUNING else (0, 1, 2, 20))
        return msgspec.structs.replace(
            config,
            merging=rng.random() < 0.8,
            merging_false_positives=rng.choice(SHARES),
            retire_batch=batch,
        )

    def advertise(self, who):
        if self.rng.random() < 0.3:
            super().advertise(who)
        elif who not in self.adverts:
            self.adverts[who] = (f"a{self.count}", ANY)
            self.net.advertise(who, "ANY", f"a{self.count}")

    def subscribe(self, who):
        if len(self.subscriptions.get(who, ())) < 6:
            text, name = self.rng.choice(RANGES), f"s{self.count}"
            self.subscriptions.setdefault(who, {})[name] = parse(text)
            self.net.subscribe(who, text, name)

    def calm_down(self):
        for broker in sorted(self.net.brokers):
            self.net.do(broker, LoadSampled(0))
        for _ in range(REST_ROUNDS_MAX):
            self.net.settle()
            due = sorted(broker for broker, timer in self.net.timers if timer == TIMER)
            if not due:
                return
            for broker in due:
                self.net.fire(broker, TIMER)
        raise AssertionError(f"it is not at rest after {REST_ROUNDS_MAX} rounds")


def churn(seed, happened, policies=ALL_POLICIES, faults=False):
    rng = random.Random(seed)
    calm = rng.random() < 0.3
    world = Ranges(rng, policies, faults)
    for _ in range(150):
        world.step()
        if calm:
            world.net.settle()
    for edge in world.down:
        world.net.connect(*edge)
    world.calm_down()
    check_deliveries(world, calm and not faults)
    check_tables(world)
    check_nothing_is_left(world)
    for broker in world.net.brokers.values():
        check_placeholders(broker)
        happened["merged"] += broker.policy.observer is not None and len(broker.placeholders)
    happened["deliveries"] += sum(len(clients) for clients in world.must.values())
    leave(world)


def leave(world):
    """When nobody wants anything any more, nothing stands."""
    for client in CLIENTS:
        names = sorted(world.subscriptions.pop(client, ()))
        if names:
            world.net.unsubscribe(client, *names)
    world.calm_down()
    for name, broker in world.net.brokers.items():
        assert len(broker.placeholders) == len(broker.subscriptions) == 0
        check_placeholders(broker)
        world.net.do(name, TimerFired(TIMER))
        if broker.policy.observer is not None:
            state = broker.policy.observer.snapshot()
            assert (state.parts, state.unwanted, state.scores) == ([], [], [])


class TimedRanges(Timed):
    """A world of chains that cover each other and ranges that adjoin."""

    policies = ("none", "active", "packing", "lazy", *PRUNING, *PRUNING)

    def configs(self):
        rng = self.rng
        return {
            name: msgspec.structs.replace(
                config, merging=True, merging_false_positives=rng.choice(SHARES)
            )
            for name, config in super().configs().items()
        }

    def operate(self):
        super().operate()
        staying = [client for client in self.world.clients.values() if not client.has_left]
        if staying and self.rng.random() < 0.5:
            self.rng.choice(staying).subscribe(self.rng.choice(RANGES))


class Reviewed(Timed):
    """A world as a review had it."""

    policies = ("none", "active", "packing", "lazy", *PRUNING, *PRUNING)

    def configs(self):
        return {
            name: self.merging(config, self.rng.random(), self.rng.choice((0, 0.3, 0.9)))
            for name, config in super().configs().items()
        }

    def merging(self, config, chance, share):
        return msgspec.structs.replace(config, merging=chance < 1, merging_false_positives=share)


def timed(seed, happened, **options):
    run = TimedRanges(seed, **options)
    report = run.run()  # that it comes to rest is checked there
    assert report.tables_compared
    assert report.violations == ()
    for node in run.world.nodes.values():
        check_placeholders(node.broker)
        happened["merged"] += len(node.broker.placeholders)
        happened["retired"] += node.broker.counters.retired
    happened["deliveries"] += run.world.metrics().deliveries


VARIANTS = {
    "active": {"policies": ("active",)},
    "pruning": {"policies": PRUNING},
    "mixed": {},
    "mixed with faults": {"faults": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_ranges(variant):
    happened = many(churn, range(40), **VARIANTS[variant])
    assert happened["deliveries"] > 100
    assert happened["merged"] > 20


@pytest.mark.parametrize("faults", [False, True])
def test_ranges_in_the_simulator(faults):
    happened = many(timed, [*range(12), *NEVER_AT_REST], faults=faults)
    assert happened["deliveries"] > 500
    assert happened["merged"] > 10
    assert happened["retired"] > 10


@pytest.mark.parametrize("seed", [5796, 6076])
def test_a_storm_with_merged_filters_ends(seed, monkeypatch):
    monkeypatch.setattr("tests.sim.test_pruning.FILTERS", FILTERS + RANGES)
    run = Reviewed(seed, faults=True, storm=True)
    assert run.run().violations == ()
    assert any(len(node.broker.placeholders) for node in run.world.nodes.values())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", VARIANTS)
def test_many_ranges(variant):
    assert many(churn, many_seeds(), **VARIANTS[variant])["merged"]
