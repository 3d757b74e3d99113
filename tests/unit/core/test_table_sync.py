"""Agreement of tables: what two neighbours tell each other when their link starts anew."""

import pytest

from byway.core.actions import CancelTimer, CloseLink, OpenLink, Send, SendReply, SetTimer, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientRequested,
    LinkDown,
    LinkUp,
    NeighbourAdded,
    Started,
    TimerFired,
)
from byway.model import ANY, TRUE
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    AdvertisementsSynced,
    AdvertiseRequest,
    EntryId,
    Hello,
    NeighbourNames,
    PublicationsAccepted,
    Publish,
    Settled,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
    SyncRequest,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from tests.lone_broker import (
    NAMES,
    NOTHING,
    TOLD,
    Lone,
    acknowledged,
    advertise,
    body,
    control,
    data,
    entry,
    onward,
    publication,
    publish,
    subscribe,
    unadvertise,
    without_acknowledgements,
)

TIMER = Timer("table-sync")
NO_NAMES = SyncNames((), ())
TO_A = NeighbourNames(("A",))
"""What B tells A when A has said what it holds, and is its only neighbour."""
TO_BOTH = NeighbourNames(("A", "C"))


def held(*announcements: Advertise | Subscribe, settled: bool = True) -> SyncDigest:
    """The digests of a neighbour that holds these from B: another broker is asked for them."""
    links = ("B",) if settled else ("B", "Z")
    neighbour = Lone(*links)
    if not settled:  # Z feeds everything and never answers
        neighbour.receive("Z", Advertise(EntryId("z", "all", 1), ANY))
    if announcements:
        neighbour.receive("B", *announcements)
    neighbour.handle(LinkDown("B"))
    (sent,) = neighbour.meet("B", incarnation=2)
    (digests,) = sent.frame.messages
    return digests


def asked(actions: list) -> SyncRequest:
    """What B, whose only neighbour is A, asks for; it tells names, and nothing else."""
    (sent,) = without_acknowledgements(actions)
    (names, message) = sent.frame.messages
    assert names == TO_A
    assert isinstance(message, SyncRequest)
    return message


def with_tables() -> Lone:
    """B has told A an advertisement and a subscription of its client c, settled there; they meet
    anew."""
    lone = Lone("A")
    lone.receive("A", advertise("theirs"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    lone.receive("A", AdvertisementSettled(MINE.id), SubscriptionsSettled((WANTED.id,)))
    lone.handle(LinkDown("A"))
    return lone


MINE = Advertise(EntryId("c", "a", 1, 1), ANY)
WANTED = Subscribe(EntryId("c", "s", 1, 2), TRUE)


# --- the first meeting ---------------------------------------------------------------------------


def test_a_broker_starts_by_waiting_for_its_neighbours():
    broker = Broker("B", ["C", "A"], BrokerConfig(sync_wait_us=900))
    assert broker.handle(100, Started()) == [SetTimer(TIMER, 1_000), OpenLink("A"), OpenLink("C")]
    assert Broker("B").handle(100, Started()) == []


def test_two_steps():
    """Advertisements are told when all others have told theirs, subscriptions likewise."""
    lone = Lone("A", "C", agreed=False)
    assert lone.meet("A") == [control("A", 1, NOTHING)]
    # C may have advertisements for A
    assert lone.receive("A", NOTHING) == [control("A", 2, TO_BOTH), acknowledged("A", 1)]
    assert lone.receive("A", *TOLD) == [acknowledged("A", 3)]
    assert lone.meet("C") == [control("C", 1, NOTHING)]
    assert lone.receive("C", NOTHING) == [
        control("C", 2, TO_BOTH, AdvertisementsSynced()),
        acknowledged("C", 1),
    ]
    assert lone.receive("C", AdvertisementsSynced()) == [
        control("A", 3, AdvertisementsSynced()),
        control("C", 4, SubscriptionsSynced()),
        acknowledged("C", 2),
    ]
    assert lone.receive("C", SubscriptionsSynced()) == [
        CancelTimer(TIMER),
        control("A", 4, SubscriptionsSynced()),
        acknowledged("C", 3),
    ]


def test_subscriptions_are_not_told_to_be_complete_before_the_peer_told_its_advertisements():
    lone = Lone("A", agreed=False)
    lone.meet("A")
    assert lone.receive("A", NOTHING)[0] == control("A", 2, TO_A, AdvertisementsSynced())
    # its advertisement draws a subscription, which must come before the conclusion
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    told = lone.receive("A", advertise("a"), AdvertisementsSynced())
    subscribed = Subscribe(EntryId("c", "s", 1, 1), TRUE)
    answer = AdvertisementSettled(entry("a"))
    assert told[0] == control("A", 4, subscribed, answer, SubscriptionsSynced())


def test_patience_ends():
    lone = Lone("A", "C", agreed=False, config=BrokerConfig(sync_wait_us=900))
    lone.meet("A")
    lone.receive("A", NOTHING)
    lone.receive("A", *TOLD)
    provisional = AdvertisementsSynced(provisional=True), SubscriptionsSynced(provisional=True)
    assert lone.handle(TimerFired(TIMER)) == [control("A", 3, *provisional)]
    # who comes later is told everything all the same
    lone.receive("A", advertise("a"))
    lone.meet("C")
    assert lone.receive("C", NOTHING)[0] == control(
        "C", 2, TO_BOTH, advertise("a"), AdvertisementsSynced(), SubscriptionsSynced()
    )


def test_a_neighbour_that_comes_unannounced_is_waited_for():
    lone = Lone("A", agreed=False)
    lone.handle(NeighbourAdded("D"))
    lone.meet("A")
    lone.receive("A", NOTHING)
    assert lone.receive("A", *TOLD) == [acknowledged("A", 3)]
    lone.meet("D")
    lone.receive("D", NOTHING)
    assert control("A", 3, AdvertisementsSynced()) in lone.receive("D", AdvertisementsSynced())


def test_a_neighbour_that_comes_unannounced_is_not_waited_for_without_end():
    """B had nobody to wait for before."""
    lone = Lone(agreed=False, config=BrokerConfig(sync_wait_us=900))
    lone.attach("c")
    assert lone.handle(NeighbourAdded("D")) == [SetTimer(TIMER, 900), OpenLink("D")]
    assert lone.ask("c", SubscribeRequest("s", TRUE)) == []
    assert lone.handle(TimerFired(TIMER)) == [SendReply("c", (Settled("s"),))]


def test_a_subscription_is_not_settled_before_all_have_told_their_advertisements():
    lone = Lone("A", "C", agreed=False)
    lone.attach("c")
    assert lone.ask("c", SubscribeRequest("s", TRUE)) == []
    lone.agree("A")
    lone.meet("C")
    lone.receive("C", NOTHING)
    # C's advertisements are known now, its subscriptions are not: that is enough
    assert lone.receive("C", AdvertisementsSynced())[-1] == SendReply("c", (Settled("s"),))


def test_a_neighbours_subscription_waits_for_the_others_only():
    lone = Lone("A", "C", agreed=False)
    lone.meet("A")
    assert lone.receive("A", subscribe("s")) == [acknowledged("A", 1)]
    lone.meet("C")
    lone.receive("C", NOTHING)
    answer = control("A", 2, SubscriptionsSettled((entry("s"),)))
    assert answer in lone.receive("C", AdvertisementsSynced())


def test_settlement_does_not_wait_longer_than_patience():
    lone = Lone("A", agreed=False)
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    assert lone.handle(TimerFired(TIMER)) == [SendReply("c", (Settled("s"),))]


# --- data waits for agreement --------------------------------------------------------------------


def test_a_broker_without_state_sends_data_when_the_peer_has_told_everything():
    lone = Lone("A", agreed=False)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.meet("A")
    lone.receive("A", NOTHING, NAMES, subscribe("s"), AdvertisementsSynced())
    assert lone.ask("c", publish(1, p=1)) == [SendReply("c", (PublicationsAccepted(1),))]
    sent = Publish("c", 1, 1, 0, hop=1, distance=1, count=0, body=body(p=1))
    assert data("A", 1, sent) in lone.receive("A", SubscriptionsSynced())


def test_a_broker_that_is_complete_sends_data_when_the_peer_takes_it():
    """It knows what the peer wants, and need not wait for it to tell."""
    lone = Lone("A", "C")
    lone.receive("C", subscribe("s"))
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    first = publication(1, p=1)
    assert lone.receive("A", first) == []
    lone.receive("C", NOTHING)
    assert lone.receive("C", NAMES) == [data("C", 1, onward(first)), acknowledged("C", 2)]


def test_data_does_not_overtake_what_it_rests_on():
    """The peer takes data before it has said what it holds: the end of an advertisement must not
    come before the advertisement."""
    lone = Lone("A", agreed=False)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.meet("A")
    lone.receive("A", NAMES, *TOLD)
    assert lone.ask("c", UnadvertiseRequest("a")) == []
    assert lone.receive("A", NOTHING) == [
        control("A", 2, TO_A, MINE, AdvertisementsSynced(), SubscriptionsSynced()),
        data("A", 1, Unadvertise(MINE.id, ANY)),
        acknowledged("A", 4),
    ]


def test_an_end_that_is_on_its_way_is_told_after_what_it_ends():
    """A restarts while publications and the end of their advertisement are unconfirmed."""
    lone = with_tables()
    lone.ask("c", UnadvertiseRequest("a"))
    lone.meet("A", incarnation=2)
    told = without_acknowledgements(lone.receive("A", NOTHING, NAMES, *TOLD))
    assert told == [
        control("A", 2, TO_A, MINE, WANTED, AdvertisementsSynced(), SubscriptionsSynced()),
        data("A", 1, Unadvertise(MINE.id, ANY)),
    ]


def test_an_advertisement_that_is_told_twice_is_taken_back_twice():
    """Its first end is still on its way when it is announced again through a broker that lost its
    state: only the second end is the end."""
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"))
    assert lone.receive("A", advertise("a")) == [acknowledged("A", 6)]  # C has not answered
    assert lone.receive("A", unadvertise("a")) == [acknowledged("A", 6, data=1, confirmed=1)]
    assert len(lone.broker.advertisements) == 1
    assert data("C", 1, unadvertise("a")) in lone.receive("A", unadvertise("a"))
    assert len(lone.broker.advertisements) == 0


def test_what_was_told_twice_counts_once_when_its_link_starts_anew():
    """The ends that A owed went with its numbers; it tells of as many as are still to come."""
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"), advertise("a"))
    lone.handle(LinkDown("A"))
    lone.agree("A", incarnation=2)
    lone.receive("A", unadvertise("a"))
    assert len(lone.broker.advertisements) == 0


def test_an_advertisement_that_began_again_behind_its_end_is_told_twice():
    """Its end is kept for C, and it was announced again since: C, which lost its state, will hear
    of that end, which must not be the end."""
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"))
    lone.handle(LinkDown("C"))
    lone.receive("A", unadvertise("a"))
    lone.receive("A", advertise("a"))
    lone.meet("C", incarnation=2)
    assert without_acknowledgements(lone.receive("C", NOTHING, NAMES, *TOLD)) == [
        control(
            "C", 2, TO_BOTH,
            advertise("a"), advertise("a"), AdvertisementsSynced(), SubscriptionsSynced(),
        ),
        data("C", 1, unadvertise("a")),
    ]  # fmt: skip


def test_an_end_in_the_same_batch_is_on_its_way():
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"))
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    told = lone.handle(lone.frame("A", unadvertise("a")), lone.frame("C", NOTHING))
    told_all = AdvertisementsSynced(), SubscriptionsSynced()
    assert control("C", 2, TO_BOTH, advertise("a"), *told_all) in told


def test_an_advertisement_that_is_told_again_is_answered_again():
    lone = Lone("A")
    lone.receive("A", advertise("a"))
    answer = control("A", 6, AdvertisementSettled(entry("a")))
    assert lone.receive("A", advertise("a"))[0] == answer


# --- comparing -----------------------------------------------------------------------------------


def test_equal_digests_tell_nothing():
    lone = with_tables()
    (sent,) = lone.meet("A", incarnation=2)
    assert sent.frame.messages == (held(advertise("theirs")),)
    told = lone.receive("A", held(MINE, WANTED), *TOLD)
    assert told == [
        control("A", 2, TO_A, AdvertisementsSynced(), SubscriptionsSynced()),
        acknowledged("A", 3),
    ]


def test_a_peer_that_holds_nothing_is_told_everything_without_asking():
    lone = with_tables()
    lone.meet("A", incarnation=2)
    told = lone.receive("A", NOTHING)
    assert told[0] == control(
        "A", 2, TO_A, MINE, WANTED, AdvertisementsSynced(), SubscriptionsSynced()
    )


def test_only_the_difference_is_told():
    lone = with_tables()
    lone.ask("c", SubscribeRequest("new", TRUE))
    lone.meet("A", incarnation=2)
    wanted = asked(lone.receive("A", held(MINE, WANTED)))
    assert (len(wanted.advertisements), len(wanted.subscriptions)) == (0, 1)
    fresh = Subscribe(EntryId("c", "new", 1, 3), TRUE)
    told = lone.receive("A", NO_NAMES)
    assert told[0] == control("A", 4, fresh, AdvertisementsSynced(), SubscriptionsSynced())


def test_names_are_told_in_the_buckets_asked_for():
    lone = Lone("A", "C")
    lone.receive("A", *(subscribe(f"s{n}") for n in range(40)))
    lone.receive("A", advertise("a"))  # C does not answer for it
    lone.handle(LinkDown("A"))
    (sent,) = lone.meet("A", incarnation=2)
    (digests,) = sent.frame.messages
    used = tuple(i for i, digest in enumerate(digests.subscriptions) if digest)
    (answer, _) = lone.receive("A", SyncRequest((), used[:3]))
    (names,) = answer.frame.messages
    assert names.advertisements == ()
    assert 3 <= len(names.subscriptions) < 40
    assert all(settled for _, settled in names.subscriptions)
    (answer, _) = lone.receive("A", SyncRequest(tuple(range(64)), ()))
    assert answer.frame.messages == (SyncNames(((entry("a"), False),), ()),)


def test_what_is_settled_beyond_is_not_awaited_again():
    lone = with_tables()
    lone.ask("c", SubscribeRequest("new", TRUE))
    lone.meet("A", incarnation=2)
    fresh = Subscribe(EntryId("c", "new", 1, 3), TRUE)
    asked(lone.receive("A", held(MINE, WANTED, fresh)))  # it arrived, only its answer was lost
    told = lone.receive("A", SyncNames((), ((fresh.id, True),)))
    assert told == [
        control("A", 4, AdvertisementsSynced(), SubscriptionsSynced()),
        acknowledged("A", 2),
        SendReply("c", (Settled("new"),)),
    ]


def test_what_is_held_but_not_settled_beyond_is_awaited():
    lone = with_tables()
    lone.ask("c", SubscribeRequest("new", TRUE))
    lone.meet("A", incarnation=2)
    fresh = Subscribe(EntryId("c", "new", 1, 3), TRUE)
    asked(lone.receive("A", held(MINE, WANTED)))
    told = lone.receive("A", SyncNames((), ((fresh.id, False),)))
    assert told == [
        control("A", 4, AdvertisementsSynced(), SubscriptionsSynced()),
        acknowledged("A", 2),
    ]
    assert lone.receive("A", SubscriptionsSettled((fresh.id,)))[-1] == SendReply(
        "c", (Settled("new"),)
    )


def test_digests_tell_settled_from_unsettled():
    one = advertise("a", ANY)
    assert held(one) != held(one, settled=False) != NOTHING


def test_an_advertisement_counts_as_settled_when_the_peer_has_told_its_subscriptions():
    lone = Lone("A")
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.handle(LinkDown("A"))
    lone.meet("A", incarnation=2)
    asked(lone.receive("A", held(MINE)))
    assert lone.receive("A", SyncNames(((MINE.id, True),), ())) == [
        control("A", 4, AdvertisementsSynced(), SubscriptionsSynced()),
        acknowledged("A", 2),
    ]
    assert SendReply("c", (Settled("a"),)) in lone.receive("A", *TOLD)


# --- changes meanwhile ---------------------------------------------------------------------------


def test_changes_before_the_comparison_are_seen_by_it():
    lone = with_tables()
    lone.meet("A", incarnation=2)
    assert lone.ask("c", UnsubscribeRequest(("s",))) == []
    assert lone.ask("c", SubscribeRequest("new", TRUE)) == []
    told = lone.receive("A", NOTHING)
    fresh = Subscribe(EntryId("c", "new", 1, 3), TRUE)
    assert told[0] == control(
        "A", 2, TO_A, MINE, fresh, AdvertisementsSynced(), SubscriptionsSynced()
    )


def test_changes_while_names_are_on_their_way_are_told_after_them():
    lone = with_tables()
    lone.ask("c", SubscribeRequest("new", TRUE))
    lone.meet("A", incarnation=2)
    asked(lone.receive("A", held(MINE, WANTED)))
    assert lone.ask("c", UnsubscribeRequest(("new", "s"))) == []
    told = lone.receive("A", NO_NAMES)
    fresh = Subscribe(EntryId("c", "new", 1, 3), TRUE)
    gone = Unsubscribe((fresh.id, WANTED.id))
    assert told[0] == control("A", 4, fresh, gone, AdvertisementsSynced(), SubscriptionsSynced())


def test_an_answer_waits_for_the_subscriptions_that_came_before_it():
    """A's advertisement is settled while A is told nothing yet: what it drew must arrive first."""
    lone = Lone("A", agreed=False)
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    lone.meet("A")
    assert lone.receive("A", advertise("a")) == [acknowledged("A", 1)]
    told = lone.receive("A", NOTHING)
    subscribed = Subscribe(EntryId("c", "s", 1, 1), TRUE)
    answer = AdvertisementSettled(entry("a"))
    assert told[0] == control("A", 2, TO_A, subscribed, answer, AdvertisementsSynced())


# --- what nobody has claimed yet -----------------------------------------------------------------


def forgetful(*messages: SyncDigest | SyncNames) -> Lone:
    """B has lost its state; A has said what it holds of it, C has not come yet."""
    lone = Lone("A", "C", agreed=False)
    lone.meet("A")
    for message in messages:
        lone.receive("A", message)
    return lone


def test_what_the_peer_rightly_holds_is_claimed_later_and_not_told():
    theirs = advertise("a"), subscribe("s")
    names = SyncNames(((entry("a"), True),), ((entry("s"), True),))
    lone = forgetful(held(*theirs), names)
    lone.receive("A", advertise("of A"), *TOLD)
    lone.meet("C")
    lone.receive("C", held(advertise("of A")))
    # C tells them, and B finds that A has them: it is told neither
    told = without_acknowledgements(lone.receive("C", *theirs, AdvertisementsSynced()))
    messages = [m for a in told if a.link == "A" for m in a.frame.messages]
    assert messages == [AdvertisementsSynced()]
    told = without_acknowledgements(lone.receive("C", SubscriptionsSynced()))
    messages = [m for a in told if getattr(a, "link", "") == "A" for m in a.frame.messages]
    assert messages == [SubscriptionsSynced()]
    # both were settled beyond A, so C has its answers
    settled = {e.id: e.settled for e in (*lone.broker.advertisements, *lone.broker.subscriptions)}
    assert settled == {entry("a"): True, entry("s"): True, entry("of A"): False}


def test_what_nobody_claims_has_ended():
    names = SyncNames(((entry("a"), True),), ((entry("s"), True),))
    lone = forgetful(held(advertise("a"), subscribe("s")), names)
    lone.receive("A", *TOLD)
    lone.meet("C")
    lone.receive("C", NOTHING)
    told = without_acknowledgements(lone.receive("C", AdvertisementsSynced()))
    assert control("A", 4, AdvertisementsSynced((entry("a"),))) in told
    told = without_acknowledgements(lone.receive("C", SubscriptionsSynced()))
    assert control("A", 5, SubscriptionsSynced((entry("s"),))) in told


def test_an_answer_for_what_is_doubtful_is_remembered():
    names = SyncNames((), ((entry("s"), False),))
    lone = forgetful(held(subscribe("s")), names)
    lone.receive("A", advertise("of A"), SubscriptionsSettled((entry("s"),)), *TOLD)
    lone.meet("C")
    assert lone.receive("C", subscribe("s")) == [
        control("C", 2, SubscriptionsSettled((entry("s"),))),
        acknowledged("C", 1),
    ]


def test_what_the_peer_says_has_ended_ends():
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"), subscribe("s"))
    lone.receive("C", advertise("b"), subscribe("t"))
    lone.handle(LinkDown("A"))
    lone.meet("A", incarnation=2)
    lone.receive("A", NOTHING)
    ended = (entry("a"), entry("b"), entry("nothing"))  # b is not A's to end
    told = lone.receive("A", AdvertisementsSynced(ended))
    assert [a for a in told if a.link == "C"] == [data("C", 1, unadvertise("a"))]
    ended = (entry("s"), entry("t"), entry("nothing"), entry("s"))
    told = lone.receive("A", SubscriptionsSynced(ended))
    assert [a for a in told if a.link == "C"] == [control("C", 7, Unsubscribe((entry("s"),)))]
    assert [e.id for e in lone.broker.advertisements] == [entry("b")]
    assert [e.id for e in lone.broker.subscriptions] == [entry("t")]


# --- resuming ------------------------------------------------------------------------------------


def test_a_link_that_resumes_compares_nothing():
    lone = with_tables()
    lone.ask("c", SubscribeRequest("while down", TRUE))
    control_received, _ = lone.sent["A"]
    hello = Hello("A", 1, knows=1, control=7, data=0, confirmed=0, epoch=1)
    fresh = Subscribe(EntryId("c", "while down", 1, 3), TRUE)
    assert lone.handle(LinkUp("A", hello)) == [control("A", 8, fresh)]
    assert lone.broker.hello("A").control == control_received


def test_answers_outstanding_when_a_link_starts_anew_come_again():
    lone = Lone("A", "C")
    lone.receive("C", advertise("a"))
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    lone.ask("c", UnsubscribeRequest(("s",)), SubscribeRequest("s", TRUE))
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    fresh = Subscribe(EntryId("c", "s", 1, 2), TRUE)
    lone.receive("C", NOTHING)
    assert SendReply("c", (Settled("s"),)) in lone.receive("C", SubscriptionsSettled((fresh.id,)))


@pytest.mark.parametrize("phase", ["silent", "told"])
def test_a_subscription_withdrawn_from_a_link_that_starts_anew_is_not_awaited(phase):
    """Its Subscribe was not answered when the link broke; then the advertisement it followed ended,
    and nobody will answer for it any more."""
    lone = Lone("A", "C")
    lone.receive("C", advertise("a"))
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    if phase == "silent":
        lone.handle(LinkDown("C"))
        lone.meet("C", incarnation=2)
        told = lone.receive("C", unadvertise("a"))
    else:
        lone.receive("C", unadvertise("a"))
        lone.handle(LinkDown("C"))
        told = lone.meet("C", incarnation=2)
    assert told[-1] == SendReply("c", (Settled("s"),))


def test_other_epochs_start_anew():
    """Both are the same incarnations, but one of them has started anew without the other."""
    lone = with_tables()
    (sent,) = lone.handle(LinkUp("A", Hello("A", 1, 1, 6, 0, 0, epoch=4)))
    assert [type(message) for message in sent.frame.messages] == [SyncDigest]
    assert lone.broker.hello("A").epoch == 5


def test_a_greeting_is_worth_nothing_when_its_numbers_are_gone():
    """Two connections are made at once; what was said over the second one was said before the first
    one started anew, and the peer goes by it."""
    lone = with_tables()
    said = lone.broker.hello("A")
    lone.meet("A", incarnation=2)
    lone.handle(LinkDown("A"))
    heard = Hello("A", 2, 0, 0, 0, 0)
    reason = "was greeted with numbers that are gone"
    assert lone.handle(LinkUp("A", heard, said)) == [CloseLink("A", reason, fault=True)]
    met = lone.handle(LinkUp("A", heard, lone.broker.hello("A")))
    assert [type(action) for action in met] == [Send]


def test_what_was_confirmed_since_the_greeting_is_told_at_once():
    lone = Lone("A", "C")
    lone.receive("C", subscribe("s"))
    lone.receive("A", publication(1, p=1))
    lone.handle(LinkDown("A"))
    assert lone.broker.hello("A").confirmed == 0
    assert lone.acknowledge("C", 1) == []
    resumed = lone.handle(LinkUp("A", Hello("A", 1, 1, 4, 0, 0, epoch=1)))
    assert resumed == [acknowledged("A", 4, data=1, confirmed=1)]


def test_an_invitation_of_a_batch_is_not_carried_into_a_new_beginning():
    lone = Lone("A", agreed=False)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.meet("A")
    lone.receive("A", NOTHING, NAMES, subscribe("s"), AdvertisementsSynced())
    lone.ask("c", publish(1, p=1))
    again = LinkUp("A", Hello("A", 2, 0, 0, 0, 0))
    (sent,) = lone.handle(lone.frame("A", SubscriptionsSynced()), LinkDown("A"), again)[1:]
    assert [type(message) for message in sent.frame.messages] == [SyncDigest]
    assert not lone.broker.links["A"].open


def test_messages_of_a_batch_are_not_carried_into_a_new_beginning():
    lone = with_tables()
    lone.meet("A", incarnation=2)
    lone.receive("A", held(MINE, WANTED), *TOLD)
    again = LinkUp("A", Hello("A", 3, 0, 0, 0, 0))
    (sent,) = lone.handle(
        lone.frame("A", subscribe("theirs")),
        ClientRequested("c", (SubscribeRequest("new", TRUE),)),
        LinkDown("A"),
        again,
    )
    assert [type(message) for message in sent.frame.messages] == [SyncDigest]
