"""Random trees, clients, policies, faults and interleavings: every publication reaches whom it
should, once and in order, and when all is quiet the tables are those of a fresh network."""

import random
from collections import defaultdict

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled
from byway.core.invariants import validate
from byway.core.subscriptions import TIMER as COVERING_TIMER
from byway.core.tables import PlaceholderKind, PlaceholderState
from byway.model import conforms, parse
from byway.model.filters import covers
from byway.model.messages import Attached, Delivery, PublicationsConfirmed, Settled
from byway.model.tree_shapes import links_of, random_parents
from tests.core_net import Net
from tests.sim.world_runs import many, many_seeds

pytestmark = pytest.mark.sim

FILTERS = (
    "p > 0", "p > 1", "p > 2", "p < 3", "p = 2", "p > 1 AND q > 1", "p > 0 AND q > 0", "q < 3",
    "TRUE", "p > 9", "p = 2 OR q = 1", "p >= 1",
)  # fmt: skip
ADVERTS = ("p > 0", "p < 3", "p > 0 AND q > 0", "ANY", "q > 0")
CLIENTS = ("v", "w", "x", "y", "z")
POLICIES = ("none", "active", "packing", "incremental", "selective")
PRUNING = ("incremental", "selective")
ALL_POLICIES = (*POLICIES, "lazy")

OF_CLIENTS = ("advertise", "subscribe", "unadvertise", "unsubscribe", "publish")
WORK = (*OF_CLIENTS, "move", "settle", "wake", "sample")
WEIGHTS = (3, 4, 1, 2, 8, 12, 2, 3, 1)
FAULTS = ("cut", "mend", "stored", "forgetful")
FAULT_WEIGHTS = (2, 3, 1, 1)


def tree(rng, largest=7):
    """A random tree of two or more brokers."""
    names = [f"B{number}" for number in range(rng.randint(2, largest))]
    return links_of(names, random_parents(len(names), rng.randrange))


def config(rng, policy, merging):
    """A policy that shows what it does with few subscriptions and publications."""
    return BrokerConfig(
        covering=policy,
        incremental_bursts=rng.choice(((0, 1), (1, 2), (0, 0))),
        incremental_similarities=(0.9, rng.choice((0.2, 0.6))),
        selective_similarity=rng.choice((0.3, 0.9)),
        selective_count_min=rng.choice((0, 1)),
        pruning_samples_min=1,
        statistics_max=rng.choice((4, 1_000)),
        congestion_queue=5,
        retire_batch=rng.choice((1, 2, 20)),
        retire_after_us=rng.choice((0, 2_000_000)),
        merging=merging,
        merging_false_positives=rng.choice((0.0, 0.5)),
    )


class World:
    """The network, and an account of what clients did and must therefore see."""

    def __init__(self, rng, policies, faults, merging):
        self.rng = rng
        self.edges = tree(rng)
        brokers = sorted({broker for edge in self.edges for broker in edge})
        self.configs = {b: config(rng, rng.choice(policies), merging) for b in brokers}
        self.net = Net(self.edges, self.configs)
        self.homes = {client: rng.choice(brokers) for client in CLIENTS}
        self.incarnation = dict.fromkeys(CLIENTS, 1)
        for client in CLIENTS:
            self.net.attach(client, self.homes[client])
        self.adverts, self.subscriptions = {}, {}
        self.earlier = {client: [] for client in CLIENTS}
        """By client, what was delivered in each of its sessions but the last."""
        self.must = defaultdict(set)  # publication -> clients that must get it
        self.may = defaultdict(set)
        self.sent = {}
        self.down = []
        self.count = 0
        self.work = WORK + FAULTS if faults else WORK
        self.weights = WEIGHTS + FAULT_WEIGHTS if faults else WEIGHTS

    def is_settled(self, client, name):
        return Settled(name) in self.net.told[client]

    def step(self):
        self.count += 1
        what = self.rng.choices(self.work, self.weights)[0]
        getattr(self, what)(self.rng.choice(CLIENTS))

    # --- what clients do -----------------------------------------------------------------------

    def advertise(self, who):
        if who not in self.adverts:
            text, name = self.rng.choice(ADVERTS), f"a{self.count}"
            self.adverts[who] = (name, parse(text))
            self.net.advertise(who, text, name)

    def subscribe(self, who):
        if len(self.subscriptions.get(who, ())) < 2:
            text, name = self.rng.choice(FILTERS), f"s{self.count}"
            self.subscriptions.setdefault(who, {})[name] = parse(text)
            self.net.subscribe(who, text, name)

    def unadvertise(self, who):
        if who in self.adverts:
            name, _ = self.adverts.pop(who)
            self.net.unadvertise(who, name)

    def unsubscribe(self, who):
        held = self.subscriptions.get(who)
        if held:
            name = self.rng.choice(sorted(held))
            wanted = held.pop(name)
            self.net.unsubscribe(who, name)
            for key, clients in self.must.items():
                if wanted.matches(self.sent[key]):
                    clients.discard(who)

    def publish(self, who):
        attributes = {"p": self.rng.randint(0, 4)}
        if self.rng.random() < 0.8:
            attributes["q"] = self.rng.randint(0, 3)
        advert = self.adverts.get(who)
        admitted = advert is not None and conforms(attributes, advert[1])
        certain = admitted and self.is_settled(who, advert[0])
        key = (who, self.incarnation[who], self.net.sequence[who] + 1)
        self.sent[key] = attributes
        for client, held in self.subscriptions.items():
            for name, wanted in held.items():
                if admitted and wanted.matches(attributes):
                    self.may[key].add(client)
                    if certain and self.is_settled(client, name):
                        self.must[key].add(client)
        self.net.publish(who, **attributes)

    # --- what the network does -----------------------------------------------------------------

    def settle(self, _):
        self.net.settle()

    def wake(self, _):
        """A policy looks after what it preserved."""
        due = sorted(broker for broker, timer in self.net.timers if timer == COVERING_TIMER)
        if due:
            self.net.fire(self.rng.choice(due), COVERING_TIMER)

    def sample(self, _):
        """A broker is congested, or no longer."""
        broker = self.rng.choice(sorted(self.net.brokers))
        self.net.do(broker, LoadSampled(self.rng.choice((0, 0, 9))))

    def calm_down(self):
        """Nobody is congested, and everything preserved is retired."""
        for broker in sorted(self.net.brokers):
            self.net.do(broker, LoadSampled(0))
        for _ in range(1_000):
            self.net.settle()
            due = sorted(broker for broker, timer in self.net.timers if timer == COVERING_TIMER)
            if not due:
                return
            for broker in due:
                self.net.fire(broker, COVERING_TIMER)
        raise AssertionError("it never ends")

    def move(self, _):
        ways = sorted(self.net.flying)
        start, overtake = self.rng.randrange(99), self.rng.random() < 0.5
        for k in range(self.rng.randint(1, 6)):
            self.net.step(ways[(start + k) % len(ways)], overtake)

    def cut(self, _):
        up = [edge for edge in self.edges if edge not in self.down]
        if up:
            self.down.append(self.rng.choice(up))
            self.net.disconnect(*self.down[-1])

    def mend(self, _):
        if self.down:
            edge = self.down.pop(self.rng.randrange(len(self.down)))
            self.net.connect(*edge)

    def stored(self, _):
        """A broker restarts with its state: clients come back to their sessions."""
        broker = self.rng.choice(sorted(self.net.brokers))
        self.net.restart(broker, stored=True, down=self.down)
        for client in self.clients_of(broker):
            self.net.attach(client, broker, self.incarnation[client])
            self.check_resumed(client)

    def check_resumed(self, client):
        """A session is resumed if something has come of it; who has a blank one begins anew."""
        is_blank = not (
            client in self.adverts
            or self.subscriptions.get(client)
            or self.net.sequence[client]
            or self.net.got(client, Delivery)
        )
        assert self.net.got(client, Attached)[-1].resumed != is_blank

    def forgetful(self, _):
        """A broker restarts without state: its clients begin anew, with no claims."""
        broker = self.rng.choice(sorted(self.net.brokers))
        lost = self.clients_of(broker)
        confirmed = {client: self.net.confirmed(client) for client in lost}
        self.net.restart(broker, stored=False, down=self.down)
        for client in lost:
            self.forget(client, confirmed[client])
            self.begin_session(client)
            self.net.attach(client, broker, self.incarnation[client])
            assert not self.net.got(client, Attached)[-1].resumed

    def begin_session(self, client):
        """A client begins anew under a higher incarnation, and keeps what it was given before."""
        self.incarnation[client] += 1
        self.net.sequence[client] = 0
        self.earlier[client].append(self.net.got(client, Delivery))
        self.net.told[client].clear()

    def forget(self, client, confirmed):
        self.adverts.pop(client, None)
        self.subscriptions.pop(client, None)
        for key, clients in self.must.items():
            clients.discard(client)
            if key[:2] == (client, self.incarnation[client]) and key[2] > confirmed:
                clients.clear()

    def clients_of(self, broker):
        return [client for client in CLIENTS if self.homes[client] == broker]


def run(seed, happened, policies=POLICIES, faults=False, merging=False, length=120):
    """One random run."""
    rng = random.Random(seed)
    calm = rng.random() < 0.2
    world = World(rng, policies, faults, merging)
    for _ in range(length):
        world.step()
        if calm:
            world.net.settle()
    for edge in world.down:
        world.net.connect(*edge)
    world.calm_down()
    brokers = world.net.brokers.values()
    happened["preserved"] += sum(b.counters.preserved for b in brokers)
    happened["merged"] += sum(
        any(e.placeholder.kind is PlaceholderKind.MERGED for e in b.placeholders) for b in brokers
    )
    check_deliveries(world, calm and not faults)
    check_tables(world)
    check_nothing_is_left(world)
    happened["deliveries"] += sum(len(clients) for clients in world.must.values())


def deliveries_of(seeds, **options):
    """Of many runs, in which also happened what they are for."""
    happened = many(run, seeds, **options)
    if set(PRUNING) >= set(options.get("policies", POLICIES)):
        assert happened["preserved"] * 20 > len(seeds)
    if options.get("merging"):
        assert happened["merged"] * 20 > len(seeds)
    return happened["deliveries"]


VARIANTS = {
    "none": {"policies": ("none",)},
    "active": {"policies": ("active",)},
    "lazy": {"policies": ("lazy",)},
    "packing": {"policies": ("packing",)},
    "incremental": {"policies": ("incremental",)},
    "selective": {"policies": ("selective",)},
    "mixed": {},
    "mixed with lazy": {"policies": ALL_POLICIES},
    "none with faults": {"policies": ("none",), "faults": True},
    "active with faults": {"policies": ("active",), "faults": True},
    "pruning with faults": {"policies": PRUNING, "faults": True},
    "mixed with faults": {"faults": True},
    "merging": {"policies": ("active",), "merging": True},
    "merging, mixed": {"merging": True},
    "merging, mixed, with faults": {"merging": True, "faults": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_fixed_seeds(variant):
    assert deliveries_of(range(60), **VARIANTS[variant]) > 50


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", VARIANTS)
def test_thousands_of_seeds(variant):
    assert deliveries_of(many_seeds(), **VARIANTS[variant]) > 1_000


def twice(replies):
    return [copy for reply in replies for copy in [reply] * (1 + isinstance(reply, Delivery))]


def backwards(replies):
    rest = [reply for reply in replies if not isinstance(reply, Delivery)]
    return [*rest, *(reply for reply in reversed(replies) if isinstance(reply, Delivery))]


def none(replies):
    return [reply for reply in replies if not isinstance(reply, Delivery)]


@pytest.mark.parametrize(
    ("mutation", "complaint"),
    [(twice, "twice in"), (backwards, "out of order in"), (none, "did not reach")],
)
def test_the_oracle_turns_red(mutation, complaint, monkeypatch):
    """What clients are told is falsified: deliveries come twice, in reverse, or not at all."""
    told = Net.got

    def falsified(net, client, kind):
        return [reply for reply in mutation(net.told[client]) if isinstance(reply, kind)]

    monkeypatch.setattr(Net, "got", falsified)
    with pytest.raises(AssertionError, match=complaint):
        deliveries_of(range(5), faults=True)
    monkeypatch.setattr(Net, "got", told)
    assert deliveries_of(range(5), faults=True) > 5


# --- the oracle ---------------------------------------------------------------------------------


def received(sessions):
    """What an application is given, from the deliveries of each of its client's sessions.

    Within a session the publications of a publisher come in order, each once. A broker that lost
    its state knows nothing of earlier sessions: it may deliver again what they brought, and the
    client drops what is not later than all it had of that publisher.
    """
    given = set()
    for session in sessions:
        sequences = defaultdict(list)
        for delivery in session:
            publication = delivery.publication
            publisher = (publication.publisher, publication.incarnation)
            sequences[publisher].append(publication.sequence)
        for publisher, arrived in sequences.items():
            assert len(set(arrived)) == len(arrived), f"{publisher}: twice in {arrived}"
            assert sorted(arrived) == arrived, f"{publisher}: out of order in {arrived}"
            had = [sequence for *other, sequence in given if tuple(other) == publisher]
            given |= {(*publisher, number) for number in arrived if number > max(had, default=0)}
    return given


def check_deliveries(world, calm):
    reached = defaultdict(set)
    for client in CLIENTS:
        sessions = [*world.earlier[client], world.net.got(client, Delivery)]
        for key in received(sessions):
            reached[key].add(client)
    for key, clients in world.must.items():
        assert clients <= reached[key], f"{key} did not reach {clients - reached[key]}"
    if calm:
        for key, clients in reached.items():
            assert clients <= world.may[key]


def check_tables(world):
    """Which filters came to each broker from where, as in a network that was never disturbed."""
    fresh = Net(world.edges, world.configs)
    for client in CLIENTS:
        fresh.attach(client, world.homes[client])
    for client, (name, advert) in sorted(world.adverts.items()):
        fresh.advertise(client, str(advert), name)
    for client, held in sorted(world.subscriptions.items()):
        for name, wanted in held.items():
            fresh.subscribe(client, str(wanted), name)
    fresh.settle()
    for name, broker in world.net.brokers.items():
        assert validate(broker) == []
        assert table(broker.advertisements) == table(fresh.brokers[name].advertisements), name
        held, wanted = table(broker.subscriptions), table(fresh.brokers[name].subscriptions)
        if all(c.covering != "lazy" and not c.merging for c in world.configs.values()):
            assert held == wanted, name
        else:
            assert all(any(o == h and covers(f, g) for h, f in held) for o, g in wanted), name


def table(entries):
    return {(e.origin, e.filter) for e in entries}


def check_nothing_is_left(world):
    net = world.net
    for broker in net.brokers.values():
        for link in broker.links.values():
            assert (link.unacknowledged, link.unconfirmed, link.finished_early) == (0, 0, 0)
            assert link.open
        assert not [
            e for e in broker.placeholders if e.placeholder.state is not PlaceholderState.MERGED
        ]
        for entries in (broker.advertisements, broker.subscriptions):
            for entry in entries:
                waits = entry.awaiting, entry.following, entry.followers
                assert (entry.settled, *waits) == (True, {}, {}, {}), entry
    for client in CLIENTS:
        if net.sequence[client]:
            last = net.got(client, PublicationsConfirmed)[-1].sequence
            assert last == net.sequence[client]
