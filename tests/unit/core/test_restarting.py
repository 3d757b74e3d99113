"""A broker without its state: whom it waits for, and what happens to data meanwhile.

Every test is done twice: once as it is, and once with a broker that is restored from its snapshot
before every input.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from byway.core.actions import Action, CancelTimer, CloseLink, OpenLink, Send, SendReply, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    Input,
    LinkDown,
    NeighbourAdded,
    NeighbourRemoved,
    Started,
    TimerFired,
)
from byway.core.invariants import validate
from byway.core.sync_state import SyncPhase
from byway.model import ANY, TRUE
from byway.model.messages import (
    Acknowledge,
    Advertise,
    AdvertisementsSynced,
    AdvertiseRequest,
    Attached,
    Batch,
    DeliveriesReceived,
    Delivery,
    Lane,
    NeighbourNames,
    PublicationsAccepted,
    PublicationsConfirmed,
    Publish,
    SelectiveAcknowledge,
    Settled,
    SubscribeRequest,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
)
from tests.lone_broker import (
    NAMES,
    NOTHING,
    TOLD,
    Lone,
    acknowledged,
    body,
    control,
    data,
    entry,
    onward,
    publication,
    publish,
    subscribe,
)

TIMER = Timer("table-sync")
FIRST, SECOND, THIRD = (publication(n, p=n) for n in (1, 2, 3))
BUCKETS = (7, *(0,) * 63)
"""Digests of a neighbour that holds something."""

Make = Callable[..., Lone]


@pytest.fixture(params=[False, True], ids=["", "restored"])
def make(request) -> Make:
    return partial(Lone, agreed=False, restored=request.param)


def on_data(actions: list[Action]) -> list[Action]:
    """Data that is sent, and what is told of data that was received; not the comparison of
    tables, nor timers."""
    return [
        a
        for a in actions
        if isinstance(a, SendReply)
        or (isinstance(a, Send) and isinstance(a.frame, Batch) and a.frame.lane is Lane.DATA)
        or (isinstance(a, Send) and isinstance(a.frame, Acknowledge) and a.frame.data)
    ]


def waiting(make: Make, *others: str, missing: str = "N", **options) -> Lone:
    """B was here before. A and others have told everything, N has not come."""
    lone = make("A", missing, *others, restarting=True, **options)
    for link in ("A", *others):
        lone.agree(link)
    return lone


def comes(lone: Lone, link: str, *subscriptions) -> list[Action]:
    """A neighbour comes, and tells everything; what follows for data."""
    lone.meet(link)
    return on_data(lone.receive(link, NOTHING, NAMES, *subscriptions, *TOLD))


# --- neighbours that are not listed --------------------------------------------------------------


def of_unlisted_wait(left: int) -> Timer:
    """The timer of a part of the wait; so many are left."""
    return Timer("unlisted", str(left))


def waits_out(lone: Lone) -> list[Action]:
    """The wait for neighbours that are not listed is over; what follows for data at its end."""
    for left in range(8, 1, -1):
        assert on_data(lone.handle(TimerFired(of_unlisted_wait(left)))) == []
    return on_data(lone.handle(TimerFired(of_unlisted_wait(1))))


def test_nothing_is_confirmed_while_unlisted_neighbours_may_connect(make):
    """It is delivered to those who are here meanwhile."""
    lone = make(expects_unlisted=True)
    lone.attach("c")
    assert lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE)) == []
    (reply,) = on_data(lone.ask("c", publish(1, p=9)))
    assert [type(r) for r in reply.replies] == [Delivery, PublicationsAccepted]
    lone.ask("c", DeliveriesReceived(1))
    assert waits_out(lone) == [
        SendReply("c", (Settled("a"), Settled("s"), PublicationsConfirmed(1)))
    ]
    assert validate(lone.broker) == []


def test_a_neighbour_that_connects_gets_what_waits_for_the_unlisted(make):
    lone = make(expects_unlisted=True)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.ask("c", publish(1, p=9))
    lone.handle(NeighbourAdded("N"))
    assert waits_out(lone) == []  # but N is known now, and has told nothing
    mine = Publish("c", 1, 1, 0, hop=1, distance=1, count=0, body=body(p=9))
    assert comes(lone, "N", subscribe("s")) == [data("N", 1, mine)]


def test_no_advertisement_is_settled_while_others_may_connect(make):
    """To keep what is published until these have sent their tables is not enough: subscriptions
    behind them are under way only when they know the advertisement."""
    lone = make("A", expects_unlisted=True)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.meet("A")
    lone.receive("A", NOTHING, NAMES, Advertise(entry("x"), ANY), *TOLD)
    assert [advert.settled for advert in lone.broker.advertisements] == [False, False]


def test_what_is_told_to_a_neighbour_is_not_all_while_others_may_connect(make):
    """Else that one would drop what the others want."""
    lone = make("A", expects_unlisted=True)
    lone.meet("A")
    lone.receive("A", NOTHING, NAMES, *TOLD)
    assert lone.broker.link("A").sync_phase is not SyncPhase.SYNCED
    told = [lone.handle(TimerFired(of_unlisted_wait(left))) for left in range(8, 0, -1)][-1]
    assert any(isinstance(a, Send) and a.link == "A" for a in told)
    assert lone.broker.link("A").sync_phase is SyncPhase.SYNCED


def test_the_unlisted_are_no_neighbours(make):
    lone = make("A", expects_unlisted=True)
    assert lone.broker.neighbours == ("A",)
    assert list(lone.broker.links) == ["A"]
    assert lone.broker.unreachable == ["A"]
    lone.meet("A")
    assert control("A", 2, NeighbourNames(("A",)), AdvertisementsSynced()) not in lone.receive(
        "A", NOTHING, NAMES
    )


def test_nobody_is_waited_for_if_the_wait_is_nothing():
    lone = Lone(config=BrokerConfig(unlisted_wait_us=0), expects_unlisted=True)
    assert not lone.broker.missing


# --- data while a neighbour is missing -----------------------------------------------------------


def test_known_receivers_get_it_at_once_and_one_copy_waits(make):
    lone = waiting(make, "C")
    lone.receive("C", subscribe("of C"))
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    copy = msgspec.structs.replace(onward(FIRST, distance=1), count=1)
    assert lone.receive("A", FIRST) == [
        data("C", 1, copy),
        SendReply("c", (Delivery(1, FIRST, ("s",)),)),
    ]
    assert list(lone.broker.unconfirmed_publications("N")) == [copy]
    assert lone.acknowledge("C", 1) == []  # A is told nothing: N may want it
    assert validate(lone.broker) == []


def test_what_the_missing_one_does_not_want_is_dropped_and_confirmed(make):
    lone = waiting(make)
    assert lone.receive("A", FIRST, SECOND, THIRD) == []
    assert comes(lone, "N") == [acknowledged("A", 4, data=3, confirmed=3)]
    assert not lone.broker.unconfirmed("N")
    assert validate(lone.broker) == []


def test_what_it_wants_is_sent_in_order(make):
    lone = waiting(make)
    lone.receive("A", FIRST, SECOND, THIRD, publication(4, p=4))
    fourth = publication(4, p=4)
    # numbers count anew: what was dropped was never sent
    assert comes(lone, "N", subscribe("s", "p = 2 OR p = 4")) == [
        Send("A", SelectiveAcknowledge(4, 4, 1, ((3, 3),))),
        data("N", 1, onward(SECOND), onward(fourth)),
    ]
    fifth = publication(5, p=2)
    assert lone.receive("A", fifth) == [data("N", 3, onward(fifth))]
    assert lone.acknowledge("N", 1) == [acknowledged("A", 4, data=5, confirmed=3)]
    assert lone.acknowledge("N", 3) == [acknowledged("A", 4, data=5, confirmed=5)]


def test_nothing_is_sent_to_it_before_it_has_told_everything(make):
    lone = waiting(make)
    lone.receive("A", FIRST)
    lone.meet("N")
    assert on_data(lone.receive("N", NOTHING, NAMES, subscribe("s"), AdvertisementsSynced())) == []
    assert lone.receive("A", SECOND) == []
    assert on_data(lone.receive("N", SubscriptionsSynced())) == [
        data("N", 1, onward(FIRST), onward(SECOND))
    ]


def test_what_comes_in_the_same_batch_as_the_word_is_looked_through_too(make):
    lone = waiting(make)
    lone.meet("N")
    lone.receive("N", NOTHING, NAMES, subscribe("s", "p = 2"), AdvertisementsSynced())
    told = lone.handle(lone.frame("A", FIRST, SECOND), lone.frame("N", SubscriptionsSynced()))
    assert on_data(told) == [
        acknowledged("A", 4, data=2, confirmed=1),
        data("N", 1, onward(SECOND)),
    ]


def test_the_missing_one_publishes_itself(make):
    """What it sends is taken, and does not go back to it."""
    lone = waiting(make, "C", missing="N")
    lone.receive("C", subscribe("s"))
    lone.meet("N")
    lone.receive("N", NOTHING, NAMES)
    theirs = publication(1, publisher="near", p=1)
    assert lone.receive("N", theirs) == [data("C", 1, onward(theirs))]
    assert lone.acknowledge("C", 1) == [acknowledged("N", 2, data=1, confirmed=1)]


def test_two_that_are_missing_have_a_copy_each(make):
    lone = make("A", "M", "N", restarting=True)
    lone.agree("A")
    lone.receive("A", FIRST)
    assert comes(lone, "N", subscribe("s")) == [data("N", 1, onward(FIRST))]
    assert lone.acknowledge("N", 1) == []
    assert comes(lone, "M") == [acknowledged("A", 4, data=1, confirmed=1)]


def test_a_client_publishes_while_a_neighbour_is_missing(make):
    lone = waiting(make)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    assert lone.ask("c", publish(1, p=1)) == [SendReply("c", (PublicationsAccepted(1),))]
    assert SendReply("c", (PublicationsConfirmed(1),)) in comes(lone, "N")


def test_at_the_window_no_data_is_read_but_from_the_missing_one(make):
    lone = waiting(make, config=BrokerConfig(data_window=2))
    lone.receive("A", FIRST)
    assert lone.broker.reads_data_from(None)
    lone.receive("A", SECOND)
    assert [lone.broker.reads_data_from(link) for link in ("A", None, "N")] == [False, False, True]
    comes(lone, "N")
    assert lone.broker.reads_data_from(None)


def test_the_connection_of_the_missing_one_may_break_meanwhile(make):
    lone = waiting(make)
    lone.receive("A", FIRST)
    lone.meet("N")
    lone.receive("N", NOTHING, NAMES, subscribe("s"))
    lone.handle(LinkDown("N"))
    lone.receive("A", SECOND)
    lone.meet("N", incarnation=2)
    lone.receive("N", NOTHING, NAMES, subscribe("t", "p = 2"), AdvertisementsSynced())
    # what it wanted before has ended
    assert on_data(lone.receive("N", SubscriptionsSynced((entry("s"),)))) == [
        acknowledged("A", 4, data=2, confirmed=1),
        data("N", 1, onward(SECOND)),
    ]


# --- how it learns that it was here before -------------------------------------------------------


def test_who_knows_that_it_was_here_sets_no_timer():
    broker = Broker("B", ["A", "N"], restarting=True)
    assert broker.handle(0, Started()) == [OpenLink("A"), OpenLink("N")]


def test_an_older_state_is_as_good_as_none():
    """Also if it was complete when it was taken."""
    stored = Lone("A", "N").broker.snapshot()
    broker = Broker.restore(stored, incarnation=2)
    assert broker.handle(0, Started()) == [OpenLink("A"), OpenLink("N")]
    assert sorted(broker.missing) == ["A", "N"]
    assert broker.handle(0, TimerFired(TIMER)) == []
    assert sorted(broker.missing) == ["A", "N"]


def learns_by_tables(message: SyncDigest) -> Callable[[Lone], list[Action]]:
    def learns(lone: Lone) -> list[Action]:
        lone.meet("D")
        return lone.receive("D", message)

    return learns


def learns_by_names(lone: Lone) -> list[Action]:
    lone.meet("D")
    lone.receive("D", NOTHING)
    return lone.receive("D", NeighbourNames(("B",), restarting=True))


def learns_by_client(lone: Lone) -> list[Action]:
    return lone.handle(ClientAttached("back", 1, resumes=True))


WAYS = {
    "holds advertisements": learns_by_tables(SyncDigest(BUCKETS, ())),
    "holds subscriptions": learns_by_tables(SyncDigest((), BUCKETS)),
    "was told names": learns_by_tables(SyncDigest((), (), ("A", "D", "N"))),
    "compares and restarts": learns_by_tables(SyncDigest((), (), (), restarting=True)),
    "restarts": learns_by_names,
    "a client resumes": learns_by_client,
}


@pytest.fixture(params=WAYS)
def learns(request) -> Callable[[Lone], list[Action]]:
    return WAYS[request.param]


def is_told(lone: Lone, link: str) -> list[Action]:
    """A neighbour tells everything, wherever it stands, and wants nothing; what follows for
    data."""
    if not lone.broker.links[link].up:
        return comes(lone, link)
    names = () if lone.sent[link] != [1, 0] else (NAMES,)
    is_asked = lone.broker.links[link].sync_phase is SyncPhase.AWAITING_NAMES
    held = [SyncNames((), ())] if is_asked else []
    return on_data(lone.receive(link, *names, *held, *TOLD))


def test_without_any_sign_the_wait_ends_in_time(make):
    lone = make("A", "D", "N")
    lone.agree("A")
    lone.receive("A", FIRST)
    assert on_data(lone.handle(TimerFired(TIMER))) == [acknowledged("A", 4, data=1, confirmed=1)]
    assert lone.receive("A", SECOND) == [acknowledged("A", 4, data=2, confirmed=2)]


def test_with_a_sign_no_timer_ends_it(make, learns):
    lone = make("A", "D", "N")
    lone.agree("A")
    lone.receive("A", FIRST)
    assert CancelTimer(TIMER) in learns(lone)
    assert lone.handle(TimerFired(TIMER)) == []  # it was due already
    assert is_told(lone, "D") == []
    assert is_told(lone, "N") == [acknowledged("A", 4, data=1, confirmed=1)]
    assert not lone.broker.is_restarting


def test_a_sign_that_comes_late_makes_those_given_up_missing_again(make, learns):
    lone = make("A", "D", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    assert lone.receive("A", FIRST) == [acknowledged("A", 4, data=1, confirmed=1)]
    learns(lone)
    assert lone.receive("A", SECOND) == []
    assert is_told(lone, "D") == []
    assert is_told(lone, "N") == [acknowledged("A", 4, data=2, confirmed=2)]
    assert not lone.broker.is_restarting


def test_those_given_up_at_different_times_are_all_missing_again(make):
    lone = make("A", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    lone.handle(NeighbourAdded("D"))
    lone.handle(TimerFired(TIMER))
    learns_by_client(lone)
    assert lone.receive("A", FIRST) == []
    assert is_told(lone, "D") == []
    assert is_told(lone, "N") == [acknowledged("A", 4, data=1, confirmed=1)]


def test_what_waits_for_another_gets_a_copy_for_those_missing_again(make):
    """N is given up, D comes, and then it shows that B was here before."""
    lone = make("A", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    lone.handle(NeighbourAdded("D"))
    assert lone.receive("A", FIRST) == []
    learns_by_client(lone)
    assert is_told(lone, "D") == []
    assert comes(lone, "N", subscribe("s")) == [data("N", 1, onward(FIRST))]
    assert on_data(lone.acknowledge("N", 1)) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_those_missing_again_get_one_copy(make):
    """N takes data since it was given up, and has this one already."""
    lone = make("A", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    lone.meet("N")
    lone.receive("N", NOTHING, NAMES, subscribe("s"))
    lone.handle(NeighbourAdded("D"))
    assert lone.receive("A", FIRST) == [data("N", 1, onward(FIRST))]
    assert on_data(learns_by_client(lone)) == [
        SendReply("back", (Attached(resumed=False, published=0),))
    ]


def test_who_was_given_up_and_has_told_after_all_is_not_missing_again(make):
    lone = make("A", "D", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    lone.agree("N")
    learns_by_client(lone)
    lone.receive("A", FIRST)
    assert is_told(lone, "D") == [acknowledged("A", 4, data=1, confirmed=1)]


def test_when_all_that_were_given_up_have_told_it_is_complete(make):
    """Nothing that comes later is a sign of anything."""
    lone = make("A", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    lone.agree("N")
    assert learns_by_client(lone) == [SendReply("back", (Attached(resumed=False, published=0),))]
    lone.handle(NeighbourAdded("D"))
    assert lone.ask("back", SubscribeRequest("s", TRUE)) == [SendReply("back", (Settled("s"),))]


def test_when_who_was_given_up_is_forgotten_it_is_complete(make):
    lone = make("A", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    lone.handle(NeighbourRemoved("N"))
    assert learns_by_client(lone) == [SendReply("back", (Attached(resumed=False, published=0),))]


def test_what_goes_to_one_that_is_missing_again_is_sent(make):
    """N takes data since it was given up; in one batch comes more, and N's word."""
    lone = make("A", "D", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    lone.meet("N")
    lone.receive("N", NOTHING, NAMES, subscribe("s"))
    assert lone.receive("A", FIRST) == [data("N", 1, onward(FIRST))]
    learns_by_client(lone)
    assert lone.receive("A", SECOND) == [data("N", 2, onward(SECOND))]
    told = lone.handle(lone.frame("A", THIRD), lone.frame("N", *TOLD))
    assert [a for a in on_data(told) if a.link == "N"] == [data("N", 3, onward(THIRD))]


def test_a_complete_broker_learns_nothing_from_it(make, learns):
    lone = make("A", "D", "N")
    for link in ("A", "D", "N"):
        lone.agree(link)
    lone.handle(LinkDown("D"))
    assert CancelTimer(TIMER) not in learns(lone)
    assert not lone.broker.is_restarting
    assert lone.receive("A", FIRST) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_what_a_neighbour_learnt_from_this_life_is_no_sign(make):
    """A holds something that B has told it since it started; their link starts anew."""
    lone = make("A", "N")
    lone.agree("A")
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.handle(LinkDown("A"))
    lone.meet("A")
    told = lone.receive("A", SyncDigest(BUCKETS, (), ("A", "N")))
    assert CancelTimer(TIMER) not in told
    assert not lone.broker.is_restarting


def test_a_restarting_broker_says_so(make):
    lone = waiting(make)
    (sent,) = lone.meet("N")
    assert sent == control("N", 1, SyncDigest((), (), (), restarting=True))
    (sent, *_) = lone.receive("N", NOTHING)
    assert sent.frame.messages[0] == NeighbourNames(("A", "N"), restarting=True)


def test_who_was_met_before_it_was_known_is_told(make):
    lone = make("A", "D", "N")
    lone.agree("A")
    told = learns_by_client(lone)
    assert control("A", 3, NeighbourNames(("A", "D", "N"), restarting=True)) in told


# --- names of neighbours -------------------------------------------------------------------------


def test_neighbours_that_others_name_are_known_and_waited_for(make):
    lone = make("A")
    lone.meet("A")
    names = NeighbourNames(("A", "N"), restarting=True)
    told = lone.receive("A", SyncDigest((), (), ("A", "N")))
    assert told == [CancelTimer(TIMER), control("A", 2, names), acknowledged("A", 1)]
    assert on_data(lone.receive("A", NAMES, *TOLD)) == []
    assert lone.receive("A", FIRST) == []
    assert comes(lone, "N") == [acknowledged("A", 4, data=1, confirmed=1)]


def test_an_unlisted_neighbour_that_others_name_may_dial_in(make):
    """The driver adds it when it comes, which changes nothing."""
    lone = make("A")
    lone.meet("A")
    lone.receive("A", SyncDigest((), (), ("A", "N")))
    assert lone.handle(NeighbourAdded("N")) == []


def test_its_own_name_is_ignored(make):
    lone = make("A")
    lone.meet("A")
    told = lone.receive("A", SyncDigest((), (), ("A", "B")))
    assert control("A", 2, NeighbourNames(("A",), True), AdvertisementsSynced()) in told
    assert list(lone.broker.neighbours) == ["A"]


def test_what_waits_gets_a_copy_for_who_is_named_later(make):
    """N, whom it waits for, names M; each publisher's come in order."""
    lone = waiting(make)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.receive("A", FIRST)
    lone.ask("c", publish(1, p=9))
    lone.receive("A", SECOND)
    lone.meet("N")
    # in the batch with the names comes one more; M is not known yet when it does
    lone.handle(lone.frame("A", THIRD), lone.frame("N", SyncDigest((), (), ("A", "M", "N"))))
    assert on_data(lone.receive("N", NAMES, *TOLD)) == []  # it wants nothing, but M may
    mine = Publish("c", 1, 1, 0, hop=1, distance=1, count=0, body=body(p=9))
    (sent,) = comes(lone, "M", subscribe("s"))
    assert sent == data("M", 1, mine, onward(FIRST), onward(SECOND), onward(THIRD))
    assert on_data(lone.acknowledge("M", 4)) == [
        acknowledged("A", 4, data=3, confirmed=3),
        SendReply("c", (PublicationsConfirmed(1),)),
    ]
    assert validate(lone.broker) == []


def test_copies_for_who_is_named_later_are_in_order_whoever_confirmed_some(make):
    """K and L were given up, take data, and are missing again when N names M."""
    lone = make("A", "K", "L", "N")
    lone.agree("A")
    lone.handle(TimerFired(TIMER))
    for link in ("K", "L"):
        lone.meet(link)
        lone.receive(link, NOTHING, NAMES, subscribe(f"of {link}"))
    lone.receive("A", FIRST, SECOND, THIRD)
    lone.acknowledge("K", 2)
    lone.meet("N")
    lone.receive("N", SyncDigest((), (), ("A", "K", "L", "M", "N")))
    kept = lone.broker.context.ends["M"].copies.messages
    assert [message.sequence for message in kept] == [1, 2, 3]


def test_what_the_newcomer_sent_is_not_copied_to_it(make):
    lone = make("A", "N", restarting=True)
    lone.handle(NeighbourAdded("M"))
    for link in ("A", "M"):
        lone.meet(link)
        lone.receive(link, NOTHING, NAMES)
    theirs = publication(1, publisher="near", p=1)
    lone.receive("M", theirs)
    kept = {name: link.unconfirmed for name, link in lone.broker.links.items()}
    assert kept == {"A": 1, "M": 0, "N": 1}


def test_names_are_told_again_when_neighbours_change(make):
    lone = make("A", "C")
    lone.agree("A")
    assert control("A", 3, NeighbourNames(("A", "C", "D"))) in lone.handle(NeighbourAdded("D"))
    told = lone.handle(NeighbourRemoved("C"))
    assert control("A", 4, NeighbourNames(("A", "D"))) in told


def test_names_that_a_neighbour_told_are_given_back(make):
    lone = make("A")
    lone.agree("A")
    lone.receive("A", NeighbourNames(("B", "X", "Y")))
    lone.handle(LinkDown("A"))
    assert lone.meet("A", incarnation=2) == [control("A", 1, SyncDigest((), (), ("B", "X", "Y")))]
    lone.handle(NeighbourRemoved("A"))
    lone.handle(NeighbourAdded("A"))
    assert lone.meet("A") == [control("A", 1, NOTHING)]  # it is another one, for all that is known


# --- forgetting ----------------------------------------------------------------------------------


def test_forgetting_ends_one_wait_and_releases_what_waited(make):
    lone = waiting(make)
    lone.receive("A", FIRST, SECOND)
    assert lone.handle(NeighbourRemoved("N")) == [
        CancelTimer(TIMER),
        CloseLink("N", "it is no neighbour any more"),
        control("A", 3, AdvertisementsSynced(), SubscriptionsSynced(), NeighbourNames(("A",))),
        acknowledged("A", 4, data=2, confirmed=2),
    ]
    assert not lone.broker.is_restarting
    assert validate(lone.broker) == []


def test_forgetting_one_of_two_ends_one_wait_only(make):
    lone = make("A", "M", "N", restarting=True)
    lone.agree("A")
    lone.receive("A", FIRST)
    assert on_data(lone.handle(NeighbourRemoved("N"))) == []
    assert lone.broker.is_restarting
    assert comes(lone, "M") == [acknowledged("A", 4, data=1, confirmed=1)]


def events_of_a_whole_wait() -> list[Input]:
    return [NeighbourAdded("D"), ClientAttached("c", 1), NeighbourRemoved("D")]


@pytest.mark.parametrize("event", events_of_a_whole_wait(), ids=lambda e: type(e).__name__)
def test_other_things_that_happen_do_not_end_a_wait(make, event):
    lone = waiting(make)
    lone.receive("A", FIRST)
    assert [a for a in on_data(lone.handle(event)) if isinstance(a, Send)] == []
    assert "N" in lone.broker.missing
