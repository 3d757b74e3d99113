"""Successions: another broker takes the place of a neighbour that does not come back."""

from collections.abc import Sequence

import pytest

from byway.core.actions import CloseLink, OpenLink, Send, SetTimer, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    LinkDown,
    LinkUp,
    NeighbourAdded,
    NeighbourRemoved,
    NeighbourReplaced,
    NeighboursListed,
    Started,
    TimerFired,
)
from byway.core.invariants import validate
from byway.core.links import UNLISTED
from byway.core.losses import RUNS_MAX, Losses, LostRun
from byway.core.mesh.mesh_config import MeshConfig
from byway.core.reachability import TIMER as REACHABILITY
from byway.core.recovery import UNLISTED_TIMER_OWNER
from byway.model.addresses import Address, Listing, Neighbour
from byway.model.messages import Delivery, LinkKind, NeighbourNames
from tests.core_net import DEFAULT, Net

STAR = [("a", "d"), ("c", "d"), ("d", "e")]
AROUND = ("a", "c", "e")


class Successor(Net):
    """A network in which a broker can die for good, and others begin."""

    def __init__(self, edges=STAR, config: BrokerConfig = DEFAULT) -> None:
        super().__init__(edges, config)
        self.config = config
        self.refused: list[tuple[str, CloseLink]] = []

    def do(self, broker: str, event: object) -> None:
        told = Started(0, f"at {broker}") if isinstance(event, Started) else event
        super().do(broker, told)

    def closed(self, broker: str, action: CloseLink) -> None:
        self.refused.append((broker, action))

    def connect(self, a: str, b: str) -> None:
        self.flying.setdefault((a, b), [])
        self.flying.setdefault((b, a), [])
        super().connect(a, b)

    def kill(self, broker: str) -> Broker:
        """A broker dies; what was on its way to it or from it is lost."""
        for other in list(self.brokers[broker].links_up):
            for way in ((broker, other), (other, broker)):
                self.flying[way].clear()
            self.do(other, LinkDown(broker))
        return self.brokers.pop(broker)

    def begin(self, broker: str, listed: Sequence[str] = ()) -> None:
        """A broker begins that never ran before."""
        self.brokers[broker] = Broker(broker, listed, self.config)
        self.do(broker, Started())

    def replace(self, old: str, new: str, at: Sequence[str] = AROUND) -> None:
        for broker in at:
            self.do(broker, NeighbourReplaced(old, new, f"at {new}"))

    def meet(self, a: str, b: str) -> None:
        """Two brokers connect, as a process lets them: one that is unknown becomes a neighbour."""
        for here, there in ((a, b), (b, a)):
            if not self.brokers[here].has_link(there):
                self.do(here, NeighbourAdded(there))
        self.connect(a, b)

    def lost(self, broker: str, old: str = "d") -> list[LostRun]:
        return list(self.brokers[broker].succession_of[old].lost)

    def events(self, client: str) -> list[int]:
        return [d.publication.sequence for d in self.got(client, Delivery)]


def star(config: BrokerConfig = DEFAULT) -> Successor:
    """A client at each of a, c, e, and one at d in the middle; all subscribe, that of a publishes.
    The middle is dead."""
    net = Successor(config=config)
    for client, broker in (("pa", "a"), ("sc", "c"), ("se", "e"), ("sd", "d")):
        net.attach(client, broker, ttl_us=10**9)
    net.advertise("pa", "ANY")
    net.settle()
    net.subscribe("sc", "n > 0")
    net.subscribe("se", "n > 10")
    net.subscribe("sd", "n < 0")
    net.settle()
    assert net.publish("pa", n=1) == 1
    net.settle()
    assert (net.events("sc"), net.confirmed("pa")) == ([1], 1)
    net.kill("d")
    return net


def sound(net: Successor) -> None:
    for name, broker in net.brokers.items():
        assert validate(broker) == [], name
        again = Broker.restore(broker.snapshot(), broker.config)
        assert again.snapshot() == broker.snapshot()


def test_whole_action_list_of_a_neighbour() -> None:
    net = star()
    here = net.brokers["a"]
    assert here.handle(0, NeighbourReplaced("d", "b", "h:1")) == [
        SetTimer(REACHABILITY, 2_000_000),
        CloseLink("d", "b has taken the place of d for good"),
        OpenLink("b", "h:1"),
    ]
    assert here.neighbours == ("b",)
    assert here.former == {"d": "b has taken the place of d for good"}
    assert here.hello("b").in_place_of == "d"
    assert here.handle(0, NeighbourReplaced("d", "b", "h:1")) == []
    assert here.handle(0, NeighbourReplaced("d", "x", "h:1")) == []
    sound(net)


def test_waiting_publications_arrive_and_what_nobody_wants_is_reported() -> None:
    net = star()
    for n in (1, -1, 11, -2, -3, 2):
        net.publish("pa", n=n)
    net.settle()
    assert net.confirmed("pa") == 1
    net.replace("d", "b")
    sound(net)
    net.begin("b")
    for name in AROUND:
        net.meet(name, "b")
        if name != "e":
            net.settle()
            assert net.brokers["b"].is_restarting
            assert "e" in net.brokers["b"].missing
            assert net.confirmed("pa") == 1
    net.settle()
    assert net.events("sc") == [1, 2, 4, 7]
    assert net.events("se") == [4]
    assert net.confirmed("pa") == 7
    assert net.lost("a") == [LostRun("pa", 1, 3, 3), LostRun("pa", 1, 5, 6)]
    assert net.brokers["a"].succession_of["d"].done
    assert net.brokers["b"].is_recovered
    for name in AROUND:
        assert net.brokers[name].hello("b").in_place_of is None
    assert net.entries("a") == [("sc", "s"), ("se", "s")]
    sound(net)


def test_a_client_that_came_to_the_successor_before_gets_what_waited() -> None:
    net = star()
    net.publish("pa", n=-1)
    net.begin("b")  # a spare that runs, with a client
    net.attach("sd", "b", incarnation=2)
    net.subscribe("sd", "n < 0")
    net.replace("d", "b")
    for name in AROUND:
        net.meet(name, "b")
    net.settle()
    assert net.events("sd") == [2]
    assert (net.lost("a"), net.confirmed("pa")) == ([], 2)
    sound(net)


def test_nothing_is_sent_before_all_neighbours_have_told() -> None:
    """One neighbour was not told: it waits on for the old broker, and the others for it."""
    net = star()
    net.replace("d", "b", at=("a", "e"))
    net.begin("b")
    net.meet("a", "b")
    net.meet("e", "b")
    net.settle()
    net.publish("pa", n=1)
    net.settle()
    assert net.brokers["b"].missing.keys() == {"c"}
    assert not net.brokers["a"].link("b").open
    assert net.confirmed("pa") == 1
    net.replace("d", "b", at=("c",))
    net.meet("c", "b")
    net.settle()
    assert net.events("sc") == [1, 2]
    assert net.confirmed("pa") == 2


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("when", ["before", "after", "between"])
def test_a_neighbour_restarts_meanwhile(stored: bool, when: str) -> None:
    net = star()
    net.publish("pa", n=1)
    net.settle()

    def restart() -> None:
        old = net.brokers["c"]
        up = list(old.links_up)
        for other in up:
            net.disconnect("c", other)
        net.brokers["c"] = (
            Broker.restore(old.snapshot(), DEFAULT)
            if stored
            else Broker("c", old.neighbours, DEFAULT, old.incarnation + 1, former=old.former)
        )
        net.do("c", Started())
        for other in up:
            net.connect("c", other)
        if stored:
            net.attach("sc", "c", ttl_us=10**9, received=net.events("sc")[-1])

    if when == "before":
        restart()
    net.replace("d", "b")
    net.begin("b")
    net.meet("a", "b")
    net.meet("c", "b")
    net.settle()
    if when == "between":
        restart()
    net.meet("e", "b")
    net.settle()
    if when == "after":
        restart()
    if not stored:
        net.attach("sc", "c", incarnation=2)
        net.subscribe("sc", "n > 0")
    net.settle()
    assert net.confirmed("pa") == 2
    if stored:
        assert net.events("sc") == [1, 2]
    net.publish("pa", n=3)
    net.settle()
    assert net.events("sc")[-1] == 3
    assert net.confirmed("pa") == 3
    sound(net)


def forgetful_first(listed: Sequence[str] = ()) -> Successor:
    """c has lost its state while d was dead, so it cannot name d's other neighbours; it is the
    first that is linked with d's successor."""
    net = star()
    net.publish("pa", n=1)
    net.settle()
    net.brokers["c"] = Broker("c", ("d",), DEFAULT, 2)
    net.do("c", Started())
    net.attach("pc", "c", ttl_us=10**9)
    net.replace("d", "b")
    net.begin("b", listed)
    net.do("b", NeighboursListed(Listing(tuple(Neighbour(Address(n, 1), n) for n in listed))))
    net.meet("c", "b")
    net.settle()
    net.advertise("pc", "ANY")
    net.publish("pc", n=20)
    net.settle()
    return net


def test_a_neighbour_that_cannot_name_the_others_is_told_first() -> None:
    net = forgetful_first()
    b = net.brokers["b"]
    assert b.missing.keys() >= {UNLISTED}
    assert net.confirmed("pc") == 0
    sound(net)
    net.do("b", TimerFired(Timer(UNLISTED_TIMER_OWNER, "1")))  # of a broker that has just begun
    assert b.missing.keys() >= {UNLISTED}
    net.meet("a", "b")
    net.settle()
    assert b.missing.keys() == {"c", "e"}
    assert net.confirmed("pc") == 0
    net.meet("e", "b")
    net.settle()
    assert b.is_recovered
    assert b.neighbours == ("a", "c", "e")
    assert net.confirmed("pc") == 1
    assert net.confirmed("pa") == 2
    assert [d.publication.body for d in net.got("se", Delivery)]
    sound(net)


def test_a_successor_that_lists_its_neighbours_waits_for_these() -> None:
    net = forgetful_first(listed=("c",))
    assert net.brokers["b"].is_recovered
    assert net.confirmed("pc") == 1


def test_a_successor_may_be_told_its_neighbours_when_nobody_can_name_them() -> None:
    net = forgetful_first()
    net.do("b", NeighboursListed(Listing((Neighbour(Address("c", 1), "c"),))))
    net.settle()
    assert net.brokers["b"].is_recovered
    assert net.confirmed("pc") == 1
    sound(net)


def outdated() -> Successor:
    """a was not told that e became a neighbour of d too, and knows of no others: their link was
    down, until d died."""
    net = Successor([("a", "d"), ("d", "e")])
    for client, broker in (("pa", "a"), ("pe", "e"), ("sa", "a"), ("se", "e")):
        net.attach(client, broker, ttl_us=10**9)
    for publisher in ("pa", "pe"):
        net.advertise(publisher, "ANY")
    net.settle()
    for subscriber in ("sa", "se"):
        net.subscribe(subscriber, "n > 0")
    net.settle()
    net.brokers["a"].sync.neighbours_of["d"] = ("a",)
    net.kill("d")
    net.publish("pa", n=1)
    net.publish("pe", n=1)
    net.settle()
    return net


def test_a_neighbour_that_nobody_has_named_is_taken_late() -> None:
    """Until then it was not waited for: what was confirmed meanwhile has not reached it."""
    net = outdated()
    net.replace("d", "b", at=("a", "e"))
    net.begin("b")
    net.attach("sb", "b", ttl_us=10**9)
    net.meet("a", "b")
    net.settle()
    assert net.brokers["b"].is_recovered
    sound(net)
    hellos = {name: net.brokers[name].hello("b") for name in ("a", "e")}
    assert {n for n, hello in hellos.items() if net.brokers["b"].meets_late(n, hello)} == {"e"}
    net.meet("e", "b")
    assert net.brokers["b"].missing.keys() == {"e"}
    net.settle()
    assert net.brokers["b"].is_recovered
    net.publish("pa", n=2)
    net.settle()
    assert (net.confirmed("pa"), net.confirmed("pe")) == (2, 1)
    assert [d.publication.publisher for d in net.got("sa", Delivery)] == ["pa", "pe", "pa"]
    assert [(d.publication.publisher, d.publication.sequence) for d in net.got("se", Delivery)] == [
        ("pe", 1),
        ("pa", 2),
    ]
    sound(net)


def test_a_neighbour_that_is_told_with_another_is_named_by_it() -> None:
    net = outdated()
    net.do("a", NeighbourReplaced("d", "b", "at b", ("e",)))
    net.do("e", NeighbourReplaced("d", "b", "at b", ("a",)))
    assert net.brokers["a"].neighbours_of("b") == ("a", "e")
    net.begin("b")
    net.meet("a", "b")
    net.settle()
    assert net.brokers["b"].missing.keys() == {"e"}
    assert net.confirmed("pa") == 0
    net.meet("e", "b")
    net.settle()
    assert (net.confirmed("pa"), net.confirmed("pe")) == (1, 1)
    assert [d.publication.publisher for d in net.got("se", Delivery)] == ["pe", "pa"]
    sound(net)


def test_a_successor_does_not_wait_for_the_broker_whose_place_it_takes() -> None:
    """c names it among its neighbours, from before."""
    net = star()
    net.publish("pa", n=1)
    net.settle()
    net.replace("d", "b")
    net.brokers["c"].sync.neighbours_of["b"] = ("a", "c", "d", "e")
    net.begin("b")
    for name in AROUND:
        net.meet(name, "b")
        net.settle()
        assert "d" not in net.brokers["b"].neighbours
    assert net.brokers["b"].is_recovered
    assert (net.events("sc"), net.confirmed("pa")) == ([1, 2], 2)


def test_the_old_broker_comes_back_and_is_refused_without_confirming_anything() -> None:
    net = Successor()
    for client, broker in (("pa", "a"), ("sc", "c")):
        net.attach(client, broker, ttl_us=10**9)
    net.advertise("pa", "ANY")
    net.settle()
    net.subscribe("sc", "n > 0")
    net.settle()
    net.disconnect("c", "d")
    net.publish("pa", n=1)
    net.settle()
    old = net.kill("d")  # it holds a publication that c lacks
    net.replace("d", "b", at=("c",))
    net.brokers["d"] = Broker.restore(old.snapshot(), DEFAULT)
    net.do("d", Started())
    net.connect("a", "d")
    net.settle()
    hello = net.brokers["d"].hello("c")
    assert net.brokers["c"].handle(0, LinkUp("d", hello)) == [
        CloseLink("d", "b has taken the place of d for good")
    ]
    net.settle()
    assert net.confirmed("pa") == 0
    net.kill("d")
    net.replace("d", "b", at=("a", "e"))
    net.begin("b")
    for name in AROUND:
        net.meet(name, "b")
    net.settle()
    assert (net.events("sc"), net.confirmed("pa")) == ([1], 1)


def test_an_operator_may_add_the_old_broker_again() -> None:
    net = star()
    net.replace("d", "b")
    net.do("a", NeighbourAdded("d"))
    assert net.brokers["a"].former == {}
    assert dict(net.brokers["a"].succession_of) == {}
    sound(net)


def test_the_successor_dies_and_is_replaced_too() -> None:
    net = star()
    net.publish("pa", n=1)
    net.publish("pa", n=-1)
    net.replace("d", "b", at=("a", "c"))
    net.begin("b")
    net.meet("a", "b")
    net.meet("c", "b")
    net.settle()
    net.kill("b")
    net.replace("b", "f", at=("a", "c"))
    net.replace("d", "f", at=("e",))
    assert net.brokers["a"].succession_of["d"].successor == "f"
    net.begin("f")
    for name in AROUND:
        net.meet(name, "f")
    net.settle()
    assert net.brokers["f"].is_recovered
    assert net.events("sc") == [1, 2]
    assert net.confirmed("pa") == 3
    assert net.lost("a", "b") == [LostRun("pa", 1, 3, 3)]
    assert all(one.done for one in net.brokers["a"].succession_of.values())
    sound(net)


def test_two_operators_choose_different_successors() -> None:
    """Both wait, and nothing is lost; one of the two is replaced by the other."""
    net = star()
    net.publish("pa", n=1)
    net.replace("d", "b", at=("a", "e"))
    net.replace("d", "f", at=("c",))
    for new in ("b", "f"):
        net.begin(new)
    net.meet("a", "b")
    net.meet("e", "b")
    net.meet("c", "f")
    net.settle()
    assert net.brokers["b"].missing.keys() == {"c"}
    assert net.brokers["f"].missing.keys() == {"a", "e"}
    assert net.confirmed("pa") == 1
    net.kill("f")
    net.replace("f", "b", at=("c",))
    net.meet("c", "b")
    net.settle()
    assert net.events("sc") == [1, 2]
    assert net.confirmed("pa") == 2
    sound(net)


# --- who may take a place -------------------------------------------------------------------------


def test_a_broker_with_other_neighbours_refuses() -> None:
    net = Successor([*STAR, ("b", "x")])
    net.settle()
    net.kill("d")
    net.replace("d", "b", at=("a",))
    net.refused.clear()
    net.do("b", NeighbourAdded("a"))
    net.do("b", LinkUp("a", net.brokers["a"].hello("b")))
    ((broker, refusal),) = net.refused
    assert (broker, refusal.link) == ("b", "a")
    assert refusal.reason.startswith(
        "b cannot take the place of d, for it has other neighbours (x)"
    )


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("x", "b", "x is not a neighbour of a"),
        ("d", "a", "a cannot take the place of d at a"),
        ("d", "d", "d cannot take the place of d at a"),
        ("c", "b", "c is connected to a: stop it first, and for good"),
        ("d", "c", "c is linked with a already, and may have been sent publications later"),
    ],
)
def test_where_nobody_takes_a_place(old: str, new: str, reason: str) -> None:
    net = Successor([("a", "d"), ("a", "c")])
    net.kill("d")
    before = net.brokers["a"].snapshot()
    assert net.brokers["a"].reason_not_to_replace(old, new).startswith(reason)
    assert net.brokers["a"].handle(0, NeighbourReplaced(old, new)) == []
    assert net.brokers["a"].snapshot() == before


def test_a_broker_refuses_that_goes_round_the_neighbour_it_had() -> None:
    """What it had sent there goes round it, so its link begins anew: still it had a neighbour."""
    config = BrokerConfig(mesh=MeshConfig(delta=3, interval_us=0, bypass_after_us=1_000))
    net = Successor([("a", "x"), ("c", "d"), ("d", "e"), ("e", "f")], config)
    net.settle()
    for name in ("f", "d", "x"):
        net.kill(name)
    net.now_us += 1_000
    net.fire("e", Timer("mesh", "bypass"))
    assert net.brokers["e"].bypassed.keys() == {"d"}
    net.do("a", NeighbourReplaced("x", "e", "at e"))
    net.meet("a", "e")
    assert "it has other neighbours (d, f)" in net.refused[-1][1].reason
    assert net.brokers["e"].is_recovered


def between_two() -> Successor:
    """The broker between two others is dead, a publication waits for it, and the first of both has
    been told that the second takes its place."""
    net = Successor([("a", "d"), ("d", "e")])
    for client, broker in (("pa", "a"), ("se", "e")):
        net.attach(client, broker, ttl_us=10**9)
    net.advertise("pa", "ANY")
    net.settle()
    net.subscribe("se", "n > 0")
    net.settle()
    net.kill("d")
    net.publish("pa", n=1)
    net.settle()
    net.do("a", NeighbourReplaced("d", "e", "at e"))
    return net


def test_two_that_take_the_place_for_each_other_are_told_one_after_the_other() -> None:
    """The first dials the second before that is told: refused, and known as a neighbour by then."""
    net = between_two()
    net.meet("a", "e")
    assert net.refused[-1][0] == "e"
    net.do("a", LinkDown("e"))
    net.settle()
    assert net.brokers["e"].reason_not_to_replace("d", "a") == ""
    net.do("e", NeighbourReplaced("d", "a", "at a"))
    net.connect("a", "e")
    net.settle()
    assert (net.brokers["a"].neighbours, net.brokers["e"].neighbours) == (("e",), ("a",))
    assert net.events("se") == [1]
    assert net.confirmed("pa") == 1
    sound(net)


def test_who_takes_a_place_between_two_and_dies_before_it_tells_its_neighbours() -> None:
    """They are not those of the broker that was there before, so its successor waits for more."""
    net = between_two()
    assert net.brokers["a"].neighbours_of("e") == ("a", "e")
    net.do("e", NeighbourAdded("f"))
    net.kill("e")
    net.do("a", NeighbourReplaced("e", "b", "at b"))
    assert net.brokers["a"].neighbours_of("b") == ()
    net.begin("b")
    net.do("b", NeighboursListed(Listing()))
    net.meet("a", "b")
    net.settle()
    assert net.brokers["b"].missing.keys() == {UNLISTED}
    assert net.confirmed("pa") == 0
    sound(net)


def test_one_of_two_that_has_lost_its_state_is_told_all_the_same() -> None:
    """It could be a successor, but waits for the dead broker too, and holds what is for it."""
    net = between_two()
    net.brokers["e"] = Broker("e", ("d",), DEFAULT, 2)
    net.do("e", Started())
    net.attach("pe", "e", ttl_us=10**9)
    net.advertise("pe", "ANY")
    net.publish("pe", n=1)
    net.meet("a", "e")
    (broker, refusal) = net.refused[-1]
    assert (broker, refusal.link) == ("e", "a")
    assert refusal.reason == (
        "e cannot take the place of d at a while it has d as a neighbour itself: have a take its "
        "place there (byway topology replace d --by a)"
    )
    net.do("a", LinkDown("e"))
    assert net.brokers["e"].reason_not_to_replace("d", "a") == ""
    net.do("e", NeighbourReplaced("d", "a", "at a"))
    net.connect("a", "e")
    net.attach("se", "e", 2, ttl_us=10**9)
    net.subscribe("se", "n > 0")
    net.settle()
    assert (net.brokers["a"].neighbours, net.brokers["e"].neighbours) == (("e",), ("a",))
    assert (net.confirmed("pa"), net.confirmed("pe")) == (1, 1)
    sound(net)


def test_a_successor_that_knows_of_nothing_yet_makes_nobody_give_up_what_waits_for_it() -> None:
    net = between_two()
    net.connect("a", "e")  # which has no such neighbour, and says so
    net.settle()
    assert (net.brokers["a"].neighbours, net.confirmed("pa")) == (("e",), 0)
    net.do("a", LinkDown("e"))
    net.do("e", NeighbourReplaced("d", "a", "at a"))
    net.connect("a", "e")
    net.settle()
    assert (net.events("se"), net.confirmed("pa")) == ([1], 1)
    sound(net)


def test_the_mesh_leaves_a_link_alone_that_becomes_one_of_the_tree() -> None:
    """e has begun to open a soft link to a, round d."""
    config = BrokerConfig(mesh=MeshConfig(delta=3, interval_us=0, bypass_after_us=1_000))
    net = Successor([("a", "d"), ("d", "e")], config)
    for client, broker in (("pe", "e"), ("sa", "a")):
        net.attach(client, broker, ttl_us=10**9)
    net.advertise("pe", "ANY")
    net.settle()
    net.subscribe("sa", "n > 0")
    net.settle()
    net.kill("d")
    net.publish("pe", n=1)
    net.now_us += 1_000
    net.fire("e", Timer("mesh", "bypass"))
    assert net.brokers["e"].links["a"].kind is LinkKind.SOFT
    net.do("e", NeighbourAdded("a"))
    assert net.brokers["e"].neighbours == ("a", "d")
    assert net.brokers["e"].links["a"].kind is LinkKind.PRIMARY


def test_who_was_replaced_is_said() -> None:
    net = star()
    net.replace("d", "b")
    reason = net.brokers["a"].reason_not_to_replace("d", "f")
    assert reason == "b has taken the place of d at a already"


def test_a_successor_that_is_forgotten_is_not_awaited() -> None:
    net = star()
    net.publish("pa", n=1)
    net.replace("d", "b")
    net.do("a", NeighbourRemoved("b"))
    net.settle()
    assert net.brokers["a"].neighbours == ()
    assert net.brokers["a"].succession_of["d"].done
    assert net.confirmed("pa") == 2
    sound(net)


def test_others_are_told_who_the_neighbours_are() -> None:
    net = Successor([*STAR, ("a", "x")])
    net.settle()
    net.kill("d")
    actions = net.brokers["a"].handle(0, NeighbourReplaced("d", "b"))
    sent = [m for a in actions if isinstance(a, Send) for m in a.frame.messages]
    assert sent == [NeighbourNames(("b", "x"))]


# --- the same state under another name ------------------------------------------------------------


@pytest.mark.parametrize("covering", ["none", "active", "lazy", "packing", "incremental"])
@pytest.mark.parametrize("delta", [1, 3])
def test_the_state_is_the_same_but_for_the_name(covering: str, delta: int) -> None:
    """All that a broker knows of a neighbour it knows of the successor then."""
    config = BrokerConfig(covering=covering, merging=True, mesh=MeshConfig(delta=delta))
    net = star(config)
    for n in (1, -1, 11):
        net.publish("pa", n=n)
    net.settle()
    here = net.brokers["c"]
    for broker in AROUND:
        here = net.brokers[broker]
        before = (
            {(e.id, e.origin.path) for t in (here.subscriptions, here.advertisements) for e in t},
            [p.sequence for p in here.unconfirmed_publications("d")],
        )
        net.replace("d", "b", at=(broker,))
        after = (
            {(e.id, e.origin.path) for t in (here.subscriptions, here.advertisements) for e in t},
            [p.sequence for p in here.unconfirmed_publications("b")],
        )
        renamed = {(id, tuple("b" if n == "d" else n for n in path)) for id, path in before[0]}
        assert after == (renamed, before[1])
    net.begin("b")
    for broker in AROUND:
        net.meet(broker, "b")
    net.settle()
    assert net.events("sc") == [1, 2, 4]
    assert net.events("se") == [4]
    assert net.confirmed("pa") == 4
    sound(net)


# --- losses ---------------------------------------------------------------------------------------


def test_losses_are_listed_as_runs_up_to_a_bound() -> None:
    losses = Losses()
    for number in (1, 2, 3, 7):
        losses.add("p", 1, number)
    losses.add("p", 2, 4)
    losses.add("o", 1, 9)
    assert list(losses) == [
        LostRun("o", 1, 9, 9),
        LostRun("p", 1, 1, 3),
        LostRun("p", 1, 7, 7),
        LostRun("p", 2, 4, 4),
    ]
    for number in range(0, 4 * RUNS_MAX, 2):
        losses.add("q", 1, number)
    assert losses.count == 6 + 2 * RUNS_MAX
    assert len(list(losses)) == RUNS_MAX
