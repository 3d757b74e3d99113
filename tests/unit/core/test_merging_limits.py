"""Merging comes to rest, finds what merges in any order, and keeps to its budget."""

import random
import tracemalloc

import pytest

from byway.core.actions import SetTimer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.covering.merging import OBSERVED_EVERY, OBSERVED_MAX, PARTS_MAX
from byway.core.covering.partners import ALTERNATIVES_MAX, POSTINGS_MAX, Partners
from byway.core.covering.samples import SAMPLES_MAX, Samples
from byway.core.inputs import Started, TimerFired
from byway.core.subscriptions import TIMER
from byway.model import Filter, covers, parse
from byway.model.constraints import SET_SIZE_MAX, equal_to
from byway.model.filter_merging import even_share, merge, merge_exactly
from byway.model.messages import Subscribe, SubscriptionsSettled
from byway.model.tree_shapes import chain_links
from tests.core_net import Net
from tests.lone_broker import Lone, entry, publication, subscribe
from tests.unit.core.test_merging import (
    GAP,
    HIGH,
    LOW,
    MIDDLE,
    SECOND_US,
    fed,
    gone,
    merged_as,
    quiet,
    retired,
    sent,
)

POLICIES = ("active", "lazy", "packing", "incremental", "selective")


def forwarded(lone: Lone) -> list[str]:
    entries = [*lone.broker.subscriptions, *lone.broker.placeholders]
    return sorted(str(e.filter) for e in entries if "C" in e.forwarded)


def publish(lone: Lone, first: int, values: list[float]) -> None:
    for number, value in enumerate(values, first):
        lone.receive("C", publication(number, s="X", p=value))


# --- rest ----------------------------------------------------------------------------------------

OVERLAPPING = (
    "p >= 0 AND p < 2 AND q = 0", "p >= -1 AND p < 0", "p >= 0 AND p < 1", "p >= 1 AND p < 2",
)  # fmt: skip


def steps_to_rest(net: Net, most: int = 100) -> int:
    for step in range(most):
        net.settle()
        due = sorted((at, broker) for (broker, timer), at in net.timers.items() if timer == TIMER)
        if not due:
            return step
        net.fire(due[0][1], TIMER)
    raise AssertionError(f"it is not at rest after {most} steps")


@pytest.mark.parametrize("brokers", [2, 4])
@pytest.mark.parametrize("covering", POLICIES)
def test_both_ends_merge_and_come_to_rest(covering, brokers):
    names = [f"B{number}" for number in range(brokers)]
    net = Net(chain_links(names), BrokerConfig(covering=covering, merging=True))
    ends = {"a": names[0], "b": names[-1]}
    for client, broker in ends.items():
        net.attach(client, broker)
        net.advertise(client, "ANY")
    net.settle()
    for client in ends:
        for number, text in enumerate(OVERLAPPING):
            net.subscribe(client, text, f"s{number}")
    assert steps_to_rest(net) < 20
    assert all(len(net.brokers[broker].placeholders) == 1 for broker in ends.values())


def test_a_merged_filter_stays_when_what_ends_came_from_where_it_went():
    lone = fed()
    lone.receive("A", LOW, MIDDLE)
    quiet(lone)
    lone.receive("C", subscribe("of C", "s = 'X' AND p = 5"))
    quiet(lone)
    lone.receive("C", gone("of C"))
    assert not lone.broker.policy.observer.has_work


def test_the_first_part_need_not_merge_with_any_other():
    lone = fed()
    lone.receive("A", *(subscribe(f"s{n}", text) for n, text in enumerate(OVERLAPPING)))
    quiet(lone)
    [whole] = lone.broker.placeholders
    lone.receive("A", subscribe("x", "p = 1"))
    lone.receive("A", gone("x"))
    assert [message for _ in range(4) for message in quiet(lone)] == []
    assert list(lone.broker.placeholders) == [whole]


def ticks(lone: Lone, count: int) -> tuple[list, list]:
    """What is sent, and the timers that are set, while time passes."""
    actions = []
    for _ in range(count):
        lone.now_us += SECOND_US
        actions += lone.handle(TimerFired(TIMER))
    return sent(actions), [a for a in actions if isinstance(a, SetTimer)]


def test_without_retirement_there_is_merging():
    lone = fed(retire_batch=0)
    lone.receive("A", LOW, MIDDLE)
    assert quiet(lone) == [merged_as(1, "s = 'X' AND p >= 0 AND p < 20"), gone("low", "middle")]
    quiet(lone)
    assert ticks(lone, 3) == ([], [])


@pytest.mark.parametrize("covering", POLICIES)
def test_without_retirement_a_merged_filter_that_lost_a_part_goes_at_once(covering):
    lone = fed(covering=covering, retire_batch=0)
    lone.receive("A", LOW, HIGH)
    quiet(lone)
    lone.receive("A", MIDDLE)
    quiet(lone)
    assert len(lone.broker.placeholders) == 1
    lone.receive("A", gone("middle"))
    assert quiet(lone)[-1] == retired(1)
    assert forwarded(lone) == sorted([str(LOW.filter), str(HIGH.filter)])
    quiet(lone)
    assert ticks(lone, 3) == ([], [])


@pytest.mark.parametrize("retire_batch", [0, 20])
@pytest.mark.parametrize("covering", POLICIES)
def test_further_on_nothing_stays_of_a_merged_filter_that_went(covering, retire_batch):
    config = BrokerConfig(covering=covering, merging=True, retire_batch=retire_batch)
    net = Net([("B0", "B1"), ("B1", "B2")], config)
    net.attach("publisher", "B2")
    net.attach("subscriber", "B0")
    net.advertise("publisher", "ANY")
    net.settle()
    for number in range(3):
        net.subscribe("subscriber", f"p >= {number} AND p < {number + 1}", f"s{number}")
    steps_to_rest(net)
    assert len(net.brokers["B0"].placeholders) == 1
    net.unsubscribe("subscriber", "s1")
    steps_to_rest(net)
    assert [len(broker.subscriptions) for broker in net.brokers.values()] == [2, 2, 2]
    assert [len(broker.placeholders) for broker in net.brokers.values()] == [0, 0, 0]


@pytest.mark.parametrize("retire_batch", [0, 20])
def test_when_merging_is_switched_off_merged_filters_go(retire_batch):
    lone = fed()
    lone.receive("A", LOW, MIDDLE)
    quiet(lone)
    quiet(lone)
    config = BrokerConfig(covering="active", retire_batch=retire_batch)
    lone.broker = Broker.restore(lone.broker.snapshot(), config)
    timers = [a for a in lone.handle(Started()) if isinstance(a, SetTimer) and a.timer == TIMER]
    assert len(timers) == 1
    ticks(lone, 3)
    assert len(lone.broker.placeholders) == 0
    assert forwarded(lone) == sorted([str(LOW.filter), str(MIDDLE.filter)])
    assert ticks(lone, 3) == ([], [])


def test_with_no_room_for_merged_filters_it_rests():
    lone = fed(preserved_max=0)
    lone.receive("A", LOW, MIDDLE)
    assert ticks(lone, 3) == ([], [])


def test_it_goes_on_when_there_is_room_again():
    lone = fed(preserved_max=1)
    other = [subscribe(f"y{n}", f"s = 'Y' AND p >= {n} AND p < {n + 1}") for n in (1, 2)]
    lone.receive("A", LOW, MIDDLE, *other)
    quiet(lone)
    assert ticks(lone, 1) == ([], [])
    lone.receive("A", gone("low", "middle"))
    told = [message for _ in range(3) for message in quiet(lone)]
    assert told == [retired(1), merged_as(2, "s = 'Y' AND p >= 1 AND p < 3"), gone("y1", "y2")]


def test_what_follows_a_merged_filter_follows_the_one_that_takes_its_place():
    lone = fed()
    lone.receive("A", LOW, HIGH)
    quiet(lone)
    lone.receive("A", MIDDLE)
    quiet(lone)  # the merged filter is sent, and not settled at C
    lone.receive("A", subscribe("x", "s = 'X' AND p = 15"))
    lone.receive("A", gone("low"))
    lone.now_us += SECOND_US
    actions = lone.handle(TimerFired(TIMER))
    assert sent(actions) == [merged_as(2, "s = 'X' AND p >= 10 AND p < 30"), retired(1)]
    assert sent(actions, "A") == []
    [new] = lone.broker.placeholders
    told = SubscriptionsSettled((subscribe("x").id,))
    assert sent(lone.receive("C", SubscriptionsSettled((new.id,))), "A") == [told]


# --- any order -----------------------------------------------------------------------------------


def in_order(count: int, order: str) -> list[int]:
    numbers = list(range(count))
    if order == "even first":
        return numbers[::2] + numbers[1::2]
    if order == "inwards":
        return [n for pair in zip(numbers, reversed(numbers), strict=True) for n in pair][:count]
    random.Random(order).shuffle(numbers)
    return numbers


@pytest.mark.parametrize("order", ["even first", "inwards", "1", "2", "3"])
def test_neighbouring_ranges_become_one_in_any_order(order):
    lone = fed()
    lone.receive(
        "A", *(subscribe(f"s{k}", f"s = 'X' AND p >= {k} AND p < {k + 1}")
               for k in in_order(60, order))
    )  # fmt: skip
    for _ in range(4):
        quiet(lone)
    assert forwarded(lone) == ["p >= 0 AND p < 60 AND s = 'X'"]


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (["p >= {0} AND p <= {0}.5", "p > {0}.5 AND p < {0}.9"], "p >= {0} AND p < {0}.9"),
        (["p >= {0} AND p < {0}.6", "p > {0}.4 AND p < {0}.9"], "p >= {0} AND p < {0}.9"),
        (["p > {0} AND p < {0}.5", "p IN ({0}, {0}.5)"], "p BETWEEN {0} AND {0}.5"),
        (["p <> {0}", "p = {0}"], "p >= -INFINITY"),
        (["p = 'a'", "p IN ('b', 'c')"], "p IN ('a', 'b', 'c')"),
        (["p = TRUE", "p = FALSE"], "p IN (FALSE, TRUE)"),
        (["p >= 'a{0}' AND p < 'b'", "p >= 'b' AND p < 'c'"], "p >= 'a{0}' AND p < 'c'"),
        (["p LIKE 'a%' AND p <> 'ab'", "p IN ('ab', 'ac')"], "p LIKE 'a%'"),
        (["p > 'a' AND p < 'b'", "p IN ('a', 'b')"], "p BETWEEN 'a' AND 'b'"),
        (["p <> 'a'", "p <> 'b'"], "p LIKE '%'"),
    ],
)
def test_it_does_not_matter_how_many_come_between(texts, whole):
    lone = fed(retire_batch=1_000)
    of = {k: [text.format(k) for text in texts] for k in range(40)}
    subscriptions = [
        subscribe(f"s{k}{at}", f"s = '{k}' AND {of[k][at]} AND t = '{k}'")
        for at in range(2)
        for k in of
    ]
    lone.receive("A", *subscriptions)
    quiet(lone)
    expected = [str(parse(f"s = '{k}' AND {whole.format(k)} AND t = '{k}'")) for k in of]
    assert forwarded(lone) == sorted(expected)


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (["p = {0} OR r = 1", "p = {0}.5 OR r = 1"], "p IN ({0}, {0}.5) OR r = 1"),
        (["p < {0} OR r = {0}", "p = {0}"], "p <= {0} OR r = {0}"),
        (["p = {0}", "p < {0} OR r = {0}"], "p <= {0} OR r = {0}"),
        (["p < {0} OR r < {0}", "p = {0} OR r = {0}"], "p <= {0} OR r <= {0}"),
        (["p < {0} OR p > {0}.5", "p BETWEEN {0} AND {0}.5"], "p >= -INFINITY"),
    ],
)
def test_alternatives(texts, whole):
    lone = fed(retire_batch=1_000)
    of = {
        k: [f"({text.format(k)}) AND s = '{k}' AND t = '{k}'" for text in texts] for k in range(20)
    }
    for at in range(2):
        lone.receive("A", *(subscribe(f"s{k}{at}", of[k][at]) for k in of))
    quiet(lone)
    expected = [str(parse(f"({whole.format(k)}) AND s = '{k}' AND t = '{k}'")) for k in of]
    assert forwarded(lone) == sorted(expected)


def arrive(lone: Lone, *texts: str) -> list[str]:
    """What is forwarded when all that may be merged is."""
    lone.receive("A", *(subscribe(f"s{n}", text) for n, text in enumerate(texts)))
    for _ in range(8):
        quiet(lone)
    return forwarded(lone)


TWISTED = "x IN (1, 12) OR x >= 3 AND x < 10", "x IN (1, 4) OR x >= 10"


def test_what_is_not_known_to_cover_its_parts_does_not_stand_for_them():
    """4 and 12 leave the set, because a range of the other filter holds them."""
    whole = merge_exactly(*map(parse, TWISTED))
    assert str(whole) == "x = 1 OR x >= 3"
    assert not covers(whole, parse(TWISTED[0]))
    lone = fed()
    assert arrive(lone, *TWISTED) == sorted(TWISTED)
    lone.receive("A", gone("s0", "s1"))
    quiet(lone)
    assert len(lone.broker.placeholders) == 0


@pytest.mark.parametrize("count", [8, 9, 40])
@pytest.mark.parametrize("first", [True, False])
def test_many_that_do_not_merge_do_not_hide_one_that_does(count, first):
    others = [f"p = {100 * n} OR q{n} = 1" for n in range(count)]
    ranged = "p > 0 AND p < 50"
    texts = [ranged, *others] if first else [*others, ranged]
    assert len(arrive(fed(retire_batch=100), *texts)) == count


@pytest.mark.parametrize("reverse", [False, True])
def test_large_sets_do_not_hide_the_one_that_fills_a_range(reverse):
    sets = [", ".join(str(600 * n + value) for value in range(600)) for n in range(12)]
    texts = [*(f"p IN ({each})" for each in sets), "p > 0 AND p < 599"]
    assert len(arrive(fed(retire_batch=100), *(texts[::-1] if reverse else texts))) == 12


def test_covered_ranges_between_do_not_matter():
    inside = [f"p > {n} AND p < {n}.5" for n in range(300)]
    lone = fed(covering="lazy", retire_batch=1_000)
    held = arrive(lone, *inside, "p >= 0 AND p < 1000", "p >= 1000 AND p < 2000")
    assert held == ["p >= 0 AND p < 2000"]


def test_merged_filters_have_a_size():
    long = "x" * 20_000
    lone = fed()
    filters = [Filter.of([{"s": equal_to(f"{n}{long}")}]) for n in range(4)]
    lone.receive("A", *(Subscribe(entry(f"s{n}"), each) for n, each in enumerate(filters)))
    for _ in range(4):
        quiet(lone)
    assert len(forwarded(lone)) == 2  # three are together, with 60,000 bytes


def test_filters_with_many_alternatives_are_left_alone():
    lone = fed()
    for name, first in (("x", 0), ("y", 100)):
        text = " OR ".join(f"a{n} = {first}" for n in range(ALTERNATIVES_MAX + 1))
        lone.receive("A", subscribe(name, text))
    assert quiet(lone) == []


def test_sets_of_one_kind_become_one_up_to_their_limit():
    lone = fed(retire_batch=10_000)
    wanted = [", ".join(str(20 * k + n) for n in range(20)) for k in range(200)]
    lone.receive(
        "A", *(subscribe(f"s{k}", f"s = 'X' AND p IN ({each})") for k, each in enumerate(wanted))
    )
    for _ in range(6):
        quiet(lone)
    sizes = sorted(len(parse(text).conjunctions[0].terms[0][1].values) for text in forwarded(lone))
    assert sum(sizes) == 4_000
    assert sizes[0] + sizes[1] > SET_SIZE_MAX >= sizes[-1]


def test_joining_is_limited():
    lone = fed(retire_batch=1_000)
    texts = [f"s = 'X' AND p >= {k} AND p < {k + 1}" for k in range(2 * PARTS_MAX)]
    lone.receive("A", *(subscribe(f"s{k}", text) for k, text in enumerate(texts)))
    for _ in range(3):
        quiet(lone)
    middle = f"p >= {PARTS_MAX} AND p < {2 * PARTS_MAX} AND s = 'X'"
    assert forwarded(lone) == sorted([f"p >= 0 AND p < {PARTS_MAX} AND s = 'X'", middle])


def partners(there: set[int]) -> Partners[int]:
    return Partners(lambda key, _: 1 if key in there else None, PARTS_MAX, exact=True)


@pytest.mark.parametrize("text", ["p >= {0} AND p < {0}.5", "s = 'x{0}'", "s <> 'x{0}'"])
def test_what_has_gone_is_forgotten(text):
    there: set[int] = set()
    known = partners(there)
    for number in range(10_000):
        there.clear()
        there.add(number)
        known.add(number, parse(text.format(number)), "C")
    assert known.postings <= known.snapshot().tidied_from < POSTINGS_MAX
    assert len(known.snapshot().known) == 1


def test_what_is_known_is_bounded(monkeypatch):
    monkeypatch.setattr("byway.core.covering.partners.POSTINGS_MAX", 10_000)
    known = partners(set(range(20_000)))
    for number in range(20_000):
        known.add(number, parse(f"p >= {number} AND p < {number}.5"), "C")
        assert known.postings <= 10_000
    assert list(known.near(parse("p >= 19990.5 AND p < 19990.6"), "C", 1)) == [19_990]
    assert list(known.near(parse("p >= 3.5 AND p < 3.6"), "C", 1)) == []  # forgotten


def test_a_large_filter_takes_little_to_remember():
    """It is in a place for every attribute, and a place is named by all the others."""
    text = " AND ".join(f"a{number} = '{number:0300}'" for number in range(50))
    filter, known = parse(text), partners({1})
    tracemalloc.start()
    known.add(1, filter, "C")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert known.postings == 50
    assert taken < 2 * len(text)


def test_what_says_nothing_of_any_attribute_is_not_kept():
    known = partners({1})
    known.add(1, parse("TRUE"), "C")
    assert known.snapshot().known == []


def test_what_has_no_room_for_more_is_not_found():
    weights = {1: PARTS_MAX, 2: PARTS_MAX - 1}
    known: Partners[int] = Partners(lambda key, _: weights[key], PARTS_MAX, exact=True)
    for key, symbol in ((1, "X"), (2, "Y")):
        known.add(key, parse(f"s = '{symbol}'"), "C")
    wanted = parse("s = 'Z'")
    assert list(known.near(wanted, "C", 2)) == []
    assert list(known.near(wanted, "C", 1)) == [2]


def test_one_that_comes_back_is_the_latest():
    there = {1, 2}
    known = partners(there)
    for key, symbol in ((1, "X"), (2, "Y"), (1, "X")):
        known.add(key, parse(f"s = '{symbol}'"), "C")
    assert list(known.near(parse("s = 'Z'"), "C", 1)) == [1, 2]
    assert known.snapshot().known == [(2, "C"), (1, "C")]


# --- the budget ----------------------------------------------------------------------------------


def levels(count: int) -> tuple[list[tuple[float, float]], float]:
    """Ranges in pairs of pairs; each pair leaves a gap of 19 % of what it spans."""
    if not count:
        return [(0.0, 1.0)], 1.0
    left, width = levels(count - 1)
    gap = 2 * width * 0.19 / 0.81
    right = [(low + width + gap, high + width + gap) for low, high in left]
    return left + right, 2 * width + gap


def test_the_budget_is_for_all_that_a_merged_filter_stands_for():
    lone = fed(merging_false_positives=0.2, retire_batch=100)
    parts, _ = levels(6)
    texts = [f"s = 'X' AND p >= {low!r} AND p < {high!r}" for low, high in parts]
    lone.receive("A", *(subscribe(f"s{n}", text) for n, text in enumerate(texts)))
    for _ in range(10):
        quiet(lone)
    assert len(lone.broker.placeholders) > 10
    for merged in lone.broker.placeholders:
        [(_, whole), _] = merged.filter.conjunctions[0].terms
        inside = [(a, b) for a, b in parts if whole.low <= a and b <= whole.high]
        wanted = sum(b - a for a, b in inside)
        assert 1 - wanted / (whole.high - whole.low) < 0.2


def test_what_a_merged_filter_spends_is_kept_over_a_restart():
    lone = fed(merging_false_positives=0.2)
    lone.receive("A", *GAP)  # a tenth is in vain
    quiet(lone)
    publish(lone, 1, [5.0] * OBSERVED_EVERY)
    whole, far = "p >= 0 AND p < 100 AND s = 'X'", "p >= 140 AND p < 240 AND s = 'X'"
    assert merge(parse(whole), parse(far)).volume < 0.17
    lone.receive("A", subscribe("far", far), subscribe("near", "s = 'X' AND p >= 105 AND p < 106"))
    before = lone.broker.snapshot()
    lone.broker = Broker.restore(before, lone.broker.config)
    assert lone.broker.snapshot() == before
    lone.now_us += SECOND_US
    lone.handle(TimerFired(TIMER))
    assert forwarded(lone) == ["p >= 0 AND p < 106 AND s = 'X'", far]


def test_a_gap_beside_a_dense_range_is_not_bridged():
    lone = fed(merging_false_positives=0.2)
    dense, sparse = "s = 'X' AND p >= 0 AND p < 1", "s = 'X' AND p >= 2 AND p < 20"
    assert merge(parse(dense), parse(sparse)).volume < 0.06
    lone.receive("A", subscribe("dense", dense))
    publish(lone, 1, [0.5] * (30 * OBSERVED_EVERY))
    lone.receive("A", subscribe("sparse", sparse))
    assert quiet(lone) == []


def test_what_came_in_vain_speaks_against_similar_merged_filters():
    lone = fed(merging_false_positives=0.2)
    lone.receive("A", *GAP)
    quiet(lone)
    publish(lone, 1, ([50] * OBSERVED_EVERY + [5] * OBSERVED_EVERY) * 20)
    for _ in range(6):
        quiet(lone)
    assert len(lone.broker.placeholders) == 0
    lone.receive("A", gone("high"))
    lone.receive("A", subscribe("higher", "s = 'X' AND p >= 55 AND p < 99"))
    assert quiet(lone) == []


def test_little_seen_is_no_estimate():
    samples = Samples()
    f, g = parse("p >= 0 AND p < 1"), parse("p >= 2 AND p < 3")
    for _ in range(19):
        samples.record("C", {"p": 0})
    assert samples.share("C", f, g) is even_share
    samples.record("C", {"p": 2})
    assert merge(f, g, samples.share("C", f, g)).volume == pytest.approx(1 / 3)
    for _ in range(90):
        samples.record("C", {"p": 1})
    assert merge(f, g, samples.share("C", f, g)).volume == pytest.approx(90 / 110)


def test_samples_are_bounded():
    samples = Samples()
    for number in range(2 * SAMPLES_MAX):
        samples.record("C", {"p": number})
    samples.record("C", {"p": "x" * 1_000})
    samples.record("C", {f"a{n}": n for n in range(100)})
    [(_, kept)] = samples.snapshot()
    assert kept == [{"p": number} for number in range(SAMPLES_MAX, 2 * SAMPLES_MAX)]


def test_a_merged_filter_that_turns_bad_late_goes():
    lone = fed(merging_false_positives=0.2)
    lone.receive("A", *GAP)
    quiet(lone)
    good = [5.0] * (20 * OBSERVED_MAX * OBSERVED_EVERY)
    publish(lone, 1, good)
    assert quiet(lone) == []
    publish(lone, len(good) + 1, [50.0] * (OBSERVED_MAX * OBSERVED_EVERY))
    told = [message for _ in range(6) for message in quiet(lone)]
    assert told == [*GAP, retired(1)]


def test_what_was_refused_is_merged_when_the_gap_is_filled():
    lone = fed(merging_false_positives=0.2)
    lone.receive("A", *GAP)
    quiet(lone)
    publish(lone, 1, ([50] * OBSERVED_EVERY + [5] * OBSERVED_EVERY) * 20)
    for _ in range(6):
        quiet(lone)
    lone.receive("A", subscribe("filled", "s = 'X' AND p >= 45 AND p < 55"))
    assert quiet(lone)[0] == merged_as(2, "s = 'X' AND p >= 0 AND p < 100")
