"""Soft links and the tables and the tree behind their spans: who may send when, and what happens to
a link when the tree that it was opened for is another one."""

import pytest

from byway.core.actions import Action, CloseLink, Send
from byway.model import TRUE
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
