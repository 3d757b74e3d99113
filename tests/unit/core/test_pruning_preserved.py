"""What a preserved subscription does at its broker until it is retired or replaced."""

import pytest

from byway.core.inputs import NeighbourRemoved, TimerFired
from byway.core.takeover import TIMER as TAKEOVER_TIMER
from byway.model import parse
from byway.model.messages import Advertise, EntryId, Unadvertise
from tests.lone_broker import subscribe
from tests.unit.core.pruning_scenes import (
    SECOND_US,
    P,
    S,
    done,
    fed,
    gone,
    narrow,
    preserved,
    preserving,
    retired,
    settled,
    tick,
    unadvertised_by,
)


@pytest.mark.parametrize("wanted", ["p > 3", "p > 1"], ids=["narrower", "equal"])
def test_it_quenches_as_if_alive(wanted):
    lone = preserving()
    assert done(lone.receive("D", subscribe("new", wanted))) == [("D", settled("new"))]
    assert preserved(lone) == {"S": "C"}


def test_a_broader_one_takes_its_place():
    lone = preserving()
    wide = subscribe("wide", "p > 0")
    assert done(lone.receive("D", wide)) == [("C", wide, retired("S"))]
    assert preserved(lone) == {}
    assert lone.broker.counters.retired == 1


def test_one_that_it_does_not_cover_is_sent():
    lone = preserving()
    other = subscribe("other", "p < 9")
    assert done(lone.receive("D", other)) == [("C", other)]
    assert preserved(lone) == {"S": "C"}


def test_what_it_stands_for_may_go_too():
    lone = preserving()
    assert done(lone.receive("D", gone("n000"))) == []
    assert preserved(lone) == {"S": "C"}


def test_it_stands_for_what_another_one_stood_for():
    """The other one goes: nothing need be sent in its place."""
    lone = preserving()
    wide = subscribe("half", "p < 9")
    lone.receive("D", wide, subscribe("two", "p = 2"))
    assert done(lone.receive("D", gone("half"))) == [("C", gone("half")), ("D", settled("half"))]
    assert preserved(lone) == {"S": "C"}


def test_one_that_is_not_settled_has_followers_still():
    lone = fed()
    lone.receive("A", S)
    lone.receive("D", narrow(0))
    lone.receive("A", gone("S", P=(0, 0)))
    assert preserved(lone) == {"S": "C"}
    assert done(lone.receive("D", narrow(1))) == []
    assert done(lone.receive("C", settled("S"))) == [("D", settled("n000", "n001"))]


def test_it_dies_with_the_last_advertisement_that_feeds_it():
    lone = preserving()
    lone.receive("C", Advertise(EntryId("Q", "a", 1, 1), parse("p > 100")))
    unadvertised = unadvertised_by(P)
    assert retired("S") not in [m for a in done(lone.receive("C", unadvertised)) for m in a]
    assert preserved(lone) == {"S": "C"}
    again = Unadvertise(EntryId("Q", "a", 1, 1), parse("p > 100"))
    assert ("C", retired("S")) in done(lone.receive("C", again))
    assert preserved(lone) == {}


def test_it_dies_on_the_link_whose_advertisement_goes():
    lone = fed(P="C", Q="D")
    lone.receive("A", S, narrow(0))
    lone.receive("A", gone("S", P=(0, 0), Q=(0, 0)))
    assert preserved(lone) == {"S": "C D"}
    lone.receive("C", unadvertised_by(P))
    assert preserved(lone) == {"S": "D"}


def test_a_neighbour_that_is_removed_takes_it_along():
    lone = preserving()
    lone.handle(NeighbourRemoved("C"))
    assert preserved(lone) == {}
    assert tick(lone) == []


def test_a_neighbour_that_it_came_from_does_not():
    lone = preserving()
    lone.handle(NeighbourRemoved("A"))
    assert preserved(lone) == {"S": "C"}
    assert tick(lone) == [("C", narrow(0), retired("S"))]


def test_taken_back_twice_it_is_taken_back_once():
    lone = preserving()
    assert done(lone.receive("A", gone("S"), retired("S"))) == []
    assert preserved(lone) == {"S": "C"}


def test_a_neighbour_that_begins_the_same_id_again_harms_nobody():
    """It is back with an older state. What the preserved one stood for must not be bare."""
    lone = preserving()
    lone.receive("A", subscribe("S", "q > 0"))
    assert preserved(lone) == {}
    assert lone.broker.subscriptions.get(narrow(0).id).forwarded == {"C"}


def test_one_id_is_not_preserved_and_alive():
    """A link is moved: D tells of S too, and does not take it back with A."""
    lone = fed()
    lone.receive("A", S, narrow(0))
    lone.receive("C", settled("S"))
    lone.receive("D", S)
    lone.receive("A", gone("S", P=(0, 0)))
    lone.now_us += 60 * SECOND_US
    lone.handle(TimerFired(TAKEOVER_TIMER))
    assert preserved(lone) == {}
    assert lone.broker.subscriptions.get(S.id).origin.link == "D"
