"""Pruning at the home broker: statistics of what was received, and the hints made of them."""

from byway.core.actions import SendReply
from byway.core.covering.pruning import HINTS_MAX
from byway.core.inputs import ClientDetached
from byway.model import parse
from byway.model.bounds import DELTA_MAX
from byway.model.messages import (
    AdvertiseRequest,
    EntryId,
    Hint,
    Settled,
    Subscribe,
    SubscribeRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from tests.lone_broker import publication, publish
from tests.unit.core.pruning_scenes import (
    MINE,
    SECOND_US,
    SIMILARITIES,
    P,
    advertised_by,
    at_home,
    done,
    fed,
    few,
    preserved,
    woken_at,
)

TWO_HOPS_ON = Unsubscribe((MINE,), SIMILARITIES, ((Hint(P, (2, 2)),),))


def test_a_home_tells_what_it_knows():
    lone = at_home()
    told = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    assert told == [("C", TWO_HOPS_ON)]
    assert len(lone.broker.policy.statistics) == 0


def test_a_client_that_leaves_takes_back_the_same_way():
    lone = at_home()
    assert done(lone.handle(ClientDetached("me"))) == [("C", TWO_HOPS_ON)]


def test_a_filter_in_place_of_another_takes_back_the_same_way():
    lone = at_home()
    told = done(lone.ask("me", SubscribeRequest("mine", parse("p > 9"))))
    second = Subscribe(EntryId("me", "mine", 1, 2), parse("p > 9"))
    told_settled = SendReply("me", (Settled("mine"),))  # by what it stands in for
    assert told == [("C", second, TWO_HOPS_ON), told_settled]


def test_too_few_samples_are_none():
    lone = at_home(publications=1)
    assert done(lone.ask("me", UnsubscribeRequest(("mine",)))) == [("C", Unsubscribe((MINE,)))]


def test_samples_that_are_too_old_are_none():
    lone = at_home(few("incremental", statistics_window_us=SECOND_US))
    lone.now_us += SECOND_US + 1
    assert done(lone.ask("me", UnsubscribeRequest(("mine",)))) == [("C", Unsubscribe((MINE,)))]


def test_others_at_home_are_no_hop_away():
    lone = at_home(publications=0)
    lone.ask("me", SubscribeRequest("also", parse("p > 1")))
    for number in (1, 2):
        lone.receive("C", publication(number, hop=5, distance=4, publisher=P, p=3))
    told = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    assert told == [woken_at(lone)]
    assert preserved(lone) == {"mine": "C"}


def test_publications_of_ones_own_clients_tell_nothing_about_links():
    lone = at_home(publications=0)
    lone.ask("me", AdvertiseRequest("all", parse("p > 0")), publish(1, p=3), publish(2, p=3))
    assert len(lone.broker.policy.statistics) == 0


def test_a_distance_that_a_header_claims_is_no_more_than_soft_links_pass_by_in_its_hops():
    lone = at_home(publications=0)
    for number in (1, 2):
        lone.receive("C", publication(number, hop=2, distance=99, publisher=P, p=3))
    told = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    most = 2 * DELTA_MAX - 1
    assert told == [("C", Unsubscribe((MINE,), SIMILARITIES, ((Hint(P, (most, most)),),)))]


def test_hints_are_of_the_publishers_that_sent_most():
    lone = fed(few("incremental"))
    lone.attach("me")
    lone.ask("me", SubscribeRequest("mine", parse("p > 1")))
    publishers = [f"P{number:03}" for number in range(HINTS_MAX + 5)]
    for publisher in publishers:
        lone.receive("C", advertised_by(publisher))
    for publisher in publishers:
        for number in (1, 2) if publisher >= "P005" else (1,):
            lone.receive("C", publication(number, publisher=publisher, p=3))
    (told,) = done(lone.ask("me", UnsubscribeRequest(("mine",))))
    assert [hint.publisher for hint in told[1].hints[0]] == publishers[5:]


def test_statistics_stay_within_their_bound():
    lone = at_home(few("incremental", statistics_max=8), publications=50)
    assert 4 <= len(lone.broker.policy.statistics) <= 8
