"""A broker that makes a draft goes on meanwhile, and drops the draft or puts it in force."""

from collections.abc import Iterable

import pytest

from byway.core.actions import Action, SetTimer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.covering.active import Active
from byway.core.covering.partners import Partners
from byway.core.covering.retirement import Cursor
from byway.core.drafts import DISSOLVED, TIMER
from byway.core.in_flight import unowned
from byway.core.inputs import LoadSampled, NeighbourRemoved, TimerFired
from byway.core.invariants import validate
from byway.core.origin import Origin
from byway.core.routing_copy import STEP, RoutingCopy
from byway.core.subscriptions import TIMER as COVERING_TIMER
from byway.core.tables import PlaceholderState, Table
from byway.core.takeover import TIMER as TAKEOVER_TIMER
from byway.model import parse
from byway.model.messages import (
    EntryId,
    Hint,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from tests.lone_broker import Lone, advertise, publication, without_acknowledgements
from tests.unit.core.routing_drafts import Recorder, described

ACTIVE = BrokerConfig(covering="active")
AGAIN = SetTimer(TIMER, 0)


class Drafting(Lone):
    """A broker with advertisements of C and a draft that sends nothing."""

    def __init__(self, config: BrokerConfig = ACTIVE) -> None:
        super().__init__("A", "C", "D", config=config)
        self.outlet = Recorder()
        self.happened: list[str] = []
        self.receive("C", advertise("of C"))

    def begin(self, without: Iterable[str] = (), joining: Iterable[str] = ()) -> None:
        self.broker.drafts.begin(
            self.outlet,
            lambda draft: self.happened.append(f"complete: {draft is self.broker.context.draft}"),
            lambda: self.happened.append("released"),
            without=without,
            joining=joining,
        )

    def step(self) -> list[Action]:
        return self.handle(TimerFired(TIMER))

    def finish(self) -> None:
        while not self.happened[1:]:
            self.step()

    def subscribe(self, link: str, text: str, name: str) -> list[Action]:
        return self.receive(link, Subscribe(id_of(name), parse(text)))


def id_of(name: str) -> EntryId:
    return EntryId("far", name, 1, 1)


def sent(outlet: Recorder) -> list[tuple[str, str]]:
    return [(link, message.id.name) for link, message in outlet.sent]


def test_a_step_copies_a_bounded_number_of_entries():
    lone = Drafting(BrokerConfig())
    for number in range(2 * STEP):
        lone.subscribe("A", f"p > {number}", str(number))
    lone.begin()
    for _ in range(3):
        assert lone.step() == [AGAIN]
        assert lone.broker.context.draft is None or lone.happened
    assert lone.happened == ["complete: True"]
    assert lone.step() == []
    assert lone.happened == ["complete: True", "released"]


@pytest.mark.parametrize("covering", ["none", "active", "selective"])
def test_a_broker_acts_as_before_when_its_draft_is_in_force(covering):
    config = BrokerConfig(covering=covering)
    one, other = Drafting(config), Drafting(config)
    for lone in (one, other):
        for number in range(20):
            lone.subscribe("AD"[number % 2], f"p > {number % 7}", str(number))
    one.begin()
    assert one.step() == [AGAIN]
    assert one.step() == []
    old = one.broker.context.routing
    one.broker.drafts.put_in_force()
    assert one.broker.context.routing is not old
    assert one.broker.snapshot() == other.broker.snapshot()
    events = [
        ("D", Subscribe(id_of("new"), parse("TRUE"))),
        ("A", Unsubscribe((id_of("0"), id_of("4")))),
        ("C", publication(1, p=3)),
        ("C", Unadvertise(advertise("of C").id, advertise("of C").filter)),
    ]
    for link, message in events:
        assert one.receive(link, message) == other.receive(link, message)
    assert one.broker.snapshot() == other.broker.snapshot()


def test_inputs_between_two_steps_are_in_the_draft():
    lone = Drafting()
    for number in range(STEP + 10):
        lone.subscribe("A", f"p = {number}", str(number))
    lone.begin()
    lone.step()
    lone.receive("A", Unsubscribe((id_of("3"), id_of(str(STEP + 5)))))
    lone.subscribe("D", "p > 5", "wide")
    lone.finish()
    draft = lone.broker.context.draft
    assert draft is not None
    assert described(draft) == described(lone.broker.context.routing)
    assert not lone.outlet.sent


def test_what_was_learnt_over_a_link_is_left_out_and_what_it_quenched_is_sent():
    lone = Drafting()
    lone.subscribe("A", "p > 0", "wide")
    lone.subscribe("D", "p > 5", "narrow")
    lone.subscribe("D", "q > 5", "else")
    routing = lone.broker.context.routing
    lone.begin(without=["A"], joining=["N"])
    lone.step()
    draft = lone.broker.context.draft
    assert draft is not None
    assert list(draft.links) == ["A", "C", "D", "N"]
    assert [entry.id.name for entry in draft.subscriptions] == ["narrow", "else"]
    assert sent(lone.outlet) == []
    lone.finish()
    assert sent(lone.outlet) == [("C", "narrow")]
    assert lone.outlet.answered == []
    assert [sorted(e.forwarded) for e in draft.subscriptions] == [["C"], ["C"]]
    assert [sorted(e.forwarded) for e in routing.subscriptions] == [["C"], [], ["C"]]
    assert validate(lone.broker) == []


def test_a_follower_of_what_is_left_out_is_settled_when_its_own_is():
    lone = Drafting()
    lone.subscribe("A", "p > 0", "wide")
    lone.subscribe("D", "p > 5", "narrow")
    routing = lone.broker.context.routing
    narrow = routing.subscriptions.get(id_of("narrow"))
    assert narrow is not None
    assert narrow.following == {"C": 1}
    lone.begin(without=["A"])
    lone.finish()
    draft = lone.broker.context.draft
    assert draft is not None
    twin = draft.subscriptions.get(id_of("narrow"))
    assert twin is not None
    assert (twin.following, twin.awaiting, twin.settled) == ({}, {"C": 1}, False)
    draft.subscription_rules.answered(twin, "C")
    assert lone.outlet.answered == [("D", id_of("narrow"))]


def test_a_dropped_draft_leaves_nothing():
    lone, other = Drafting(), Drafting()
    for number in range(STEP + 5):
        for one in (lone, other):
            one.subscribe("A", f"p > {number}", str(number))
    lone.begin(without=["A"])
    lone.step()
    lone.broker.drafts.drop()
    assert lone.broker.drafts.is_busy
    while lone.broker.drafts.is_busy:
        assert lone.step() == [AGAIN] * lone.broker.drafts.is_busy
    assert lone.broker.snapshot() == other.broker.snapshot()
    lone.begin()
    lone.finish()
    lone.broker.drafts.drop()
    assert lone.broker.context.draft is None
    assert lone.broker.snapshot() == other.broker.snapshot()


def test_a_large_routing_is_forgotten_in_steps():
    lone = Drafting(BrokerConfig())
    table, origin = lone.broker.context.routing.subscriptions, Origin("A")
    lone.begin()
    lone.finish()
    for number in range(DISSOLVED + 1):
        table.add(id_of(str(number)), parse("p > 1"), origin)
    lone.broker.drafts.put_in_force()
    lone.step()
    assert len(table) == 2  # an advertisement has gone too
    lone.step()
    assert not lone.broker.drafts.is_busy


def test_the_timers_of_a_draft_are_set_when_it_is_put_in_force():
    config = BrokerConfig(covering="selective", selective_count_min=0, retire_after_us=0)
    lone = Drafting(config)
    lone.subscribe("A", "p > 0", "s")
    lone.receive("D", advertise("twice"))
    lone.receive("A", advertise("twice"))
    lone.begin()
    lone.finish()
    draft = lone.broker.context.draft
    assert draft is not None
    draft.policy.stay_awake()
    entry = draft.adverts.get(advertise("twice").id)
    assert entry is not None
    draft.advertisement_rules.on_unadvertise("D", Unadvertise(entry.id, entry.filter), unowned())
    assert [timer for timer, _ in lone.outlet.timers] == [COVERING_TIMER, TAKEOVER_TIMER]
    lone.broker.drafts.put_in_force()
    timers = [a.timer for a in lone.broker.context.out.actions if isinstance(a, SetTimer)]
    assert timers[-2:] == [COVERING_TIMER, TAKEOVER_TIMER]


def test_a_snapshot_beside_a_draft_has_the_routing_in_force_alone():
    """Keys that only the draft uses are free in it."""
    lone = Drafting()
    lone.subscribe("A", "p > 0", "wide")
    lone.subscribe("D", "p > 5", "narrow")
    lone.begin(without=["A"], joining=["N"])
    lone.finish()
    draft = lone.broker.context.draft
    assert draft is not None
    draft.on_message("N", Subscribe(id_of("new"), parse("q > 1")))
    draft.on_message("N", Subscribe(id_of("wide"), parse("p > 0")))
    restored = Broker.restore(lone.broker.snapshot(), ACTIVE)
    table = restored.context.routing.subscriptions
    assert [(entry.id.name, entry.key) for entry in table] == [("wide", 0), ("narrow", 1)]
    assert table.keys.free.tolist() == [2]
    twin, known = (r.subscriptions.get(id_of("wide")) for r in (draft, lone.broker.context.routing))
    assert twin is not None
    assert known is not None
    assert (twin.key, twin.origin.link, known.origin.link) == (known.key, "N", "A")


def test_a_neighbour_that_is_removed_while_it_is_copied():
    lone = Drafting()
    for number in range(STEP + 5):
        lone.subscribe("AD"[number % 2], f"p > {number % 9}", str(number))
    lone.begin()
    lone.step()
    lone.handle(NeighbourRemoved("A"))
    while not lone.happened:
        lone.step()
    draft = lone.broker.context.draft
    assert draft is not None
    assert described(draft) == described(lone.broker.context.routing)
    assert list(draft.links) == ["C", "D"]


def test_publications_take_the_way_of_the_routing_in_force():
    lone = Drafting()
    lone.subscribe("A", "p > 0", "s")
    lone.begin(without=["A"])
    lone.finish()
    to = [a.link for a in without_acknowledgements(lone.receive("C", publication(1, p=2)))]
    assert to == ["A"]
    lone.broker.drafts.put_in_force()
    assert without_acknowledgements(lone.receive("C", publication(2, p=2))) == []


def test_a_placeholder_that_was_copied_changes_its_state():
    config = BrokerConfig(covering="selective", selective_count_min=0, congestion_queue=1)
    lone = Drafting(config)
    lone.handle(LoadSampled(9))
    for name in ("first", "second"):
        lone.subscribe("A", f"p > 0 AND s = '{name}'", name)
        hints = ((Hint("far", (0,)),),)
        lone.receive("A", Unsubscribe((id_of(name),), (0.9,), hints))
    routing = lone.broker.context.routing
    assert states(routing.placeholders) == [PlaceholderState.POSTPONED] * 2
    copy = RoutingCopy(routing, lone.outlet)
    while not len(copy.draft.placeholders):
        assert not copy.step(1)
    lone.handle(LoadSampled(0))
    lone.now_us += 1_000_000
    lone.handle(TimerFired(COVERING_TIMER))
    assert copy.step()
    assert described(copy.draft) == described(routing)
    assert states(copy.draft.placeholders) == [PlaceholderState.PRESERVED] * 2


def states(table: Table) -> list[PlaceholderState]:
    return [entry.placeholder.state for entry in table if entry.placeholder]


def test_a_copied_index_of_partners_shares_nothing_that_changes():
    one, other = partners(), partners()
    for key in range(3):
        one.add(key, parse(f"p = {key} AND q = 1"), "C")
    one.add(9, parse("p BETWEEN 0 AND 4"), "A")
    other.copy_from(one, frozenset("A"))
    one.add(3, parse("p = 3 AND q = 1"), "C")
    other.add(4, parse("p = 4 AND q = 1"), "C")
    wanted = parse("p = 7 AND q = 1")
    assert sorted(one.near(wanted, "C", 1)) == [0, 1, 2, 3]
    assert sorted(other.near(wanted, "C", 1)) == [0, 1, 2, 4]
    one.add(5, parse("p BETWEEN 4 AND 6"), "A")
    assert sorted(one.near(parse("p BETWEEN 4 AND 9"), "A", 1)) == [5, 9]
    assert list(other.near(parse("p BETWEEN 4 AND 9"), "A", 1)) == []
    assert other.snapshot().known == [(0, "C"), (1, "C"), (2, "C"), (4, "C")]
    for index in (one, other):
        buckets = (*index._by_age.values(), *index._spans.values())
        assert sum(map(len, buckets)) == index.postings


def partners() -> Partners[int]:
    return Partners(lambda *_: 1, 64, exact=True)


def test_a_copied_retirement_shares_nothing_that_changes():
    lone = Drafting()
    routing = lone.broker.context.routing
    assert isinstance(routing.policy, Active)
    cursors = routing.policy._retirement._cursors
    cursors[id_of("s"), "C"] = Cursor(5, {1})
    cursors[id_of("s"), "A"] = Cursor(6, {2})
    copy = RoutingCopy(routing, lone.outlet, without=["A"])
    assert copy.step()
    assert isinstance(copy.draft.policy, Active)
    copied = copy.draft.policy._retirement._cursors
    assert copied == {(id_of("s"), "C"): Cursor(5, {1})}
    copied[id_of("s"), "C"].again.add(9)
    assert cursors[id_of("s"), "C"] == Cursor(5, {1})
