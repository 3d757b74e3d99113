"""The oracle excuses what is under way between a broker and its clients, and nothing else: brokers
and clients are tampered with while answers and deliveries are on their way or in a session."""

import pytest

from byway.core.actions import SendReply
from byway.model.messages import Attached, Delivery, PublicationsConfirmed, Refused
from tests.sim.test_checkers import SECOND, Case, Tampered, on_replies, replace

pytestmark = pytest.mark.sim

LATENCY_US = 10_000


def tamper(case, change, at="B3"):
    """From now on, the replies of a broker are changed."""
    node = case.world.nodes[at]
    node.broker = Tampered(node.broker, on_replies(change))


def dropping(kind, client="sink"):
    """Leaves out the replies of a kind to a client."""
    return lambda to, replies: [r for r in replies if to != client or type(r) is not kind]


def account(client):
    return client.watch.observed


def wait(case, us):
    case.world.run(case.world.now_us + us)


def test_what_is_under_way_is_not_missing():
    """It is confirmed before it arrives."""
    case = Case(latency_us=LATENCY_US)
    case.source.latency_us = 0
    case.source.vanish()
    case.source.come_back()
    case.world.quiet(SECOND)
    case.publish()
    while case.source.unconfirmed:
        case.world.step()
    assert case.world.metrics().deliveries == 0
    assert len(account(case.sink).under_way) == 3
    assert case.report().ok
    assert case.world.metrics().deliveries == 3


def test_a_delivery_that_is_never_sent_is_missed():
    case = Case(latency_us=LATENCY_US)
    tamper(case, dropping(Delivery))
    case.publish(1)
    counts, sentence = case.counts()
    assert counts == {"missing": 1}
    assert "was confirmed without client sink of B3 having it" in sentence


def test_a_confirmation_that_is_sent_before_the_delivery_is_seen_though_it_arrives_later():
    def confirm(actions):
        return [*actions, SendReply("source", (PublicationsConfirmed(1),))]

    case = Case(confirm, at="B1", latency_us=LATENCY_US)
    case.publish(1)
    assert case.report().missing == 1
    assert case.sink.deliveries == 1


def test_a_delivery_that_never_arrives_is_missed():
    case = Case(latency_us=LATENCY_US)
    case.publish(1)
    wait(case, LATENCY_US + 5_000)
    for line in case.world._clock.later.values():
        line[:] = [event for event in line if event[2].__name__ != "_arrive"]
    assert case.report().missing == 1


@pytest.mark.parametrize("is_sent_again", [True, False])
def test_what_was_under_way_when_the_connection_broke_must_be_sent_again(is_sent_again):
    case = Case(ttl_us=SECOND, latency_us=LATENCY_US)
    case.publish(2)
    wait(case, LATENCY_US + 5_000)
    assert len(account(case.sink).under_way) == 2
    case.sink.vanish()
    wait(case, LATENCY_US)
    assert len(account(case.sink).unreceived) == 2
    if not is_sent_again:
        tamper(case, dropping(Delivery))
    case.sink.come_back()
    report = case.report()
    assert report.missing == 2 * (not is_sent_again)
    assert report.ok == is_sent_again


def test_what_was_lost_for_want_of_room_excuses_nothing_else():
    case = Case(ttl_us=SECOND, latency_us=LATENCY_US, session_messages_max=2)
    case.sink.vanish()
    case.publish(5)
    wait(case, 50_000)
    case.sink.come_back()
    assert case.world.quiet(SECOND)
    assert (case.sink.core.deliveries.lost, case.sink.deliveries) == (3, 2)
    tamper(case, dropping(Delivery))
    case.publish(1)
    counts, _ = case.counts()
    assert counts == {"missing": 1}
    assert case.world.metrics().lost_in_sessions == 3


def test_a_broker_that_says_too_much_was_lost_is_seen():
    """It drops one delivery that it need not, and counts it as lost."""

    def lose(client, replies):
        if client != "sink" or not isinstance(replies[0], Attached):
            return replies
        return [
            replace(replies[0], lost=1),
            *(r for r in replies[1:] if not isinstance(r, Delivery) or r.number > 1),
        ]

    case = Case(ttl_us=SECOND, latency_us=LATENCY_US)
    tamper(case, lose)
    case.publish(2)
    wait(case, LATENCY_US + 5_000)
    case.sink.vanish()
    wait(case, LATENCY_US)
    case.sink.come_back()
    counts, sentence = case.counts()
    assert counts == {"sessions": 1}
    assert "client sink of B3 lost 1 deliveries though its session had room" in sentence


def test_a_client_that_says_it_has_what_it_has_not_is_seen():
    case = Case(ttl_us=SECOND, latency_us=LATENCY_US)
    case.publish(1)
    wait(case, LATENCY_US + 5_000)
    case.sink.vanish()
    case.sink.core.deliveries.received = 1
    case.sink.come_back()
    report = case.report()
    assert report.protocol == 1
    assert any("says it has 1 deliveries, has 0" in said for said in report.violations)
    assert report.missing == 1


def test_a_client_that_gives_up_a_session_that_is_kept_is_seen():
    case = Case(ttl_us=SECOND)
    case.sink.vanish()
    case.sink.core.attaching._is_kept = False
    case.sink.come_back()
    counts, sentence = case.counts()
    assert counts == {"sessions": 1}
    assert "client sink of B3 gives up a session that is kept" in sentence


def test_a_refusal_that_is_not_told_again_is_seen():
    case = Case(ttl_us=SECOND, latency_us=LATENCY_US)
    case.source.unadvertise("a1")
    case.source.publish({"p": 1})
    wait(case, LATENCY_US + 1_000)
    case.source.vanish()  # the refusal is under way
    wait(case, LATENCY_US)
    tamper(case, dropping(Refused, "source"), "B1")
    case.source.come_back()
    counts, sentence = case.counts()
    assert counts == {"refusals": 1}
    assert "client source of B1 is told that publication 1 is confirmed, which was ref" in sentence


def test_a_session_that_is_another_than_the_client_means_is_seen():
    """The broker forgets; the client does not hear that, and is told that it is resumed."""

    def resumed(client, replies):
        if client == "sink" and isinstance(replies[0], Attached):
            answers.append(replace(replies[0], resumed=bool(answers)))
            return [answers[-1], *replies[1:]]
        return replies

    answers = []
    case = Case(ttl_us=SECOND, latency_us=LATENCY_US)
    case.world.crash("B3")
    case.world.restart("B3", stored=False)
    tamper(case, resumed)
    while not answers:
        case.world.step()
    case.sink.vanish()
    case.sink.come_back()
    report = case.report()
    assert any("sink of B3 is in a session that was lost" in said for said in report.violations)


def test_what_a_broker_holds_though_nobody_wants_it_is_seen():
    case = Case()
    case.sink._subscriptions.clear()
    counts, sentence = case.counts()
    assert (counts, sentence) == (
        {"unsettled": 1},
        "B3 holds subscription p >= 0 of sink, at rest",
    )


def test_what_a_broker_lacks_is_seen():
    case = Case()
    case.sink.core.registrations.remove(case.sink.registration("s1"))
    case.sink.vanish()
    case.sink.come_back()
    counts, sentence = case.counts()
    assert (counts, sentence) == (
        {"unsettled": 1},
        "B3 lacks subscription p >= 0 of sink, at rest",
    )
