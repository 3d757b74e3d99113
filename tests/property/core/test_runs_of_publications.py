"""Publications of a client that come in one run have the effect that they have one by one, by the
long way: as when another kind of request is among them."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byway.core.actions import Action
from byway.core.broker_config import BrokerConfig
from byway.core.client_session import ClientSession
from byway.core.inputs import ClientDetached
from byway.model import ANY, TRUE, Filter, parse
from byway.model.messages import (
    AdvertiseRequest,
    Body,
    DeliveriesReceived,
    PublishRequest,
    Request,
    RoutesRequest,
    SubscribeRequest,
)
from byway.trace import TraceBuffer
from tests.hostile.values import bodies
from tests.lone_broker import Lone, subscribe
from tests.strategies import filters, publications

ANNOUNCED = st.sampled_from([ANY, ANY, ANY, parse("n >= 0 AND s IS NOT NULL"), parse("x = 1")])
BODIES = st.one_of(
    publications().map(lambda event: msgspec.msgpack.encode(Body(event, b"data"))),
    st.sampled_from(bodies()),
)
WANTED = st.one_of(st.just(TRUE), filters())
STEPS = st.lists(st.tuples(st.integers(-1, 4).map(lambda n: min(n, 1)), BODIES), max_size=12)
"""By how much the sequence of each publication exceeds that of the last one taken, and its body."""


class Scene:
    """A broker with a neighbour and local clients, one of which publishes."""

    def __init__(self, config: BrokerConfig, traced: bool, one_by_one: bool) -> None:
        self.trace = TraceBuffer("B") if traced else None
        self.lone = Lone("N", config=config, trace=self.trace)
        self.one_by_one = one_by_one
        self.sequence = 0
        self.told: list[list[Action]] = []

    def ask(self, client: str, *requests: Request) -> None:
        self.lone.now_us += 1
        self.told.append(self.lone.ask(client, *requests))

    def set_up(
        self, announced: list[Filter], wanted: list[tuple[Filter, str]], far: list[Filter]
    ) -> None:
        for client in ("publisher", "kept", "plain", "away"):
            self.lone.attach(client, ttl_us=1_000_000 if client in ("kept", "away") else 0)
        for number, one in enumerate(announced):
            self.ask("publisher", AdvertiseRequest(f"a.{number}.1", one))
        for number, one in enumerate(far):
            self.lone.receive("N", subscribe(str(number), one))
        for number, (one, client) in enumerate(wanted):
            self.ask(client, SubscribeRequest(f"s.{number}.1", one))
        self.lone.handle(ClientDetached("away"))

    def publish(self, steps: list[tuple[int, bytes]], reported: bool) -> None:
        requests: list[Request] = []
        for more, body in steps:
            requests.append(PublishRequest(max(self.sequence + more, 1), body))
            self.sequence += more == 1
        if reported:
            self.ask("publisher", RoutesRequest(self.sequence))
        self.ask("publisher", *requests, *[DeliveriesReceived(0)] * self.one_by_one)

    def seen(self) -> object:
        broker = self.lone.broker
        counters = broker.counters
        rows = None if self.trace is None else repr(self.trace.drain())
        counts = {name: getattr(counters, name) for name in counters.__slots__}
        return self.told, counts, rows, broker.snapshot(), list(broker.kind_mismatches)


@settings(max_examples=150)
@given(
    st.lists(ANNOUNCED, max_size=2),
    st.lists(st.tuples(WANTED, st.sampled_from(["kept", "plain", "away"])), max_size=3),
    st.lists(filters(), max_size=2),
    st.lists(STEPS, min_size=1, max_size=4),
    st.sampled_from(["none", "selective", "incremental"]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_a_run_is_its_publications_one_by_one(announced, wanted, far, runs, covering, options):
    traced, reported, conformance = options
    config = BrokerConfig(
        covering=covering, conformance=conformance, session_messages_max=3, body_bytes_max=20
    )
    scenes = [Scene(config, traced, one_by_one) for one_by_one in (False, True)]
    for scene in scenes:
        scene.set_up(announced, wanted, far)
        for steps in runs:
            scene.publish(steps, reported)
    run, one_by_one = (scene.seen() for scene in scenes)
    assert run == one_by_one


class Counting:
    """The long way, and how often it is taken."""

    def __init__(self, scene: Scene) -> None:
        self.calls = 0
        self._long_way = scene.lone.broker._requests[PublishRequest]

    def __call__(self, client: ClientSession, request: PublishRequest) -> None:
        self.calls += 1
        self._long_way(client, request)


@pytest.mark.parametrize("client", ["plain", "kept", "away"])
def test_both_ways_are_taken(client):
    """What the test above compares is not one and the same."""
    lengths = []
    for one_by_one in (False, True):
        scene = Scene(BrokerConfig(), False, one_by_one)
        scene.set_up([ANY], [(parse("n > 0"), client)], [])
        scene.lone.broker._requests[PublishRequest] = Counting(scene)
        scene.publish([(1, bodies()[0]), (1, bodies()[2])], False)
        lengths.append(scene.lone.broker._requests[PublishRequest].calls)
    assert lengths == [0, 2]
