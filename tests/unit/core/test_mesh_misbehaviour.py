"""Peers that lie about spans, records and paths: the connection goes, and nothing else."""

import pytest

from byway.core.actions import CloseLink, Send
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, LinkUp
from byway.core.invariants import validate
from byway.core.mesh.mesh_config import MeshConfig
from byway.core.snapshot import read
from byway.model.bounds import DELTA_MAX, NAME_LENGTH_MAX
from byway.model.messages import (
    Acknowledge,
    BrokerRecord,
    Hello,
    LinkKind,
    RecordUpdate,
    RelayedRecord,
    SoftSpan,
    SpanTaken,
    SubscribeAlong,
)
from tests.lone_broker import Lone, advertise, entry, publication, subscribe, unadvertise


def mesh_config(**options) -> BrokerConfig:
    return BrokerConfig(mesh=MeshConfig(delta=4, strategy="S2", interval_us=0), **options)


def meshed() -> Lone:
    """B between A and C, with subscribers behind both, and a soft link that X has dialled."""
    lone = Lone("A", "C", config=mesh_config())
    for link in ("A", "C"):
        lone.receive(link, advertise(f"of {link}"), subscribe(f"of {link}"))
    dialled_by_x(lone)
    return lone


def dialled_by_x(lone: Lone) -> None:
    """X dials B for a soft link."""
    window = lone.broker.config.publisher_window
    hello = Hello("X", 1, 0, 0, 0, 0, publisher_window=window, kind=LinkKind.SOFT)
    lone.sent["X"] = [0, 0]
    lone.handle(LinkUp("X", hello))


def untouched(lone: Lone) -> tuple:
    """Everything of a broker but its links to X and A, and the mesh's note of X."""
    state = read(lone.broker.snapshot())
    mesh = lone.broker.behaviours["mesh"]
    links = [link for link in state.links if link.peer not in ("A", "X")]
    return (
        links, state.adverts, state.subscriptions, state.clients, state.in_flight, state.seen,
        state.held, mesh.records.primary_edges, mesh.master.brokers,
    )  # fmt: skip


def record(broker: str, *neighbours: str, hops: int = 1, version: int = 1) -> RelayedRecord:
    return RelayedRecord(BrokerRecord(broker, 1, version, neighbours, 4, f"at {broker}"), hops)


LONGEST = tuple(f"{number:x}" * NAME_LENGTH_MAX for number in range(DELTA_MAX - 1))
SPANS = {
    "ends elsewhere": ("Y",),
    "ends with the broker itself": ("B",),
    "passes by the broker itself": ("B", "A"),
    "passes by one twice": ("Y", "Y", "A"),
    "passes by its sender": ("X", "A"),
    "the longest names": LONGEST,
}


@pytest.mark.parametrize("span", SPANS)
def test_a_span_that_cannot_be_is_refused(span):
    lone = meshed()
    before = untouched(lone)
    actions = lone.receive("X", SoftSpan(SPANS[span]))
    assert any(isinstance(a, CloseLink) and a.link == "X" for a in actions)
    assert untouched(lone) == before
    assert lone.broker.behaviours["mesh"].soft == {}
    assert "X" not in lone.broker.links
    assert validate(lone.broker) == []


BREACHES = {
    "data before its span": (
        "X", publication(1), "sends data over a soft link without its span",
    ),
    "takes what nobody offered": (
        "X", SpanTaken(("A",)), "takes publications that nobody offered",
    ),
    "records over a soft link": (
        "X", RecordUpdate(True, (), (record("X"),)), "sends RecordUpdate over a link",
    ),
    "a subscription over a soft link": (
        "X", subscribe("new"), "sends Subscribe over a link",
    ),
    "a span over a link of the tree": (
        "A", SoftSpan(("C",)), "sends SoftSpan on the control lane",
    ),
    "takes a span over a link of the tree": (
        "A", SpanTaken(("A",)), "sends SpanTaken on the control lane",
    ),
    "a record of another with one hop": (
        "A", RecordUpdate(True, (), (record("Y"),)), "tells a record of 'Y'",
    ),
    "a record of itself with two hops": (
        "A", RecordUpdate(True, (), (record("A", "B", hops=2),)), "tells a record of 'A'",
    ),
    "a neighbour of itself": (
        "A", RecordUpdate(True, (), (record("A", "A"),)), "names 'A' as a neighbour of itself",
    ),
    "neighbours in no order": (
        "A", RecordUpdate(True, (), (record("A", "Z", "B"),)), "names neighbours of 'A'",
    ),
    "neighbours twice": (
        "A", RecordUpdate(True, (), (record("A", "B", "B"),)), "names neighbours of 'A'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_costs_the_connection_and_nothing_else(breach):
    link, message, reason = BREACHES[breach]
    lone = meshed()
    before = untouched(lone)
    actions = [a for a in lone.receive(link, message) if isinstance(a, CloseLink)]
    closed = [a for a in actions if a.fault]  # the mesh gives a soft link up besides
    assert {a.link for a in actions} == {link}
    assert len(closed) == 1
    assert closed[0].reason.startswith(reason)
    assert untouched(lone) == before
    assert validate(lone.broker) == []


def test_the_end_of_an_advertisement_over_a_soft_link():
    lone = meshed()
    lone.receive("X", SoftSpan(("A",)))
    before = untouched(lone)
    actions = lone.receive("X", publication(1), unadvertise("of A"))
    assert CloseLink("X", "sends Unadvertise over a soft link", fault=True) in actions
    assert untouched(lone) == before


def test_a_good_record_beside_a_bad_one_is_not_taken():
    lone = meshed()
    before = untouched(lone)
    lone.receive("A", RecordUpdate(True, (), (record("A", "B", "Y"), record("A", "A"))))
    assert untouched(lone) == before


def test_an_answer_to_another_span_does_not_open_the_link():
    lone = meshed()
    lone.receive("A", RecordUpdate(True, (), (record("A", "B", "X"), record("X", "A", hops=2))))
    mesh = lone.broker.behaviours["mesh"]
    assert mesh.open_soft("X")
    assert mesh.soft["X"].path == ("A",)
    lone.receive("X", SpanTaken(("A", "Y")))
    assert not mesh.soft["X"].taken
    lone.receive("X", SpanTaken(("A",)))
    assert mesh.soft["X"].taken


def test_spans_without_end_take_no_room():
    """A span replaces the one before; the link is told once for each that it takes."""
    lone = meshed()
    for _ in range(3):
        lone.receive("X", SoftSpan(("A",)))
    size = len(lone.broker.snapshot())
    for _ in range(2_000):
        lone.receive("X", SoftSpan(("A",)))
        control, _ = lone.broker.links["X"].sent
        lone.handle(FrameReceived("X", Acknowledge(control, 0, 0)))
    assert len(lone.broker.snapshot()) < size + 100
    assert len(lone.broker.behaviours["mesh"].soft) == 1


def test_a_path_that_names_the_broker_itself_does_no_harm():
    """A broker lies about who is behind it: what matches goes to it, as it would without."""
    lone = meshed()
    lying = SubscribeAlong(entry("lie"), subscribe("x", "p > 0").filter, ("B", "C", "B"))
    lone.receive("A", lying)
    assert validate(lone.broker) == []
    actions = lone.receive("C", publication(1, p=1))
    sent = [a.link for a in actions if isinstance(a, Send) and hasattr(a.frame, "messages")]
    assert sent == ["A"]


def test_a_broker_without_a_mesh_refuses_a_span():
    """Else the other end would wait for an answer for as long as the link is up."""
    lone = Lone("A", "C", config=BrokerConfig())
    dialled_by_x(lone)
    actions = lone.receive("X", SoftSpan(("A",)))
    assert CloseLink("X", "B has no mesh") in actions
    assert list(lone.broker.links) == ["A", "C"]
    assert validate(lone.broker) == []
