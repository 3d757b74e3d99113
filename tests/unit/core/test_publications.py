"""Publications through one broker: where they go, when they are confirmed, what is dropped."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.core.actions import Send, SendReply
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, LinkDown
from byway.core.publications import REPORTED_MAX
from byway.model import ANY, TRUE, Filter, parse
from byway.model.bounds import DELTA_MAX
from byway.model.messages import (
    Acknowledge,
    AdvertisementSettled,
    AdvertiseRequest,
    Delivery,
    EntryId,
    PublicationRouted,
    PublicationsAccepted,
    PublicationsConfirmed,
    Publish,
    Refused,
    RoutesRequest,
    SelectiveAcknowledge,
    SubscribeRequest,
    SubscriptionsSettled,
    Unadvertise,
)
from byway.model.seen import SeenPublications
from byway.model.values import Value
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
)
from tests.strategies import filters, publications

FIRST, SECOND, THIRD = (publication(n, p=1) for n in (1, 2, 3))


def between(*subscribers: str, config: BrokerConfig | None = None) -> Lone:
    """Publications come from A; these neighbours want them all."""
    lone = Lone("A", "C", "D", config=config or BrokerConfig())
    for link in subscribers:
        lone.receive(link, subscribe(f"of {link}"))
    return lone


def counted(message: Publish, count: int) -> Publish:
    """The same, after so many other entries wanted it on its way."""
    return msgspec.structs.replace(message, count=count)


# --- where they go -------------------------------------------------------------------------------


def test_a_publication_goes_to_neighbours_and_clients_that_want_it():
    lone = between("C")
    lone.receive("D", subscribe("other", "q > 0"))
    for client, wanted in (("one", "p > 0"), ("two", "p > 5")):
        lone.attach(client)
        lone.ask(client, SubscribeRequest("s", parse(wanted)))
    assert lone.receive("A", FIRST) == [
        data("C", 1, counted(onward(FIRST, distance=1), 1)),
        SendReply("one", (Delivery(1, FIRST, ("s",)),)),
    ]


def test_it_does_not_go_back():
    lone = between("A", "C")
    assert lone.receive("A", FIRST) == [data("C", 1, onward(FIRST))]


def test_nobody_wants_it():
    lone = between()
    assert lone.receive("A", FIRST) == [acknowledged("A", 4, data=1, confirmed=1)]
    assert lone.broker.counters.pure_forwarders == 1


def test_a_client_gets_it_once_with_all_names():
    lone = between()
    lone.attach("c")
    for name, wanted in (("a", "p > 0"), ("b", "p = 1"), ("c", "p > 1"), ("d", "TRUE")):
        lone.ask("c", SubscribeRequest(name, parse(wanted)))
    assert lone.receive("A", FIRST) == [
        acknowledged("A", 4, data=1, confirmed=1),
        SendReply("c", (Delivery(1, FIRST, ("a", "b", "d")),)),
    ]


def test_a_clients_publication_is_told_from_one_of_its_next_incarnation():
    lone = between("C")
    again = publication(1, incarnation=2, p=1)
    lone.receive("A", FIRST)
    assert lone.receive("A", again)[-1] == data("C", 2, onward(again))


def test_what_a_local_client_publishes_starts_its_way_here():
    lone = between("C", "D")
    lone.attach("pub")
    lone.ask("pub", AdvertiseRequest("a", ANY))
    lone.now_us = 77
    sent = Publish("pub", 1, 1, 77, hop=1, distance=1, count=0, body=body(p=1))
    assert lone.ask("pub", publish(1, p=1)) == [
        data("C", 1, sent),
        data("D", 1, sent),
        SendReply("pub", (PublicationsAccepted(1),)),
    ]
    assert lone.acknowledge("C", 1) == []
    assert lone.acknowledge("D", 1) == [SendReply("pub", (PublicationsConfirmed(1),))]


@pytest.mark.parametrize(
    ("wanted", "distance", "count"),
    [
        ([], 5, 3),  # one entry matches: it is further, and nobody else wants it
        (["D"], 1, 4),  # several do
        (["local"], 1, 4),
        (["C"], 1, 4),
        (["D", "local", "C"], 1, 6),
    ],
)
def test_distance_and_count_tell_of_others_that_want_it(wanted, distance, count):
    """Hops since two or more matched, and how many matched besides one, broker by broker."""
    lone = between("C")
    for link in wanted:
        if link == "local":
            lone.attach("c")
            lone.ask("c", SubscribeRequest("s", TRUE))
        else:
            lone.receive(link, subscribe(f"second of {link}"))
    far = counted(publication(1, hop=7, distance=4, p=1), 3)
    assert data("C", 1, counted(onward(far, distance), count)) in lone.receive("A", far)


def test_an_entry_of_the_arrival_link_counts_for_neither():
    lone = between("A", "C")
    far = publication(1, hop=7, distance=4, p=1)
    assert lone.receive("A", far)[-1] == data("C", 1, onward(far, distance=5))


def test_an_entry_that_does_not_match_counts_for_neither():
    lone = between("C")
    lone.receive("D", subscribe("other", "p > 1"))
    far = publication(1, hop=7, distance=4, p=1)
    assert lone.receive("A", far)[-1] == data("C", 1, onward(far, distance=5))


def test_a_distance_is_never_more_than_soft_links_pass_by_in_the_hops():
    lone = between("A", "C")
    liar = publication(1, hop=2, distance=2**30, p=1)
    assert lone.receive("A", liar)[-1] == data("C", 1, onward(liar, distance=2 * DELTA_MAX + 1))


def test_a_count_does_not_outgrow_the_wire():
    lone = between("C", "D")
    liar = counted(publication(1, p=1), 2**31 - 1)
    assert lone.receive("A", liar)[-1] == data("D", 1, counted(onward(liar, distance=1), 2**30))


# --- when they are confirmed ---------------------------------------------------------------------


def test_a_publication_is_confirmed_when_every_copy_is():
    lone = between("C", "D")
    lone.receive("A", FIRST)
    assert lone.acknowledge("C", 1) == []
    assert lone.acknowledge("D", 1) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_that_data_arrived_is_told_with_the_next_news():
    lone = between("C")
    lone.receive("A", FIRST, SECOND)
    assert lone.receive("A", subscribe("s")) == [
        control("A", 5, SubscriptionsSettled((entry("s"),))),
        acknowledged("A", 5, data=2),
    ]


def test_confirmations_go_back_in_order():
    lone = Lone("A", "C", "D")
    lone.receive("C", subscribe("odd", "p = 1"))
    lone.receive("D", subscribe("even", "p = 2"))
    lone.receive("A", publication(1, p=1), publication(2, p=2), publication(3, p=1))
    # the second is done, the first is not
    early = SelectiveAcknowledge(4, 3, 0, ((2, 2),))
    assert lone.acknowledge("D", 1) == [Send("A", early)]
    assert lone.acknowledge("C", 1) == [acknowledged("A", 4, data=3, confirmed=2)]
    assert lone.acknowledge("C", 2) == [acknowledged("A", 4, data=3, confirmed=3)]


def test_one_confirmation_may_stand_for_many():
    lone = between("C")
    lone.receive("A", FIRST, SECOND, THIRD)
    assert lone.acknowledge("C", 3) == [acknowledged("A", 4, data=3, confirmed=3)]


def test_a_receipt_is_no_confirmation():
    lone = between("C")
    lone.receive("A", FIRST)
    assert lone.acknowledge("C", 0) == []
    assert list(lone.broker.unconfirmed_publications("C")) == [onward(FIRST)]
    lone.acknowledge("C", 1)
    assert not lone.broker.unconfirmed("C")


def test_the_end_of_an_advertisement_is_confirmed_likewise():
    lone = Lone("A", "C")
    lone.receive("A", advertise("a"))
    assert lone.receive("A", FIRST, unadvertise("a")) == [
        acknowledged("A", 5, data=2, confirmed=1),
        data("C", 1, unadvertise("a")),
    ]
    assert lone.acknowledge("C", 1) == [acknowledged("A", 5, data=2, confirmed=2)]


def test_ending_what_is_not_there_or_came_from_elsewhere_is_confirmed_and_harmless():
    lone = Lone("A", "C")
    lone.receive("C", advertise("a"))
    for number, name in enumerate(("a", "unheard of"), start=1):
        assert lone.receive("A", unadvertise(name)) == [
            acknowledged("A", 4, data=number, confirmed=number)
        ]
    assert [e.id for e in lone.broker.advertisements] == [entry("a")]


# --- coming again --------------------------------------------------------------------------------


def sent_again(lone: Lone, *messages: Publish | Unadvertise) -> list:
    """A died without state after it had passed these on, and is back."""
    lone.handle(LinkDown("A"))
    lone.agree("A", incarnation=2)
    return lone.receive("A", *messages)


def test_a_copy_that_comes_again_is_confirmed_when_the_first_is():
    lone = between("C")
    lone.receive("A", FIRST)
    assert sent_again(lone, FIRST) == []
    assert lone.broker.counters.duplicates == 1
    assert lone.acknowledge("C", 1) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_a_copy_that_comes_again_after_it_was_confirmed_is_confirmed_at_once():
    lone = between("C")
    lone.receive("A", FIRST)
    lone.acknowledge("C", 1)
    assert sent_again(lone, FIRST) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_a_copy_may_come_any_number_of_times():
    lone = between("C", "D")
    lone.receive("A", FIRST)
    sent_again(lone, FIRST)
    assert sent_again(lone, FIRST) == []
    assert lone.acknowledge("C", 1) == []
    assert lone.acknowledge("D", 1) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_a_copy_that_comes_again_by_another_link_waits_for_the_first_one():
    lone = between("C")
    lone.receive("A", FIRST)
    assert lone.receive("D", FIRST) == []
    assert lone.acknowledge("C", 1) == [
        acknowledged("A", 4, data=1, confirmed=1),
        acknowledged("D", 4, data=1, confirmed=1),
    ]


@pytest.mark.parametrize(("link", "control"), [("C", 5), ("D", 4)])
def test_a_copy_that_comes_round_a_cycle_is_confirmed_at_once(link, control):
    """The first one's sender would wait for itself: it comes from where it was sent, or from where
    it came by way of there."""
    lone = between("C")
    lone.receive("A", FIRST)
    round_about = onward(onward(FIRST))
    assert lone.receive(link, round_about) == [acknowledged(link, control, data=1, confirmed=1)]
    assert lone.acknowledge("C", 1) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_a_copy_that_comes_from_where_it_was_confirmed_waits_for_the_other_copies():
    lone = between("C", "D")
    lone.receive("A", FIRST)
    assert lone.acknowledge("C", 1) == []
    assert lone.receive("C", FIRST) == []
    assert lone.acknowledge("D", 1) == [
        acknowledged("A", 4, data=1, confirmed=1),
        acknowledged("C", 5, data=1, confirmed=1),
    ]


def test_a_copy_that_comes_again_in_the_same_batch_waits():
    """An earlier duplicate of the batch came before the first one of this."""
    lone = between("C")
    lone.receive("A", FIRST)
    again = lone.frame("D", FIRST), lone.frame("A", SECOND), lone.frame("D", SECOND)
    assert lone.handle(*again) == [data("C", 2, onward(SECOND))]
    assert lone.acknowledge("C", 2) == [
        acknowledged("A", 4, data=2, confirmed=2),
        acknowledged("D", 4, data=2, confirmed=2),
    ]


def test_copies_that_come_again_in_a_batch_with_their_confirmation():
    """The first copies of some are confirmed between two of them: none is left waiting."""
    lone = between("C")
    lone.receive("A", FIRST, SECOND, THIRD)
    lone.handle(LinkDown("A"))
    lone.agree("A", incarnation=2)
    confirmed = FrameReceived("C", Acknowledge(3, 3, 3))
    again = lone.frame("A", FIRST), confirmed, lone.frame("A", SECOND, THIRD)
    assert lone.handle(*again) == [acknowledged("A", 4, data=3, confirmed=3)]


def test_a_client_gets_what_comes_again_once():
    lone = between()
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE))
    lone.receive("A", FIRST)
    assert sent_again(lone, FIRST) == [acknowledged("A", 4, data=1, confirmed=1)]


def test_after_a_neighbour_restarts_what_it_never_confirmed_is_sent_anew():
    lone = between("C")
    lone.receive("A", FIRST, SECOND, THIRD)
    lone.acknowledge("C", 1)
    lone.handle(LinkDown("C"))
    copies = onward(SECOND), onward(THIRD)
    lone.meet("C", incarnation=2)
    assert data("C", 1, *copies) in lone.receive("C", NOTHING, NAMES)
    lone.receive("C", *TOLD)
    # numbers are new: what the neighbour confirms now is the second and the third
    assert lone.acknowledge("C", 2) == [acknowledged("A", 4, data=3, confirmed=3)]


# --- bounds --------------------------------------------------------------------------------------


def test_a_publication_that_travelled_too_far_is_dropped_and_confirmed():
    lone = between("C", config=BrokerConfig(hops_max=2))
    near, far = publication(1, hop=2, p=1), publication(2, hop=3, p=1)
    assert lone.receive("A", near)[-1] == data("C", 1, onward(near))
    lone.acknowledge("C", 1)
    assert lone.receive("A", far) == [acknowledged("A", 4, data=2, confirmed=2)]


def test_data_is_read_while_there_is_room_where_it_may_go():
    lone = between("C", config=BrokerConfig(link_bytes_max=500))
    lone.receive("A", FIRST)
    assert [lone.broker.reads_data_from(link) for link in ("A", "C", "D", None)] == [True] * 4
    lone.receive("A", SECOND)
    assert [lone.broker.reads_data_from(link) for link in ("A", "C", "D", None)] == [
        False, True, False, False,
    ]  # fmt: skip
    lone.acknowledge("C", 1)
    assert lone.broker.reads_data_from("A")


def test_publishers_idle_longest_are_forgotten():
    seen = SeenPublications(publishers_max=4)
    for publisher in "abcd":
        assert seen.is_new(publisher, 1, 7)
    assert [seen.is_new(publisher, 1, 7) for publisher in "cd"] == [False, False]
    assert len(seen.young) + len(seen.old) <= 4
    for publisher in "ef":
        assert seen.is_new(publisher, 1, 7)
    assert seen.is_new("a", 1, 7)  # nothing is known of it any more


def test_a_publisher_just_heard_is_not_forgotten():
    seen = SeenPublications(publishers_max=2)
    assert seen.is_new("a", 1, 5)
    assert seen.is_new("b", 1, 1)
    assert [seen.is_new("a", 1, 5) for _ in range(3)] == [False] * 3
    assert not seen.is_new("a", 1, 4)
    assert seen.is_new("a", 1, 6)


def test_what_a_broker_counts():
    lone = between("C", "D")
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", parse("p = 1")))
    lone.receive("A", publication(1, p=1), publication(2, p=2), publication(2, p=2))
    lone.ask("c", publish(1, p=1), publish(2, p=2))
    counters = lone.broker.counters
    assert (counters.publications_published, counters.publications_received) == (2, 2)
    assert (counters.duplicates, counters.matched, counters.pure_forwarders) == (1, 2, 1)
    assert (counters.deliveries, counters.false_positives) == (2, 0)
    assert (counters.copies, counters.publications_sent) == (8, {"C": 4, "D": 4})
    assert counters.messages_by_kind == {
        "held": 3, "near": 3, "advs-told": 3, "subs-told": 3, "adv": 3, "sub-ok": 2, "pub": 8,
    }  # fmt: skip


# --- routes on request ---------------------------------------------------------------------------


def routed(lone: Lone, sequence: int, **attributes: Value) -> PublicationRouted:
    """What a client is told of the routes of a publication that it asks for."""
    actions = lone.ask("c", RoutesRequest(sequence), publish(sequence, **attributes))
    told = [reply for a in actions if isinstance(a, SendReply) for reply in a.replies]
    (found,) = (reply for reply in told if isinstance(reply, PublicationRouted))
    return found


def test_a_client_is_told_where_its_publication_went_if_it_asks():
    lone = Lone("A", "C", "D")
    lone.attach("c")
    lone.attach("d")
    lone.ask("c", AdvertiseRequest("a", ANY))
    assert routed(lone, 1, p=1) == PublicationRouted(1, 0, (), False)
    for link in ("A", "C", "D"):
        lone.receive(link, AdvertisementSettled(EntryId("c", "a", 1, 1)))
    assert routed(lone, 2, p=1) == PublicationRouted(2, 0, (), True)
    lone.ask("d", SubscribeRequest("s", TRUE), SubscribeRequest("t", parse("p > 0")))
    for link in ("D", "A"):
        lone.receive(link, subscribe(f"of {link}", "p > 0"))
    assert routed(lone, 3, p=1) == PublicationRouted(3, 1, ("A", "D"), True)
    assert routed(lone, 4, p=0) == PublicationRouted(4, 1, (), True)
    actions = lone.ask("c", publish(5, p=1))
    told = [reply for a in actions if isinstance(a, SendReply) for reply in a.replies]
    assert not any(isinstance(reply, PublicationRouted) for reply in told)


def test_the_routes_come_before_the_confirmation():
    lone = Lone()
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", parse("p > 0")))
    assert lone.ask("c", RoutesRequest(1), publish(1, p=1)) == [
        SendReply("c", (PublicationRouted(1, 0, (), True), PublicationsConfirmed(1)))
    ]


def test_only_an_advertisement_that_admits_the_publication_settles_it():
    lone = Lone("A")
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("low", parse("p < 5")), AdvertiseRequest("high", parse("p > 4")))
    lone.receive("A", AdvertisementSettled(EntryId("c", "low", 1, 1)))
    assert routed(lone, 1, p=1).settled
    assert not routed(lone, 2, p=9).settled


def test_a_neighbour_whose_tables_are_missing_counts_as_one_that_wants_it():
    lone = Lone("A", agreed=False)
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    assert routed(lone, 1, p=1) == PublicationRouted(1, 0, ("A",), False)


def test_a_refused_publication_has_no_routes_and_leaves_no_request_behind():
    lone = Lone()
    lone.attach("c")
    (told,) = lone.ask("c", RoutesRequest(1), publish(1, p=1))
    assert [type(reply) for reply in told.replies] == [Refused, PublicationsConfirmed]
    lone.ask("c", RoutesRequest(1))  # it was here before
    assert not lone.broker.clients.sessions["c"].reported


def test_a_client_may_ask_for_the_routes_of_so_many_to_come_and_no_more():
    lone = Lone()
    lone.attach("c")
    assert lone.ask("c", *map(RoutesRequest, range(1, REPORTED_MAX + 10))) == []
    assert len(lone.broker.clients.sessions["c"].reported) == REPORTED_MAX


@given(
    publications(),
    st.lists(st.tuples(st.sampled_from(["A", "C", "D", "d", "e"]), filters()), max_size=6),
)
def test_the_routes_are_those_whose_subscriptions_match(
    attributes: dict[str, Value], subscriptions: list[tuple[str, Filter]]
):
    lone = Lone("A", "C", "D")
    for client in ("c", "d", "e"):
        lone.attach(client)
    lone.ask("c", AdvertiseRequest("a", ANY))
    for n, (who, wanted) in enumerate(subscriptions):
        if who in ("d", "e"):
            lone.ask(who, SubscribeRequest(f"s{n}", wanted))
        else:
            lone.receive(who, subscribe(f"s{n}", wanted))
    matching = {who for who, wanted in subscriptions if wanted.matches(attributes)}
    links = tuple(sorted(matching - {"d", "e"}))
    expected = PublicationRouted(1, len(matching & {"d", "e"}), links, False)
    assert routed(lone, 1, **attributes) == expected
