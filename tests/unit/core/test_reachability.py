"""Brokers that cannot be reached are told on, for people who wait."""

import pytest

from byway.core.actions import Action, Send, SetTimer, Timer
from byway.core.inputs import LinkDown, LinkUp, NeighbourRemoved, TimerFired
from byway.core.reachability import NAMES_MAX
from byway.model.messages import Batch, BrokersUnreachable, Hello
from tests.core_net import Net
from tests.lone_broker import Lone, acknowledged, control

TIMER = Timer("reachability")
DELAY = 2_000_000
CHAIN = [("B1", "B2"), ("B2", "B3"), ("B3", "B4")]


@pytest.fixture(params=[False, True], ids=["", "restored"])
def lone(request) -> Lone:
    """B and its neighbours A, C and D, all at rest."""
    lone = Lone("A", "C", "D", all_timers=True)
    lone.restored = request.param
    waits(lone)
    return lone


def waits(lone: Lone, delay_us: int = DELAY) -> list[Action]:
    """Time passes, and the timer fires."""
    lone.now_us += delay_us
    return lone.handle(TimerFired(TIMER))


def resumes(lone: Lone, link: str) -> list[Action]:
    """A connection comes back, and nothing was lost."""
    control, data = lone.broker.links[link].sent
    hello = Hello(link, 1, 1, control, data, 0, epoch=lone.broker.hello(link).epoch)
    return lone.handle(LinkUp(link, hello))


def told(actions: list[Action]) -> dict[str, tuple[str, ...]]:
    """By neighbour, what it is told to be out of reach."""
    return {
        a.link: message.brokers
        for a in actions
        if isinstance(a, Send) and isinstance(a.frame, Batch)
        for message in a.frame.messages
        if isinstance(message, BrokersUnreachable)
    }


def test_a_link_that_stays_down_is_told_to_the_others(lone):
    lone.now_us = 5
    assert lone.handle(LinkDown("D")) == [SetTimer(TIMER, 5 + DELAY)]
    away = BrokersUnreachable(("D",))
    assert waits(lone) == [control("A", 5, away), control("C", 5, away)]
    assert waits(lone) == []  # it is told once


def test_it_is_taken_back_when_the_link_is_up_for_a_while(lone):
    lone.handle(LinkDown("D"))
    waits(lone)
    assert told(resumes(lone, "D")) == {}
    assert told(waits(lone)) == {"A": (), "C": ()}


def test_a_link_that_is_back_in_time_is_no_news(lone):
    for _ in range(5):
        lone.handle(LinkDown("D"))
        lone.now_us += DELAY // 2
        assert told(resumes(lone, "D")) == {}
        lone.now_us += DELAY // 2
    assert waits(lone) == []


def test_what_a_neighbour_cannot_reach_goes_on_to_the_others_at_once(lone):
    assert lone.receive("A", BrokersUnreachable(("Y", "X"))) == [
        acknowledged("A", 5),
        control("C", 5, BrokersUnreachable(("X", "Y"))),
        control("D", 5, BrokersUnreachable(("X", "Y"))),
    ]
    assert told(lone.receive("A", BrokersUnreachable(("X", "Y")))) == {}
    assert told(lone.receive("A", BrokersUnreachable(("X",)))) == {"C": ("X",), "D": ("X",)}
    assert told(lone.receive("A", BrokersUnreachable(()))) == {"C": (), "D": ()}


def test_each_is_told_what_is_behind_the_others(lone):
    lone.handle(LinkDown("D"))
    waits(lone)
    assert told(lone.receive("A", BrokersUnreachable(("X",)))) == {"C": ("D", "X")}
    assert told(lone.receive("C", BrokersUnreachable(("Y",)))) == {"A": ("D", "Y")}


def test_its_own_name_is_not_told_on(lone):
    assert told(lone.receive("A", BrokersUnreachable(("B",)))) == {}


def test_what_was_behind_one_that_is_away_is_behind_it(lone):
    """The neighbour itself is named instead: nobody knows of the others."""
    lone.receive("D", BrokersUnreachable(("X",)))
    lone.handle(LinkDown("D"))
    assert told(waits(lone)) == {"A": ("D",), "C": ("D",)}


def test_who_comes_back_is_told_what_changed_meanwhile(lone):
    lone.handle(LinkDown("C"))
    waits(lone)
    lone.receive("A", BrokersUnreachable(("X",)))
    resumes(lone, "C")
    assert told(waits(lone)) == {"A": (), "C": ("X",), "D": ("X",)}


def test_who_starts_anew_is_told_again(lone):
    lone.handle(LinkDown("D"))
    waits(lone)
    lone.handle(LinkDown("C"))
    lone.agree("C", incarnation=2)
    assert told(waits(lone)) == {"C": ("D",)}


def test_who_is_removed_is_not_missed(lone):
    lone.handle(LinkDown("D"))
    waits(lone)
    lone.handle(NeighbourRemoved("D"))
    assert told(waits(lone)) == {"A": (), "C": ()}


def test_one_that_never_came_is_told_as_well():
    lone = Lone("A", "N", agreed=False, all_timers=True)
    lone.agree("A")
    assert told(waits(lone)) == {"A": ("N",)}


def test_a_link_that_flaps_does_not_hide_one_that_is_down(lone):
    """C comes and goes, more often than news is worth a word; D is away for good."""
    lone.handle(LinkDown("D"))
    fires_us = None
    heard: dict[str, tuple[str, ...]] = {}
    for _ in range(6):
        lone.now_us += DELAY // 4
        for actions in (lone.handle(LinkDown("C")), resumes(lone, "C")):
            timers = [a.at_us for a in actions if isinstance(a, SetTimer) and a.timer == TIMER]
            fires_us = timers[-1] if timers else fires_us
        if fires_us is not None and fires_us <= lone.now_us:
            fires_us = None
            heard |= told(lone.handle(TimerFired(TIMER)))
    assert heard == {"A": ("D",), "C": ("D",)}


def test_one_that_was_told_to_be_away_and_flaps_is_not_taken_back(lone):
    lone.handle(LinkDown("D"))
    waits(lone)
    resumes(lone, "D")
    lone.now_us += DELAY // 2
    lone.handle(LinkDown("D"))
    assert told(waits(lone, DELAY // 2)) == {}
    assert told(lone.receive("A", BrokersUnreachable(("X",)))) == {"C": ("D", "X")}


def test_what_is_behind_one_that_is_away_for_a_moment_is_not_taken_back(lone):
    lone.receive("D", BrokersUnreachable(("X",)))
    lone.handle(LinkDown("D"))
    assert told(lone.receive("A", BrokersUnreachable(("Y",)))) == {"C": ("X", "Y")}


def test_names_are_bounded(lone):
    names = tuple(f"X{n:03}" for n in range(2 * NAMES_MAX))
    assert told(lone.receive("A", BrokersUnreachable(names)))["C"] == names[:NAMES_MAX]


def test_what_is_known_can_be_asked_for(lone):
    lone.handle(LinkDown("D"))
    lone.receive("A", BrokersUnreachable(("X",)))
    assert {link: lone.broker.unreachable_behind(link) for link in "ACD"} == {
        "A": ("X",), "C": (), "D": ("D",),
    }  # fmt: skip
    assert lone.broker.unreachable == ["D", "X"]


# --- over several hops ---------------------------------------------------------------------------


def net() -> Net:
    net = Net(CHAIN)
    net.settle()
    rests(net)
    return net


def rests(net: Net) -> None:
    """All timers of reachability fire, and what is sent arrives."""
    while due := sorted(broker for broker, timer in net.timers if timer == TIMER):
        for broker in due:
            net.fire(broker, TIMER)
        net.settle()


def away(net: Net) -> dict[str, list[str]]:
    return {name: broker.unreachable for name, broker in net.brokers.items()}


def test_it_goes_on_over_several_hops_and_back():
    world = net()
    world.disconnect("B3", "B4")
    rests(world)
    assert away(world) == {"B1": ["B4"], "B2": ["B4"], "B3": ["B4"], "B4": ["B3"]}
    world.connect("B3", "B4")
    rests(world)
    assert away(world) == {"B1": [], "B2": [], "B3": [], "B4": []}


def test_a_link_further_off_hides_what_is_behind_it():
    world = net()
    world.disconnect("B3", "B4")
    rests(world)
    world.disconnect("B2", "B3")
    rests(world)
    assert away(world) == {"B1": ["B3"], "B2": ["B3"], "B3": ["B2", "B4"], "B4": ["B3"]}
    world.connect("B2", "B3")
    rests(world)
    assert away(world) == {"B1": ["B4"], "B2": ["B4"], "B3": ["B4"], "B4": ["B3"]}


def test_after_a_restart_it_is_told_anew():
    world = net()
    world.disconnect("B3", "B4")
    rests(world)
    world.restart("B2", stored=False)
    world.settle()
    rests(world)
    assert away(world)["B1"] == ["B4"]
