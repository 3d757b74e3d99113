"""Requests that wait for the broker: handed in by parts, a share of every client a turn."""

from hypothesis import given
from hypothesis import strategies as st

from byway.core.inputs import ClientRequested
from byway.model import TRUE, parse
from byway.model.constraints import NumberRange, NumberSet
from byway.model.filters import Filter
from byway.model.messages import (
    AdvertiseRequest,
    DeliveriesReceived,
    PublishRequest,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.runtime.requests import NAMES_MAX, SHARE_LEAST, RequestQueues
from byway.transport.intake import cost_of

ROOM = 1_024
SMALL = SubscribeRequest("s", TRUE)


def long_filter(alternatives: int = 64, members: int = 300) -> Filter:
    """Each alternative must be compared with each other one, member by member."""
    return Filter.of(
        {
            "a": NumberRange(excluded=tuple(range(1_000, 1_000 + members - at))),
            "z": NumberSet((at,)),
        }
        for at in range(alternatives)
    )


def publications(count: int, size: int = 8, first: int = 1) -> tuple[PublishRequest, ...]:
    return tuple(PublishRequest(n, bytes(size)) for n in range(first, first + count))


def turns(queues: RequestQueues, publications: bool = True) -> list[list[ClientRequested]]:
    """What is taken, turn by turn, until nothing is."""
    taken = []
    while (events := queues.take(ROOM, publications)[0]) != []:
        taken.append(events)
    return taken


def requests_of(taken: list[list[ClientRequested]], client: str) -> list[Request]:
    return [r for turn in taken for event in turn if event.client == client for r in event.requests]


def test_a_frame_of_a_million_requests_is_many_turns():
    queues = RequestQueues()
    asked = tuple(map(DeliveriesReceived, range(1_000_000)))
    queues.put("c", asked, 9_000_000)
    assert (queues.count, queues.waiting_from("c")) == (1_000_000, (1_000_000, 9_000_000))
    taken = turns(queues)
    assert max(sum(len(e.requests) for e in turn) for turn in taken) <= ROOM
    assert requests_of(taken, "c") == list(asked)
    assert (queues.count, queues.bytes, queues.waiting_from("c")) == (0, 0, (0, 0))


def test_long_filters_are_one_a_turn_and_another_client_waits_for_one_of_them_at_most():
    queues = RequestQueues()
    filter = long_filter()
    queues.put("hostile", tuple(SubscribeRequest(str(n), filter) for n in range(18)), 4_000_000)
    queues.put("honest", (SMALL,), 100)
    queues.put("publisher", publications(5), 100)
    taken = turns(queues)
    assert len(taken) == 18
    assert all(len(e.requests) == 1 for turn in taken for e in turn if e.client == "hostile")
    first_two = requests_of(taken[:2], "honest") + requests_of(taken[:2], "publisher")
    assert first_two == [SMALL, *publications(5)]


def test_every_client_has_a_share_of_every_turn():
    queues = RequestQueues()
    for client in range(10):
        queues.put(f"c{client}", publications(5_000), 50_000)
    (first, *_) = turns(queues)
    shares = [len(requests_of([first], f"c{client}")) for client in range(10)]
    assert min(shares) >= ROOM // 10
    assert sum(shares) == ROOM


def test_with_many_clients_nobody_waits_for_more_than_a_share_of_each():
    queues = RequestQueues()
    for client in range(500):
        queues.put(f"c{client}", publications(5_000), 50_000)
    queues.put("last", publications(1), 10)
    turn = 0
    while not any(e.client == "last" for e in queues.take(ROOM, True)[0]):
        turn += 1
    assert turn <= 500 * SHARE_LEAST // ROOM + 1


def test_room_that_others_leave_is_used():
    queues = RequestQueues()
    queues.put("busy", publications(2_000), 20_000)
    for client in range(20):
        queues.put(f"c{client}", publications(1), 10)
    (first, *_) = turns(queues)
    assert sum(len(event.requests) for event in first) == ROOM


def test_subscribing_overtakes_publications_and_counts():
    queues = RequestQueues()
    queues.put("c", publications(3_000), 30_000)
    queues.put("c", (SMALL, UnsubscribeRequest(("s",))), 100)
    assert queues.waiting_from("c") == (3_002, 30_100)
    (first, *_) = turns(queues)
    assert first[0] == ClientRequested("c", (SMALL, UnsubscribeRequest(("s",))))


def test_while_publications_are_not_wanted_what_stands_before_them_is_taken():
    queues = RequestQueues()
    before = (AdvertiseRequest("a", TRUE), UnadvertiseRequest("b"))
    queues.put("c", (*before, *publications(2)), 100)
    assert turns(queues, publications=False) == [[ClientRequested("c", before)]]
    assert queues.count == 2
    assert turns(queues) == [[ClientRequested("c", publications(2))]]


def test_whoever_does_not_read_waits():
    queues = RequestQueues()
    queues.put("deaf", (SMALL,), 10)
    queues.put("c", (SMALL,), 10)
    assert queues.take(ROOM, True, {"deaf": 0.0}) == ([ClientRequested("c", (SMALL,))], ["c"])
    assert queues.take(ROOM, True)[1] == ["deaf"]


def test_many_names_are_taken_back_in_parts():
    queues = RequestQueues()
    names = tuple(map(str, range(3 * NAMES_MAX + 1)))
    queues.put("c", (UnsubscribeRequest(names),), 10_000)
    taken = turns(queues)
    assert len(taken) == 4
    parts = requests_of(taken, "c")
    assert tuple(name for part in parts for name in part.names) == names  # type: ignore[union-attr]
    assert max(len(part.names) for part in parts) <= NAMES_MAX  # type: ignore[union-attr]


def test_long_publications_are_few_a_turn():
    queues = RequestQueues()
    queues.put("c", publications(20, 262_144), 20 * 262_144)
    taken = turns(queues)
    assert max(sum(len(e.requests) for e in turn) for turn in taken) <= 4


def test_a_client_that_is_gone_leaves_nothing():
    queues = RequestQueues()
    queues.put("c", publications(10), 100)
    queues.put("c", (SMALL,), 10)
    queues.put("d", (SMALL,), 10)
    queues.drop("c")
    assert (queues.count, queues.bytes) == (1, 10)
    assert turns(queues) == [[ClientRequested("d", (SMALL,))]]


def test_what_a_request_costs():
    assert cost_of(SMALL) == 1
    assert cost_of(publications(1)[0]) == 1
    assert cost_of(SubscribeRequest("s", parse("x > 1 AND y = 'a'"))) == 1
    assert cost_of(SubscribeRequest("s", long_filter())) > ROOM
    assert cost_of(UnsubscribeRequest(("a", "b"))) == 3


kinds = st.one_of(
    st.builds(PublishRequest, st.integers(1, 9), st.just(b"x")),
    st.just(SMALL),
    st.builds(DeliveriesReceived, st.integers(0, 9)),
    st.builds(UnadvertiseRequest, st.just("a")),
)
frames = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(kinds, min_size=1, max_size=60).map(tuple)),
    max_size=12,
)


@given(frames, st.integers(1, 40))
def test_all_is_taken_once_and_in_order(asked: list[tuple[str, tuple[Request, ...]]], room: int):
    queues = RequestQueues()
    for client, requests in asked:
        queues.put(client, requests, len(requests))
    taken: list[tuple[str, Request]] = []
    while queues:
        events, _ = queues.take(room, True)
        taken += [(e.client, r) for e in events for r in e.requests]
    assert (queues.count, queues.bytes) == (0, 0)
    overtaking = (SubscribeRequest, DeliveriesReceived)
    for client in "abc":
        of_frames = [requests for name, requests in asked if name == client]
        first = [r for rs in of_frames if all(isinstance(r, overtaking) for r in rs) for r in rs]
        rest = [r for rs in of_frames if not all(isinstance(r, overtaking) for r in rs) for r in rs]
        got = [r for name, r in taken if name == client]
        assert sorted(map(repr, got)) == sorted(map(repr, first + rest))
        assert [r for r in got if isinstance(r, PublishRequest | UnadvertiseRequest)] == [
            r for r in rest if isinstance(r, PublishRequest | UnadvertiseRequest)
        ]
