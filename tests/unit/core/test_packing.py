"""Packing, which sends what goes out together in one message, and lazy covering, which leaves what
was sent where it is."""

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.covering.packing import PACK_BYTES_MAX, PACK_MAX, packed
from byway.core.invariants import validate
from byway.model import Filter, parse
from byway.model.messages import (
    Batch,
    EntryId,
    Lane,
    Retire,
    Subscribe,
    SubscribeMany,
    SubscriptionsSettled,
    Unsubscribe,
)
from byway.wire import FRAME_BYTES_MAX, encode_all
from tests.lone_broker import (
    Lone,
    acknowledged,
    advertise,
    control,
    entry,
    subscribe,
    unadvertise,
    without_acknowledgements,
)

PACKING = BrokerConfig(covering="packing")
LAZY = BrokerConfig(covering="lazy")
WIDE, NARROW, OTHER, TWIN = (
    subscribe("wide", "p > 1"), subscribe("narrow", "p > 5"), subscribe("other", "p < 4 AND p > 1"),
    subscribe("twin", "p > 1"),
)  # fmt: skip


def fed(config: BrokerConfig) -> Lone:
    """A broker with subscribers behind A, and C, which advertises; three were sent to each."""
    lone = Lone("A", "C", config=config)
    lone.receive("C", advertise("of C", "p > 0"))
    return lone


def sent(actions: list) -> list:
    """Messages to C."""
    frames = [a.frame for a in without_acknowledgements(actions) if getattr(a, "link", "") == "C"]
    return [message for frame in frames for message in frame.messages]


def gone(*names: str) -> Unsubscribe:
    return Unsubscribe(tuple(entry(name) for name in names))


def settled(*names: str) -> SubscriptionsSettled:
    return SubscriptionsSettled(tuple(entry(name) for name in names))


# --- packs ---------------------------------------------------------------------------------------


def numbered(count: int) -> list[Subscribe]:
    return [Subscribe(EntryId("c", f"s{n}", 1, n), parse(f"p = {n}")) for n in range(count)]


def test_runs_become_one_and_order_is_kept():
    a, b, c, d, e = numbered(5)
    ended, retired = gone("x"), Retire((entry("y"),))
    assert list(packed([a, b, ended, c, retired, d, e])) == [
        SubscribeMany((a, b)), ended, c, retired, SubscribeMany((d, e)),
    ]  # fmt: skip
    assert list(packed([])) == []
    assert list(packed([ended])) == [ended]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (PACK_MAX, [PACK_MAX]),
        (PACK_MAX + 1, [PACK_MAX, 1]),
        (2 * PACK_MAX + 2, [PACK_MAX, PACK_MAX, 2]),
    ],
)
def test_a_pack_has_so_many_at_most(count, sizes):
    messages = numbered(count)
    packs = list(packed(messages))
    assert [len(getattr(p, "subscriptions", (p,))) for p in packs] == sizes
    assert [s for p in packs for s in getattr(p, "subscriptions", (p,))] == messages


def test_a_pack_fits_a_frame_whatever_the_filters():
    values = dict(
        parse(f"v IN ({', '.join(str(2 * n) for n in range(999))})").conjunctions[0].terms
    )
    above = dict(parse("a > 1").conjunctions[0].terms)["a"]
    large = Filter.of([values | {f"a{n}": above} for n in range(64)])
    messages = [Subscribe(EntryId("c", f"s{n}", 1, n), large) for n in range(40)]
    packs = list(packed(messages))
    assert [s for p in packs for s in getattr(p, "subscriptions", (p,))] == messages
    frames = encode_all(Batch(Lane.CONTROL, 1, tuple(packs)))
    assert max(map(len, frames)) < PACK_BYTES_MAX + 1_000 < FRAME_BYTES_MAX


# --- a broker that packs -------------------------------------------------------------------------


def test_what_one_stood_for_comes_in_one_message_and_first():
    lone = fed(PACKING)
    lone.receive("A", WIDE, NARROW, OTHER)
    assert lone.receive("A", gone("wide")) == [
        control("A", 6, settled("wide")),
        acknowledged("A", 8),
        control("C", 6, SubscribeMany((NARROW, OTHER)), gone("wide")),
    ]
    assert validate(lone.broker) == []


def test_one_alone_is_not_packed():
    lone = fed(PACKING)
    assert sent(lone.receive("A", WIDE)) == [WIDE]


def test_a_later_broader_one_has_the_narrower_withdrawn():
    lone = fed(PACKING)
    lone.receive("A", NARROW)
    assert sent(lone.receive("A", WIDE)) == [WIDE, gone("narrow")]


@pytest.mark.parametrize("covering", ["none", "active", "lazy", "packing", "incremental"])
def test_a_pack_has_the_effect_of_its_subscriptions(covering):
    lone, other = fed(BrokerConfig(covering=covering)), fed(BrokerConfig(covering=covering))
    together = lone.receive("A", SubscribeMany((NARROW, WIDE, OTHER)))
    one_by_one = other.receive("A", NARROW, WIDE, OTHER)
    assert sent(together) == sent(one_by_one) != []
    assert lone.broker.subscriptions.get(entry("other")) is not None
    assert validate(lone.broker) == []


# --- lazy ----------------------------------------------------------------------------------------


def test_a_covered_one_is_not_sent():
    lone = fed(LAZY)
    assert sent(lone.receive("A", WIDE)) == [WIDE]
    assert sent(lone.receive("A", NARROW, TWIN)) == []


def test_what_was_sent_before_a_broader_one_stays():
    lone = fed(LAZY)
    assert sent(lone.receive("A", NARROW)) == [NARROW]
    assert sent(lone.receive("A", WIDE)) == [WIDE]
    assert validate(lone.broker) == []


def test_only_what_came_after_it_is_sent_when_it_goes():
    lone = fed(LAZY)
    lone.receive("A", NARROW, WIDE, OTHER)
    assert sent(lone.receive("A", gone("wide"))) == [OTHER, gone("wide")]
    assert validate(lone.broker) == []
    assert lone.broker.counters.triggered == 1


def test_what_stands_for_others_need_not_be_the_broadest():
    """Narrow was sent before wide; the narrowest is behind both, and comes when neither is left."""
    lone = fed(LAZY)
    narrowest = subscribe("narrowest", "p > 9")
    lone.receive("A", NARROW, WIDE, narrowest)
    assert sent(lone.receive("A", gone("wide"))) == [gone("wide")]
    assert sent(lone.receive("A", gone("narrow"))) == [narrowest, gone("narrow")]


def test_a_broader_one_that_is_released_leaves_the_narrower_too():
    lone = fed(LAZY)
    lone.receive("A", NARROW, subscribe("widest"), WIDE)
    assert sent(lone.receive("A", gone("widest"))) == [WIDE, gone("widest")]
    assert lone.broker.subscriptions.get(entry("narrow")).forwarded == {"C"}


def test_an_advertisement_that_comes_draws_the_broadest_only():
    lone = Lone("A", "C", config=LAZY)
    lone.receive("A", NARROW, WIDE)
    assert sent(lone.receive("C", advertise("late", "p > 0"))) == [WIDE]


def test_an_advertisement_that_goes_takes_all_back():
    lone = fed(LAZY)
    lone.receive("A", NARROW, WIDE, OTHER)
    assert sent(lone.receive("C", unadvertise("of C", "p > 0"))) == [gone("narrow", "wide")]
    assert validate(lone.broker) == []
