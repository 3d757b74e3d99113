"""What clients may hold at one broker, each and all together, and what happens at the bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.core.actions import SendReply, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientDetached, Started, TimerFired
from byway.core.session_deliveries import DELIVERY_BYTES
from byway.model import ANY, TRUE, parse
from byway.model.messages import (
    SESSION,
    AdvertiseRequest,
    Attached,
    DeliveriesReceived,
    PublishRequest,
    Refused,
    Request,
    Settled,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from tests.lone_broker import Lone, body

TTL = 86_400_000_000


def replies(actions: list, client: str) -> list:
    """What a client is told."""
    return [
        r for a in actions if isinstance(a, SendReply) and a.client == client for r in a.replies
    ]


# --- sessions ------------------------------------------------------------------------------------


def test_abandoned_sessions_are_bounded_and_one_more_client_is_taken_in_without():
    lone = Lone(config=BrokerConfig(sessions_max=3))
    for number in range(3):
        assert replies(lone.attach(f"c{number}", ttl_us=TTL), f"c{number}") == [Attached(False, 0)]
        lone.handle(ClientDetached(f"c{number}"))
    reason = "3 sessions are kept here already, the most there may be"
    assert replies(lone.attach("late", ttl_us=TTL), "late") == [
        Attached(False, 0),
        Refused(SESSION, reason),
    ]
    lone.handle(ClientDetached("late"))
    assert sorted(lone.broker.sessions) == ["c0", "c1", "c2"]


def test_a_stranger_cannot_end_the_session_of_another_client():
    lone = Lone(config=BrokerConfig(sessions_max=3))
    lone.attach("honest", ttl_us=TTL)
    lone.ask("honest", SubscribeRequest("s", TRUE))
    lone.handle(ClientDetached("honest"))
    for number in range(50):
        lone.attach(f"stranger{number}", ttl_us=TTL)
        lone.handle(ClientDetached(f"stranger{number}"))
    told = replies(lone.attach("honest", ttl_us=TTL), "honest")
    assert told == [Attached(True, 0), Settled("s")]
    lone.handle(ClientDetached("honest"))
    assert lone.broker.sessions["honest"].ttl_us == TTL


def test_a_session_that_ended_makes_room_for_another():
    lone = Lone(config=BrokerConfig(sessions_max=1))
    lone.attach("first", ttl_us=TTL)
    lone.handle(ClientDetached("first"))
    lone.handle(TimerFired(Timer("session", "first")))
    assert replies(lone.attach("second", ttl_us=TTL), "second") == [Attached(False, 0)]


def test_clients_without_a_session_need_no_room_for_one():
    lone = Lone(config=BrokerConfig(sessions_max=0))
    assert replies(lone.attach("c"), "c") == [Attached(False, 0)]


def publish(lone: Lone, first: int, count: int, size: int) -> None:
    requests = [PublishRequest(n, body(p=1, text="x" * size)) for n in range(first, first + count)]
    lone.ask("publisher", *requests)


def absent_subscriber(lone: Lone, name: str, wanted: str) -> None:
    lone.attach(name, ttl_us=TTL)
    lone.ask(name, SubscribeRequest("s", parse(wanted)))
    lone.handle(ClientDetached(name))


def kept_bytes(lone: Lone) -> int:
    """What all sessions keep, as it is counted."""
    sessions = lone.broker.session_totals()
    return sessions.kept_bytes + DELIVERY_BYTES * sessions.kept


def test_what_all_sessions_keep_is_bounded_and_each_has_its_share():
    share = 10_000
    config = BrokerConfig(sessions_max=10, sessions_bytes_max=10 * 2 * share)
    lone = Lone(config=config)
    lone.attach("publisher")
    lone.ask("publisher", AdvertiseRequest("a", ANY))
    for number in range(9):
        absent_subscriber(lone, f"stranger{number}", "p = 1")
    publish(lone, 1, 200, 700)
    assert kept_bytes(lone) <= config.sessions_bytes_max
    absent_subscriber(lone, "honest", "p = 1")
    publish(lone, 201, 8, 700)
    kept = lone.broker.kept_deliveries("honest")
    assert [delivery.number for delivery in kept] == list(range(1, 9))  # its share is its own
    assert kept_bytes(lone) <= config.sessions_bytes_max
    publish(lone, 209, 200, 700)
    assert kept_bytes(lone) <= config.sessions_bytes_max
    for name, session in lone.broker.sessions.items():
        if name != "publisher":
            assert session.kept_bytes + DELIVERY_BYTES * (session.kept + 1) > share - 1_000


def test_one_that_lost_deliveries_to_the_bound_is_told():
    lone = Lone(config=BrokerConfig(sessions_max=1, sessions_bytes_max=8_000))
    lone.attach("publisher")
    lone.ask("publisher", AdvertiseRequest("a", ANY))
    absent_subscriber(lone, "c", "p = 1")
    publish(lone, 1, 20, 700)
    kept = lone.broker.sessions["c"].kept
    assert 0 < kept < 20
    attached, *_ = replies(lone.attach("c", ttl_us=TTL), "c")
    assert attached == Attached(True, 0, lost=20 - kept)


# --- what clients hold ---------------------------------------------------------------------------


def test_subscriptions_and_advertisements_of_one_client_are_bounded():
    lone = Lone(config=BrokerConfig(client_entries_max=2))
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", TRUE), AdvertiseRequest("a", ANY))
    reason = "3 subscriptions and advertisements of this client: at most 2"
    assert replies(lone.ask("c", SubscribeRequest("t", TRUE)), "c") == [Refused("t", reason)]
    assert replies(lone.ask("c", AdvertiseRequest("b", ANY)), "c") == [Refused("b", reason)]
    told = replies(lone.ask("c", SubscribeRequest("s", parse("x > 1"))), "c")
    assert told == [Settled("s")]  # in the place of another
    lone.ask("c", UnsubscribeRequest(("s",)))
    assert replies(lone.ask("c", AdvertiseRequest("b", ANY)), "c") == [Settled("b")]
    lone.attach("other")
    assert replies(lone.ask("other", SubscribeRequest("s", TRUE)), "other") == [Settled("s")]


def test_those_of_all_clients_are_bounded():
    lone = Lone(config=BrokerConfig(local_entries_max=2))
    for client in ("c", "d"):
        lone.attach(client)
        lone.ask(client, SubscribeRequest("s", TRUE))
    lone.attach("e")
    reason = "3 subscriptions and advertisements of all clients here: at most 2"
    assert replies(lone.ask("e", SubscribeRequest("s", TRUE)), "e") == [Refused("s", reason)]
    lone.handle(ClientDetached("c", for_good=True))
    assert replies(lone.ask("e", SubscribeRequest("s", TRUE)), "e") == [Settled("s")]


@pytest.mark.parametrize("bound", ["client_filter_bytes_max", "local_filter_bytes_max"])
def test_bytes_of_filters_are_bounded(bound: str):
    lone = Lone(config=BrokerConfig(**{bound: 5_000}))
    lone.attach("c")
    wide = parse(f"x IN ({', '.join(map(str, range(1_000, 2_000)))})")
    assert replies(lone.ask("c", SubscribeRequest("s", wide)), "c") == [Settled("s")]
    (told,) = replies(lone.ask("c", SubscribeRequest("t", wide)), "c")
    assert isinstance(told, Refused)
    assert "bytes of filters" in told.reason
    assert "at most 5000" in told.reason
    lone.ask("c", UnsubscribeRequest(("s",)))
    assert replies(lone.ask("c", SubscribeRequest("t", wide)), "c") == [Settled("t")]


names = st.sampled_from(("a", "b", "c"))
texts = st.sampled_from(("x = 1", "x IN (1, 2, 3)", "x LIKE 'abc%' OR y = 2"))
requests = st.one_of(
    st.builds(SubscribeRequest, names, texts.map(parse)),
    st.builds(AdvertiseRequest, names, st.sampled_from((ANY, parse("p > 0")))),
    st.builds(UnadvertiseRequest, names),
    st.builds(lambda ns: UnsubscribeRequest(tuple(ns)), st.lists(names, max_size=3)),
    st.builds(DeliveriesReceived, st.integers(0, 40)),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(("one", "two")),
        st.one_of(requests, st.sampled_from(("come", "go", "leave", "publish"))),
    ),
    max_size=40,
)


@given(steps)
def test_what_is_counted_is_what_is_there(taken: list[tuple[str, Request | str]]):
    config = BrokerConfig(sessions_max=2, sessions_bytes_max=4_000, client_entries_max=3)
    lone = Lone(config=config)
    lone.attach("publisher")
    lone.ask("publisher", AdvertiseRequest("a", ANY))
    sequence = 0
    for client, step in taken:
        if step == "come":
            lone.attach(client, ttl_us=TTL)
        elif step in ("go", "leave"):
            lone.handle(ClientDetached(client, for_good=step == "leave"))
        elif step == "publish":
            sequence += 1
            lone.ask("publisher", PublishRequest(sequence, body(x=1, text="x" * 500)))
        elif isinstance(step, Request):
            lone.ask(client, step)
        assert counts(lone.broker) == recounted(lone.broker)
    again = Broker.restore(lone.broker.snapshot(), config)
    again.handle(1, Started())
    assert counts(again) == recounted(again)


def counts(broker: Broker) -> list[object]:
    clients, beyond = broker.clients, broker.deliveries.beyond_shares
    own = [(c.name, c.filter_bytes, c.beyond_share) for c in clients.sessions.values()]
    return [clients.durable, beyond, clients.entries, clients.filter_bytes, own]


def recounted(broker: Broker) -> list[object]:
    broker.clients.recount()
    return counts(broker)
