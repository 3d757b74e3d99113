"""Backlogs: who holds up whom, by link and by publisher."""

import pytest

from byway.core.backlogs import (
    PUBLISHERS_MAX,
    LinkBacklog,
    PublisherBacklog,
    link_backlogs,
    most_unconfirmed,
    publisher_backlogs,
    sample_backlogs,
)
from byway.core.inputs import FrameReceived, LinkDown
from byway.model import ANY
from byway.model.messages import Acknowledge, AdvertiseRequest, SelectiveAcknowledge
from byway.trace import TraceBuffer
from tests.lone_broker import Lone, body, publication, publish, subscribe
from tests.steps import steps


@pytest.fixture
def lone() -> Lone:
    """B, whose neighbours A, C and D want different things; client c publishes here."""
    lone = Lone("A", "C", "D")
    lone.receive("A", subscribe("s"))
    lone.receive("C", subscribe("t", "p > 1"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.now_us = 100
    return lone


def test_nothing_is_held_up(lone):
    assert link_backlogs(lone.broker) == [LinkBacklog(link, 0, 0, None) for link in "ACD"]
    assert publisher_backlogs(lone.broker, 20) == (0, [])
    assert most_unconfirmed(lone.broker) == (0, 0)


def test_who_holds_up_whom(lone):
    lone.ask("c", publish(1, p=1), publish(2, p=2))
    lone.now_us = 200
    lone.ask("c", publish(3, p=3))
    far = [publication(n, publisher="far", published_us=n, p=n) for n in (40, 41, 42, 43)]
    lone.receive("D", *far)
    lone.receive("C", publication(9, publisher="near", published_us=900, p=0))
    assert link_backlogs(lone.broker) == [
        LinkBacklog("A", 8, 0, 100),
        LinkBacklog("C", 6, 0, 100),  # the first of the queue; clocks of home brokers differ
        LinkBacklog("D", 0, 0, None),
    ]
    worst = [
        PublisherBacklog("far", 1, False, 4, 0, (("A", 4), ("C", 4)), 40),
        PublisherBacklog("c", 1, True, 3, 0, (("A", 3), ("C", 2)), 100),
        PublisherBacklog("near", 1, False, 1, 0, (("A", 1),), 900),
    ]
    assert publisher_backlogs(lone.broker, 20) == (3, worst)
    assert publisher_backlogs(lone.broker, 1) == (3, worst[:1])
    assert most_unconfirmed(lone.broker) == (3, 4)

    control = lone.sent["A"][0]
    lone.handle(FrameReceived("A", SelectiveAcknowledge(control, 8, 1, ((3, 8),))))
    lone.handle(FrameReceived("C", Acknowledge(control, 6, 6)), LinkDown("C"))
    assert link_backlogs(lone.broker) == [
        LinkBacklog("A", 1, 0, 100),
        LinkBacklog("C", 0, 0, None),
        LinkBacklog("D", 0, 0, None),
    ]
    left = PublisherBacklog("c", 1, True, 1, 0, (("A", 1),), 100)
    assert publisher_backlogs(lone.broker, 20) == (1, [left])
    assert most_unconfirmed(lone.broker) == (1, 1)


def test_the_trace_tells_what_each_link_has_not_confirmed(lone):
    lone.ask("c", publish(1, p=1), publish(2, p=2))
    trace = TraceBuffer("B")
    sample_backlogs(lone.broker, trace, 7)
    size = len(body(p=1))
    assert samples(trace.drain()) == [
        ("unconfirmed", "A", 2, 2 * size),
        ("unconfirmed", "C", 1, size),
        ("publisher_unconfirmed", "c", 2, 0),
    ]


def test_the_trace_tells_the_publishers_with_the_most(lone):
    """Up to so many, the worst first; those of two lives of one publisher count together."""
    for number in range(PUBLISHERS_MAX + 5):
        name = f"p{number:02}"
        lone.receive("D", publication(1, publisher=name, p=1), publication(2, publisher=name, p=1))
    lone.receive("D", publication(1, publisher="p07", incarnation=2, p=1))
    lone.receive("D", publication(3, publisher="p24", p=1))
    trace = TraceBuffer("B")
    sample_backlogs(lone.broker, trace, 7)
    found = [row for row in samples(trace.drain()) if row[0] == "publisher_unconfirmed"]
    others = [f"p{number:02}" for number in range(PUBLISHERS_MAX - 1) if number != 7]
    assert found == [
        ("publisher_unconfirmed", name, count, 0)
        for name, count in (("p07", 3), ("p24", 3), *((name, 2) for name in others))
    ]


def test_a_sample_looks_at_no_publisher_while_nothing_is_unconfirmed(lone):
    """However many it knows."""
    counts = []
    for first in (1, 1_000):
        for number in range(first, 2 * first):
            lone.receive("D", publication(1, publisher=f"p{number}", p=1))
        for link in "AC":
            lone.acknowledge(link, lone.broker.link(link).sent[1])
        assert link_backlogs(lone.broker)[0].unconfirmed == 0
        counts.append(steps(lambda: sample_backlogs(lone.broker, TraceBuffer("B"), 7)))
    assert counts[0] == counts[1]


def samples(batch):
    """By row of a trace, its kind, its publisher or link, how many and how many bytes."""
    return [
        (
            batch.names["kind"][row["kind"] - 1],
            batch.names["publisher"][row["publisher"] - 1]
            if row["publisher"]
            else batch.names["link"][row["link"] - 1],
            int(row["count"]),
            int(row["size_bytes"]),
        )
        for row in batch.rows
    ]


def test_a_sample_takes_no_longer_with_more_copies(lone):
    """Sizes are counted as copies come and go."""
    counts = []
    for first in (1, 3, 1_000):
        for number in range(first, 2 * first + 1):
            lone.ask("c", publish(number, p=2))
        counts.append(steps(lambda: sample_backlogs(lone.broker, TraceBuffer("B"), 7)))
    assert counts[0] == counts[1] == counts[2]


def test_neighbours_that_may_connect_are_counted_and_not_named():
    """What is kept for them is copied to each that connects."""
    lone = Lone("A", expects_unlisted=True)
    lone.receive("A", subscribe("s"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.now_us = 100
    lone.ask("c", publish(1, p=1), publish(2, p=2))
    waiting = PublisherBacklog("c", 1, True, 2, 0, (("A", 2),), 100, unlisted=2)
    assert publisher_backlogs(lone.broker, 20) == (1, [waiting])
    lone.acknowledge("A", 2)
    waiting = PublisherBacklog("c", 1, True, 2, 0, (), 100, unlisted=2)
    assert publisher_backlogs(lone.broker, 20) == (1, [waiting])
