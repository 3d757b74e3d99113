"""What the core makes of what it accepted is within the same bounds: it fits a frame, and every
neighbour and client reads it."""

import msgspec
import pytest

from byway.core.actions import CloseLink, Send, SendReply, Timer
from byway.core.behaviours import LoadExchange
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.covering.packing import packed
from byway.core.inputs import LinkUp, TimerFired
from byway.core.links import EPOCH_MAX, LinkEnd
from byway.core.subscriptions import HINTED_MAX
from byway.core.tables import Withdrawal
from byway.model import parse
from byway.model.bounds import (
    BODY_BYTES_MAX,
    DELIVERED_NAMES_MAX,
    HINTS_MAX,
    INT64_MAX,
    LOADS_MAX,
    NAME_LENGTH_MAX,
    PATH_MAX,
    REASON_LENGTH_MAX,
    SIMILARITIES_MAX,
)
from byway.model.constraints import StringSet
from byway.model.filters import FILTER_BYTES_MAX, Filter, check_filter_bytes
from byway.model.messages import (
    AdvertisementsSynced,
    Batch,
    Body,
    Delivery,
    Disconnect,
    EntryId,
    Hello,
    Hint,
    Lane,
    LinkProbe,
    Load,
    LoadReport,
    PublicationsUnconfirmed,
    Publish,
    Replies,
    Subscribe,
    SubscribeMany,
    SubscribeRequest,
    SyncNames,
    Unsubscribe,
    in_parts,
)
from byway.wire import FRAME_BYTES_LEAST, FRAME_BYTES_MAX, decode, encode, encode_all
from byway.wire.codec import MESSAGE_BYTES_MAX
from tests.lone_broker import Lone, advertise, without_acknowledgements

WIDE = "\U0001f600"
LONGEST = WIDE * NAME_LENGTH_MAX
IDS = [EntryId(LONGEST, f"{n:04}" + WIDE * 252, INT64_MAX, INT64_MAX) for n in range(3_000)]
LARGEST_FILTER = Filter.where({"x": StringSet(("é" * ((FILTER_BYTES_MAX - 24) // 2),))})


def reads(frame: object) -> int:
    """The length of a frame, which must come back as it was."""
    data = encode(frame)
    assert decode(memoryview(data)[4:]) == frame
    return len(data) - 4


def alone(message: object) -> int:
    """The length of a message in a frame of its own, with the largest of numbers."""
    size = reads(Batch(Lane.CONTROL, INT64_MAX, (message,)))
    assert size < FRAME_BYTES_MAX
    assert len(msgspec.msgpack.encode(message)) <= MESSAGE_BYTES_MAX
    return size


def test_ids_with_the_longest_names_are_told_in_more_parts():
    parts = in_parts(IDS)
    assert [id for part in parts for id in part] == IDS
    for part in parts:
        alone(Unsubscribe(part))
        alone(AdvertisementsSynced(part, partial=True))
    for part in in_parts([(id.client[:-4] + id.name[:4], INT64_MAX, INT64_MAX) for id in IDS]):
        alone(PublicationsUnconfirmed(part))
    held = in_parts([(id, True) for id in IDS])
    assert sum(map(len, held)) == len(IDS)
    alone(SyncNames(held[0], held[1]))
    short = [EntryId("client", "subscription", 1, n) for n in range(3_000)]
    assert [len(part) for part in in_parts(short)] == [1_024, 1_024, 952]
    assert in_parts([]) == [()]


def test_the_largest_filters_in_packs():
    check_filter_bytes(LARGEST_FILTER)
    messages = [Subscribe(id, LARGEST_FILTER) for id in IDS[:40]]
    packs = list(packed(messages))
    assert any(isinstance(pack, SubscribeMany) for pack in packs)
    for pack in (*packs, *messages[:1]):
        alone(pack)


def test_the_most_hints_for_the_most_ids():
    lone = Lone("A", "C", config=BrokerConfig(covering="active"))
    lone.receive("A", advertise("a"))
    rules = lone.broker.context.routing.subscription_rules
    hints = tuple(
        Hint(f"{n:03}" + WIDE * 253, (2**30,) * SIMILARITIES_MAX) for n in range(HINTS_MAX)
    )
    for n, hint in enumerate(hints):
        lone.broker.advertisements.add(
            EntryId(hint.publisher, "a", 1, n), parse("x > 1"), lone_origin(lone)
        )
    for id in IDS[: HINTED_MAX + 1]:
        lone.receive("C", Subscribe(id, parse("TRUE")))
    entries = [rules.entry(id) for id in IDS[: HINTED_MAX + 1]]
    similarities = tuple(n / 8 for n in range(1, SIMILARITIES_MAX + 1))
    lone.broker.context.out.messages.clear()
    rules._tell_ended(entries, "A", dict.fromkeys([e.id for e in entries],
                                                  Withdrawal(similarities, hints)))  # fmt: skip
    told = lone.broker.context.out.messages["A"]
    assert [len(message.ids) for message in told] == [HINTED_MAX, 1]
    assert all(len(each) == HINTS_MAX for message in told for each in message.hints)
    for message in told:
        alone(message)


def lone_origin(lone: Lone):
    return next(iter(lone.broker.advertisements)).origin


def test_a_probe_goes_no_further_than_its_path_may_be_long():
    lone = Lone("A", "C", config=BrokerConfig(probe_cycles=True, hops_max=2**30 - 1))
    names = [f"{n:04}" + WIDE * 252 for n in range(PATH_MAX)]
    actions = lone.receive("A", LinkProbe(tuple(names[: PATH_MAX - 2]), INT64_MAX, INT64_MAX))
    (sent,) = without_acknowledgements(actions)
    (probe,) = sent.frame.messages
    assert (sent.link, len(probe.path)) == ("C", PATH_MAX - 1)
    alone(probe)
    for length in (PATH_MAX - 1, PATH_MAX):
        actions = lone.receive("A", LinkProbe(tuple(names[:length]), 1, 1))
        assert not any(a.link == "C" for a in actions)
    alone(LinkProbe(tuple(names), INT64_MAX, INT64_MAX))


def test_a_long_cycle_is_told_in_a_short_reason():
    lone = Lone("A", "Z", config=BrokerConfig(probe_cycles=True))
    cycle = ("A", *(f"{n:03}" + WIDE * 253 for n in range(100)), "Z", "B", "A")
    cycle = tuple(name if name in "ABZ" else f"A{name[:200]}" for name in cycle)
    actions = lone.receive("A", LinkProbe(cycle, 1, 1))
    partings = [a for a in actions if isinstance(a, CloseLink)]
    reasons = [
        message.reason
        for a in actions
        if isinstance(a, Send) and isinstance(a.frame, Batch)
        for message in a.frame.messages
        if isinstance(message, Disconnect)
    ]
    assert len(partings) == len(reasons) == 1
    assert len(reasons[0]) <= REASON_LENGTH_MAX
    alone(Disconnect(reasons[0]))


def test_a_report_of_loads_is_cut_by_its_bytes():
    config = BrokerConfig(load_interval_us=1_000_000, load_radius=9)
    lone = Lone("A", "C", config=config)
    loads = [
        Load(f"{n:04}" + WIDE * 252, 2, 1, 1e9, 1e9, 1e9, INT64_MAX, 1.0) for n in range(LOADS_MAX)
    ]
    exchange = lone.broker.behaviours[LoadExchange.name]
    exchange.known["A"] = {load.broker: load for load in loads}
    lone.now_us = 1
    for load in loads:
        exchange.known["A"][load.broker] = msgspec.structs.replace(load, at_us=1)
    actions = lone.handle(TimerFired(Timer(exchange.name)))
    (report,) = [
        message
        for a in actions
        if isinstance(a, Send) and a.link == "C"
        for message in a.frame.messages
        if isinstance(message, LoadReport)
    ]
    assert 500 < len(report.loads) < LOADS_MAX
    alone(report)
    short = [msgspec.structs.replace(load, broker=load.broker[:4]) for load in loads]
    exchange.known["A"] = {load.broker: msgspec.structs.replace(load, at_us=1) for load in short}
    actions = lone.handle(TimerFired(Timer(exchange.name)))
    (report,) = [a.frame.messages[0] for a in actions if isinstance(a, Send) and a.link == "C"]
    assert len(report.loads) == LOADS_MAX


def test_a_publication_for_many_subscriptions_of_a_client_comes_in_several_deliveries():
    lone = Lone("A")
    lone.receive("A", advertise("a"))
    lone.attach("c", ttl_us=1_000)
    names = [f"{n:04}" + WIDE * 252 for n in range(2 * DELIVERED_NAMES_MAX + 3)]
    for name in names:
        lone.ask("c", SubscribeRequest(name, parse("TRUE")))
    empty = len(msgspec.msgpack.encode(Body({}, b"\0" * 1_000_000))) - 1_000_000
    body = msgspec.msgpack.encode(Body({}, bytes(BODY_BYTES_MAX - empty)))
    assert len(body) == BODY_BYTES_MAX
    message = Publish(LONGEST, INT64_MAX, INT64_MAX, INT64_MAX, 1, 1, 2**30, body)
    (told,) = [a for a in lone.receive("A", message) if isinstance(a, SendReply)]
    assert [delivery.number for delivery in told.replies] == [1, 2, 3]
    assert [name for delivery in told.replies for name in delivery.names] == names
    assert {delivery.publication for delivery in told.replies} == {message}
    for delivery in told.replies:
        assert reads(Replies((delivery,))) < FRAME_BYTES_LEAST
    for data in encode_all(Replies(told.replies)):
        assert len(data) < FRAME_BYTES_LEAST
    assert lone.broker.counters.deliveries == 1
    resumed = lone.attach("c", ttl_us=1_000, received=1)
    deliveries = [r for a in resumed for r in a.replies if isinstance(r, Delivery)]
    assert deliveries == list(told.replies[1:])


def test_many_small_publications_of_a_publisher_with_a_long_name_travel_in_frames_that_are_read():
    message = Publish(LONGEST, INT64_MAX, INT64_MAX, INT64_MAX, 2**30, 2**30, 2**30, b"")
    for data in encode_all(Batch(Lane.DATA, 1, (message,) * 8_000)):
        assert len(data) < FRAME_BYTES_LEAST
    delivery = Delivery(INT64_MAX, message, (LONGEST,) * DELIVERED_NAMES_MAX)
    for data in encode_all(Replies((delivery,) * 100)):
        assert len(data) < FRAME_BYTES_LEAST


@pytest.mark.parametrize("theirs", [EPOCH_MAX, EPOCH_MAX - 1])
def test_an_epoch_that_cannot_be_counted_up_does_no_lasting_harm(theirs: int):
    """A stranger greets as A with it; then A comes back, and both ends go on as ever."""
    a, b = LinkEnd("A", "B", 1), LinkEnd("B", "A", 1)
    first, second = a.hello(), b.hello()
    a.meet(second, first)
    b.meet(first, second)
    assert a.epoch == b.epoch == 1
    b.meet(Hello("A", 1, 0, 0, 0, 0, theirs), b.hello())
    for _ in range(3):
        a.distrusted()
        reads(a.hello())
        reads(b.hello())
        first, second = a.hello(), b.hello()
        assert not a.meet(second, first).resumed
        assert not b.meet(first, second).resumed
        assert a.epoch == b.epoch
        assert a.epoch <= EPOCH_MAX
    first, second = a.hello(), b.hello()
    assert a.meet(second, first).resumed
    assert b.meet(first, second).resumed


def test_a_greeting_with_the_last_epoch_survives_a_snapshot():
    lone = Lone("A", agreed=False)
    lone.handle(LinkUp("A", Hello("A", INT64_MAX, 0, 0, 0, 0, EPOCH_MAX)))
    restored = Broker.restore(lone.broker.snapshot())
    reads(restored.hello("A"))
    assert restored.hello("A").epoch == 1
