"""Nobody keeps a private reference to a table, an index or a policy: brokers whose routing is
exchanged for a copy of it at every input do the same as others."""

import random

import pytest

from byway.core.invariants import validate
from tests.core_net import Net
from tests.golden.test_golden import GOLDEN, SCENARIOS, golden_text
from tests.sim.test_routing_is_exact import POLICIES, World
from tests.unit.core.routing_drafts import exchanging

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("name", SCENARIOS)
def test_golden_scenes_stay_as_they_are(name, monkeypatch):
    exchanged = exchanging(monkeypatch)
    text = golden_text(SCENARIOS[name], SCENARIOS[name]())
    assert text == (GOLDEN / f"{name}.txt").read_text()
    assert exchanged[0]


class Recorded(Net):
    """A network that remembers what its brokers did."""

    done: list[tuple[str, object]]

    def perform(self, broker, action):
        self.__dict__.setdefault("done", []).append((broker, action))
        super().perform(broker, action)


@pytest.mark.parametrize("seed", range(25))
def test_random_runs_go_as_without(seed, monkeypatch):
    def run() -> list[tuple[str, object]]:
        rng = random.Random(seed)
        world = World(rng, (*POLICIES, "lazy"), faults=True, merging=rng.random() < 0.5)
        for _ in range(120):
            world.step()
        assert all(validate(broker) == [] for broker in world.net.brokers.values())
        return world.net.done

    monkeypatch.setattr("tests.sim.test_routing_is_exact.Net", Recorded)
    expected = run()
    exchanged = exchanging(monkeypatch)
    assert run() == expected
    assert exchanged[0] > 50
