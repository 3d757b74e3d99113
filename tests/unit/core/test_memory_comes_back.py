"""What a broker holds after subscriptions, advertisements and clients have gone: counted, not
weighed. `tests/integration/test_memory.py` weighs processes."""

import gc
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Started
from byway.matching import drop_scratch, tidy
from byway.matching.table_index import TableIndex
from byway.matching.vocabulary import SHARED
from byway.model import parse
from byway.model.fitting import fit
from byway.model.messages import (
    AdvertiseRequest,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)

MANY = 3_000


def words(prefix: str, n: int) -> str:
    return f"{prefix}{n} = 'the value {prefix}{n}' AND topic = '{prefix}/{n}'"


class One:
    """A broker with some subscriptions that stay."""

    def __init__(self, config: BrokerConfig) -> None:
        self.broker = Broker("A", ["B"], config)
        self.now_us = 1_000_000
        self.take(Started())
        self.attach("staying")
        self.ask("staying", AdvertiseRequest("everything", parse("ANY")))
        for n in range(20):
            self.ask("staying", SubscribeRequest(f"stays{n}", parse(words("stays", n))))

    def take(self, event) -> None:
        self.now_us += 10
        self.broker.handle(self.now_us, event)

    def attach(self, name: str) -> None:
        self.take(ClientAttached(name, self.now_us, 0, 0, False))

    def ask(self, name: str, *requests: Request) -> None:
        self.take(ClientRequested(name, requests))

    def come_and_go(self, number: int) -> None:
        self.attach(f"client{number}")
        prefix = f"p{number}_"
        for n in range(MANY):
            wanted = parse(words(prefix, n))
            self.ask(f"client{number}", SubscribeRequest(f"{prefix}{n}", wanted))
        for n in range(MANY // 2):
            self.ask(f"client{number}", UnsubscribeRequest((f"{prefix}{n}",)))
        self.take(ClientDetached(f"client{number}", True))

    @property
    def indexes(self) -> Iterator[TableIndex]:
        routing = self.broker.context.routing
        yield from (routing.subscriptions.index, routing.adverts.index, routing.placeholders.index)
        if routing.sent is not None:
            yield routing.sent.index

    def held(self) -> int:
        """Bytes of indexes, words and tables."""
        while tidy():
            pass
        routing = self.broker.context.routing
        tables = (routing.subscriptions, routing.adverts, routing.placeholders)
        return (
            sum(index.in_use.memory_bytes for index in self.indexes)  # type: ignore[union-attr]
            + SHARED.memory_bytes
            + sum(sys.getsizeof(t._entries) + sys.getsizeof(t._by_key) for t in tables)
            + sum(t._links.nbytes + sys.getsizeof(t.keys.free) for t in tables)
        )


@pytest.fixture(params=["none", "active"])
def one(request: pytest.FixtureRequest) -> One:
    return One(BrokerConfig(covering=request.param))


def objects() -> Counter[str]:
    gc.collect()
    return Counter(type(o).__qualname__ for o in gc.get_objects())


def test_a_broker_holds_after_a_storm_what_it_held_before(one):
    one.come_and_go(0)  # whatever is made once has been made
    names, strings = set(SHARED.names), set(SHARED.strings)
    before, kinds = one.held(), objects()
    for number in range(1, 4):
        one.come_and_go(number)
        assert one.held() < before * 1.2 + 200_000  # a storm has 3,000 times more than a kilobyte
        assert set(SHARED.names) <= names
        assert set(SHARED.strings) <= strings
    grown = {kind: n for kind, n in (objects() - kinds).items() if n > 300}
    assert not grown
    assert len(one.broker.subscriptions) == 20


def lasting(one: One) -> list[object]:
    """Objects that a broker has for as long as it lives."""
    drop_scratch()
    context = one.broker.context
    found: list[object] = [SHARED.names, SHARED.strings, SHARED._free, context.out]
    found += [getattr(context.out, name) for name in type(context.out).__slots__]
    routing = context.routing
    for table in (routing.subscriptions, routing.adverts, routing.placeholders):
        found += [table._entries, table._by_key, table._links, table.keys.free]
    for index in one.indexes:
        found += [index.in_use, index.match, index.in_use._out]
        found += vars(index.in_use._atoms).values()
    return found


def test_what_stays_is_not_made_anew_in_a_storm(one):
    """A new object among many others would hold their memory when they have gone."""
    before = lasting(one)
    one.come_and_go(1)
    one.held()  # what shrinks has shrunk
    after = lasting(one)
    numbers = [n for n, each in enumerate(after) if type(each) is int]
    assert [n for n in range(len(after)) if after[n] is not before[n] and n not in numbers] == []


def test_large_advertisements_leave_nothing(one):
    def come_and_go(number: int) -> None:
        one.attach("advertiser")
        for n in range(3):
            text = " OR ".join(
                f"a{number}_{n}_{x} > 1 AND b{number}_{n}_{x} < 3" for x in range(60)
            )
            one.ask("advertiser", AdvertiseRequest(f"adv{n}", parse(text)))
        one.ask("advertiser", UnadvertiseRequest("adv0"))
        one.take(ClientDetached("advertiser", True))

    come_and_go(0)
    before, names = one.held(), set(SHARED.names)
    for number in range(1, 5):
        come_and_go(number)
        assert one.held() < before * 1.2
        assert set(SHARED.names) <= names


def test_churn_is_flat(one):
    def replace(n: int) -> None:
        one.attach(f"c{n}")
        one.ask(f"c{n}", SubscribeRequest("s", parse(words("churn", n))))
        if n >= 100:
            one.take(ClientDetached(f"c{n - 100}", True))

    for n in range(1_000):
        replace(n)
    before = one.held()
    for n in range(1_000, 4_000):
        replace(n)
    assert one.held() < before * 1.1 + 20_000
    assert len(SHARED._texts) < 2_000
    assert all(index.in_use._arrays.rows("where") < 1_000 for index in one.indexes)


def test_a_snapshot_gives_keys_in_the_same_order_after_most_entries_went(one):
    """Whether keys were cut off must not depend on a restart."""
    one.come_and_go(0)
    restored = One.__new__(One)
    restored.broker = Broker.restore(
        one.broker.snapshot(), one.broker.context.config, attached=["staying"]
    )
    restored.now_us = one.now_us
    for broker in (one, restored):
        broker.attach("again")
        for n in range(1_500):
            broker.ask("again", SubscribeRequest(f"s{n}", parse(f"x{n} = 1")))
        for n in range(0, 1_500, 3):
            broker.ask("again", UnsubscribeRequest((f"s{n}",)))
    assert restored.broker.snapshot() == one.broker.snapshot()


def test_a_dict_that_is_mostly_empty_becomes_smaller():
    table = dict.fromkeys(range(10_000))
    size = sys.getsizeof(table)
    fit(table)
    assert sys.getsizeof(table) == size
    for n in range(9_990):
        del table[n]
    fit(table)
    assert list(table) == list(range(9_990, 10_000))
    assert sys.getsizeof(table) < 1_000
