"""Requests of clients that wait: by parts, a share of every client a turn, and what may overtake
what."""

from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Input
from byway.inbox import TURN, Inbox
from byway.inbox.request_lots import NAMES_MAX
from byway.inbox.shares import SHARE_LEAST
from byway.model import TRUE
from byway.model.constraints import NumberRange, NumberSet
from byway.model.filters import Filter
from byway.model.messages import (
    AdvertiseRequest,
    DeliveriesReceived,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.model.request_costs import cost_of
from tests.unit.inbox.inputs import ALL, SUBSCRIBE, UNSUBSCRIBE, Room, publications, turns

NO_ROOM = Room()
ADVERTISE = AdvertiseRequest("a", TRUE)
GOODBYE = ClientDetached("c", for_good=True)
ATTACHED = ClientAttached("c", 2)


def long_filter(alternatives: int = 64, members: int = 300) -> Filter:
    """Each alternative must be compared with each other one, member by member."""
    return Filter.of(
        {
            "a": NumberRange(excluded=tuple(range(1_000, 1_000 + members - at))),
            "z": NumberSet((at,)),
        }
        for at in range(alternatives)
    )


def requested(*requests: Request, client: str = "c") -> ClientRequested:
    return ClientRequested(client, requests)


def requests_of(taken: list[list[Input]], client: str) -> list[Request]:
    return [
        request
        for turn in taken
        for event in turn
        if isinstance(event, ClientRequested) and event.client == client
        for request in event.requests
    ]


def counts(inbox: Inbox, client: str) -> tuple[int, tuple[int, int]]:
    return inbox.waiting, inbox.requests.waiting_from(client)


# --- shares ---------------------------------------------------------------------------------------


def test_a_frame_of_a_million_requests_is_many_turns() -> None:
    inbox = Inbox()
    asked = tuple(map(DeliveriesReceived, range(1_000_000)))
    inbox.put_requests("c", asked, 9_000_000)
    assert counts(inbox, "c") == (1_000_000, (1_000_000, 9_000_000))
    taken = turns(inbox)
    assert max(len(requests_of([turn], "c")) for turn in taken) <= TURN
    assert requests_of(taken, "c") == list(asked)
    assert (*counts(inbox, "c"), inbox.requests.bytes) == (0, (0, 0), 0)


def test_long_filters_are_one_a_turn_and_another_client_waits_for_one_of_them_at_most() -> None:
    inbox = Inbox()
    filter = long_filter()
    asked = tuple(SubscribeRequest(str(n), filter) for n in range(18))
    inbox.put_requests("hostile", asked, 4_000_000)
    inbox.put_requests("honest", (SUBSCRIBE,), 100)
    inbox.put_requests("publisher", publications(5), 100)
    taken = turns(inbox)
    assert len(taken) == 18
    assert all(len(requests_of([turn], "hostile")) == 1 for turn in taken)
    first_two = requests_of(taken[:2], "honest") + requests_of(taken[:2], "publisher")
    assert first_two == [SUBSCRIBE, *publications(5)]


def test_every_client_has_a_share_of_every_turn() -> None:
    inbox = Inbox()
    for client in range(10):
        inbox.put_requests(f"c{client}", publications(5_000), 50_000)
    first = inbox.take(ALL)
    shares = [len(requests_of([first], f"c{client}")) for client in range(10)]
    assert min(shares) >= TURN // 10
    assert sum(shares) == TURN


def test_with_many_clients_nobody_waits_for_more_than_a_share_of_each() -> None:
    inbox = Inbox()
    for client in range(500):
        inbox.put_requests(f"c{client}", publications(5_000), 50_000)
    inbox.put_requests("last", publications(1), 10)
    turn = 0
    while not any(event.client == "last" for event in inbox.take(ALL)):
        turn += 1
    assert turn <= 500 * SHARE_LEAST // TURN + 1


def test_room_that_others_leave_is_used() -> None:
    inbox = Inbox()
    inbox.put_requests("busy", publications(2_000), 20_000)
    for client in range(20):
        inbox.put_requests(f"c{client}", publications(1), 10)
    assert sum(len(event.requests) for event in inbox.take(ALL)) == TURN


def test_many_names_are_taken_back_in_parts() -> None:
    inbox = Inbox()
    names = tuple(map(str, range(3 * NAMES_MAX + 1)))
    inbox.put_requests("c", (UnsubscribeRequest(names),), 10_000)
    assert counts(inbox, "c") == (4, (4, 10_000))
    taken = turns(inbox)
    assert len(taken) == 4
    parts = requests_of(taken, "c")
    assert tuple(name for part in parts for name in part.names) == names  # type: ignore[union-attr]
    assert max(len(part.names) for part in parts) <= NAMES_MAX  # type: ignore[union-attr]
    assert inbox.waiting == 0


def test_long_publications_are_few_a_turn() -> None:
    inbox = Inbox()
    inbox.put_requests("c", publications(20, 262_144), 20 * 262_144)
    taken = turns(inbox)
    assert max(len(requests_of([turn], "c")) for turn in taken) <= 4
    assert requests_of(taken, "c") == list(publications(20, 262_144))


def test_what_a_request_costs() -> None:
    assert cost_of(SUBSCRIBE) == 1
    assert cost_of(publications(1)[0]) == 1
    assert cost_of(SubscribeRequest("s", long_filter())) > TURN
    assert cost_of(UnsubscribeRequest(("a", "b"))) == 3


def test_whoever_does_not_read_waits() -> None:
    inbox = Inbox()
    inbox.deaf = {"deaf": 0.0}
    inbox.put_requests("deaf", (SUBSCRIBE,), 10)
    inbox.put_requests("c", (SUBSCRIBE,), 10)
    assert turns(inbox) == [[requested(SUBSCRIBE)]]
    inbox.deaf = ()
    assert turns(inbox) == [[requested(SUBSCRIBE, client="deaf")]]


# --- overtaking -----------------------------------------------------------------------------------


def test_subscribing_overtakes_publications_and_counts() -> None:
    inbox = Inbox()
    inbox.put_requests("c", publications(3_000), 30_000)
    inbox.put_requests("c", (SUBSCRIBE, UNSUBSCRIBE), 100)
    assert counts(inbox, "c") == (3_002, (3_002, 30_100))
    assert inbox.take(ALL) == [requested(SUBSCRIBE, UNSUBSCRIBE), requested(*publications(TURN))]


def test_while_publications_wait_what_stands_before_them_is_taken() -> None:
    inbox = Inbox()
    before = (ADVERTISE, UnadvertiseRequest("b"))
    inbox.put_requests("c", (*before, *publications(2)), 100)
    assert inbox.requests.has_ready(())
    assert turns(inbox, NO_ROOM) == [[requested(*before)]]
    assert (counts(inbox, "c"), inbox.requests.has_ready(())) == ((2, (2, 100)), False)
    assert turns(inbox) == [[requested(*publications(2))]]
    assert inbox.requests.bytes == 0


def test_an_unsubscription_does_not_overtake_its_subscription_in_a_mixed_frame() -> None:
    inbox = Inbox()
    inbox.put_requests("c", publications(1))
    inbox.put_requests("c", (ADVERTISE, SUBSCRIBE))
    inbox.put_requests("c", (UNSUBSCRIBE,))
    inbox.put_requests("d", (UNSUBSCRIBE,))
    assert turns(inbox, NO_ROOM) == [[requested(UNSUBSCRIBE, client="d")]]
    assert turns(inbox) == [
        [requested(*publications(1)), requested(ADVERTISE, SUBSCRIBE), requested(UNSUBSCRIBE)]
    ]
    inbox.put_requests("c", publications(1))
    inbox.put_requests("c", (UNSUBSCRIBE,))  # nothing to wait for any more
    assert turns(inbox, NO_ROOM) == [[requested(UNSUBSCRIBE)]]


def test_a_publication_does_not_overtake_an_earlier_subscription() -> None:
    inbox = Inbox()
    many = tuple(map(DeliveriesReceived, range(TURN + 1)))
    inbox.put_requests("c", (*many, SUBSCRIBE))
    inbox.put_requests("c", publications(1))
    inbox.put_requests("d", publications(1))
    assert turns(inbox) == [
        [requested(*many[:TURN]), requested(*publications(1), client="d")],
        [requested(many[TURN], SUBSCRIBE), requested(*publications(1))],
    ]


# --- goodbyes, and who comes back -----------------------------------------------------------------


def test_a_goodbye_comes_after_what_the_client_sent_before_it() -> None:
    inbox = Inbox()
    inbox.put_requests("c", publications(TURN))
    inbox.put_requests("c", publications(1, first=TURN + 1))
    inbox.put_requests("c", (SUBSCRIBE,))
    inbox.put_attachment(GOODBYE)
    assert counts(inbox, "c")[0] == TURN + 3
    assert turns(inbox, NO_ROOM) == [[requested(SUBSCRIBE)]]
    assert turns(inbox) == [
        [requested(*publications(TURN))],
        [requested(*publications(1, first=TURN + 1)), GOODBYE],
    ]
    assert counts(inbox, "c") == (0, (0, 0))


def test_a_goodbye_waits_for_subscriptions_that_do_not_fit_into_a_turn() -> None:
    inbox = Inbox()
    inbox.put_requests("c", tuple(map(DeliveriesReceived, range(TURN + 1))))
    inbox.put_attachment(GOODBYE)
    assert [turn[-1] for turn in turns(inbox)] == [
        requested(*map(DeliveriesReceived, range(TURN))),
        GOODBYE,
    ]


def test_who_comes_back_is_attached_after_the_goodbye_and_asks_after_that() -> None:
    inbox = Inbox()
    inbox.put_requests("c", publications(1))
    inbox.put_attachment(GOODBYE)
    inbox.put_attachment(ATTACHED)
    inbox.put_requests("c", (SUBSCRIBE,))
    assert turns(inbox, NO_ROOM) == []
    assert turns(inbox) == [[requested(*publications(1)), GOODBYE, ATTACHED, requested(SUBSCRIBE)]]


def test_a_connection_that_is_lost_leaves_what_an_earlier_one_sent() -> None:
    for room in (ALL, NO_ROOM):
        inbox = Inbox()
        inbox.put_requests("c", publications(2), 20)
        inbox.put_requests("d", publications(1), 10)
        inbox.put_attachment(GOODBYE)
        inbox.put_attachment(ATTACHED)
        inbox.put_requests("c", (SUBSCRIBE,), 30)
        if room is NO_ROOM:
            inbox.take(room)  # what waits stands by client now
        assert not inbox.drop_connection("c")
        assert counts(inbox, "c") == (4, (3, 20))
        assert requests_of([list(inbox)], "c") == list(publications(2))
        [turn] = turns(inbox)
        assert [e for e in turn if e.client == "c"] == [requested(*publications(2)), GOODBYE]
        assert (inbox.waiting, inbox.requests.bytes) == (0, 0)
        inbox.put_requests("c", publications(1))
        inbox.put_requests("c", (SUBSCRIBE,))  # overtakes again
        assert inbox.take(ALL)[0] == requested(SUBSCRIBE)


def test_a_client_that_is_gone_leaves_nothing() -> None:
    for room in (ALL, NO_ROOM):
        inbox = Inbox()
        inbox.put_requests("c", publications(10), 100)
        inbox.put_requests("c", (SUBSCRIBE,), 10)
        inbox.put_requests("d", (ADVERTISE, *publications(1)), 10)
        inbox.put_requests("c", (ADVERTISE, SUBSCRIBE), 10)
        if room is NO_ROOM:
            inbox.take(room)
            inbox.put_requests("c", (SUBSCRIBE,), 10)
        assert inbox.drop_connection("c")
        assert inbox.requests.bytes == 10
        assert not inbox.requests.has("c")
        left = publications(1) if room is NO_ROOM else (ADVERTISE, *publications(1))
        assert turns(inbox) == [[requested(*left, client="d")]]
        assert inbox.waiting == 0
        assert inbox.drop_connection("c")


def test_dropping_a_client_tells_whether_it_said_goodbye() -> None:
    inbox = Inbox()
    inbox.put_requests("c", publications(1))
    inbox.put_attachment(GOODBYE)
    inbox.put_attachment(ATTACHED)
    assert (inbox.drop_client("c"), inbox.waiting) == (True, 0)
    inbox.put_requests("c", publications(1))
    assert (inbox.drop_client("c"), inbox.waiting) == (False, 0)
    assert not inbox.drop_client("c")
