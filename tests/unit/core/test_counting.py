"""What a broker counts is what it sends and handles, and its trace has as many rows."""

from collections import Counter

from byway.core.actions import Action, Send
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, LinkUp, NeighbourRemoved
from byway.model import TRUE
from byway.model.measurement import COUNTED, FALSE_POSITIVES, PUBLICATION_HOPS
from byway.model.messages import (
    AdvertisementsSynced,
    Batch,
    Hello,
    SubscribeRequest,
    SubscriptionsSynced,
    UnsubscribeRequest,
)
from byway.model.trace_schema import TraceEvent
from byway.trace import TraceBuffer
from byway.trace.files import record_batch
from tests.lone_broker import NAMES, NOTHING, Lone, advertise, publication, subscribe, unadvertise


class Counting:
    """A lone broker, and the messages in all frames that it has sent."""

    def __init__(self, *links: str, **options) -> None:
        self.lone = Lone(*links, agreed=False, trace=TraceBuffer("B"), **options)
        self.sent: Counter[str] = Counter()
        self._handle, self.lone.handle = self.lone.handle, self.handle  # type: ignore[method-assign]
        self._rows: list[dict] = []

    def handle(self, *events) -> list[Action]:
        actions = self._handle(*events)
        for action in actions:
            if isinstance(action, Send) and isinstance(action.frame, Batch):
                self.sent.update(m.__struct_config__.tag for m in action.frame.messages)
        return actions

    def rows(self) -> list[dict]:
        assert self.lone.trace is not None
        self._rows += record_batch(self.lone.trace.drain(), "r").to_pylist()
        return self._rows

    def check(self) -> Counter[str]:
        """Frames, counters and trace agree. Returns the messages sent, by kind."""
        counters, rows = self.lone.broker.counters, self.rows()
        traced = Counter(
            "pub" if row["event"] == TraceEvent.FORWARDED else row["kind"]
            for row in rows
            if row["event"] in (TraceEvent.FORWARDED, TraceEvent.CONTROL_SENT)
        )
        assert counters.messages_by_kind == self.sent == traced
        for word in COUNTED:
            assert getattr(counters, word.counter) == sum(map(word.rows.holds, rows)), word.name
        return self.sent


def agreed(*links: str, **options) -> Counting:
    counting = Counting(*links, **options)
    for link in links:
        counting.lone.agree(link)
    return counting


def test_what_is_sent_again_over_a_link_that_resumes_counts_again() -> None:
    counting = agreed("A", "C")
    counting.lone.receive("C", subscribe("s"))
    counting.lone.receive("A", publication(1, p=1), publication(2, p=2))
    assert counting.check()["pub"] == 2
    counting.lone.handle(LinkDown("C"))
    received = counting.lone.broker.links["C"].sent[0]
    counting.lone.handle(LinkUp("C", Hello("C", 1, 1, received, 1, 0, epoch=1)))
    assert counting.check()["pub"] == 3


def test_what_was_not_confirmed_counts_again_when_it_is_sent_to_a_neighbour_that_forgot() -> None:
    counting = agreed("A", "C")
    counting.lone.receive("C", subscribe("s"))
    counting.lone.receive("A", publication(1, p=1), publication(2, p=2))
    counting.lone.handle(LinkDown("C"))
    counting.lone.meet("C", incarnation=2)
    counting.lone.receive("C", NOTHING, NAMES)
    counting.lone.receive("C", AdvertisementsSynced())
    counting.lone.receive("C", subscribe("s"), SubscriptionsSynced())
    assert counting.check()["pub"] == 4


def test_a_copy_that_its_neighbour_turns_out_not_to_want_was_never_sent() -> None:
    counting = Counting("A", "N", restarting=True)
    counting.lone.agree("A")
    counting.lone.receive("A", publication(1, p=1), publication(2, p=2))
    assert counting.check()["pub"] == 0
    counting.lone.meet("N")
    counting.lone.receive("N", NOTHING, NAMES, subscribe("s", "p = 2"), AdvertisementsSynced())
    counting.lone.receive("N", SubscriptionsSynced())
    assert counting.check()["pub"] == 1


def test_control_for_a_neighbour_that_is_away_counts_when_it_is_sent() -> None:
    counting = agreed("A", "C")
    counting.lone.handle(LinkDown("C"))
    counting.lone.receive("A", advertise("a"))
    assert counting.check()["adv"] == 0
    received = counting.lone.broker.links["C"].sent[0] - 1
    counting.lone.handle(LinkUp("C", Hello("C", 1, 1, received, 0, 0, epoch=1)))
    assert counting.check()["adv"] == 1


def test_control_that_a_comparison_of_tables_replaces_was_never_sent() -> None:
    counting = agreed("A", "C")
    counting.lone.receive("A", advertise("a"))
    counting.lone.attach("c")
    counting.lone.handle(LinkDown("A"))
    counting.lone.ask("c", SubscribeRequest("s", TRUE))
    counting.lone.ask("c", UnsubscribeRequest(("s",)))
    counting.lone.agree("A", incarnation=2)
    assert counting.check()["sub"] == 0


def test_the_end_of_an_advertisement_counts_when_it_is_sent() -> None:
    counting = agreed("A", "C")
    counting.lone.receive("A", advertise("a"))
    counting.lone.handle(LinkDown("C"))
    counting.lone.receive("A", unadvertise("a"))
    assert counting.check()["unadv"] == 0
    received = counting.lone.broker.links["C"].sent[0]
    counting.lone.handle(LinkUp("C", Hello("C", 1, 1, received, 0, 0, epoch=1)))
    assert counting.check()["unadv"] == 1


def test_a_farewell_counts() -> None:
    counting = agreed("A", "C")
    counting.lone.handle(NeighbourRemoved("C"))
    assert counting.check()["part"] == 1


def test_what_came_too_far_was_not_taken() -> None:
    counting = agreed("A", "C", config=BrokerConfig(hops_max=3))
    counting.lone.receive("A", publication(1, hop=4, p=1), publication(2, hop=3, p=1))
    counting.check()
    assert getattr(counting.lone.broker.counters, PUBLICATION_HOPS.counter) == 1


def test_a_false_positive_is_for_no_client_and_no_other_neighbour() -> None:
    counting = agreed("A", "C")
    counting.lone.receive("C", subscribe("s", "p = 1"))
    counting.lone.attach("c")
    counting.lone.ask("c", SubscribeRequest("s", TRUE))
    counting.lone.receive("A", publication(1, p=1), publication(2, p=2))
    counting.lone.ask("c", UnsubscribeRequest(("s",)))
    assert getattr(counting.lone.broker.counters, FALSE_POSITIVES.counter) == 0
    counting.lone.receive("A", publication(3, p=1), publication(4, p=2))
    counting.check()
    assert getattr(counting.lone.broker.counters, FALSE_POSITIVES.counter) == 1


def test_what_is_kept_for_a_neighbour_that_may_want_it_is_no_false_positive() -> None:
    counting = Counting("A", expects_unlisted=True)
    counting.lone.agree("A")
    counting.lone.receive("A", publication(1, p=1))
    assert counting.check()["pub"] == 0
    assert getattr(counting.lone.broker.counters, FALSE_POSITIVES.counter) == 0


def test_subscriptions_of_a_pack_are_counted_one_by_one() -> None:
    counting = agreed("A", "C", config=BrokerConfig(covering="packing"))
    counting.lone.receive("C", advertise("a"))
    counting.lone.receive("A", subscribe("s", "p = 1"), subscribe("t", "p = 2"))
    assert counting.check()["subs"] == 1
    assert counting.lone.broker.counters.subscriptions_sent == {"C": 2}


def test_without_a_trace_the_same_is_counted() -> None:
    """Publications and the end of an advertisement go out in one frame."""
    counting, silent = agreed("A", "C"), Lone("A", "C")
    for lone in (counting.lone, silent):
        lone.receive("C", subscribe("s"))
        lone.receive("A", advertise("a"))
        lone.receive("A", publication(1, p=1), unadvertise("a"), publication(2, p=1))
    assert counting.check()["unadv"] == 1
    assert list(silent.broker.counters.sent()) == list(counting.lone.broker.counters.sent())
