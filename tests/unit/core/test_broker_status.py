"""What others see of a broker: facts that do not change with it, and single answers."""

import pytest

from byway.core.broker import Broker
from byway.core.broker_status import BrokerFacts, LinkFacts, SessionFacts, SessionTotals
from byway.core.inputs import ClientDetached, LinkDown, Started
from byway.core.sync_state import Missing, SyncPhase
from byway.model import ANY, TRUE
from byway.model.errors import RemoteProtocolError
from byway.model.messages import AdvertiseRequest, Hello, LinkKind, SubscribeRequest
from tests.lone_broker import Lone, body, publication, publish, subscribe, twin_of


@pytest.fixture
def lone() -> Lone:
    """A is connected and in sync, C is away; c1 is connected, c2 is away and has a delivery."""
    lone = Lone("A", "C")
    lone.handle(LinkDown("C"))
    lone.attach("c1", ttl_us=1_000)
    lone.attach("c2", ttl_us=1_000)
    lone.ask("c1", AdvertiseRequest("a", ANY))
    lone.ask("c2", SubscribeRequest("s", TRUE))
    lone.handle(ClientDetached("c2"))
    lone.receive("A", subscribe("s"))
    lone.ask("c1", publish(1, p=1))
    return lone


def test_the_status_of_a_broker(lone):
    size = len(body(p=1))
    assert lone.broker.status() == BrokerFacts(
        name="B",
        incarnation=1,
        links=(
            LinkFacts("A", LinkKind.PRIMARY, "", True, True, 1, 6, (6, 1), (5, 0), 0,
                      SyncPhase.SYNCED, True, False, None, ()),
            LinkFacts("C", LinkKind.PRIMARY, "", False, True, 0, 5, (5, 0), (4, 0), 0,
                      SyncPhase.SYNCED, True, False, None, ("C",)),
        ),
        sessions=SessionTotals(attached=1, away=1, kept=1, kept_bytes=size),
        advertisements=1,
        subscriptions=2,
        restarting=False,
        recovered=True,
        unreachable=("C",),
        held_deliveries=0,
    )  # fmt: skip


def test_single_answers_are_those_of_the_status(lone):
    broker, status = lone.broker, lone.broker.status()
    assert tuple(broker.links.values()) == status.links
    assert [broker.link(name) for name in ("A", "C", "D")] == [*status.links, None]
    assert broker.neighbours == ("A", "C")
    assert [broker.is_neighbour(name) for name in "ACD"] == [True, True, False]
    assert broker.links_up == ["A"]
    assert [broker.unconfirmed(name) for name in "ACD"] == [1, 0, 0]
    assert [kept.sequence for kept in broker.unconfirmed_publications("A")] == [1]
    assert (broker.unreachable, broker.unreachable_behind("A")) == (["C"], ())
    assert broker.session_totals() == status.sessions
    assert status.sessions.sessions == 2


def test_sessions(lone):
    broker, size = lone.broker, len(body(p=1))
    assert broker.sessions == {
        "c1": SessionFacts("c1", 1, True, 1_000, 1, 1, 0, 0),
        "c2": SessionFacts("c2", 1, False, 1_000, 0, 1, 1, size, 1),
    }
    assert list(broker.each_session()) == list(broker.sessions.values())
    assert (broker.session("c1"), broker.session("c3")) == (broker.sessions["c1"], None)
    assert broker.clients_attached == ["c1"]
    assert [delivery.number for delivery in broker.kept_deliveries("c2")] == [1]
    assert [entry.id.name for entry in broker.unsettled()] == ["a"]  # C has not answered
    assert [entry.id.name for entry in broker.advertisements_of("c1")] == ["a"]
    assert list(broker.subscriptions_of("c1")) == list(broker.subscriptions_of("c3")) == []
    local = list(broker.each_local_subscription())
    assert local == list(broker.subscriptions_of("c2"))
    assert {entry.origin.client for entry in local} == {"c2"}
    assert broker.local_subscriptions == len(local) == 1


def test_facts_stay_as_they_were(lone):
    before = lone.broker.status()
    again = lone.broker.status()
    lone.receive("A", publication(1, p=1))
    assert before == again != lone.broker.status()


def test_a_broker_without_state_names_what_is_missing():
    lone = Lone("A", agreed=False)
    assert lone.broker.missing == {"A": Missing.ALL}
    assert not lone.broker.is_recovered
    assert not lone.broker.has_compared_with("A")
    lone.agree("A")
    assert lone.broker.missing == {}
    assert lone.broker.is_recovered
    assert lone.broker.has_compared_with("A")
    assert lone.broker.neighbours_of("A") == ("B",)


def test_who_is_no_neighbour_yet_is_greeted_and_judged(lone):
    assert lone.broker.hello("D") == Hello("B", 1, 0, 0, 0, 0)
    lone.broker.check_hello("D", Hello("D", 1, 0, 0, 0, 0), lone.broker.hello("D"))
    with pytest.raises(RemoteProtocolError, match="has incarnation 0"):
        lone.broker.check_hello("D", Hello("D", 0, 0, 0, 0, 0), None)
    assert not lone.broker.is_neighbour("D")


def test_a_twin_has_the_same_connections(lone):
    assert twin_of(lone.broker).status() == lone.broker.status()
    alone = Broker.restore(lone.broker.snapshot())
    assert (alone.links_up, alone.clients_attached, alone.sessions_stale) == ([], [], False)


def test_stale_sessions_end_when_the_broker_starts(lone):
    broker = Broker.restore(lone.broker.snapshot(), stale=True)
    assert broker.sessions_stale
    broker.handle(1, Started())
    assert (broker.sessions, broker.sessions_stale) == ({}, False)
