"""Clients and their sessions: what is kept for one that vanished, and what it is told."""

import msgspec
import pytest

from byway.core.actions import CancelTimer, OpenLink, SendReply, SetTimer, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.client_session import REFUSED_KEPT
from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Started, TimerFired
from byway.model import ANY, TRUE, parse
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    AdvertiseRequest,
    Attached,
    DeliveriesReceived,
    Delivery,
    EntryId,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
    Refused,
    Settled,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from tests.lone_broker import (
    Lone,
    acknowledged,
    advertise,
    body,
    control,
    data,
    entry,
    publication,
    publish,
    subscribe,
    without_acknowledgements,
)

TTL = 5_000
TIMER = Timer("session", "c")


def with_subscriber(ttl_us: int = TTL, config: BrokerConfig | None = None) -> Lone:
    """A client that subscribes to everything, settled, at a broker with one neighbour."""
    lone = Lone("A", config=config or BrokerConfig())
    lone.attach("c", ttl_us=ttl_us)
    lone.ask("c", SubscribeRequest("s", TRUE))
    lone.now_us = 1_000
    return lone


def delivery(number: int, sequence: int | None = None) -> Delivery:
    return Delivery(number, publication(sequence or number, p=1), ("s",))


def receive(lone: Lone, *sequences: int) -> list:
    """Publications come from the neighbour; what is done, acknowledgements apart."""
    messages = (publication(sequence, p=1) for sequence in sequences)
    return without_acknowledgements(lone.receive("A", *messages))


# --- coming and going ----------------------------------------------------------------------------


def test_a_new_client_begins_a_session():
    assert Lone().attach("c") == [SendReply("c", (Attached(resumed=False, published=0),))]


def test_without_a_session_everything_ends_at_once():
    lone = with_subscriber(ttl_us=0)
    lone.receive("A", advertise("a"))
    lone.ask("c", AdvertiseRequest("mine", TRUE))
    assert lone.handle(ClientDetached("c")) == [
        control("A", 8, Unsubscribe((EntryId("c", "s", 1, 1),))),
        data("A", 1, Unadvertise(EntryId("c", "mine", 1, 2), TRUE)),
    ]
    assert len(lone.broker.subscriptions) == 0
    assert [e.id for e in lone.broker.advertisements] == [entry("a")]
    assert lone.broker.sessions == {}


def test_a_session_is_kept_for_its_time():
    lone = with_subscriber()
    assert lone.handle(ClientDetached("c")) == [SetTimer(TIMER, 1_000 + TTL)]
    assert len(lone.broker.subscriptions) == 1
    lone.receive("A", advertise("a"))
    lone.now_us += TTL
    ended = Unsubscribe((EntryId("c", "s", 1, 1),))
    assert lone.handle(TimerFired(TIMER)) == [CancelTimer(TIMER), control("A", 7, ended)]
    assert lone.broker.sessions == {}


def test_goodbye_ends_a_session_that_would_be_kept():
    lone = with_subscriber()
    assert lone.handle(ClientDetached("c", for_good=True)) == []
    assert len(lone.broker.subscriptions) == 0
    lone = with_subscriber()
    lone.handle(ClientDetached("c"))
    assert lone.handle(ClientDetached("c", for_good=True)) == [CancelTimer(TIMER)]
    assert len(lone.broker.subscriptions) == 0


def test_a_timer_that_comes_too_late_ends_nothing():
    lone = with_subscriber()
    lone.handle(ClientDetached("c"))
    lone.attach("c", ttl_us=TTL)
    assert lone.handle(TimerFired(TIMER)) == []
    assert lone.handle(TimerFired(Timer("session", "stranger"))) == []
    assert len(lone.broker.subscriptions) == 1


def test_no_session_is_kept_longer_than_the_broker_allows():
    lone = with_subscriber(ttl_us=TTL, config=BrokerConfig(session_ttl_us_max=70))
    assert lone.handle(ClientDetached("c")) == [SetTimer(TIMER, 1_070)]


def test_a_client_nobody_knows_is_told_so_and_its_departure_is_no_news():
    lone = Lone()
    assert lone.ask("c", DeliveriesReceived(1)) == [SendReply("c", (Refused("", "not attached"),))]
    assert lone.handle(ClientDetached("c")) == []


# --- coming back ---------------------------------------------------------------------------------


def test_a_client_that_comes_back_is_told_what_it_may_have_missed():
    lone = with_subscriber()
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.receive("A", AdvertisementSettled(EntryId("c", "a", 1, 2)))
    lone.ask("c", publish(1, p=1))  # and gets it, as its first delivery
    receive(lone, 1)
    lone.handle(ClientDetached("c"))
    assert receive(lone, 2) == []
    mine = Delivery(1, lone.broker.kept_deliveries("c")[0].publication, ("s",))
    assert (mine.publication.publisher, mine.publication.sequence) == ("c", 1)
    assert lone.attach("c", ttl_us=TTL) == [
        CancelTimer(TIMER),
        SendReply(
            "c",
            (
                Attached(resumed=True, published=1),
                Settled("a"),
                Settled("s"),
                PublicationsConfirmed(1),
                mine,
                delivery(2, sequence=1),
                delivery(3, sequence=2),
            ),
        ),
    ]


def test_a_client_that_comes_back_is_told_again_what_was_refused():
    """The refusal may not have arrived, and the publication counts as finished. A restart in
    between makes no difference."""
    for restored in (False, True):
        lone = Lone(restored=restored)
        lone.attach("c", ttl_us=TTL)
        lone.ask("c", AdvertiseRequest("a", parse("p > 0")))
        lone.ask("c", publish(1, p=1), publish(2, p=0), publish(3, q=1), publish(4, p=2))
        lone.ask("c", publish(9, p=1))  # out of sequence: not spent, so not told again
        lone.handle(ClientDetached("c"))
        *_, told = lone.attach("c", ttl_us=TTL)
        again = "it was refused before the connection was lost"
        assert told.replies == (
            Attached(resumed=True, published=4),
            Settled("a"),
            Refused("2", again),
            Refused("3", again),
            PublicationsConfirmed(4),
        )


def test_of_refused_publications_the_last_are_told_again():
    lone = Lone()
    lone.attach("c", ttl_us=TTL)
    lone.ask("c", *(publish(number, p=1) for number in range(1, REFUSED_KEPT + 3)))
    (told,) = lone.attach("c", ttl_us=TTL)
    subjects = [int(reply.subject) for reply in told.replies if isinstance(reply, Refused)]
    assert subjects == list(range(3, REFUSED_KEPT + 3))


def test_a_blank_session_is_not_resumed():
    """The one that the client means may have been lost before this one began, and the answer that
    said so too."""
    lone = Lone("A")
    begun = SendReply("c", (Attached(resumed=False, published=0),))
    again = ClientAttached("c", 7, TTL, received=3, resumes=True)
    assert lone.handle(again) == [begun]
    assert lone.handle(again) == [begun]  # before the broker saw that the connection is gone
    assert lone.handle(ClientDetached("c")) == [SetTimer(TIMER, TTL)]
    assert lone.handle(again) == [CancelTimer(TIMER), begun]
    lone.handle(ClientDetached("c"))
    restored = Broker.restore(lone.broker.snapshot(), lone.broker.config)
    restored.handle(0, Started())
    assert begun in restored.handle(0, again)
    assert lone.broker.clients.durable == 1


@pytest.mark.parametrize(
    "requests",
    [
        (AdvertiseRequest("a", ANY),),
        (SubscribeRequest("s", TRUE),),
        (PublishRequest(1, b"no advertisement"),),
    ],
)
def test_a_session_that_anything_has_come_of_is_resumed(requests):
    lone = Lone()
    lone.attach("c", ttl_us=TTL)
    lone.ask("c", *requests)
    lone.handle(ClientDetached("c"))
    *_, told = lone.attach("c", ttl_us=TTL)
    assert told.replies[0].resumed


def test_a_session_whose_client_holds_nothing_any_more_is_resumed():
    """It counts deliveries."""
    lone = with_subscriber()
    receive(lone, 1)
    lone.ask("c", UnsubscribeRequest(("s",)))
    lone.handle(ClientDetached("c"))
    *_, told = lone.attach("c", ttl_us=TTL, received=0)
    assert told.replies == (Attached(resumed=True, published=0), delivery(1))


def test_what_is_not_settled_yet_is_not_told_to_be():
    lone = with_subscriber()
    lone.ask("c", AdvertiseRequest("a", TRUE))
    lone.handle(ClientDetached("c"))
    assert lone.attach("c", ttl_us=TTL) == [
        CancelTimer(TIMER),
        SendReply("c", (Attached(resumed=True, published=0), Settled("s"))),
    ]
    # the answer comes now, and is told once
    settled = AdvertisementSettled(EntryId("c", "a", 1, 2))
    assert lone.receive("A", settled) == [
        acknowledged("A", 5),
        SendReply("c", (Settled("a"),)),
    ]


def test_deliveries_are_kept_until_they_are_acknowledged():
    lone = with_subscriber()
    assert receive(lone, 1, 2, 3) == [SendReply("c", (delivery(1), delivery(2), delivery(3)))]
    assert lone.ask("c", DeliveriesReceived(2)) == []
    lone.handle(ClientDetached("c"))
    (_, told) = lone.attach("c", ttl_us=TTL, received=2)
    assert told.replies == (Attached(resumed=True, published=0), Settled("s"), delivery(3))


def test_what_a_client_says_it_has_is_not_given_again():
    lone = with_subscriber()
    receive(lone, 1, 2, 3)
    lone.handle(ClientDetached("c"))
    (_, told) = lone.attach("c", ttl_us=TTL, received=2)
    assert told.replies == (Attached(resumed=True, published=0), Settled("s"), delivery(3))
    assert lone.broker.sessions["c"].kept_bytes == len(body(p=1))


def test_nothing_is_kept_for_a_client_without_a_session_while_it_is_here():
    lone = with_subscriber(ttl_us=0)
    assert receive(lone, 1) == [SendReply("c", (delivery(1),))]
    assert not lone.broker.kept_deliveries("c")


def test_a_client_that_attaches_twice_goes_on():
    """Its first connection is dead, but the broker has not seen that yet."""
    lone = with_subscriber()
    receive(lone, 1)
    assert lone.attach("c", ttl_us=TTL) == [
        SendReply("c", (Attached(resumed=True, published=0), Settled("s"), delivery(1)))
    ]


def test_a_client_may_come_back_to_stay_without_a_session():
    lone = with_subscriber()
    lone.handle(ClientDetached("c"))
    receive(lone, 1)
    (_, told) = lone.attach("c", ttl_us=0)
    assert told.replies[-1] == delivery(1)
    client = lone.broker.clients.sessions["c"]
    assert (list(client.kept), client.kept_bytes) == ([], 0)
    assert lone.handle(ClientDetached("c")) == []
    assert lone.broker.sessions == {}


# --- bounds --------------------------------------------------------------------------------------


def test_the_oldest_deliveries_give_way():
    lone = with_subscriber(config=BrokerConfig(session_messages_max=2))
    lone.handle(ClientDetached("c"))
    receive(lone, 1, 2, 3, 4)
    (_, told) = lone.attach("c", ttl_us=TTL)
    assert told.replies == (Attached(True, 0, lost=2), Settled("s"), delivery(3), delivery(4))


def test_what_a_client_has_was_not_lost():
    lone = with_subscriber(config=BrokerConfig(session_messages_max=2))
    receive(lone, 1, 2, 3, 4)
    lone.handle(ClientDetached("c"))
    (_, told) = lone.attach("c", ttl_us=TTL, received=1)
    assert told.replies[0] == Attached(True, 0, lost=1)
    (told,) = lone.attach("c", ttl_us=TTL, received=3)
    assert told.replies[0] == Attached(True, 0, lost=0)


def test_bytes_are_bounded_too():
    size = len(body(p=1))
    lone = with_subscriber(config=BrokerConfig(session_bytes_max=2 * size))
    lone.handle(ClientDetached("c"))
    receive(lone, 1, 2, 3)
    (_, told) = lone.attach("c", ttl_us=TTL)
    assert told.replies == (Attached(True, 0, lost=1), Settled("s"), delivery(2), delivery(3))
    assert lone.broker.sessions["c"].kept_bytes == 2 * size


def test_a_delivery_larger_than_the_bound_is_told_but_not_kept():
    lone = with_subscriber(config=BrokerConfig(session_bytes_max=3))
    assert receive(lone, 1) == [SendReply("c", (delivery(1),))]
    client = lone.broker.clients.sessions["c"]
    assert (len(client.kept), client.kept_bytes) == (0, 0)


# --- incarnations --------------------------------------------------------------------------------


def test_a_new_incarnation_removes_what_the_earlier_one_left():
    lone = with_subscriber()
    lone.receive("A", advertise("a"))
    lone.handle(ClientDetached("c"))
    assert lone.attach("c", incarnation=2) == [
        CancelTimer(TIMER),
        control("A", 7, Unsubscribe((EntryId("c", "s", 1, 1),))),
        SendReply("c", (Attached(resumed=False, published=0),)),
    ]
    assert lone.ask("c", SubscribeRequest("s", TRUE)) == [
        control("A", 8, Subscribe(EntryId("c", "s", 2, 1_001), TRUE))
    ]


def test_an_earlier_incarnation_is_refused_and_changes_nothing():
    lone = with_subscriber()
    lone.attach("c", incarnation=5)
    before = lone.broker.snapshot()
    reason = "incarnation 5 of this client came before"
    assert lone.attach("c", incarnation=4) == [SendReply("c", (Refused("4", reason),))]
    assert lone.broker.snapshot() == before


def test_confirmations_for_an_earlier_incarnation_are_not_told_to_the_next():
    lone = Lone("A")
    lone.receive("A", subscribe("s"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY), publish(1, p=1))
    lone.attach("c", incarnation=2)
    lone.ask("c", AdvertiseRequest("a", ANY))
    assert lone.acknowledge("A", 2) == []  # of the first one, and of its advertisement's end
    sent, told = lone.ask("c", publish(1, p=1))
    assert (sent.frame.first, sent.frame.messages[0].incarnation) == (3, 2)
    assert told == SendReply("c", (PublicationsAccepted(1),))
    assert lone.acknowledge("A", 3) == [SendReply("c", (PublicationsConfirmed(1),))]


# --- restarts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ttl_us", "grace_us", "kept_us"), [(0, 300, 300), (700, 300, 700)])
def test_after_a_restart_clients_have_some_time_to_come_back(ttl_us, grace_us, kept_us):
    lone = with_subscriber(ttl_us=ttl_us)
    config = BrokerConfig(restore_grace_us=grace_us)
    restored = Broker.restore(lone.broker.snapshot(), config)
    assert restored.handle(50, Started()) == [
        SetTimer(TIMER, 50 + kept_us),
        SetTimer(Timer("restore"), 50 + grace_us),
        OpenLink("A"),
    ]
    assert restored.handle(60, ClientAttached("c", 1, ttl_us)) == [
        CancelTimer(TIMER),
        SendReply("c", (Attached(resumed=True, published=0), Settled("s"))),
    ]


def test_after_a_restart_a_client_that_does_not_come_back_is_removed():
    restored = Broker.restore(with_subscriber(ttl_us=0).broker.snapshot())
    restored.handle(50, Started())
    assert restored.handle(30_000_050, TimerFired(TIMER)) == [CancelTimer(TIMER)]
    assert len(restored.subscriptions) == 0


def test_with_an_older_state_sessions_cannot_go_on():
    """Its clients were told more than it knows: ids and sequences would be used twice."""
    restored = Broker.restore(with_subscriber().broker.snapshot(), incarnation=2)
    assert restored.hello("A").knows == 0
    restored.handle(50, Started())
    assert len(restored.subscriptions) == 0
    assert restored.handle(60, ClientAttached("c", 1, TTL)) == [
        SendReply("c", (Attached(resumed=False, published=0),))
    ]


# --- requests ------------------------------------------------------------------------------------


def test_a_filter_is_replaced_in_place():
    lone = with_subscriber()
    lone.receive("A", advertise("a"))
    narrow = parse("p > 5")
    assert lone.ask("c", SubscribeRequest("s", narrow)) == [
        control(
            "A", 7,
            Subscribe(EntryId("c", "s", 1, 2), narrow), Unsubscribe((EntryId("c", "s", 1, 1),)),
        )
    ]  # fmt: skip
    answer = SubscriptionsSettled((EntryId("c", "s", 1, 1), EntryId("c", "s", 1, 2)))
    assert lone.receive("A", answer)[-1] == SendReply("c", (Settled("s"),))


def test_requests_are_taken_in_order():
    lone = Lone()
    lone.attach("c")
    asked = ClientRequested(
        "c",
        (
            UnsubscribeRequest(("s",)),
            SubscribeRequest("s", TRUE),
            UnsubscribeRequest(("s", "s")),
            AdvertiseRequest("a", ANY),
            AdvertiseRequest("a", ANY),
            UnadvertiseRequest("a"),
            UnadvertiseRequest("a"),
        ),
    )
    unknown = Refused("s", "no subscription has this name")
    assert lone.handle(asked) == [
        SendReply(
            "c",
            (
                unknown,
                Settled("s"),
                unknown,
                Settled("a"),
                Refused("a", "this name advertises already"),
                Refused("a", "no advertisement has this name"),
            ),
        )
    ]
    assert len(lone.broker.subscriptions) == len(lone.broker.advertisements) == 0


def test_ids_are_never_used_again():
    lone = Lone("A")
    lone.attach("c")
    told = lone.ask("c", AdvertiseRequest("a", TRUE), UnadvertiseRequest("a"))
    assert told == [
        control("A", 5, Advertise(EntryId("c", "a", 1, 1), TRUE)),
        data("A", 1, Unadvertise(EntryId("c", "a", 1, 1), TRUE)),
    ]
    assert lone.ask("c", AdvertiseRequest("a", TRUE)) == [
        control("A", 6, Advertise(EntryId("c", "a", 1, 2), TRUE))
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Input data was truncated"),
        (b"\xc1", "MessagePack data is malformed"),
        (msgspec.msgpack.encode([{"": 1}]), "'' is not an attribute name"),
        (msgspec.msgpack.encode([{"p": None}]), "Expected `bool | int | float | str`, got `None`"),
        (body(q=1), "it conforms to no advertisement of this client: q is 1, expected no attr"),
        (body(p=0), "it conforms to no advertisement of this client: p is 0, expected p > 0"),
    ],
    ids=["empty", "garbage", "name", "value", "attribute", "range"],
)
def test_a_publication_that_may_not_be_is_refused_and_spent(content, reason):
    lone = Lone()
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", parse("p > 0")), SubscribeRequest("s", TRUE))
    (told,) = lone.ask("c", PublishRequest(1, content))
    refused, confirmed = told.replies
    assert refused.subject == "1"
    assert refused.reason.startswith(reason)
    assert confirmed == PublicationsConfirmed(1)
    (told,) = lone.ask("c", publish(2, p=1))
    assert [type(reply) for reply in told.replies] == [Delivery, PublicationsConfirmed]


def test_conformance_can_be_switched_off():
    lone = Lone(config=BrokerConfig(conformance=False))
    lone.attach("c")
    assert lone.ask("c", publish(1, p=1)) == [SendReply("c", (PublicationsConfirmed(1),))]
    (told,) = lone.ask("c", PublishRequest(2, b"\xc1"))
    assert told.replies[0].reason.startswith("MessagePack data is malformed")


def test_any_of_a_clients_advertisements_will_do():
    lone = Lone()
    lone.attach("c")
    lone.ask(
        "c", AdvertiseRequest("low", parse("p < 5")), AdvertiseRequest("high", parse("p > 50"))
    )
    for sequence, value in enumerate((1, 99), start=1):
        told = lone.ask("c", publish(sequence, p=value))
        assert told == [SendReply("c", (PublicationsConfirmed(sequence),))]
    (told,) = lone.ask("c", UnadvertiseRequest("high"), publish(3, p=99))
    reason = "it conforms to no advertisement of this client: p is 99, expected p < 5"
    assert told.replies[0] == Refused("3", reason)
    (told,) = lone.ask("c", UnadvertiseRequest("low"), publish(4, p=1))
    assert told.replies[0].reason.startswith("this client has no advertisement: ")
    assert told.replies[0].reason.endswith('advertise("ANY")')


def test_publications_count_up_from_one():
    lone = Lone()
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    expected = Refused("2", "expected sequence 1")
    assert lone.ask("c", publish(2, p=1)) == [SendReply("c", (expected,))]
    assert lone.ask("c", publish(1, p=1)) == [SendReply("c", (PublicationsConfirmed(1),))]
    assert lone.ask("c", publish(1, p=1)) == []  # sent again: it is here
    assert lone.ask("c", publish(2, p=1)) == [SendReply("c", (PublicationsConfirmed(2),))]


def test_a_publication_that_is_too_large_is_refused():
    size = len(body(p=1))
    lone = Lone(config=BrokerConfig(body_bytes_max=size))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    assert lone.ask("c", publish(1, p=1)) == [SendReply("c", (PublicationsConfirmed(1),))]
    reason = f"it has {size + 1} bytes: at most {size} are taken"
    told = SendReply("c", (Refused("2", reason), PublicationsConfirmed(2)))
    assert lone.ask("c", publish(2, pp=1)) == [told]


def test_what_is_not_confirmed_yet_is_told_to_be_here():
    lone = Lone("A")
    lone.receive("A", subscribe("s"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    told = lone.ask("c", publish(1, p=1), publish(2, p=1))
    assert told[-1] == SendReply("c", (PublicationsAccepted(2),))
    assert lone.acknowledge("A", 1) == [SendReply("c", (PublicationsConfirmed(1),))]
    assert lone.ask("c", publish(1, p=1)) == []
    told = lone.ask("c", publish(3, p=1))
    assert told[-1] == SendReply("c", (PublicationsAccepted(3),))
    assert lone.acknowledge("A", 3) == [SendReply("c", (PublicationsConfirmed(3),))]
