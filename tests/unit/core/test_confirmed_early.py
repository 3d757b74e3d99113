"""Brokers that forget between a publication and the end of its advertisement, on their way."""

import random

import pytest

from byway.core.actions import Send
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import Delivery, PublicationsUnconfirmed, SubscriptionsSynced
from tests.core_net import Net, is_data
from tests.lone_broker import NAMES, NOTHING, Lone, publication, subscribe

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


def test_a_neighbour_names_what_may_come_again():
    """It tells at once what it wants, though B0, which B2 waits for, is not there; and what it has
    unconfirmed comes again."""
    net = passed_b3([("B0", "B2"), *CHAIN])
    net.restart("B2", stored=False, down=[("B0", "B2")])
    net.settle()
    assert list(net.brokers["B2"].missing) == ["B0"]
    assert net.confirmed("pub") == 0
    assert net.brokers["B3"].counters.duplicates == 1
    net.slow = None
    net.settle()
    assert len(net.got("sub", Delivery)) == 1
    net.connect("B0", "B2")
    net.settle()
    assert net.confirmed("pub") == 1


@pytest.mark.parametrize("restored", [False, True])
def test_what_a_neighbour_has_unconfirmed_goes_there_whatever_it_wants(restored):
    """Until a later publication has come: they come in order."""
    lone = Lone("A", "C", "D", restored=restored)
    lone.receive("A", PublicationsUnconfirmed((("far", 1, 9),)))
    lone.receive("C", PublicationsUnconfirmed((("far", 1, 5), ("other", 1, 9))))
    lone.receive("D", PublicationsUnconfirmed((("far", 1, 2),)))
    assert goes_to(lone, 2) == ["C", "D"]
    assert goes_to(lone, 5) == ["C"]
    assert goes_to(lone, 10) == []
    assert lone.broker.publications.streams.of("far", 1).owed is None


def goes_to(lone: Lone, sequence: int) -> list[str]:
    actions = lone.receive("A", publication(sequence, p=1))
    return [a.link for a in actions if isinstance(a, Send) and is_data(a.frame)]


@pytest.mark.parametrize("restored", [False, True])
def test_what_is_unconfirmed_is_named_ahead_of_the_tables(restored):
    """What came from elsewhere is not, nor what is confirmed; what another one named is."""
    lone = Lone("A", "C", "D", restored=restored)
    lone.receive("C", subscribe("s"))
    lone.receive("D", publication(3, publisher="theirs", p=1))
    lone.receive("A", publication(4, publisher="done", p=1))
    lone.acknowledge("C", 2)
    lone.receive("A", publication(7, p=1), publication(8, p=1))
    lone.receive("C", PublicationsUnconfirmed((("behind", 1, 6),)))
    lone.receive("A", PublicationsUnconfirmed((("own", 1, 6),)))
    lone.handle(LinkDown("A"))
    lone.meet("A", incarnation=2)
    (told, *_) = lone.receive("A", NOTHING, NAMES)
    named = PublicationsUnconfirmed((("behind", 1, 6), ("far", 1, 8)))
    assert told.frame.messages[-2:] == (named, SubscriptionsSynced())


@pytest.mark.parametrize("seed", [*range(40), 223_599_552])
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


@pytest.mark.parametrize("seed", [*range(60), 223_599_545, 223_599_576])
def test_whatever_brokers_forget_of_several_publishers_nothing_is_lost(seed):
    """Subscriptions may have been withdrawn further on than at the neighbours of those that
    forget; some brokers restart with their state."""
    rng = random.Random(seed)
    config = BrokerConfig(covering=rng.choice(("none", "active", "lazy", "incremental")))
    net = SlowNet([*CHAIN, ("B4", "B5"), ("B3", "B6"), ("B2", "B7")], config)
    net.slow = rng.choice((("B3", "B4"), ("B4", "B5"), ("B3", "B6")))
    homes = {"pub": "B1", "pub2": rng.choice(("B1", "B7"))}
    for publisher, home in homes.items():
        net.attach(publisher, home)
        net.advertise(publisher, "p > 0")
    for home in ("B5", "B6", "B7"):
        net.attach(f"sub {home}", home)
        net.subscribe(f"sub {home}", "p > 1")
    net.settle()
    published = {}
    for publisher in homes:
        published[publisher] = rng.randint(0, 3)
        for _ in range(published[publisher]):
            net.publish(publisher, p=5)
        if rng.random() < 0.8:
            net.unadvertise(publisher)
        some_steps(net, rng)
    for _ in range(rng.randint(0, 3)):
        net.restart(rng.choice(("B2", "B3", "B4")), stored=rng.random() < 0.2)
        some_steps(net, rng)
    net.restart(net.slow[0], stored=False)
    net.slow = None
    net.settle()
    assert {publisher: net.confirmed(publisher) for publisher in homes} == published
    for home in ("B5", "B6", "B7"):
        for publisher, count in published.items():
            got = [delivery.publication for delivery in net.got(f"sub {home}", Delivery)]
            received = [one.sequence for one in got if one.publisher == publisher]
            assert received == list(range(1, count + 1))
    for broker in net.brokers.values():
        assert broker.is_recovered


def some_steps(net: SlowNet, rng: random.Random) -> None:
    """A few frames arrive, or all that can."""
    if rng.random() < 0.5:
        net.settle()
    for _ in range(rng.randint(0, 30)):
        ready = net.ready()
        if ready:
            net.step(rng.choice(ready))
