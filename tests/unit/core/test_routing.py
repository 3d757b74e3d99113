"""The worked cases of routing, on small networks."""

import pytest

from byway.model.messages import Delivery, PublicationsConfirmed, Refused, Settled
from byway.model.tree_shapes import chain_links, numbered_names
from tests.core_net import Net

CHAIN = [("B1", "B2"), ("B2", "B3")]
STAR = [("B0", "B1"), ("B0", "B2"), ("B0", "B3")]


def network(advert: str, subscription: str, edges=CHAIN) -> Net:
    """A publisher at B1 that advertises, a subscriber at B3 that subscribes."""
    net = Net(edges)
    net.attach("pub", "B1")
    net.attach("sub", "B3")
    net.advertise("pub", advert)
    net.settle()
    net.subscribe("sub", subscription)
    net.settle()
    return net


def published(net: Net, **attributes) -> bool:
    """Whether the subscriber gets a publication with these attributes."""
    before = len(net.got("sub", Delivery))
    net.publish("pub", **attributes)
    net.settle()
    return len(net.got("sub", Delivery)) > before


@pytest.mark.parametrize(
    ("advert", "subscription", "attributes", "delivered"),
    [
        ("price = 100.3", "price = 100.3", {"price": 100.3}, True),
        ("price > 100", "price = 100", {"price": 120}, False),
        ("price > 0 AND amount > 0", "price > 0", {"price": 1}, True),
        ("price > 0 AND amount > 0", "price > 0 AND amount > 0", {"price": 1}, False),
        ("name LIKE '%ibm'", "name <> 'ibm'", {"name": "stockibm"}, True),
        ("name LIKE '%ibm'", "name <> 'ibm'", {"name": "ibm"}, False),
        ("price > 0", "price > 100", {"price": 120.5}, True),
        ("price > 0", "price > 100 AND price < 200", {"price": 250}, False),
    ],
)
def test_matching_over_two_hops(advert, subscription, attributes, delivered):
    assert published(network(advert, subscription), **attributes) is delivered


def test_a_publication_outside_its_advertisement_is_refused():
    net = network("price > 100", "price > 0")
    assert not published(net, price=50)
    assert not published(net, price=120, amount=1)
    assert [r.subject for r in net.got("pub", Refused)] == ["1", "2"]
    assert published(net, price=120)


def test_a_subscription_goes_only_towards_what_may_feed_it():
    assert network("price > 100", "price < 200").entries("B1") == [("sub", "s")]
    assert network("price > 100", "price < 50").entries("B2") == []
    net = network("price < 100 AND amount < 100", "price > 100 AND amount < 60")
    assert net.entries("B2") == []


def test_an_advertisement_that_comes_later_draws_the_subscription():
    net = Net(CHAIN)
    net.attach("pub", "B1")
    net.attach("sub", "B3")
    net.subscribe("sub", "price > 80")
    net.settle()
    assert net.entries("B1") == []
    net.advertise("pub", "price > 100")
    net.settle()
    assert net.entries("B1") == [("sub", "s")]
    assert published(net, price=120)


def test_two_advertisements_draw_it_once():
    net = network("price > 100", "price > 80")
    net.advertise("pub", "price > 50", name="second")
    net.settle()
    assert [net.entries(b) for b in ("B1", "B2", "B3")] == [[("sub", "s")]] * 3
    net.unadvertise("pub")
    net.settle()
    assert net.entries("B1") == [("sub", "s")]
    net.unadvertise("pub", "second")
    net.settle()
    assert [net.entries(b) for b in ("B1", "B2", "B3")] == [[], [], [("sub", "s")]]


def test_unsubscribing_removes_it_everywhere():
    net = network("price > 100", "price > 80", STAR)
    net.attach("other", "B2")
    net.advertise("other", "price < 500")
    net.settle()
    assert net.entries("B2") == [("sub", "s")]
    net.unsubscribe("sub")
    net.settle()
    assert all(net.entries(b) == [] for b in net.brokers)
    assert not published(net, price=110)


def test_several_subscriptions_of_a_client_are_one_delivery():
    net = network("price > 0", "price > 1")
    for n in range(4):
        net.subscribe("sub", f"price > {n + 2}", name=f"s{n}")
    net.settle()
    net.publish("pub", price=100)
    net.settle()
    (delivery,) = net.got("sub", Delivery)
    assert sorted(delivery.names) == ["s", "s0", "s1", "s2", "s3"]


def test_a_filter_is_replaced_in_place():
    net = network("price > 0", "price > 100")
    net.subscribe("sub", "price < 50")
    net.settle()
    assert net.entries("B1") == [("sub", "s")]
    assert published(net, price=20)
    assert not published(net, price=120)


def test_a_client_that_vanishes_leaves_nothing():
    net = network("price > 0", "price > 100")
    net.detach("sub")
    net.settle()
    assert all(net.entries(b) == [] for b in net.brokers)
    net.detach("pub")
    net.settle()
    assert all(len(b.advertisements) == 0 for b in net.brokers.values())


def test_what_a_client_is_told():
    net = network("price > 0", "price > 1")
    assert net.got("pub", Settled) == [Settled("a")]
    assert net.got("sub", Settled) == [Settled("s")]
    net.publish("pub", price=5)
    net.publish("pub", price=6)
    assert net.got("pub", PublicationsConfirmed) == []
    net.settle()
    assert net.got("pub", PublicationsConfirmed)[-1] == PublicationsConfirmed(2)
    net.unsubscribe("sub", "nothing")
    net.unadvertise("pub", "nothing")
    assert net.got("sub", Refused)[-1].reason == "no subscription has this name"
    assert net.got("pub", Refused)[-1].reason == "no advertisement has this name"


def test_a_publication_counts_its_hops_and_distance():
    edges = [*chain_links(numbered_names("B", 8)), ("B3", "C"), ("B7", "D")]
    net = Net(edges)
    net.attach("pub", "B1")
    net.advertise("pub", "p > 0")
    net.settle()
    for client, broker in (("s8", "B8"), ("s6", "B6"), ("c", "C"), ("d", "D")):
        net.attach(client, broker)
        net.subscribe(client, "p > 0" if client != "s6" else "p > 100")
        net.settle()
    net.publish("pub", p=1)
    net.settle()
    (delivery,) = net.got("s8", Delivery)
    assert (delivery.publication.hop, delivery.publication.distance) == (7, 1)


def test_a_subscription_sent_again_is_not_settled_by_the_first_answer():
    """The advertisement it followed goes and another comes while its Subscribe is under way."""
    net = Net(CHAIN)
    net.attach("pub", "B1")
    net.attach("sub", "B3")
    net.advertise("pub", "p > 0", "first")
    net.settle()
    net.subscribe("sub", "p > 0")  # Subscribe, still under way to B2
    net.unadvertise("pub", "first")
    net.advertise("pub", "p > 0", "second")
    for way in (("B1", "B2"), ("B2", "B3")):
        while net.flying[way]:
            net.step(way)
    # B3 has withdrawn the subscription and sent it again: three messages wait for B2
    kinds = [type(m).__name__ for f in net.flying["B3", "B2"] for m in getattr(f, "messages", ())]
    assert [k for k in kinds if "scribe" in k] == ["Subscribe", "Unsubscribe", "Subscribe"]
    while not any(e.id.client == "sub" for e in net.brokers["B2"].subscriptions):
        net.step(("B3", "B2"))
    while any(e.id.client == "sub" for e in net.brokers["B2"].subscriptions):
        net.step(("B3", "B2"))
    while net.flying["B2", "B3"]:
        net.step(("B2", "B3"))
    assert net.got("sub", Settled) == []
    net.settle()
    assert net.got("sub", Settled) == [Settled("s")]
    assert published(net, p=1)
