"""A broker goes on from a state that is older than a change of its neighbours. What it knows from
one neighbour comes from another one by now, which is sent what it wants, in order: also when the
operator has the broker forget the first one, or that one says what has ended."""

import pytest

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import NeighbourAdded, NeighbourRemoved, Started
from byway.core.mesh.mesh_config import MeshConfig
from byway.core.takeover import TIMER as TAKEOVER
from tests.unit.core.test_successions import Successor, sound

CONFIGS = {
    f"{name}, {delta}": BrokerConfig(covering=name, mesh=MeshConfig(delta=delta))
    for name, delta in (("none", 1), ("none", 2), ("active", 1), ("active", 3), ("selective", 1))
}


class Older(Successor):
    """A publisher at a, a subscriber that also publishes behind o, and s between a and o, which
    goes on from an older state."""

    def __init__(self, edges, far: str, config: BrokerConfig) -> None:
        super().__init__(edges, config)
        self.attach("p", "a", ttl_us=10**9)
        self.attach("far", far, ttl_us=10**9)
        self.advertise("p", "ANY")
        self.advertise("far", "n < 10")
        self.settle()
        self.subscribe("far", "n > 0", "old")
        self.settle()
        self.publish("p", n=1)
        self.settle()
        self.older = self.brokers["s"].snapshot()

    def lose(self) -> None:
        """The far one subscribes once more, and somebody at m advertises. Then s loses what it did
        since the older state, and its links; of what it had learnt, its marker file names m."""
        self.subscribe("far", "n > 10", "new")
        self.attach("late", "m")
        self.advertise("late", "ANY")
        self.settle()
        assert self.events("far") == [1]
        self.kill("s")
        self.brokers["s"] = Broker.restore(self.older, self.config, incarnation=2)
        self.do("s", Started())
        self.do("s", NeighbourAdded("m"))

    def steps(self, a: str, b: str, count: int) -> None:
        """So many steps on one link, to and fro, while nothing else moves."""
        for number in range(count):
            self.step((b, a) if number % 2 else (a, b))

    def end(self) -> None:
        """All that was published has arrived once, in order, and is confirmed; tables are right."""
        self.settle()
        last = self.sequence["p"]
        assert self.events("far") == [*range(1, last + 1)]
        assert self.confirmed("p") == last
        assert (self.home["far"], TAKEOVER) not in self.timers
        sound(self)
        assert {e.origin.link for e in self.brokers["s"].subscriptions} == {"m"}
        assert "old" in {e.id.name for e in self.brokers["a"].subscriptions}
        for broker in self.brokers.values():
            assert broker.is_recovered
            assert not broker.subscriptions.alternates.links


def left(config: BrokerConfig) -> Older:
    """The broker o, between s and m, has left."""
    net = Older([("a", "s"), ("s", "o"), ("o", "m")], "m", config)
    net.kill("o")
    net.replace("o", "m", at="s")
    net.replace("o", "s", at="m")
    net.connect("s", "m")
    net.settle()
    net.lose()
    return net


def moved(config: BrokerConfig) -> Older:
    """Both o and m are neighbours of s. What was behind o is behind m now."""
    net = Older([("a", "s"), ("s", "o"), ("s", "m"), ("o", "x"), ("m", "y")], "x", config)
    net.attach("po", "o")
    net.advertise("po", "ANY")
    net.settle()
    net.older = net.brokers["s"].snapshot()
    net.do("o", NeighbourRemoved("x"))
    net.settle()
    net.meet("x", "m")
    net.settle()
    net.lose()
    return net


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("first", ["a", "m"])
def test_what_waits_for_a_former_neighbour_alone_goes_where_it_is_wanted(config, first) -> None:
    net = left(config)
    net.connect("s", first)
    net.settle()
    net.publish("p", n=5)
    net.settle()
    net.connect("s", {"a": "m", "m": "a"}[first])
    net.settle()
    net.publish("p", n=6)
    net.publish("p", n=15)
    net.settle()
    assert net.events("far") == [1, 2, 3, 4]
    assert net.confirmed("p") == 1, "the former neighbour may want them"
    net.do("s", NeighbourRemoved("o"))
    net.end()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("first", ["o", "m"])
@pytest.mark.parametrize("steps", range(7))
def test_the_first_one_may_be_there_and_compare_tables(config, first, steps) -> None:
    """Whichever tells its tables first, and however far the other one is by then."""
    net, last = moved(config), {"o": "m", "m": "o"}[first]
    net.connect("s", "a")
    net.settle()
    net.connect("s", last)
    net.steps("s", last, steps)
    net.connect("s", first)
    net.steps("s", first, 20)
    net.publish("p", n=5)
    for way in (("a", "s"), ("s", "m"), ("m", "x")):
        net.step(way)
    net.settle()
    net.publish("p", n=15)
    net.end()
    net.publish("po", n=5)
    net.settle()
    assert net.events("far")[-1] == 1, "s tells the one that it came from before"


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_has_ended_begins_when_the_other_one_has_told_its_tables(config) -> None:
    """The other one has lost its state too: it announces what it knows before it knows all."""
    net = moved(config)
    net.kill("y")
    net.kill("m")
    net.brokers["m"] = Broker("m", ["s", "x", "y"], config, 2, restarting=True)
    net.do("m", Started())
    for ends in (("s", "a"), ("m", "x"), ("s", "m"), ("s", "o")):
        net.connect(*ends)
        net.settle()
    net.publish("p", n=5)
    net.settle()
    assert net.confirmed("p") == 1
    net.do("m", NeighbourRemoved("y"))
    net.settle()
    net.publish("p", n=15)
    net.end()


def test_the_first_one_takes_it_back_if_the_other_one_withdraws_it() -> None:
    """Both announce it, as on a cycle; the first one said so by a digest alone."""
    net = moved(CONFIGS["none, 1"])
    here = net.brokers["s"]
    (id,) = (e.id for e in here.subscriptions if e.id.name == "old")
    net.connect("s", "a")
    net.connect("s", "m")
    net.settle()
    entry = here.context.routing.subscriptions.get(id)
    assert entry is not None
    assert entry.origin.link == "m"
    assert here.subscriptions.alternates.links == {id: {"o": 1}}
    net.unsubscribe("far", "old", "new")
    net.settle()
    net.fire("s", TAKEOVER)
    assert {(e.id.name, e.origin.link) for e in here.subscriptions} == {("old", "o")}
    net.connect("s", "o")
    net.settle()
    assert list(here.subscriptions) == []
    sound(net)
