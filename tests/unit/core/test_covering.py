"""Covering policies: what one broker sends on, takes back, and answers for."""

import pytest

from byway.core.actions import SendReply
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown
from byway.core.invariants import validate
from byway.model import parse
from byway.model.messages import (
    EntryId,
    Settled,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    SyncDigest,
    SyncNames,
    Unsubscribe,
    UnsubscribeRequest,
)
from tests.lone_broker import (
    NOTHING,
    Lone,
    acknowledged,
    advertise,
    control,
    entry,
    subscribe,
    unadvertise,
    without_acknowledgements,
)

ACTIVE = BrokerConfig(covering="active")


def fed(*links: str, config: BrokerConfig = ACTIVE) -> Lone:
    """A broker with subscribers behind A, and these neighbours that advertise prices."""
    lone = Lone("A", *links, config=config)
    for link in links:
        lone.receive(link, advertise(f"of {link}", "p > 0"))
    return lone


def sent(actions: list, link: str) -> list:
    """Messages to a neighbour."""
    frames = [a.frame for a in without_acknowledgements(actions) if getattr(a, "link", "") == link]
    return [message for frame in frames for message in frame.messages]


def settled(*names: str) -> SubscriptionsSettled:
    return SubscriptionsSettled(tuple(entry(name) for name in names))


def gone(*names: str) -> Unsubscribe:
    return Unsubscribe(tuple(entry(name) for name in names))


WIDE, NARROW, TWIN = (
    subscribe("wide", "p > 1"), subscribe("narrow", "p > 5"), subscribe("twin", "p > 1"),
)  # fmt: skip


# --- none ----------------------------------------------------------------------------------------


def test_without_covering_everything_is_sent():
    lone = fed("C", config=BrokerConfig())
    assert sent(lone.receive("A", WIDE, NARROW, TWIN), "C") == [WIDE, NARROW, TWIN]
    assert sent(lone.receive("A", gone("wide")), "C") == [gone("wide")]


# --- active: coming ------------------------------------------------------------------------------


def test_a_covered_one_is_not_sent_and_settled_with_its_quencher():
    lone = fed("C")
    assert sent(lone.receive("A", WIDE), "C") == [WIDE]
    assert lone.receive("A", NARROW) == [acknowledged("A", 6)]
    assert sent(lone.receive("C", settled("wide")), "A") == [settled("wide", "narrow")]


def test_a_covered_one_is_settled_at_once_if_its_quencher_is():
    lone = fed("C")
    lone.receive("A", WIDE)
    lone.receive("C", settled("wide"))
    assert lone.receive("A", NARROW) == [control("A", 7, settled("narrow")), acknowledged("A", 6)]


def test_a_broader_one_takes_the_place_of_what_it_covers():
    lone = fed("C")
    lone.receive("A", NARROW, subscribe("other", "p > 7"))
    assert sent(lone.receive("A", WIDE), "C") == [WIDE, gone("narrow")]


def test_equal_filters_the_one_already_sent_stays():
    lone = fed("C")
    lone.receive("A", TWIN)
    assert sent(lone.receive("A", WIDE), "C") == []
    assert lone.broker.subscriptions.get(entry("twin")).forwarded == {"C"}


def test_a_replaced_one_that_was_not_settled_follows_the_broader_one():
    lone = fed("C")
    lone.receive("A", NARROW, WIDE)
    # the answer for the narrow one alone says nothing: it was taken back meanwhile
    assert sent(lone.receive("C", settled("narrow")), "A") == []
    assert sent(lone.receive("C", settled("wide")), "A") == [settled("wide", "narrow")]


def test_followers_of_a_replaced_one_follow_the_broader_one():
    lone = fed("C")
    lone.receive("A", NARROW)
    lone.receive("A", subscribe("narrower", "p > 9"))
    lone.receive("A", WIDE)
    lone.receive("C", settled("narrow"))
    told = sent(lone.receive("C", settled("wide")), "A")
    assert sorted(told[0].ids) == [entry("narrow"), entry("narrower"), entry("wide")]


def sent_twice() -> Lone:
    """The wide one was sent to C, taken back and sent again before any answer came: two are due."""
    lone = fed("C")
    lone.receive("A", WIDE)
    assert sent(lone.receive("C", unadvertise("of C", "p > 0")), "C") == [gone("wide")]
    assert WIDE in sent(lone.receive("C", advertise("again", "p > 0")), "C")
    return lone


def test_followers_wait_for_the_last_of_several_answers():
    lone = sent_twice()
    lone.receive("A", NARROW)
    assert sent(lone.receive("C", settled("wide")), "A") == []
    assert sent(lone.receive("C", settled("wide")), "A") == [settled("wide", "narrow")]


def test_several_answers_that_were_due_are_one_when_the_link_starts_anew():
    lone = sent_twice()
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    assert WIDE in sent(lone.receive("C", NOTHING), "C")
    assert sent(lone.receive("C", settled("wide")), "A") == [settled("wide")]


def test_each_link_has_its_own_quencher():
    """What covers a subscription must be sent to the same link."""
    lone = fed("C", "D")
    lone.receive("C", subscribe("of C", "p > 1"))  # goes to D only
    told = lone.receive("A", NARROW)
    assert (sent(told, "C"), sent(told, "D")) == ([NARROW], [])
    assert sent(lone.receive("C", settled("narrow")), "A") == []  # of D's quencher nothing is known
    assert sent(lone.receive("D", settled("of C")), "A") == [settled("narrow")]


@pytest.mark.parametrize("first", ["low", "high"])
def test_one_quencher_that_is_settled_is_enough(first):
    lone = fed("C")
    lone.receive("A", subscribe("low", "p > 2"))
    lone.receive("A", subscribe("high", "p > 1 AND p < 50"))
    lone.receive("C", settled(first))
    told = lone.receive("A", subscribe("both", "p > 3 AND p < 40"))
    assert sent(told, "A") == [settled("both")]


# --- active: going -------------------------------------------------------------------------------


def test_what_it_stood_for_comes_first():
    lone = fed("C")
    lone.receive("A", WIDE, NARROW)
    assert sent(lone.receive("A", gone("wide")), "C") == [NARROW, gone("wide")]
    assert validate(lone.broker) == []


def test_only_the_broadest_of_what_it_stood_for_comes():
    lone = fed("C")
    lone.receive("A", WIDE, subscribe("x", "p > 9"), NARROW, subscribe("y", "p > 1 AND p < 3"))
    told = sent(lone.receive("A", gone("wide")), "C")
    assert told == [NARROW, subscribe("y", "p > 1 AND p < 3"), gone("wide")]


def test_of_equal_ones_the_smaller_id_comes():
    lone = fed("C")
    lone.receive("A", WIDE, subscribe("z", "p > 5"), subscribe("m", "p > 5"), NARROW)
    assert sent(lone.receive("A", gone("wide")), "C") == [subscribe("m", "p > 5"), gone("wide")]


def test_what_another_still_covers_does_not_come():
    lone = fed("C")
    lone.receive("A", subscribe("left", "p > 1 AND p < 50"), subscribe("right", "p > 2"))
    lone.receive("A", subscribe("both", "p > 3 AND p < 40"))
    assert sent(lone.receive("A", gone("left")), "C") == [gone("left")]
    told = sent(lone.receive("A", gone("right")), "C")
    assert told == [subscribe("both", "p > 3 AND p < 40"), gone("right")]


def test_several_that_go_together_do_not_stand_in_for_each_other():
    lone = fed("C")
    lone.receive("A", WIDE, NARROW, subscribe("x", "p > 9"))
    told = sent(lone.receive("A", gone("wide", "narrow")), "C")
    assert told == [subscribe("x", "p > 9"), gone("wide")]


def test_a_covered_one_that_goes_is_nobodys_news():
    lone = fed("C")
    lone.receive("A", WIDE, NARROW)
    assert lone.receive("A", gone("narrow"))[:-1] == [control("A", 6, settled("narrow"))]
    assert lone.receive("A", gone("narrow")) == [acknowledged("A", 8)]


def test_what_was_never_settled_is_answered_when_it_ends():
    lone = fed("C", config=BrokerConfig())
    lone.receive("A", WIDE)
    assert sent(lone.receive("A", gone("wide")), "A") == [settled("wide")]


def test_a_follower_is_settled_when_it_is_sent_itself():
    """Its quencher goes before it was settled: the follower is sent, and awaits its own answer."""
    lone = fed("C")
    lone.receive("A", WIDE, NARROW)
    told = lone.receive("A", gone("wide"))
    assert (sent(told, "C"), sent(told, "A")) == ([NARROW, gone("wide")], [settled("wide")])
    assert sent(lone.receive("C", settled("wide")), "A") == []
    assert sent(lone.receive("C", settled("narrow")), "A") == [settled("narrow")]


# --- active: advertisements come and go ----------------------------------------------------------


def test_a_new_advertisement_draws_the_broadest():
    lone = Lone("A", "C", config=ACTIVE)
    lone.receive("A", NARROW, TWIN, WIDE, subscribe("unrelated", "q > 1"))
    told = lone.receive("C", advertise("a", "p > 0"))
    assert [type(m).__name__ for m in sent(told, "A")] == ["Advertise"]
    assert sent(told, "C") == [TWIN]  # it has the smaller id
    assert sent(lone.receive("C", advertise("b", "p > 0")), "C") == []


def test_what_an_advertisement_fed_alone_is_taken_back():
    lone = Lone("A", "C", config=ACTIVE)
    lone.receive("C", advertise("p", "p > 0"), advertise("q", "q > 0"))
    lone.receive("A", WIDE, NARROW, subscribe("q", "q > 1"))
    told = lone.receive("C", unadvertise("p", "p > 0"))
    assert sent(told, "C") == [gone("wide")]


def test_what_it_stood_for_and_is_still_fed_comes_when_the_broader_one_goes():
    """The broad one is fed by p alone, the narrow one by q too."""
    lone = Lone("A", "C", config=ACTIVE)
    lone.receive("C", advertise("p", "p > 0"), advertise("both", "p > 50 AND q > 0"))
    low = subscribe("low", "p < 99")
    special = subscribe("special", "p < 99 AND q > 1")
    lone.receive("A", low, special)
    lone.receive("C", unadvertise("both", "p > 50 AND q > 0"))
    assert lone.broker.subscriptions.get(entry("low")).forwarded == {"C"}
    lone.receive("C", advertise("both", "p > 50 AND q > 0"))
    assert validate(lone.broker) == []


# --- settlement of local clients -----------------------------------------------------------------


def test_a_client_is_told_when_the_quencher_is_settled():
    lone = fed("C")
    lone.attach("c")
    lone.ask("c", SubscribeRequest("wide", parse("p > 1")))
    assert lone.ask("c", SubscribeRequest("narrow", parse("p > 5"))) == []
    answer = SubscriptionsSettled((EntryId("c", "wide", 1, 1),))
    assert lone.receive("C", answer)[-1] == SendReply("c", (Settled("wide"), Settled("narrow")))


def test_a_narrower_filter_in_place_of_a_broader_one():
    lone = fed("C")
    lone.attach("c")
    lone.ask("c", SubscribeRequest("s", parse("p > 1")))
    told = lone.ask("c", SubscribeRequest("s", parse("p > 5")))
    first, second = EntryId("c", "s", 1, 1), EntryId("c", "s", 1, 2)
    assert told == [control("C", 6, Subscribe(second, parse("p > 5")), Unsubscribe((first,)))]


def test_a_quencher_whose_link_starts_anew_is_awaited_again():
    lone = fed("C")
    lone.attach("c")
    lone.ask("c", SubscribeRequest("wide", parse("p > 1")))
    lone.receive("C", SubscriptionsSettled((EntryId("c", "wide", 1, 1),)))
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    lone.receive("C", NOTHING)  # it lost everything, and is told again
    assert lone.ask("c", SubscribeRequest("narrow", parse("p > 5"))) == []
    answer = SubscriptionsSettled((EntryId("c", "wide", 1, 1),))
    assert lone.receive("C", answer)[-1] == SendReply("c", (Settled("narrow"),))


def test_a_quencher_that_a_neighbour_holds_unsettled_is_awaited_again():
    """It is back with a state from before its own answer."""
    lone = fed("C")
    lone.receive("A", WIDE)
    lone.receive("C", settled("wide"))
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    other = SyncDigest((), (1,) * 64)  # whatever it holds, names are asked for
    lone.receive("C", other)
    lone.receive("C", SyncNames((), ((entry("wide"), False),)))
    assert sent(lone.receive("A", NARROW), "A") == []
    assert sent(lone.receive("C", settled("wide")), "A") == [settled("narrow")]


def test_unsubscribing_several_is_one_message_a_link():
    lone = fed("C", "D", config=BrokerConfig())
    lone.receive("D", advertise("q", "q > 0"))
    lone.attach("c")
    for name, wanted in (("a", "p > 1"), ("b", "p > 2"), ("c", "q > 3")):
        lone.ask("c", SubscribeRequest(name, parse(wanted)))
    ids = [EntryId("c", name, 1, number) for number, name in enumerate("abc", start=1)]
    assert lone.ask("c", UnsubscribeRequest(("c", "b", "a"))) == [
        control("C", 9, Unsubscribe(tuple(ids[:2]))),
        control("D", 9, Unsubscribe(tuple(ids))),
    ]


def test_what_one_of_many_equal_ones_costs_does_not_grow_with_their_square():
    """A popular filter: the one that was forwarded goes, the next takes its place."""
    listed = []
    for count in (50, 100):
        lone = fed("C")
        lone.receive("A", *[subscribe(f"s{number:03}", "p > 1") for number in range(count)])
        ops = lone.broker.policy.ops
        answers = []
        ops.covering = counting(ops.covering, answers)
        ops.covered_by = counting(ops.covered_by, answers)
        told = sent(lone.receive("A", gone("s000")), "C")
        assert told == [subscribe("s001", "p > 1"), gone("s000")]
        listed.append(sum(answers))
    assert listed[1] < 3 * listed[0]


def counting(ask, answers: list[int]):
    def asked(filter, origin):
        found = ask(filter, origin)
        answers.append(len(found))
        return found

    return asked
