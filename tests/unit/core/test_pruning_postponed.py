"""Pruning at a congested broker: unsubscriptions are postponed, and decided later."""

from tests.lone_broker import Lone, subscribe
from tests.unit.core.pruning_scenes import (
    CONGESTED,
    RELIEVED,
    S,
    done,
    gone,
    narrow,
    preserved,
    preserving,
    retired,
    settled,
    stops_with,
    tick,
    until_retired,
    with_burst,
    woken_at,
)


def congested(burst: int = 1, **settings: object) -> Lone:
    lone = with_burst(burst, stops_with(congestion_queue=10, **settings))
    lone.handle(CONGESTED)
    return lone


def test_a_congested_broker_postpones_what_it_would_pass_on():
    lone = congested()
    assert done(lone.receive("A", gone("S", P=(3, 3)))) == [woken_at(lone)]
    assert preserved(lone) == {"S": "C"}
    assert lone.broker.subscriptions.get(S.id) is None
    assert tick(lone) == [woken_at(lone)]
    lone.handle(RELIEVED)
    assert tick(lone) == [("C", narrow(0), gone("S", P=(2, 2)))]
    assert preserved(lone) == {}


def test_what_was_postponed_may_be_stopped_after_all():
    lone = congested(3, retire_batch=2)
    lone.receive("A", gone("S", P=(0, 0)))
    lone.handle(RELIEVED)
    tick(lone)
    assert preserved(lone) == {"S": "C"}
    assert lone.broker.counters.triggered <= 2
    assert until_retired(lone)[-1][-1] == retired("S")
    assert lone.broker.counters.triggered == 3


def test_what_was_postponed_quenches_meanwhile():
    lone = congested()
    lone.receive("A", gone("S", P=(3, 3)))
    assert done(lone.receive("D", narrow(7))) == [("D", settled("n007"))]
    lone.handle(RELIEVED)
    assert tick(lone) == [("C", narrow(7), narrow(0), gone("S", P=(2, 2)))]


def test_a_broader_one_ends_what_was_postponed():
    lone = congested()
    lone.receive("A", gone("S", P=(3, 3)))
    wide = subscribe("wide", "p > 0")
    assert done(lone.receive("D", wide)) == [("C", wide, retired("S"))]
    lone.handle(RELIEVED)
    assert tick(lone) == []


def test_several_that_were_postponed_are_decided_one_after_the_other():
    lone = congested()
    lone.receive("A", subscribe("top", "p > 0 AND r = 1"))
    lone.receive("C", settled("top"))
    lone.receive("D", subscribe("mid", "p > 0 AND r = 1 AND s > 0"))
    other = subscribe("low", "p > 0 AND s = 3")
    lone.receive("A", other)
    lone.receive("C", settled("low"))
    lone.receive("A", gone("top", "low", P=(3, 3)))
    lone.handle(RELIEVED)
    told = tick(lone)
    assert told == [("C", subscribe("mid", "p > 0 AND r = 1 AND s > 0"), gone("top", P=(2, 2)),
                     gone("low", P=(2, 2)))]  # fmt: skip
    assert preserved(lone) == {}


def test_retirement_is_postponed_too():
    lone = congested()
    assert done(lone.receive("A", retired("S"))) == [woken_at(lone)]
    lone.handle(RELIEVED)
    assert tick(lone) == [("C", narrow(0), retired("S"))]
    assert preserved(lone) == {}


def test_a_broker_that_never_looks_after_anything_postpones_nothing():
    lone = congested(retire_interval_us=0)
    assert done(lone.receive("A", gone("S", P=(3, 3)))) == [("C", narrow(0), gone("S", P=(2, 2)))]


def test_nothing_is_retired_while_congested():
    lone = preserving(1, stops_with(congestion_queue=10))
    lone.handle(CONGESTED)
    assert tick(lone) == [woken_at(lone)]
    lone.handle(RELIEVED)
    assert tick(lone)[-1][:2] == ("C", narrow(0))
