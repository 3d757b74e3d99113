"""The same schedule through both drivers, the broker process's and the simulator's, gives the same
inputs of the broker in the same turns."""

import asyncio
from collections.abc import Iterable
from random import Random, SystemRandom
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from byway.core.actions import Action, CloseLink, OpenLink, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    Input,
    LinkDown,
    LinkUp,
    LoadSampled,
    NeighbourAdded,
    NeighbourRemoved,
    Started,
    TimerFired,
)
from byway.model import ANY, TRUE
from byway.model.messages import (
    LANE_OF,
    Acknowledge,
    AdvertiseRequest,
    Batch,
    DeliveriesReceived,
    Frame,
    Hello,
    Message,
    Reply,
    Request,
    SubscribeRequest,
    UnsubscribeRequest,
)
from byway.runtime.driver import Driver
from byway.sim.engine.nodes import Node
from byway.sim.engine.service import INSTANT
from byway.sim.engine.sim_clock import Clock
from byway.sim.oracle.account import Account
from tests.lone_broker import NAMES, NOTHING, TOLD, advertise, publication, publish, subscribe

LINKS, CLIENTS = "ACD", "xyz"
CONFIG = BrokerConfig(link_bytes_max=10_000, publisher_window=60)

pytestmark = pytest.mark.interpreted


class Recorded(Broker):
    """A broker that writes down what it is handed."""

    def __init__(self) -> None:
        super().__init__("B", LINKS, CONFIG)
        self.turns: list[list[Input]] = []

    def handle_batch(self, now_us: int, events: Iterable[Input]) -> list[Action]:
        self.turns.append(list(events))
        return super().handle_batch(now_us, self.turns[-1])


# --- the two drivers ------------------------------------------------------------------------------


class Nobody:
    """Those the broker process is connected to: they do nothing of themselves."""

    def send(self, link: str, frame: Frame) -> None: ...
    def tell(self, client: str, replies: tuple[Reply, ...]) -> None: ...
    def open_link(self, action: OpenLink) -> None: ...
    def close_link(self, action: CloseLink) -> None: ...
    def requests_taken(self) -> None: ...
    def close_client(self, client: str, reason: str) -> None: ...


class Live:
    """The driver of a broker process, without sockets."""

    def __init__(self) -> None:
        self.broker = Recorded()
        self.driver = driver = Driver(self.broker, Nobody())
        self.inbox = driver.inbox
        self.now, self.control, self.frame = driver.now, driver.control, driver.frame
        self.request, self.attach = driver.request, driver.attach
        self.goodbye, self.detach, self.wake = driver.goodbye, driver.detach, driver.wake

    async def rest(self) -> None:
        seen = -1
        while seen < len(self.broker.turns):
            seen = len(self.broker.turns)
            for _ in range(4):
                await asyncio.sleep(0)


class Simulated:
    """The driver of a simulated broker, alone in its world."""

    def __init__(self) -> None:
        self.broker = Recorded()
        self.clock = Clock()
        account = Account(self.clock)
        self.node = node = Node("B", CONFIG, self.clock, account, INSTANT, None, None)
        node.closed = Nobody().close_link
        node.start(self.broker)
        self.inbox = node.inbox
        self.now, self.control, self.frame = node.handle_now, node.control, node.receive
        self.request, self.attach = node.requests, node.attach
        self.goodbye, self.detach, self.wake = node.goodbye, node.detach, node.wake

    async def rest(self) -> None:
        self.clock.run(self.clock.now_us)


# --- schedules ------------------------------------------------------------------------------------


class Played:
    """Neighbours and clients as a schedule plays them: they number what they send."""

    def __init__(self, driver: Live | Simulated) -> None:
        self.driver = driver
        self.sent = {link: [0, 0] for link in LINKS}
        self.sequences = dict.fromkeys((*LINKS, *CLIENTS), 0)
        self.incarnation = 1
        self.removed: set[str] = set()

    def begin(self) -> None:
        self.driver.now(Started())
        for link in LINKS:
            self.meet(link)
            self.send(link, advertise(link))
        self.send("C", subscribe("C"))

    def meet(self, link: str) -> None:
        self.incarnation += 1
        self.sent[link] = [0, 0]
        window = CONFIG.publisher_window
        hello = Hello(link, self.incarnation, 0, 0, 0, 0, publisher_window=window)
        self.driver.now(LinkUp(link, hello))
        self.send(link, NOTHING, NAMES)
        self.send(link, *TOLD)

    def send(self, link: str, *messages: Message) -> None:
        lane = LANE_OF[type(messages[0])]
        first = self.sent[link][lane] + 1
        self.sent[link][lane] += len(messages)
        self.driver.frame(link, Batch(lane, first, messages))

    def numbers(self, who: str, count: int) -> range:
        first = self.sequences[who] + 1
        self.sequences[who] += count
        return range(first, first + count)

    def requests(self, client: str, kinds: list[tuple[str, int]]) -> tuple[Request, ...]:
        made: list[Request] = []
        for kind, count in kinds:
            for number in self.numbers(client, count):
                if kind == "publish":
                    made.append(publish(number, p=number))
                elif kind == "subscribe":
                    made.append(SubscribeRequest(str(number), TRUE))
                elif kind == "unsubscribe":
                    made.append(UnsubscribeRequest((str(number - 1),)))
                elif kind == "advertise":
                    made.append(AdvertiseRequest(str(number), ANY))
                else:
                    made.append(DeliveriesReceived(number))
        return tuple(made)

    def do(self, op: tuple[Any, ...]) -> None:
        driver = self.driver
        if len(op) > 1 and op[1] in self.removed:
            self.removed.remove(op[1])
            driver.now(NeighbourAdded(op[1]))
            self.meet(op[1])
            return
        match op:
            case "publish", link, count:
                numbers = self.numbers(link, count)
                self.send(link, *(publication(n, publisher=link, p=n) for n in numbers))
            case "subscribe", link, count:
                self.send(link, *(subscribe(f"{link}{n}") for n in self.numbers(link, count)))
            case "confirm", link:
                control, data = driver.broker.links[link].sent
                driver.frame(link, Acknowledge(control, data, data))
            case "break", link:
                driver.inbox.drop_link(link)
                driver.now(LinkDown(link))
                self.meet(link)
            case "remove", link:
                driver.inbox.drop_link(link)
                driver.now(NeighbourRemoved(link))
                self.removed.add(link)
            case "ask", client, kinds:
                driver.request(client, self.requests(client, kinds), 30)
            case "attach", client:
                self.incarnation += 1
                self.sequences[client] = 0
                driver.attach(ClientAttached(client, self.incarnation, 60_000_000))
                driver.request(client, (AdvertiseRequest("all", ANY),), 10)
            case "goodbye", client:
                driver.goodbye(client)
            case "lose", client:
                driver.detach(client)
            case ("timer",):
                driver.control(TimerFired(Timer("nobody's")))
            case ("sample",):
                driver.control(LoadSampled(driver.inbox.waiting))
            case "deaf", names:
                driver.inbox.deaf = names
                driver.wake()
            case reason, is_so:
                setattr(driver.inbox, reason, is_so)
                driver.wake()


counts = st.sampled_from((1, 1, 2, 20, 400, 1_100))
links, clients = st.sampled_from(LINKS), st.sampled_from(CLIENTS)
KINDS = ("publish", "publish", "subscribe", "unsubscribe", "advertise", "receipt")
kinds = st.sampled_from(KINDS)
small = st.sampled_from((1, 2, 3))
asked = st.lists(
    st.one_of(st.tuples(kinds, small), st.tuples(st.sampled_from(("publish", "receipt")), counts)),
    min_size=1,
    max_size=3,
)
ops = st.one_of(
    st.tuples(st.just("publish"), links, counts),
    st.tuples(st.just("publish"), links, small),
    st.tuples(st.just("subscribe"), links, small),
    st.tuples(st.just("confirm"), links),
    st.tuples(st.sampled_from(("break", "remove")), links),
    st.tuples(st.just("ask"), clients, asked),
    st.tuples(st.just("ask"), clients, asked),
    st.tuples(st.sampled_from(("attach", "goodbye", "lose")), clients),
    st.tuples(st.sampled_from(("timer", "sample"))),
    st.tuples(st.sampled_from(("holding", "draining")), st.booleans()),
    st.tuples(st.just("deaf"), st.frozensets(clients, max_size=1)),
)
schedules = st.lists(st.lists(ops, min_size=1, max_size=6), max_size=8)


async def play(schedule: list[list[tuple[Any, ...]]], driver: Live | Simulated) -> Recorded:
    """Do what a schedule says, step by step; the driver comes to rest after each."""
    played = Played(driver)
    played.begin()
    await driver.rest()
    for client in CLIENTS:
        played.do(("attach", client))
    await driver.rest()
    for step in schedule:
        for op in step:
            played.do(op)
        await driver.rest()
    return driver.broker


async def play_both(schedule: list[list[tuple[Any, ...]]]) -> tuple[Recorded, Recorded]:
    return await play(schedule, Live()), await play(schedule, Simulated())


@given(schedules)
@example([[("ask", "x", [("publish", 1_100)]), ("ask", "x", [("subscribe", 1)])]])
@example([[("publish", "A", 20), ("publish", "A", 20)], [("publish", "D", 2)], [("confirm", "C")]])
@example([[("ask", "x", [("publish", 3)]), ("goodbye", "x"), ("attach", "x"), ("lose", "x")]])
@example([[("ask", "x", [("publish", 3)]), ("goodbye", "x"), ("ask", "y", [("publish", 1)])]])
@example([[("timer",), ("break", "A"), ("sample",), ("lose", "x")]])
@example([[("publish", "A", 400)], [("publish", "A", 1)], [("remove", "C")]])
def test_the_same_schedule_gives_the_same_turns(schedule: list[list[tuple[Any, ...]]]) -> None:
    compare(schedule)


def compare(schedule: list[list[tuple[Any, ...]]]) -> list[list[Input]]:
    """The turns of both drivers, which are the same."""
    live, simulated = asyncio.run(play_both(schedule))
    assert live.turns == simulated.turns
    return live.turns


def drawn(rng: Random) -> list[list[tuple[Any, ...]]]:
    """A long schedule, with waves of publications and requests."""
    steps = []
    for _ in range(rng.randint(10, 20)):
        step: list[tuple[Any, ...]] = []
        for _ in range(rng.randint(1, 8)):
            client, link = rng.choice(CLIENTS), rng.choice(LINKS)
            kinds = [
                (rng.choice(KINDS), rng.choice((1, 2, 3))) for _ in range(rng.choice((1, 1, 2)))
            ]
            many = rng.choice((1, 2, 20, 20, 400, 1_100))
            step.append(
                rng.choice((
                    ("publish", link, many), ("publish", link, 1), ("subscribe", link, 2),
                    ("confirm", link), ("confirm", "C"), ("confirm", "C"),
                    ("ask", client, kinds), ("ask", client, [("publish", many)]),
                    ("ask", client, [("receipt", many)]), ("timer",), ("sample",),
                    (rng.choice(("attach", "goodbye", "lose", "attach")), client),
                    (rng.choice(("break", "remove")), link),
                    (rng.choice(("holding", "draining")), rng.random() < 0.3),
                    ("deaf", frozenset(rng.sample(CLIENTS, rng.choice((0, 0, 1))))),
                ))
            )  # fmt: skip
        steps.append(step)
    return steps


@pytest.mark.parametrize("seed", [*range(15), pytest.param(None, id="fresh")])
def test_long_schedules_give_the_same_turns(seed: int | None) -> None:
    seed = SystemRandom().getrandbits(32) if seed is None else seed
    print(f"seed {seed}")
    compare(drawn(Random(seed)))
