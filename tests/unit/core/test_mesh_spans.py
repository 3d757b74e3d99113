"""Soft links and the tables and the tree behind their spans: who may send when, and what happens to
a link when the tree that it was opened for is another one."""

import pytest

from byway.core.actions import Action, CloseLink, Send
from byway.model import TRUE
from byway.model.bounds import NEIGHBOURS_MAX
from byway.model.messages import Batch, RecordUpdate, SoftSpan, SpanTaken, SubscribeAlong
from tests.lone_broker import Lone, advertise, entry, publication, subscribe
from tests.unit.core.test_mesh_misbehaviour import dialled_by_x, mesh_config, record


def told(actions: list[Action], link: str) -> list[object]:
    """The messages that B sends over a link."""
    sent = [a.frame for a in actions if isinstance(a, Send) and a.link == link]
    return [message for frame in sent if isinstance(frame, Batch) for message in frame.messages]


@pytest.mark.parametrize("restored", [False, True], ids=["", "restored"])
def test_a_broker_without_state_takes_data_when_all_but_the_neighbour_towards_the_sender_told(
    restored,
):
    """B, between A and C, has forgotten everything. X is behind A, which is dead."""
    lone = Lone("A", "C", config=mesh_config(), agreed=False, restarting=True, restored=restored)
    dialled_by_x(lone)
    assert told(lone.receive("X", SoftSpan(("A",))), "X") == []
    assert [*lone.broker.missing] == ["A", "C"]
    assert SpanTaken(("A",)) in told(lone.agree("C"), "X")
    assert [*lone.broker.missing] == ["A"]
    lone.receive("C", subscribe("of C"))
    assert told(lone.receive("X", publication(1)), "C") != []


def test_it_does_not_while_another_neighbour_is_missing():
    """As above, but A is there, and C is not."""
    lone = Lone("A", "C", config=mesh_config(), agreed=False, restarting=True)
    dialled_by_x(lone)
    lone.receive("X", SoftSpan(("A",)))
    assert SpanTaken(("A",)) not in told(lone.agree("A"), "X")
    assert [*lone.broker.missing] == ["C"]
    assert SpanTaken(("A",)) in told(lone.agree("C"), "X")


def test_a_soft_link_whose_span_the_tree_no_longer_has_is_drained():
    """X is behind A, and then no longer. What B had sent it is confirmed before the link closes."""
    lone = Lone("A", "C", config=mesh_config())
    lone.receive("A", RecordUpdate(True, (), (record("A", "B", "X"), record("X", "A", hops=2))))
    mesh = lone.broker.behaviours["mesh"]
    assert mesh.open_soft("X")
    dialled_by_x(lone)
    lone.receive("X", SpanTaken(("A",)))
    lone.receive("C", advertise("of C"))
    lone.receive("A", SubscribeAlong(entry("of X"), TRUE, ("X",)))
    assert told(lone.receive("C", publication(1)), "X") != []
    actions = lone.receive("A", RecordUpdate(False, ("X",), (record("A", "B", version=2),)))
    assert not mesh.soft["X"].wanted
    assert not any(isinstance(a, CloseLink) for a in actions)
    lone.receive("C", publication(2))
    assert lone.broker.held == 1  # it must not overtake the first
    actions = lone.acknowledge("X", 1)
    assert [message.sequence for message in told(actions, "A")] == [2]
    assert CloseLink("X", "nobody needs it any more") in actions


def test_a_span_that_records_deny_is_refused():
    """X says that it is behind A, which names its neighbours, and X is none of them: A has given it
    up while it was down. Or B will soon hear of it; then X may try again."""
    lone = Lone("A", "C", config=mesh_config())
    lone.receive("A", RecordUpdate(True, (), (record("A", "B", "Y"),)))
    dialled_by_x(lone)
    actions = lone.receive("X", SoftSpan(("A",)))
    assert CloseLink("X", "records deny the way that it passes by") in actions
    assert "X" not in lone.broker.links
    lone.receive("A", RecordUpdate(False, (), (record("A", "B", "X", version=2),)))
    dialled_by_x(lone)
    assert SpanTaken(("A",)) in told(lone.receive("X", SoftSpan(("A",))), "X")


@pytest.mark.parametrize(
    ("way", "denied"),
    [
        ("X A B", True),  # A is known to have others
        ("Y A B", False),  # A names Y
        ("Z Y A B", False),  # Y has told nothing, nor has Z
        ("W A B", False),  # W names A, which has not heard of it yet
        ("W Y A B", True),
        ("V Z Y A B", False),
        ("A B", False),
    ],
)
def test_what_records_deny(way, denied):
    lone = Lone("A", "C", config=mesh_config())
    records = record("A", "B", "Y"), record("W", "A", hops=2)
    lone.receive("A", RecordUpdate(True, (), records))
    assert lone.broker.behaviours["mesh"].records.denies(way.split()) == denied


def test_a_record_with_room_for_no_more_neighbours_denies_nothing():
    lone = Lone("A", "C", config=mesh_config())
    names = tuple(sorted(["B", *(f"N{number:04}" for number in range(NEIGHBOURS_MAX - 1))]))
    lone.receive("A", RecordUpdate(True, (), (record("A", *names),)))
    assert not lone.broker.behaviours["mesh"].records.denies(["X", "A", "B"])
    lone.receive("A", RecordUpdate(True, (), (record("A", *names[1:], version=2),)))
    assert lone.broker.behaviours["mesh"].records.denies(["X", "A", "B"])
