"""A broker restored from its snapshot acts as the one it was taken of, from any moment on."""

import random

import msgspec
import pytest

from byway.core.broker import Broker
from byway.core.inputs import Started
from byway.core.invariants import validate
from byway.core.snapshot import VERSION
from byway.model.errors import SnapshotError
from tests.core_net import Net
from tests.lone_broker import twin_of
from tests.sim.test_routing_is_exact import POLICIES, World


class TwinNet(Net):
    """Now and then a broker gets a twin from its snapshot; both see the same, and must agree."""

    rng = random.Random(0)
    twins: dict[str, Broker]

    def do(self, broker, event):
        original = self.brokers[broker]
        twins = self.__dict__.setdefault("twins", {})
        twin = twins.get(broker)
        if isinstance(event, Started):
            twin = twins.pop(broker, None) and None  # it dies with its original
        elif twin is None and self.rng.random() < 0.05:
            twin = twins[broker] = twin_of(original)
        if twin is not None:
            expected = twin.handle(self.now_us, event)
            before = original.handle
            original.handle = lambda now, event: compared(before(now, event), expected)
            try:
                super().do(broker, event)
            finally:
                del original.handle
            assert twin.snapshot() == original.snapshot()
        else:
            super().do(broker, event)


def compared(actions, expected):
    assert actions == expected
    return actions


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", range(40))
def test_a_twin_acts_alike(seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr("tests.sim.test_routing_is_exact.Net", TwinNet)
    monkeypatch.setattr(TwinNet, "rng", rng)
    world = World(rng, (*POLICIES, "lazy"), faults=True, merging=rng.random() < 0.5)
    for _ in range(120):
        world.step()
    assert all(validate(broker) == [] for broker in world.net.brokers.values())


def test_an_older_snapshot_is_mended_by_the_neighbours():
    """Restored with a new incarnation, a broker compares tables; nothing of the old state stays."""
    net = Net([("B1", "B2"), ("B2", "B3")])
    net.attach("pub", "B1")
    net.attach("sub", "B3")
    net.advertise("pub", "p > 0", "gone")
    net.settle()
    old = net.brokers["B2"].snapshot()
    net.unadvertise("pub", "gone")
    net.advertise("pub", "p > 1", "new")
    net.subscribe("sub", "p > 5")
    net.settle()
    for neighbour in ("B1", "B3"):
        net.disconnect("B2", neighbour)
    net.brokers["B2"] = Broker.restore(old, incarnation=2)
    net.do("B2", Started())
    for neighbour in ("B1", "B3"):
        net.connect("B2", neighbour)
    net.settle()
    assert [e.id.name for e in net.brokers["B2"].advertisements] == ["new"]
    assert [e.id.name for e in net.brokers["B3"].advertisements] == ["new"]
    assert net.entries("B1") == net.entries("B2") == [("sub", "s")]


SOUND = Broker("B1").snapshot()
encode = msgspec.msgpack.encode


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is no broker's state: Input data was truncated"),
        (SOUND[:-9], "it is no broker's state"),
        (encode(("byway broker", 99, None)), "version 99, expected 4 to 7"),
        (encode(("byway broker", 3, None)), "version 3, expected 4 to 7"),
        (encode(("a cake", VERSION, None)), "begins with 'a cake'"),
        (encode(("byway broker", VERSION, [1, 2])), "it is damaged"),
    ],
    ids=["empty", "truncated", "version", "older", "something else", "damaged"],
)
def test_other_bytes_are_refused(data, reason):
    with pytest.raises(SnapshotError, match=reason):
        Broker.restore(data)
