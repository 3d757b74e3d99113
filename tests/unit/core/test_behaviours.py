"""Behaviours: the interface suffices for one, costs nothing unless it is used; load exchange."""

from collections import Counter
from typing import ClassVar

import msgspec
import pytest

from byway.core.actions import CancelTimer, Send, SendReply, SetTimer, Timer
from byway.core.behaviours import Behaviour, BrokerView, registry
from byway.core.behaviours.load_exchange import BROKERS_MAX
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientDetached,
    FrameReceived,
    LinkDown,
    LinkLoad,
    LoadSampled,
    NeighbourRemoved,
    Started,
    TimerFired,
)
from byway.model import ANY, TRUE
from byway.model.messages import (
    Acknowledge,
    AdvertiseRequest,
    Load,
    LoadReport,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.model.trace_schema import Reconfiguration
from byway.trace import TraceBuffer
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
from tests.unit.core.routing_drafts import Recorder

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
    lone.handle(LoadSampled(9, (LinkLoad("A", 4),), 0.5))
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
    lone.handle(LoadSampled(9, (LinkLoad("A", 4),), 0.5))
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

    def on_publication_routed(self, publication, link, links, clients):
        self.seen.append(("routed", publication.sequence, link, tuple(links), tuple(clients)))

    def snapshot(self):
        return self.seen

    def restore(self, state):
        self.seen = [tuple(item) for item in state]


def plugged(kind: type[Behaviour], *links: str) -> tuple[Lone, Behaviour]:
    """A broker with a behaviour of the test's own."""
    lone = Lone(*links, agreed=False)
    return lone, plug(lone.broker, kind)


def plug(broker: Broker, kind: type[Behaviour]) -> Behaviour:
    sessions = broker.clients.sessions
    behaviour = kind(BrokerView(broker.context, kind.name, broker._neighbours, sessions))
    broker._plug_in(behaviour)
    return behaviour


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
        ("routed", 1, "A", ("C",), ("c",)),
        ("routed", 1, None, ("A", "C"), ("c",)),  # A has not told what it wants
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
    hooks = lone.broker.context.hooks
    assert set(map(len, vars(hooks).values())) == {0}
    assert lone.broker.advertisements.watchers == lone.broker.subscriptions.watchers == ()
    lone, gossip = plugged(Gossip, "A")
    called = {name: list(found) for name, found in vars(lone.broker.context.hooks).items() if found}
    assert called == {"on_publication_routed": [gossip.on_publication_routed]}


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


# --- publications and their confirmations ------------------------------------------------------


class Counting(Behaviour):
    """Gives each publication of a local client a count, and notes what is confirmed."""

    name: ClassVar[str] = "counting"

    def __init__(self, view: BrokerView) -> None:
        super().__init__(view)
        self.seen: list[tuple] = []

    def on_published(self, publication):
        return msgspec.structs.replace(publication, count=40 + publication.sequence)

    def on_copies_confirmed(self, link, copies):
        self.seen.append(("confirmed", link, copies, self.view.unconfirmed(link)))

    def on_publication_finished(self, client, sequence):
        self.seen.append(("finished", client, sequence, self.view.unfinished(client)))


def counting() -> tuple[Lone, Counting]:
    """B, where client c publishes and two neighbours want it."""
    lone = Lone("A", "C")
    behaviour = plug(lone.broker, Counting)
    lone.receive("A", subscribe("s"))
    lone.receive("C", subscribe("t", "p > 1"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    return lone, behaviour


def test_header_fields_that_are_set_at_home_travel_with_every_copy():
    lone, _ = counting()
    sent = lone.ask("c", publish(1, p=7), publish(2, p=0))
    copies = {a.link: a.frame.messages for a in sent if isinstance(a, Send)}
    first, second = copies["A"]
    assert [(p.sequence, p.hop, p.count) for p in (first, second)] == [(1, 1, 41), (2, 1, 42)]
    assert copies["C"] == (first,)
    taken = lone.receive("A", publication(1, p=7))  # of a publisher elsewhere: nothing is set
    (onward,) = next(a.frame.messages for a in taken if isinstance(a, Send) and a.link == "C")
    assert onward.count == 0


def test_a_header_is_not_a_way_to_change_a_publication():
    lone, behaviour = counting()
    hooks = lone.broker.context.hooks.on_published
    hooks[:] = [lambda publication: msgspec.structs.replace(publication, sequence=9)]
    with pytest.raises(AssertionError, match="identity and body"):
        lone.ask("c", publish(1, p=7))
    assert behaviour.seen == []


def test_confirmations_by_link_and_of_whole_publications():
    lone, behaviour = counting()
    lone.ask("c", publish(1, p=7), publish(2, p=0), publish(3, p=9))
    assert behaviour.seen == []
    control = lone.sent["A"][0]
    lone.handle(FrameReceived("A", Acknowledge(control, 3, 2)))
    lone.handle(FrameReceived("A", Acknowledge(control, 3, 2)))  # nothing new
    lone.handle(FrameReceived("C", Acknowledge(control, 2, 2)))
    assert behaviour.seen == [
        ("finished", "c", 2, 3),  # the first of them waits for C
        ("confirmed", "A", 2, 1),
        ("finished", "c", 1, 1),
        ("confirmed", "C", 2, 0),
    ]
    lone.handle(FrameReceived("A", Acknowledge(control, 3, 3)))
    assert behaviour.seen[4:] == [("finished", "c", 3, 0), ("confirmed", "A", 1, 0)]


def test_a_publication_that_nobody_wants_is_finished_at_once():
    lone = Lone("A")
    behaviour = plug(lone.broker, Counting)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.ask("c", publish(1, p=7), publish(2, p=7))
    assert behaviour.seen == [("finished", "c", 1, 0), ("finished", "c", 2, 0)]


# --- tables --------------------------------------------------------------------------------------


class Librarian(Behaviour):
    """Notes entries that come and go."""

    name: ClassVar[str] = "librarian"

    def __init__(self, view: BrokerView) -> None:
        super().__init__(view)
        self.seen: list[tuple] = []

    def on_entry_added(self, kind, entry):
        self.seen.append(("added", kind.value, entry.id.name, entry.origin.link))

    def on_entry_removed(self, kind, entry):
        self.seen.append(("removed", kind.value, entry.id.name, entry.origin.link))

    def on_tables_replaced(self):
        self.seen.append(("replaced", len(self.view.subscriptions)))


def test_entries_that_come_and_go():
    lone = Lone("A")
    librarian = plug(lone.broker, Librarian)
    lone.attach("c")
    lone.receive("A", subscribe("s"))
    assert librarian.view.local_publishers == []
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("t", TRUE))
    assert librarian.view.local_publishers == ["c"]
    lone.ask("c", UnsubscribeRequest(("t",)), UnadvertiseRequest("a"))
    assert librarian.view.local_publishers == []
    assert librarian.seen == [
        ("added", "subscriptions", "s", "A"),
        ("added", "advertisements", "a", None),
        ("added", "subscriptions", "t", None),
        ("removed", "subscriptions", "t", None),
        ("removed", "advertisements", "a", None),
    ]


def test_a_draft_that_is_put_in_force_is_watched_in_the_place_of_the_old_tables():
    lone = Lone("A")
    librarian = plug(lone.broker, Librarian)
    lone.receive("A", subscribe("s"))
    old = lone.broker.context.routing
    drafts, happened = lone.broker.drafts, []
    drafts.begin(Recorder(), happened.append, lambda: happened.append("released"))
    while "released" not in happened:
        lone.handle(TimerFired(Timer("draft")))
    drafts.put_in_force()
    assert lone.broker.context.routing is not old
    assert old.subscriptions.watchers == old.adverts.watchers == ()
    lone.receive("A", subscribe("t"))
    assert librarian.seen == [
        ("added", "subscriptions", "s", "A"),
        ("replaced", 1),
        ("added", "subscriptions", "t", "A"),
    ]


def test_tables_of_a_snapshot_are_watched(monkeypatch):
    monkeypatch.setitem(registry._registered, Librarian.name, Librarian)
    config = BrokerConfig(behaviours=(Librarian.name,))
    lone = Lone("A", config=config)
    lone.receive("A", subscribe("s"))
    lone.broker = Broker.restore(lone.broker.snapshot(), config, up=["A"])
    lone.receive("A", subscribe("t"))
    assert lone.broker.behaviours["librarian"].seen == [("added", "subscriptions", "t", "A")]


# --- chance, costs, clients, trace ---------------------------------------------------------------


def test_random_numbers_come_from_the_seed_and_survive_a_snapshot():
    def numbers(broker: Broker, count: int = 3) -> list[float]:
        view = BrokerView(broker.context, "gossip", broker._neighbours, {})
        return [view.random() for _ in range(count)]

    one, other = Broker("B"), Broker("B")
    one.handle(0, Started(7))
    other.handle(0, Started(7))
    first = numbers(one)
    assert first == numbers(other)
    assert all(0 <= number < 1 for number in first)
    assert len(set(first)) == 3
    assert numbers(Broker.restore(one.snapshot())) == numbers(one)
    other.handle(9, Started(7))  # it goes on, and does not begin anew
    assert numbers(other) not in (first, numbers(one))
    for different in (Broker("B", incarnation=2), Broker("C")):
        different.handle(0, Started(7))
        assert numbers(different) != first
    seeded = Broker("B")
    seeded.handle(0, Started(8))
    assert numbers(seeded) != first


def test_whole_random_numbers_are_spread_evenly():
    broker = Broker("B")
    view = BrokerView(broker.context, "gossip", broker._neighbours, {})
    drawn = Counter(view.draw(4) for _ in range(4_000))
    assert set(drawn) == {0, 1, 2, 3}
    assert max(drawn.values()) - min(drawn.values()) < 200
    assert broker.context.chance.draws == {"gossip": 4_000}


def test_costs_are_those_of_the_last_sample_until_the_broker_starts_again():
    lone, gossip = plugged(Gossip, "A")
    assert (gossip.view.load, gossip.view.cost("A")) == (LoadSampled(0), None)
    sample = LoadSampled(3, (LinkLoad("A", round_trip_us=1_500),), 0.5, 20, 10)
    lone.handle(sample)
    again = Broker.restore(lone.broker.snapshot())
    assert (gossip.view.load, again.context.load) == (sample, sample)
    assert gossip.view.cost("A") == LinkLoad("A", round_trip_us=1_500)
    assert gossip.view.cost("C") is None
    again.handle(9, Started())
    assert again.context.load == LoadSampled(0)


class Herald(Behaviour):
    """Tells its clients what its timers are called, and traces that."""

    name: ClassVar[str] = "herald"

    def on_timer(self, detail):
        told = self.view.tell("c", Refused("", detail))
        phase = "told" if told else "not told"
        self.view.trace(Reconfiguration.MIGRATION, "m1", phase, publisher="c")
        self.view.set_timer(self.view.now_us + 5, "again")
        self.view.cancel_timer("again")


def test_a_behaviour_tells_a_client_and_writes_to_the_trace():
    lone = Lone("A", trace=TraceBuffer("B"))
    plug(lone.broker, Herald)
    lone.attach("c")
    lone.trace.drain()
    timers = [SetTimer(Timer("herald", "again"), 5), CancelTimer(Timer("herald", "again"))]
    told = lone.handle(TimerFired(Timer("herald", "come")))
    assert told == [*timers, SendReply("c", (Refused("", "come"),))]
    lone.handle(ClientDetached("c"))
    assert lone.handle(TimerFired(Timer("herald", "gone"))) == timers
    rows = lone.trace.drain()
    phases = [rows.names["phase"][number - 1] for number in rows.rows["phase"] if number]
    assert phases == ["told", "not told"]
