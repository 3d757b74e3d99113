"""The inbox against what it promises: nothing is lost, the order of every sender is kept but for
what may overtake, everybody has a share, and all is counted."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from random import Random, SystemRandom
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from byway.core.actions import Timer
from byway.core.inputs import ClientAttached, ClientDetached, TimerFired
from byway.model import TRUE
from byway.model.messages import (
    Acknowledge,
    AdvertiseRequest,
    Batch,
    DeliveriesReceived,
    Lane,
    Publish,
    PublishRequest,
    SubscribeRequest,
    SubscriptionsSettled,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from tests.property.inbox.naive_inbox import NaiveInbox

LINKS, CLIENTS = "ABCDE", "abc"
KINDS = {
    "publish": lambda n: PublishRequest(n, b"x"),
    "subscribe": lambda n: SubscribeRequest(str(n), TRUE),
    "unsubscribe": lambda n: UnsubscribeRequest((str(n),)),
    "received": DeliveriesReceived,
    "advertise": lambda n: AdvertiseRequest(str(n), TRUE),
    "unadvertise": lambda n: UnadvertiseRequest(str(n)),
}
PUBLICATION = Publish("p", 1, 1, 0, 0, 0, 0, b"123")

sizes = st.sampled_from((0, 1, 1, 1, 2, 30, 200, 700, 1_500))
links, clients = st.sampled_from(LINKS), st.sampled_from(CLIENTS)
frames = st.tuples(st.just("frame"), links, st.sampled_from(("data", "data", "control")), sizes)
mixed = st.lists(st.tuples(st.sampled_from(sorted(KINDS)), sizes), max_size=3)
requests = st.tuples(st.just("requests"), clients, mixed, st.integers(0, 9))
read = st.sampled_from(((None,), (None,), (None,), (), ("A",), ("A", "B"), ("C", "D", "E")))
rooms = st.dictionaries(clients, st.sampled_from((0, 1, 3, 100, 1_023)))
steps = st.lists(
    st.one_of(
        frames,
        frames,
        requests,
        requests,
        st.tuples(st.just("turn"), read),
        st.tuples(st.just("turn"), read, rooms),
        st.tuples(st.sampled_from(("ack", "drop_link")), links),
        st.tuples(
            st.sampled_from(("goodbye", "attached", "drop_connection", "drop_client")), clients
        ),
        st.tuples(st.sampled_from(("timer", "hold", "drain"))),
        st.tuples(st.just("deaf"), st.sets(clients, max_size=2)),
    ),
    max_size=60,
)


def do(naive: NaiveInbox, step: tuple[Any, ...], number: Iterator[int]) -> None:
    match step:
        case "frame", link, "data", size:
            naive.put_frame(link, Batch(Lane.DATA, next(number) + 1, (PUBLICATION,) * size))
        case "frame", link, _, size:
            settled = (SubscriptionsSettled(()),) * size
            naive.put_frame(link, Batch(Lane.CONTROL, next(number) + 1, settled))
        case "requests", client, kinds, bytes:
            asked = tuple(KINDS[kind](next(number)) for kind, size in kinds for _ in range(size))
            naive.put_requests(client, asked, bytes)
        case "turn", read, *rooms:
            naive.turn(read, *rooms)
        case "ack", link:
            naive.put_frame(link, Acknowledge(next(number), 0, 0))
        case ("timer",):
            naive.put_control(TimerFired(Timer("t", str(next(number)))))
        case "goodbye", client:
            naive.put_attachment(ClientDetached(client, for_good=True))
        case "attached", client:
            naive.put_attachment(ClientAttached(client, next(number)))
        case ("hold",):
            naive.inbox.holding = not naive.inbox.holding
        case ("drain",):
            naive.inbox.draining = not naive.inbox.draining
        case "deaf", names:
            naive.inbox.deaf = names
        case name, sender:
            getattr(naive, name)(sender)


@given(steps)
@example([
    ("requests", "a", [("publish", 1)], 1),
    ("requests", "a", [("advertise", 1), ("subscribe", 1)], 1),
    ("requests", "a", [("unsubscribe", 1)], 1),
    ("turn", ()),
])  # fmt: skip
@example([
    ("requests", "a", [("received", 1_500)], 1),
    ("requests", "a", [("publish", 2)], 1),
    ("turn", (None,)),
])  # fmt: skip
@example([("frame", "A", "data", 700)] * 3 + [("frame", "B", "data", 1), ("turn", (None,))] * 3)
def test_every_turn_keeps_what_an_inbox_promises(asked: list[tuple[Any, ...]]) -> None:
    run(asked)


def run(asked: Iterable[tuple[Any, ...]]) -> None:
    """Do these steps, then take everything that is left."""
    naive, number = NaiveInbox(), itertools.count()
    for step in asked:
        do(naive, step, number)
    naive.inbox.holding = naive.inbox.draining = False
    naive.inbox.deaf = ()
    while naive.inbox:  # nothing is lost
        assert naive.turn((None,))
    assert (naive.control, naive.data, naive.pieces) == ([], {}, {})


def drawn(rng: Random) -> Iterator[tuple[Any, ...]]:
    """Steps of a long run: waves in which more comes in than is taken, and quieter times."""
    for _ in range(rng.randint(5, 10)):
        busy, turns = rng.random(), rng.random()
        for _ in range(rng.randint(10, 60)):
            if rng.random() < busy:
                size = rng.choice((1, 1, 2, 30, 200, 700, 1_500))
                lane = rng.choice(("data", "data", "data", "control"))
                yield "frame", rng.choice(LINKS), lane, size
            if rng.random() < busy:
                kinds = [(kind, rng.choice((1, 1, 2, 30, 700))) for kind in rng.choice(FRAMES)]
                yield "requests", rng.choice(CLIENTS), kinds, rng.randint(0, 9)
            if rng.random() < turns:
                yield "turn", rng.choice(((None,), (None,), (), ("A",), ("B", "C"), tuple(LINKS)))
            if rng.random() < 0.15:
                yield rng.choice(RARE)(rng)


FRAMES = (
    ["publish"], ["publish"], ["subscribe"], ["unsubscribe", "received"], ["received"],
    ["advertise"], ["publish", "subscribe"], ["unadvertise", "publish"], ["subscribe", "publish"],
)  # fmt: skip
RARE: tuple[Callable[[Random], tuple[Any, ...]], ...] = (
    lambda rng: (rng.choice(("ack", "drop_link")), rng.choice(LINKS)),
    lambda rng: (rng.choice(("goodbye", "attached", "goodbye")), rng.choice(CLIENTS)),
    lambda rng: (rng.choice(("drop_connection", "drop_connection", "drop_client")),
                 rng.choice(CLIENTS)),
    lambda rng: (rng.choice(("timer", "hold", "drain")),),
    lambda rng: ("deaf", frozenset(rng.sample(CLIENTS, rng.randint(0, 2)))),
)  # fmt: skip


@pytest.mark.parametrize("seed", [*range(40), pytest.param(None, id="fresh")])
def test_long_runs(seed: int | None) -> None:
    seed = SystemRandom().getrandbits(32) if seed is None else seed
    print(f"seed {seed}")
    run(list(drawn(Random(seed))))
