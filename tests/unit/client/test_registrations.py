"""What a client asks its broker for: new, changed, taken back, and again after a loss."""

from byway.client.registrations import NAMES_MAX, Registration, Registrations
from byway.model import parse
from byway.model.messages import (
    AdvertiseRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)

CHEAP, DEAR = parse("price < 9"), parse("price > 90")


class Wanted(Registration):
    is_subscription = True


def test_every_request_has_a_name_of_its_own() -> None:
    holdings = Registrations()
    subscription, advertisement = Wanted("x", [CHEAP, DEAR]), Registration("x", [CHEAP])
    assert holdings.add(subscription) == [
        SubscribeRequest("x.1.1", CHEAP),
        SubscribeRequest("x.1.2", DEAR),
    ]
    assert holdings.add(advertisement) == [AdvertiseRequest("x.2.3", CHEAP)]
    assert holdings.remove(subscription) == [UnsubscribeRequest(("x.1.1", "x.1.2"))]
    assert holdings.remove(subscription) == []
    assert holdings.remove(advertisement) == [UnadvertiseRequest("x.2.3")]


def test_it_is_settled_when_all_its_filters_are() -> None:
    holdings, subscription = Registrations(), Wanted("s", [CHEAP, DEAR])
    assert not subscription.is_settled
    holdings.add(subscription)
    holdings.settled("s.1.1")
    holdings.settled("s.1.1")
    assert not subscription.is_settled
    holdings.settled("s.1.2")
    assert subscription.is_settled


def test_an_answer_to_the_old_filter_does_not_settle_the_new_one() -> None:
    holdings, subscription = Registrations(), Wanted("s", [CHEAP])
    holdings.add(subscription)
    assert holdings.replace(subscription, [DEAR]) == [
        SubscribeRequest("s.1.2", DEAR),
        UnsubscribeRequest(("s.1.1",)),
    ]
    holdings.settled("s.1.1")
    assert not subscription.is_settled
    holdings.settled("s.1.2")
    assert subscription.is_settled
    assert subscription.filters == (DEAR,)


def test_deliveries_of_a_filter_that_was_replaced_find_their_way() -> None:
    holdings, subscription = Registrations(), Wanted("with.dots", [CHEAP])
    holdings.add(subscription)
    holdings.replace(subscription, [DEAR])
    assert holdings.holding_of("with.dots.1.1") is subscription
    assert holdings.holding_of("with.dots.1.2") is subscription
    holdings.remove(subscription)
    assert holdings.holding_of("with.dots.1.2") is None
    assert holdings.holding_of("nonsense") is None
    assert holdings.holding_of("a.b.c") is None


def test_a_refusal_is_kept_with_the_facts() -> None:
    holdings, advertisement = Registrations(), Registration("a", [CHEAP])
    holdings.add(advertisement)
    holdings.refused("a.1.1", "too many")
    assert str(advertisement.error) == "advertisement a was refused: too many"


def test_a_new_session_asks_for_everything_and_advertises_first() -> None:
    holdings = Registrations()
    subscription, advertisement = Wanted("s", [CHEAP]), Registration("a", [DEAR])
    gone = Wanted("gone", [CHEAP])
    for holding in (subscription, advertisement, gone):
        holdings.add(holding)
    holdings.settled("s.1.1")
    holdings.remove(gone)
    assert holdings.restart() == [AdvertiseRequest("a.2.2", DEAR), SubscribeRequest("s.1.1", CHEAP)]
    assert not subscription.is_settled
    assert list(holdings.awaited.values()) == [advertisement]
    holdings.settled("a.2.2")
    assert not holdings.awaited


def test_an_advertisement_that_is_refused_or_taken_back_is_not_awaited() -> None:
    holdings = Registrations()
    refused, taken_back = Registration("a", [DEAR]), Registration("b", [DEAR])
    holdings.add(refused)
    holdings.add(taken_back)
    holdings.restart()
    holdings.refused("a.1.1", "no")
    holdings.remove(taken_back)
    assert not holdings.awaited


def test_a_session_that_goes_on_asks_for_what_is_not_settled_by_a_new_name() -> None:
    holdings = Registrations()
    settled, unsettled = Wanted("s", [CHEAP]), Wanted("t", [DEAR])
    advertisement = Registration("a", [CHEAP])
    for holding in (settled, unsettled, advertisement):
        holdings.add(holding)
    holdings.settled("s.1.1")
    assert holdings.resume() == [
        SubscribeRequest("t.2.4", DEAR),
        AdvertiseRequest("a.3.5", CHEAP),
        UnadvertiseRequest("a.3.3"),
        UnsubscribeRequest(("t.2.2",)),
    ]
    holdings.settled("t.2.2")
    assert not unsettled.is_settled
    holdings.settled("t.2.4")
    assert unsettled.is_settled


def test_what_was_taken_back_is_taken_back_again_until_it_has_been_read() -> None:
    holdings = Registrations()
    first, second, advertisement = (
        Wanted("s", [CHEAP]),
        Wanted("t", [DEAR]),
        Registration("a", [DEAR]),
    )
    for holding in (first, advertisement):
        holdings.add(holding)
        holdings.settled(holding.entries[0].wire)
    holdings.remove(first)
    holdings.remove(advertisement)
    again = [UnadvertiseRequest("a.2.2"), UnsubscribeRequest(("s.1.1",))]
    assert holdings.resume() == again
    assert holdings.resume() == again
    holdings.refused("a.2.2", "no advertisement has this name")
    holdings.add(second)
    holdings.settled("t.3.3")  # which was asked for later
    assert holdings.resume() == []


def test_a_refusal_tells_that_a_subscription_is_gone() -> None:
    holdings, subscription = Registrations(), Wanted("s", [CHEAP])
    holdings.add(subscription)
    holdings.remove(subscription)
    holdings.refused("s.1.1", "no subscription has this name")
    assert holdings.resume() == []


def test_many_are_taken_back_in_portions() -> None:
    holdings, subscription = Registrations(), Wanted("s", [CHEAP] * (NAMES_MAX + 1))
    holdings.add(subscription)
    requests = holdings.remove(subscription)
    assert [len(request.names) for request in requests] == [NAMES_MAX, 1]  # type: ignore[union-attr]
