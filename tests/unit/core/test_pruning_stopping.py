"""Pruning at one broker: where an unsubscription stops, goes on, or is passed on with its hints."""

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.covering import POLICIES
from byway.model.messages import Hint, Subscribe, Unsubscribe
from tests.lone_broker import acknowledged, publication, subscribe
from tests.unit.core.pruning_scenes import (
    SIMILARITIES,
    P,
    S,
    done,
    fed,
    few,
    gone,
    narrow,
    preserved,
    retired,
    settled,
    stops_with,
    with_burst,
    woken_at,
)


def test_stopped_it_is_removed_here_and_kept_for_the_link():
    lone = with_burst(1)
    assert lone.receive("A", gone("S", P=(0, 0))) == [woken_at(lone), acknowledged("A", 6)]
    assert lone.broker.subscriptions.get(S.id) is None
    assert preserved(lone) == {"S": "C"}
    assert lone.broker.counters.preserved == 1
    assert lone.broker.counters.triggered == 0


def test_what_only_a_preserved_one_lets_through_ends_here():
    lone = with_burst(1)
    lone.receive("A", gone("S", P=(0, 0)))
    assert done(lone.receive("C", publication(1, publisher=P, p=2))) == []
    wanted = publication(2, publisher=P, p=5)
    assert [a[0] for a in done(lone.receive("C", wanted))] == ["D"]


def test_before_the_critical_broker_it_goes_on_one_hop_nearer():
    lone = with_burst(1)
    assert done(lone.receive("A", gone("S", P=(1, 3)))) == [("C", narrow(0), gone("S", P=(0, 2)))]
    assert preserved(lone) == {}
    assert lone.broker.counters.triggered == 1


@pytest.mark.parametrize(
    ("burst", "distances", "stops"),
    [
        (1, (0, 0), False),  # fewer than some: whatever the distance
        (2, (0, 0), True),
        (2, (0, 1), False),  # some: the larger similarity
        (3, (0, 1), False),
        (4, (0, 1), True),  # many: the smaller one will do
        (4, (1, 1), False),
    ],
)
def test_a_larger_burst_is_stopped_by_less_similarity(burst, distances, stops):
    lone = with_burst(burst, stops_with((2, 3)))
    told = done(lone.receive("A", gone("S", P=distances)))
    if stops:
        assert told == [woken_at(lone)]
    else:
        onward = tuple(max(distance - 1, 0) for distance in distances)
        assert told == [("C", *(narrow(n) for n in range(burst)), gone("S", P=onward))]


@pytest.mark.parametrize(
    ("burst", "similarity"),
    [(0, None), (99, None), (100, 0.9), (5_000, 0.9), (5_001, 0.6), (80_000, 0.6)],
)
def test_the_thresholds_of_003_as_its_prose_has_them(burst, similarity):
    policy = POLICIES["incremental"](fed().broker.policy.ops, BrokerConfig())
    assert policy.needed_similarity(burst) == similarity


@pytest.mark.parametrize(("burst", "stops"), [(99, False), (100, True)])
def test_a_hundred_are_a_burst(burst, stops):
    lone = with_burst(burst, BrokerConfig(covering="incremental"))
    told = done(lone.receive("A", gone("S", P=(0, 0))))
    assert len(told[0]) == burst + 2 if not stops else told == [woken_at(lone)]


def test_selective_does_not_ask_for_the_burst():
    lone = with_burst(0, few("selective"))
    hint = (Hint(P, (0,)),)
    assert done(lone.receive("A", Unsubscribe((S.id,), (0.9,), (hint,)))) == [woken_at(lone)]
    assert preserved(lone) == {"S": "C"}


def test_one_publisher_beyond_its_critical_distance_is_not_enough():
    """Two behind one link: it goes on for the other one's sake, with both hints."""
    lone = with_burst(1, P="C", Q="C")
    told = done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 2))))
    assert told == [("C", narrow(0), gone("S", P=(0, 0), Q=(0, 1)))]


def test_all_publishers_behind_a_link_beyond_it_are():
    lone = with_burst(1, P="C", Q="C")
    assert done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 0)))) == [woken_at(lone)]


def test_each_link_is_for_its_own_publishers():
    """C has P, D has Q: stopped towards one, passed on towards the other with its hint alone."""
    lone = fed(P="C", Q="D")
    lone.receive("A", S, narrow(0))
    lone.receive("C", settled("S"))
    lone.receive("D", settled("S"))
    told = done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 2))))
    assert told == [woken_at(lone), ("D", narrow(0), gone("S", Q=(0, 1)))]
    assert preserved(lone) == {"S": "C"}


@pytest.mark.parametrize("order", [("C", "D"), ("D", "C")])
def test_it_may_be_preserved_for_several_links(order):
    lone = fed(**dict(zip(("P", "Q"), order, strict=True)))
    lone.receive("A", S, narrow(0))
    assert done(lone.receive("A", gone("S", P=(0, 0), Q=(0, 0)))) == [
        woken_at(lone), ("A", settled("S")),
    ]  # fmt: skip
    assert preserved(lone) == {"S": "C D"}
    assert lone.broker.counters.preserved == 2


def test_a_publisher_that_is_not_behind_the_link_says_nothing_about_it():
    """Unknown, or behind the link it came from: as if there were no hint."""
    lone = with_burst(1, P="C", Q="A")
    told = done(lone.receive("A", gone("S", Q=(0, 0), R=(0, 0))))
    assert told == [("C", narrow(0), gone("S"))]


def test_without_hints_it_goes_on():
    lone = with_burst(5)
    told = done(lone.receive("A", gone("S")))
    assert told == [("C", *(narrow(n) for n in range(5)), gone("S"))]


def test_several_at_once_are_judged_one_by_one():
    lone = with_burst(1)
    other = subscribe("other", "p < 3")
    lone.receive("A", other, subscribe("behind", "p = 2 AND q = 1"))
    lone.receive("C", settled("other"))
    message = Unsubscribe((other.id, S.id), SIMILARITIES, ((Hint(P, (0, 2)),), (Hint(P, (0, 0)),)))
    told = done(lone.receive("A", message))
    assert told == [
        woken_at(lone),
        ("C", Unsubscribe((other.id,), SIMILARITIES, ((Hint(P, (0, 1)),),))),
    ]  # fmt: skip
    assert preserved(lone) == {"S": "C"}


@pytest.mark.parametrize("message", ["gone", "hinted", "retired"])
def test_several_that_go_together_do_not_stand_in_for_each_other(message):
    lone = fed()
    low, high = subscribe("low", "p > 1"), subscribe("high", "q > 1")
    both = subscribe("both", "p > 5 AND q > 5")
    lone.receive("A", low, high)
    lone.receive("D", both)
    lone.receive("C", settled("low", "high"))
    names = ("high", "low")
    if message == "gone":
        told = done(lone.receive("A", gone(*names)))
    elif message == "hinted":
        told = done(lone.receive("A", gone(*names, P=(3, 3))))
    else:
        told = done(lone.receive("A", retired(*names)))
    assert [m for a in told for m in a[1:] if isinstance(m, Subscribe)] == [both]
    assert preserved(lone) == {}


@pytest.mark.parametrize(
    ("told", "stops"),
    [
        (((0.9,), (0,)), True),
        (((0.9,), (1,)), False),
        (((0.3, 0.5), (0, 0)), True),  # less than is wanted: the most there is
        (((0.3, 0.5), (0, 1)), False),
        (((0.5, 0.95, 0.99), (0, 0, 1)), True),  # the least of what is enough
        (((0.5, 0.95, 0.99), (0, 1, 1)), False),
    ],
)
def test_a_home_that_works_with_other_similarities(told, stops):
    similarities, distances = told
    lone = with_burst(1)
    hints = ((Hint(P, distances),),)
    lone.receive("A", Unsubscribe((S.id,), similarities, hints))
    assert bool(preserved(lone)) is stops


@pytest.mark.parametrize("covering", ["none", "active", "lazy", "packing"])
def test_a_broker_that_stops_nothing_passes_hints_on(covering):
    lone = with_burst(0, BrokerConfig(covering=covering))
    told = done(lone.receive("A", gone("S", P=(0, 4))))
    assert told == [("C", gone("S", P=(0, 3)))]


@pytest.mark.parametrize("covering", ["none", "active", "lazy", "packing"])
def test_a_broker_that_stops_nothing_passes_retirement_on(covering):
    lone = with_burst(0, BrokerConfig(covering=covering))
    assert done(lone.receive("A", retired("S"))) == [("C", retired("S"))]
