"""Links of several kinds at one broker: what may travel over them, who dials, who becomes a
neighbour. Every test also runs with a broker that is restored before each input."""

import pytest

from byway.core.actions import CloseLink, OpenLink, Send, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    FrameReceived,
    LinkDown,
    LinkUp,
    NeighbourAdded,
    NeighbourRemoved,
    NeighboursListed,
    Started,
    TimerFired,
)
from byway.core.invariants import validate
from byway.core.neighbours import FORMER_MAX
from byway.model.addresses import Listing, Neighbour
from byway.model.messages import (
    Acknowledge,
    Batch,
    Disconnect,
    Hello,
    Lane,
    LinkKind,
    LinkProbe,
    Load,
    LoadReport,
    Publish,
    SyncDigest,
)
from tests.lone_broker import Lone, advertise, publication, subscribe, unadvertise
from tests.sim.rewiring import Rewiring

CONFIG = BrokerConfig(behaviours=(Rewiring.name,), probe_cycles=True)
PARTED = "the test parts them"
CLOSED = "the test wants so"
OUTSIDE = [LinkKind.SOFT, LinkKind.OPENING]


@pytest.fixture(params=[False, True], ids=["", "restored"])
def lone(request) -> Lone:
    """A and C are neighbours; C wants everything that A publishes."""
    lone = Lone("A", "C", config=CONFIG, restored=request.param)
    lone.receive("A", advertise("a"))
    lone.receive("C", subscribe("s"))
    return lone


def order(lone: Lone, words: str):
    return lone.handle(TimerFired(Timer(Rewiring.name, words)))


def greets(link: str, kind: LinkKind | None = None, **fields) -> LinkUp:
    return LinkUp(link, Hello(link, 1, 0, 0, 0, 0, kind=kind, **fields))


def frames(actions, link):
    return [action.frame for action in actions if type(action) is Send and action.link == link]


def messages(actions, link):
    batches = [frame for frame in frames(actions, link) if type(frame) is Batch]
    return [message for batch in batches for message in batch.messages]


REPORT = LoadReport((Load("B", 1, 0, 0.0, 0.0, 0.0, 0, 0.0),))


@pytest.mark.parametrize("kind", OUTSIDE)
def test_who_dials_for_such_a_link_becomes_no_neighbour(lone, kind):
    actions = lone.handle(greets("X", kind))
    assert messages(actions, "X") == [REPORT]  # no digest, no probe, no names
    assert lone.broker.neighbours == ("A", "C")
    facts = lone.broker.links["X"]
    assert (facts.kind, facts.up, facts.open) == (kind, True, kind is LinkKind.SOFT)
    assert not facts.comparing
    assert not lone.broker.dials("X")
    assert validate(lone.broker) == []


@pytest.mark.parametrize("kind", OUTSIDE)
def test_floods_go_by_the_tree(lone, kind):
    lone.handle(greets("X", kind))
    assert messages(lone.receive("A", advertise("b")), "C")
    actions = lone.receive("A", advertise("c"), subscribe("t", "p > 3"))
    actions += lone.receive("C", advertise("d"))
    actions += lone.receive("A", LinkProbe(("Z", "A"), 1, 1))
    actions += lone.handle(LinkDown("C"), TimerFired(Timer("reachability")))
    lone.now_us += 10_000_000
    actions += lone.handle(TimerFired(Timer("reachability")))
    assert messages(actions, "A")
    assert messages(actions, "X") == []
    assert lone.broker.unreachable == ["C"]


@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_link_that_goes_leaves_the_tables_as_they_are(lone, kind):
    lone.handle(greets("X", kind))
    before = [entry.id for entry in (*lone.broker.subscriptions, *lone.broker.advertisements)]
    lone.handle(LinkDown("X"))
    assert not lone.broker.links["X"].up
    assert lone.broker.unreachable == []
    actions = order(lone, "close X")
    assert actions[-1] == CloseLink("X", CLOSED)
    assert "X" not in lone.broker.links
    found = [entry.id for entry in (*lone.broker.subscriptions, *lone.broker.advertisements)]
    assert found == before


def test_publications_may_come_over_a_soft_link(lone):
    lone.handle(greets("X", LinkKind.SOFT))
    lone.sent["X"] = [0, 0]
    actions = lone.receive("X", publication(1, p=1))
    assert [type(m) for m in messages(actions, "C")] == [Publish]
    assert frames(lone.acknowledge("C", 1), "X") == [Acknowledge(0, 1, 1)]


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        (LinkKind.SOFT, subscribe("x"), "sends Subscribe over a link that is soft"),
        (LinkKind.SOFT, advertise("x"), "sends Advertise over a link that is soft"),
        (LinkKind.SOFT, SyncDigest((), ()), "sends SyncDigest over a link that is soft"),
        (LinkKind.SOFT, LinkProbe(("X",), 1, 1), "sends LinkProbe over a link that is soft"),
        (LinkKind.SOFT, unadvertise("x"), "sends Unadvertise over a soft link"),
        (LinkKind.OPENING, subscribe("x"), "sends Subscribe over a link that is opening"),
        (LinkKind.OPENING, publication(1, p=1), "sends data over a link that is opening"),
    ],
)
def test_what_belongs_to_the_tree_costs_another_link_its_connection(lone, kind, message, reason):
    lone.handle(greets("X", kind))
    lone.sent["X"] = [0, 0]
    before = len(lone.broker.subscriptions), len(lone.broker.advertisements)
    assert lone.receive("X", message) == [CloseLink("X", reason, fault=True)]
    assert (len(lone.broker.subscriptions), len(lone.broker.advertisements)) == before
    assert not lone.broker.links["X"].up


# --- dialling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(LinkKind))
def test_a_behaviour_opens_a_link(lone, kind):
    (opened,) = [a for a in order(lone, f"open {kind} X") if type(a) is OpenLink]
    assert opened == OpenLink("X", "at X", kind)
    assert lone.broker.hello("X").kind is kind
    assert lone.broker.hello("X").learnt
    assert lone.broker.dials("X")
    assert lone.broker.is_neighbour("X") is (kind is LinkKind.PRIMARY)
    lone.handle(LinkUp("X", Hello("X", 1, 0, 0, 0, 0, address="else:7")))
    assert lone.broker.links["X"].address == "else:7"
    again = [a for a in lone.handle(Started()) if type(a) is OpenLink]
    assert again == [OpenLink("A"), OpenLink("C"), OpenLink("X", "else:7", kind)]
    assert order(lone, f"open {kind} X") == []


def test_both_ends_dial_what_one_has_learnt(lone):
    lone.handle(NeighbourAdded("X"), greets("X", LinkKind.PRIMARY, learnt=True, address="x:1"))
    lone.handle(NeighbourAdded("Y"), greets("Y", LinkKind.PRIMARY, address="y:1"))
    lone.handle(greets("Z", LinkKind.SOFT, learnt=True, address="z:1"))
    assert [lone.broker.dials(name) for name in "AXYZ"] == [False, True, False, False]
    opened = [a for a in lone.handle(Started()) if type(a) is OpenLink]
    assert [(a.link, a.address) for a in opened] == [("A", ""), ("C", ""), ("X", "x:1"), ("Y", "")]


def test_ends_that_disagree_agree_at_the_next_greeting(lone):
    """Soft gives way to opening, and both to a link of the tree."""
    reason = "the link is soft at B, and opening at X"
    lone.handle(greets("X", LinkKind.SOFT))
    assert CloseLink("X", reason) in lone.handle(LinkDown("X"), greets("X", LinkKind.OPENING))
    assert not lone.broker.has_link("X")
    lone.handle(greets("X", LinkKind.OPENING))
    for other, given_way in ((LinkKind.SOFT, False), (LinkKind.PRIMARY, True)):
        reason = f"the link is opening at B, and {other} at X"
        actions = lone.handle(LinkDown("X"), greets("X", other))
        assert [a for a in actions if type(a) is CloseLink] == [CloseLink("X", reason)]
        assert lone.broker.has_link("X") is not given_way
    closed = CloseLink("A", "the link is primary at B, and soft at A")
    assert lone.handle(LinkDown("A"), greets("A", LinkKind.SOFT)) == [closed]
    assert lone.broker.is_neighbour("A")


def test_an_opening_end_that_resumes_stays(lone):
    lone.handle(greets("X", LinkKind.OPENING))
    said = lone.broker.hello("X")
    lone.handle(LinkDown("X"))
    hello = Hello("X", 1, 1, 0, 0, 0, said.epoch, kind=LinkKind.PRIMARY)
    lone.handle(LinkUp("X", hello))
    facts = lone.broker.links["X"]
    assert (facts.kind, facts.up) == (LinkKind.OPENING, True)


def test_a_soft_link_becomes_one_of_the_tree(lone):
    lone.handle(greets("X", LinkKind.SOFT))
    actions = lone.handle(NeighbourAdded("X"))
    assert [type(a) for a in actions if a.link == "X"][-2:] == [CloseLink, OpenLink]
    assert lone.broker.links["X"].kind is LinkKind.PRIMARY
    assert not lone.broker.links["X"].up


def test_a_frame_behind_the_close_of_its_link_is_left_alone(lone):
    lone.handle(greets("X", LinkKind.SOFT))
    close = TimerFired(Timer(Rewiring.name, "close X"))
    frame = FrameReceived("X", Batch(Lane.CONTROL, 1, (REPORT,)))
    actions = lone.handle(close, frame)
    assert [a for a in actions if type(a) is CloseLink] == [CloseLink("X", CLOSED)]
    assert lone.handle(frame) == [CloseLink("X", "is no neighbour of B", fault=True)]


# --- for good -------------------------------------------------------------------------------------


def test_a_neighbour_is_left_for_good(lone):
    actions = order(lone, "part C")
    assert messages(actions, "C") == [Disconnect(PARTED, for_good=True)]
    assert CloseLink("C", PARTED) in actions
    assert lone.broker.former == {"C": PARTED}
    assert lone.broker.subscriptions.get(subscribe("s").id) is None
    assert lone.handle(greets("C")) == [
        Send("C", Batch(Lane.CONTROL, 1, (Disconnect(PARTED, for_good=True),))),
        CloseLink("C", PARTED),
    ]
    assert lone.broker.neighbours == ("A",)


def test_the_other_end_remembers_too(lone):
    lone.receive("C", Disconnect("elsewhere", for_good=True))
    assert lone.broker.former == {"C": "elsewhere"}
    lone.receive("A", Disconnect("for now"))
    assert lone.broker.former == {"C": "elsewhere"}
    assert lone.broker.neighbours == ()


def test_strangers_do_not_push_out_former_neighbours(lone):
    """What a peer says for good is remembered of neighbours that have compared tables, or are
    listed. When there are too many, those that are not listed are forgotten first."""
    listed = [Neighbour.parse(text, "") for text in ("A@h:1", "L@h:2")]
    lone.handle(NeighboursListed(Listing(tuple(listed))))
    lone.receive("C", Disconnect("exchanged", for_good=True))
    lone.handle(NeighbourAdded("stranger"))
    lone.meet("stranger")
    lone.receive("stranger", Disconnect("x", for_good=True))
    assert (lone.broker.neighbours, lone.broker.former) == (("A",), {"C": "exchanged"})
    lone.handle(NeighbourAdded("L"))
    lone.meet("L")
    lone.receive("L", Disconnect("listed", for_good=True))
    assert lone.broker.former == {"C": "exchanged", "L": "listed"}
    lone.restored = False
    for number in range(FORMER_MAX):
        name = f"S{number}"
        lone.handle(NeighbourAdded(name))
        lone.agree(name)
        lone.receive(name, Disconnect("x", for_good=True))
    assert list(lone.broker.former) == ["L", *(f"S{n}" for n in range(1, FORMER_MAX))]


def test_an_operator_may_add_it_again(lone):
    order(lone, "part C")
    lone.handle(NeighbourAdded("C"))
    assert lone.broker.former == {}
    lone.agree("C")
    assert lone.broker.links["C"].open


def test_a_former_neighbour_may_have_other_links(lone):
    order(lone, "part C")
    lone.handle(greets("C", LinkKind.SOFT))
    assert lone.broker.links["C"].kind is LinkKind.SOFT
    assert lone.broker.former == {"C": PARTED}
    order(lone, "part C")
    assert lone.broker.former == {"C": PARTED}


def test_an_operator_removes_neighbours_only(lone):
    lone.handle(greets("X", LinkKind.SOFT))
    assert lone.handle(NeighbourRemoved("X")) == []
    assert lone.broker.has_link("X")


@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_driver_that_needs_room_drops_a_link_that_is_down(lone, kind):
    lone.handle(greets("X", kind), greets("Y", kind), LinkDown("X"))
    why = "the link was down, and others were opened"
    assert lone.handle(NeighbourRemoved("X")) == [CloseLink("X", why)]
    assert list(lone.broker.links) == ["A", "C", "Y"]
    assert validate(lone.broker) == []


def test_what_is_known_of_an_earlier_life():
    broker = Broker(
        "B", ["A", "C"], CONFIG, learnt={"A": "h:1", "Z": "h:2"}, former={"D": "exchanged"}
    )
    assert broker.handle(0, Started())[-2:] == [OpenLink("A", "h:1"), OpenLink("C")]
    assert (broker.dials("A"), broker.dials("C")) == (True, False)
    assert broker.learnt_addresses() == {"A": "h:1"}
    assert dict(broker.former) == {"D": "exchanged"}
    assert broker.hello("A").learnt


def test_so_many_are_remembered():
    lone = Lone(config=CONFIG)
    for number in range(FORMER_MAX + 2):
        name = f"N{number}"
        lone.handle(NeighbourAdded(name))
        order(lone, f"part {name}")
    assert len(lone.broker.former) == FORMER_MAX
    assert next(iter(lone.broker.former)) == "N2"


def test_numbers_of_links_are_given_back():
    lone = Lone(config=CONFIG)
    for number in range(300):
        name = f"N{number}"
        lone.handle(NeighbourAdded(name))
        lone.agree(name)
        lone.receive(name, subscribe(f"s{number}"))
        lone.handle(NeighbourRemoved(name))
        lone.handle(greets(f"S{number}", LinkKind.SOFT))
    assert len(lone.broker.context.numbers.names) == 1


# --- older states ---------------------------------------------------------------------------------


def test_a_broker_that_goes_on_from_an_older_state_dials_those_it_waits_for(lone):
    broker = Broker.restore(lone.broker.snapshot(), CONFIG, incarnation=2)
    assert [broker.dials(name) for name in "AC"] == [True, True]
    assert [lone.broker.dials(name) for name in "AC"] == [False, False]


def test_an_older_state_may_be_wrong_about_links_that_others_decide_on(lone):
    """They know better: the broker asks, and does not insist."""
    order(lone, "part C")
    lone.handle(greets("S", LinkKind.SOFT))
    order(lone, "open soft T")
    broker = Broker.restore(lone.broker.snapshot(), CONFIG, incarnation=2)
    assert broker.former == {}
    assert list(broker.links) == ["A", "T"]
    broker.handle(0, Started())
    broker.handle(0, NeighbourAdded("C"))
    broker.handle(0, greets("C"))
    assert broker.links["C"].up
    same = Broker.restore(lone.broker.snapshot(), CONFIG)
    assert (dict(same.former), list(same.links)) == ({"C": PARTED}, ["A", "S", "T"])
