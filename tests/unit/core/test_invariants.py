"""Words for what is wrong with a broker: each thing is broken on purpose in a sound one."""

import pytest

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.copies import CopyQueue
from byway.core.in_flight import InFlight
from byway.core.inputs import Started
from byway.core.invariants import validate
from byway.core.origin import Origin
from byway.core.tables import Sent
from byway.core.window import Window
from byway.model import ANY, TRUE, parse
from byway.model.messages import AdvertiseRequest, EntryId, SubscribeRequest, Unadvertise
from tests.lone_broker import Lone, advertise, entry, publication, subscribe


def sound(covering: str = "active") -> Broker:
    """A broker with everything: neighbours, clients, covered and covering subscriptions, data."""
    lone = Lone("A", "C", config=BrokerConfig(covering=covering))
    lone.receive("A", advertise("a"), subscribe("wide", "p > 0"), subscribe("narrow", "p > 5"))
    lone.receive("C", advertise("c"), subscribe("s"))
    lone.attach("c")
    lone.ask("c", AdvertiseRequest("mine", ANY), SubscribeRequest("mine", parse("p > 7")))
    lone.receive("A", publication(1, p=9))
    return lone.broker


def advert(broker, name="a"):
    return broker.advertisements.get(entry(name))


def subscription(broker, name="wide"):
    return broker.subscriptions.get(entry(name))


def test_a_sound_broker():
    assert validate(sound()) == []
    assert validate(sound("none")) == []
    empty = Broker("B")
    empty.handle(0, Started())
    assert validate(empty) == []


# --- each way to break it ------------------------------------------------------------------------


def lose_a_client(broker):
    del broker.clients.sessions["c"]


def come_from_nowhere(broker):
    subscription(broker, "narrow").origin = Origin("X")


def send_back(broker):
    advert(broker).forwarded |= {"A"}


def send_into_the_void(broker):
    subscription(broker).forwarded |= {"X"}


def keep_an_advertisement_to_oneself(broker):
    advert(broker).forwarded = frozenset()


def send_where_nothing_feeds(broker):
    added = broker.subscriptions.add(EntryId("far", "odd", 1, 1), parse("q > 0"), Origin("A"))
    broker.context.routing.sent_to(added, "C")
    broker.context.routing.adverts.remove(advert(broker, "c"))


def neither_send_nor_cover(broker):
    broker.context.routing.taken_from(subscription(broker), "C")


def send_the_covered_too(broker):
    broker.context.routing.sent_to(subscription(broker, "narrow"), "C")


def forget_that_it_was_sent(broker):
    broker.context.routing.sent = Sent()


def forget_a_clients_subscription(broker):
    (id,) = broker.clients.sessions["c"].subscriptions.values()
    broker.subscriptions.remove(broker.subscriptions.get(id))


def forget_that_a_client_advertises(broker):
    broker.clients.sessions["c"].adverts.clear()


def confuse_whose_it_is(broker):
    broker.clients.sessions["c"].adverts["mine"] = entry("a")


def keep_more_than_is_waited_for(broker):
    source = InFlight(Window(), 1, None, "", 0)
    broker.context.ends["A"].copies.append(Unadvertise(entry("a"), TRUE), source)


def miscount_a_publisher(broker):
    broker.publications.streams.of("far", 1).unconfirmed()["A"] = 2


def miscount_bytes(broker):
    broker.context.copies.bytes += 1


def mix_copies_up(broker):
    broker.context.ends["A"].copies = CopyQueue()


def lose_from_the_index(broker):
    broker.subscriptions.index.remove(subscription(broker, "narrow").key)


BREAKAGES = {
    lose_a_client: [
        "advertisement c/mine is of client c, which is not here",
        "subscription c/mine is of client c, which is not here",
        "1 local advertisements are in the table, but clients hold 0",
        "1 local subscriptions are in the table, but clients hold 0",
    ],
    come_from_nowhere: ["subscription far/narrow came from X, which is no neighbour"],
    send_back: ["advertisement far/a was sent back to A, where it came from"],
    send_into_the_void: [
        "subscription far/wide was sent to X, which is no neighbour",
        "subscription far/wide was sent to X, where nothing feeds it",
    ],
    keep_an_advertisement_to_oneself: ["advertisement far/a was not told to C"],
    send_where_nothing_feeds: [
        "subscription far/wide was sent to C, where nothing feeds it",
        "subscription far/odd was sent to C, where nothing feeds it",
    ],
    neither_send_nor_cover: [
        "subscription far/wide was not sent to C, and nothing covers it",
        "subscription far/narrow was not sent to C, and nothing covers it",
        "subscription c/mine was not sent to C, and nothing covers it",
    ],
    forget_that_it_was_sent: ["2 subscriptions are forwarded, but 0 known to be"],
    send_the_covered_too: [
        "subscriptions far/narrow and far/wide, which covers it, were both sent to C"
    ],
    forget_a_clients_subscription: [
        "client c holds subscription mine, which is not in the table",
        "0 local subscriptions are in the table, but clients hold 1",
    ],
    forget_that_a_client_advertises: [
        "1 local advertisements are in the table, but clients hold 0"
    ],
    confuse_whose_it_is: ["client c holds advertisement mine, which is not in the table"],
    keep_more_than_is_waited_for: [
        "the copies for A take 256 bytes, but 0 are counted",
        "more copies of a message are kept, also for A, than it waits for",
    ],
    miscount_a_publisher: [
        "{'C': 1} copies of a publisher are kept, but {'C': 1, 'A': 2} known to be"
    ],
    miscount_bytes: ["copies take 263 bytes, but 264 known to be taken"],
    mix_copies_up: ["the copies for A are not those of its end"],
    lose_from_the_index: ["4 subscriptions are in the table, but 3 in its index"],
}


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda f: f.__name__)
def test_what_is_wrong_is_said(breakage):
    broker = sound()
    breakage(broker)
    assert validate(broker) == [f"B: {sentence}" for sentence in BREAKAGES[breakage]]


def test_without_covering_everything_must_be_sent():
    broker = sound("none")
    subscription(broker, "narrow").forwarded = frozenset()
    sentence = "subscription far/narrow was not sent to C, and nothing covers it"
    assert validate(broker) == [f"B: {sentence}"]
