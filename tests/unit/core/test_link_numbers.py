"""Numbers of neighbours: those that are forgotten give theirs back, and nothing goes stale."""

import random

import pytest

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import NeighbourAdded, NeighbourRemoved, Started
from byway.core.invariants import validate
from byway.core.link_numbers import LinkNumbers
from byway.core.tables import Placeholder, PlaceholderState
from byway.matching.index import LINKS_MAX
from byway.model import ANY
from byway.model.messages import Disconnect, EntryId, Subscribe
from tests.lone_broker import (
    Lone,
    advertise,
    data,
    onward,
    publication,
    subscribe,
    without_acknowledgements,
)
from tests.planners import PlannedTree


def test_the_smallest_free_number_comes_first():
    numbers = LinkNumbers()
    assert [numbers.number(name) for name in "ABCDE"] == [0, 1, 2, 3, 4]
    for gone in "DBC":
        numbers.release(gone)
    numbers.release("nobody")
    assert numbers.names == ["A", "", "", "", "E"]
    assert [numbers.number(name) for name in ("X", "E", "Y", "Z", "B")] == [1, 4, 2, 3, 5]
    assert numbers.links(0b111111) == ("A", "B", "E", "X", "Y", "Z")


def test_masks_name_who_has_the_number_now():
    numbers = LinkNumbers()
    for name in "AB":
        numbers.number(name)
    assert numbers.links(0b11) == ("A", "B")
    numbers.release("A")
    assert numbers.links(0b10) == ("B",)
    numbers.number("C")
    assert numbers.links(0b11) == ("B", "C")


def test_free_places_survive_a_restart():
    numbers = LinkNumbers()
    for name in "ABCDEF":
        numbers.number(name)
    for gone in "ECA":
        numbers.release(gone)
    again = LinkNumbers()
    again.restore(numbers.names, numbers.links_of)
    new = ("U", "V", "W", "X")
    assert [again.number(name) for name in new] == [numbers.number(name) for name in new]
    assert again.names == numbers.names


@pytest.mark.parametrize("planned", [False, True])
def test_whoever_has_the_numbers_has_those_of_a_snapshot(planned):
    """A planner is made before a snapshot is restored, and goes on with the numbers it has."""
    config = BrokerConfig(behaviours=(PlannedTree.name,) if planned else ())
    lone = Lone("A", "C", "D", config=config)
    held = lone.broker.context.numbers
    lone.receive("A", advertise("a"))
    lone.receive("D", subscribe("d", "d > 0"))
    lone.receive("C", subscribe("c", "c > 0"))
    for number, name in enumerate("DC", 1):
        lone._restore()
        message = publication(number, **{name.lower(): 1})
        assert lone.receive("A", message) == [data(name, 1, onward(message))]
    assert lone.broker.context.numbers.names == held.names


def test_more_strangers_than_there_are_numbers():
    """Each comes, subscribes, and is forgotten; then one whose subscription is served."""
    lone = Lone("A")
    lone.receive("A", advertise("a"))
    for number in range(LINKS_MAX + 10):
        name = f"S{number}"
        lone.handle(NeighbourAdded(name))
        lone.meet(name)
        lone.receive(name, Subscribe(EntryId(name, "s", 1, 1), ANY))
        if number % 2:
            lone.handle(NeighbourRemoved(name))
        else:
            lone.receive(name, Disconnect("it goes"))
    assert lone.broker.context.numbers.names == ["A", ""]
    lone.handle(NeighbourAdded("C"))
    lone.agree("C")
    lone.receive("C", subscribe("s"))
    came = publication(1)
    sent = without_acknowledgements(lone.receive("A", came))
    assert sent == [data("C", 1, onward(came))]
    validate(lone.broker)


def test_numbers_that_an_older_version_left_are_free_after_a_restart():
    lone = Lone("A")
    for number in range(50):
        lone.broker.context.numbers.number(f"gone{number}")
    restored = Broker.restore(lone.broker.snapshot())
    assert [name for name in restored.context.numbers.names if name] in ([], ["A"])
    restored.handle(0, Started())
    assert restored.context.numbers.number("A") == 0


def test_a_preserved_subscription_holds_no_number():
    """It outlives the neighbour that it came from."""
    config = BrokerConfig(covering="selective", selective_count_min=0, retire_interval_us=0)
    lone = Lone("A", "C", config=config)
    lone.receive("A", advertise("a"))
    lone.receive("C", subscribe("wide"))
    entry = lone.broker.subscriptions.get(subscribe("wide").id)
    assert entry is not None
    assert "A" in entry.forwarded
    lone.broker.subscriptions.remove(entry)
    lone.broker.policy.ops.preserve(entry, Placeholder(PlaceholderState.PRESERVED))
    lone.handle(NeighbourRemoved("C"))
    assert len(lone.broker.placeholders) == 1
    restored = Broker.restore(lone.broker.snapshot(), config)
    assert "C" not in restored.context.numbers.names
    assert restored.snapshot() == lone.broker.snapshot()


def test_random_comings_and_goings_number_alike_before_and_after_a_restart():
    chance = random.Random(7)
    lone = Lone("A")
    lone.receive("A", advertise("a"))
    there: list[str] = []
    for step in range(300):
        if there and chance.random() < 0.45:
            lone.handle(NeighbourRemoved(there.pop(chance.randrange(len(there)))))
        else:
            name = f"N{step}"
            there.append(name)
            lone.handle(NeighbourAdded(name))
            lone.agree(name)
            lone.receive(name, Subscribe(EntryId(name, "s", 1, 1), ANY))
        if step % 50 == 49:
            restored = Broker.restore(lone.broker.snapshot())
            for numbers in (restored.context.numbers, lone.broker.context.numbers):
                assert numbers.names == lone.broker.context.numbers.names
                assert {"", "A", *there} >= set(numbers.names) >= {"A", *there}
            sent = without_acknowledgements(lone.receive("A", publication(step + 1)))
            assert [action.link for action in sent] == sorted(there)
    validate(lone.broker)
