"""Random trees, clients and interleavings: every publication reaches whom it should, once and in
order, and when all is quiet the tables are those of a fresh network."""

import random
from collections import defaultdict

import pytest

from byway.model import conforms, intersects, parse
from byway.model.messages import Delivery, PublicationsConfirmed, Settled
from tests.core_net import Net

FILTERS = ("p > 0", "p > 2", "p < 3", "p = 2", "p > 1 AND q > 1", "q < 3", "TRUE", "p > 9")
ADVERTS = ("p > 0", "p < 3", "p > 0 AND q > 0", "ANY", "q > 0")
CLIENTS = ("v", "w", "x", "y", "z")


WORK = ("advertise", "subscribe", "unadvertise", "unsubscribe", "publish", "move", "settle")
WEIGHTS = (3, 4, 1, 2, 8, 12, 2)


def tree(rng, largest=7):
    """A random tree of two or more brokers."""
    return [(f"B{rng.randrange(i)}", f"B{i}") for i in range(1, rng.randint(2, largest))]


def step(rng):
    """Something a client does, or frames that move."""
    what = rng.choices(WORK, WEIGHTS)[0]
    if what == "move":
        return what, rng.randrange(99), (rng.randint(1, 6), rng.random() < 0.5)
    detail = {
        "advertise": rng.choice(ADVERTS),
        "subscribe": rng.choice(FILTERS),
        "publish": (rng.randint(0, 4), rng.choice((None, 0, 1, 2, 3))),
    }.get(what)
    return what, rng.choice(CLIENTS), detail


class World:
    """The network, and an account of what clients did and must therefore see."""

    def __init__(self, edges, homes):
        self.net = Net(edges)
        brokers = sorted(self.net.brokers)
        for client, home in zip(CLIENTS, homes, strict=True):
            self.net.attach(client, brokers[home % len(brokers)])
        self.adverts, self.subscriptions = {}, {}
        self.must = defaultdict(set)  # (publisher, sequence) -> clients that must get it
        self.may = defaultdict(set)
        self.sent = {}
        self.count = 0

    def is_settled(self, client, name):
        return Settled(name) in self.net.told[client]

    def do(self, what, who, detail):
        net = self.net
        if what == "settle":
            net.settle()
            return
        if what == "move":
            ways = sorted(net.flying)
            for k in range(detail[0]):
                net.step(ways[(who + k) % len(ways)], overtake=detail[1])
            return
        self.count += 1
        if what == "advertise" and who not in self.adverts:
            self.adverts[who] = (f"a{self.count}", parse(detail))
            net.advertise(who, detail, f"a{self.count}")
        elif what == "subscribe" and who not in self.subscriptions:
            self.subscriptions[who] = (f"s{self.count}", parse(detail))
            net.subscribe(who, detail, f"s{self.count}")
        elif what == "unadvertise" and who in self.adverts:
            name, _ = self.adverts.pop(who)
            net.unadvertise(who, name)
        elif what == "unsubscribe" and who in self.subscriptions:
            name, wanted = self.subscriptions.pop(who)
            net.unsubscribe(who, name)
            for key, clients in self.must.items():
                if wanted.matches(self.sent[key]):
                    clients.discard(who)
        elif what == "publish":
            self.publish(who, detail)

    def publish(self, who, detail):
        attributes = {"p": detail[0]} | ({} if detail[1] is None else {"q": detail[1]})
        advert = self.adverts.get(who)
        admitted = advert is not None and conforms(attributes, advert[1])
        certain = admitted and self.is_settled(who, advert[0])
        # who might still get it: anyone whose subscription matches now
        key = (who, self.net.sequence[who] + 1)
        self.sent[key] = attributes
        for client, (name, wanted) in self.subscriptions.items():
            if admitted and wanted.matches(attributes):
                self.may[key].add(client)
                if certain and self.is_settled(client, name):
                    self.must[key].add(client)
        self.net.publish(who, **attributes)


def run(seed, length=120):
    """One random run; how many deliveries had to happen."""
    rng = random.Random(seed)
    calm = rng.random() < 0.2
    world = World(tree(rng), [rng.randrange(7) for _ in CLIENTS])
    for _ in range(length):
        world.do(*step(rng))
        if calm:
            world.net.settle()
    net = world.net
    net.settle()
    check_deliveries(world, calm)
    check_tables(world)
    for broker in net.brokers.values():
        assert not any(broker.router.unconfirmed.values())
        for end in broker.ends.values():
            assert [len(box.kept) for box in end.sent] == [0, 0]
    for client in CLIENTS:
        if net.sequence[client]:
            assert net.got(client, PublicationsConfirmed)[-1].sequence == net.sequence[client]
    return sum(len(clients) for clients in world.must.values())


def many(seeds):
    """Run many seeds; the one that fails is named."""
    deliveries = 0
    for seed in seeds:
        try:
            deliveries += run(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return deliveries


def test_fixed_seeds():
    assert many(range(400)) > 1_000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_thousands_of_seeds():
    fresh = random.SystemRandom().randrange(2**32)
    print(f"fresh seeds from {fresh}")
    assert many(range(3_000)) + many(range(fresh, fresh + 1_000)) > 10_000


def check_deliveries(world, calm):
    seen = defaultdict(list)
    for client in CLIENTS:
        latest = defaultdict(int)
        for delivery in world.net.got(client, Delivery):
            publication = delivery.publication
            key = (publication.publisher, publication.sequence)
            assert publication.sequence > latest[publication.publisher], "twice or out of order"
            latest[publication.publisher] = publication.sequence
            seen[key].append(client)
    for key, clients in world.must.items():
        assert clients <= set(seen[key]), f"{key} did not reach {clients - set(seen[key])}"
    if calm:
        for key, clients in seen.items():
            assert set(clients) <= world.may[key]


def check_tables(world):
    """Each advertisement everywhere, each subscription on the ways to what may feed it."""
    net = world.net
    expected = {broker: set() for broker in net.brokers}
    for client, (name, wanted) in world.subscriptions.items():
        expected[net.home[client]].add((client, name))
        for publisher, (_, advert) in world.adverts.items():
            if intersects(advert, wanted):
                for broker in path(net, net.home[client], net.home[publisher]):
                    expected[broker].add((client, name))
    for name, broker in net.brokers.items():
        assert net.entries(name) == sorted(expected[name])
        known = sorted((e.id.client, e.id.name) for e in broker.router.adverts)
        assert known == sorted((c, name) for c, (name, _) in world.adverts.items())


def path(net, start, goal, before=None):
    if start == goal:
        return [goal]
    for neighbour in net.neighbours[start]:
        if neighbour != before:
            way = path(net, neighbour, goal, start)
            if way:
                return [start, *way]
    return []
