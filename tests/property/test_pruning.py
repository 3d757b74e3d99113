"""Pruning against its definitions: distances and counts on random chains, critical distances, and
packs; and one broker under any sequence of inputs, whose neighbours always hold what they must."""

from hypothesis import given
from hypothesis import strategies as st

from byway.core.actions import Send
from byway.core.broker_config import BrokerConfig
from byway.core.covering.packing import PACK_MAX, packed
from byway.core.covering.statistics import Statistics, critical_distance
from byway.core.inputs import LoadSampled, TimerFired
from byway.core.invariants import validate
from byway.core.subscriptions import TIMER
from byway.model import Filter, intersects, parse
from byway.model.filters import covers
from byway.model.messages import (
    Advertise,
    Batch,
    EntryId,
    Hint,
    Message,
    Retire,
    Subscribe,
    SubscribeMany,
    SubscriptionsSettled,
    Unadvertise,
    Unsubscribe,
)
from byway.model.tree_shapes import chain_links
from tests.core_net import Net
from tests.lone_broker import Lone, subscribe

DISTANCES = st.lists(st.integers(0, 9), min_size=1, max_size=30)
SHARES = st.one_of(st.sampled_from((0.0, 0.1, 0.3, 0.6, 0.7, 0.9, 1.0)), st.floats(0, 1))


def similarity(distances: list[int], hops: int) -> float:
    """The share of publications that another one within so many hops wanted too, as in "Incremental
    filter aggregation"."""
    return sum(distance <= hops for distance in distances) / len(distances)


@given(DISTANCES, SHARES)
def test_the_critical_distance_is_the_first_that_is_similar_enough(distances, share):
    found = critical_distance(distances, share)
    assert found in distances
    assert similarity(distances, found) >= share - 1e-9
    nearer = [distance for distance in distances if distance < found]
    assert not nearer or similarity(distances, max(nearer)) < share


@given(
    st.integers(2, 20),
    st.lists(st.one_of(st.tuples(st.integers(0, 3), st.integers(0, 9)), st.integers(0, 3))),
)
def test_the_window_holds_the_latest_rows_of_those_that_are_left(rows_max, operations):
    statistics, model = Statistics(rows_max, 1_000), []
    for at_us, operation in enumerate(operations):
        if isinstance(operation, tuple):
            key, distance = operation
            statistics.record(key, "pub", distance, 0, at_us)
            model.append((key, ("pub", distance, 0, at_us)))
        else:
            mine = [row for key, row in model if key == operation]
            taken = statistics.take(operation, at_us)
            assert taken == mine[len(mine) - len(taken) :]
            model = [(key, row) for key, row in model if key != operation]
        assert min(len(model), rows_max // 2) <= len(statistics) <= rows_max


@given(st.lists(st.one_of(st.integers(1, 400), st.just("end")), max_size=9))
def test_packs_say_the_same_in_the_same_order(runs):
    messages: list[Message] = []
    for run in runs:
        if run == "end":
            messages.append(Retire((EntryId("c", f"r{len(messages)}", 1, 1),)))
        else:
            messages += [subscribe(f"s{len(messages) + n}", "p > 1") for n in range(run)]
    packs = list(packed(messages))
    assert [m for p in packs for m in getattr(p, "subscriptions", (p,))] == messages
    assert all(1 < len(p.subscriptions) <= PACK_MAX for p in packs if isinstance(p, SubscribeMany))


# --- headers -------------------------------------------------------------------------------------


@given(
    st.integers(2, 7),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=8),
    st.integers(0, 4),
    st.sampled_from(("none", "active", "incremental", "selective")),
)
def test_distance_and_count_are_what_tables_on_the_way_say(length, wanting, value, covering):
    """`distance` ("Incremental filter aggregation", definition 1): hops from home to the nearest
    broker on the way with another entry that matches. `count` ("Selective filter aggregation"): how
    many others matched on the way, not counting the publisher's broker."""
    names = [f"B{number}" for number in range(length)]
    edges = chain_links(names)
    config = {
        name: BrokerConfig(covering=covering if name != names[-1] else "incremental")
        for name in names
    }
    net = Net(edges, config)
    net.attach("pub", "B0")
    net.advertise("pub", "ANY")
    net.attach("home", names[-1])
    net.settle()
    net.subscribe("home", "p >= 0")
    for number, (broker, bound) in enumerate(wanting):
        net.attach(f"c{number}", names[broker % length])
        net.subscribe(f"c{number}", f"p >= {bound}")
    net.settle()
    matching = [
        sum(
            entry.filter.matches({"p": value}) and entry.origin.link != before
            for entry in net.brokers[name].subscriptions
        )
        for name, before in zip(names, [None, *names], strict=False)
    ]
    net.publish("pub", p=value)
    net.settle()
    last = length - 1
    others = [at for at in range(1, length) if matching[at] > 1]
    distance = last - max(others, default=0)
    count = sum(matching[at] - 1 for at in range(1, length))
    policy = net.brokers[names[-1]].policy
    entry = next(e for e in net.brokers[names[-1]].subscriptions if e.id.client == "home")
    assert policy.statistics.take(entry.key, 0) == [("pub", distance, count, 0)]


# --- one broker, whatever comes ------------------------------------------------------------------

FILTERS = [parse(text) for text in (
    "p > 0", "p > 1", "p > 2", "p > 1 AND q > 0", "p > 2 AND q > 0", "q > 0", "p = 3", "p = 2",
    "TRUE", "p < 2",
)]  # fmt: skip
ADVERTS = [parse(text) for text in ("p > 0 AND q > 0", "p > 2", "q > 0")]
LINKS = ("A", "C", "D")

CONFIGS = st.builds(
    BrokerConfig,
    covering=st.sampled_from(("packing", "lazy", "incremental", "selective", "incremental")),
    incremental_bursts=st.sampled_from(((0, 0), (1, 1), (2, 3))),
    retire_batch=st.sampled_from((0, 1, 2, 20)),
    retire_after_us=st.just(0),
    congestion_queue=st.just(10),
)
NEAR = (("P", 0, 0), ("Q", 0, 0))
HINTED = st.one_of(
    st.just(NEAR),
    st.just(NEAR),
    st.lists(st.tuples(st.sampled_from("PQ"), st.integers(0, 2), st.integers(0, 2)), max_size=3),
)
SUBSCRIBING = st.tuples(
    st.just("subscribe"), st.sampled_from(LINKS), st.integers(0, len(FILTERS) - 1)
)
ENDING = st.tuples(st.just("unsubscribe"), st.integers(0, 99), HINTED)
STEPS = st.one_of(
    SUBSCRIBING,
    SUBSCRIBING,
    SUBSCRIBING,
    ENDING,
    ENDING,
    st.tuples(st.just("retire"), st.integers(0, 99), st.integers(1, 3)),
    st.tuples(st.just("advertise"), st.sampled_from("CD"), st.integers(0, 2)),
    st.tuples(st.just("unadvertise"), st.sampled_from("CD"), st.integers(0, 2)),
    st.tuples(st.just("settle"), st.sampled_from(LINKS), st.integers(0, 9)),
    st.tuples(st.just("sample"), st.sampled_from((0, 99)), st.none()),
    st.tuples(st.just("tick"), st.integers(1, 3), st.none()),
)


class Neighbourhood:
    """A broker, and what its neighbours hold, made from nothing but its messages."""

    def __init__(self, config: BrokerConfig) -> None:
        self.lone = Lone(*LINKS, config=config)
        self.held: dict[str, dict[EntryId, Filter]] = {link: {} for link in LINKS}
        self.asked: dict[str, list[EntryId]] = {link: [] for link in LINKS}
        self.live: dict[EntryId, tuple[str, Filter]] = {}
        self.adverts: dict[tuple[str, int], EntryId] = {}
        self.count = 0

    def read(self, actions: list) -> None:
        for action in actions:
            if isinstance(action, Send) and isinstance(action.frame, Batch):
                for message in action.frame.messages:
                    self.take(action.link, message)

    def take(self, link: str, message: Message) -> None:
        """As the neighbour sees it: nothing comes twice, and nothing goes that is not there."""
        held = self.held[link]
        if isinstance(message, SubscribeMany):
            for each in message.subscriptions:
                self.take(link, each)
        elif isinstance(message, Subscribe):
            assert message.id not in held
            held[message.id] = message.filter
            self.asked[link].append(message.id)
        elif isinstance(message, Unsubscribe | Retire):
            before = [f for id, f in self.wanted(link) if self.is_covered(link, f)]
            for id in message.ids:
                del held[id]
            bare = [f for f in before if not self.is_covered(link, f)]
            assert not bare, f"{message} leaves {bare} without cover"

    def wanted(self, link: str) -> list[tuple[EntryId, Filter]]:
        """What is subscribed and not from there."""
        return [(id, filter) for id, (origin, filter) in self.live.items() if origin != link]

    def is_covered(self, link: str, filter: Filter) -> bool:
        fed = any(at == link and intersects(ADVERTS[n], filter) for at, n in self.adverts)
        return fed and any(covers(wide, filter) for wide in self.held[link].values())

    def do(self, kind: str, first: object, second: object) -> None:
        getattr(self, kind)(first, second)
        assert validate(self.lone.broker) == []

    def subscribe(self, link, at):
        self.count += 1
        id = EntryId("far", f"s{self.count}", 1, self.count)
        self.live[id] = (link, FILTERS[at])
        self.read(self.lone.receive(link, Subscribe(id, FILTERS[at])))

    def end(self, at, count):
        ids = list(self.live)[at % max(len(self.live), 1) :][:count]
        link = self.live[ids[0]][0] if ids else ""
        ids = [id for id in ids if self.live[id][0] == link]
        for id in ids:
            del self.live[id]
        return link, tuple(ids)

    def unsubscribe(self, at, hinted):
        link, ids = self.end(at, 1)
        hints = tuple(Hint(publisher, (a, a + b)) for publisher, a, b in hinted)
        if ids:
            message = Unsubscribe(ids, (0.6, 0.9), (hints,)) if hints else Unsubscribe(ids)
            self.read(self.lone.receive(link, message))

    def retire(self, at, count):
        link, ids = self.end(at, count)
        if ids:
            self.read(self.lone.receive(link, Retire(ids)))

    def advertise(self, link, at):
        if (link, at) not in self.adverts:
            self.count += 1
            id = self.adverts[link, at] = EntryId("P" if link == "C" else "Q", "a", 1, self.count)
            self.read(self.lone.receive(link, Advertise(id, ADVERTS[at])))

    def unadvertise(self, link, at):
        id = self.adverts.pop((link, at), None)
        if id is not None:
            self.read(self.lone.receive(link, Unadvertise(id, ADVERTS[at])))

    def settle(self, link, count):
        ids = tuple(self.asked[link][: count + 1])
        del self.asked[link][: count + 1]
        if ids:
            self.read(self.lone.receive(link, SubscriptionsSettled(ids)))

    def sample(self, queued, _):
        self.read(self.lone.handle(LoadSampled(queued)))

    def tick(self, seconds, _):
        self.lone.now_us += seconds * 1_000_000
        self.read(self.lone.handle(TimerFired(TIMER)))

    def come_to_rest(self) -> None:
        """Everything is answered, nothing is congested, and time passes."""
        self.sample(0, None)
        for _ in range(200):
            for link in LINKS:
                self.settle(link, 999)
            self.tick(1, None)
            assert validate(self.lone.broker) == []
            if not len(self.lone.broker.placeholders):
                break


@given(CONFIGS, st.lists(SUBSCRIBING, min_size=5, max_size=15), st.lists(STEPS, min_size=20))
def test_a_neighbour_always_holds_what_covers_the_rest(config, before, steps):
    world = Neighbourhood(config)
    for link, at in (("C", 0), ("D", 0)):
        world.advertise(link, at)
    for _, link, at in before:
        world.subscribe(link, at)
    for kind, first, second in steps:
        world.do(kind, first, second)
    world.come_to_rest()
    broker = world.lone.broker
    if config.retire_batch:
        assert len(broker.placeholders) == 0
    for link in LINKS:
        forwarded = {e.id for table in (broker.subscriptions, broker.placeholders)
                     for e in table.went_to(link)}  # fmt: skip
        assert forwarded == world.held[link].keys()
