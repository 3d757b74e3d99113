"""Neighbours that an operator adds and removes while the broker runs."""

from byway.core.actions import Action, CancelTimer, CloseLink, OpenLink, SendReply, Timer
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, NeighbourAdded, NeighbourRemoved
from byway.core.invariants import validate
from byway.core.links import CONTROL_MAX, LinkEnd
from byway.model import ANY, TRUE
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    AdvertisementsSynced,
    AdvertiseRequest,
    Disconnect,
    EntryId,
    Hello,
    NeighbourNames,
    PublicationsConfirmed,
    Settled,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    Unsubscribe,
)
from tests.lone_broker import (
    NAMES,
    NOTHING,
    TOLD,
    Lone,
    acknowledged,
    advertise,
    control,
    data,
    entry,
    onward,
    publication,
    publish,
    subscribe,
    unadvertise,
)

MINE = Advertise(EntryId("c", "a", 1, 1), ANY)
REASON = "it is no neighbour any more"


def parted(link: str, number: int) -> list[Action]:
    """A neighbour is told that it is none, and the connection closed."""
    return [control(link, number, Disconnect(REASON)), CloseLink(link, REASON)]


def with_client() -> Lone:
    """One neighbour, A, and a client that advertises and subscribes, all settled."""
    lone = Lone("A")
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    lone.receive("A", AdvertisementSettled(MINE.id))
    return lone


# --- added ---------------------------------------------------------------------------------------


def test_a_new_neighbour_is_connected_and_told_everything():
    lone = with_client()
    names = NeighbourNames(("A", "D"))
    assert lone.handle(NeighbourAdded("D")) == [OpenLink("D"), control("A", 6, names)]
    assert lone.meet("D") == [control("D", 1, NOTHING)]
    assert lone.receive("D", NOTHING) == [
        control("D", 2, names, MINE, AdvertisementsSynced(), SubscriptionsSynced()),
        acknowledged("D", 1),
    ]
    assert lone.receive("D", advertise("d"), *TOLD) == [
        control("A", 7, advertise("d")),
        control("D", 6, Subscribe(EntryId("c", "s", 1, 2), TRUE)),
        acknowledged("D", 4),
    ]
    assert validate(lone.broker) == []


def test_adding_a_neighbour_twice_or_oneself_changes_nothing():
    lone = with_client()
    before = lone.broker.snapshot()
    assert lone.handle(NeighbourAdded("A")) == []
    assert lone.handle(NeighbourAdded("B")) == []
    assert lone.broker.snapshot() == before


def test_nobody_waits_for_a_neighbour_that_was_added():
    """The broker knew enough without it."""
    lone = with_client()
    lone.handle(NeighbourAdded("D"))
    assert lone.ask("c", SubscribeRequest("late", TRUE)) == [SendReply("c", (Settled("late"),))]


# --- removed -------------------------------------------------------------------------------------


def test_all_that_a_removed_neighbour_told_ends():
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"), subscribe("s"))
    lone.receive("C", advertise("c"), subscribe("t"))
    assert lone.handle(NeighbourRemoved("A")) == [
        *parted("A", 8),
        control(
            "C", 7, Unsubscribe((entry("s"),)),
            AdvertisementSettled(entry("c")), NeighbourNames(("C",)),
            SubscriptionsSettled((entry("t"),)),
        ),
        data("C", 1, unadvertise("a")),
    ]  # fmt: skip
    assert [e.id for e in lone.broker.subscriptions] == [entry("t")]
    assert [(e.id, e.forwarded, e.awaiting) for e in lone.broker.advertisements] == [
        (entry("c"), set(), {})
    ]
    assert validate(lone.broker) == []


def test_what_only_a_removed_neighbour_had_to_answer_is_settled():
    lone = Lone("A", "C")
    lone.receive("C", advertise("c"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    lone.receive("A", AdvertisementSettled(EntryId("c", "a", 1, 1)))
    told = lone.handle(NeighbourRemoved("C"))
    assert told[-1] == SendReply("c", (Settled("a"), Settled("s")))


def test_copies_for_a_removed_neighbour_are_given_up():
    lone = with_client()
    lone.receive("A", subscribe("s"))
    lone.ask("c", publish(1, p=1))
    told = lone.handle(NeighbourRemoved("A"))
    assert told[-1] == SendReply("c", (PublicationsConfirmed(1),))


def test_a_confirmation_for_a_removed_neighbour_is_nobodys_news():
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"))
    lone.receive("C", subscribe("s"))
    lone.receive("A", publication(1, p=1), unadvertise("a"))
    lone.handle(NeighbourRemoved("A"))
    assert lone.acknowledge("C", 2) == []
    assert validate(lone.broker) == []


def test_who_is_removed_is_not_waited_for():
    lone = Lone("A", "C", agreed=False)
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    lone.meet("A")
    lone.receive("A", NOTHING)
    lone.receive("A", *TOLD)
    assert lone.handle(NeighbourRemoved("C")) == [  # it has never come: there is nobody to tell
        CancelTimer(Timer("table-sync")),
        CloseLink("C", REASON),
        control("A", 3, AdvertisementsSynced(), SubscriptionsSynced(), NeighbourNames(("A",))),
        SendReply("c", (Settled("s"),)),
    ]


def test_frames_of_a_batch_before_the_removal_do_no_harm():
    lone = with_client()
    lone.handle(NeighbourAdded("D"))
    lone.meet("D")
    lone.receive("D", NOTHING)
    opened = lone.frame("D", NAMES, *TOLD, subscribe("s"))
    assert lone.handle(opened, NeighbourRemoved("D")) == [
        *parted("D", 6),
        control("A", 7, NeighbourNames(("A",))),
    ]
    assert validate(lone.broker) == []


def test_a_neighbour_may_part_itself():
    lone = Lone("A", "C")
    lone.receive("A", subscribe("s"))
    goodbye = lone.frame(
        "A", advertise("a"), Disconnect("the overlay has a cycle"), subscribe("late")
    )
    assert lone.handle(goodbye) == [
        CloseLink("A", "the overlay has a cycle"),
        control("C", 5, advertise("a"), NeighbourNames(("C",))),
        data("C", 1, unadvertise("a")),
    ]
    assert list(lone.broker.neighbours) == ["C"]
    assert len(lone.broker.subscriptions) == 0
    assert validate(lone.broker) == []


def test_removing_a_stranger_changes_nothing():
    lone = with_client()
    before = lone.broker.snapshot()
    assert lone.handle(NeighbourRemoved("X")) == []
    assert lone.broker.snapshot() == before


def test_a_neighbour_that_was_removed_may_be_added_again():
    lone = Lone("A", "C")
    lone.receive("C", subscribe("s"))
    lone.receive("A", publication(1, p=1))
    lone.handle(NeighbourRemoved("A"))
    assert lone.handle(NeighbourAdded("A")) == [
        OpenLink("A"),
        control("C", 7, NeighbourNames(("A", "C"))),
    ]
    lone.agree("A", incarnation=1)
    second = publication(2, p=1)
    assert lone.receive("A", second)[-1] == data("C", 2, onward(second))
    assert lone.acknowledge("C", 2) == [acknowledged("A", 4, data=1, confirmed=1)]


# --- a neighbour that stays away -----------------------------------------------------------------


def test_control_for_a_neighbour_that_stays_away_is_bounded():
    end = LinkEnd("B", "A", 1, control_max=3)
    end.meet(Hello("A", 1, 0, 0, 0, 0))
    end.lost()
    for _ in range(3):
        end.post_control([NOTHING])
    assert (len(end.control.kept), end.hello().knows) == (3, 1)
    end.post_control([NOTHING])
    assert (len(end.control.kept), end.hello().knows) == (0, 0)
    assert not end.meet(Hello("A", 1, 1, 0, 0, 0)).resumed
    assert CONTROL_MAX > 10_000


def test_what_changes_while_a_neighbour_is_away_waits_for_it():
    lone = Lone("A", config=BrokerConfig())
    lone.handle(LinkDown("A"))
    lone.attach("c")
    assert lone.ask("c", AdvertiseRequest("a", ANY)) == []
    assert lone.broker.context.ends["A"].control.kept[-1] == MINE
