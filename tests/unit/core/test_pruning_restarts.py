"""Preserved and postponed subscriptions, and statistics, over links that come back and restarts."""

import pytest

from byway.core.broker import Broker
from byway.core.inputs import LinkDown, LinkUp, Started
from byway.core.subscriptions import TIMER
from byway.model.messages import Hello
from tests.lone_broker import NOTHING, TOLD, Lone, subscribe
from tests.unit.core.pruning_scenes import (
    CONGESTED,
    MINE,
    RELIEVED,
    STOPS,
    P,
    S,
    advertised_by,
    at_home,
    done,
    fed,
    few,
    gone,
    narrow,
    preserved,
    preserving,
    settled,
    stops_with,
    tick,
    with_burst,
    woken_at,
)


def test_a_link_that_resumes_is_told_nothing():
    lone = preserving()
    received, _ = lone.broker.links["C"].sent
    lone.handle(LinkDown("C"))
    hello = Hello("C", 1, 1, received, 0, 0, epoch=lone.broker.hello("C").epoch)
    told = done(lone.handle(LinkUp("C", hello)))
    assert [m for a in told if isinstance(a, tuple) for m in a[1:]] == []
    assert preserved(lone) == {"S": "C"}


def test_answers_that_a_link_lost_are_not_waited_for():
    """S was sent twice before the neighbour answered; it starts anew, and answers once."""
    lone = fed()
    lone.receive("A", S)
    lone.receive("D", narrow(0), subscribe("wide", "p > 0"))
    lone.receive("D", gone("wide"))
    lone.receive("A", gone("S", P=(0, 0)))
    assert preserved(lone) == {"S": "C"}
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    assert ("C", S) in [(a[0], m) for a in done(lone.receive("C", NOTHING)) for m in a[1:]]
    lone.receive("C", advertised_by("Q"))
    lone.receive("C", *TOLD)
    lone.receive("C", settled("S"))
    assert narrow(0) in tick(lone)[-1]


@pytest.mark.parametrize("when", ["preserved", "half way", "postponed"])
def test_restored_it_does_what_it_would_have_done(when):
    config = stops_with(retire_batch=1, congestion_queue=10)
    lone = with_burst(3, config) if when == "postponed" else preserving(3, config)
    if when == "half way":
        tick(lone)
    elif when == "postponed":
        lone.handle(CONGESTED)
        lone.receive("A", gone("S", P=(2, 2)))
    twin = Lone("A", "C", "D", config=config, agreed=False)
    twin.broker = Broker.restore(lone.broker.snapshot(), config, up=lone.broker.links_up)
    twin.now_us, twin.sent = lone.now_us, {link: list(n) for link, n in lone.sent.items()}
    for event in (
        subscribe("late", "p = 4"), None, gone("n001"), RELIEVED, None, None, None, None, None,
    ):  # fmt: skip
        told = []
        for each in (lone, twin):
            if event is None:
                told.append(tick(each))
            elif event is RELIEVED:
                told.append(done(each.handle(event)))
            else:
                told.append(done(each.receive("D", event)))
        assert told[0] == told[1]
        assert lone.broker.snapshot() == twin.broker.snapshot()
    assert preserved(lone) == preserved(twin) == {}


def test_statistics_survive_a_restart():
    config = few("incremental", statistics_max=2)
    lone = at_home(config)
    restored = Broker.restore(lone.broker.snapshot(), config)
    restored.handle(lone.now_us, Started())
    assert len(restored.policy.statistics) == 2
    restored.handle(lone.now_us, LinkUp("C", Hello("C", 1, 0, 0, 0, 0)))
    rows = restored.policy.statistics.take(restored.subscriptions.get(MINE).key, lone.now_us)
    assert [row[:2] for row in rows] == [(P, 2), (P, 3)]


def test_a_timer_is_set_again_after_a_restart():
    lone = preserving()
    restored = Broker.restore(lone.broker.snapshot(), STOPS)
    assert woken_at(lone) in restored.handle(lone.now_us, Started())
    idle = Broker.restore(with_burst(1).broker.snapshot(), STOPS)
    assert not [a for a in idle.handle(0, Started()) if getattr(a, "timer", None) == TIMER]
