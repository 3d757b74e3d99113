"""Brokers that forget between a publication and the end of its advertisement, on their way."""

import random

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import Delivery
from tests.core_net import Net, is_data

CHAIN = [("B1", "B2"), ("B2", "B3"), ("B3", "B4")]


class SlowNet(Net):
    """Data that is `slow`, at first from B3 to B4, stays under way."""

    slow: tuple[str, str] | None = ("B3", "B4")

    def settle(self) -> None:
        while self.ready():
            for way in self.ready():
                self.step(way)

    def ready(self) -> list[tuple[str, str]]:
        return [
            way
            for way, frames in sorted(self.flying.items())
            if frames and not (way == self.slow and is_data(frames[0]))
        ]


def passed_b3(edges: list[tuple[str, str]], delta: int = 1) -> SlowNet:
    """A publication and the end of its advertisement have passed B3, which has not confirmed them
    and wants nothing more of the publisher."""
    config = BrokerConfig(mesh=MeshConfig(delta=delta, interval_us=0))
    net = SlowNet(edges, config)
    net.attach("pub", "B1")
    net.attach("sub", "B4")
    net.advertise("pub", "p > 0")
    net.settle()
    net.subscribe("sub", "p > 1")
    net.settle()
    net.publish("pub", p=5)
    net.unadvertise("pub")
    net.settle()
    assert net.flying["B3", "B4"]
    assert not net.entries("B1")
    return net


@pytest.mark.parametrize("delta", [1, 4])
def test_a_copy_that_comes_again_ahead_of_the_end_of_its_advertisement_waits(delta):
    """When B2 restarts without its state, both come again from B1. B2 must not hear from B3 that it
    wants nothing: a broker beyond B3 does not have the publication."""
    net = passed_b3(CHAIN, delta)
    net.restart("B2", stored=False)
    net.settle()
    assert net.confirmed("pub") == 0
    net.restart("B3", stored=False)  # all that was under way to B4 is lost
    net.slow = None
    net.settle()
    assert net.confirmed("pub") == 1
    assert len(net.got("sub", Delivery)) == 1
    for broker in net.brokers.values():
        assert broker.is_recovered


def test_the_advertisements_are_awaited_only_while_publications_are_unconfirmed():
    """B0, which B2 waits for, is not there; when B3 has confirmed what it had, it tells B2 what it
    wants all the same."""
    net = passed_b3([("B0", "B2"), *CHAIN])
    net.restart("B2", stored=False, down=[("B0", "B2")])
    net.settle()
    assert "B3" in net.brokers["B2"].missing
    net.slow = None
    net.settle()
    assert "B3" in net.brokers["B2"].missing
    assert [name for name, broker in net.brokers.items() if broker.uses_load] == ["B3"]
    net.do("B3", LoadSampled(0))
    net.settle()
    assert list(net.brokers["B2"].missing) == ["B0"]
    assert not net.brokers["B3"].uses_load


@pytest.mark.parametrize("seed", range(40))
def test_whatever_two_brokers_forget_nothing_is_lost(seed):
    """Publications of one publisher are under way to a last broker, and the end of its
    advertisement behind them, while brokers before it forget, one after the other."""
    rng = random.Random(seed)
    net = SlowNet([*CHAIN, ("B4", "B5"), ("B3", "B6")], BrokerConfig(covering="none"))
    net.slow = rng.choice((("B3", "B4"), ("B4", "B5"), ("B3", "B6")))
    net.attach("pub", "B1")
    net.advertise("pub", "p > 0")
    for home in ("B5", "B6"):
        net.attach(f"sub {home}", home)
        net.subscribe(f"sub {home}", "p > 1")
    net.settle()
    published = rng.randint(1, 3)
    for _ in range(published):
        net.publish("pub", p=5)
    net.unadvertise("pub")
    some_steps(net, rng)
    for _ in range(rng.randint(0, 2)):
        net.restart(rng.choice(("B2", "B3", "B4")), stored=False)
        some_steps(net, rng)
    net.restart(net.slow[0], stored=False)
    net.slow = None
    net.settle()
    assert net.confirmed("pub") == published
    for home in ("B5", "B6"):
        received = [delivery.publication.sequence for delivery in net.got(f"sub {home}", Delivery)]
        assert received == list(range(1, published + 1))


def some_steps(net: SlowNet, rng: random.Random) -> None:
    """A few frames arrive, or all that can."""
    if rng.random() < 0.5:
        net.settle()
    for _ in range(rng.randint(0, 30)):
        ready = net.ready()
        if ready:
            net.step(rng.choice(ready))
