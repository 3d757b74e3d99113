"""Deliveries of a client: once, to all subscriptions that match, counted, and queued."""

from datetime import UTC, datetime

from byway.model import parse
from byway.model.messages import Delivery, Publish
from byway.session.client_options import WhenFull
from byway.session.deliveries import Deliveries
from byway.session.event_queue import UNDER_WAY_BYTES, EventQueue
from byway.session.events import Event
from byway.session.outgoing_publications import encode_body
from byway.session.registrations import Registration, Registrations


class Receiver:
    """Registrations and their deliveries."""

    def __init__(self) -> None:
        self.registrations = Registrations()
        self.deliveries = Deliveries(self.registrations)

    def subscribe(
        self, name: str, *filters: str, messages: int = 100, when_full: WhenFull = "block"
    ) -> Registration:
        queue = EventQueue(messages, 1_000, when_full)
        made = Registration(name, [parse(filter) for filter in filters], queue)
        self.registrations.add(made)
        return made


def delivery(number: int, *names: str, sequence: int | None = None, data: bytes = b"") -> Delivery:
    body = encode_body({"x": number}, data)
    return Delivery(number, Publish("p", 7, sequence or number, 5, 2, 0, 0, body), names)


def queue_of(registration: Registration) -> EventQueue:
    assert registration.queue is not None
    return registration.queue


def taken(registration: Registration) -> list[int]:
    queue = queue_of(registration)
    return [queue.take().attributes["x"] for _ in range(len(queue.events))]


def test_an_event_tells_everything_about_a_publication() -> None:
    event = Event(delivery(4, data=b"data").publication, ("s",))
    assert (event.attributes, event.data) == ({"x": 4}, b"data")
    assert (event.publisher, event.incarnation, event.sequence) == ("p", 7, 4)
    assert (event.hops, event.published_us) == (2, 5)
    assert event.published_at == datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    assert event.subscriptions == ("s",)
    assert repr(event) == "<Event 4 of p: {'x': 4}>"


# --- deliveries -----------------------------------------------------------------------------------


def test_all_subscriptions_that_match_get_the_same_event() -> None:
    receiver = Receiver()
    first, second = receiver.subscribe("s", "x > 0", "x > 1"), receiver.subscribe("t", "x > 2")
    receiver.deliveries.take(delivery(1, "s.1.1", "s.1.2", "t.2.3"))
    (one,), (other,) = queue_of(first).events, queue_of(second).events
    assert one is other
    assert one.subscriptions == ("s", "t")


def test_the_subscriptions_that_were_fed_are_told_once() -> None:
    receiver = Receiver()
    first, second = receiver.subscribe("s", "x > 0"), receiver.subscribe("t", "x > 2")
    some = [delivery(1, "t.2.2"), delivery(2, "t.2.2"), delivery(3, "s.1.1", "t.2.2")]
    assert receiver.deliveries.take_all(some) == (second, first)
    assert receiver.deliveries.take_all(some) == ()
    assert receiver.deliveries.take(delivery(4, "t.2.2")) == (second,)


def test_what_nobody_holds_any_more_is_dropped() -> None:
    receiver = Receiver()
    subscription = receiver.subscribe("s", "x > 0")
    receiver.registrations.remove(subscription)
    receiver.deliveries.take(delivery(1, "s.1.1"))
    assert taken(subscription) == []
    assert receiver.deliveries.received == 1


def test_an_advertisement_gets_no_events() -> None:
    receiver = Receiver()
    receiver.registrations.add(Registration("a", [parse("x > 0")]))
    assert receiver.deliveries.take(delivery(1, "a.1.1")) == ()


def test_a_delivery_that_comes_again_is_dropped() -> None:
    receiver = Receiver()
    subscription = receiver.subscribe("s", "x > 0")
    for given in (delivery(1, "s.1.1"), delivery(1, "s.1.1"), delivery(2, "s.1.1", sequence=1)):
        receiver.deliveries.take(given)
    assert taken(subscription) == [1]
    assert receiver.deliveries.duplicates == 2
    assert receiver.deliveries.received == 2


def test_what_more_subscriptions_want_than_one_delivery_names_comes_to_each_once() -> None:
    receiver = Receiver()
    first, second = receiver.subscribe("s", "x > 0", "x > 1"), receiver.subscribe("t", "x > 2")
    deliveries = receiver.deliveries
    for number, name in enumerate(("s.1.1", "s.1.2", "t.2.3"), 1):
        given = delivery(1, name)
        deliveries.take(Delivery(number, given.publication, given.names))
    assert (taken(first), taken(second)) == ([1], [1])
    assert (deliveries.events, deliveries.duplicates) == (1, 0)
    deliveries.restart()  # a broker that lost its state sends it again
    deliveries.take(delivery(1, "s.1.1"))
    assert (taken(first), deliveries.duplicates) == ([], 1)


def test_names_that_were_delivered_to_before_mean_what_is_registered_now() -> None:
    receiver = Receiver()
    deliveries, registrations = receiver.deliveries, receiver.registrations
    first, second = receiver.subscribe("s", "x > 0"), receiver.subscribe("t", "x > 1")
    deliveries.take(delivery(1, "s.1.1", "t.2.2"))
    registrations.remove(first)
    deliveries.take(delivery(2, "s.1.1", "t.2.2"))
    registrations.replace(second, [parse("x > 2")])
    deliveries.take(delivery(3, "t.2.2"))  # under way when the filter was replaced
    deliveries.take(delivery(4, "t.2.3"))
    deliveries.take(delivery(5, "u.3.4"))
    third = receiver.subscribe("u", "x > 0")
    deliveries.take(delivery(6, "u.3.4"))
    assert (taken(first), taken(second), taken(third)) == ([1], [1, 2, 3, 4], [6])


def test_deliveries_of_one_frame_are_taken_as_one_by_one() -> None:
    together, alone = Receiver(), Receiver()
    some = [
        delivery(1, "s.1.1"), delivery(1, "s.1.1"), delivery(2, "s.1.1", "t.2.2"),
        delivery(5, "t.2.2"), delivery(6, "s.1.1", sequence=2), delivery(7, "nobody.9.9"),
        Delivery(8, delivery(7).publication, ("s.1.1", "t.2.2")), delivery(9, "t.2.2"),
        Delivery(10, delivery(9).publication, ("s.1.1", "t.2.2")),
        Delivery(11, delivery(9).publication, ("s.1.1",)),
    ]  # fmt: skip
    seen = []
    for receiver in (together, alone):
        wanted = receiver.subscribe("s", "x > 0", messages=2), receiver.subscribe("t", "x > 1")
        found = receiver.deliveries
        if receiver is together:
            fed = [one.name for one in found.take_all(some)]
        else:
            told = [one.name for given in some for one in found.take(given)]
            fed = list(dict.fromkeys(told))
        full = [one.name for one in found.full]
        counts = (found.received, found.events, found.duplicates, found.lost)
        labels = [[e.subscriptions for e in queue_of(one).events] for one in wanted]
        seen.append((fed, full, counts, labels, [taken(one) for one in wanted]))
    assert seen[0] == seen[1]
    assert seen[0][4] == [[1, 2, 7, 9], [2, 5, 7, 9]]


def test_missing_numbers_are_counted_once() -> None:
    receiver = Receiver()
    receiver.subscribe("s", "x > 0")
    deliveries = receiver.deliveries
    deliveries.take(delivery(1, "s.1.1"))
    deliveries.take(delivery(4, "s.1.1"))
    assert deliveries.lost == 2
    deliveries.resume(lost=3)
    deliveries.take(delivery(8, "s.1.1"))
    assert deliveries.lost == 5
    deliveries.restart()
    deliveries.take(delivery(1, "s.1.1", sequence=9))
    assert deliveries.lost == 5


def test_a_full_subscription_is_known_and_its_bytes_make_it_overfull() -> None:
    receiver = Receiver()
    full, other = receiver.subscribe("s", "x > 0"), receiver.subscribe("t", "x > 0")
    deliveries = receiver.deliveries
    deliveries.take(delivery(1, "s.1.1", "t.2.2"))
    assert not deliveries.full
    deliveries.take(delivery(2, "s.1.1", data=b"x" * 2_000))
    assert list(deliveries.full) == [full]
    assert not deliveries.is_overfull
    deliveries.take(delivery(3, "s.1.1", data=b"x" * UNDER_WAY_BYTES))
    assert deliveries.is_overfull
    assert taken(full) == [1, 2, 3]
    assert not deliveries.is_overfull
    assert taken(other) == [1]


# --- the queue ------------------------------------------------------------------------------------


def test_events_are_taken_some_at_a_time() -> None:
    queue = EventQueue(4, 1_000, "block")
    for number in range(1, 4):
        put(queue, number)
    size = queue.bytes
    assert [one.sequence for one in queue.take_some(2)] == [1, 2]
    assert 0 < queue.bytes < size
    assert [one.sequence for one in queue.take_some(5)] == [3]
    assert (queue.bytes, queue.take_some(5)) == (0, [])


def test_queues_that_were_emptied_share_no_events() -> None:
    queue, other = EventQueue(4, 1_000, "block"), EventQueue(4, 1_000, "block")
    put(queue, 1)
    queue.clear()
    assert (queue.bytes, len(queue.events)) == (0, 0)
    put(queue, 2)
    assert (len(other.events), [one.sequence for one in queue.take_some(2)]) == (0, [2])
    put(other, 3)
    assert (len(queue.events), other.take().sequence) == (0, 3)


def put(queue: EventQueue, number: int, data: bytes = b"") -> None:
    publication = delivery(number, data=data).publication
    queue.put(Event(publication, ("s",)), len(publication.body))


def test_a_full_queue_blocks_until_half_of_it_is_taken() -> None:
    queue = EventQueue(4, 1_000, "block")
    for number in range(1, 5):
        assert not queue.is_blocking
        put(queue, number)
    assert (queue.is_blocking, queue.is_full, queue.is_overfull) == (True, True, False)
    queue.take()
    assert not queue.unblocks()
    assert queue.is_blocking
    queue.take()
    assert queue.unblocks()
    assert not queue.is_blocking
    assert not queue.unblocks()  # it blocked no longer
    assert repr(queue) == "<EventQueue of 2 events, 0 dropped>"


def test_a_blocking_queue_drops_nothing_that_was_under_way() -> None:
    queue = EventQueue(2, 1_000, "block")
    for number in range(1, 6):
        put(queue, number)
    assert [queue.take().attributes["x"] for _ in range(5)] == [1, 2, 3, 4, 5]
    assert (queue.bytes, queue.dropped) == (0, 0)


def test_bytes_fill_a_queue_too() -> None:
    queue = EventQueue(100, 1_000, "block")
    put(queue, 1, b"x" * 2_000)
    assert (queue.is_blocking, queue.is_full, queue.is_overfull) == (True, True, False)
    put(queue, 2, b"x" * UNDER_WAY_BYTES)
    assert queue.is_overfull
    queue.take()
    assert not queue.unblocks()
    queue.take()
    assert queue.unblocks()
    assert (queue.is_full, queue.is_overfull, queue.bytes) == (False, False, 0)


def test_the_oldest_is_dropped_if_that_is_wanted() -> None:
    receiver = Receiver()
    subscription = receiver.subscribe("s", "x > 0", messages=2, when_full="drop_oldest")
    for number in range(1, 6):
        receiver.deliveries.take(delivery(number, "s.1.1"))
    assert not receiver.deliveries.full
    assert queue_of(subscription).dropped == 3
    assert taken(subscription) == [4, 5]
    assert queue_of(subscription).bytes == 0
