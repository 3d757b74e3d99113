"""Brokers wired in a ring by mistake: found and cut, or quiet and harmless until then."""

import itertools
import random

import pytest

from byway.core.actions import CloseLink, SetTimer, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, LinkUp, NeighbourRemoved, Started, TimerFired
from byway.core.invariants import validate
from byway.model.messages import (
    AdvertisementSettled,
    Delivery,
    Disconnect,
    Hello,
    LinkProbe,
    SubscriptionsSettled,
    Unsubscribe,
)
from tests.core_net import Net
from tests.lone_broker import (
    NOTHING,
    Lone,
    acknowledged,
    advertise,
    control,
    entry,
    subscribe,
    unadvertise,
)

PROBING = BrokerConfig(probe_cycles=True)
NAMES = ("B1", "B2", "B3", "B4", "B5")


# --- probes --------------------------------------------------------------------------------------


def probe(*path: str, incarnation: int = 1, number: int = 1) -> LinkProbe:
    return LinkProbe(path, incarnation, number)


def test_each_link_that_comes_up_is_probed():
    lone = Lone("A", agreed=False, config=PROBING)
    assert lone.meet("A") == [control("A", 1, NOTHING, probe("B"))]
    lone.handle(LinkDown("A"))
    resumed = lone.handle(LinkUp("A", Hello("A", 1, 1, 2, 0, 0, epoch=1)))
    assert resumed == [control("A", 3, probe("B", number=2))]
    lone = Lone("A", agreed=False)
    assert lone.meet("A") == [control("A", 1, NOTHING)]


@pytest.mark.parametrize("config", [PROBING, BrokerConfig()], ids=["probing", "not probing"])
def test_probes_of_others_are_passed_on_over_links_that_are_up(config):
    lone = Lone("A", "C", "D", "E", config=config)
    lone.handle(LinkDown("E"))
    sent = lone.receive("A", probe("X", "A", incarnation=4, number=9))
    passed = probe("X", "A", "B", incarnation=4, number=9)
    assert [(a.link, a.frame.messages) for a in sent[1:]] == [("C", (passed,)), ("D", (passed,))]
    assert passed not in lone.broker.context.ends["E"].control.kept


def test_a_probe_that_was_here_or_went_too_far_ends():
    lone = Lone("A", "C", config=BrokerConfig(hops_max=3))
    assert lone.receive("A", probe("X", "B", "A")) == [acknowledged("A", 5)]
    assert lone.receive("A", probe("X", "Y", "Z", "A")) == [acknowledged("A", 6)]


def last_probe(lone: Lone, link: str) -> LinkProbe:
    """What B sent over a link when it came up."""
    lone.handle(LinkDown(link))
    (sent,) = lone.meet(link, incarnation=2)
    return sent.frame.messages[-1]


def test_the_last_link_by_name_is_cut():
    lone = Lone("A", "C", config=PROBING)
    number = last_probe(lone, "C").number
    reason = "the overlay has a cycle: B – C – A – B"
    assert lone.receive("A", probe("B", "C", "A", number=number))[:2] == [
        control("C", 3, Disconnect(reason)),
        CloseLink("C", reason),
    ]
    assert list(lone.broker.neighbours) == ["A"]
    # it is gone when another probe comes back
    assert lone.receive("A", probe("B", "C", "A", number=number)) == [acknowledged("A", 6)]


def test_a_cycle_whose_last_link_is_elsewhere_is_told_round():
    lone = Lone("A", "C", config=PROBING)
    number = last_probe(lone, "C").number
    cycle = probe("B", "C", "Z", "Y", "A", "B", number=number)
    told = lone.receive("A", probe("B", "C", "Z", "Y", "A", number=number))
    assert told == [acknowledged("A", 5), control("C", 3, cycle)]
    assert list(lone.broker.neighbours) == ["A", "C"]


@pytest.mark.parametrize(
    ("cycle", "goes_to"),
    [
        ("X A B C X", "C"),  # C – X is the last link, and not ours
        ("X C B A X", "A"),
        ("C X A B C", None),  # it has been round
        ("X Y Z X", None),  # we are not on it
    ],
)
def test_a_cycle_that_another_found_is_told_on(cycle, goes_to):
    lone = Lone("A", "C")
    message = probe(*cycle.split())
    came_from = "C" if goes_to == "A" else "A"
    sent = [a for a in lone.receive(came_from, message) if a != acknowledged(came_from, 5)]
    assert sent == ([] if goes_to is None else [control(goes_to, 5, message)])


def test_an_end_of_the_last_link_parts_when_it_hears_of_the_cycle():
    lone = Lone("A", "C")
    told = lone.receive("A", probe("A", "B", "C", "A"))
    assert CloseLink("C", "the overlay has a cycle: A – B – C – A") in told


@pytest.mark.parametrize("cycle", ["A B C A", "X A B C X"])
def test_a_cycle_that_is_open_here_is_none(cycle):
    lone = Lone("A", "C")
    lone.handle(LinkDown("C"))
    message = probe(*cycle.split())
    assert lone.receive("A", message) == [acknowledged("A", 5)]
    assert list(lone.broker.neighbours) == ["A", "C"]
    assert message not in lone.broker.context.ends["C"].control.kept


def test_a_probe_of_another_time_cuts_nothing():
    lone = Lone("A", "C", config=PROBING)
    first = last_probe(lone, "C").number
    second = last_probe(lone, "C").number
    for old in (
        probe("B", "C", "A", number=first),  # it was sent over an earlier connection
        probe("B", "C", "A", number=second, incarnation=9),
        probe("B", "X", "C", "A", number=second),  # it was not sent over the link it names
        probe("B", number=second),
    ):
        assert not any(isinstance(a, CloseLink) for a in lone.receive("A", old))
    lone.handle(LinkDown("C"))
    told = lone.receive("A", probe("B", "C", "A", number=second))
    assert not any(isinstance(action, CloseLink) for action in told)


def test_probes_over_other_links_do_not_make_one_old():
    lone = Lone("A", "C", "D", config=PROBING)
    number = last_probe(lone, "C").number
    last_probe(lone, "D")
    told = lone.receive("A", probe("B", "C", "A", number=number))
    assert any(isinstance(action, CloseLink) for action in told)


class Graph(Net):
    """A network in which links may be closed."""

    def closed(self, broker, action):
        """What was sent before may still arrive; what comes from a stranger is not read."""

    def step(self, way, overtake=False):
        sender, receiver = way
        if sender in self.brokers[receiver].neighbours:
            super().step(way, overtake)
        else:
            self.flying[way].clear()


def connected_graph(rng):
    """Five brokers, a tree of them, and some links too many."""
    pairs = list(itertools.combinations(NAMES, 2))
    rng.shuffle(pairs)
    group = {name: name for name in NAMES}
    edges = []
    for a, b in pairs:
        if joined(group, a, b) or rng.random() < 0.4:
            edges.append((a, b))
    return edges


def joined(group, a, b):
    """Whether a link joins two groups, which are one from then on."""
    first, second = group[a], group[b]
    for name in group:
        if group[name] == second:
            group[name] = first
    return first != second


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_is_a_tree(seed):
    rng = random.Random(seed)
    net = Graph(connected_graph(rng), PROBING)
    while any(net.flying.values()):
        net.step(rng.choice(sorted(way for way in net.flying if net.flying[way])))
    ends = {(name, link) for name, broker in net.brokers.items() for link in broker.neighbours}
    assert {(b, a) for a, b in ends} == ends
    group = {name: name for name in NAMES}
    assert all(joined(group, a, b) for a, b in sorted(ends) if a < b)
    assert len(set(group.values())) == 1
    assert not any(broker.missing for broker in net.brokers.values())


# --- an entry that two neighbours tell of --------------------------------------------------------


HEIRS = Timer("takeover")


def told_twice() -> Lone:
    """A and C tell of the same subscription and advertisement; A did so first, D hears of both."""
    lone = Lone("A", "C", "D")
    lone.receive("D", advertise("of D"))
    for link in ("A", "C"):
        lone.receive(link, advertise("a"), subscribe("s"))
    assert origins(lone) == {"of D": "D", "a": "A", "s": "A"}
    return lone


def origins(lone: Lone) -> dict:
    entries = (*lone.broker.advertisements, *lone.broker.subscriptions)
    return {entry.id.name: entry.origin.link for entry in entries}


def test_the_first_one_holds_and_the_second_is_answered():
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"), subscribe("s"))
    answers = AdvertisementSettled(entry("a")), SubscriptionsSettled((entry("s"),))
    assert control("C", 6, *answers) in lone.receive("C", advertise("a"), subscribe("s"))
    assert lone.broker.advertisements.get(entry("a")).origin.link == "A"


def test_what_ends_is_inherited_after_a_while():
    lone = told_twice()
    lone.now_us = 70
    ended = lone.receive("A", Unsubscribe((entry("s"),))) + lone.receive("A", unadvertise("a"))
    assert ended.count(SetTimer(HEIRS, 1_000_070)) == 2
    assert origins(lone) == {"of D": "D"}
    lone.now_us = 1_000_070
    told = lone.handle(TimerFired(HEIRS))
    assert [m for a in told if a.link == "D" for m in a.frame.messages] == [
        advertise("a"), subscribe("s"),
    ]  # fmt: skip
    assert origins(lone) == {"of D": "D", "a": "C", "s": "C"}
    assert validate(lone.broker) == []


def test_what_both_take_back_is_over():
    lone = told_twice()
    for link in ("A", "C"):
        lone.receive(link, Unsubscribe((entry("s"),)))
        lone.receive(link, unadvertise("a"))
    assert lone.handle(TimerFired(HEIRS)) == []
    assert origins(lone) == {"of D": "D"}


def test_what_a_removed_neighbour_told_is_inherited_at_once():
    lone = told_twice()
    told = lone.handle(NeighbourRemoved("A"))
    assert not any(isinstance(action, SetTimer) for action in told)
    assert origins(lone) == {"of D": "D", "a": "C", "s": "C"}
    assert validate(lone.broker) == []


def test_a_restart_with_storage_does_not_forget_who_else_tells():
    lone = told_twice()
    lone.broker = Broker.restore(lone.broker.snapshot())
    lone.handle(Started(), NeighbourRemoved("A"))
    assert origins(lone) == {"of D": "D", "a": "C", "s": "C"}
    lone = told_twice()
    lone.receive("A", unadvertise("a"))
    lone.broker = Broker.restore(lone.broker.snapshot())
    lone.now_us = 90
    assert SetTimer(HEIRS, 1_000_090) in lone.handle(Started())
    lone.handle(TimerFired(HEIRS))
    assert origins(lone)["a"] == "C"


@pytest.mark.parametrize("how", ["removed", "anew"])
def test_a_neighbour_that_is_gone_inherits_nothing(how):
    lone = told_twice()
    if how == "removed":
        lone.handle(NeighbourRemoved("C"))
    else:
        lone.handle(LinkDown("C"))
        lone.agree("C", incarnation=2)
    lone.receive("A", Unsubscribe((entry("s"),)))
    lone.receive("A", unadvertise("a"))
    lone.handle(TimerFired(HEIRS))
    assert origins(lone) == {"of D": "D"}


def test_an_heir_takes_an_advertisement_back_as_often_as_it_told_of_it():
    lone = told_twice()
    lone.receive("C", advertise("a"))
    lone.handle(NeighbourRemoved("A"))
    lone.receive("C", unadvertise("a"))
    assert origins(lone)["a"] == "C"
    lone.receive("C", unadvertise("a"))
    assert "a" not in origins(lone)


# --- a ring --------------------------------------------------------------------------------------


def ring(covering, **config):
    """Three brokers in a ring, each with a client that advertises everything and subscribes."""
    edges = [("B1", "B2"), ("B2", "B3"), ("B1", "B3")]
    net = Graph(edges, BrokerConfig(covering=covering, **config))
    net.settle()
    for broker in net.brokers:
        net.do(broker, TimerFired(Timer("table-sync")))
    net.settle()
    for number in "123":
        net.attach(f"c{number}", f"B{number}")
        net.advertise(f"c{number}", "ANY")
        net.subscribe(f"c{number}", f"p > {number}")
        net.settle()
    return net


def check_deliveries(net):
    """Everybody has got the three publications of everybody once."""
    for number in "123":
        publications = [d.publication for d in net.got(f"c{number}", Delivery)]
        got = [(p.publisher, p.sequence) for p in publications]
        assert sorted(got) == [(f"c{n}", k) for n in "123" for k in (1, 2, 3)]
        assert net.confirmed(f"c{number}") == 3
    assert [validate(broker) for broker in net.brokers.values()] == [[], [], []]


@pytest.mark.parametrize("covering", ["none", "active"])
def test_a_ring_that_is_cut_is_a_tree(covering):
    net = ring(covering, probe_cycles=True)
    for _ in range(3):
        for number in "123":
            net.publish(f"c{number}", p=5)
    net.settle()
    check_deliveries(net)
    for number in "123":
        net.unsubscribe(f"c{number}")
        net.unadvertise(f"c{number}")
    net.settle()
    for broker in net.brokers.values():
        assert (len(broker.subscriptions), len(broker.advertisements)) == (0, 0)


@pytest.mark.parametrize("covering", ["none", "active"])
def test_in_a_ring_that_nobody_cuts_everything_can_be_taken_back(covering):
    net = ring(covering)
    for number in "123":
        net.unsubscribe(f"c{number}")
        net.unadvertise(f"c{number}")
        net.settle()
    for broker in net.brokers:
        net.do(broker, TimerFired(HEIRS))
    net.settle()
    for broker in net.brokers.values():
        assert (len(broker.subscriptions), len(broker.advertisements)) == (0, 0)


@pytest.mark.parametrize("covering", ["none", "active"])
def test_in_a_ring_that_nobody_cuts_everybody_gets_everything_once(covering):
    net = ring(covering, hops_max=5)
    for _ in range(3):
        for number in "123":
            net.publish(f"c{number}", p=5)
            net.settle()
    check_deliveries(net)
