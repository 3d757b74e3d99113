"""The pruning policies at one broker, action by action: what it stops, passes on, postpones,
preserves and retires."""

import pytest

from byway.core.actions import SendReply, SetTimer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.context import TAKEOVER_TIMER
from byway.core.covering import POLICIES
from byway.core.covering.pruning import HINTS_MAX
from byway.core.inputs import (
    ClientDetached,
    LinkDown,
    LinkUp,
    LoadSampled,
    NeighbourRemoved,
    Started,
    TimerFired,
)
from byway.core.invariants import validate
from byway.core.subscriptions import TIMER
from byway.model import parse
from byway.model.messages import (
    Advertise,
    AdvertiseRequest,
    EntryId,
    Hello,
    Hint,
    Retire,
    Settled,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    Unadvertise,
    Unsubscribe,
    UnsubscribeRequest,
)
from tests.lone_broker import (
    NOTHING,
    TOLD,
    Lone,
    acknowledged,
    entry,
    publication,
    publish,
    subscribe,
    without_acknowledgements,
)

SIMILARITIES = (0.6, 0.9)
SECOND_US = 1_000_000


def few(covering: str, **settings: object) -> BrokerConfig:
    """A policy that judges by the few things that there are."""
    defaults = {
        "incremental_bursts": (1, 3),
        "selective_count_min": 0,
        "pruning_samples_min": 1,
        "retire_after_us": 0,
    }
    return BrokerConfig(covering=covering, **(defaults | settings))  # type: ignore[arg-type]


# --- one broker ----------------------------------------------------------------------------------

P = "P"
"""A publisher behind C."""
S = subscribe("S", "p > 1")


def stops_with(bursts: tuple[int, int] = (1, 3), **settings: object) -> BrokerConfig:
    return few("incremental", incremental_bursts=bursts, **settings)


STOPS = stops_with()


ADVERTISED = parse("p > 0 AND q >= 0 AND r >= 0 AND s >= 0")


def advertised_by(publisher: str) -> Advertise:
    return Advertise(EntryId(publisher, "a", 1, 1), ADVERTISED)


def unadvertised_by(publisher: str) -> Unadvertise:
    return Unadvertise(EntryId(publisher, "a", 1, 1), ADVERTISED)


def fed(config: BrokerConfig = STOPS, **publishers: str) -> Lone:
    """A broker with subscribers behind A and D, and publishers behind these links."""
    lone = Lone("A", "C", "D", config=config)
    for publisher, link in (publishers or {P: "C"}).items():
        lone.receive(link, advertised_by(publisher))
    return lone


def narrow(number: int) -> Subscribe:
    """One of those that S covers, and that do not cover each other."""
    return subscribe(f"n{number:03}", f"p = {number + 5}")


def with_burst(burst: int, config: BrokerConfig = STOPS, **publishers: str) -> Lone:
    """S came from A and stands for so many from D; both are settled."""
    lone = fed(config, **publishers)
    lone.receive("A", S)
    if burst:
        lone.receive("D", *[narrow(number) for number in range(burst)])
    for link in dict.fromkeys((publishers or {P: "C"}).values()):
        lone.receive(link, settled("S", *(narrow(n).id.name for n in range(burst))))
    return lone


def settled(*names: str) -> SubscriptionsSettled:
    return SubscriptionsSettled(tuple(entry(name) for name in names))


def gone(*names: str, **distances: tuple[int, ...]) -> Unsubscribe:
    """Unsubscribed, with the distances told for each publisher, if there are any."""
    ids = tuple(entry(name) for name in names)
    if not distances:
        return Unsubscribe(ids)
    hints = tuple(Hint(publisher, hops) for publisher, hops in distances.items())
    return Unsubscribe(ids, SIMILARITIES, (hints,) * len(ids))


def retired(*names: str) -> Retire:
    return Retire(tuple(entry(name) for name in names))


def done(actions: list) -> list:
    """All that was done: messages with their link, and timers; acknowledgements apart."""
    return [
        (action.link, *action.frame.messages) if hasattr(action, "frame") else action
        for action in without_acknowledgements(actions)
    ]


def woken_at(lone: Lone, after_us: int = SECOND_US) -> SetTimer:
    return SetTimer(TIMER, lone.now_us + after_us)


def tick(lone: Lone, after_us: int = SECOND_US) -> list:
    """The timer is due; what is done then."""
    lone.now_us += after_us
    return done(lone.handle(TimerFired(TIMER)))


def preserved(lone: Lone) -> dict[str, str]:
    assert validate(lone.broker) == []
    return {e.id.name: " ".join(sorted(e.forwarded)) for e in lone.broker.placeholders}


# --- algorithm 1 ---------------------------------------------------------------------------------


def test_stopped_it_is_removed_here_and_kept_for_the_link():
    lone = with_burst(1)
    assert lone.receive("A", gone("S", P=(0, 0))) == [woken_at(lone), acknowledged("A", 6)]
    assert lone.broker.subscriptions.get(S.id) is None
    assert preserved(lone) == {"S": "C"}
    assert lone.broker.counters.preserved == 1
    assert lone.broker.counters.triggered == 0


def test_what_only_a_preserved_one_lets_through_ends_here():
    lone = with_burst(1)
    lone.receive("A", gone("S", P=(0, 0)))
    assert done(lone.receive("C", publication(1, publisher=P, p=2))) == []
    wanted = publication(2, publisher=P, p=5)
    assert [a[0] for a in done(lone.receive("C", wanted))] == ["D"]


def test_before_the_critical_broker_it_goes_on_one_hop_nearer():
    lone = with_burst(1)
    assert done(lone.receive("A", gone("S", P=(1, 3)))) == [("C", narrow(0), gone("S", P=(0, 2)))]
    assert preserved(lone) == {}
    assert lone.broker.counters.triggered == 1


@pytest.mark.parametrize(
    ("burst", "distances", "stops"),
    [
        (1, (0, 0), False),  # fewer than some: whatever the distance
        (2, (0, 0), True),
        (2, (0, 1), False),  # some: the larger similarity
        (3, (0, 1), False),
        (4, (0, 1), True),  # many: the smaller one will do
        (4, (1, 1), False),
    ],
)
def test_a_larger_burst_is_stopped_by_less_similarity(burst, distances, stops):
    lone = with_burst(burst, stops_with((2, 3)))
    told = done(lone.receive("A", gone("S", P=distances)))
    if stops:
        assert told == [woken_at(lone)]
    else:
        onward = tuple(max(distance - 1, 0) for distance in distances)
        assert told == [("C", *(narrow(n) for n in range(burst)), gone("S", P=onward))]


@pytest.mark.parametrize(
    ("burst", "similarity"),
    [(0, None), (99, None), (100, 0.9), (5_000, 0.9), (5_001, 0.6), (80_000, 0.6)],
)
def test_the_thresholds_of_003_as_its_prose_has_them(burst, similarity):
    policy = POLICIES["incremental"](fed().broker._subscriptions, BrokerConfig())
    assert policy.needed_similarity(burst) == similarity


@pytest.mark.parametrize(("burst", "stops"), [(99, False), (100, True)])
def test_a_hundred_are_a_burst(burst, stops):
    lone = with_burst(burst, BrokerConfig(covering="incremental"))
    told = done(lone.receive("A", gone("S", P=(0, 0))))
    assert len(told[0]) == burst + 2 if not stops else told == [woken_at(lone)]


def test_selective_does_not_ask_for_the_burst():
    lone = with_burst(0, few("selective"))
    hint = (Hint(P, (0,)),)
    assert done(lone.receive("A", Unsubscribe((S.id,), (0.9,), (hint,)))) == [woken_at(lone)]
    assert preserved(lone) == {"S": "C"}


def test_one_publisher_beyond_its_critical_distance_is_not_enough():
    """Two behind one link: it goes on for the other one's sake, with both hints."""
    lone = with_burst(1, P="C", Q="C")
    told = done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 2))))
    assert told == [("C", narrow(0), gone("S", P=(0, 0), Q=(0, 1)))]


def test_all_publishers_behind_a_link_beyond_it_are():
    lone = with_burst(1, P="C", Q="C")
    assert done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 0)))) == [woken_at(lone)]


def test_each_link_is_for_its_own_publishers():
    """C has P, D has Q: stopped towards one, passed on towards the other with its hint alone."""
    lone = fed(P="C", Q="D")
    lone.receive("A", S, narrow(0))
    lone.receive("C", settled("S"))
    lone.receive("D", settled("S"))
    told = done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 2))))
    assert told == [woken_at(lone), ("D", narrow(0), gone("S", Q=(0, 1)))]
    assert preserved(lone) == {"S": "C"}


@pytest.mark.parametrize("order", [("C", "D"), ("D", "C")])
def test_it_may_be_preserved_for_several_links(order):
    lone = fed(**dict(zip(("P", "Q"), order, strict=True)))
    lone.receive("A", S, narrow(0))
    assert done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 0)))) == [
        woken_at(lone), ("A", settled("S")),
    ]  # fmt: skip
    assert preserved(lone) == {"S": "C D"}
    assert lone.broker.counters.preserved == 2


def test_a_publisher_that_is_not_behind_the_link_says_nothing_about_it():
    """Unknown, or behind the link it came from: as if there were no hint."""
    lone = with_burst(1, P="C", Q="A")
    told = done(lone.receive("A", gone("S", Q=(0, 0), R=(0, 0))))
    assert told == [("C", narrow(0), gone("S"))]


def test_without_hints_it_goes_on():
    lone = with_burst(5)
    told = done(lone.receive("A", gone("S")))
    assert told == [("C", *(narrow(n) for n in range(5)), gone("S"))]


def test_several_at_once_are_judged_one_by_one():
    lone = with_burst(1)
    other = subscribe("other", "p < 3")
    lone.receive("A", other, subscribe("behind", "p = 2 AND q = 1"))
    lone.receive("C", settled("other"))
    message = Unsubscribe((other.id, S.id), SIMILARITIES, ((Hint(P, (0, 2)),), (Hint(P, (0, 0)),)))
    told = done(lone.receive("A", message))
    assert told == [
        woken_at(lone),
        ("C", Unsubscribe((other.id,), SIMILARITIES, ((Hint(P, (0, 1)),),))),
    ]  # fmt: skip
    assert preserved(lone) == {"S": "C"}


@pytest.mark.parametrize("message", ["gone", "hinted", "retired"])
def test_several_that_go_together_do_not_stand_in_for_each_other(message):
    lone = fed()
    low, high = subscribe("low", "p > 1"), subscribe("high", "q > 1")
    both = subscribe("both", "p > 5 AND q > 5")
    lone.receive("A", low, high)
    lone.receive("D", both)
    lone.receive("C", settled("low", "high"))
    names = ("high", "low")
    if message == "gone":
        told = done(lone.receive("A", gone(*names)))
    elif message == "hinted":
        told = done(lone.receive("A", gone(*names, P=(3, 3))))
    else:
        told = done(lone.receive("A", retired(*names)))
    assert [m for a in told for m in a[1:] if isinstance(m, Subscribe)] == [both]
    assert preserved(lone) == {}


@pytest.mark.parametrize(
    ("told", "stops"),
    [
        (((0.9,), (0,)), True),
        (((0.9,), (1,)), False),
        (((0.3, 0.5), (0, 0)), True),  # less than is wanted: the most there is
        (((0.3, 0.5), (0, 1)), False),
        (((0.5, 0.95, 0.99), (0, 0, 1)), True),  # the least of what is enough
        (((0.5, 0.95, 0.99), (0, 1, 1)), False),
    ],
)
def test_a_home_that_works_with_other_similarities(told, stops):
    similarities, distances = told
    lone = with_burst(1)
    hints = ((Hint(P, distances),),)
    lone.receive("A", Unsubscribe((S.id,), similarities, hints))
    assert bool(preserved(lone)) is stops


@pytest.mark.parametrize("covering", ["none", "active", "lazy", "packing"])
def test_a_broker_that_stops_nothing_passes_hints_on(covering):
    lone = with_burst(0, BrokerConfig(covering=covering))
    told = done(lone.receive("A", gone("S", P=(0, 4))))
    assert told == [("C", gone("S", P=(0, 3)))]


@pytest.mark.parametrize("covering", ["none", "active", "lazy", "packing"])
def test_a_broker_that_stops_nothing_passes_retirement_on(covering):
    lone = with_burst(0, BrokerConfig(covering=covering))
    assert done(lone.receive("A", retired("S"))) == [("C", retired("S"))]


# --- at home -------------------------------------------------------------------------------------

HOME = few("incremental", pruning_samples_min=2)


def at_home(config: BrokerConfig = HOME, publications: int = 2) -> Lone:
    """A local subscription that received some of P, behind C, from 2 and 3 hops away."""
    lone = fed(config)
    lone.attach("me")
    lone.ask("me", SubscribeRequest("mine", parse("p > 1")))
    lone.receive("C", SubscriptionsSettled((EntryId("me", "mine", 1, 1),)))
    for number in range(1, publications + 1):
        lone.receive(
            "C", publication(number, hop=5, distance=number + 1, publisher=P, p=number + 1)
        )
    return lone


MINE = EntryId("me", "mine", 1, 1)
TWO_HOPS_ON = Unsubscribe((MINE,), SIMILARITIES, ((Hint(P, (2, 2)),),))


def test_a_home_tells_what_it_knows():
    lone = at_home()
    told = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    assert told == [("C", TWO_HOPS_ON)]
    assert len(lone.broker.policy.statistics) == 0


def test_a_client_that_leaves_takes_back_the_same_way():
    lone = at_home()
    assert done(lone.handle(ClientDetached("me"))) == [("C", TWO_HOPS_ON)]


def test_a_filter_in_place_of_another_takes_back_the_same_way():
    lone = at_home()
    told = done(lone.ask("me", SubscribeRequest("mine", parse("p > 9"))))
    second = Subscribe(EntryId("me", "mine", 1, 2), parse("p > 9"))
    told_settled = SendReply("me", (Settled("mine"),))  # by what it stands in for
    assert told == [("C", second, TWO_HOPS_ON), told_settled]


def test_too_few_samples_are_none():
    lone = at_home(publications=1)
    assert done(lone.ask("me", UnsubscribeRequest(("mine",)))) == [("C", Unsubscribe((MINE,)))]


def test_samples_that_are_too_old_are_none():
    lone = at_home(few("incremental", statistics_window_us=SECOND_US))
    lone.now_us += SECOND_US + 1
    assert done(lone.ask("me", UnsubscribeRequest(("mine",)))) == [("C", Unsubscribe((MINE,)))]


def test_others_at_home_are_no_hop_away():
    lone = at_home(publications=0)
    lone.ask("me", SubscribeRequest("also", parse("p > 1")))
    for number in (1, 2):
        lone.receive("C", publication(number, hop=5, distance=4, publisher=P, p=3))
    told = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    assert told == [woken_at(lone)]
    assert preserved(lone) == {"mine": "C"}


def test_publications_of_ones_own_clients_tell_nothing_about_links():
    lone = at_home(publications=0)
    lone.ask("me", AdvertiseRequest("all", parse("p > 0")), publish(1, p=3), publish(2, p=3))
    assert len(lone.broker.policy.statistics) == 0


def test_a_distance_that_a_header_claims_is_no_more_than_its_hops():
    lone = at_home(publications=0)
    for number in (1, 2):
        lone.receive("C", publication(number, hop=2, distance=99, publisher=P, p=3))
    told = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    assert told == [("C", Unsubscribe((MINE,), SIMILARITIES, ((Hint(P, (1, 1)),),)))]


def test_hints_are_of_the_publishers_that_sent_most():
    lone = fed(few("incremental"))
    lone.attach("me")
    lone.ask("me", SubscribeRequest("mine", parse("p > 1")))
    publishers = [f"P{number:03}" for number in range(HINTS_MAX + 5)]
    for publisher in publishers:
        lone.receive("C", advertised_by(publisher))
    for publisher in publishers:
        for number in (1, 2) if publisher >= "P005" else (1,):
            lone.receive("C", publication(number, publisher=publisher, p=3))
    (told,) = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    assert [hint.publisher for hint in told[1].hints[0]] == publishers[5:]


def test_statistics_stay_within_their_bound():
    lone = at_home(few("incremental", statistics_max=8), publications=50)
    assert 4 <= len(lone.broker.policy.statistics) <= 8


# --- beside a preserved one ----------------------------------------------------------------------


def preserving(burst: int = 1, config: BrokerConfig = STOPS) -> Lone:
    """S is preserved for C, and stands for so many from D."""
    lone = with_burst(burst, config)
    lone.receive("A", gone("S", P=(0, 0)))
    assert preserved(lone) == {"S": "C"}
    return lone


@pytest.mark.parametrize("wanted", ["p > 3", "p > 1"], ids=["narrower", "equal"])
def test_it_quenches_as_if_alive(wanted):
    lone = preserving()
    assert done(lone.receive("D", subscribe("new", wanted))) == [("D", settled("new"))]
    assert preserved(lone) == {"S": "C"}


def test_a_broader_one_takes_its_place():
    lone = preserving()
    wide = subscribe("wide", "p > 0")
    assert done(lone.receive("D", wide)) == [("C", wide, retired("S"))]
    assert preserved(lone) == {}
    assert lone.broker.counters.retired == 1


def test_one_that_it_does_not_cover_is_sent():
    lone = preserving()
    other = subscribe("other", "p < 9")
    assert done(lone.receive("D", other)) == [("C", other)]
    assert preserved(lone) == {"S": "C"}


def test_what_it_stands_for_may_go_too():
    lone = preserving()
    assert done(lone.receive("D", gone("n000"))) == []
    assert preserved(lone) == {"S": "C"}


def test_it_stands_for_what_another_one_stood_for():
    """The other one goes: nothing need be sent in its place."""
    lone = preserving()
    wide = subscribe("half", "p < 9")
    lone.receive("D", wide, subscribe("two", "p = 2"))
    assert done(lone.receive("D", gone("half"))) == [("C", gone("half")), ("D", settled("half"))]
    assert preserved(lone) == {"S": "C"}


def test_one_that_is_not_settled_has_followers_still():
    lone = fed()
    lone.receive("A", S)
    lone.receive("D", narrow(0))
    lone.receive("A", gone("S", P=(0, 0)))
    assert preserved(lone) == {"S": "C"}
    assert done(lone.receive("D", narrow(1))) == []
    assert done(lone.receive("C", settled("S"))) == [("D", settled("n000", "n001"))]


def test_it_dies_with_the_last_advertisement_that_feeds_it():
    lone = preserving()
    lone.receive("C", Advertise(EntryId("Q", "a", 1, 1), parse("p > 100")))
    unadvertised = unadvertised_by(P)
    assert retired("S") not in [m for a in done(lone.receive("C", unadvertised)) for m in a]
    assert preserved(lone) == {"S": "C"}
    again = Unadvertise(EntryId("Q", "a", 1, 1), parse("p > 100"))
    assert ("C", retired("S")) in done(lone.receive("C", again))
    assert preserved(lone) == {}


def test_it_dies_on_the_link_whose_advertisement_goes():
    lone = fed(P="C", Q="D")
    lone.receive("A", S, narrow(0))
    lone.receive("A", gone("S", P=(0, 0), Q=(0, 0)))
    assert preserved(lone) == {"S": "C D"}
    lone.receive("C", unadvertised_by(P))
    assert preserved(lone) == {"S": "D"}


def test_a_neighbour_that_is_removed_takes_it_along():
    lone = preserving()
    lone.handle(NeighbourRemoved("C"))
    assert preserved(lone) == {}
    assert tick(lone) == []


def test_a_neighbour_that_it_came_from_does_not():
    lone = preserving()
    lone.handle(NeighbourRemoved("A"))
    assert preserved(lone) == {"S": "C"}
    assert tick(lone) == [("C", narrow(0), retired("S"))]


def test_taken_back_twice_it_is_taken_back_once():
    lone = preserving()
    assert done(lone.receive("A", gone("S"), retired("S"))) == []
    assert preserved(lone) == {"S": "C"}


def test_a_neighbour_that_begins_the_same_id_again_harms_nobody():
    """It is back with an older state. What the preserved one stood for must not be bare."""
    lone = preserving()
    lone.receive("A", subscribe("S", "q > 0"))
    assert preserved(lone) == {}
    assert lone.broker.subscriptions.get(narrow(0).id).forwarded == {"C"}


def test_one_id_is_not_preserved_and_alive():
    """A link is moved: D tells of S too, and does not take it back with A."""
    lone = fed()
    lone.receive("A", S, narrow(0))
    lone.receive("C", settled("S"))
    lone.receive("D", S)
    lone.receive("A", gone("S", P=(0, 0)))
    lone.now_us += 60 * SECOND_US
    lone.handle(TimerFired(TAKEOVER_TIMER))
    assert preserved(lone) == {}
    assert lone.broker.subscriptions.get(S.id).origin.link == "D"


# --- congestion ----------------------------------------------------------------------------------

CONGESTED, RELIEVED = LoadSampled(11), LoadSampled(10)


def congested(burst: int = 1, **settings: object) -> Lone:
    lone = with_burst(burst, stops_with(congestion_queue=10, **settings))
    lone.handle(CONGESTED)
    return lone


def test_a_congested_broker_postpones_what_it_would_pass_on():
    lone = congested()
    assert done(lone.receive("A", gone("S", P=(3, 3)))) == [woken_at(lone)]
    assert preserved(lone) == {"S": "C"}
    assert lone.broker.subscriptions.get(S.id) is None
    assert tick(lone) == [woken_at(lone)]
    lone.handle(RELIEVED)
    assert tick(lone) == [("C", narrow(0), gone("S", P=(2, 2)))]
    assert preserved(lone) == {}


def test_what_was_postponed_may_be_stopped_after_all():
    lone = congested(3, retire_batch=2)
    lone.receive("A", gone("S", P=(0, 0)))
    lone.handle(RELIEVED)
    tick(lone)
    assert preserved(lone) == {"S": "C"}
    assert lone.broker.counters.triggered <= 2
    assert until_retired(lone)[-1][-1] == retired("S")
    assert lone.broker.counters.triggered == 3


def test_what_was_postponed_quenches_meanwhile():
    lone = congested()
    lone.receive("A", gone("S", P=(3, 3)))
    assert done(lone.receive("D", narrow(7))) == [("D", settled("n007"))]
    lone.handle(RELIEVED)
    assert tick(lone) == [("C", narrow(7), narrow(0), gone("S", P=(2, 2)))]


def test_a_broader_one_ends_what_was_postponed():
    lone = congested()
    lone.receive("A", gone("S", P=(3, 3)))
    wide = subscribe("wide", "p > 0")
    assert done(lone.receive("D", wide)) == [("C", wide, retired("S"))]
    lone.handle(RELIEVED)
    assert tick(lone) == []


def test_several_that_were_postponed_are_decided_one_after_the_other():
    lone = congested()
    lone.receive("A", subscribe("top", "p > 0 AND r = 1"))
    lone.receive("C", settled("top"))
    lone.receive("D", subscribe("mid", "p > 0 AND r = 1 AND s > 0"))
    other = subscribe("low", "p > 0 AND s = 3")
    lone.receive("A", other)
    lone.receive("C", settled("low"))
    lone.receive("A", gone("top", "low", P=(3, 3)))
    lone.handle(RELIEVED)
    told = tick(lone)
    assert told == [("C", subscribe("mid", "p > 0 AND r = 1 AND s > 0"), gone("top", P=(2, 2)),
                     gone("low", P=(2, 2)))]  # fmt: skip
    assert preserved(lone) == {}


def test_retirement_is_postponed_too():
    lone = congested()
    assert done(lone.receive("A", retired("S"))) == [woken_at(lone)]
    lone.handle(RELIEVED)
    assert tick(lone) == [("C", narrow(0), retired("S"))]
    assert preserved(lone) == {}


def test_a_broker_that_never_looks_after_anything_postpones_nothing():
    lone = congested(retire_interval_us=0)
    assert done(lone.receive("A", gone("S", P=(3, 3)))) == [("C", narrow(0), gone("S", P=(2, 2)))]


def test_nothing_is_retired_while_congested():
    lone = preserving(1, stops_with(congestion_queue=10))
    lone.handle(CONGESTED)
    assert tick(lone) == [woken_at(lone)]
    lone.handle(RELIEVED)
    assert tick(lone)[-1][:2] == ("C", narrow(0))


# --- retirement ----------------------------------------------------------------------------------


def until_retired(lone: Lone, ticks_max: int = 50) -> list[list]:
    """What each step sends to C, up to the one that takes S back."""
    steps = []
    for _ in range(ticks_max):
        told = tick(lone)
        steps.append([m for a in told if isinstance(a, tuple) for m in a[1:]])
        assert validate(lone.broker) == []
        if not preserved(lone):
            return steps
        assert woken_at(lone) in told
    raise AssertionError(f"it never ends: {steps}")


def sends(steps: list[list]) -> list[int]:
    """How many subscriptions each step sends."""
    return [sum(isinstance(m, Subscribe) for m in step) for step in steps]


def test_a_few_at_a_time_then_itself():
    lone = preserving(5, stops_with(retire_batch=2))
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [*(narrow(n) for n in range(5)), retired("S")]
    assert sends(steps)[:3] == [2, 2, 1]
    assert lone.broker.counters.triggered == 5
    assert lone.broker.counters.retired == 1
    assert tick(lone) == []


def test_each_step_is_an_interval_after_the_last():
    lone = preserving(3, stops_with(retire_batch=1, retire_interval_us=700))
    assert tick(lone, 700) == [woken_at(lone, 700), ("C", narrow(0))]


def test_with_nothing_behind_it_goes_at_once():
    lone = preserving()
    lone.receive("D", gone("n000"))
    assert tick(lone) == [("C", retired("S"))]


def test_each_is_preserved_for_a_while():
    """However much is unsubscribed meanwhile."""
    lone = preserving(1, stops_with(retire_after_us=3 * SECOND_US))
    assert tick(lone) == [woken_at(lone)]
    lone.receive("A", subscribe("x", "p < 1"))
    lone.receive("D", subscribe("behind x", "p < 1 AND q = 1"))
    lone.receive("C", settled("x"))
    lone.receive("A", gone("x", P=(0, 0)))
    assert preserved(lone) == {"S": "C", "x": "C"}
    assert tick(lone) == [woken_at(lone)]
    assert tick(lone) == [woken_at(lone), ("C", narrow(0), retired("S"))]
    assert tick(lone) == [("C", subscribe("behind x", "p < 1 AND q = 1"), retired("x"))]


def test_one_whose_retirement_is_stopped_stays_for_a_while_again():
    lone = with_burst(3, stops_with(retire_batch=2, retire_after_us=2 * SECOND_US))
    lone.now_us = 10 * SECOND_US
    lone.receive("A", retired("S"))
    assert tick(lone) == [woken_at(lone)]
    assert tick(lone)[-1] == ("C", narrow(0), narrow(1))


def test_steady_churn_does_not_pile_up():
    """One that is stopped each second, for two minutes: a few are preserved at any time."""
    lone = fed(stops_with(retire_after_us=5 * SECOND_US))
    for number in range(120):
        lone.receive("A", subscribe(f"w{number}", f"p = {number + 1}"))
        lone.receive("D", subscribe(f"n{number}", f"p = {number + 1} AND q = 1"))
        lone.receive("C", settled(f"w{number}"))
        lone.receive("A", gone(f"w{number}", P=(0, 0)))
        tick(lone)
        assert len(lone.broker.placeholders) < 10
    assert lone.broker.counters.retired > 100


@pytest.mark.parametrize("queued", [0, 99])
def test_with_too_many_preserved_nothing_is_stopped_or_postponed(queued):
    lone = preserving(1, stops_with(preserved_max=1, congestion_queue=10))
    lone.receive("A", subscribe("x", "p < 2"))
    lone.receive("D", subscribe("behind x", "p < 1 AND q = 1"))
    lone.receive("C", settled("x"))
    lone.handle(LoadSampled(queued))
    told = done(lone.receive("A", gone("x", P=(0, 0))))
    assert told == [("C", subscribe("behind x", "p < 1 AND q = 1"), gone("x", P=(0, 0)))]
    assert preserved(lone) == {"S": "C"}


def test_never_with_a_batch_of_none():
    lone = preserving(1, stops_with(retire_batch=0))
    assert tick(lone) == []
    assert preserved(lone) == {"S": "C"}


def test_of_equal_ones_one_is_sent():
    lone = preserving()
    lone.receive("D", *[subscribe(f"e{number}", "p = 5") for number in range(9)])
    steps = until_retired(lone)
    assert sends(steps)[0] == sum(sends(steps)) == 1


def test_one_with_the_same_filter_takes_its_place():
    """Nothing else need be sent, and the filter is not taken back for a moment."""
    lone = preserving(3)
    lone.receive("D", subscribe("same", "p > 1"))
    assert tick(lone) == [("C", subscribe("same", "p > 1"), retired("S"))]


def test_what_others_stand_for_is_not_sent():
    lone = preserving()
    half = subscribe("half", "p > 4 AND q = 1")
    lone.receive("D", subscribe("behind", "p > 6 AND q = 1"), half)
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [half, narrow(0), retired("S")]


def test_only_the_broadest_are_sent():
    lone = preserving()
    lone.receive("D", *[subscribe(f"c{n}", f"p > {n}") for n in (9, 3, 7, 2, 5)])
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [subscribe("c2", "p > 2"), retired("S")]


def test_what_does_not_concern_the_link_is_not_sent():
    """It came from there, or nothing there feeds it."""
    lone = preserving()
    lone.receive("C", subscribe("of C", "p > 8"))
    lone.receive("D", subscribe("nothing", "p > 8 AND q = 1"))
    lone.receive("C", unadvertised_by(P))
    assert preserved(lone) == {}
    again = preserving()
    again.receive("C", subscribe("of C", "p > 8"))
    assert [m for step in until_retired(again) for m in step] == [narrow(0), retired("S")]


def test_it_waits_for_the_answer_of_its_own():
    """Until the neighbour has settled S, what follows S would not be told."""
    lone = fed()
    lone.receive("A", S)
    lone.receive("D", narrow(0))
    lone.receive("A", gone("S", P=(0, 0)))
    assert tick(lone) == [woken_at(lone)]
    lone.receive("C", settled("S"))
    assert narrow(0) in tick(lone)[-1]


def test_several_share_one_budget():
    config = stops_with(retire_batch=3)
    lone = fed(config)
    for wide in range(3):
        lone.receive("A", subscribe(f"w{wide}", f"p > 1 AND q = {wide}"))
        lone.receive("D", *[
            subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(4)
        ])  # fmt: skip
    names = [f"w{wide}" for wide in range(3)]
    lone.receive("C", settled(*names))
    lone.receive("A", gone(*names, P=(0, 0)))
    assert preserved(lone) == dict.fromkeys(names, "C")
    steps = until_retired(lone)
    assert sum(sends(steps)) == 12
    assert max(sends(steps)) == 3


def test_one_that_arrives_between_two_steps_is_sent_too():
    lone = preserving(3, stops_with(retire_batch=1))
    tick(lone)
    late = subscribe("late", "p = 4")
    lone.receive("D", late)
    steps = until_retired(lone)
    assert late in [m for step in steps for m in step]


def test_one_that_leaves_between_two_steps_is_not_sent():
    lone = preserving(3, stops_with(retire_batch=1))
    tick(lone)
    lone.receive("D", gone("n002"))
    steps = until_retired(lone)
    assert [m for step in steps for m in step] == [narrow(1), retired("S")]


LONG = 300
"""More than are looked at in one step."""


def long_retirement() -> Lone:
    """S is preserved. Behind it are, in this order, one that is free again, many behind `low` and
    many behind `high`, which are sent; the round is half way."""
    lone = fed(stops_with(retire_batch=2))
    lone.receive("D", subscribe("free", "r > 0"))
    lone.receive("A", S)
    lone.receive("D", subscribe("low", "p = 3"), subscribe("high", "p = 4"))
    for name, value in (("l", 3), ("h", 4)):
        lone.receive("D", *[
            subscribe(f"{name}{n:03}", f"p = {value} AND q = {n}") for n in range(LONG)
        ])  # fmt: skip
    lone.receive("C", settled("S", "free"))
    lone.receive("A", gone("S", P=(0, 0)))
    assert tick(lone)[-1] == ("C", subscribe("low", "p = 3"), subscribe("high", "p = 4"))
    lone.receive("C", settled("low", "high"))
    tick(lone)
    tick(lone)
    assert preserved(lone) == {"S": "C"}
    return lone


def test_one_that_stood_for_what_was_looked_at_goes_in_the_middle_of_a_round():
    lone = long_retirement()
    lone.receive("D", gone("low"))
    for _ in range(3):
        tick(lone)
        assert validate(lone.broker) == []


def test_one_that_comes_in_the_middle_of_a_round_is_found():
    """It has a key that was free, below where the round is."""
    lone = long_retirement()
    lone.receive("D", gone("free"))
    lone.receive("D", subscribe("late", "p = 9"))
    for _ in range(6):
        tick(lone)
        assert validate(lone.broker) == []
    assert lone.broker.subscriptions.get(entry("late")).forwarded == {"C"}


@pytest.mark.parametrize("steps", [1, 2])
def test_two_that_stand_for_the_same_do_not_both_go(steps):
    """The round of one is half way, past what the other one stands for too; then that one goes."""
    lone = fed(stops_with((0, 0), retire_batch=2))
    first = subscribe("first", "r > 0")
    both = subscribe("both", "p = 2 AND r = 1")
    lone.receive("A", first, S)
    lone.receive("D", both, subscribe("low", "p = 3"), subscribe("high", "p = 4"))
    for value in (3, 4):
        many = [subscribe(f"n{value}{n:03}", f"p = {value} AND q = {n}") for n in range(LONG)]
        lone.receive("D", *many)
    lone.receive("C", settled("S"))
    lone.receive("A", gone("first", P=(0, 0)))
    lone.receive("A", gone("S", P=(0, 0)))
    tick(lone)
    lone.receive("C", settled("low", "high"))
    for _ in range(steps):
        tick(lone)
    assert preserved(lone) == {"first": "C", "S": "C"}
    lone.receive("C", settled("first"))
    for _ in range(9):
        tick(lone)
        assert validate(lone.broker) == []
    assert preserved(lone) == {}
    assert lone.broker.subscriptions.get(both.id).forwarded == {"C"}


def test_a_round_over_many_that_are_covered_ends():
    lone = long_retirement()
    steps = until_retired(lone, 5)
    assert [m for step in steps for m in step] == [retired("S")]


# --- retirement that comes from elsewhere --------------------------------------------------------


def test_a_small_burst_lets_retirement_pass():
    lone = with_burst(2, stops_with(retire_batch=2))
    assert done(lone.receive("A", retired("S"))) == [("C", narrow(0), narrow(1), retired("S"))]
    assert preserved(lone) == {}


def test_a_large_burst_stops_retirement():
    lone = with_burst(3, stops_with(retire_batch=2))
    assert done(lone.receive("A", retired("S"))) == [woken_at(lone)]
    assert preserved(lone) == {"S": "C"}
    assert max(sends(until_retired(lone))) == 2


def test_what_a_step_sent_counts_for_what_comes_after_it():
    """One budget an interval, for what is preserved here and what is retired elsewhere."""
    lone = preserving(3, stops_with(retire_batch=2))
    lone.receive("A", subscribe("x", "q > 0"))
    lone.receive("D", subscribe("behind x", "q > 5"))
    lone.receive("C", settled("x"))
    assert tick(lone)[-1] == ("C", narrow(0), narrow(1))
    assert done(lone.receive("A", retired("x"))) == []
    assert preserved(lone) == {"S": "C", "x": "C"}


def test_many_that_are_retired_together_are_no_burst():
    """Each releases little, all together much; in one message or in several."""
    for together in (True, False):
        lone = fed(stops_with(retire_batch=4))
        names = [f"w{wide}" for wide in range(6)]
        for wide, name in enumerate(names):
            lone.receive("A", subscribe(name, f"p > 1 AND q = {wide}"))
            lone.receive("D", *[
                subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(3)
            ])  # fmt: skip
        lone.receive("C", settled(*names))
        messages = [retired(*names)] if together else [retired(name) for name in names]
        told = [m for message in messages for a in done(lone.receive("A", message))
                if isinstance(a, tuple) for m in a[1:]]  # fmt: skip
        assert sum(isinstance(m, Subscribe) for m in told) <= 4
        steps = until_retired(lone)
        assert max(sends(steps)) <= 4
        assert sum(sends([told, *steps])) == 18


def test_unsubscriptions_that_were_postponed_go_on_a_few_at_a_time():
    """As many as make up a batch; the last of them may go beyond it."""
    lone = fed(stops_with(retire_batch=4, congestion_queue=10))
    names = [f"w{wide}" for wide in range(6)]
    for wide, name in enumerate(names):
        lone.receive("A", subscribe(name, f"p > 1 AND q = {wide}"))
        narrower = [subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(3)]
        lone.receive("D", *narrower)
    lone.receive("C", settled(*names))
    lone.handle(CONGESTED)
    lone.receive("A", gone(*names, P=(3, 3)))
    lone.handle(RELIEVED)
    assert sends(until_retired(lone)) == [6, 6, 6]


def test_many_that_were_postponed_are_no_burst():
    lone = fed(stops_with((9, 9), retire_batch=4, congestion_queue=10))
    names = [f"w{wide}" for wide in range(6)]
    for wide, name in enumerate(names):
        lone.receive("A", subscribe(name, f"p > 1 AND q = {wide}"))
        lone.receive("D", *[
            subscribe(f"n{wide}{n}", f"p = {n + 5} AND q = {wide}") for n in range(3)
        ])  # fmt: skip
    lone.receive("C", settled(*names))
    lone.handle(CONGESTED)
    lone.receive("A", retired(*names))
    lone.handle(RELIEVED)
    steps = until_retired(lone)
    assert max(sends(steps)) <= 4
    assert sum(sends(steps)) == 18


# --- links and restarts --------------------------------------------------------------------------


def test_a_link_that_resumes_is_told_nothing():
    lone = preserving()
    end = lone.broker.context.ends["C"]
    received = end.sent[0].next - 1
    lone.handle(LinkDown("C"))
    hello = Hello("C", 1, 1, received, 0, 0, epoch=lone.broker.hello("C").epoch)
    told = done(lone.handle(LinkUp("C", hello)))
    assert [m for a in told if isinstance(a, tuple) for m in a[1:]] == []
    assert preserved(lone) == {"S": "C"}


def test_answers_that_a_link_lost_are_not_waited_for():
    """S was sent twice before the neighbour answered; it starts anew, and answers once."""
    lone = fed()
    lone.receive("A", S)
    lone.receive("D", narrow(0), subscribe("wide", "p > 0"))
    lone.receive("D", gone("wide"))
    lone.receive("A", gone("S", P=(0, 0)))
    assert preserved(lone) == {"S": "C"}
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    assert ("C", S) in [(a[0], m) for a in done(lone.receive("C", NOTHING)) for m in a[1:]]
    lone.receive("C", advertised_by("Q"))
    lone.receive("C", *TOLD)
    lone.receive("C", settled("S"))
    assert narrow(0) in tick(lone)[-1]


@pytest.mark.parametrize("when", ["preserved", "half way", "postponed"])
def test_restored_it_does_what_it_would_have_done(when):
    config = stops_with(retire_batch=1, congestion_queue=10)
    lone = with_burst(3, config) if when == "postponed" else preserving(3, config)
    if when == "half way":
        tick(lone)
    elif when == "postponed":
        lone.handle(CONGESTED)
        lone.receive("A", gone("S", P=(2, 2)))
    twin = Lone("A", "C", "D", config=config, agreed=False)
    twin.broker = Broker.restore(lone.broker.snapshot(), config)
    for link, end in lone.broker.context.ends.items():
        twin.broker.context.ends[link].up = end.up
    twin.now_us, twin.sent = lone.now_us, {link: list(n) for link, n in lone.sent.items()}
    for event in (
        subscribe("late", "p = 4"), None, gone("n001"), RELIEVED, None, None, None, None, None,
    ):  # fmt: skip
        told = []
        for each in (lone, twin):
            if event is None:
                told.append(tick(each))
            elif event is RELIEVED:
                told.append(done(each.handle(event)))
            else:
                told.append(done(each.receive("D", event)))
        assert told[0] == told[1]
        assert lone.broker.snapshot() == twin.broker.snapshot()
    assert preserved(lone) == preserved(twin) == {}


def test_statistics_survive_a_restart():
    config = few("incremental", statistics_max=2)
    lone = at_home(config)
    restored = Broker.restore(lone.broker.snapshot(), config)
    restored.handle(lone.now_us, Started())
    assert len(restored.policy.statistics) == 2
    restored.handle(lone.now_us, LinkUp("C", Hello("C", 1, 0, 0, 0, 0)))
    rows = restored.policy.statistics.take(restored.subscriptions.get(MINE).key, lone.now_us)
    assert [row[:2] for row in rows] == [(P, 2), (P, 3)]


def test_a_timer_is_set_again_after_a_restart():
    lone = preserving()
    restored = Broker.restore(lone.broker.snapshot(), STOPS)
    assert woken_at(lone) in restored.handle(lone.now_us, Started())
    idle = Broker.restore(with_burst(1).broker.snapshot(), STOPS)
    assert not [a for a in idle.handle(0, Started()) if getattr(a, "timer", None) == TIMER]
