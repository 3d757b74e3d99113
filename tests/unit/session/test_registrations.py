"""What a client asks its broker for: new, changed, taken back, and again after a loss."""

from byway.model import Filter, parse
from byway.model.messages import (
    AdvertiseRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.session.event_queue import EventQueue
from byway.session.registrations import NAMES_MAX, Registration, Registrations

CHEAP, DEAR = parse("price < 9"), parse("price > 90")


def wanted(name: str, filters: list[Filter]) -> Registration:
    """A subscription."""
    return Registration(name, filters, EventQueue(100, 1_000, "block"))


def test_every_request_has_a_name_of_its_own() -> None:
    registrations = Registrations()
    subscription, advertisement = wanted("x", [CHEAP, DEAR]), Registration("x", [CHEAP])
    assert registrations.add(subscription) == [
        SubscribeRequest("x.1.1", CHEAP),
        SubscribeRequest("x.1.2", DEAR),
    ]
    assert registrations.add(advertisement) == [AdvertiseRequest("x.2.3", CHEAP)]
    assert registrations.remove(subscription) == [UnsubscribeRequest(("x.1.1", "x.1.2"))]
    assert registrations.remove(subscription) == []
    assert registrations.remove(advertisement) == [UnadvertiseRequest("x.2.3")]


def test_it_is_settled_when_all_its_filters_are() -> None:
    registrations, subscription = Registrations(), wanted("s", [CHEAP, DEAR])
    assert not subscription.is_settled
    registrations.add(subscription)
    assert registrations.settled("s.1.1") is None
    assert registrations.settled("s.1.1") is None
    assert not subscription.is_settled
    assert registrations.settled("s.1.2") is subscription
    assert subscription.is_settled
    assert registrations.settled("s.1.2") is None  # which it was before


def test_an_answer_to_the_old_filter_does_not_settle_the_new_one() -> None:
    registrations, subscription = Registrations(), wanted("s", [CHEAP])
    registrations.add(subscription)
    assert registrations.replace(subscription, [DEAR]) == [
        SubscribeRequest("s.1.2", DEAR),
        UnsubscribeRequest(("s.1.1",)),
    ]
    registrations.settled("s.1.1")
    assert not subscription.is_settled
    registrations.settled("s.1.2")
    assert subscription.is_settled
    assert subscription.filters == (DEAR,)


def test_deliveries_of_a_filter_that_was_replaced_find_their_way() -> None:
    registrations, subscription = Registrations(), wanted("with.dots", [CHEAP])
    registrations.add(subscription)
    registrations.replace(subscription, [DEAR])
    assert registrations.registration_of("with.dots.1.1") is subscription
    assert registrations.registration_of("with.dots.1.2") is subscription
    registrations.remove(subscription)
    assert registrations.registration_of("with.dots.1.2") is None
    assert registrations.registration_of("nonsense") is None
    assert registrations.registration_of("a.b.c") is None


def test_a_refusal_is_kept_with_the_facts() -> None:
    registrations, advertisement = Registrations(), Registration("a", [CHEAP])
    registrations.add(advertisement)
    assert registrations.refused("a.1.1", "too many") is advertisement
    assert str(advertisement.error) == "advertisement a was refused: too many"


def test_a_new_session_asks_for_everything_and_advertises_first() -> None:
    registrations = Registrations()
    subscription, advertisement = wanted("s", [CHEAP]), Registration("a", [DEAR])
    gone = wanted("gone", [CHEAP])
    for registration in (subscription, advertisement, gone):
        registrations.add(registration)
    registrations.settled("s.1.1")
    registrations.remove(gone)
    assert registrations.restart() == [
        AdvertiseRequest("a.2.2", DEAR),
        SubscribeRequest("s.1.1", CHEAP),
    ]
    assert not subscription.is_settled
    assert list(registrations.awaited.values()) == [advertisement]
    registrations.settled("a.2.2")
    assert not registrations.awaited


def test_an_advertisement_that_is_refused_or_taken_back_is_not_awaited() -> None:
    registrations = Registrations()
    refused, taken_back = Registration("a", [DEAR]), Registration("b", [DEAR])
    registrations.add(refused)
    registrations.add(taken_back)
    registrations.restart()
    registrations.refused("a.1.1", "no")
    registrations.remove(taken_back)
    assert not registrations.awaited


def test_a_session_that_goes_on_asks_for_what_is_not_settled_by_a_new_name() -> None:
    registrations = Registrations()
    settled, unsettled = wanted("s", [CHEAP]), wanted("t", [DEAR])
    advertisement = Registration("a", [CHEAP])
    for registration in (settled, unsettled, advertisement):
        registrations.add(registration)
    registrations.settled("s.1.1")
    assert registrations.resume() == [
        SubscribeRequest("t.2.4", DEAR),
        AdvertiseRequest("a.3.5", CHEAP),
        UnadvertiseRequest("a.3.3"),
        UnsubscribeRequest(("t.2.2",)),
    ]
    registrations.settled("t.2.2")
    assert not unsettled.is_settled
    registrations.settled("t.2.4")
    assert unsettled.is_settled


def test_what_was_taken_back_is_taken_back_again_until_it_has_been_read() -> None:
    registrations = Registrations()
    first, second, advertisement = (
        wanted("s", [CHEAP]),
        wanted("t", [DEAR]),
        Registration("a", [DEAR]),
    )
    for registration in (first, advertisement):
        registrations.add(registration)
        registrations.settled(registration.entries[0].wire_name)
    registrations.remove(first)
    registrations.remove(advertisement)
    again = [UnadvertiseRequest("a.2.2"), UnsubscribeRequest(("s.1.1",))]
    assert registrations.resume() == again
    assert registrations.resume() == again
    registrations.refused("a.2.2", "no advertisement has this name")
    registrations.add(second)
    registrations.settled("t.3.3")  # which was asked for later
    assert registrations.resume() == []


def test_a_refusal_tells_that_a_subscription_is_gone() -> None:
    registrations, subscription = Registrations(), wanted("s", [CHEAP])
    registrations.add(subscription)
    registrations.remove(subscription)
    assert registrations.refused("s.1.1", "no subscription has this name") is None
    assert registrations.resume() == []


def test_many_are_taken_back_in_portions() -> None:
    registrations, subscription = Registrations(), wanted("s", [CHEAP] * (NAMES_MAX + 1))
    registrations.add(subscription)
    requests = registrations.remove(subscription)
    assert [len(request.names) for request in requests] == [NAMES_MAX, 1]  # type: ignore[union-attr]
