"""Behaviours: the interface suffices for one, costs nothing unless it is used; load exchange."""

from typing import ClassVar

import pytest

from byway.core.actions import SetTimer, Timer
from byway.core.behaviours import Behaviour, BrokerView
from byway.core.behaviours.load_exchange import BROKERS_MAX
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, LoadSampled, NeighbourRemoved, Started, TimerFired
from byway.model import ANY, TRUE
from byway.model.messages import AdvertiseRequest, Load, LoadReport, SubscribeRequest
from tests.lone_broker import (
    Lone,
    acknowledged,
    advertise,
    control,
    publication,
    publish,
    subscribe,
    twin_of,
    without_acknowledgements,
)

SECOND = 1_000_000
LOADED = BrokerConfig(load_interval_us=SECOND, load_radius=3)
TIMER = Timer("load")


def load(broker: str, hops: int = 1, at_us: int = 0, **rates: float) -> Load:
    values = {"publications_in": 0.0, "publications_out": 0.0, "deliveries": 0.0} | rates
    return Load(broker, hops, at_us, **values, queued=0, uplink=0.0)


def loads(lone: Lone, link: str) -> list[Load]:
    return lone.broker.loads_behind(link)


def reports(actions: list) -> dict[str, tuple[Load, ...]]:
    """What is reported, by neighbour."""
    sent = [a for a in without_acknowledgements(actions) if not isinstance(a, SetTimer)]
    return {a.link: a.frame.messages[0].loads for a in sent}


# --- load exchange -------------------------------------------------------------------------------


def test_load_exchange_is_off_unless_it_is_asked_for():
    assert Lone("A").broker.behaviours == {}
    assert Broker("B", config=LOADED).handle(7, Started()) == [SetTimer(TIMER, SECOND + 7)]


def test_a_broker_that_has_it_off_ignores_a_neighbours_reports():
    assert Lone("A").receive("A", LoadReport((load("A"),))) == [acknowledged("A", 5)]


def test_rates_of_the_last_interval():
    lone = Lone("A", "C", config=LOADED)
    lone.receive("C", subscribe("s"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    lone.handle(LoadSampled(9, (("A", 4),), 0.5))
    lone.receive("A", *(publication(n, p=1) for n in (1, 2, 3)))
    lone.ask("c", publish(1, p=1))
    lone.now_us = 2 * SECOND  # the timer was late
    mine = Load("B", 1, 2 * SECOND, 2.0, 2.0, 2.0, 9, 0.5)
    assert lone.handle(TimerFired(TIMER)) == [
        SetTimer(TIMER, 3 * SECOND),
        control("A", 6, LoadReport((mine,))),
        control("C", 7, LoadReport((mine,))),
    ]
    lone.now_us = 3 * SECOND
    idle = Load("B", 1, 3 * SECOND, 0.0, 0.0, 0.0, 9, 0.5)
    assert reports(lone.handle(TimerFired(TIMER))) == {"A": (idle,), "C": (idle,)}


def test_a_publication_that_comes_again_or_goes_nowhere():
    lone = Lone("A", config=LOADED)
    lone.receive("A", publication(1, p=1), publication(1, p=1))
    lone.now_us = SECOND
    (mine,) = reports(lone.handle(TimerFired(TIMER)))["A"]
    assert (mine.publications_in, mine.publications_out, mine.deliveries) == (1.0, 0.0, 0.0)


def test_what_is_heard_is_passed_on_to_the_others_up_to_the_radius():
    lone = Lone("A", "C", config=LOADED)
    lone.receive("A", LoadReport((load("A"), load("X", 2), load("Y", 3))))
    lone.receive("C", LoadReport((load("C"), load("B", 2))))  # of ourselves we know more
    lone.now_us = SECOND
    sent = reports(lone.handle(TimerFired(TIMER)))
    assert [(known.broker, known.hops) for known in sent["A"]] == [("B", 1), ("C", 2)]
    # Y is three hops away, and four from C
    assert [(known.broker, known.hops) for known in sent["C"]] == [("B", 1), ("A", 2), ("X", 3)]
    near = {link: [(known.broker, known.hops) for known in loads(lone, link)] for link in "AC"}
    assert near == {"A": [("A", 1), ("X", 2), ("Y", 3)], "C": [("C", 1)]}


def test_only_neighbours_that_are_there_get_reports():
    lone = Lone("A", "C", config=LOADED)
    lone.handle(LinkDown("C"))
    lone.now_us = SECOND
    assert list(reports(lone.handle(TimerFired(TIMER)))) == ["A"]


@pytest.mark.parametrize("how", ["link down", "removed", "silent", "no longer told"])
def test_what_is_not_heard_of_any_more_is_forgotten(how):
    lone = Lone("A", "C", config=LOADED)
    lone.receive("A", LoadReport((load("A"), load("X", 2))))
    if how == "link down":
        lone.handle(LinkDown("A"))
    elif how == "removed":
        lone.handle(NeighbourRemoved("A"))
    elif how == "no longer told":
        lone.receive("A", LoadReport(()))
    else:
        lone.now_us = 3 * SECOND
        lone.handle(TimerFired(TIMER))
        assert len(loads(lone, "A")) == 2
        lone.now_us = 3 * SECOND + 1
        lone.handle(TimerFired(TIMER))
    assert loads(lone, "A") == []


def test_the_age_of_a_report_is_when_it_came():
    """Clocks of brokers differ."""
    lone = Lone("A", config=LOADED)
    lone.now_us = 500
    lone.receive("A", LoadReport((load("A", at_us=99 * SECOND),)))
    assert [known.at_us for known in loads(lone, "A")] == [500]


def test_a_broker_that_is_rebuilt_reports_the_same():
    """Its reports are numbered: one that was sent may be sent again."""
    lone = Lone("A", "C", config=LOADED)
    lone.receive("C", subscribe("s"))
    lone.receive("A", LoadReport((load("A"), load("X", 2))))
    lone.handle(LoadSampled(9, (("A", 4),), 0.5))
    lone.receive("A", publication(1, p=1))
    twin = twin_of(lone.broker)
    lone.now_us = SECOND
    expected = lone.handle(TimerFired(TIMER))
    assert twin.handle(SECOND, TimerFired(TIMER)) == expected
    assert twin.snapshot() == lone.broker.snapshot()
    assert reports(expected)["C"][1] == load("A", 2, at_us=0)


def test_a_broker_that_restarts_knows_nothing_of_others():
    lone = Lone("A", config=LOADED)
    lone.receive("A", LoadReport((load("A"),)))
    lone.handle(LoadSampled(9))
    again = Broker.restore(lone.broker.snapshot(), LOADED)
    again.handle(5, Started())
    assert again.loads_behind("A") == []
    fresh = Broker("B", config=LOADED)
    fresh.handle(5, Started())
    assert again.behaviours["load"].snapshot() == fresh.behaviours["load"].snapshot()


def test_a_report_is_bounded_and_the_nearest_come_first():
    lone = Lone("A", "C", config=BrokerConfig(load_interval_us=SECOND, load_radius=9))
    far = tuple(load(f"X{n:05}", 8) for n in range(BROKERS_MAX))
    lone.receive("A", LoadReport((*far, load("near", 2))))
    lone.now_us = SECOND
    sent = reports(lone.handle(TimerFired(TIMER)))["C"]
    assert len(sent) == BROKERS_MAX + 1
    assert [known.broker for known in sent[:3]] == ["B", "near", "X00000"]


# --- the interface -------------------------------------------------------------------------------


class Gossip(Behaviour):
    """Remembers everything it sees, greets each neighbour that comes, and ticks once."""

    name: ClassVar[str] = "gossip"

    def __init__(self, view: BrokerView) -> None:
        super().__init__(view)
        self.seen: list[tuple] = []

    def on_started(self) -> None:
        self.view.set_timer(self.view.now_us + 5, "tick")

    def on_link_up(self, link):
        self.seen.append(("up", link, self.view.links))
        self.view.send(link, LoadReport(()))

    def on_link_down(self, link):
        self.seen.append(("down", link, self.view.links))

    def on_timer(self, detail):
        tables = len(self.view.subscriptions), len(self.view.advertisements)
        self.seen.append(("timer", detail, self.view.broker, tables))

    def on_load_sampled(self, sample):
        self.seen.append(("sample", sample.queued))

    def on_publication_received(self, publication, link):
        self.seen.append(("received", publication.sequence, link))

    def on_publication_forwarded(self, publication, links):
        self.seen.append(("forwarded", publication.sequence, publication.hop, tuple(links)))

    def on_publication_delivered(self, publication, clients):
        self.seen.append(("delivered", publication.sequence, tuple(clients)))

    def snapshot(self):
        return self.seen

    def restore(self, state):
        self.seen = [tuple(item) for item in state]


def plugged(kind: type[Behaviour], *links: str) -> tuple[Lone, Behaviour]:
    """A broker with a behaviour of the test's own."""
    lone = Lone(*links, agreed=False)
    behaviour = kind(BrokerView(lone.broker.context, kind.name, lone.broker._neighbours))
    lone.broker._plug_in(behaviour)
    return lone, behaviour


def test_a_behaviour_sees_and_does_what_it_needs():
    lone, gossip = plugged(Gossip, "A", "C")
    started = lone.handle(Started())
    assert SetTimer(Timer("gossip", "tick"), 5) in started
    (sent,) = lone.meet("A")
    assert sent.frame.messages[-1] == LoadReport(())
    lone.agree("C")
    lone.receive("C", advertise("a"), subscribe("s"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    lone.receive("A", publication(1, p=1))
    lone.ask("c", publish(1, p=1))
    lone.handle(LoadSampled(3))
    lone.handle(TimerFired(Timer("gossip", "tick")))
    lone.handle(LinkDown("A"))
    assert gossip.seen == [
        ("up", "A", ["A"]),
        ("up", "C", ["A", "C"]),
        ("received", 1, "A"),
        ("forwarded", 1, 2, ("C",)),
        ("delivered", 1, ("c",)),
        ("received", 1, None),
        ("forwarded", 1, 1, ("A", "C")),  # A has not told what it wants
        ("delivered", 1, ("c",)),
        ("sample", 3),
        ("timer", "tick", "B", (2, 2)),
        ("down", "A", ["C"]),
    ]


def test_a_behaviours_state_is_part_of_a_snapshot():
    lone, gossip = plugged(Gossip, "A")
    lone.meet("A")
    stored = lone.broker.snapshot()
    restored = Broker.restore(stored)
    assert restored.behaviours == {}  # it is off there: its state is left alone
    other, twin = plugged(Gossip, "A")
    twin.restore(gossip.snapshot())
    assert twin.seen == gossip.seen == [("up", "A", ["A"])]
    assert other.broker.behaviours["gossip"] is twin


def test_hooks_that_are_not_overridden_are_not_called():
    lone, _ = plugged(Idle, "A")
    publications = lone.broker.publications
    hooks = (
        publications.received_hooks, publications.forwarded_hooks, publications.delivered_hooks,
    )  # fmt: skip
    assert hooks == ([], [], [])
    lone, gossip = plugged(Gossip, "A")
    assert lone.broker.publications.received_hooks == [gossip.on_publication_received]


class Idle(Behaviour):
    name: ClassVar[str] = "nothing"


def test_timers_of_nobody_are_ignored():
    lone = Lone("A")
    assert lone.handle(TimerFired(Timer("unknown", "x"))) == []


def test_a_behaviour_that_does_nothing_does_no_harm():
    lone, _ = plugged(Idle, "A")
    lone.handle(Started())
    lone.agree("A")
    lone.receive("A", publication(1, p=1))
    lone.handle(LoadSampled(1), TimerFired(Timer("nothing")), LinkDown("A"))
    assert Broker.restore(lone.broker.snapshot()).name == "B"
