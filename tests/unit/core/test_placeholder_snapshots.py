"""Snapshots of brokers with placeholders have the bytes that earlier programs wrote and read.

The files were written before placeholders had states of their own, when one struct with flags said
how a subscription had ended. A broker that goes through the same scene writes the same bytes, and
restored from them it writes them again; but for what later layouts added, which is nothing here.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled, TimerFired
from byway.core.invariants import validate
from byway.core.snapshot.state import VERSION, BrokerState, EntryState, LinkState
from byway.core.subscriptions import TIMER
from byway.core.tables import PlaceholderState
from byway.model import parse
from byway.model.messages import (
    Hint,
    Retire,
    SubscribeRequest,
    SubscriptionsSettled,
    Unsubscribe,
)
from tests.lone_broker import Lone, advertise, entry, publication, subscribe

STORED = Path(__file__).parents[3] / "testdata/snapshots"
SECOND_US = 1_000_000
PRUNING = {
    "incremental_bursts": (1, 3),
    "pruning_samples_min": 1,
    "retire_after_us": 0,
    "congestion_queue": 10,
}


def fed(covering: str, **settings: object) -> Lone:
    """Subscribers are behind A and D, and a publisher, far, behind C."""
    config = BrokerConfig(covering=covering, **(PRUNING | settings))  # type: ignore[arg-type]
    lone = Lone("A", "C", "D", config=config)
    lone.receive("C", advertise("of C", "ANY"))
    return lone


def settle(lone: Lone) -> None:
    waiting = [e.id for e in lone.broker.subscriptions if "C" in e.awaiting]
    lone.receive("C", SubscriptionsSettled(tuple(waiting)))


def tick(lone: Lone, times: int = 1) -> None:
    for _ in range(times):
        lone.now_us += SECOND_US
        lone.handle(TimerFired(TIMER))
    assert validate(lone.broker) == []


def unsubscribed(name: str, *distances: int) -> Unsubscribe:
    return Unsubscribe((entry(name),), (0.6, 0.9), ((Hint("far", distances),),))


def preserved() -> Lone:
    """S is preserved and half way through its retirement; a local subscription has statistics."""
    lone = fed("incremental", retire_batch=2)
    lone.receive("A", subscribe("S", "p > 1"))
    lone.receive("D", *[subscribe(f"n{n:03}", f"p = {n + 5}") for n in range(9)])
    settle(lone)
    lone.attach("me")
    lone.ask("me", SubscribeRequest("mine", parse("q > 1")))
    for number in range(1, 4):
        lone.receive("C", publication(number, hop=5, distance=number + 1, p=9, q=9))
    lone.now_us += SECOND_US
    lone.receive("A", unsubscribed("S", 0, 0))
    tick(lone, 2)
    return lone


def postponed() -> Lone:
    """The broker is congested: what S and T come to is decided later. T was retired before."""
    lone = fed("selective")
    lone.receive("A", subscribe("S", "p > 1"), subscribe("T", "q > 1"))
    lone.receive("D", subscribe("s", "p = 5"), subscribe("t", "q = 5"))
    settle(lone)
    lone.handle(LoadSampled(11))
    lone.receive("A", unsubscribed("S", 3, 4), Retire((entry("T"),)))
    tick(lone)
    return lone


def merged() -> Lone:
    """One merged placeholder stands; another lost a part, and is being retired."""
    lone = fed("selective", merging=True, merging_false_positives=0.2, retire_batch=3)
    for name in ("p", "q"):
        lone.receive("A", *[
            subscribe(f"{name}{n}", f"{name} >= {10 * n} AND {name} < {10 * n + 10}")
            for n in range(9)
        ])  # fmt: skip
    settle(lone)
    tick(lone, 20)
    for number in range(1, 40):
        lone.receive("C", publication(number, p=number % 90))
    for n in (1, 3, 5, 7):
        lone.receive("A", Unsubscribe((entry(f"q{n}"),)))
    tick(lone)
    return lone


Scene = Callable[[], Lone]
SCENES: dict[Scene, dict[str, PlaceholderState]] = {
    preserved: {"S": PlaceholderState.PRESERVED},
    postponed: {"S": PlaceholderState.POSTPONED, "T": PlaceholderState.POSTPONED},
    merged: {"13": PlaceholderState.MERGED, "14": PlaceholderState.MERGED_RETIRING},
}


def states(broker: Broker) -> dict[str, PlaceholderState]:
    return {e.id.name: e.placeholder.state for e in broker.placeholders}


def stored_bytes(scene: Scene) -> bytes:
    return (STORED / f"{scene.__name__}.msgpack").read_bytes()


def in_this_layout(earlier: bytes, load: LoadSampled) -> bytes:
    """Layout 6 appended a list to every session; layout 7 the kind of every link and three
    fields more, former neighbours, what is held, random numbers drawn, the last load, which
    neighbours are listed, the paths of entries, which are empty, masks of what was seen, of what is
    in flight which targets several entries matched for, who has taken a neighbour's place, whether
    nobody has named the neighbours of a broker whose place this one takes, who had it take that
    place, where advertisements have ended, and what goes to a neighbour whatever it wants."""
    magic, layout, state = msgspec.msgpack.decode(earlier)
    assert layout == 5
    for client in state[BrokerState.__struct_fields__.index("clients")]:
        client.append([])
    for link in state[BrokerState.__struct_fields__.index("links")]:
        link[LinkState.__struct_fields__.index("sync")]["paths"] = {}
        link += ["primary", "", False, []]
    fields = BrokerState.__struct_fields__
    for table in ("adverts", "subscriptions", "placeholders"):
        for stored in state[fields.index(table)][0]:
            stored[EntryState.__struct_fields__.index("origin")]["behind"] = []
        state[fields.index(table)].append([])
    state[fields.index("sync")] += [False, {}]
    for pending in state[fields.index("in_flight")]:
        pending.append(b"")
    state += [
        {},
        [],
        (0, {}),
        load,
        None,
        state[fields.index("link_numbers")],
        1,
        [],
        {},
        {},
        [],
        [],
    ]
    return msgspec.msgpack.encode((magic, VERSION, state))


@pytest.mark.parametrize("scene", SCENES)
def test_a_broker_writes_the_bytes_of_earlier_programs(scene: Scene) -> None:
    lone = scene()
    assert states(lone.broker) == SCENES[scene]
    load = LoadSampled(11 if scene is postponed else 0)
    assert lone.broker.snapshot() == in_this_layout(stored_bytes(scene), load)


@pytest.mark.parametrize("scene", SCENES)
def test_a_broker_reads_the_bytes_of_earlier_programs(scene: Scene) -> None:
    stored = stored_bytes(scene)
    broker = Broker.restore(stored, scene().broker.context.config)
    assert states(broker) == SCENES[scene]
    assert broker.snapshot() == in_this_layout(stored, LoadSampled(0))
