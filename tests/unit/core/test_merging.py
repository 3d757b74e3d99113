"""Merging: one filter in the place of several, on one link, and back again."""

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.covering.merging import OBSERVED_EVERY, OBSERVED_MIN
from byway.core.inputs import TimerFired
from byway.core.invariants import validate
from byway.core.subscriptions import TIMER
from byway.model import parse
from byway.model.messages import (
    EntryId,
    Retire,
    Subscribe,
    SubscriptionsSettled,
    Unsubscribe,
)
from tests.lone_broker import (
    Lone,
    advertise,
    entry,
    publication,
    subscribe,
    without_acknowledgements,
)

SECOND_US = 1_000_000


def fed(**settings) -> Lone:
    """A broker with subscribers behind A, and a neighbour C that advertises prices."""
    config = BrokerConfig(**{"covering": "active", "merging": True, **settings})
    lone = Lone("A", "C", config=config)
    lone.receive("C", advertise("of C", "ANY"))
    return lone


def sent(actions: list, link: str = "C") -> list:
    frames = [a.frame for a in without_acknowledgements(actions) if getattr(a, "link", "") == link]
    return [message for frame in frames for message in frame.messages]


def quiet(lone: Lone) -> list:
    """What is sent in the next quiet step; what was sent before is settled."""
    there = [e for e in [*lone.broker.subscriptions, *lone.broker.placeholders] if e.awaiting]
    if there:
        lone.receive("C", SubscriptionsSettled(tuple(e.id for e in there)))
    lone.now_us += SECOND_US
    told = sent(lone.handle(TimerFired(TIMER)))
    assert validate(lone.broker) == []
    return told


def merged_as(number: int, wanted: str) -> Subscribe:
    return Subscribe(EntryId("merge@B", str(number), 1, number), parse(wanted))


def gone(*names: str) -> Unsubscribe:
    return Unsubscribe(tuple(sorted(entry(name) for name in names)))


def retired(number: int) -> Retire:
    return Retire((EntryId("merge@B", str(number), 1, number),))


LOW, MIDDLE, HIGH = (
    subscribe("low", "s = 'X' AND p >= 0 AND p < 10"),
    subscribe("middle", "s = 'X' AND p >= 10 AND p < 20"),
    subscribe("high", "s = 'X' AND p >= 20 AND p < 30"),
)


def test_two_neighbouring_ranges_become_one():
    lone = fed()
    assert sent(lone.receive("A", LOW, MIDDLE)) == [LOW, MIDDLE]
    assert quiet(lone) == [merged_as(1, "s = 'X' AND p >= 0 AND p < 20"), gone("low", "middle")]
    assert quiet(lone) == []


def test_what_comes_later_is_merged_with_the_merged_filter():
    lone = fed()
    lone.receive("A", LOW, HIGH)
    assert quiet(lone) == []  # there is a gap
    assert sent(lone.receive("A", MIDDLE)) == [MIDDLE]
    whole = merged_as(1, "s = 'X' AND p >= 0 AND p < 30")
    assert quiet(lone) == [whole, gone("high", "low", "middle")]
    assert [e.id for e in lone.broker.placeholders] == [whole.id]
    assert all("C" not in e.forwarded for e in lone.broker.subscriptions)


def test_what_a_merged_filter_covers_is_not_sent():
    lone = fed()
    lone.receive("A", LOW, MIDDLE)
    quiet(lone)
    assert sent(lone.receive("A", subscribe("x", "s = 'X' AND p = 5"))) == []


def test_equal_but_for_a_set_of_values():
    lone = fed()
    lone.receive("A", subscribe("x", "s = 'X' AND p > 1"), subscribe("y", "s = 'Y' AND p > 1"))
    assert quiet(lone) == [merged_as(1, "s IN ('X', 'Y') AND p > 1"), gone("x", "y")]


def test_filters_that_differ_twice_are_left_alone():
    lone = fed()
    lone.receive("A", subscribe("x", "s = 'X' AND p > 1"), subscribe("y", "s = 'Y' AND p > 2"))
    assert quiet(lone) == []


def test_without_merging_nothing_is_merged():
    lone = fed(merging=False)
    lone.receive("A", LOW, MIDDLE)
    assert lone.broker.policy.observer is None
    assert sent(lone.handle(TimerFired(TIMER))) == []


def test_a_part_that_ends_leaves_a_narrower_merged_filter():
    lone = fed()
    lone.receive("A", LOW, MIDDLE, HIGH)
    quiet(lone)
    quiet(lone)
    [whole] = [e.id.number for e in lone.broker.placeholders]
    assert sent(lone.receive("A", gone("low"))) == []
    told = quiet(lone)
    assert told == [merged_as(whole + 1, "s = 'X' AND p >= 10 AND p < 30"), retired(whole)]


def test_a_part_that_ends_in_the_middle_splits_the_merged_filter():
    lone = fed()
    lone.receive("A", LOW, MIDDLE, HIGH)
    quiet(lone)
    quiet(lone)
    [whole] = [e.id.number for e in lone.broker.placeholders]
    assert sent(lone.receive("A", gone("middle"))) == []
    told = [message for _ in range(4) for message in quiet(lone)]
    assert told == [LOW, HIGH, retired(whole)]
    assert len(lone.broker.placeholders) == 0


def test_the_last_part_takes_the_place_of_the_merged_filter():
    lone = fed()
    lone.receive("A", LOW, MIDDLE)
    quiet(lone)
    lone.receive("A", gone("low"))
    told = [message for _ in range(4) for message in quiet(lone)]
    assert told == [MIDDLE, retired(1)]


def test_nothing_is_left_when_all_parts_end():
    lone = fed()
    lone.receive("A", LOW, MIDDLE)
    quiet(lone)
    lone.receive("A", gone("low", "middle"))
    assert [message for _ in range(3) for message in quiet(lone)] == [retired(1)]
    assert len(lone.broker.placeholders) == 0


def test_a_broader_one_replaces_the_merged_filter():
    lone = fed()
    lone.receive("A", LOW, MIDDLE)
    quiet(lone)
    wide = subscribe("wide", "s = 'X' AND p > -1")
    assert sent(lone.receive("A", wide)) == [wide, retired(1)]


GAP = (
    subscribe("low", "s = 'X' AND p >= 0 AND p < 45"),
    subscribe("high", "s = 'X' AND p >= 55 AND p < 100"),
)


def test_a_small_gap_is_bridged_within_the_budget():
    lone = fed(merging_false_positives=0.2)
    lone.receive("A", *GAP)
    assert quiet(lone) == [merged_as(1, "s = 'X' AND p >= 0 AND p < 100"), gone("low", "high")]


def test_a_gap_is_not_bridged_beyond_the_budget():
    lone = fed(merging_false_positives=0.05)
    lone.receive("A", *GAP)
    assert quiet(lone) == []


def test_a_merged_filter_that_lets_too_much_through_goes_and_does_not_come_back():
    lone = fed(merging_false_positives=0.2)
    lone.receive("A", *GAP)
    quiet(lone)
    for number in range(OBSERVED_EVERY * OBSERVED_MIN):
        lone.receive("C", publication(number + 1, s="X", p=50 if number % 16 < 8 else 5))
    told = [message for _ in range(6) for message in quiet(lone)]
    assert told == [*GAP, retired(1)]
    assert all("C" in e.forwarded for e in lone.broker.subscriptions)


def test_one_that_lets_little_through_stays():
    lone = fed(merging_false_positives=0.2)
    lone.receive("A", *GAP)
    quiet(lone)
    for number in range(2 * OBSERVED_EVERY * OBSERVED_MIN):
        lone.receive("C", publication(number + 1, s="X", p=50 if number % 80 < 8 else 5))
    assert quiet(lone) == []
    assert len(lone.broker.placeholders) == 1


def test_steps_are_bounded():
    lone = fed(retire_batch=2)
    symbols = [subscribe(f"s{n}", f"s = '{n}' AND p > {n % 5}") for n in range(20)]
    lone.receive("A", *symbols)
    told = quiet(lone)
    assert sum(isinstance(message, Subscribe) for message in told) == 2


def test_what_is_sent_again_after_a_restart_is_as_new_as_without_it():
    """A broader one has taken its place for a while, and the broker restarted meanwhile."""
    lone = fed()
    lone.receive("A", LOW)
    assert quiet(lone) == []
    broader = subscribe("broader", "s = 'X' AND p >= 0")
    assert sent(lone.receive("A", broader)) == [broader, gone("low")]
    twin = Broker.restore(lone.broker.snapshot(), lone.broker.config, up=("A", "C"))
    frame = lone.frame("A", gone("broader"))
    for broker in (lone.broker, twin):
        told = sent(broker.handle_batch(lone.now_us, (frame,)))
        assert told == [LOW, gone("broader")]
    assert twin.policy.snapshot() == lone.broker.policy.snapshot()


def test_it_goes_on_after_a_restart():
    lone = fed()
    lone.receive("A", LOW, MIDDLE)
    quiet(lone)
    lone.receive("A", HIGH)
    twin = Broker.restore(lone.broker.snapshot(), lone.broker.config)
    assert twin.policy.snapshot() == lone.broker.policy.snapshot()
    assert twin.snapshot() == lone.broker.snapshot()
    for broker in (lone.broker, twin):
        broker.handle(2 * SECOND_US, TimerFired(TIMER))
    assert [(e.id, e.filter, e.forwarded) for e in twin.placeholders] == [
        (e.id, e.filter, e.forwarded) for e in lone.broker.placeholders
    ]
    assert [e.id.number for e in twin.placeholders] == [2]
